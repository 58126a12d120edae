/* What the model makes of texts by itself (families/speak.h, talker.h), and pictures and sounds of that, drawn and
 * written on the side thread. See train.h. Covered by tests/train/test_train_run.c and
 * tests/xtts/test_xtts_finetune.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "audio/encode.h"
#include "audio/vocoder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "device/blocking.h"
#include "families/speak.h"
#include "families/talker.h"
#include "train/picture.h"
#include "train/train_internal.h"

enum { SHOWN_ITEMS = 2, ROUND = 32, GRIFFIN_LIM_ITERATIONS = 40 };

/* ---------------------------------------------------------------- free running */

void td_free_run_clear(td_free_run *run)
{
    free(run->mel);
    free(run->counts);
    *run = (td_free_run){0};
}

td_status td_trainer_fetch(const td_trainer *t, const td_batch *batch, const char *name, void *out)
{
    td_status status = TD_OK;
    const td_feature *feature = td_batch_find(batch, name);
    char *values = NULL;
    if (feature != NULL) {
        TD_TRY(TD_NEW_ARRAY(&values, (size_t)feature->span.bytes));
        TD_TRY(td_blocking_read(t->model_memory, feature->span, batch->ready, values));
    }
    memcpy(out, &values, sizeof values);
    return TD_OK;
fail:
    free(values);
    return status;
}

/* What the host has to know of a batch, and where its references lie. */
typedef struct texts {
    uint32_t *tokens, *ids, *speakers, *reference_counts; /* owned; NULL where the model does not read it */
    td_span *references;                                  /* owned array */
} texts;

static td_status fetch_texts(const td_trainer *t, const td_batch *batch, texts *out)
{
    const td_feature *reference = td_batch_find(batch, "reference_mel");
    TD_CHECK(td_trainer_fetch(t, batch, "token_counts", &out->tokens));
    TD_CHECK(td_trainer_fetch(t, batch, "token_ids", &out->ids));
    TD_CHECK(td_trainer_fetch(t, batch, "speakers", &out->speakers));
    TD_CHECK(td_trainer_fetch(t, batch, "reference_counts", &out->reference_counts));
    if (reference == NULL) return TD_OK;
    const uint64_t bytes = reference->span.bytes / batch->count;
    TD_CHECK(TD_NEW_ARRAY(&out->references, batch->count));
    for (uint32_t i = 0; i < batch->count; i++)
        out->references[i] = td_span_part(reference->span, i * bytes, bytes);
    return TD_OK;
}

static void free_texts(texts *x)
{
    free(x->tokens);
    free(x->ids);
    free(x->speakers);
    free(x->reference_counts);
    free(x->references);
}

static td_status read_spoken(const td_trainer *t, const td_spoken *spoken, uint32_t items, td_free_run *out)
{
    out->frames = spoken->max_frames;
    TD_CHECK(TD_NEW_ARRAY(&out->counts, items));
    memcpy(out->counts, spoken->frames, items * sizeof *out->counts);
    TD_CHECK(TD_NEW_ARRAY(&out->mel, (size_t)(spoken->mel.bytes / sizeof(float))));
    TD_CHECK(td_blocking_read(t->model_memory, spoken->mel, (td_point){0}, out->mel));
    out->items = items;
    return TD_OK;
}

/* Half as many frames again as the batch has are room for slow speech. */
td_status td_trainer_run_free(td_trainer *t, const td_batch *batch, td_free_run *out)
{
    texts x = {0};
    td_spoken spoken;
    td_status status = TD_OK;
    *out = (td_free_run){0};
    if (!t->speaker) TD_TRY(td_speaker_create(t->model_memory, t->store, &t->info.model, &t->speaker));
    TD_TRY(fetch_texts(t, batch, &x));
    const td_utterance utterance = {.count = batch->count,
                                    .tokens = x.tokens,
                                    .ids = x.ids,
                                    .speakers = x.speakers,
                                    .reference_counts = x.reference_counts,
                                    .references = x.references};
    const td_speaking speaking = {.seed = t->s.seed,
                                  .items = batch->shape.items,
                                  .max_tokens = batch->shape.tokens,
                                  .reference_frames = batch->shape.reference_frames,
                                  .limit =
                                      (batch->shape.frames + batch->shape.frames / 2 + ROUND) / ROUND * ROUND,
                                  .speed = 1,
                                  .energy = 1,
                                  .utterances = &utterance,
                                  .n_utterances = 1};
    TD_TRY(td_speaker_start(t->speaker, &speaking));
    status = td_speaker_say(t->speaker, 0, &spoken);
    if (status == TD_OK) status = read_spoken(t, &spoken, batch->count, out);
    td_speaker_end(t->speaker);
fail:
    if (status != TD_OK) td_free_run_clear(out);
    free_texts(&x);
    return status;
}

/* ---------------------------------------------------------------- showing */

/* One item with copies of all that is shown of it, in one block. */
typedef struct show_job {
    td_events *events;
    const td_run_dir *run;
    const td_dataset *dataset; /* that the item is a row of; open until the side thread is done */
    uint64_t step;
    uint32_t row, item, n_mels, rate;
    uint32_t frames, target_frames, steps, tokens, n_samples;
    float *mel, *target, *alignment, *samples; /* within the block */
} show_job;

static td_status show_grid(const show_job *job, const char *what, const td_heat *grid)
{
    td_status status = TD_OK;
    td_picture picture = {0};
    char tag[64], name[64], path[TD_FILE_PATH_BYTES];
    if (grid->columns == 0 || grid->rows == 0) return TD_OK;
    TD_TRY(td_picture_encode(grid, &picture));
    snprintf(tag, sizeof tag, "sample_%u/%s", job->item, what);
    TD_TRY(td_events_image(job->events, job->step, tag, picture.width, picture.height, picture.png,
                           picture.bytes));
    snprintf(name, sizeof name, "samples/step-%" PRIu64 "-%u-%s.png", job->step, job->item, what);
    TD_TRY(td_run_dir_path(job->run, name, path));
    TD_TRY(td_file_write_atomic(path, picture.png, picture.bytes));
fail:
    free(picture.png);
    return status;
}

static td_status show_sound(const show_job *job)
{
    char tag[64], name[64], path[TD_FILE_PATH_BYTES];
    if (job->n_samples == 0) return TD_OK;
    snprintf(tag, sizeof tag, "sample_%u/audio", job->item);
    TD_CHECK(td_events_audio(job->events, job->step, tag, job->rate, job->samples, job->n_samples));
    snprintf(name, sizeof name, "samples/step-%" PRIu64 "-%u.wav", job->step, job->item);
    TD_CHECK(td_run_dir_path(job->run, name, path));
    return td_audio_encode(path, job->samples, job->n_samples, job->rate);
}

/* What the voice should say, and how the recording sounds. One that cannot be read any more, since its
 * spectrogram was kept, does not end the run. */
static td_status show_original(const show_job *job)
{
    td_status status = TD_OK;
    char name[64], path[TD_FILE_PATH_BYTES];
    td_audio audio = {0};
    const char *text = td_dataset_text(job->dataset, job->row);
    snprintf(name, sizeof name, "samples/step-%" PRIu64 "-%u.txt", job->step, job->item);
    TD_TRY(td_run_dir_path(job->run, name, path));
    TD_TRY(td_file_write_atomic(path, text, strlen(text)));
    TD_TRY(td_dataset_clip_path(job->dataset, job->row, path));
    if (td_audio_decode(path, &(td_decode_options){.rate = job->rate}, &audio) != TD_OK) {
        td_log_warn("the samples lack a recording: %s", td_error_last()->message);
        return TD_OK;
    }
    snprintf(name, sizeof name, "samples/step-%" PRIu64 "-%u-target.wav", job->step, job->item);
    TD_TRY(td_run_dir_path(job->run, name, path));
    TD_TRY(td_audio_encode(path, audio.samples, audio.count, audio.rate));
fail:
    td_audio_free(&audio);
    return status;
}

static td_status show_item(void *context)
{
    const show_job *job = context;
    const td_heat made = {job->mel, job->frames, job->n_mels, job->n_mels, 1, -2, 2, 2};
    const td_heat target = {job->target, job->target_frames, job->n_mels, job->n_mels, 1, -2, 2, 2};
    const td_heat alignment = {job->alignment, job->steps, job->tokens, job->tokens, 1, 0, 0, 3};
    TD_CHECK(show_grid(job, "spectrogram", &made));
    TD_CHECK(show_grid(job, "target", &target));
    TD_CHECK(show_grid(job, "alignment", &alignment));
    TD_CHECK(show_sound(job));
    TD_CHECK(show_original(job));
    return td_events_flush(job->events);
}

/* With room for what `sizes` counts. */
static td_status make_job(const td_trainer *t, show_job sizes, show_job **out)
{
    const uint32_t n_mels = t->info.mel.n_mels;
    const size_t floats = ((size_t)sizes.frames + sizes.target_frames) * n_mels +
                          (size_t)sizes.steps * sizes.tokens + sizes.n_samples;
    char *block;
    *out = NULL;
    TD_CHECK(td_alloc_zeroed(1, sizeof **out + sizeof(float) * floats, &block));
    show_job *job = *out = (show_job *)(void *)block;
    *job = sizes;
    job->events = td_record_events(t->record);
    job->run = t->run;
    job->dataset = t->has_val ? t->val_data.dataset : t->data.dataset;
    job->step = t->state.step;
    job->n_mels = n_mels;
    job->mel = (float *)(void *)(block + sizeof *job);
    job->target = job->mel + (size_t)job->frames * n_mels;
    job->alignment = job->target + (size_t)job->target_frames * n_mels;
    job->samples = job->alignment + (size_t)job->steps * job->tokens;
    return TD_OK;
}

static td_status make_sound(td_trainer *t, show_job *job)
{
    td_status status = TD_OK;
    td_vocoder *vocoder = NULL;
    float *samples = NULL;
    size_t firsts[2];
    const td_vocoder_batch batch = {
        .items = 1, .count = 1, .max_frames = job->frames, .frames = &job->frames, .seed = t->s.seed};
    TD_TRY(td_vocoder_open("griffin-lim", t->data.mel, t->data_memory,
                           &(td_vocoder_options){.iterations = GRIFFIN_LIM_ITERATIONS}, &vocoder));
    TD_TRY(td_vocoder_run_host(vocoder, &batch, job->mel, &samples, firsts));
    memcpy(job->samples, samples, sizeof(float) * job->n_samples);
fail:
    free(samples);
    td_vocoder_destroy(vocoder);
    return status;
}

struct td_view {
    uint32_t *counts, *token_counts, *index; /* frames and tokens of items; token of each frame */
    float *attention, *forced;               /* instead of the index; predicted with the truth given */
    uint32_t attention_steps, forced_frames;
};

static td_status read_view(td_trainer *t, td_shaped_plan *shaped, const td_batch *batch, td_view *v)
{
    const td_graph *g = shaped->graph;
    const td_tensor attention = td_graph_find_output(g, "attention"),
                    index = td_graph_find_output(g, "index");
    const td_tensor forced = td_graph_find_output(g, "predicted_mel");
    TD_CHECK(td_trainer_fetch(t, batch, "frame_counts", &v->counts));
    TD_CHECK(td_trainer_fetch(t, batch, "token_counts", &v->token_counts));
    if (attention.id != 0) {
        const td_shape shape = td_graph_shape(g, attention);
        v->attention_steps = shape.dims[1];
        TD_CHECK(TD_NEW_ARRAY(&v->attention, td_shape_size(shape)));
        TD_CHECK(td_plan_read(shaped->plan, attention, v->attention));
    } else if (index.id != 0) {
        TD_CHECK(TD_NEW_ARRAY(&v->index, (size_t)batch->count * batch->shape.frames));
        TD_CHECK(td_plan_read(shaped->plan, index, v->index));
    }
    v->forced_frames = td_graph_shape(g, forced).dims[1];
    TD_CHECK(TD_NEW_ARRAY(&v->forced, td_shape_size(td_graph_shape(g, forced))));
    return td_plan_read(shaped->plan, forced, v->forced);
}

td_status td_trainer_view(td_trainer *t, td_shaped_plan *shaped, const td_batch *batch, td_view **out)
{
    td_status status = TD_OK;
    td_view *v = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&v));
    TD_TRY(read_view(t, shaped, batch, v));
    *out = v;
    return TD_OK;
fail:
    td_view_free(v);
    return status;
}

void td_view_free(td_view *v)
{
    if (v == NULL) return;
    free(v->counts);
    free(v->token_counts);
    free(v->index);
    free(v->attention);
    free(v->forced);
    free(v);
}

static td_status tell_sampled(td_trainer *t, uint64_t start_ns)
{
    char text[TD_FILE_PATH_BYTES];
    TD_CHECK(td_run_dir_path(t->run, "samples", text));
    td_train_event event = {.kind = TD_TRAIN_SAMPLED,
                            .step = t->state.step,
                            .epoch = t->state.sampler.epoch,
                            .distance = NAN,
                            .took_s = 1e-9 * (double)(td_clock_ns() - start_ns),
                            .text = text};
    return td_trainer_tell(t, &event);
}

static td_status give_item(td_trainer *t, const td_batch *batch, const td_view *v, uint32_t item,
                           const float *target, const td_free_run *run)
{
    td_status status = TD_OK;
    show_job *job = NULL;
    const uint32_t n_mels = t->info.mel.n_mels, target_frames = v->counts[item];
    const uint32_t tokens = v->token_counts != NULL ? v->token_counts[item] : 0;
    const bool is_free = run->items > item;
    const uint32_t frames = is_free ? run->counts[item] : target_frames;
    const uint32_t steps =
        v->attention != NULL ? target_frames / (v->forced_frames / v->attention_steps) : target_frames;
    const float *made = is_free ? run->mel + (size_t)item * run->frames * n_mels
                                : v->forced + (size_t)item * v->forced_frames * n_mels;
    const show_job sizes = {.row = batch->rows[item],
                            .item = item,
                            .rate = t->info.mel.rate,
                            .frames = frames,
                            .target_frames = target_frames,
                            .steps = steps,
                            .tokens = tokens,
                            .n_samples = frames > 1 ? (frames - 1) * t->info.mel.hop_samples : 0};
    TD_TRY(make_job(t, sizes, &job));
    memcpy(job->mel, made, sizeof(float) * frames * n_mels);
    memcpy(job->target, target + (size_t)item * batch->shape.frames * n_mels,
           sizeof(float) * target_frames * n_mels);
    for (uint32_t i = 0; i < steps; ++i) {
        for (uint32_t l = 0; l < tokens; ++l) {
            job->alignment[(size_t)i * tokens + l] =
                v->attention != NULL
                    ? v->attention[((size_t)item * v->attention_steps + i) * batch->shape.tokens + l]
                    : (float)(v->index != NULL && v->index[(size_t)item * batch->shape.frames + i] == l);
        }
    }
    if (frames > 1) TD_TRY(make_sound(t, job));
    status = td_side_give(t->painter, show_item, job);
    job = NULL;
fail:
    free(job);
    return status;
}

td_status td_trainer_show(td_trainer *t, const td_batch *batch, const td_view *view, const float *target,
                          const td_free_run *run)
{
    const uint64_t start_ns = td_clock_ns();
    for (uint32_t i = 0; i < batch->count && i < SHOWN_ITEMS; ++i)
        TD_CHECK(give_item(t, batch, view, i, target, run));
    return tell_sampled(t, start_ns);
}

/* ---------------------------------------------------------------- families that make samples themselves */

static td_status give_speech(td_trainer *t, uint32_t item, uint32_t row, const td_talker *talker,
                             const td_talked *talked)
{
    show_job *job;
    const show_job sizes = {
        .row = row, .item = item, .rate = talker->rate, .n_samples = (uint32_t)talked->count};
    TD_CHECK(make_job(t, sizes, &job));
    memcpy(job->samples, talked->samples, sizeof(float) * talked->count);
    return td_side_give(t->painter, show_item, job);
}

/* A row's text, said by a talker that has begun. */
static td_status say_row(td_trainer *t, uint32_t item, uint32_t row, td_talker *talker)
{
    const td_dataset *dataset = t->has_val ? t->val_data.dataset : t->data.dataset;
    const size_t count = dataset->view.rows[row].n_tokens;
    td_status status = TD_OK;
    uint32_t *ids = NULL;
    td_talked talked = {0};
    TD_TRY(TD_NEW_ARRAY(&ids, count));
    for (size_t i = 0; i < count; ++i)
        ids[i] = (uint32_t)td_dataset_tokens(dataset, row)[i];
    TD_TRY(talker->class->say(talker, &(td_piece_tokens){.ids = ids, .count = count}, 1, &talked));
    status = give_speech(t, item, row, talker, &talked);
fail:
    free(talked.samples);
    free(ids);
    return status;
}

/* Halves of fp32 weights are enough to listen to, and leave training more room. */
static td_status speak_rows(td_trainer *t, const td_checkpoint *voice)
{
    const td_talker_class *class = t->info.model.family->talker;
    const td_dataset *dataset = t->has_val ? t->val_data.dataset : t->data.dataset;
    const td_data_rows *rows = &t->val.rows;
    char path[TD_FILE_PATH_BYTES];
    td_talk_style style = {.references = t->s.sample_reference, .speed = 1, .seed = t->s.seed};
    td_talker *talker = NULL;
    td_status status = TD_OK;
    if (style.references == NULL) {
        TD_CHECK(td_dataset_clip_path(dataset, rows->rows[0], path));
        style.references = path;
    }
    TD_TRY(class->open(t->model_memory, t->data_memory, voice, "bf16", &talker));
    TD_TRY(class->start(talker, &style));
    for (uint32_t i = 0; i < rows->n_rows && i < SHOWN_ITEMS; ++i)
        TD_TRY(say_row(t, i, rows->rows[i], talker));
fail:
    if (talker != NULL) class->close(talker);
    return status;
}

td_status td_trainer_speak(td_trainer *t)
{
    td_checkpoint *voice = NULL;
    const uint64_t start_ns = td_clock_ns();
    if (t->rank > 0 || t->s.is_trial) return TD_OK;
    TD_CHECK(td_side_wait(t->side));
    td_status status = td_checkpoint_open(t->result->checkpoint, &voice);
    if (status == TD_OK) status = speak_rows(t, voice);
    td_checkpoint_close(voice);
    if (status == TD_OK) return tell_sampled(t, start_ns);
    td_log_warn("no samples of step %" PRIu64 ": %s", t->state.step, td_error_last()->message);
    return TD_OK;
}
