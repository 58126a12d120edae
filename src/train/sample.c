/* What the model makes of texts by itself (model/speak.h), and pictures and sounds of that, drawn and written
 * on the side thread. See train.h. Covered by tests/train/test_train_run.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/encode.h"
#include "audio/vocoder.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/blocking.h"
#include "model/speak.h"
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

/* A part of a batch in new host memory, unless the batch has none; *out: owned. */
static td_status fetch(const td_trainer *t, const td_batch *batch, td_span span, void **out)
{
    td_status status = TD_OK;
    char *values = NULL;
    *out = NULL;
    if (span.buffer == NULL) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&values, (size_t)span.bytes));
    TD_TRY(td_blocking_read(t->model_memory, span, batch->ready, values));
    *out = values;
    return TD_OK;
fail:
    free(values);
    return status;
}

/* Half as many frames again as the batch has are room for slow speech. */
td_status td_trainer_run_free(td_trainer *t, const td_batch *batch, td_free_run *out)
{
    td_status status = TD_OK;
    const td_model_shape shape = td_trainer_shape(t, batch);
    const struct {
        td_span span;
        bool is_needed;
    } parts[] = {{batch->token_counts, true},
                 {batch->token_ids, true},
                 {batch->speakers, t->info.model.n_speakers > 0},
                 {batch->reference_mel, t->info.model.speaker_encoder},
                 {batch->reference_counts, t->info.model.speaker_encoder}};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    void *values[N_PARTS] = {0};
    td_utterance utterance = {.count = batch->count};
    td_speaking speaking = {
        .store = t->store,
        .model = &t->info.model,
        .options = {.seed = t->s.seed, .freeze = (const char *const *)t->freeze, .n_freeze = t->n_freeze},
        .items = shape.items,
        .max_tokens = shape.tokens,
        .reference_frames = shape.reference_frames,
        .limit = (batch->frames + batch->frames / 2 + ROUND) / ROUND * ROUND,
        .speed = 1,
        .energy = 1,
        .utterances = &utterance,
        .n_utterances = 1};
    *out = (td_free_run){0};
    for (size_t i = 0; i < N_PARTS; ++i)
        if (parts[i].is_needed) TD_TRY(fetch(t, batch, parts[i].span, &values[i]));
    utterance.tokens = values[0];
    utterance.ids = values[1];
    utterance.speakers = values[2];
    utterance.reference = values[3];
    utterance.reference_counts = values[4];
    TD_TRY(td_model_speak(&speaking));
    *out = (td_free_run){.mel = utterance.mel,
                         .counts = utterance.frames,
                         .items = batch->count,
                         .frames = speaking.max_frames};
    utterance = (td_utterance){0};
fail:
    td_utterance_clear(&utterance);
    for (size_t i = 0; i < N_PARTS; ++i)
        free(values[i]);
    return status;
}

/* ---------------------------------------------------------------- showing */

/* One item with copies of all that is shown of it, in one block. */
typedef struct show_job {
    td_events *events;
    const td_run_dir *run;
    uint64_t step;
    uint32_t item, n_mels, rate;
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
    td_status status = TD_OK;
    char tag[64], name[64], path[TD_FILE_PATH_BYTES];
    if (job->n_samples == 0) return TD_OK;
    snprintf(tag, sizeof tag, "sample_%u/audio", job->item);
    TD_TRY(td_events_audio(job->events, job->step, tag, job->rate, job->samples, job->n_samples));
    snprintf(name, sizeof name, "samples/step-%" PRIu64 "-%u.wav", job->step, job->item);
    TD_TRY(td_run_dir_path(job->run, name, path));
    TD_TRY(td_audio_encode(path, job->samples, job->n_samples, job->rate));
fail:
    return status;
}

static td_status show_item(void *context)
{
    const show_job *job = context;
    td_status status = TD_OK;
    const td_heat made = {job->mel, job->frames, job->n_mels, job->n_mels, 1, -2, 2, 2};
    const td_heat target = {job->target, job->target_frames, job->n_mels, job->n_mels, 1, -2, 2, 2};
    const td_heat alignment = {job->alignment, job->steps, job->tokens, job->tokens, 1, 0, 0, 3};
    TD_TRY(show_grid(job, "spectrogram", &made));
    TD_TRY(show_grid(job, "target", &target));
    TD_TRY(show_grid(job, "alignment", &alignment));
    TD_TRY(show_sound(job));
    TD_TRY(td_events_flush(job->events));
fail:
    return status;
}

static td_status make_job(td_trainer *t, uint32_t frames, uint32_t target_frames, uint32_t steps,
                          uint32_t tokens, show_job **out)
{
    td_status status = TD_OK;
    const uint32_t n_mels = t->info.mel.n_mels;
    const uint32_t n_samples = frames > 1 ? (frames - 1) * t->info.mel.hop_samples : 0;
    const size_t floats = ((size_t)frames + target_frames) * n_mels + (size_t)steps * tokens + n_samples;
    char *block;
    *out = NULL;
    TD_TRY(td_alloc_zeroed(1, sizeof **out + sizeof(float) * floats, &block));
    show_job *job = *out = (show_job *)(void *)block;
    *job = (show_job){.events = td_record_events(t->record),
                      .run = t->run,
                      .step = t->state.step,
                      .n_mels = n_mels,
                      .rate = t->info.mel.rate,
                      .frames = frames,
                      .target_frames = target_frames,
                      .steps = steps,
                      .tokens = tokens,
                      .n_samples = n_samples};
    job->mel = (float *)(void *)(block + sizeof *job);
    job->target = job->mel + (size_t)frames * n_mels;
    job->alignment = job->target + (size_t)target_frames * n_mels;
    job->samples = job->alignment + (size_t)steps * tokens;
fail:
    return status;
}

static td_status make_sound(td_trainer *t, show_job *job)
{
    td_status status = TD_OK;
    td_vocoder *vocoder = NULL;
    float *samples = NULL;
    size_t firsts[2];
    const td_vocoder_batch batch = {
        .items = 1, .max_frames = job->frames, .frames = &job->frames, .seed = t->s.seed};
    TD_TRY(td_vocoder_griffin_lim(t->feed.mel, t->data_memory, GRIFFIN_LIM_ITERATIONS, &vocoder));
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
    uint32_t attention_steps;
};

static td_status read_view(td_trainer *t, td_shaped_plan *shaped, const td_batch *batch, td_view *v)
{
    td_status status = TD_OK;
    const td_model_graph *g = &shaped->graph;
    TD_TRY(TD_NEW_ARRAY(&v->counts, batch->count));
    TD_TRY(TD_NEW_ARRAY(&v->token_counts, batch->count));
    TD_TRY(td_blocking_read(t->model_memory, batch->frame_counts, batch->ready, v->counts));
    TD_TRY(td_blocking_read(t->model_memory, batch->token_counts, batch->ready, v->token_counts));
    if (g->attention.id != 0) {
        const td_shape shape = td_graph_shape(g->graph, g->attention);
        v->attention_steps = shape.dims[1];
        TD_TRY(TD_NEW_ARRAY(&v->attention, td_shape_size(shape)));
        TD_TRY(td_plan_read(shaped->plan, g->attention, v->attention));
    } else if (g->index.id != 0) {
        TD_TRY(TD_NEW_ARRAY(&v->index, (size_t)batch->count * batch->frames));
        TD_TRY(td_plan_read(shaped->plan, g->index, v->index));
    }
    TD_TRY(TD_NEW_ARRAY(&v->forced, td_shape_size(td_graph_shape(g->graph, g->mel))));
    TD_TRY(td_plan_read(shaped->plan, g->mel, v->forced));
fail:
    return status;
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

static td_status give_item(td_trainer *t, const td_batch *batch, const td_view *v, uint32_t item,
                           const float *target, const td_free_run *run)
{
    td_status status = TD_OK;
    show_job *job = NULL;
    const uint32_t n_mels = t->info.mel.n_mels, tokens = v->token_counts[item],
                   target_frames = v->counts[item];
    const bool is_free = run->items > item;
    const uint32_t frames = is_free ? run->counts[item] : target_frames;
    const uint32_t reduction = t->info.model.reduction > 0 ? t->info.model.reduction : 1;
    const uint32_t steps = v->attention != NULL ? target_frames / reduction : target_frames;
    const size_t forced_frames =
        v->attention != NULL ? (size_t)v->attention_steps * reduction : batch->frames;
    const float *made = is_free ? run->mel + (size_t)item * run->frames * n_mels
                                : v->forced + (size_t)item * forced_frames * n_mels;
    TD_TRY(make_job(t, frames, target_frames, steps, tokens, &job));
    job->item = item;
    memcpy(job->mel, made, sizeof(float) * frames * n_mels);
    memcpy(job->target, target + (size_t)item * batch->frames * n_mels,
           sizeof(float) * target_frames * n_mels);
    for (uint32_t i = 0; i < steps; ++i) {
        for (uint32_t l = 0; l < tokens; ++l) {
            job->alignment[(size_t)i * tokens + l] =
                v->attention != NULL
                    ? v->attention[((size_t)item * v->attention_steps + i) * batch->tokens + l]
                    : (float)(v->index != NULL && v->index[(size_t)item * batch->frames + i] == l);
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
    td_status status = TD_OK;
    char text[TD_FILE_PATH_BYTES];
    const uint64_t start_ns = td_clock_ns();
    for (uint32_t i = 0; i < batch->count && i < SHOWN_ITEMS; ++i)
        TD_TRY(give_item(t, batch, view, i, target, run));
    TD_TRY(td_run_dir_path(t->run, "samples", text));
    td_train_event event = {.kind = TD_TRAIN_SAMPLED,
                            .step = t->state.step,
                            .epoch = t->state.sampler.epoch,
                            .distance = NAN,
                            .took_s = 1e-9 * (double)(td_clock_ns() - start_ns),
                            .text = text};
    TD_TRY(td_trainer_tell(t, &event));
fail:
    return status;
}
