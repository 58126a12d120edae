/* `tandem bench mel`: shows what tools/bench_mel.h measured. Covered by tests/cli/test_cli.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/bench_mel.h"

static void put_result(td_json *json, const td_bench_mel_options *options, const td_bench_mel_result *result)
{
    td_json_put_uint(json, "clips", options->clips);
    td_json_put_double(json, "seconds", options->seconds);
    td_json_put_uint(json, "rounds", options->rounds);
    td_json_put_double(json, "ms_per_batch", result->ms);
    td_json_put_double(json, "realtime_factor", result->realtime_factor);
    td_json_put_double(json, "spread", result->spread);
    td_json_put_double(json, "max_abs_err", result->max_abs_err);
    td_json_put_double(json, "griffin_lim_factor", result->griffin_lim_factor);
}

static void print_result(const td_device_info *info, const td_bench_mel_options *options,
                         const td_bench_mel_result *result)
{
    td_cli_print_setting(info);
    td_printf("work           %u clips of %g s, median of %u runs, upload included\n", options->clips,
              options->seconds, options->rounds);
    td_printf("mel            %.0f times real time, %.2f ms a batch, spread %.0f %%\n",
              result->realtime_factor, result->ms, 100 * result->spread);
    td_printf("error          %.1e in ln units\n", result->max_abs_err);
    td_printf("Griffin-Lim    %.0f times real time, 60 steps\n", result->griffin_lim_factor);
}

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const td_bench_mel_options *options = context;
    td_bench_mel_result result;
    TD_CHECK(td_bench_mel_run(registry, info, options, &result));
    if (json)
        put_result(json, options, &result);
    else
        print_result(info, options, &result);
    return TD_OK;
}

int td_cmd_bench_mel(td_cli *cli)
{
    td_bench_mel_options options = {
        .clips = (uint32_t)td_cli_count(cli, "bench.clips"),
        .seconds = (double)td_cli_count(cli, "bench.seconds"),
        .rounds = (uint32_t)td_cli_count(cli, "bench.rounds"),
        .config = td_mel_config_default(),
    };
    return td_cli_measure_device(cli, measure, &options);
}
