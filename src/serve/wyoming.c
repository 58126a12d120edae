/* See wyoming.h. A thread for each connection: there are few, and they stay. */
#include "serve/wyoming.h"

#include <arpa/inet.h>
#include <cJSON.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "audio/encode.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "tandem/version.h"

enum { MOST_PEERS = 32, LOOK_MS = 200, CHUNK = 2048, SEND_TIMEOUT_S = 30, SURE_LETTERS = 4 };

/* Between sentences that were spoken one by one, as within a text. */
#define PAUSE_S 0.2

typedef struct peer {
    td_wyoming *wyoming;
    pthread_t thread;
    int socket;
    bool is_used, has_ended;
    td_bytes in;     /* received, and not read yet */
    td_bytes text;   /* of a text that comes in pieces */
    char voice[512]; /* that it is for */
    char language[16];
    bool is_streaming;
    uint32_t rate; /* of the sound that was begun and goes on; 0: none was */
} peer;

struct td_wyoming {
    td_server *server;
    int socket;
    uint16_t port;
    pthread_t thread;
    bool is_running;
    atomic_bool is_closing;
    peer peers[MOST_PEERS];
};

/* ---------------------------------------------------------------- reading */

td_status td_wyoming_read_head(const char *line, td_wyoming_head *out)
{
    td_status status = TD_OK;
    *out = (td_wyoming_head){0};
    cJSON *head = cJSON_ParseWithOpts(line, NULL, true);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(head, "type");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(head, "data_length");
    const cJSON *payload = cJSON_GetObjectItemCaseSensitive(head, "payload_length");
    TD_FAIL_IF(!cJSON_IsString(type) || strlen(type->valuestring) >= sizeof out->type, TD_ERR_FORMAT,
               "a message must begin with a line of JSON that has a type");
    const double n_data = cJSON_IsNumber(data) ? data->valuedouble : 0;
    const double n_payload = cJSON_IsNumber(payload) ? payload->valuedouble : 0;
    TD_FAIL_IF(!(n_data >= 0 && n_data <= TD_WYOMING_DATA && n_payload >= 0 && n_payload <= TD_WYOMING_DATA),
               TD_ERR_FORMAT, "a message has at most %d bytes of data and of payload", TD_WYOMING_DATA);
    snprintf(out->type, sizeof out->type, "%s", type->valuestring);
    out->data_bytes = (size_t)n_data;
    out->payload_bytes = (size_t)n_payload;
    out->data = cJSON_DetachItemFromObjectCaseSensitive(head, "data");
fail:
    cJSON_Delete(head);
    return status;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes of the sign at `text` if it ends a sentence, else 0. */
static size_t match_end(const char *text, size_t bytes, size_t n_letters)
{
    static const char *const WIDE[] = {"\u3002", "\uff01", "\uff1f"}; /* no space follows them */
    for (size_t i = 0; i < sizeof WIDE / sizeof *WIDE; i++)
        if (bytes >= 3 && memcmp(text, WIDE[i], 3) == 0) return 3;
    if (bytes < 2 || !is_space(text[1])) return 0;
    return *text == '!' || *text == '?' || (*text == '.' && n_letters >= SURE_LETTERS);
}

size_t td_wyoming_count_whole(const char *text, size_t bytes)
{
    size_t at = 0, whole = 0, n_letters = 0;
    while (at < bytes && is_space(text[at]))
        at++;
    if (at < bytes && text[at] == '<') return 0;
    for (; at < bytes; at++) {
        const unsigned char c = (unsigned char)text[at];
        const size_t end = match_end(text + at, bytes - at, n_letters);
        const bool is_letter = c >= 0x80 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (end > 0) whole = at + end;
        if (!is_letter) n_letters = 0;
        if (is_letter && (c & 0xc0) != 0x80) n_letters++; /* of UTF-8, by their first bytes */
    }
    return whole;
}

/* More bytes into p->in; false at the end of the connection or of the server. */
static bool receive(peer *p)
{
    char piece[4096];
    for (;;) {
        struct pollfd event = {.fd = p->socket, .events = POLLIN};
        if (atomic_load(&p->wyoming->is_closing)) return false;
        if (poll(&event, 1, LOOK_MS) <= 0) continue;
        const ssize_t n = recv(p->socket, piece, sizeof piece, 0);
        if (n <= 0) return false;
        td_bytes_add(&p->in, piece, (size_t)n);
        return !p->in.has_failed;
    }
}

/* *out: owned, with a zero behind it. False: the connection has ended, or there is no memory. */
static bool read_bytes(peer *p, size_t bytes, char **out)
{
    while (p->in.size - p->in.first < bytes)
        if (!receive(p)) return false;
    if (TD_NEW_ARRAY(out, bytes + 1) != TD_OK) return false;
    td_bytes_take(&p->in, *out, bytes);
    return true;
}

static bool read_line(peer *p, char **out)
{
    for (;;) {
        const size_t left = p->in.size - p->in.first;
        const char *start = left ? (const char *)p->in.data + p->in.first : NULL;
        const char *end = left ? memchr(start, '\n', left) : NULL;
        if (end) return read_bytes(p, (size_t)(end - start) + 1, out);
        if (left > TD_WYOMING_LINE || !receive(p)) return false;
    }
}

/* A whole message. False ends the connection. */
static bool read_message(peer *p, td_wyoming_head *head)
{
    char *line = NULL, *bytes = NULL;
    *head = (td_wyoming_head){0};
    bool is_read = read_line(p, &line) && td_wyoming_read_head(line, head) == TD_OK;
    free(line);
    if (is_read && head->data_bytes > 0) {
        is_read = read_bytes(p, head->data_bytes, &bytes);
        cJSON_Delete(head->data);
        head->data = is_read ? cJSON_ParseWithOpts(bytes, NULL, true) : NULL;
        free(bytes);
        bytes = NULL;
    }
    if (is_read && head->payload_bytes > 0) is_read = read_bytes(p, head->payload_bytes, &bytes);
    free(bytes);
    return is_read;
}

/* ---------------------------------------------------------------- writing */

static bool send_all(peer *p, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        const ssize_t n = send(p->socket, at, bytes, MSG_NOSIGNAL);
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* `json`: the data, an object that is closed; destroyed here. NULL: no data. */
static bool send_message(peer *p, const char *type, td_json *json, const void *payload, size_t bytes)
{
    const char *data = "";
    char head[256];
    bool is_sent = !json || td_json_finish(json, &data) == TD_OK;
    snprintf(head, sizeof head,
             "{\"type\":\"%s\",\"version\":\"%s\",\"data_length\":%zu,\"payload_length\":%zu}\n", type,
             TANDEM_VERSION, strlen(data), bytes);
    is_sent = is_sent && send_all(p, head, strlen(head)) && send_all(p, data, strlen(data)) &&
              send_all(p, payload, bytes);
    td_json_destroy(json);
    return is_sent;
}

static td_json *begin_data(void)
{
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) != TD_OK) return NULL;
    td_json_begin_object(json);
    return json;
}

static bool send_error(peer *p, const char *text, const char *code)
{
    td_json *json = begin_data();
    if (!json) return false;
    td_json_put_string(json, "text", text);
    td_json_put_string(json, "code", code);
    td_json_end_object(json);
    return send_message(p, "error", json, "", 0);
}

static bool send_format(peer *p, const char *type, uint32_t rate, const void *payload, size_t bytes)
{
    td_json *json = begin_data();
    if (!json) return false;
    td_json_put_uint(json, "rate", rate);
    td_json_put_uint(json, "width", 2);
    td_json_put_uint(json, "channels", 1);
    td_json_end_object(json);
    return send_message(p, type, json, payload, bytes);
}

/* ---------------------------------------------------------------- describe */

static void put_origin(td_json *json, const char *description)
{
    td_json_put_object(json, "attribution");
    td_json_put_string(json, "name", "Tandem");
    td_json_put_string(json, "url", "");
    td_json_end_object(json);
    td_json_put_bool(json, "installed", true);
    td_json_put_string(json, "description", description);
    td_json_put_string(json, "version", TANDEM_VERSION);
}

static void put_voice(td_json *json, const td_server *server, const char *name, size_t voice, bool is_clone)
{
    const td_voice_info *info = td_jobs_info(server->jobs, voice);
    td_json_begin_object(json);
    td_json_put_string(json, "name", name);
    put_origin(json, info->family);
    td_server_put_lines(json, "languages", info->languages, NULL);
    td_server_put_lines(json, "speakers", is_clone ? "" : info->speakers, "name");
    td_json_end_object(json);
}

static bool describe(peer *p)
{
    const td_server *server = p->wyoming->server;
    char name[TD_VOICE_NAME], base[TD_VOICE_NAME];
    td_who who;
    td_json *json = begin_data();
    if (!json) return false;
    td_json_put_array(json, "tts");
    td_json_begin_object(json);
    td_json_put_string(json, "name", "tandem");
    put_origin(json, "Voices trained with Tandem");
    td_json_put_bool(json, "supports_synthesize_streaming", true);
    td_json_put_array(json, "voices");
    for (size_t i = 0; i < server->settings.jobs.n_voices; i++)
        put_voice(json, server, server->settings.jobs.voices[i].name, i, false);
    for (size_t i = 0; server->clones && td_clones_get(server->clones, i, name, base); i++)
        if (td_server_match_voice(server, base, &who)) put_voice(json, server, name, who.voice, true);
    td_json_end_array(json);
    td_json_end_object(json);
    td_json_end_array(json);
    td_json_end_object(json);
    return send_message(p, "info", json, "", 0);
}

/* ---------------------------------------------------------------- synthesize */

static void copy_field(const cJSON *object, const char *name, char *out, size_t capacity)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    snprintf(out, capacity, "%s", cJSON_IsString(item) ? item->valuestring : "");
}

/* Of a message's data: "NAME" or "NAME:SPEAKER"; none is the first voice. */
static void keep_voice(peer *p, const cJSON *data)
{
    const cJSON *voice = cJSON_GetObjectItemCaseSensitive(data, "voice");
    char speaker[256];
    copy_field(voice, "name", p->voice, sizeof p->voice);
    copy_field(voice, "language", p->language, sizeof p->language);
    copy_field(voice, "speaker", speaker, sizeof speaker);
    const size_t used = strlen(p->voice);
    if (used && *speaker) snprintf(p->voice + used, sizeof p->voice - used, ":%s", speaker);
}

static bool send_samples(peer *p, td_job *job, uint32_t rate, td_error *error)
{
    float samples[CHUNK];
    unsigned char bytes[2 * CHUNK];
    size_t count;
    for (;;) {
        const td_status status = td_job_read(job, samples, CHUNK, LOOK_MS, &count, error);
        if (status == TD_ERR_TIMEOUT) continue;
        if (count == 0) return true;
        td_audio_to_bytes(samples, count, bytes);
        if (!send_format(p, "audio-chunk", rate, bytes, 2 * count)) return false;
    }
}

static bool send_pause(peer *p)
{
    static const unsigned char silence[2 * CHUNK];
    for (size_t left = (size_t)(PAUSE_S * p->rate); left > 0;) {
        const size_t count = left < CHUNK ? left : CHUNK;
        if (!send_format(p, "audio-chunk", p->rate, silence, 2 * count)) return false;
        left -= count;
    }
    return true;
}

/* A text as sound, or a part of one, that goes on from what was begun. What is wrong with it is told; false ends the
 * connection. */
static bool speak(peer *p, const char *text)
{
    td_server *server = p->wyoming->server;
    td_job_request request = {.text = text,
                              .options = {.size = sizeof request.options,
                                          .seed = TD_USUAL_SEED,
                                          .language = *p->language ? p->language : NULL}};
    td_job *job = NULL;
    td_error error = {.status = TD_OK};
    td_who who = {0};
    if (*p->voice && !td_server_match_voice(server, p->voice, &who))
        return send_error(p, "there is no such voice", "voice-not-found");
    request.voice = who.voice;
    request.options.speaker = who.speaker;
    request.options.reference = *who.reference ? who.reference : NULL;
    if (td_jobs_add(server->jobs, &request, &job) != TD_OK)
        return send_error(p, td_error_last()->message, "busy");
    const uint32_t rate = td_jobs_info(server->jobs, request.voice)->rate;
    bool is_sent = p->rate ? send_pause(p) : send_format(p, "audio-start", rate, "", 0);
    p->rate = rate;
    is_sent = is_sent && send_samples(p, job, rate, &error);
    if (is_sent && error.status != TD_OK) is_sent = send_error(p, error.message, "synthesis-failed");
    td_job_release(job);
    return is_sent;
}

static bool end_sound(peer *p)
{
    const bool was_begun = p->rate > 0;
    p->rate = 0;
    return !was_begun || send_message(p, "audio-stop", NULL, "", 0);
}

/* The first bytes of a text that comes in pieces. */
static bool speak_part(peer *p, size_t bytes)
{
    char *part = NULL;
    if (bytes == 0) return true;
    if (TD_NEW_ARRAY(&part, bytes + 1) != TD_OK) return false;
    td_bytes_take(&p->text, part, bytes);
    const bool is_sent = speak(p, part);
    free(part);
    return is_sent;
}

/* Sentences are spoken as soon as they are whole. */
static bool add_piece(peer *p, const char *text)
{
    if (p->text.size - p->text.first + strlen(text) > TD_WYOMING_DATA)
        return send_error(p, "the text is too long", "too-long");
    td_bytes_add(&p->text, text, strlen(text));
    if (p->text.has_failed) return false;
    if (p->text.size == p->text.first) return true;
    return speak_part(
        p, td_wyoming_count_whole((const char *)p->text.data + p->text.first, p->text.size - p->text.first));
}

/* What is left, but for the space behind the last sentence. */
static bool end_pieces(peer *p)
{
    while (p->text.first < p->text.size && is_space((char)p->text.data[p->text.first]))
        p->text.first++;
    const bool is_sent = speak_part(p, p->text.size - p->text.first) && end_sound(p);
    td_bytes_free(&p->text);
    p->is_streaming = false;
    return is_sent && send_message(p, "synthesize-stopped", NULL, "", 0);
}

static bool answer(peer *p, const td_wyoming_head *head)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(head->data, "text");
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    td_server *server = p->wyoming->server;
    if (strcmp(head->type, "ping") == 0) return send_message(p, "pong", NULL, "", 0);
    if (td_jobs_check(server->jobs) != TD_OK) return send_error(p, td_error_last()->message, "loading");
    if (strcmp(head->type, "describe") == 0) return describe(p);
    if (strcmp(head->type, "synthesize") == 0 && !p->is_streaming) {
        keep_voice(p, head->data);
        return speak(p, text) && end_sound(p);
    }
    if (strcmp(head->type, "synthesize-start") == 0) {
        keep_voice(p, head->data);
        td_bytes_free(&p->text);
        p->is_streaming = true;
    } else if (strcmp(head->type, "synthesize-chunk") == 0 && p->is_streaming) {
        return add_piece(p, text);
    } else if (strcmp(head->type, "synthesize-stop") == 0 && p->is_streaming) {
        return end_pieces(p);
    }
    return true; /* events of other kinds are for others */
}

/* ---------------------------------------------------------------- connections */

static void *serve_peer(void *argument)
{
    peer *p = argument;
    td_wyoming_head head;
    bool goes_on = true;
    while (goes_on) {
        goes_on = read_message(p, &head) && answer(p, &head);
        cJSON_Delete(head.data);
    }
    td_bytes_free(&p->in);
    td_bytes_free(&p->text);
    shutdown(p->socket, SHUT_RDWR);
    __atomic_store_n(&p->has_ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static void end_peer(peer *p)
{
    pthread_join(p->thread, NULL);
    close(p->socket);
    p->is_used = false;
}

/* One that is free, or has ended; NULL: there are too many. */
static peer *find_peer(td_wyoming *w)
{
    for (size_t i = 0; i < MOST_PEERS; i++) {
        peer *p = &w->peers[i];
        if (p->is_used && __atomic_load_n(&p->has_ended, __ATOMIC_ACQUIRE)) end_peer(p);
        if (!p->is_used) return p;
    }
    return NULL;
}

static void begin_peer(td_wyoming *w, int socket)
{
    const struct timeval patience = {.tv_sec = SEND_TIMEOUT_S};
    peer *p = find_peer(w);
    if (!p) {
        close(socket);
        return;
    }
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    *p = (peer){.wyoming = w, .socket = socket, .is_used = true};
    if (td_thread_start(&p->thread, "a connection of Wyoming", serve_peer, p) == TD_OK) return;
    p->is_used = false;
    close(socket);
}

static void *listen_for_peers(void *argument)
{
    td_wyoming *w = argument;
    while (!atomic_load(&w->is_closing)) {
        struct pollfd event = {.fd = w->socket, .events = POLLIN};
        if (poll(&event, 1, LOOK_MS) <= 0) continue;
        const int socket = accept4(w->socket, NULL, NULL, SOCK_CLOEXEC);
        if (socket >= 0) begin_peer(w, socket);
    }
    return NULL;
}

/* ---------------------------------------------------------------- life */

static td_status start_listening(td_wyoming *w, const char *host, uint16_t port)
{
    td_address address;
    socklen_t bytes;
    const int on = 1;
    bool is_loopback;
    TD_CHECK(td_http_read_address(host, port, &address, &is_loopback));
    if (!is_loopback) td_log_warn("Wyoming has no key: whoever reaches %s can let the voices speak", host);
    bytes = address.any.sa_family == AF_INET6 ? sizeof address.v6 : sizeof address.v4;
    w->socket = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->socket >= 0) (void)setsockopt(w->socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    TD_REFUSE_IF(w->socket < 0 || bind(w->socket, &address.any, bytes) != 0 || listen(w->socket, 16) != 0,
                 TD_ERR_CONFIG,
                 "cannot listen at %s port %u: %s; choose another serve.wyoming_port, or 0 for none", host,
                 port, strerror(errno));
    TD_REFUSE_IF(getsockname(w->socket, &address.any, &bytes) != 0, TD_ERR_IO, "getsockname: %s",
                 strerror(errno));
    w->port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
    return TD_OK;
}

td_status td_wyoming_open(td_server *server, const char *host, uint16_t port, td_wyoming **out)
{
    td_wyoming *w = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&w));
    w->server = server;
    w->socket = -1;
    TD_TRY(start_listening(w, host, port));
    TD_TRY(td_thread_start(&w->thread, "Wyoming's port", listen_for_peers, w));
    w->is_running = true;
    *out = w;
    return TD_OK;
fail:
    td_wyoming_close(w);
    return status;
}

uint16_t td_wyoming_port(const td_wyoming *wyoming)
{
    return wyoming->port;
}

void td_wyoming_close(td_wyoming *wyoming)
{
    if (!wyoming) return;
    atomic_store(&wyoming->is_closing, true);
    if (wyoming->is_running) pthread_join(wyoming->thread, NULL);
    for (size_t i = 0; i < MOST_PEERS; i++)
        if (wyoming->peers[i].is_used) end_peer(&wyoming->peers[i]);
    if (wyoming->socket >= 0) close(wyoming->socket);
    free(wyoming);
}
