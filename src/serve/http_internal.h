/* What the files of HTTP share: http.c takes requests, reply.c answers them. */
#ifndef TD_SERVE_HTTP_INTERNAL_H
#define TD_SERVE_HTTP_INTERNAL_H

#include <stdatomic.h>

#include "serve/http.h"
#include "serve/limiter.h"
#include "serve/patience.h"

struct MHD_Daemon;

struct td_http {
    td_http_settings settings;
    struct MHD_Daemon *daemon;
    td_limiter *limiter; /* or NULL */
    td_patience *patience;
    bool is_loopback;
    uint16_t port;
    atomic_uint n_calls; /* under way */
    atomic_bool is_ending;
};

/* Whether the client has to do something within a time, or the connection ends: send, or take what it gets. While the
 * server works it has not, and the time begins anew. In the thread of the connection. */
void td_http_await_client(struct MHD_Connection *connection, bool is_awaited);

/* Whether pages from there may ask. */
bool td_http_allows(const td_http *http, const char *origin);

#endif
