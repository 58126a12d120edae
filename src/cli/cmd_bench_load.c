/* `tandem bench load`: shows what tools/bench_load.h measured. Covered by tests/cli/test_load.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/bench_load.h"

static void put_numbers(td_json *json, const td_bench_load_result *r)
{
    const struct {
        const char *key;
        double value;
    } fields[] = {
        {"samples_per_s", r->samples_per_s},
        {"audio_s_per_s", r->audio_s_per_s},
        {"spread", r->spread},
        {"workers", (double)r->workers},
        {"samples", (double)r->n_items},
        {"batches", (double)r->n_batches},
        {"left_out", (double)r->n_left_out},
        {"cached_samples_per_s", r->cached_samples_per_s},
        {"cached_audio_s_per_s", r->cached_audio_s_per_s},
        {"cached_spread", r->cached_spread},
        {"cache_hits", r->hit_share},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i)
        td_json_put_double(json, fields[i].key, fields[i].value);
}

static void put_result(td_json *json, const td_data_settings *options, const td_bench_load_result *result)
{
    td_json_put_uint(json, "batch_size", options->batch_size);
    td_json_put_bool(json, "pitch", td_data_wants(options, "pitch"));
    td_json_put_double(json, "reference_s", options->reference_s);
    td_json_put_string(json, "mel_cache", td_mel_cache_kind_name(result->cache));
    put_numbers(json, result);
}

static void print_result(const td_device_info *info, const td_data_settings *options, uint32_t rounds,
                         const td_bench_load_result *r)
{
    td_cli_print_setting(info);
    td_printf(
        "work           rounds of %zu samples, %.0f s of audio, in batches of %u%s%s; %zu workers, median of "
        "%u\n",
        r->n_items, r->audio_s, options->batch_size, td_data_wants(options, "pitch") ? ", with pitch" : "",
        options->reference_s > 0 ? ", with references" : "", r->workers, rounds);
    if (r->n_left_out > 0)
        td_printf("left out       %zu rows past --max-mel-frames or --max-text-length\n", r->n_left_out);
    td_printf("from disk      %.0f samples/s, %.0f s of audio per second, spread %.0f %%\n", r->samples_per_s,
              r->audio_s_per_s, 100 * r->spread);
    if (r->cache == TD_MEL_CACHE_NONE) return;
    td_printf("mel cache      %.0f samples/s, %.0f s of audio per second, spread %.0f %%; %s, %.0f %% hits\n",
              r->cached_samples_per_s, r->cached_audio_s_per_s, 100 * r->cached_spread,
              td_mel_cache_kind_name(r->cache), 100 * r->hit_share);
}

typedef struct work {
    td_data_settings options;
    uint32_t rounds;
    size_t max_batches;
} work;

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const work *w = context;
    td_bench_load_result result;
    TD_CHECK(td_bench_load_run(registry, info, &w->options, w->rounds, w->max_batches, &result));
    if (json)
        put_result(json, &w->options, &result);
    else
        print_result(info, &w->options, w->rounds, &result);
    return TD_OK;
}

int td_cmd_bench_load(td_cli *cli)
{
    work w = {
        .rounds = (uint32_t)td_cli_count(cli, "bench.rounds"),
        .max_batches = (size_t)td_cli_count(cli, "bench.max_batches"),
    };
    char cache_dir[TD_FILE_PATH_BYTES];
    if (td_settings_load(cli->options, cache_dir, &w.options) != TD_OK) return td_cli_fail(cli, NULL);
    w.options.workers = (size_t)td_cli_count(cli, "bench.workers");
    return td_cli_measure_device(cli, measure, &w);
}
