/* See voice.h. Pieces go in batches of equal shape; their signals are joined in order. */
#include "synth/voice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "base/error.h"
#include "base/text.h"
#include "synth/internal.h"
#include "synth/join.h"

#define ROUND_TOKENS 16u
#define REFERENCE_LEAST_S 0.5
#define REFERENCE_MOST_S 12.0
#define REFERENCE_LEAST_RMS 1e-3 /* -60 dB */
#define TRIM_DB 40.0
#define TRIM_MARGIN_S 0.1

/* Behind a piece that ends so. */
static const double PAUSES_S[] = {
    [TD_PIECE_WITHIN] = 0, [TD_PIECE_CLAUSE] = 0.08, [TD_PIECE_SENTENCE] = 0.2, [TD_PIECE_PARAGRAPH] = 0.5};

/* ---------------------------------------------------------------- opening */

td_status td_voice_open(td_memory *memory, const char *checkpoint, td_voice **out)
{
    td_voice *v = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&v));
    v->memory = memory;
    TD_TRY(td_checkpoint_open(checkpoint, &v->checkpoint));
    v->info = td_checkpoint_get_info(v->checkpoint);
    TD_FAIL_IF(v->info->mel.n_mels != v->info->model.n_mels, TD_ERR_FORMAT,
               "'%s': the model makes %u bands and its front end has %u; the checkpoint is damaged",
               checkpoint, v->info->model.n_mels, v->info->mel.n_mels);
    TD_TRY(td_mel_create(memory, &v->info->mel, &v->mel));
    TD_TRY(td_vocoder_griffin_lim(v->mel, memory, 0, &v->vocoder));
    *out = v;
    return TD_OK;
fail:
    td_voice_close(v);
    return status;
}

void td_voice_close(td_voice *voice)
{
    if (!voice) return;
    td_vocoder_destroy(voice->vocoder);
    td_mel_destroy(voice->mel);
    td_checkpoint_close(voice->checkpoint);
    free(voice->reference);
    free(voice);
}

const td_checkpoint_info *td_voice_info(const td_voice *voice)
{
    return voice->info;
}

/* ---------------------------------------------------------------- who speaks */

td_status td_voice_find_speaker(const td_voice *voice, const char *name, uint32_t *out)
{
    const uint32_t n = voice->info->model.n_speakers;
    const char *names = voice->info->speakers;
    uint64_t number;
    *out = 0;
    if (!name || !*name) return TD_OK;
    for (uint32_t i = 0; *names; i++) {
        const size_t length = strcspn(names, "\n");
        if (strlen(name) == length && strncmp(names, name, length) == 0 && i < n) {
            *out = i;
            return TD_OK;
        }
        names += length + (names[length] == '\n');
    }
    if (td_text_parse_u64(name, &number) == TD_OK && number < n) {
        *out = (uint32_t)number;
        return TD_OK;
    }
    if (n == 0) return TD_FAIL(TD_ERR_CONFIG, "--speaker %s: the voice has no table of speakers", name);
    char list[256];
    snprintf(list, sizeof list, "%s", voice->info->speakers);
    for (char *c = list; *c; c++)
        if (*c == '\n') *c = c[1] ? ' ' : 0;
    return TD_FAIL(TD_ERR_CONFIG, "--speaker %s: the voice has %u speakers: %s, or a number from 0 on", name,
                   n, list);
}

static td_status read_mel(td_voice *v, const td_copy_mel *mel)
{
    td_device *device = td_memory_device(v->memory);
    td_span host = {0};
    td_list *list = NULL;
    td_point done;
    td_status status = TD_OK;
    TD_TRY(td_memory_alloc(v->memory, TD_MEMORY_HOST, mel->mel.bytes, &host));
    TD_TRY(td_list_create(device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, td_span_part(host, 0, mel->mel.bytes), mel->mel));
    TD_TRY(td_list_finish(list));
    TD_TRY(td_queue_submit(td_device_queue(device, TD_QUEUE_COMPUTE), &(td_submission){.list = list}, &done));
    TD_TRY(td_point_wait(done, TD_WAIT_FOREVER));
    free(v->reference);
    v->reference_frames = 0;
    TD_TRY(TD_NEW_ARRAY(&v->reference, (size_t)(mel->mel.bytes / sizeof(float))));
    memcpy(v->reference, td_span_host(host), (size_t)mel->mel.bytes);
    v->reference_frames = mel->frames;
fail:
    td_list_destroy(list);
    td_memory_free(v->memory, host);
    return status;
}

td_status td_voice_set_reference(td_voice *v, const char *path)
{
    const bool is_needed = v->info->model.speaker_encoder;
    const uint32_t rate = v->info->mel.rate;
    td_decode_options options = {.rate = rate, .trim_db = TRIM_DB, .margin_s = TRIM_MARGIN_S};
    td_audio audio = {0};
    td_copy_mel mel = {0};
    td_status status = TD_OK;
    if (!path && !is_needed) return TD_OK;
    TD_FAIL_IF(!path, TD_ERR_CONFIG, "the voice speaks like a recording; name one with --reference FILE.wav");
    TD_FAIL_IF(!is_needed, TD_ERR_CONFIG,
               "--reference: the voice was trained without a speaker encoder and cannot follow a recording");
    TD_TRY(td_audio_decode(path, &options, &audio));
    TD_FAIL_IF(!(audio.report.rms >= REFERENCE_LEAST_RMS), TD_ERR_FORMAT,
               "%s: silent (RMS %.1e); take a recording in which the speaker is heard", path,
               audio.report.rms);
    TD_FAIL_IF((double)audio.count < REFERENCE_LEAST_S * rate, TD_ERR_FORMAT,
               "%s: %.2f s of sound; a reference needs %.1f s, better 5", path, (double)audio.count / rate,
               REFERENCE_LEAST_S);
    const size_t most = (size_t)(REFERENCE_MOST_S * rate);
    TD_TRY(td_copy_analyse(v->mel, v->memory, audio.samples, audio.count < most ? audio.count : most, &mel));
    TD_TRY(read_mel(v, &mel));
fail:
    td_memory_free(v->memory, mel.mel);
    td_audio_free(&audio);
    return status;
}

td_status td_voice_check_options(const td_voice *voice, const td_speak_options *o)
{
    const td_model_config *m = &voice->info->model;
    td_status status = TD_OK;
    TD_FAIL_IF(m->decoder_strategy == TD_AUTOREGRESSIVE && o->speed != 1, TD_ERR_CONFIG,
               "--speed: an autoregressive voice decides by itself how fast it speaks");
    TD_FAIL_IF(!m->pitch_predictor && o->pitch_shift != 0, TD_ERR_CONFIG,
               "--pitch-shift: the voice was trained without model.pitch_predictor");
    TD_FAIL_IF(!m->energy_predictor && o->energy != 1, TD_ERR_CONFIG,
               "--energy: the voice was trained without model.energy_predictor");
fail:
    return status;
}

/* ---------------------------------------------------------------- batches */

static td_status fill_utterance(const td_speaking *s, td_utterance *u, size_t first)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&u->tokens, s->items));
    TD_TRY(TD_NEW_ARRAY(&u->ids, (size_t)s->items * s->max_tokens));
    for (uint32_t i = 0; i < s->items; i++) {
        u->tokens[i] = 1;
        if (first + i >= s->script->count) continue;
        const td_tokens *tokens = &s->script->pieces[first + i].tokens;
        u->tokens[i] = (uint32_t)tokens->count;
        u->count++;
        for (size_t k = 0; k < tokens->count; k++)
            u->ids[(size_t)i * s->max_tokens + k] = (uint32_t)tokens->ids[k];
    }
fail:
    return status;
}

static td_status make_utterances(td_speaking *s)
{
    const size_t n = s->script->count;
    td_status status = TD_OK;
    TD_FAIL_IF(n == 0, TD_ERR_ARGUMENT, "a script without pieces");
    s->items = n < TD_VOICE_ITEMS ? (uint32_t)n : TD_VOICE_ITEMS;
    for (size_t i = 0; i < n; i++)
        if (s->script->pieces[i].tokens.count > s->max_tokens)
            s->max_tokens = (uint32_t)s->script->pieces[i].tokens.count;
    s->max_tokens = (s->max_tokens + ROUND_TOKENS - 1) / ROUND_TOKENS * ROUND_TOKENS;
    s->n_utterances = (n + s->items - 1) / s->items;
    TD_TRY(TD_NEW_ARRAY(&s->utterances, s->n_utterances));
    for (size_t i = 0; i < s->n_utterances; i++)
        TD_TRY(fill_utterance(s, &s->utterances[i], i * s->items));
fail:
    return status;
}

static void free_speaking(td_speaking *s)
{
    for (size_t i = 0; s->utterances && i < s->n_utterances; i++) {
        td_utterance *u = &s->utterances[i];
        free(u->tokens);
        free(u->ids);
        free(u->hidden);
        free(u->durations);
        free(u->pitch);
        free(u->energy);
        free(u->speaker);
        free(u->frames);
        free(u->mel);
        free(u->spread);
    }
    free(s->utterances);
    td_store_destroy(s->store);
}

/* Encodes, and decodes step by step; the steps' caches are in the store, so it is made from their graph. */
static td_status run_autoregressive(td_speaking *s)
{
    const uint32_t r = s->model->reduction;
    const double rate = s->model->attention_rate > 0 ? (double)s->model->attention_rate : 0.2;
    const double steps = fmin(20 + 1.7 * s->max_tokens / rate, (double)s->model->max_frames / r);
    td_model_step step = {0};
    td_status status = TD_OK;
    s->max_frames = (uint32_t)fmax(steps, 1) * r;
    const td_model_shape shape = {.items = s->items,
                                  .tokens = s->max_tokens,
                                  .frames = s->max_frames,
                                  .reference_frames = s->voice->reference_frames};
    const td_model_options options = {.seed = s->options->seed};
    TD_TRY(td_model_step_graph(s->model, &shape, &options, &step));
    TD_TRY(td_store_create(s->voice->memory, step.graph, &(td_store_options){0}, &s->store));
    TD_TRY(td_checkpoint_load(s->voice->checkpoint, s->store, TD_BLOCK_WEIGHT));
    TD_TRY(td_speaking_encode(s));
    TD_TRY(td_speaking_steps(s, &step));
fail:
    td_graph_destroy(step.graph);
    return status;
}

/* ---------------------------------------------------------------- sound */

static td_status upload(td_voice *v, const float *values, td_span device, td_span host, td_list **list,
                        td_point *done)
{
    td_device *d = td_memory_device(v->memory);
    td_status status = TD_OK;
    memcpy(td_span_host(host), values, (size_t)device.bytes);
    TD_TRY(td_list_create(d, TD_QUEUE_COMPUTE, list));
    TD_TRY(td_list_copy(*list, device, host));
    TD_TRY(td_list_finish(*list));
    TD_TRY(td_queue_submit(td_device_queue(d, TD_QUEUE_COMPUTE), &(td_submission){.list = *list}, done));
fail:
    return status;
}

/* The signals of one utterance, behind those that are there. */
static td_status add_sound(td_speaking *s, size_t number, td_join *join)
{
    td_voice *v = s->voice;
    const td_utterance *u = &s->utterances[number];
    const uint64_t bytes = UINT64_C(4) * u->count * s->max_frames * s->model->n_mels;
    td_span device = {0}, host = {0};
    td_list *list = NULL;
    float *samples = NULL;
    size_t firsts[TD_VOICE_ITEMS + 1];
    td_vocoder_batch batch = {.items = u->count,
                              .max_frames = s->max_frames,
                              .frames = u->frames,
                              .seed = s->options->seed + number};
    td_status status = TD_OK;
    TD_TRY(td_memory_alloc(v->memory, TD_MEMORY_HOST, bytes, &host));
    TD_TRY(td_memory_alloc(v->memory, TD_MEMORY_DEVICE, bytes, &device));
    batch.mel = td_span_part(device, 0, bytes);
    TD_TRY(upload(v, u->mel, batch.mel, td_span_part(host, 0, bytes), &list, &batch.ready));
    TD_TRY(v->vocoder->run(v->vocoder, &batch, &samples, firsts));
    for (uint32_t i = 0; i < u->count; i++) {
        const size_t piece = number * s->items + i;
        const bool is_last = piece + 1 == s->script->count;
        TD_TRY(td_join_add(join, samples + firsts[i], firsts[i + 1] - firsts[i],
                           is_last ? 0 : PAUSES_S[s->script->pieces[piece].end]));
    }
fail:
    free(samples);
    td_list_destroy(list);
    td_memory_free(v->memory, host);
    td_memory_free(v->memory, device);
    return status;
}

/* All spectrograms without padding; a number that is none is told here. */
static td_status keep_mels(const td_speaking *s, td_speech *out)
{
    const size_t n_mels = s->model->n_mels;
    td_status status = TD_OK;
    out->n_mels = n_mels;
    for (size_t i = 0; i < s->n_utterances; i++)
        for (uint32_t k = 0; k < s->utterances[i].count; k++)
            out->frames += s->utterances[i].frames[k];
    TD_TRY(TD_NEW_ARRAY(&out->mel, out->frames * n_mels + 1));
    float *to = out->mel;
    for (size_t i = 0; i < s->n_utterances; i++) {
        const td_utterance *u = &s->utterances[i];
        for (uint32_t k = 0; k < u->count; k++) {
            const size_t n = u->frames[k] * n_mels;
            memcpy(to, u->mel + (size_t)k * s->max_frames * n_mels, n * sizeof *to);
            to += n;
        }
    }
    for (size_t i = 0; i < out->frames * n_mels; i++)
        TD_FAIL_IF(
            !isfinite(out->mel[i]), TD_ERR_FORMAT,
            "'%s': the voice makes numbers that are none (NaN or infinite); take an earlier checkpoint",
            td_checkpoint_path(s->voice->checkpoint));
fail:
    return status;
}

td_status td_voice_speak(td_voice *voice, const td_script *script, const td_speak_options *options,
                         td_speech *out)
{
    td_speaking s = {.voice = voice, .model = &voice->info->model, .script = script, .options = options};
    td_join join = {.rate = voice->info->mel.rate};
    td_status status = TD_OK;
    *out = (td_speech){.rate = join.rate};
    TD_TRY(td_voice_check_options(voice, options));
    TD_FAIL_IF(s.model->speaker_encoder && !voice->reference, TD_ERR_ARGUMENT,
               "the voice has no reference yet");
    TD_TRY(make_utterances(&s));
    if (s.model->decoder_strategy == TD_AUTOREGRESSIVE) {
        TD_TRY(run_autoregressive(&s));
    } else {
        TD_TRY(td_speaking_encode(&s));
        TD_TRY(td_speaking_parallel(&s));
    }
    TD_TRY(keep_mels(&s, out));
    for (size_t i = 0; i < s.n_utterances; i++)
        TD_TRY(add_sound(&s, i, &join));
    td_join_level(&join);
    out->samples = join.samples;
    out->count = join.count;
    join.samples = NULL;
fail:
    free(join.samples);
    free_speaking(&s);
    if (status != TD_OK) td_speech_free(out);
    return status;
}

void td_speech_free(td_speech *speech)
{
    free(speech->samples);
    free(speech->mel);
    *speech = (td_speech){0};
}

td_status td_speech_save_mel(const td_speech *speech, const td_mel_config *config, const char *path)
{
    const uint64_t dims[] = {speech->frames, speech->n_mels};
    char text[TD_MEL_CONFIG_TEXT_BYTES];
    td_safetensors_writer *writer = NULL;
    td_status status = TD_OK;
    td_mel_config_format(config, text);
    TD_TRY(td_safetensors_writer_open(path, &writer));
    TD_TRY(td_safetensors_writer_add_metadata(writer, "mel", text));
    TD_TRY(td_safetensors_writer_add_tensor(writer, "mel", TD_SAFETENSORS_F32, 2, dims));
    TD_TRY(td_safetensors_writer_write(writer, "mel", speech->mel,
                                       speech->frames * speech->n_mels * sizeof *speech->mel));
    TD_TRY(td_safetensors_writer_commit(writer));
fail:
    td_safetensors_writer_close(writer);
    return status;
}
