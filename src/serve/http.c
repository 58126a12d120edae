/* See http.h. */
#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"

enum {
    MOST_BODY = 1 << 20, /* bytes */
    TIMEOUT_S = 30,      /* of a connection on which nothing moves */
    HEADER_BYTES = 16 * 1024
};

struct td_http {
    td_http_settings settings;
    struct MHD_Daemon *daemon;
    bool is_loopback;
    uint16_t port;
    atomic_uint n_calls; /* under way */
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
    cut_host(host, name, sizeof name);
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
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

static bool is_allowed_origin(const td_http *http, const char *origin)
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

static const char *get_header(const td_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

static bool has_key(const td_call *call)
{
    const char *said = get_header(call, "Authorization");
    if (!call->http->settings.key) return true;
    return said && strncasecmp(said, "Bearer ", 7) == 0 && is_key(call->http->settings.key, said + 7);
}

/* A page of another host that a browser on this computer shows must not reach a server that only listens
 * here: neither by asking it (Origin), nor by giving it a name of its own (Host). */
static bool is_allowed(td_call *call)
{
    const td_http *http = call->http;
    const char *host = get_header(call, "Host"), *origin = get_header(call, "Origin");
    if (http->is_loopback && !http->settings.key && host && !is_this_computer(host)) {
        td_reply_error(call, 403, NULL, "wrong_host",
                       "this server answers to localhost alone, not to '%.100s'", host);
        return false;
    }
    if (origin && !is_allowed_origin(http, origin)) {
        td_reply_error(call, 403, NULL, "wrong_origin",
                       "pages of %.100s may not ask; allow them with --origins", origin);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- answers */

static void add_headers(td_call *call, struct MHD_Response *response, const char *type)
{
    const char *origin = get_header(call, "Origin");
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'self'; style-src 'self' 'unsafe-inline'; media-src 'self' blob:; "
                            "frame-ancestors 'none'");
    if (!origin || !is_allowed_origin(call->http, origin)) return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(response, "Vary", "Origin");
    MHD_add_response_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
}

static void send_response(td_call *call, unsigned code, struct MHD_Response *response, const char *type)
{
    if (!response) return;
    if (!call->is_answered) {
        add_headers(call, response, type);
        if (code == 429) MHD_add_response_header(response, "Retry-After", "1");
        if (code == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
        call->is_answered = MHD_queue_response(call->connection, code, response) == MHD_YES;
    }
    MHD_destroy_response(response);
}

void td_reply_bytes(td_call *call, unsigned code, const char *type, const void *data, size_t bytes)
{
    send_response(call, code, MHD_create_response_from_buffer(bytes, (void *)data, MHD_RESPMEM_MUST_COPY),
                  type);
}

void td_reply_json(td_call *call, unsigned code, td_json *json)
{
    const char *text;
    if (json && td_json_finish(json, &text) == TD_OK)
        td_reply_bytes(call, code, "application/json", text, strlen(text));
    td_json_destroy(json);
}

void td_reply_error(td_call *call, unsigned http_code, const char *param, const char *code,
                    const char *format, ...)
{
    char message[1024];
    td_json *json = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_object(json, "error");
        td_json_put_string(json, "message", message);
        td_json_put_string(json, "type", http_code < 500 ? "invalid_request_error" : "server_error");
        td_json_put_string(json, "param", param);
        td_json_put_string(json, "code", code);
        td_json_end_object(json);
        td_json_end_object(json);
    }
    td_reply_json(call, http_code, json);
}

/* ---------------------------------------------------------------- streams */

/* An answer under way. */
typedef struct stream {
    td_http *http;
    td_reply_stream_options options;
    int socket;
    td_bytes events; /* in base64, if they are asked for */
    uint64_t n_samples;
    bool has_ended, has_failed;
} stream;

static bool is_gone(int socket)
{
    struct pollfd p = {.fd = socket, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void add_base64(td_bytes *out, const unsigned char *data, size_t bytes)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        const uint32_t word = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                              (left > 2 ? data[i + 2] : 0);
        const char four[4] = {DIGITS[word >> 18], DIGITS[word >> 12 & 63],
                              left > 1 ? DIGITS[word >> 6 & 63] : '=', left > 2 ? DIGITS[word & 63] : '='};
        td_bytes_add(out, four, 4);
    }
}

static void make_events(stream *s)
{
    unsigned char piece[3 * 4096];
    td_bytes *from = &s->options.encoder->out;
    for (size_t n; (n = td_bytes_take(from, piece, sizeof piece)) > 0;) {
        td_bytes_print(&s->events, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"");
        add_base64(&s->events, piece, n);
        td_bytes_print(&s->events, "\"}\n\n");
    }
    if (!s->has_ended || s->has_failed) return;
    const unsigned long long in = s->options.input_tokens, out = s->n_samples / 1024;
    td_bytes_print(&s->events,
                   "data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":%llu,"
                   "\"output_tokens\":%llu,\"total_tokens\":%llu}}\n\n",
                   in, out, in + out);
}

/* Samples that are there, encoded; waits for a quarter of a second at most. */
static void fill_stream(stream *s)
{
    float samples[4096];
    size_t count = 0;
    const td_status status =
        td_job_read(s->options.job, samples, sizeof samples / sizeof *samples, 250, &count, NULL);
    if (status == TD_ERR_TIMEOUT) return;
    s->n_samples += count;
    if (count > 0) {
        s->has_failed = td_encoder_put(s->options.encoder, samples, count) != TD_OK;
    } else {
        s->has_failed = status != TD_OK || td_encoder_end(s->options.encoder) != TD_OK;
        s->has_ended = true;
    }
    s->has_ended |= s->has_failed;
    if (s->options.is_sse) make_events(s);
    s->has_failed |= s->events.has_failed;
}

static ssize_t read_stream(void *context, uint64_t position, char *out, size_t most)
{
    stream *s = context;
    (void)position;
    for (;;) {
        td_bytes *bytes = s->options.is_sse ? &s->events : &s->options.encoder->out;
        const size_t n = td_bytes_take(bytes, out, most);
        if (n > 0) return (ssize_t)n;
        if (s->has_failed) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (s->has_ended) return MHD_CONTENT_READER_END_OF_STREAM;
        if (is_gone(s->socket)) return MHD_CONTENT_READER_END_WITH_ERROR;
        fill_stream(s);
    }
}

static void free_stream(void *context)
{
    stream *s = context;
    td_job_release(s->options.job);
    td_encoder_close(s->options.encoder);
    td_bytes_free(&s->events);
    free(s);
}

static int get_socket(const td_call *call)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

bool td_call_is_gone(const td_call *call)
{
    return is_gone(get_socket(call));
}

void td_reply_stream(td_call *call, const td_reply_stream_options *options)
{
    stream *s = NULL;
    struct MHD_Response *response = NULL;
    const char *type = options->is_sse ? "text/event-stream" : options->encoder->format->type;
    if (TD_NEW(&s) == TD_OK) {
        *s = (stream){.http = call->http, .options = *options, .socket = get_socket(call)};
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, s, free_stream);
        if (!response) free_stream(s);
    } else {
        td_job_release(options->job);
        td_encoder_close(options->encoder);
    }
    if (!response) {
        td_reply_error(call, 500, NULL, "no_memory", "the server has no memory left");
        return;
    }
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    send_response(call, 200, response, type);
}

/* ---------------------------------------------------------------- requests */

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

static void route(td_call *call)
{
    const td_http_settings *s = &call->http->settings;
    const bool is_head = strcmp(call->method, "HEAD") == 0;
    const char *method = is_head ? "GET" : call->method;
    bool is_known = false;
    if (!is_allowed(call)) return;
    if (strcmp(method, "OPTIONS") == 0) {
        td_reply_bytes(call, 204, "text/plain", "", 0);
        return;
    }
    for (size_t i = 0; i < s->n_routes; i++) {
        if (!fits(s->routes[i].path, call->path)) continue;
        is_known = true;
        if (strcmp(s->routes[i].method, method) != 0) continue;
        if (!s->routes[i].is_open && !has_key(call)) {
            td_reply_error(call, 401, NULL, "invalid_api_key",
                           "the key is missing or wrong; send it as Authorization: Bearer KEY");
            return;
        }
        s->routes[i].handler(call);
        if (!call->is_answered) td_reply_error(call, 500, NULL, "no_memory", "the server has no memory left");
        return;
    }
    if (is_known)
        td_reply_error(call, 405, NULL, "wrong_method", "%s cannot be asked with %s", call->path,
                       call->method);
    else
        td_reply_error(call, 404, NULL, "unknown_path", "there is no %.200s here", call->path);
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
                      .path = path};
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
        if (call->body.size <= MOST_BODY) td_bytes_add(&call->body, upload, *upload_bytes);
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (call->is_answered) return MHD_YES;
    if (call->body.size > MOST_BODY) {
        td_reply_error(call, 413, NULL, "body_too_large", "the body is larger than %d bytes", MOST_BODY);
    } else {
        const size_t bytes = call->body.size;
        td_bytes_add(&call->body, "", 1); /* its end as a text */
        call->body.size = bytes;
        if (!call->body.has_failed) route(call);
    }
    return call->is_answered ? MHD_YES : MHD_NO;
}

static void end_request(void *context, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code)
{
    td_http *http = context;
    td_call *call = *state;
    (void)connection;
    (void)code;
    if (!call) return;
    td_bytes_free(&call->body);
    free((char *)call->path);
    free(call);
    *state = NULL;
    atomic_fetch_sub(&http->n_calls, 1);
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
    http->daemon =
        MHD_start_daemon(flags, s->port, NULL, NULL, take_request, http, MHD_OPTION_SOCK_ADDR, &where->any,
                         MHD_OPTION_NOTIFY_COMPLETED, end_request, http, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)s->most_connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES * 2, MHD_OPTION_END);
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
    while (atomic_load(&http->n_calls) > 0 && td_clock_ns() < deadline_ns)
        td_clock_sleep_until(td_clock_ns() + 10000000);
    return atomic_load(&http->n_calls) == 0;
}

void td_http_close(td_http *http)
{
    if (!http) return;
    if (http->daemon) MHD_stop_daemon(http->daemon);
    free(http);
}
