/* See load_rig.h. */
#include "tools/load_rig.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

td_status td_load_rig_open(td_registry *registry, const td_device_info *info,
                           const td_data_settings *settings, td_load_rig *rig)
{
    *rig = (td_load_rig){0};
    TD_REFUSE_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
                 "the simulated device computes nothing, so there is nothing to measure");
    TD_REFUSE_IF(settings->batch_size == 0, TD_ERR_CONFIG,
                 "only `train` finds a batch size by itself; give training.batch_size a number here");
    TD_CHECK(td_device_open(registry, info, &rig->device));
    TD_CHECK(td_memory_create(rig->device, "data", 0, &rig->memory));
    TD_CHECK(td_data_open(rig->memory, settings, &rig->data));
    td_dataset_tell_layout(rig->data.dataset);
    return TD_OK;
}

void td_load_rig_close(td_load_rig *rig)
{
    td_data_close(&rig->data);
    td_memory_destroy(rig->memory);
    td_device_close(rig->device);
    *rig = (td_load_rig){0};
}

/* One batch: asked for, ready, used for `step_ms`, given back. */
static td_status use_batch(td_batches *batches, double step_ms, double *wait_ms, uint64_t *ready_ns,
                           double *audio_s, size_t *n_items)
{
    td_batch batch;
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_batches_next(batches, &batch));
    TD_CHECK(td_point_wait(batch.ready, TD_WAIT_FOREVER));
    *ready_ns = td_clock_ns();
    *wait_ms = 1e-6 * (double)(*ready_ns - start_ns);
    *audio_s += batch.audio_s;
    *n_items += batch.count;
    if (step_ms > 0) td_clock_sleep_until(*ready_ns + (uint64_t)(1e6 * step_ms));
    td_batches_release(batches, &batch, (td_point){0});
    return TD_OK;
}

typedef struct samples {
    double *epoch_s, *wait_ms, *batch_ms;
} samples;

static td_status run_epochs(td_batches *batches, const td_load_plan *plan, samples *to, td_load_run *out)
{
    const uint32_t n_warm = plan->n_warm, n_epochs = plan->n_epochs;
    const double step_ms = plan->step_ms;
    double waited_ms = 0;
    size_t n_items = 0, at = 0;
    for (uint32_t epoch = 0; epoch < n_warm + n_epochs; ++epoch) {
        const uint64_t start_ns = td_clock_ns();
        uint64_t before_ns = start_ns, ready_ns = start_ns;
        double audio_s = 0;
        n_items = 0;
        for (size_t i = 0; i < out->n_batches; ++i, before_ns = ready_ns) {
            double wait_ms;
            TD_CHECK(use_batch(batches, step_ms, &wait_ms, &ready_ns, &audio_s, &n_items));
            if (epoch < n_warm) continue;
            to->wait_ms[at] = wait_ms;
            to->batch_ms[at++] = 1e-6 * (double)(ready_ns - before_ns);
            waited_ms += wait_ms;
        }
        if (epoch < n_warm) continue;
        to->epoch_s[epoch - n_warm] = 1e-9 * (double)(td_clock_ns() - start_ns);
        out->audio_s += audio_s / n_epochs;
    }
    out->n_items = n_items;
    out->idle = step_ms > 0 ? waited_ms / (waited_ms + step_ms * (double)at) : 0;
    out->epoch_s = td_stats_of(to->epoch_s, n_epochs);
    out->wait_ms = td_stats_of(to->wait_ms, at);
    out->batch_ms = td_stats_of(to->batch_ms, at);
    return TD_OK;
}

td_status td_load_rig_run(const td_load_rig *rig, const td_load_plan *plan, td_load_run *out)
{
    td_status status = TD_OK;
    td_batches batches = {0};
    samples to = {0};
    *out = (td_load_run){0};
    const td_data_rows rows = {.rows = rig->data.dataset->train,
                               .n_rows = rig->data.dataset->n_train,
                               .last = TD_LAST_FILL,
                               .pool = plan->pool, /* NULL: the data's */
                               .cache = plan->cache};
    TD_TRY(td_batches_open(&rig->data, &rows, &batches));
    out->n_left_out = td_sampler_left_out(batches.sampler);
    out->n_batches = td_sampler_batches_per_epoch(batches.sampler);
    if (plan->max_batches > 0 && plan->max_batches < out->n_batches) out->n_batches = plan->max_batches;
    TD_TRY(TD_NEW_ARRAY(&to.epoch_s, plan->n_epochs));
    TD_TRY(TD_NEW_ARRAY(&to.wait_ms, plan->n_epochs * out->n_batches));
    TD_TRY(TD_NEW_ARRAY(&to.batch_ms, plan->n_epochs * out->n_batches));
    batches.rows.n_batches = (uint64_t)(plan->n_warm + plan->n_epochs) * out->n_batches;
    TD_TRY(td_batches_start(&batches, &(td_batches_way){0}));
    TD_TRY(run_epochs(&batches, plan, &to, out));
    out->loader = td_loader_count(batches.loader);
fail:
    td_batches_close(&batches);
    free(to.epoch_s);
    free(to.wait_ms);
    free(to.batch_ms);
    return status;
}
