/* See bench_load.h. */
#include "tools/bench_load.h"

#include "base/error.h"

static td_status measure_cached(const td_load_rig *rig, uint32_t rounds, size_t max_batches,
                                td_bench_load_result *out)
{
    td_status status = TD_OK;
    td_mel_cache *cache = NULL;
    td_load_run run;
    TD_TRY(td_data_open_cache(&rig->data, &cache));
    out->cache = td_mel_cache_count(cache).kind;
    if (out->cache == TD_MEL_CACHE_NONE) goto fail;
    const td_load_plan plan = {.cache = cache, .n_epochs = rounds, .max_batches = max_batches};
    TD_TRY(td_load_rig_run(rig, &plan, &run)); /* fills it with the same epochs */
    const td_mel_cache_stats before = td_mel_cache_count(cache);
    TD_TRY(td_load_rig_run(rig, &plan, &run));
    const td_mel_cache_stats after = td_mel_cache_count(cache);
    const double hits = (double)(after.n_hits - before.n_hits);
    const double asked = hits + (double)(after.n_misses - before.n_misses);
    out->cached_samples_per_s = (double)run.n_items / run.epoch_s.median;
    out->cached_audio_s_per_s = run.audio_s / run.epoch_s.median;
    out->cached_spread = run.epoch_s.spread;
    out->hit_share = asked > 0 ? hits / asked : 0;
fail:
    td_mel_cache_close(cache);
    return status;
}

td_status td_bench_load_run(td_registry *registry, const td_device_info *info,
                            const td_data_settings *options, uint32_t rounds, size_t max_batches,
                            td_bench_load_result *out)
{
    td_status status = TD_OK;
    td_load_rig rig = {0};
    td_load_run run;
    *out = (td_bench_load_result){.cache = TD_MEL_CACHE_NONE};
    TD_TRY(td_load_rig_open(registry, info, options, &rig));
    TD_TRY(td_load_rig_run(&rig, &(td_load_plan){.n_warm = 1, .n_epochs = rounds, .max_batches = max_batches},
                           &run));
    out->workers = rig.data.workers;
    out->n_batches = run.n_batches;
    out->n_items = run.n_items;
    out->n_left_out = run.n_left_out;
    out->audio_s = run.audio_s;
    out->samples_per_s = (double)run.n_items / run.epoch_s.median;
    out->audio_s_per_s = run.audio_s / run.epoch_s.median;
    out->spread = run.epoch_s.spread;
    if (options->mel_cache != TD_MEL_CACHE_NONE) TD_TRY(measure_cached(&rig, rounds, max_batches, out));
fail:
    td_load_rig_close(&rig);
    return status;
}
