/* Voices that clients bring, and the list of all: POST, GET and DELETE of /v1/audio/voices. A recording is kept
 * (clones.h) and spoken like by a served voice that can: XTTS, or one with a speaker encoder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "serve/multipart.h"
#include "serve/server.h"

#define VOICES "/v1/audio/voices"

enum { MOST_FORM = TD_MOST_SAMPLE + (1 << 16), MOST_FIELD = 1024 };

/* ---------------------------------------------------------------- the list */

typedef struct listing {
    const td_server *server;
    td_json *json;
} listing;

/* Open WebUI reads id and name; the rest is for the page. */
static void tell_voice(void *context, const td_listed_voice *voice)
{
    const listing *l = context;
    const td_voice_info *info = td_jobs_info(l->server->jobs, voice->voice);
    td_json_begin_object(l->json);
    td_json_put_string(l->json, "id", voice->id);
    td_json_put_string(l->json, "name", voice->id);
    td_server_put_lines(l->json, "languages", info->languages, NULL);
    td_json_put_bool(l->json, "takes_reference", info->needs_reference);
    td_json_put_bool(l->json, "is_clone", voice->is_clone);
    td_json_end_object(l->json);
}

static void list_voices(td_call *call)
{
    listing l = {.server = call->context};
    if (!td_server_is_ready(call)) return;
    if (td_json_create(NULL, 0, &l.json) == TD_OK) {
        td_json_begin_object(l.json);
        td_json_put_array(l.json, "voices");
        td_server_list_voices(l.server, tell_voice, &l);
        td_json_end_array(l.json);
        td_json_end_object(l.json);
    }
    td_reply_json(call, 200, l.json);
}

/* ---------------------------------------------------------------- a new one */

/* A field of text as a string; "" where it is absent. False: too long or not a text, and the call is answered so. */
static bool read_field(td_call *call, const td_parts *parts, const char *name, char out[MOST_FIELD])
{
    const td_part *part = td_multipart_find(parts, name);
    out[0] = '\0';
    if (!part) return true;
    if (part->bytes >= MOST_FIELD || memchr(part->data, '\0', part->bytes)) {
        td_reply_error(call, 400, name, "invalid_field", "%s must be a text of less than %d bytes", name,
                       MOST_FIELD);
        return false;
    }
    memcpy(out, part->data, part->bytes);
    out[part->bytes] = '\0';
    return true;
}

static bool is_yes(const char *text)
{
    static const char *const NO[] = {"", "0", "false", "no", "off"};
    for (size_t i = 0; i < sizeof NO / sizeof *NO; i++)
        if (strcasecmp(text, NO[i]) == 0) return false;
    return true;
}

/* The served voice that is to speak: the one that is named, or the first that can follow a recording. */
static bool find_base(td_call *call, const char *wanted, td_who *out)
{
    const td_server *server = call->context;
    const size_t n = server->settings.jobs.n_voices;
    if (*wanted) {
        if (!td_server_find_voice(call, wanted, out)) return false;
    } else {
        for (out->voice = 0; out->voice < n; out->voice++)
            if (td_jobs_info(server->jobs, out->voice)->needs_reference) break;
    }
    if (out->voice < n && td_jobs_info(server->jobs, out->voice)->needs_reference) return true;
    td_reply_error(
        call, 400, "voice", "cannot_clone",
        "%s was trained without a speaker encoder and cannot follow a recording; serve an XTTS voice, "
        "or one trained with one",
        *wanted ? wanted : "no voice of this server can: each");
    return false;
}

static void reply_kept(td_call *call, const char *name, const char *base)
{
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_string(json, "id", name);
        td_json_put_string(json, "object", "audio.voice");
        td_json_put_string(json, "name", name);
        td_json_put_string(json, "voice", base);
        td_json_end_object(json);
    }
    td_reply_json(call, 201, json);
}

static void reply_refused(td_call *call)
{
    const td_error *error = td_error_last();
    switch (error->status) {
    case TD_ERR_CONFIG:
        td_reply_error(call, 400, "name", "invalid_name", "%s", error->message);
        break;
    case TD_ERR_FORMAT:
    case TD_ERR_LIMIT:
        td_reply_error(call, 400, "audio_sample", "invalid_sample", "%s", error->message);
        break;
    default:
        td_reply_error(call, 500, NULL, "not_kept", "the voice could not be kept: %s",
                       td_status_name(error->status));
    }
}

static void keep_voice(td_call *call, const td_parts *parts)
{
    td_server *server = call->context;
    char name[MOST_FIELD], consent[MOST_FIELD], wanted[MOST_FIELD];
    const td_part *sample = td_multipart_find(parts, "audio_sample");
    td_who who = {0};
    if (!read_field(call, parts, "name", name) || !read_field(call, parts, "consent", consent) ||
        !read_field(call, parts, "voice", wanted))
        return;
    if (!sample || !*name) {
        td_reply_error(call, 400, sample ? "name" : "audio_sample", "missing_required_field", "%s is missing",
                       sample ? "name" : "audio_sample");
    } else if (!is_yes(consent)) {
        td_reply_error(call, 400, "consent", "missing_required_field",
                       "consent is missing: send consent=true if the speaker has agreed to be cloned");
    } else if (sample->bytes > TD_MOST_SAMPLE) {
        td_reply_error(call, 413, "audio_sample", "body_too_large", "a recording has at most %d bytes",
                       TD_MOST_SAMPLE);
    } else if (td_server_match_voice(server, name, &who)) {
        td_reply_error(call, 409, "name", "name_taken", "a voice is called '%.100s' already", name);
    } else if (find_base(call, wanted, &who)) {
        const char *base = server->settings.jobs.voices[who.voice].name;
        if (td_clones_add(server->clones, name, base, sample->data, sample->bytes) == TD_OK)
            reply_kept(call, name, base);
        else
            reply_refused(call);
    }
}

static bool takes_voices(td_call *call)
{
    const td_server *server = call->context;
    if (server->clones) return td_server_is_ready(call);
    td_reply_error(call, 403, NULL, "not_offered",
                   "this server keeps no voices of its clients; start it with --voices-dir");
    return false;
}

static void add_voice(td_call *call)
{
    td_parts parts;
    if (!takes_voices(call)) return;
    if (td_multipart_parse(td_call_header(call, "Content-Type"), (const char *)call->body.data,
                           call->body.size, &parts) == TD_OK)
        keep_voice(call, &parts);
    else
        td_reply_error(call, 400, NULL, "invalid_form", "%s", td_error_last()->message);
}

static void remove_voice(td_call *call)
{
    td_server *server = call->context;
    const char *name = call->path + strlen(VOICES "/");
    td_who who;
    if (!takes_voices(call)) return;
    if (td_clones_remove(server->clones, name) == TD_OK)
        td_reply_bytes(call, 204, "application/json", "", 0);
    else if (td_error_last()->status != TD_ERR_NOT_FOUND)
        reply_refused(call);
    else if (td_server_match_voice(server, name, &who))
        td_reply_error(call, 403, "voice", "not_a_clone", "%.100s was not brought by a client, and stays",
                       name);
    else
        td_reply_error(call, 404, "voice", "voice_not_found", "there is no voice '%.100s'", name);
}

const td_route td_voices_routes[] = {
    {"GET", VOICES, list_voices, .is_open = true},
    {"POST", VOICES, add_voice, .is_limited = true, .most_body = MOST_FORM},
    {"DELETE", VOICES "/*", remove_voice, .is_open = false},
    {0},
};
