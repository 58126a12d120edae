/* See load_rig.h. */
#include "tools/load_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

enum { N_BUCKETS = 8, ROUND_FRAMES = 32, N_READY = 3 };

td_status td_load_rig_open(td_registry *registry, const td_device_info *info, const td_load_options *options,
                           td_load_rig *rig)
{
    td_status status = TD_OK;
    const td_mel_config config = td_mel_config_default();
    *rig = (td_load_rig){.options = *options};
    TD_FAIL_IF(options->dataset.dir == NULL, TD_ERR_CONFIG, "no dataset was named; add --train-data DIR");
    TD_FAIL_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
               "the simulated device computes nothing, so there is nothing to measure");
    TD_TRY(td_pool_create(options->workers, &rig->pool));
    rig->workers = td_pool_threads(rig->pool);
    TD_TRY(td_dataset_open(&options->dataset, rig->pool, &rig->dataset));
    TD_TRY(td_device_open(registry, info, &rig->device));
    TD_TRY(td_memory_create(rig->device, "data", 0, &rig->memory));
    TD_TRY(td_mel_create(rig->memory, &config, &rig->mel));
    TD_TRY(TD_NEW_ARRAY(&rig->rows, rig->dataset->n_train + 1));
    td_loader_lengths(rig->dataset, rig->dataset->train, rig->dataset->n_train, &config, rig->rows);
    snprintf(rig->device_key, sizeof rig->device_key, "%s %s", info->selector, info->driver);
fail:
    return status;
}

void td_load_rig_close(td_load_rig *rig)
{
    free(rig->rows);
    td_mel_destroy(rig->mel);
    td_memory_destroy(rig->memory);
    td_device_close(rig->device);
    td_dataset_close(rig->dataset);
    td_pool_destroy(rig->pool);
    *rig = (td_load_rig){0};
}

td_status td_load_rig_open_cache(const td_load_rig *rig, td_mel_cache **out)
{
    const td_mel_cache_settings settings = {.kind = rig->options.mel_cache,
                                            .max_bytes = rig->options.mel_cache_bytes,
                                            .cache_dir = rig->options.dataset.cache_dir,
                                            .config = *td_mel_get_config(rig->mel),
                                            .has_pitch = rig->options.with_pitch,
                                            .device = rig->device_key};
    return td_mel_cache_open(&settings, rig->dataset, out);
}

static td_status open_sampler(const td_load_rig *rig, td_sampler **out)
{
    const td_sampler_settings settings = {.batch_size = rig->options.batch_size,
                                          .n_buckets = N_BUCKETS,
                                          .round_frames = ROUND_FRAMES,
                                          .max_frames = rig->options.max_mel_frames,
                                          .max_tokens = rig->options.max_text_length,
                                          .last = TD_LAST_FILL,
                                          .seed = rig->options.dataset.seed};
    return td_sampler_create(&settings, rig->rows, rig->dataset->n_train, out);
}

/* One batch: asked for, ready, used for `step_ms`, given back. */
static td_status use_batch(td_loader *loader, double step_ms, double *wait_ms, uint64_t *ready_ns,
                           double *audio_s, size_t *n_items)
{
    td_status status = TD_OK;
    td_batch batch;
    const uint64_t start_ns = td_clock_ns();
    TD_TRY(td_loader_next(loader, &batch));
    TD_TRY(td_point_wait(batch.ready, TD_WAIT_FOREVER));
    *ready_ns = td_clock_ns();
    *wait_ms = 1e-6 * (double)(*ready_ns - start_ns);
    *audio_s += batch.audio_s;
    *n_items += batch.count;
    if (step_ms > 0) td_clock_sleep_until(*ready_ns + (uint64_t)(1e6 * step_ms));
    td_loader_release(loader, &batch, (td_point){0});
fail:
    return status;
}

typedef struct samples {
    double *epoch_s, *wait_ms, *batch_ms;
} samples;

static td_status run_epochs(td_loader *loader, uint32_t n_warm, uint32_t n_epochs, double step_ms,
                            samples *to, td_load_run *out)
{
    td_status status = TD_OK;
    double waited_ms = 0;
    size_t n_items = 0, at = 0;
    for (uint32_t epoch = 0; epoch < n_warm + n_epochs; ++epoch) {
        const uint64_t start_ns = td_clock_ns();
        uint64_t before_ns = start_ns, ready_ns = start_ns;
        double audio_s = 0;
        n_items = 0;
        for (size_t i = 0; i < out->n_batches; ++i, before_ns = ready_ns) {
            double wait_ms;
            TD_TRY(use_batch(loader, step_ms, &wait_ms, &ready_ns, &audio_s, &n_items));
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
fail:
    return status;
}

td_status td_load_rig_run(const td_load_rig *rig, td_pool *pool, td_mel_cache *cache, uint32_t n_warm,
                          uint32_t n_epochs, double step_ms, size_t max_batches, td_load_run *out)
{
    td_status status = TD_OK;
    td_sampler *sampler = NULL;
    td_loader *loader = NULL;
    samples to = {0};
    *out = (td_load_run){0};
    TD_TRY(open_sampler(rig, &sampler));
    out->n_left_out = td_sampler_left_out(sampler);
    out->n_batches = td_sampler_batches_per_epoch(sampler);
    if (max_batches > 0 && max_batches < out->n_batches) out->n_batches = max_batches;
    TD_TRY(TD_NEW_ARRAY(&to.epoch_s, n_epochs));
    TD_TRY(TD_NEW_ARRAY(&to.wait_ms, n_epochs * out->n_batches));
    TD_TRY(TD_NEW_ARRAY(&to.batch_ms, n_epochs * out->n_batches));
    const td_loader_settings settings = {.dataset = rig->dataset,
                                         .rows = rig->dataset->train,
                                         .n_rows = rig->dataset->n_train,
                                         .sampler = sampler,
                                         .batch_size = rig->options.batch_size,
                                         .pool = pool,
                                         .memory = rig->memory,
                                         .mel = rig->mel,
                                         .cache = cache,
                                         .with_pitch = rig->options.with_pitch,
                                         .n_ready = N_READY,
                                         .reference_s = rig->options.reference_s,
                                         .max_bad_fraction = rig->options.dataset.max_bad_fraction,
                                         .seed = rig->options.dataset.seed,
                                         .n_batches = (uint64_t)(n_warm + n_epochs) * out->n_batches};
    TD_TRY(td_loader_create(&settings, &loader));
    TD_TRY(run_epochs(loader, n_warm, n_epochs, step_ms, &to, out));
    out->loader = td_loader_count(loader);
fail:
    td_loader_destroy(loader);
    td_sampler_destroy(sampler);
    free(to.epoch_s);
    free(to.wait_ms);
    free(to.batch_ms);
    return status;
}
