/* See tandem/voice.h and voice.h: opening a voice, what it is and can be asked for, and the calls. */
#include "synth/voice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "families/importer.h"
#include "synth/copy.h"
#include "synth/sound.h"
#include "synth/talk.h"

#define REFERENCE_LEAST_S 0.5
#define REFERENCE_MOST_S 12.0
#define REFERENCE_LEAST_RMS 1e-3 /* -60 dB */
#define TRIM_DB 40.0
#define TRIM_MARGIN_S 0.1

struct td_voice {
    td_registry *registry; /* with the device and its memory; NULL where they are borrowed */
    bool is_shared;        /* checkpoint, weights, lexicon and log are another voice's */
    td_device *device;
    td_memory *memory;
    td_log_context *log; /* or NULL: whatever the calling thread has */
    td_checkpoint *checkpoint;
    td_checkpoint_info spoken; /* the checkpoint's, with lengths that a voice needs */
    const td_checkpoint_info *info;
    td_model_facts facts;
    td_mel *mel;
    td_sound sound;
    td_store *store;
    td_speaker *speaker;
    td_lexicon *lexicon;    /* or NULL */
    td_device *data_device; /* where it is another one; with its memory */
    td_memory *data_memory;
    td_talker *talker; /* of a voice that makes samples itself, in place of the four above */
    bool keeps_mel;
    td_speech last;
    td_error error;
    atomic_bool cancel;
};

/* ---------------------------------------------------------------- opening */

/* The fields that a caller of any version has set. */
static td_status read_struct(const void *from, void *out, size_t size)
{
    uint32_t given;
    memset(out, 0, size);
    if (!from) return TD_OK;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) return TD_FAIL(TD_ERR_ARGUMENT, "the size of a struct of options is not set");
    memcpy(out, from, given < size ? given : size);
    return TD_OK;
}

/* What the file says of itself, before any driver is opened: a file that is refused costs next to nothing. */
static td_status read_file(td_voice *v, const char *path)
{
    TD_CHECK(td_checkpoint_open(path, &v->checkpoint));
    v->spoken = *td_checkpoint_get_info(v->checkpoint);
    v->info = &v->spoken;
    TD_CHECK(td_model_limit_speech(&v->spoken.model));
    v->facts = td_model_describe(&v->info->model);
    TD_REFUSE_IF(v->info->mel.n_mels != v->facts.n_mels, TD_ERR_FORMAT,
                 "'%s': the model makes %u bands and its front end has %u; the checkpoint is damaged", path,
                 v->facts.n_mels, v->info->mel.n_mels);
    return TD_OK;
}

/* On v->memory. */
static td_status load(td_voice *v, const td_voice_options *o)
{
    if (o->lora) TD_CHECK(td_import_attach(v->checkpoint, o->lora));
    if (v->info->model.family->talker)
        return v->info->model.family->talker->open(v->memory, v->data_memory ? v->data_memory : v->memory,
                                                   v->checkpoint, o->weights, &v->talker);
    TD_REFUSE_IF(o->weights && strcmp(o->weights, "fp32") != 0, TD_ERR_CONFIG,
                 "'%s' speaks with fp32 weights alone; open it without %s", o->path, o->weights);
    TD_CHECK(td_mel_create(v->memory, &v->info->mel, &v->mel));
    TD_CHECK(td_sound_open(v->memory, v->mel, o->path, o->vocoder, &v->sound));
    TD_CHECK(td_family_store(v->memory, &v->info->model, NULL, &(td_store_options){0}, &v->store));
    TD_CHECK(td_checkpoint_load_voice(v->checkpoint, v->store));
    return td_speaker_create(v->memory, v->store, &v->info->model, &v->speaker);
}

static td_status open_selected(td_voice *v, const char *selector, const char *role, td_device **device,
                               td_memory **memory)
{
    const td_device_info *info;
    td_status status = td_registry_select(v->registry, selector ? selector : "any", &info);
    TD_FAIL_IF(status != TD_OK && selector, TD_ERR_CONFIG, "%s", td_error_last()->message);
    TD_TRY(status);
    TD_FAIL_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
               "the simulated device computes nothing, so it cannot speak");
    TD_TRY(td_device_open(v->registry, info, device));
    TD_TRY(td_memory_create(*device, role, 0, memory));
fail:
    return status;
}

static td_status open_device(td_voice *v, const td_voice_options *o)
{
    td_registry_options settings;
    td_registry_options_from_env(&settings);
    if (o->cache_dir) settings.cache_dir = o->cache_dir;
    TD_CHECK(td_registry_open(&settings, &v->registry));
    TD_CHECK(open_selected(v, o->device, "model", &v->device, &v->memory));
    if (o->data_device) TD_CHECK(open_selected(v, o->data_device, "data", &v->data_device, &v->data_memory));
    return TD_OK;
}

td_status td_voice_open_on(td_memory *memory, const char *path, td_voice **out)
{
    td_voice *v = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&v));
    v->memory = memory;
    TD_TRY(read_file(v, path));
    TD_TRY(load(v, &(td_voice_options){.path = path}));
    *out = v;
    return TD_OK;
fail:
    td_voice_close(v);
    return status;
}

td_status td_voice_open(const td_voice_options *options, td_voice **out, td_error *error)
{
    td_log_context *former = td_log_bound();
    td_voice_options o;
    td_voice *v = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(read_struct(options, &o, sizeof o));
    TD_FAIL_IF(!o.path, TD_ERR_ARGUMENT, "a voice is opened without the path of its file");
    TD_TRY(TD_NEW(&v));
    if (o.log) {
        TD_TRY(td_log_open(o.log, o.log_context, o.log_level, NULL, &v->log));
        td_log_bind(v->log);
    }
    if (o.lexicon) TD_TRY(td_lexicon_open(o.lexicon, &v->lexicon));
    TD_TRY(read_file(v, o.path));
    TD_TRY(open_device(v, &o));
    TD_TRY(load(v, &o));
    *out = v;
fail:
    td_log_bind(former);
    if (error) *error = status == TD_OK ? (td_error){0} : *td_error_last();
    if (status != TD_OK) td_voice_close(v);
    return status;
}

/* What a second handle has for itself. */
static td_status share(const td_voice *lender, td_voice *v)
{
    v->is_shared = true;
    v->memory = lender->memory;
    v->data_memory = lender->data_memory;
    v->log = lender->log;
    v->checkpoint = lender->checkpoint;
    v->spoken = lender->spoken;
    v->info = &v->spoken;
    v->facts = lender->facts;
    v->lexicon = lender->lexicon;
    if (lender->talker) return lender->talker->class->share(lender->talker, &v->talker);
    TD_CHECK(td_mel_create(v->memory, &v->info->mel, &v->mel));
    TD_CHECK(td_sound_share(v->memory, v->mel, &lender->sound, &v->sound));
    TD_CHECK(td_store_borrow(lender->store, &v->store));
    return td_speaker_create(v->memory, v->store, &v->info->model, &v->speaker);
}

td_status td_voice_share(td_voice *voice, td_voice **out, td_error *error)
{
    td_voice *v = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&v));
    TD_TRY(share(voice, v));
    *out = v;
fail:
    if (error) *error = status == TD_OK ? (td_error){0} : *td_error_last();
    if (status != TD_OK) td_voice_close(v);
    return status;
}

void td_voice_close(td_voice *voice)
{
    if (!voice) return;
    td_speech_free(&voice->last);
    if (voice->talker) voice->talker->class->close(voice->talker);
    td_speaker_destroy(voice->speaker);
    td_store_destroy(voice->store);
    td_sound_close(&voice->sound);
    td_mel_destroy(voice->mel);
    if (voice->is_shared) {
        free(voice);
        return;
    }
    td_checkpoint_close(voice->checkpoint);
    td_lexicon_destroy(voice->lexicon);
    if (voice->registry) {
        td_memory_destroy(voice->data_memory);
        td_device_close(voice->data_device);
        td_memory_destroy(voice->memory);
        td_device_close(voice->device);
        td_registry_close(voice->registry);
    }
    td_log_close(voice->log);
    free(voice);
}

/* ---------------------------------------------------------------- what it is */

td_status td_voice_get_info(const td_voice *voice, td_voice_info *out)
{
    const td_model_facts *m = &voice->facts;
    td_voice_info info = {.size = out->size,
                          .family = voice->info->model.family->name,
                          .languages = voice->info->language,
                          .speakers = voice->info->speakers,
                          .device = td_device_get_info(td_memory_device(voice->memory)),
                          .rate = voice->talker ? voice->talker->rate : voice->info->mel.rate,
                          .n_speakers = m->n_speakers,
                          .shares_steps = voice->talker && voice->talker->class->shares_steps,
                          .needs_reference = m->takes_reference,
                          .has_speed = m->sets_speed,
                          .has_pitch = m->sets_pitch,
                          .has_energy = m->sets_energy};
    if (out->size < sizeof out->size)
        return TD_FAIL(TD_ERR_ARGUMENT, "the size of a td_voice_info is not set");
    for (size_t i = 0; voice->talker && i < voice->info->model.family->n_parts; i++)
        info.parameters += td_checkpoint_part_size(voice->checkpoint, i);
    for (size_t i = 0; voice->store && i < td_store_count(voice->store); i++) {
        const td_store_entry entry = td_store_get(voice->store, i);
        if (entry.role == TD_TENSOR_PARAMETER) info.parameters += td_shape_size(entry.shape);
    }
    memcpy(out, &info, info.size < sizeof info ? info.size : sizeof info);
    return TD_OK;
}

td_memory *td_voice_memory(const td_voice *voice)
{
    return voice->memory;
}

const td_checkpoint_info *td_voice_checkpoint(const td_voice *voice)
{
    return voice->info;
}

const td_error *td_voice_error(const td_voice *voice)
{
    return &voice->error;
}

td_status td_voice_save_parts(const td_voice *voice, const char *path)
{
    if (!voice->talker)
        return TD_FAIL(TD_ERR_UNSUPPORTED, "a voice of family %s has no parts to write",
                       voice->info->model.family->name);
    return voice->talker->class->save(voice->talker, path);
}

td_status td_voice_save_trace(const td_voice *voice, const char *path)
{
    if (!voice->talker)
        return TD_FAIL(TD_ERR_UNSUPPORTED, "a voice of family %s keeps no trace",
                       voice->info->model.family->name);
    return voice->talker->class->save_trace(voice->talker, path);
}

void td_voice_keep_mel(td_voice *voice)
{
    voice->keeps_mel = true;
}

const td_speech *td_voice_last(const td_voice *voice)
{
    return &voice->last;
}

/* ---------------------------------------------------------------- what is asked for */

/* The number of a speaker from a name of the training data or a number; NULL is the first. */
static td_status find_speaker(const td_voice *voice, const char *name, uint32_t *out)
{
    const uint32_t n = voice->facts.n_speakers;
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
    if (n == 0) return TD_FAIL(TD_ERR_CONFIG, "speaker '%s': the voice has no table of speakers", name);
    char list[256];
    snprintf(list, sizeof list, "%s", voice->info->speakers);
    for (char *c = list; *c; c++)
        if (*c == '\n') *c = c[1] ? ' ' : 0;
    return TD_FAIL(TD_ERR_CONFIG, "speaker '%s': the voice has %u speakers: %s, or a number from 0 on", name,
                   n, list);
}

static td_status read_reference(td_voice *v, const char *path, td_mel_clip *out)
{
    const uint32_t rate = v->info->mel.rate;
    const td_decode_options options = {
        .rate = rate, .trim_db = TRIM_DB, .margin_s = TRIM_MARGIN_S, .finite = true};
    td_audio audio = {0};
    td_status status = TD_OK;
    TD_TRY(td_audio_decode(path, &options, &audio));
    TD_FAIL_IF(!(audio.report.rms >= REFERENCE_LEAST_RMS), TD_ERR_FORMAT,
               "%s: silent (RMS %.1e); take a recording in which the speaker is heard", path,
               audio.report.rms);
    TD_FAIL_IF((double)audio.count < REFERENCE_LEAST_S * rate, TD_ERR_FORMAT,
               "%s: %.2f s of sound; a reference needs %.1f s, better 5", path, (double)audio.count / rate,
               REFERENCE_LEAST_S);
    const size_t most = (size_t)(REFERENCE_MOST_S * rate);
    TD_TRY(td_mel_clip_make(v->mel, v->memory, audio.samples, audio.count < most ? audio.count : most, out));
fail:
    td_audio_free(&audio);
    return status;
}

static td_status check_options(const td_voice *voice, const td_speak_options *o)
{
    const td_model_facts *m = &voice->facts;
    TD_REFUSE_IF(!m->sets_speed && o->speed != 1, TD_ERR_CONFIG,
                 "speed: a voice of family %s decides by itself how fast it speaks",
                 voice->info->model.family->name);
    TD_REFUSE_IF(!(o->speed > 0 && isfinite(o->speed)), TD_ERR_CONFIG, "a speed of %g; it is above 0",
                 o->speed);
    TD_REFUSE_IF(!(o->energy > 0 && isfinite(o->energy)), TD_ERR_CONFIG, "an energy of %g; it is above 0",
                 o->energy);
    TD_REFUSE_IF(o->at_once > TD_TALK_MOST_AT_ONCE, TD_ERR_CONFIG, "%u pieces at once; there can be %u",
                 o->at_once, TD_TALK_MOST_AT_ONCE);
    TD_REFUSE_IF(!isfinite(o->pitch_shift), TD_ERR_CONFIG, "a pitch shift of %g", o->pitch_shift);
    TD_REFUSE_IF(!m->sets_pitch && o->pitch_shift != 0, TD_ERR_CONFIG,
                 "pitch shift: the voice was trained without model.pitch_predictor");
    TD_REFUSE_IF(!m->sets_energy && o->energy != 1, TD_ERR_CONFIG,
                 "energy: the voice was trained without model.energy_predictor");
    TD_REFUSE_IF(m->takes_reference && !o->reference && !voice->talker, TD_ERR_CONFIG,
                 "the voice speaks like a recording; name a reference");
    TD_REFUSE_IF(m->takes_reference && !o->reference && !o->speaker, TD_ERR_CONFIG,
                 "the voice speaks like a recording; name a reference of six seconds or more%s",
                 *voice->info->speakers ? ", or one of the speakers that `tandem inspect` lists" : "");
    TD_REFUSE_IF(!m->takes_reference && o->reference, TD_ERR_CONFIG,
                 "reference: the voice was trained without a speaker encoder and cannot follow a recording");
    return TD_OK;
}

static td_status read_options(const td_voice *voice, const td_speak_options *given, td_speak_options *out,
                              uint32_t *speaker)
{
    TD_CHECK(read_struct(given, out, sizeof *out));
    if (out->speed == 0) out->speed = 1;
    if (out->energy == 0) out->energy = 1;
    if (!voice->talker) TD_CHECK(find_speaker(voice, out->speaker, speaker));
    return check_options(voice, out);
}

/* ---------------------------------------------------------------- calls */

/* By a voice that makes samples itself. */
static td_status talk(td_voice *v, const td_speak_options *o, const td_script *script, td_voice_sink sink,
                      void *context)
{
    const td_talk_style style = {.speaker = o->speaker,
                                 .references = o->reference,
                                 .speed = o->speed,
                                 .temperature = o->temperature,
                                 .top_p = o->top_p,
                                 .repetition_penalty = o->repetition_penalty,
                                 .top_k = o->top_k,
                                 .greedy = o->greedy,
                                 .no_guard = o->no_guard,
                                 .seed = o->seed,
                                 .at_once = o->at_once,
                                 .cancel = &v->cancel,
                                 .pause = o->pause,
                                 .pause_context = o->pause_context,
                                 .sink = sink,
                                 .context = context};
    return td_talk_make(v->talker, &style, script, &v->last);
}

/* Into voice->last; samples to the sink, if there is one. */
static td_status speak(td_voice *v, const char *text, const td_speak_options *options, td_voice_sink sink,
                       void *context)
{
    td_speak_options o;
    td_speech_request request = {.memory = v->memory,
                                 .model = &v->info->model,
                                 .speaker = v->speaker,
                                 .vocoder = v->sound.vocoder,
                                 .keeps_mel = v->keeps_mel,
                                 .cancel = &v->cancel,
                                 .sink = sink,
                                 .context = context};
    td_script script = {0};
    td_mel_clip reference = {0};
    td_status status = TD_OK;
    td_speech_free(&v->last);
    TD_FAIL_IF(!text, TD_ERR_ARGUMENT, "a voice is to speak without a text");
    TD_TRY(read_options(v, options, &o, &request.speaker_number));
    const td_script_options words = {
        .language = o.language, .lexicon = v->lexicon, .is_strict = o.strict_text};
    TD_TRY(td_script_make(v->info, &words, text, strlen(text), &script));
    if (v->talker) {
        status = talk(v, &o, &script, sink, context);
        goto fail;
    }
    if (o.reference) TD_TRY(read_reference(v, o.reference, &reference));
    request.script = &script;
    request.reference = reference.mel;
    request.reference_frames = reference.frames;
    request.speed = o.speed;
    request.pitch_shift = o.pitch_shift;
    request.energy = o.energy;
    request.seed = o.seed;
    request.pause = o.pause;
    request.pause_context = o.pause_context;
    TD_TRY(td_speech_make(&request, &v->last));
fail:
    td_mel_clip_free(v->memory, &reference);
    td_script_free(&script);
    return status;
}

static td_status call(td_voice *v, const char *text, const td_speak_options *options, td_voice_sink sink,
                      void *context)
{
    td_log_context *former = td_log_bound();
    atomic_store(&v->cancel, false);
    if (v->log) td_log_bind(v->log);
    const td_status status = speak(v, text, options, sink, context);
    td_log_bind(former);
    v->error = status == TD_OK ? (td_error){0} : *td_error_last();
    return status;
}

td_status td_voice_speak(td_voice *voice, const char *text, const td_speak_options *options, float **samples,
                         size_t *count)
{
    const td_status status = call(voice, text, options, NULL, NULL);
    *samples = voice->last.samples; /* NULL after a failure */
    *count = voice->last.count;
    voice->last.samples = NULL;
    return status;
}

void td_voice_free_samples(float *samples)
{
    free(samples);
}

td_status td_voice_stream(td_voice *voice, const char *text, const td_speak_options *options,
                          td_voice_sink sink, void *context)
{
    return call(voice, text, options, sink, context);
}

void td_voice_cancel(td_voice *voice)
{
    atomic_store(&voice->cancel, true);
}
