/* The model by itself: texts to spectrograms with the durations it predicts; and pictures and sounds of that,
 * drawn and written on the side thread. Free running is for the non-autoregressive strategy; the other's
 * steps need states of their own, which synthesis has. See train.h. Covered by tests/train/test_train_run.c.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "train/picture.h"
#include "train/train_internal.h"

enum { SHOWN_ITEMS = 2, ROUND = 32, GRIFFIN_LIM_ITERATIONS = 40 };

struct td_free_runner {
    td_model_encode encode;
    td_model_decode decode;
    td_plan *encode_plan, *decode_plan;
    td_model_shape shape; /* of the decoder; of the encoder but for its frames */
};

void td_free_run_clear(td_free_run *run)
{
    free(run->mel);
    free(run->counts);
    *run = (td_free_run){0};
}

void td_free_runner_destroy(td_free_runner *runner)
{
    if (runner == NULL) return;
    td_plan_destroy(runner->encode_plan);
    td_plan_destroy(runner->decode_plan);
    td_graph_destroy(runner->encode.graph);
    td_graph_destroy(runner->decode.graph);
    free(runner);
}

/* ---------------------------------------------------------------- plans */

static td_status make_runner(td_trainer *t, const td_model_shape *shape, td_free_runner **out)
{
    td_status status = TD_OK;
    td_free_runner *runner = NULL;
    const td_plan_options plan = {.forward_only = true, .slots = 1};
    const td_model_options options = {.freeze = (const char *const *)t->freeze, .n_freeze = t->n_freeze};
    TD_TRY(TD_NEW(&runner));
    runner->shape = *shape;
    TD_TRY(td_model_encode_graph(&t->info.model, shape, &options, &runner->encode));
    TD_TRY(td_model_decode_graph(&t->info.model, shape, &options, &runner->decode));
    TD_TRY(td_plan_create(t->store, runner->encode.graph, &plan, &runner->encode_plan));
    TD_TRY(td_plan_create(t->store, runner->decode.graph, &plan, &runner->decode_plan));
    *out = runner;
    return TD_OK;
fail:
    td_free_runner_destroy(runner);
    return status;
}

/* The runner for a batch; half as many frames again as the batch has are room for slow speech. */
static td_status get_runner(td_trainer *t, const td_batch *batch, td_free_runner **out)
{
    td_model_shape shape = td_trainer_shape(t, batch);
    shape.frames = (batch->frames + batch->frames / 2 + ROUND) / ROUND * ROUND;
    if (shape.frames > t->info.model.max_frames) shape.frames = t->info.model.max_frames;
    if (t->free_runner != NULL && memcmp(&t->free_runner->shape, &shape, sizeof shape) != 0) {
        td_free_runner_destroy(t->free_runner);
        t->free_runner = NULL;
    }
    *out = NULL;
    if (t->free_runner == NULL) {
        const td_status status = make_runner(t, &shape, &t->free_runner);
        if (status != TD_OK) return status;
    }
    *out = t->free_runner;
    return TD_OK;
}

/* ---------------------------------------------------------------- running */

static td_status bind_if(td_plan *plan, td_tensor tensor, td_span span)
{
    return tensor.id != 0 ? td_plan_bind(plan, 0, tensor, span) : TD_OK;
}

static td_status encode(td_free_runner *r, const td_batch *batch)
{
    td_status status = TD_OK;
    const td_model_encode *e = &r->encode;
    TD_TRY(bind_if(r->encode_plan, e->token_ids, batch->token_ids));
    TD_TRY(bind_if(r->encode_plan, e->token_counts, batch->token_counts));
    TD_TRY(bind_if(r->encode_plan, e->speakers, batch->speakers));
    TD_TRY(bind_if(r->encode_plan, e->reference_mel, batch->reference_mel));
    TD_TRY(bind_if(r->encode_plan, e->reference_counts, batch->reference_counts));
    TD_TRY(td_plan_run(r->encode_plan, &(td_run){.waits = &batch->ready, .n_waits = 1}, NULL));
fail:
    return status;
}

/* From one plan's output to the other's input. */
static td_status carry(td_free_runner *r, td_tensor from, td_tensor to)
{
    td_status status = TD_OK;
    float *values = NULL;
    if (from.id == 0 || to.id == 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(td_graph_shape(r->encode.graph, from))));
    TD_TRY(td_plan_read(r->encode_plan, from, values));
    TD_TRY(td_plan_fill(r->decode_plan, 0, to, values));
fail:
    free(values);
    return status;
}

/* Frames of each token, token of each frame, frames of each item. */
static void choose_durations(const td_model_shape *shape, const float *log_durations, const uint32_t *counts,
                             uint32_t *durations, uint32_t *index, uint32_t *frames)
{
    for (uint32_t b = 0; b < shape->items; ++b) {
        frames[b] = 0;
        for (uint32_t l = 0; l < counts[b] && l < shape->tokens; ++l) {
            const double predicted = exp(fmin((double)log_durations[b * shape->tokens + l], 6));
            uint32_t n = predicted > 1 ? (uint32_t)lround(predicted) : 1; /* not a number: 1 */
            if (n > shape->frames - frames[b]) n = shape->frames - frames[b];
            durations[b * shape->tokens + l] = n;
            for (uint32_t i = 0; i < n; ++i)
                index[b * shape->frames + frames[b]++] = l;
        }
    }
}

static td_status decode(td_trainer *t, td_free_runner *r, const td_batch *batch, td_free_run *out)
{
    td_status status = TD_OK;
    const td_model_shape *shape = &r->shape;
    float *log_durations = NULL;
    uint32_t *counts = NULL, *durations = NULL, *index = NULL;
    const size_t n_tokens = (size_t)shape->items * shape->tokens,
                 n_frames = (size_t)shape->items * shape->frames;
    TD_TRY(TD_NEW_ARRAY(&log_durations, n_tokens));
    TD_TRY(TD_NEW_ARRAY(&counts, shape->items));
    TD_TRY(TD_NEW_ARRAY(&durations, n_tokens));
    TD_TRY(TD_NEW_ARRAY(&index, n_frames));
    TD_TRY(TD_NEW_ARRAY(&out->counts, shape->items));
    TD_TRY(TD_NEW_ARRAY(&out->mel, n_frames * t->info.mel.n_mels));
    TD_TRY(td_plan_read(r->encode_plan, r->encode.log_durations, log_durations));
    TD_TRY(td_trainer_read(t->model_memory, batch->token_counts, batch->ready, counts));
    choose_durations(shape, log_durations, counts, durations, index, out->counts);
    TD_TRY(carry(r, r->encode.hidden, r->decode.hidden));
    TD_TRY(carry(r, r->encode.speaker, r->decode.speaker));
    TD_TRY(carry(r, r->encode.pitch, r->decode.pitch));
    TD_TRY(carry(r, r->encode.energy, r->decode.energy));
    TD_TRY(td_plan_fill(r->decode_plan, 0, r->decode.durations, durations));
    TD_TRY(td_plan_fill(r->decode_plan, 0, r->decode.index, index));
    TD_TRY(td_plan_fill(r->decode_plan, 0, r->decode.frame_counts, out->counts));
    TD_TRY(td_plan_run(r->decode_plan, &(td_run){0}, NULL));
    TD_TRY(td_plan_read(r->decode_plan, r->decode.mel, out->mel));
    out->items = shape->items;
    out->frames = shape->frames;
fail:
    free(log_durations);
    free(counts);
    free(durations);
    free(index);
    return status;
}

td_status td_trainer_run_free(td_trainer *t, const td_batch *batch, td_free_run *out)
{
    td_status status = TD_OK;
    td_free_runner *runner;
    *out = (td_free_run){0};
    if (t->info.model.decoder_strategy != TD_NON_AUTOREGRESSIVE) return TD_OK;
    TD_TRY(get_runner(t, batch, &runner));
    TD_TRY(encode(runner, batch));
    TD_TRY(decode(t, runner, batch, out));
fail:
    if (status != TD_OK) td_free_run_clear(out);
    return status;
}

/* ---------------------------------------------------------------- sounds */

typedef struct sound {
    td_memory *memory;
    td_span host_mel, host_places, host_samples;
    td_griffin_lim_args args;
    td_list *list;
} sound;

static td_status record_sound(td_trainer *t, sound *s, uint32_t frames, const float *values)
{
    td_status status = TD_OK;
    const td_mel_config *mel = &t->info.mel;
    const uint64_t mel_bytes = UINT64_C(4) * frames * mel->n_mels;
    const uint64_t sample_bytes = UINT64_C(4) * (frames - 1) * mel->hop_samples;
    const uint32_t places[2] = {0, frames};
    const uint64_t words = td_griffin_lim_workspace(t->feed.mel, td_device_class(t->data_device), 1, frames);
    s->args = (td_griffin_lim_args){
        .items = 1, .max_frames = frames, .iterations = GRIFFIN_LIM_ITERATIONS, .seed = t->s.seed};
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_HOST, mel_bytes, &s->host_mel));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_HOST, sizeof places, &s->host_places));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_HOST, sample_bytes, &s->host_samples));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, mel_bytes, &s->args.mel));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, sizeof places, &s->args.places));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, sample_bytes, &s->args.samples));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, 4 * words, &s->args.workspace));
    memcpy(td_span_host(s->host_mel), values, mel_bytes);
    memcpy(td_span_host(s->host_places), places, sizeof places);
    TD_TRY(td_list_create(t->data_device, TD_QUEUE_COMPUTE, &s->list));
    TD_TRY(td_list_copy(s->list, td_span_part(s->args.mel, 0, mel_bytes),
                        td_span_part(s->host_mel, 0, mel_bytes)));
    TD_TRY(td_list_copy(s->list, td_span_part(s->args.places, 0, sizeof places),
                        td_span_part(s->host_places, 0, sizeof places)));
    TD_TRY(td_griffin_lim_record(t->feed.mel, s->list, &s->args));
    TD_TRY(td_list_copy(s->list, td_span_part(s->host_samples, 0, sample_bytes),
                        td_span_part(s->args.samples, 0, sample_bytes)));
    TD_TRY(td_list_finish(s->list));
fail:
    return status;
}

/* `samples` has (frames - 1) * hop floats. */
static td_status make_sound(td_trainer *t, uint32_t frames, const float *mel, float *samples)
{
    td_status status = TD_OK;
    sound s = {.memory = t->data_memory};
    td_point done;
    TD_TRY(record_sound(t, &s, frames, mel));
    TD_TRY(td_queue_submit(td_device_queue(t->data_device, TD_QUEUE_COMPUTE),
                           &(td_submission){.list = s.list}, &done));
    TD_TRY(td_point_wait(done, TD_WAIT_FOREVER));
    memcpy(samples, td_span_host(s.host_samples), sizeof(float) * (frames - 1) * t->info.mel.hop_samples);
fail:
    td_list_destroy(s.list);
    td_memory_free(s.memory, s.host_mel);
    td_memory_free(s.memory, s.host_places);
    td_memory_free(s.memory, s.host_samples);
    td_memory_free(s.memory, s.args.mel);
    td_memory_free(s.memory, s.args.places);
    td_memory_free(s.memory, s.args.samples);
    td_memory_free(s.memory, s.args.workspace);
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
    uint8_t *wav = NULL;
    size_t bytes;
    char tag[64], name[64], path[TD_FILE_PATH_BYTES];
    if (job->n_samples == 0) return TD_OK;
    snprintf(tag, sizeof tag, "sample_%u/audio", job->item);
    TD_TRY(td_events_audio(job->events, job->step, tag, job->rate, job->samples, job->n_samples));
    snprintf(name, sizeof name, "samples/step-%" PRIu64 "-%u.wav", job->step, job->item);
    TD_TRY(td_run_dir_path(job->run, name, path));
    TD_TRY(td_wav_encode(job->rate, job->samples, job->n_samples, &wav, &bytes));
    TD_TRY(td_file_write_atomic(path, wav, bytes));
fail:
    free(wav);
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
    TD_TRY(td_trainer_read(t->model_memory, batch->frame_counts, batch->ready, v->counts));
    TD_TRY(td_trainer_read(t->model_memory, batch->token_counts, batch->ready, v->token_counts));
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
    if (frames > 1) TD_TRY(make_sound(t, frames, job->mel, job->samples));
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
