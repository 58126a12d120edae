/* `tandem bench mel`: shows what tools/bench_mel.h measured. Covered by tests/cli/test_cli.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/bench_mel.h"

static int print_json(const td_cli *cli, const td_device_info *info, const td_bench_mel_options *options,
                      const td_bench_mel_result *result)
{
    td_json *json;
    if (td_json_create(NULL, 2, &json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_begin_object(json);
    td_cli_put_setting(json, info);
    td_json_put_uint(json, "clips", options->clips);
    td_json_put_double(json, "seconds", options->seconds);
    td_json_put_uint(json, "rounds", options->rounds);
    td_json_put_double(json, "ms_per_batch", result->ms);
    td_json_put_double(json, "realtime_factor", result->realtime_factor);
    td_json_put_double(json, "spread", result->spread);
    td_json_put_double(json, "max_abs_err", result->max_abs_err);
    td_json_put_double(json, "griffin_lim_factor", result->griffin_lim_factor);
    td_json_end_object(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static void print_result(const td_device_info *info, const td_bench_mel_options *options,
                         const td_bench_mel_result *result)
{
    printf("device         %s (%s), driver %s\n", info->name, info->selector, info->driver);
    printf("build          %s (%s)\n", TD_VERSION, TD_BUILD_ID);
    printf("work           %u clips of %g s, median of %u runs, upload included\n", options->clips,
           options->seconds, options->rounds);
    printf("mel            %.0f times real time, %.2f ms a batch, spread %.0f %%\n", result->realtime_factor,
           result->ms, 100 * result->spread);
    printf("error          %.1e in ln units\n", result->max_abs_err);
    printf("Griffin-Lim    %.0f times real time, 60 steps\n", result->griffin_lim_factor);
}

int td_cmd_bench_mel(td_cli *cli)
{
    td_registry *registry;
    const td_device_info *info;
    td_bench_mel_result result;
    int code = TD_EXIT_DONE;
    const td_bench_mel_options options = {
        .clips = (uint32_t)td_options_get(cli->options, "bench.clips")->integer,
        .seconds = (double)td_options_get(cli->options, "bench.seconds")->integer,
        .rounds = (uint32_t)td_options_get(cli->options, "bench.rounds")->integer,
        .config = td_mel_config_default(),
    };
    if (td_cli_open_registry(cli, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    if (td_cli_find_device(cli, registry, &info) != TD_OK) {
        code = td_cli_fail(cli, registry);
    } else if (td_bench_mel_run(registry, info, &options, &result) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else if (cli->json) {
        code = print_json(cli, info, &options, &result);
    } else {
        print_result(info, &options, &result);
    }
    td_registry_close(registry);
    return code;
}
