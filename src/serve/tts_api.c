/* The endpoints of xtts-api-server, as SillyTavern calls them: numbers arrive as texts, settings are sent once
 * and hold for all later calls. What would write files on the server, or change its folders, is refused.
 */
#include <stdio.h>
#include <string.h>

#include "serve/request.h"
#include "serve/server.h"

/* ---------------------------------------------------------------- lists */

static void tell_speaker(void *context, const char *id)
{
    td_json *json = context;
    td_json_begin_object(json);
    td_json_put_string(json, "name", id);
    td_json_put_string(json, "voice_id", id);
    td_json_put_string(json, "preview_url", "");
    td_json_end_object(json);
}

static void tell_name(void *context, const char *id)
{
    td_json_string(context, id);
}

static void reply_array(td_call *call, void (*tell)(void *context, const char *id))
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

static double get_speed(const td_call *call)
{
    td_server *server = call->context;
    return atomic_load(&server->speed_permille) / 1000.0;
}

static void speak(td_call *call, const char *text, const char *speaker, const char *language, double speed,
                  bool is_whole)
{
    td_speech_wish wish = {.text = text,
                           .language = language && *language ? language : NULL,
                           .speed = speed,
                           .format = td_encoder_find("wav"),
                           .is_whole = is_whole};
    if (!text || !speaker) {
        td_reply_error(call, 400, text ? "speaker_wav" : "text", "missing_required_field", "%s is missing",
                       text ? "speaker_wav" : "text");
        return;
    }
    if (td_server_find_voice(call, speaker, &wish.voice, &wish.speaker)) td_server_speak(call, &wish);
}

static void speak_to_audio(td_call *call)
{
    const char *text, *speaker, *language;
    if (!td_server_is_ready(call)) return;
    cJSON *body = td_request_parse(call);
    if (body && td_request_text(call, body, "text", &text) &&
        td_request_text(call, body, "speaker_wav", &speaker) &&
        td_request_text(call, body, "language", &language))
        speak(call, text, speaker, language, get_speed(call), true);
    cJSON_Delete(body);
}

static void speak_as_stream(td_call *call)
{
    if (!td_server_is_ready(call)) return;
    speak(call, td_call_query(call, "text"), td_call_query(call, "speaker_wav"),
          td_call_query(call, "language"), get_speed(call), false);
}

/* ---------------------------------------------------------------- settings */

/* Those that voices here have are kept; the others are for another kind of model, and taken without effect. */
static void set_settings(td_call *call)
{
    td_server *server = call->context;
    double speed = get_speed(call);
    td_json *json = NULL;
    cJSON *body = td_request_parse(call);
    if (body && td_request_number(call, body, "speed", 0.25, 4, &speed)) {
        atomic_store(&server->speed_permille, (unsigned)(1000 * speed + 0.5));
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
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_double(json, "speed", get_speed(call));
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
    {"GET", "/speakers", list_speakers, false},
    {"GET", "/speakers_list", list_names, false},
    {"GET", "/languages", list_languages, false},
    {"GET", "/get_models_list", list_models, false},
    {"GET", "/get_tts_settings", get_settings, false},
    {"POST", "/set_tts_settings", set_settings, false},
    {"POST", "/tts_to_audio", speak_to_audio, false},
    {"GET", "/tts_stream", speak_as_stream, false},
    {"POST", "/tts_to_file", refuse, false},
    {"POST", "/switch_model", refuse, false},
    {"POST", "/set_output", refuse, false},
    {"POST", "/set_speaker_folder", refuse, false},
    {0},
};
