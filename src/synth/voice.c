/* See voice.h. Pieces go in batches of equal shape; their signals are joined in order. */
#include "synth/voice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "device/blocking.h"
#include "model/speak.h"
#include "synth/join.h"

#define BATCH_ITEMS 8u /* at most */
#define ROUND_TOKENS 16u
#define REFERENCE_LEAST_S 0.5
#define REFERENCE_MOST_S 12.0
#define REFERENCE_LEAST_RMS 1e-3 /* -60 dB */
#define TRIM_DB 40.0
#define TRIM_MARGIN_S 0.1

/* Behind a piece that ends so. */
static const double PAUSES_S[] = {
    [TD_PIECE_WITHIN] = 0, [TD_PIECE_CLAUSE] = 0.08, [TD_PIECE_SENTENCE] = 0.2, [TD_PIECE_PARAGRAPH] = 0.5};

struct td_voice {
    td_memory *memory; /* borrowed */
    td_checkpoint *checkpoint;
    const td_checkpoint_info *info; /* the checkpoint's */
    td_mel *mel;
    td_vocoder *vocoder;
    td_store *store;  /* NULL until it first speaks */
    float *reference; /* [reference_frames, n_mels], or NULL */
    uint32_t reference_frames;
};

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
    td_store_destroy(voice->store);
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
    td_status status = TD_OK;
    free(v->reference);
    v->reference_frames = 0;
    TD_TRY(TD_NEW_ARRAY(&v->reference, (size_t)(mel->mel.bytes / sizeof(float))));
    TD_TRY(td_blocking_read(v->memory, mel->mel, (td_point){0}, v->reference));
    v->reference_frames = mel->frames;
fail:
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

/* One call of td_voice_speak. */
typedef struct call {
    td_voice *voice;
    const td_script *script;
    uint64_t seed;
    td_speaking speaking; /* of `utterances` */
    uint32_t *tokens;     /* [utterances, B] */
    uint32_t *ids;        /* [utterances, B, L] */
    uint32_t *speakers;   /* [B]: the same for every item, as are these */
    uint32_t *reference_counts;
    float *references; /* [B, R, n_mels] */
} call;

static td_status make_store(td_voice *v)
{
    const bool refers = v->info->model.speaker_encoder;
    const td_model_shape least = {.items = 1, .tokens = 1, .reference_frames = refers};
    td_model_encode encode = {0};
    td_status status = TD_OK;
    if (v->store) return TD_OK;
    TD_TRY(td_model_encode_graph(&v->info->model, &least, NULL, &encode));
    TD_TRY(td_store_create(v->memory, encode.graph, &(td_store_options){0}, &v->store));
    TD_TRY(td_checkpoint_load(v->checkpoint, v->store, TD_BLOCK_WEIGHT));
fail:
    td_graph_destroy(encode.graph);
    if (status != TD_OK) {
        td_store_destroy(v->store);
        v->store = NULL;
    }
    return status;
}

static td_status fill_speaker(call *c, uint32_t speaker)
{
    const td_voice *v = c->voice;
    const uint32_t items = c->speaking.items;
    const size_t size = (size_t)v->reference_frames * v->info->model.n_mels;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&c->speakers, items));
    TD_TRY(TD_NEW_ARRAY(&c->reference_counts, items));
    TD_TRY(TD_NEW_ARRAY(&c->references, items * size + 1));
    for (uint32_t i = 0; i < items; i++) {
        c->speakers[i] = speaker;
        c->reference_counts[i] = v->reference_frames;
        if (size) memcpy(c->references + i * size, v->reference, size * sizeof *c->references);
    }
fail:
    return status;
}

/* Tokens of the pieces into their places, and one in those that are padding. */
static td_status fill_tokens(call *c)
{
    const size_t n = c->script->count, places = c->speaking.n_utterances * c->speaking.items,
                 most = c->speaking.max_tokens;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&c->tokens, places));
    TD_TRY(TD_NEW_ARRAY(&c->ids, places * most));
    for (size_t i = 0; i < places; i++) {
        c->tokens[i] = 1;
        if (i >= n) continue;
        const td_tokens *tokens = &c->script->pieces[i].tokens;
        c->tokens[i] = (uint32_t)tokens->count;
        for (size_t k = 0; k < tokens->count; k++)
            c->ids[i * most + k] = (uint32_t)tokens->ids[k];
    }
fail:
    return status;
}

static td_status make_utterances(call *c, uint32_t speaker)
{
    const size_t n = c->script->count;
    td_speaking *s = &c->speaking;
    td_status status = TD_OK;
    TD_FAIL_IF(n == 0, TD_ERR_ARGUMENT, "a script without pieces");
    s->items = n < BATCH_ITEMS ? (uint32_t)n : BATCH_ITEMS;
    for (size_t i = 0; i < n; i++)
        if (c->script->pieces[i].tokens.count > s->max_tokens)
            s->max_tokens = (uint32_t)c->script->pieces[i].tokens.count;
    s->max_tokens = (s->max_tokens + ROUND_TOKENS - 1) / ROUND_TOKENS * ROUND_TOKENS;
    s->n_utterances = (n + s->items - 1) / s->items;
    TD_TRY(TD_NEW_ARRAY(&s->utterances, s->n_utterances));
    TD_TRY(fill_speaker(c, speaker));
    TD_TRY(fill_tokens(c));
    for (size_t i = 0; i < s->n_utterances; i++) {
        const size_t left = n - i * s->items;
        s->utterances[i] = (td_utterance){.count = left < s->items ? (uint32_t)left : s->items,
                                          .tokens = c->tokens + i * s->items,
                                          .ids = c->ids + i * s->items * s->max_tokens,
                                          .speakers = c->speakers,
                                          .reference = c->references,
                                          .reference_counts = c->reference_counts};
    }
fail:
    return status;
}

static void free_call(call *c)
{
    for (size_t i = 0; c->speaking.utterances && i < c->speaking.n_utterances; i++)
        td_utterance_clear(&c->speaking.utterances[i]);
    free(c->speaking.utterances);
    free(c->tokens);
    free(c->ids);
    free(c->speakers);
    free(c->reference_counts);
    free(c->references);
}

/* ---------------------------------------------------------------- sound */

/* The signals of one utterance, behind those that are there. */
static td_status add_sound(const call *c, size_t number, td_join *join)
{
    const td_utterance *u = &c->speaking.utterances[number];
    float *samples = NULL;
    size_t firsts[BATCH_ITEMS + 1];
    const td_vocoder_batch batch = {.items = u->count,
                                    .max_frames = c->speaking.max_frames,
                                    .frames = u->frames,
                                    .seed = c->seed + number};
    td_status status = TD_OK;
    TD_TRY(td_vocoder_run_host(c->voice->vocoder, &batch, u->mel, &samples, firsts));
    for (uint32_t i = 0; i < u->count; i++) {
        const size_t piece = number * c->speaking.items + i;
        const bool is_last = piece + 1 == c->script->count;
        TD_TRY(td_join_add(join, samples + firsts[i], firsts[i + 1] - firsts[i],
                           is_last ? 0 : PAUSES_S[c->script->pieces[piece].end]));
    }
fail:
    free(samples);
    return status;
}

/* All spectrograms without padding; a number that is none is told here. */
static td_status keep_mels(const call *c, td_speech *out)
{
    const td_speaking *s = &c->speaking;
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
            td_checkpoint_path(c->voice->checkpoint));
fail:
    return status;
}

td_status td_voice_speak(td_voice *voice, const td_script *script, const td_speak_options *options,
                         td_speech *out)
{
    const td_model_config *model = &voice->info->model;
    call c = {.voice = voice,
              .script = script,
              .seed = options->seed,
              .speaking = {.model = model,
                           .options = {.seed = options->seed},
                           .reference_frames = voice->reference_frames,
                           .speed = options->speed,
                           .pitch_shift = options->pitch_shift,
                           .energy = options->energy}};
    td_join join = {.rate = voice->info->mel.rate};
    td_status status = TD_OK;
    *out = (td_speech){.rate = join.rate};
    TD_TRY(td_voice_check_options(voice, options));
    TD_FAIL_IF(model->speaker_encoder && !voice->reference, TD_ERR_ARGUMENT,
               "the voice has no reference yet");
    TD_TRY(make_store(voice));
    c.speaking.store = voice->store;
    TD_TRY(make_utterances(&c, options->speaker));
    TD_TRY(td_model_speak(&c.speaking));
    if (c.speaking.n_cut > 0)
        td_log_warn("%zu of %zu pieces of the text were cut off: the voice did not stop by itself",
                    c.speaking.n_cut, script->count);
    TD_TRY(keep_mels(&c, out));
    for (size_t i = 0; i < c.speaking.n_utterances; i++)
        TD_TRY(add_sound(&c, i, &join));
    td_join_level(&join);
    out->samples = join.samples;
    out->count = join.count;
    join.samples = NULL;
fail:
    free(join.samples);
    free_call(&c);
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
