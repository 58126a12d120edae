/* Answers to requests: whole, or while they are made. See http.h. */
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "serve/http_internal.h"

static void add_headers(td_call *call, struct MHD_Response *response, const char *type)
{
    const char *origin = td_call_header(call, "Origin");
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'self'; style-src 'self' 'unsafe-inline'; media-src 'self' blob:; "
                            "img-src 'self' blob: data:; frame-ancestors 'none'");
    if (!origin || !td_http_allows(call->http, origin)) return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    MHD_add_response_header(response, "Vary", "Origin");
    MHD_add_response_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
}

/* When to try again. */
static void add_wait(const td_call *call, struct MHD_Response *response)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%u", call->retry_s ? call->retry_s : 1);
    MHD_add_response_header(response, "Retry-After", seconds);
}

static void send_response(td_call *call, unsigned code, struct MHD_Response *response, const char *type)
{
    if (!response) return;
    if (!call->is_answered) {
        add_headers(call, response, type);
        if (code == 429 || code == 503) add_wait(call, response);
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

/* ---------------------------------------------------------------- while they are made */

/* An answer under way. */
typedef struct stream {
    td_http *http;
    struct MHD_Connection *connection;
    td_source source;
    int socket;
    td_bytes out; /* made, and not sent yet */
    td_source_state state;
} stream;

static bool is_gone(int socket)
{
    struct pollfd p = {.fd = socket, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
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

static ssize_t read_stream(void *context, uint64_t position, char *out, size_t most)
{
    stream *s = context;
    (void)position;
    for (;;) {
        const size_t n = td_bytes_take(&s->out, out, most);
        if (n > 0) return (ssize_t)n;
        if (s->state == TD_SOURCE_FAILED || s->out.has_failed) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (s->state == TD_SOURCE_END) return MHD_CONTENT_READER_END_OF_STREAM;
        if (is_gone(s->socket)) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (s->source.is_endless && atomic_load(&s->http->is_ending)) return MHD_CONTENT_READER_END_OF_STREAM;
        td_http_await_client(s->connection, false);
        s->state = s->source.fill(s->source.context, &s->out);
        td_http_await_client(s->connection, true);
    }
}

static void free_stream(void *context)
{
    stream *s = context;
    s->source.close(s->source.context);
    td_bytes_free(&s->out);
    free(s);
}

void td_reply_source(td_call *call, const char *type, const td_source *source)
{
    stream *s = NULL;
    struct MHD_Response *response = NULL;
    if (TD_NEW(&s) == TD_OK) {
        *s = (stream){.http = call->http,
                      .connection = call->connection,
                      .source = *source,
                      .socket = get_socket(call)};
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, s, free_stream);
        if (!response) free_stream(s);
    } else {
        source->close(source->context);
    }
    if (!response) {
        td_reply_error(call, 500, NULL, "no_memory", "the server has no memory left");
        return;
    }
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    send_response(call, 200, response, type);
}
