/* OpenAI's speech endpoint and the lists its clients ask for; Open WebUI's shapes of them too. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "serve/request.h"
#include "serve/server.h"

enum { MOST_CHARACTERS = 4096 };

/* What clients call a model when they mean the server's own. */
static const char *const MODELS[] = {"tandem", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"};

/* ---------------------------------------------------------------- speech */

static bool check_model(td_call *call, const char *model)
{
    const td_jobs_settings *s = &((td_server *)call->context)->settings.jobs;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        if (strcmp(model, MODELS[i]) == 0) return true;
    for (size_t i = 0; i < s->n_voices; i++)
        if (strcmp(model, s->voices[i].name) == 0) return true;
    td_reply_error(call, 404, "model", "model_not_found", "there is no model '%.100s'; ask for tandem",
                   model);
    return false;
}

static size_t count_characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static bool check_input(td_call *call, const char *input)
{
    const size_t n = count_characters(input);
    if (n <= MOST_CHARACTERS) return true;
    td_reply_error(call, 400, "input", "input_too_long",
                   "the input has %zu characters, and %d may be sent at once", n, MOST_CHARACTERS);
    return false;
}

static bool read_required(td_call *call, const cJSON *body, const char *name, const char **out)
{
    if (!td_request_text(call, body, name, out)) return false;
    if (*out) return true;
    td_reply_error(call, 400, name, "missing_required_field", "%s is missing", name);
    return false;
}

/* A text, or {"id": a text}. */
static bool read_voice(td_call *call, const cJSON *body, td_speech_wish *wish)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(body, "voice");
    const bool is_object = cJSON_IsObject(item);
    const char *id;
    if (!read_required(call, is_object ? item : body, is_object ? "id" : "voice", &id)) return false;
    return td_server_find_voice(call, id, &wish->who);
}

static bool read_format(td_call *call, const cJSON *body, td_speech_wish *wish)
{
    const char *name, *stream;
    bool streams = false;
    if (!td_request_text(call, body, "response_format", &name) ||
        !td_request_text(call, body, "stream_format", &stream) ||
        !td_request_flag(call, body, "stream", &streams))
        return false;
    wish->format = td_encoder_find(name ? name : "mp3");
    if (!wish->format) {
        td_reply_error(call, 400, "response_format", "unsupported_response_format",
                       "response_format '%.40s' cannot be made here; ask for mp3, opus, flac, wav or pcm",
                       name);
        return false;
    }
    wish->is_sse = stream && strcmp(stream, "sse") == 0;
    if (stream && !wish->is_sse && strcmp(stream, "audio") != 0) {
        td_reply_error(call, 400, "stream_format", "invalid_field", "stream_format must be audio or sse");
        return false;
    }
    /* A WAV file has its length at its start. */
    wish->is_whole = strcmp(wish->format->name, "wav") == 0 && !streams && !wish->is_sse;
    return true;
}

static bool read_speech(td_call *call, const cJSON *body, td_speech_wish *wish)
{
    const char *model;
    double seed = (double)TD_USUAL_SEED;
    if (!read_required(call, body, "model", &model) || !check_model(call, model) ||
        !read_required(call, body, "input", &wish->text) || !check_input(call, wish->text) ||
        !read_voice(call, body, wish) || !read_format(call, body, wish) ||
        !td_request_text(call, body, "language", &wish->language) ||
        !td_request_manner(call, body, &wish->manner) ||
        !td_request_number(call, body, "seed", 0, 9007199254740992.0, &seed))
        return false;
    wish->seed = (uint64_t)seed;
    return true;
}

static void speak(td_call *call)
{
    td_speech_wish wish = {0};
    if (!td_server_is_ready(call)) return;
    cJSON *body = td_request_parse(call);
    if (body && read_speech(call, body, &wish)) td_server_speak(call, &wish);
    cJSON_Delete(body);
}

/* ---------------------------------------------------------------- lists */

/* {"object":"list","data":[...]} or {"models":[...]} with the one model there is. */
static void reply_model(td_call *call, const char *key, bool is_long)
{
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        if (is_long) td_json_put_string(json, "object", "list");
        td_json_put_array(json, key);
        td_json_begin_object(json);
        td_json_put_string(json, "id", MODELS[0]);
        td_json_put_string(json, is_long ? "object" : "name", is_long ? "model" : MODELS[0]);
        if (is_long) td_json_put_uint(json, "created", 0);
        if (is_long) td_json_put_string(json, "owned_by", "tandem");
        td_json_end_object(json);
        td_json_end_array(json);
        td_json_end_object(json);
    }
    td_reply_json(call, 200, json);
}

static void list_models(td_call *call)
{
    reply_model(call, "data", true);
}

static void list_audio_models(td_call *call)
{
    reply_model(call, "models", false);
}

const td_route td_openai_routes[] = {
    {"POST", "/v1/audio/speech", speak, .is_limited = true},
    {"GET", "/v1/models", list_models, .is_open = true},
    {"GET", "/v1/audio/models", list_audio_models, .is_open = true},
    {0},
};
