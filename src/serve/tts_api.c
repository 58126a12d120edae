/* The endpoints of xtts-api-server, as SillyTavern calls them: numbers arrive as texts, settings are sent once
 * and hold for all later calls. What would write files on the server, or change its folders, is refused.
 */
#include <stdio.h>
#include <string.h>

#include "serve/request.h"
#include "serve/server.h"

/* ---------------------------------------------------------------- lists */

static void tell_speaker(void *context, const td_listed_voice *voice)
{
    td_json *json = context;
    td_json_begin_object(json);
    td_json_put_string(json, "name", voice->id);
    td_json_put_string(json, "voice_id", voice->id);
    td_json_put_string(json, "preview_url", "");
    td_json_end_object(json);
}

static void tell_name(void *context, const td_listed_voice *voice)
{
    td_json_string(context, voice->id);
}

static void reply_array(td_call *call, void (*tell)(void *context, const td_listed_voice *voice))
{
    td_json *json = NULL;
    if (!td_server_is_ready(call)) return;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_array(json);
        td_server_list_voices(call->context, tell, json);
        td_json_end_array(json);
    }
    td_reply_json(call, 200, json);
}

static void list_speakers(td_call *call)
{
    reply_array(call, tell_speaker);
}

static void list_names(td_call *call)
{
    reply_array(call, tell_name);
}

/* Line i of a list with one word a line; false behind the last. */
static bool get_line(const char *lines, size_t i, char *out, size_t capacity)
{
    for (; i > 0 && *lines; i--)
        lines += strcspn(lines, "\n") + (strchr(lines, '\n') != NULL);
    snprintf(out, capacity, "%.*s", (int)strcspn(lines, "\n"), lines);
    return *out != '\0';
}

static bool speaks(const td_server *server, size_t voice, const char *language)
{
    char code[16];
    for (size_t i = 0; get_line(td_jobs_info(server->jobs, voice)->languages, i, code, sizeof code); i++)
        if (strcmp(code, language) == 0) return true;
    return false;
}

/* Those of a voice that none before it speaks. */
static void put_languages(td_json *json, const td_server *server, size_t voice)
{
    char code[16];
    for (size_t i = 0; get_line(td_jobs_info(server->jobs, voice)->languages, i, code, sizeof code); i++) {
        bool is_new = true;
        for (size_t v = 0; v < voice; v++)
            is_new = is_new && !speaks(server, v, code);
        if (is_new) td_json_put_string(json, code, code);
    }
}

/* {"languages": {"en": "en"}}: what its clients read. */
static void list_languages(td_call *call)
{
    const td_server *server = call->context;
    td_json *json = NULL;
    if (!td_server_is_ready(call)) return;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_object(json, "languages");
        for (size_t i = 0; i < server->settings.jobs.n_voices; i++)
            put_languages(json, server, i);
        td_json_end_object(json);
        td_json_end_object(json);
    }
    td_reply_json(call, 200, json);
}

/* ---------------------------------------------------------------- speech */

static td_manner get_manner(const td_call *call)
{
    td_server *server = call->context;
    pthread_mutex_lock(&server->lock);
    const td_manner manner = server->manner;
    pthread_mutex_unlock(&server->lock);
    return manner;
}

static void speak(td_call *call, const char *text, const char *speaker, const char *language, bool is_whole)
{
    td_speech_wish wish = {.text = text,
                           .language = language && *language ? language : NULL,
                           .manner = get_manner(call),
                           .seed = TD_USUAL_SEED,
                           .format = td_encoder_find("wav"),
                           .is_whole = is_whole};
    if (!text || !speaker) {
        td_reply_error(call, 400, text ? "speaker_wav" : "text", "missing_required_field", "%s is missing",
                       text ? "speaker_wav" : "text");
        return;
    }
    if (td_server_find_voice(call, speaker, &wish.who)) td_server_speak(call, &wish);
}

static void speak_to_audio(td_call *call)
{
    const char *text, *speaker, *language;
    if (!td_server_is_ready(call)) return;
    cJSON *body = td_request_parse(call);
    if (body && td_request_text(call, body, "text", &text) &&
        td_request_text(call, body, "speaker_wav", &speaker) &&
        td_request_text(call, body, "language", &language))
        speak(call, text, speaker, language, true);
    cJSON_Delete(body);
}

static void speak_as_stream(td_call *call)
{
    if (!td_server_is_ready(call)) return;
    speak(call, td_call_query(call, "text"), td_call_query(call, "speaker_wav"),
          td_call_query(call, "language"), false);
}

/* ---------------------------------------------------------------- settings */

/* Those that voices here have are kept; the others are taken without effect. */
static void set_settings(td_call *call)
{
    td_server *server = call->context;
    td_manner manner = get_manner(call);
    td_json *json = NULL;
    cJSON *body = td_request_parse(call);
    if (body && td_request_manner(call, body, &manner)) {
        pthread_mutex_lock(&server->lock);
        server->manner = manner;
        pthread_mutex_unlock(&server->lock);
        if (td_json_create(NULL, 0, &json) == TD_OK) {
            td_json_begin_object(json);
            td_json_put_string(json, "message", "Settings successfully applied");
            td_json_end_object(json);
        }
        td_reply_json(call, 200, json);
    }
    cJSON_Delete(body);
}

static void get_settings(td_call *call)
{
    const td_manner m = get_manner(call);
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_double(json, "speed", m.speed);
        td_json_put_double(json, "temperature", m.temperature);
        td_json_put_double(json, "top_k", m.top_k);
        td_json_put_double(json, "top_p", m.top_p);
        td_json_put_double(json, "repetition_penalty", m.repetition_penalty);
        td_json_end_object(json);
    }
    td_reply_json(call, 200, json);
}

static void list_models(td_call *call)
{
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_array(json);
        td_json_string(json, "tandem");
        td_json_end_array(json);
    }
    td_reply_json(call, 200, json);
}

static void refuse(td_call *call)
{
    td_reply_error(call, 403, NULL, "not_offered",
                   "this server writes no files and changes no folders; ask for sound with tts_to_audio");
}

const td_route td_tts_api_routes[] = {
    {"GET", "/speakers", list_speakers, .is_open = false},
    {"GET", "/speakers_list", list_names, .is_open = false},
    {"GET", "/languages", list_languages, .is_open = false},
    {"GET", "/get_models_list", list_models, .is_open = false},
    {"GET", "/get_tts_settings", get_settings, .is_open = false},
    {"POST", "/set_tts_settings", set_settings, .is_open = false},
    {"POST", "/tts_to_audio", speak_to_audio, .is_limited = true},
    {"GET", "/tts_stream", speak_as_stream, .is_limited = true},
    {"POST", "/tts_to_file", refuse, .is_open = false},
    {"POST", "/switch_model", refuse, .is_open = false},
    {"POST", "/set_output", refuse, .is_open = false},
    {"POST", "/set_speaker_folder", refuse, .is_open = false},
    {0},
};
