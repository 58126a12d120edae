/* HTTP for the server: a request with its body, and the ways to answer it. libmicrohttpd gives each
 * connection a thread, so that a handler may wait. Who may ask is decided here: the key, the host that was
 * asked for, the page that asks, how often, how slowly. Covered by tests/cli/test_serve.py.
 */
#ifndef TD_SERVE_HTTP_H
#define TD_SERVE_HTTP_H

#include <netinet/in.h>
#include <stdint.h>

#include "base/json.h"
#include "serve/bytes.h"

struct MHD_Connection;

typedef struct td_http td_http;

/* One request. Valid until its handler returns. */
typedef struct td_call {
    td_http *http;
    struct MHD_Connection *connection;
    void *context;                /* of the routes */
    const char *method;           /* "POST" */
    const char *path;             /* without what follows ?, and without a slash at its end */
    const struct td_route *route; /* NULL: there is none */
    td_bytes body;                /* zero-terminated behind its end */
    size_t most_body;             /* that is taken */
    uint32_t retry_s;             /* that an answer of "too many" tells; 0: 1 */
    bool is_answered;
} td_call;

/* Answers the call in one of the ways below. */
typedef void td_handler(td_call *call);

typedef struct td_route {
    const char *method, *path; /* a path that ends in a star takes whatever follows */
    td_handler *handler;
    bool is_open;     /* asks for no key */
    bool is_limited;  /* counts for settings.rate_limit */
    size_t most_body; /* bytes; 0: the usual 1 MiB */
} td_route;

typedef struct td_http_settings {
    const char *host; /* an address to listen at */
    uint16_t port;    /* 0: any that is free */
    const char *key;  /* NULL: none is asked for; only for loopback */
    const char *
        origins; /* pages of other hosts that may ask, separated by commas, or NULL; those of this computer may */
    const td_route *routes;
    size_t n_routes;
    void *context;
    uint32_t most_connections;
    uint32_t rate_limit; /* limited requests a minute of one client of another computer; 0: any number */
} td_http_settings;

typedef union td_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} td_address;

/* TD_ERR_CONFIG for a host that is not an address. */
td_status td_http_read_address(const char *host, uint16_t port, td_address *out, bool *is_loopback);

/* All is borrowed until close. TD_ERR_CONFIG: an address that cannot be listened at, or needs a key. *out: owned,
 * td_http_close(). */
td_status td_http_open(const td_http_settings *settings, td_http **out);
uint16_t td_http_port(const td_http *http);

/* Waits up to timeout_ms for the answers under way; false if some are left. */
bool td_http_drain(td_http *http, uint32_t timeout_ms);
void td_http_close(td_http *http);

/* A header, or NULL; borrowed from the call. */
const char *td_call_header(const td_call *call, const char *name);

/* A value of the query, or NULL; borrowed from the call. */
const char *td_call_query(const td_call *call, const char *name);

/* Whether whoever asked has hung up. */
bool td_call_is_gone(const td_call *call);

/* ---------------------------------------------------------------- answers: the first counts */

void td_reply_bytes(td_call *call, unsigned code, const char *type, const void *data, size_t bytes);

/* Ends the document and destroys it. NULL: there was no memory for it. */
void td_reply_json(td_call *call, unsigned code, td_json *json);

/* {"error":{"message","type","param","code"}}; param may be NULL. */
void td_reply_error(td_call *call, unsigned http_code, const char *param, const char *code,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* An answer that is made while it is sent. */
typedef enum td_source_state { TD_SOURCE_MORE, TD_SOURCE_END, TD_SOURCE_FAILED } td_source_state;
typedef struct td_source {
    /* Adds what is there to `out`, waiting for a quarter of a second at most. */
    td_source_state (*fill)(void *context, td_bytes *out);
    void (*close)(void *context);
    void *context;   /* owned by the answer from td_reply_source() on */
    bool is_endless; /* the end of the server ends it too */
} td_source;
void td_reply_source(td_call *call, const char *type, const td_source *source);

#endif
