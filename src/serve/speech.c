/* What all ways of asking for speech share. See server.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/encode.h"
#include "base/error.h"
#include "serve/server.h"

/* How often a call that waits looks whether its client is still there. */
enum { LOOK_MS = 100 };

bool td_server_is_ready(td_call *call)
{
    td_server *server = call->context;
    const td_status status = td_jobs_check(server->jobs);
    if (status == TD_OK) return true;
    td_reply_error(call, 503, NULL, status == TD_ERR_TIMEOUT ? "loading" : "not_loaded", "%s",
                   td_error_last()->message);
    return false;
}

static bool match_served(const td_server *server, const char *id, td_who *out)
{
    const td_jobs_settings *s = &server->settings.jobs;
    for (size_t i = 0; i < s->n_voices; i++) {
        const size_t length = strlen(s->voices[i].name);
        if (strncmp(id, s->voices[i].name, length) != 0 || (id[length] != '\0' && id[length] != ':'))
            continue;
        out->voice = i;
        out->speaker = id[length] == ':' ? id + length + 1 : NULL;
        return true;
    }
    return false;
}

bool td_server_match_voice(const td_server *server, const char *id, td_who *out)
{
    char base[TD_VOICE_NAME];
    out->reference[0] = '\0';
    out->speaker = NULL;
    if (match_served(server, id, out)) return true;
    return server->clones &&
           td_clones_find(server->clones, id, base, out->reference, sizeof out->reference) &&
           match_served(server, base, out);
}

bool td_server_find_voice(td_call *call, const char *id, td_who *out)
{
    const td_server *server = call->context;
    char names[512] = "";
    if (td_server_match_voice(server, id, out)) return true;
    for (size_t i = 0; i < server->settings.jobs.n_voices; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                 server->settings.jobs.voices[i].name);
    }
    td_reply_error(call, 404, "voice", "voice_not_found", "there is no voice '%.100s'; there are: %s", id,
                   names);
    return false;
}

/* As "NAME:SPEAKER". */
static void list_speakers(const td_server *server, size_t voice,
                          void (*tell)(void *context, const td_listed_voice *voice), void *context)
{
    const td_voice_info *info = td_jobs_info(server->jobs, voice);
    char id[512];
    if (info->n_speakers < 2 && !info->needs_reference) return;
    for (const char *at = info->speakers; *at;) {
        const size_t length = strcspn(at, "\n");
        snprintf(id, sizeof id, "%s:%.*s", server->settings.jobs.voices[voice].name, (int)length, at);
        tell(context, &(td_listed_voice){.id = id, .voice = voice});
        at += length + (at[length] == '\n');
    }
}

void td_server_list_voices(const td_server *server, void (*tell)(void *context, const td_listed_voice *voice),
                           void *context)
{
    char name[TD_VOICE_NAME], base[TD_VOICE_NAME];
    td_who who;
    for (size_t i = 0; i < server->settings.jobs.n_voices; i++) {
        tell(context, &(td_listed_voice){.id = server->settings.jobs.voices[i].name, .voice = i});
        list_speakers(server, i, tell, context);
    }
    for (size_t i = 0; server->clones && td_clones_get(server->clones, i, name, base); i++)
        if (match_served(server, base, &who))
            tell(context, &(td_listed_voice){.id = name, .voice = who.voice, .is_clone = true});
}

void td_server_put_lines(td_json *json, const char *key, const char *lines, const char *name)
{
    char word[256];
    td_json_put_array(json, key);
    for (const char *at = lines; *at;) {
        const size_t length = strcspn(at, "\n");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (name) {
            td_json_begin_object(json);
            td_json_put_string(json, name, word);
            td_json_end_object(json);
        } else {
            td_json_string(json, word);
        }
        at += length + (at[length] == '\n');
    }
    td_json_end_array(json);
}

static void reply_failure(td_call *call, const td_error *error)
{
    switch (error->status) {
    case TD_ERR_CONFIG:
    case TD_ERR_FORMAT:
    case TD_ERR_NOT_FOUND:
        td_reply_error(call, 400, "input", "invalid_input", "%s", error->message);
        break;
    case TD_ERR_LIMIT:
        call->retry_s = td_jobs_estimate_wait(((td_server *)call->context)->jobs);
        td_reply_error(call, 429, NULL, "queue_full", "%s", error->message);
        break;
    case TD_ERR_CANCELLED:
        td_reply_error(call, 503, NULL, "ending", "%s", error->message);
        break;
    default:
        td_reply_error(call, 500, NULL, "synthesis_failed", "%s", error->message);
    }
}

/* Until the job has samples, has failed, or nobody waits for it. */
static td_status await_job(td_call *call, td_job *job, td_error *error)
{
    for (;;) {
        const td_status status = td_job_wait(job, LOOK_MS, error);
        if (status != TD_ERR_TIMEOUT) return status;
        if (td_call_is_gone(call)) {
            *error = (td_error){.status = TD_ERR_CANCELLED, .message = "the client has hung up"};
            return TD_ERR_CANCELLED;
        }
    }
}

/* A file with its length at the start; the same bytes as `tandem synth` writes. */
static void reply_whole(td_call *call, td_job *job, const td_speech_wish *wish, uint32_t rate)
{
    float *samples = NULL;
    char *file = NULL, name[32];
    size_t used = 0, capacity = 0, count, bytes;
    td_error error = {.status = TD_OK};
    td_status status = TD_OK;
    do {
        if (td_alloc_grow(&samples, &capacity, used + 65536, sizeof *samples) != TD_OK) {
            error = *td_error_last();
            break;
        }
        status = td_job_read(job, samples + used, 65536, LOOK_MS, &count, &error);
        used += count;
    } while (count > 0 || status == TD_ERR_TIMEOUT);
    snprintf(name, sizeof name, ".%s", wish->format->name);
    if (error.status == TD_OK && td_audio_encode_memory(name, samples, used, rate, &file, &bytes) != TD_OK)
        error = *td_error_last();
    if (error.status == TD_OK)
        td_reply_bytes(call, 200, wish->format->type, file, bytes);
    else
        reply_failure(call, &error);
    free(samples);
    free(file);
    td_job_release(job);
}

void td_server_speak(td_call *call, const td_speech_wish *wish)
{
    td_server *server = call->context;
    const uint32_t rate = td_jobs_info(server->jobs, wish->who.voice)->rate;
    const td_job_request request = {
        .voice = wish->who.voice,
        .text = wish->text,
        .is_whole = wish->is_whole,
        .options = {.size = sizeof request.options,
                    .speaker = wish->who.speaker,
                    .reference = *wish->who.reference ? wish->who.reference : NULL,
                    .language = wish->language,
                    .speed = wish->manner.speed,
                    .temperature = wish->manner.temperature,
                    .top_p = wish->manner.top_p,
                    .top_k = (uint32_t)wish->manner.top_k,
                    .repetition_penalty = wish->manner.repetition_penalty,
                    .seed = wish->seed}};
    td_job *job = NULL;
    td_encoder *encoder = NULL;
    td_error error = {.status = TD_OK};
    if (wish->format->missing) {
        td_reply_error(call, 400, "response_format", "unsupported_response_format",
                       "this build cannot write %s (it lacks %s); ask for wav or pcm", wish->format->name,
                       wish->format->missing);
        return;
    }
    if (td_jobs_add(server->jobs, &request, &job) != TD_OK) error = *td_error_last();
    if (error.status == TD_OK && await_job(call, job, &error) == TD_OK && !wish->is_whole &&
        td_encoder_open(wish->format, rate, &encoder) != TD_OK)
        error = *td_error_last();
    if (error.status != TD_OK) {
        reply_failure(call, &error);
        td_job_release(job);
    } else if (wish->is_whole) {
        reply_whole(call, job, wish, rate);
    } else {
        td_server_reply_sound(call, &(td_sound_options){.job = job,
                                                        .encoder = encoder,
                                                        .is_sse = wish->is_sse,
                                                        .input_tokens = strlen(wish->text)});
    }
}
