/* HTTP for the server: a request with its body, and the ways to answer it. libmicrohttpd gives each
 * connection a thread, so that a handler may wait. Who may ask is decided here: the key, the host that was
 * asked for, the page that asks. Covered by tests/serve.
 */
#ifndef TD_SERVE_HTTP_H
#define TD_SERVE_HTTP_H

#include <netinet/in.h>
#include <stdint.h>

#include "base/json.h"
#include "serve/bytes.h"
#include "serve/encoder.h"
#include "serve/jobs.h"

struct MHD_Connection;

typedef struct td_http td_http;

/* One request. Valid until its handler returns. */
typedef struct td_call {
    td_http *http;
    struct MHD_Connection *connection;
    void *context;      /* of the routes */
    const char *method; /* "POST" */
    const char *path;   /* without what follows ?, and without a slash at its end */
    td_bytes body;      /* zero-terminated behind its end */
    bool is_answered;
} td_call;

/* Answers the call in one of the ways below. */
typedef void td_handler(td_call *call);

typedef struct td_route {
    const char *method, *path;
    td_handler *handler;
    bool is_open; /* asks for no key */
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

/* The samples of a job as they come. Job and encoder are owned by the answer from here on. */
typedef struct td_reply_stream_options {
    td_job *job;
    td_encoder *encoder;
    bool is_sse;           /* as events of OpenAI's kind, the bytes in base64 */
    uint64_t input_tokens; /* told at the end of events */
} td_reply_stream_options;
void td_reply_stream(td_call *call, const td_reply_stream_options *options);

#endif
