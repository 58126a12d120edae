/* `tandem bench load`: shows what tools/bench_load.h measured. Covered by tests/cli/test_load.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/load_options.h"
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
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        td_json_put_double(json, fields[i].key, fields[i].value);
    }
}

static int print_json(const td_cli *cli, const td_device_info *info, const td_feed_options *options,
                      const td_bench_load_result *result)
{
    td_json *json;
    if (td_json_create(NULL, 2, &json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_begin_object(json);
    td_cli_put_setting(json, info);
    td_json_put_uint(json, "batch_size", options->batch_size);
    td_json_put_bool(json, "pitch", options->with_pitch);
    td_json_put_double(json, "reference_s", options->reference_s);
    td_json_put_string(json, "mel_cache", td_mel_cache_kind_name(result->cache));
    put_numbers(json, result);
    td_json_end_object(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static void print_result(const td_device_info *info, const td_feed_options *options, uint32_t rounds,
                         const td_bench_load_result *r)
{
    printf("device         %s (%s), driver %s\n", info->name, info->selector, info->driver);
    printf("build          %s (%s)\n", TD_VERSION, TD_BUILD_ID);
    printf(
        "work           rounds of %zu samples, %.0f s of audio, in batches of %u%s%s; %zu workers, median of "
        "%u\n",
        r->n_items, r->audio_s, options->batch_size, options->with_pitch ? ", with pitch" : "",
        options->reference_s > 0 ? ", with references" : "", r->workers, rounds);
    if (r->n_left_out > 0)
        printf("left out       %zu rows past --max-mel-frames or --max-text-length\n", r->n_left_out);
    printf("from disk      %.0f samples/s, %.0f s of audio per second, spread %.0f %%\n", r->samples_per_s,
           r->audio_s_per_s, 100 * r->spread);
    if (r->cache == TD_MEL_CACHE_NONE) return;
    printf("mel cache      %.0f samples/s, %.0f s of audio per second, spread %.0f %%; %s, %.0f %% hits\n",
           r->cached_samples_per_s, r->cached_audio_s_per_s, 100 * r->cached_spread,
           td_mel_cache_kind_name(r->cache), 100 * r->hit_share);
}

int td_cmd_bench_load(td_cli *cli)
{
    td_registry *registry;
    const td_device_info *info;
    td_feed_options options;
    td_bench_load_result result;
    char cache_dir[TD_FILE_PATH_BYTES];
    int code = TD_EXIT_DONE;
    const uint32_t rounds = (uint32_t)td_options_get(cli->options, "bench.rounds")->integer;
    const size_t max_batches = (size_t)td_options_get(cli->options, "bench.max_batches")->integer;
    if (td_cli_load_options(cli, cache_dir, &options) != TD_OK) return td_cli_fail(cli, NULL);
    options.workers = (size_t)td_options_get(cli->options, "bench.workers")->integer;
    if (td_cli_open_registry(cli, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    if (td_cli_find_device(cli, registry, &info) != TD_OK) {
        code = td_cli_fail(cli, registry);
    } else if (td_bench_load_run(registry, info, &options, rounds, max_batches, &result) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else if (cli->json) {
        code = print_json(cli, info, &options, &result);
    } else {
        print_result(info, &options, rounds, &result);
    }
    td_registry_close(registry);
    return code;
}
