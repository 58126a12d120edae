/* How long a batch and a step would take on devices of given rates: their recorded commands are run on
 * simulated devices, which take the time that rates, bytes and operations give. See planner.h. Loading is not
 * forecast: it is this computer's disk and cores. Covered by tests/cli/test_profile.py. */
#include <math.h>

#include "audio/mel.h"
#include "base/error.h"
#include "tools/planner.h"

enum { RUNS = 5 }; /* the shortest counts: a worker that wakes late makes short work longer */

#define LONG_MS 200.0 /* such work is run once: waking late hardly matters */

static td_status read_ms(td_point point, double *ms)
{
    td_times times;
    TD_CHECK(td_point_wait(point, TD_WAIT_FOREVER));
    TD_CHECK(td_point_times(point, &times));
    *ms = (double)(times.finished_ns - times.started_ns) * 1e-6;
    return TD_OK;
}

/* ---------------------------------------------------------------- the model device */

/* Forward, backward and update of all learners. */
static td_status run_step(const td_ready_step *step, double *ms)
{
    *ms = 0;
    for (size_t i = 0; i < step->n_learners; ++i) {
        td_point updated;
        double plan_ms = 0, update_ms = 0;
        TD_CHECK(td_optimizer_begin(td_learner_optimizer(step->learners[i]), 0));
        TD_CHECK(td_plan_run(step->plans[i], &(td_run){0}, NULL));
        TD_CHECK(td_optimizer_step(td_learner_optimizer(step->learners[i]), 0, &updated));
        TD_CHECK(read_ms(td_plan_points(step->plans[i])[1], &plan_ms));
        TD_CHECK(read_ms(updated, &update_ms));
        *ms += plan_ms + update_ms;
    }
    return TD_OK;
}

static td_status forecast_train(const td_planner *planner, const td_train_settings *s, td_forecast *out)
{
    td_ready_step step = {0};
    td_status status = TD_OK;
    TD_TRY(td_ready_open(planner->memory, s, &out->shape, &step));
    for (size_t i = 0; i < step.n_learners; ++i) {
        td_plan_stats stats;
        td_plan_get_stats(step.plans[i], &stats);
        out->flops += stats.flops;
        out->launches += stats.launches;
    }
    out->model_bytes = td_ready_bytes(&step) + (td_run_prefetch(s) + 1) * out->batch_bytes;
    out->train_ms = INFINITY;
    for (int i = 0; i < RUNS && (i == 0 || out->train_ms < LONG_MS); ++i) {
        double ms;
        TD_TRY(run_step(&step, &ms));
        out->train_ms = fmin(out->train_ms, ms);
    }
fail:
    td_ready_close(&step);
    return status;
}

/* ---------------------------------------------------------------- the data device */

/* Spans of one batch. Only their sizes matter. */
static td_status take_spans(const td_planner *planner, const td_train_settings *s,
                            const td_batch_shape *shape, uint64_t samples, td_mel_args *args, td_span *whole)
{
    const uint64_t frames = (uint64_t)shape->items * shape->frames;
    const uint64_t words[] = {shape->items * samples, 2 * (uint64_t)shape->items,
                              frames * td_model_describe(&s->model).n_mels, frames,
                              td_data_wants(&s->data, "pitch") ? frames : 0};
    td_span *const spans[] = {&args->pcm, &args->ranges, &args->mel, &args->energy, &args->pitch};
    uint64_t at = 0;
    for (size_t i = 0; i < 5; ++i)
        at += td_round_up(4 * words[i], TD_OFFSET_ALIGN);
    TD_CHECK(td_memory_alloc(planner->memory, TD_MEMORY_DEVICE, at, whole));
    at = 0;
    for (size_t i = 0; i < 5; ++i) {
        if (words[i] > 0) *spans[i] = td_span_part(*whole, at, 4 * words[i]);
        at += td_round_up(4 * words[i], TD_OFFSET_ALIGN);
    }
    return TD_OK;
}

/* Samples go up over the link; then mel, energy and pitch. */
static td_status forecast_data(const td_planner *planner, const td_train_settings *s, td_forecast *out)
{
    const td_mel_config config = td_mel_config_default();
    const uint64_t samples = (uint64_t)(out->shape.frames - 1) * config.hop_samples;
    td_mel_args args = {.items = out->shape.items, .max_frames = out->shape.frames};
    td_span whole = {0};
    td_mel *mel = NULL;
    td_list *list = NULL;
    td_point reached;
    double ms;
    td_status status = TD_OK;
    TD_TRY(td_mel_create(planner->memory, &config, &mel));
    TD_TRY(take_spans(planner, s, &out->shape, samples, &args, &whole));
    TD_TRY(td_list_create(planner->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_mel_record(mel, list, &args));
    TD_TRY(td_list_finish(list));
    for (int i = 0; i < RUNS; ++i) {
        TD_TRY(td_queue_submit(td_device_queue(planner->device, TD_QUEUE_COMPUTE),
                               &(td_submission){.list = list}, &reached));
        TD_TRY(read_ms(reached, &ms));
        if (i == 0 || ms < out->data_ms) out->data_ms = ms;
    }
    out->data_ms += (double)args.pcm.bytes / td_device_get_info(planner->device)->caps.link_gbps * 1e-6;
fail:
    td_list_destroy(list);
    td_memory_free(planner->memory, whole);
    td_mel_destroy(mel);
    return status;
}

td_status td_forecast_stages(const char *data, const char *model, const td_train_settings *s,
                             td_lengths longest, td_forecast *out)
{
    td_planner roles[2] = {{0}, {0}};
    td_status status = TD_OK;
    double batch_bytes = 0;
    *out = (td_forecast){.shape = td_run_shape(s, longest)};
    out->shape.items = s->data.batch_size;
    TD_TRY(td_run_batch_bytes(s, &out->shape, &batch_bytes));
    out->batch_bytes = (uint64_t)batch_bytes;
    TD_TRY(td_planner_data_bytes(s, &out->shape, s->buffer_size, data == NULL, &out->data_bytes));
    TD_TRY(td_planner_open(model, &roles[1]));
    TD_TRY(forecast_train(&roles[1], s, out));
    if (data) TD_TRY(td_planner_open(data, &roles[0]));
    TD_TRY(forecast_data(&roles[data ? 0 : 1], s, out));
    if (data) {
        const double there = td_device_get_info(roles[0].device)->caps.link_gbps;
        const double here = td_device_get_info(roles[1].device)->caps.link_gbps;
        out->transfer_ms = (double)out->batch_bytes / (there < here ? there : here) * 1e-6;
    }
fail:
    td_planner_close(&roles[0]);
    td_planner_close(&roles[1]);
    return status;
}
