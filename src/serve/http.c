/* See http.h. */
#include "serve/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"

enum {
    MOST_BODY = 1 << 20, /* bytes, where a route does not take more */
    TIMEOUT_S = 30,      /* of a connection on which nothing moves */
    HEAD_S = 30,         /* in which the head of a request must come, and then its body */
    BODY_S = 60,
    HEADER_BYTES = 16 * 1024
};

/* ---------------------------------------------------------------- who may ask */

/* The name of a host without its port: "[::1]:80" gives "::1". */
static void cut_host(const char *text, char *out, size_t capacity)
{
    const bool is_bracketed = text[0] == '[';
    const size_t length = is_bracketed ? strcspn(text + 1, "]") : strcspn(text, ":/");
    snprintf(out, capacity, "%.*s", (int)length, is_bracketed ? text + 1 : text);
}

static bool is_this_computer(const char *host)
{
    char name[256];
    struct in_addr v4; /* in full: 127.example.org is somebody's name */
    cut_host(host, name, sizeof name);
    return strcasecmp(name, "localhost") == 0 || strcmp(name, "::1") == 0 ||
           (inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET);
}

static bool is_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, word, length) == 0 && (at[length] == '\0' || at[length] == ',')) return true;
    }
    return false;
}

bool td_http_allows(const td_http *http, const char *origin)
{
    const char *host = strstr(origin, "://");
    if (http->settings.origins && is_listed(http->settings.origins, origin)) return true;
    return host && strncmp(origin, "http", 4) == 0 && is_this_computer(host + 3);
}

/* In a time that does not tell how much of it is right. */
static bool is_key(const char *key, const char *said)
{
    const size_t n_key = strlen(key), n_said = strlen(said);
    unsigned char differs = n_key != n_said;
    for (size_t i = 0; i < n_said; i++)
        differs |= (unsigned char)(key[n_key ? i % n_key : 0] ^ said[i]);
    return !differs;
}

const char *td_call_header(const td_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

static bool has_key(const td_call *call)
{
    const char *said = td_call_header(call, "Authorization");
    if (!call->http->settings.key) return true;
    return said && strncasecmp(said, "Bearer ", 7) == 0 && is_key(call->http->settings.key, said + 7);
}

/* A page of another host that a browser on this computer shows must not reach a server that only listens
 * here: neither by asking it (Origin), nor by giving it a name of its own (Host). */
static bool is_allowed(td_call *call)
{
    const td_http *http = call->http;
    const char *host = td_call_header(call, "Host"), *origin = td_call_header(call, "Origin");
    if (http->is_loopback && !http->settings.key && host && !is_this_computer(host)) {
        td_reply_error(call, 403, NULL, "wrong_host",
                       "this server answers to localhost alone, not to '%.100s'", host);
        return false;
    }
    if (origin && !td_http_allows(http, origin)) {
        td_reply_error(call, 403, NULL, "wrong_origin",
                       "pages of %.100s may not ask; allow them with --origins", origin);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- requests */

void td_http_await_client(struct MHD_Connection *connection, bool is_awaited)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, is_awaited ? TIMEOUT_S : 0u);
}

const char *td_call_query(const td_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* A path that ends in a star of the table takes whatever follows. */
static bool fits(const char *pattern, const char *path)
{
    const size_t length = strlen(pattern);
    if (length > 0 && pattern[length - 1] == '*') return strncmp(pattern, path, length - 1) == 0;
    return strcmp(pattern, path) == 0;
}

/* Of the path, with any method if there is none with this one. NULL: there is none. */
static const td_route *find_route(const td_http *http, const char *method, const char *path)
{
    const td_http_settings *s = &http->settings;
    const td_route *other = NULL;
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (size_t i = 0; i < s->n_routes; i++) {
        if (!fits(s->routes[i].path, path)) continue;
        if (strcmp(s->routes[i].method, method) == 0) return &s->routes[i];
        other = &s->routes[i];
    }
    return other;
}

static bool has_method(const td_call *call)
{
    return strcmp(call->route->method, call->method) == 0 ||
           (strcmp(call->route->method, "GET") == 0 && strcmp(call->method, "HEAD") == 0);
}

/* Not too often. False: the call is answered so. */
static bool is_in_time(td_call *call)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!call->http->limiter || !call->route->is_limited || !info) return true;
    call->retry_s = td_limiter_ask(call->http->limiter, info->client_addr, td_clock_ns());
    if (call->retry_s == 0) return true;
    td_reply_error(call, 429, NULL, "rate_limited", "too many requests in a minute; try again in %u s",
                   call->retry_s);
    return false;
}

static void route(td_call *call)
{
    if (!is_allowed(call)) return;
    if (strcmp(call->method, "OPTIONS") == 0)
        td_reply_bytes(call, 204, "text/plain", "", 0);
    else if (!call->route)
        td_reply_error(call, 404, NULL, "unknown_path", "there is no %.200s here", call->path);
    else if (!has_method(call))
        td_reply_error(call, 405, NULL, "wrong_method", "%s cannot be asked with %s; use %s", call->path,
                       call->method, call->route->method);
    else if (!call->route->is_open && !has_key(call))
        td_reply_error(call, 401, NULL, "invalid_api_key",
                       "the key is missing or wrong; send it as Authorization: Bearer KEY");
    else if (is_in_time(call))
        call->route->handler(call);
    if (!call->is_answered) td_reply_error(call, 500, NULL, "no_memory", "the server has no memory left");
}

/* A large body is only taken from who may send one. */
static size_t get_most_body(const td_call *call)
{
    const size_t most = call->route && has_method(call) ? call->route->most_body : 0;
    return most > MOST_BODY && (call->route->is_open || has_key(call)) ? most : MOST_BODY;
}

static td_waited *get_waited(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static td_call *begin_call(td_http *http, struct MHD_Connection *connection, const char *url,
                           const char *method)
{
    td_call *call = NULL;
    char *path = strdup(url);
    if (!path || TD_NEW(&call) != TD_OK) {
        free(path);
        return NULL;
    }
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    *call = (td_call){.http = http,
                      .connection = connection,
                      .context = http->settings.context,
                      .method = method,
                      .path = path,
                      .route = find_route(http, method, path)};
    call->most_body = get_most_body(call);
    td_patience_set(http->patience, get_waited(connection), BODY_S);
    atomic_fetch_add(&http->n_calls, 1);
    return call;
}

static enum MHD_Result take_request(void *context, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_bytes, void **state)
{
    td_call *call = *state;
    (void)version;
    if (!call) {
        *state = call = begin_call(context, connection, url, method);
        return call ? MHD_YES : MHD_NO;
    }
    if (*upload_bytes > 0) {
        if (call->body.size <= call->most_body) td_bytes_add(&call->body, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (call->is_answered) return MHD_YES;
    td_patience_set(call->http->patience, get_waited(connection), 0);
    if (call->body.size > call->most_body) {
        td_reply_error(call, 413, NULL, "body_too_large", "the body is larger than %zu bytes",
                       call->most_body);
    } else {
        const size_t bytes = call->body.size;
        td_bytes_add(&call->body, "", 1); /* its end as a text */
        call->body.size = bytes;
        td_http_await_client(connection, false);
        if (!call->body.has_failed) route(call);
        td_http_await_client(connection, true);
    }
    return call->is_answered ? MHD_YES : MHD_NO;
}

static void end_request(void *context, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code)
{
    td_http *http = context;
    td_call *call = *state;
    (void)code;
    if (!call) return;
    td_patience_set(http->patience, get_waited(connection), HEAD_S);
    td_bytes_free(&call->body);
    free((char *)call->path);
    free(call);
    *state = NULL;
    atomic_fetch_sub(&http->n_calls, 1);
}

static void notice_connection(void *context, struct MHD_Connection *connection, void **state,
                              enum MHD_ConnectionNotificationCode code)
{
    td_http *http = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *state = info ? td_patience_begin(http->patience, info->connect_fd, HEAD_S) : NULL;
    else
        td_patience_end(http->patience, *state);
}

/* ---------------------------------------------------------------- life */

td_status td_http_read_address(const char *host, uint16_t port, td_address *out, bool *is_loopback)
{
    const char *name = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, name, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
        *is_loopback = (ntohl(out->v4.sin_addr.s_addr) >> 24) == 127;
    } else if (inet_pton(AF_INET6, name, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(port);
        *is_loopback = IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr);
    } else {
        return TD_FAIL(TD_ERR_CONFIG,
                       "serve.host: '%s' is not an address; give one such as 127.0.0.1, 0.0.0.0 or ::1",
                       host);
    }
    return TD_OK;
}

static td_status start_daemon(td_http *http, const td_address *where)
{
    const td_http_settings *s = &http->settings;
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
    if (where->any.sa_family == AF_INET6) flags |= MHD_USE_IPv6;
    errno = 0;
    http->daemon = MHD_start_daemon(
        flags, s->port, NULL, NULL, take_request, http, MHD_OPTION_SOCK_ADDR, &where->any,
        MHD_OPTION_NOTIFY_COMPLETED, end_request, http, MHD_OPTION_NOTIFY_CONNECTION, notice_connection, http,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->most_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES * 2, MHD_OPTION_END);
    if (!http->daemon)
        return TD_FAIL(TD_ERR_CONFIG,
                       "cannot listen at %s port %u: %s; is another server there? choose another serve.port",
                       s->host, s->port, errno ? strerror(errno) : "it was refused");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    http->port = info ? info->port : s->port;
    return TD_OK;
}

td_status td_http_open(const td_http_settings *settings, td_http **out)
{
    td_http *http = NULL;
    td_address where;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&http));
    http->settings = *settings;
    TD_TRY(td_http_read_address(settings->host, settings->port, &where, &http->is_loopback));
    TD_FAIL_IF(!http->is_loopback && !settings->key, TD_ERR_CONFIG,
               "serve.host: %s can be reached from other computers, so a key is needed; name a file with one "
               "as serve.api_key_file",
               settings->host);
    if (settings->rate_limit) TD_TRY(td_limiter_create(settings->rate_limit, &http->limiter));
    TD_TRY(td_patience_open(&http->patience));
    TD_TRY(start_daemon(http, &where));
    *out = http;
    return TD_OK;
fail:
    td_http_close(http);
    return status;
}

uint16_t td_http_port(const td_http *http)
{
    return http->port;
}

bool td_http_drain(td_http *http, uint32_t timeout_ms)
{
    const uint64_t deadline_ns = td_clock_ns() + UINT64_C(1000000) * timeout_ms;
    atomic_store(&http->is_ending, true);
    while (atomic_load(&http->n_calls) > 0 && td_clock_ns() < deadline_ns)
        td_clock_sleep_until(td_clock_ns() + 10000000);
    return atomic_load(&http->n_calls) == 0;
}

void td_http_close(td_http *http)
{
    if (!http) return;
    if (http->daemon) MHD_stop_daemon(http->daemon);
    td_patience_close(http->patience);
    td_limiter_destroy(http->limiter);
    free(http);
}
