/* `tandem bench submit`: shows what tools/bench_submit.h measured. Covered by tests/cli/test_cli.py. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/bench_submit.h"

static void put_result(td_json *json, const td_bench_submit_result *result)
{
    td_json_put_uint(json, "kernels", result->kernels);
    td_json_put_uint(json, "replays", result->replays);
    td_json_put_double(json, "list_us_per_kernel", result->list_us_per_kernel);
    td_json_put_double(json, "list_spread", result->list_spread);
    td_json_put_double(json, "bare_us_per_kernel", result->has_bare ? result->bare_us_per_kernel : NAN);
    td_json_put_double(json, "bare_spread", result->has_bare ? result->bare_spread : NAN);
    td_json_put_double(json, "ratio", result->has_bare ? result->ratio : NAN);
}

static void print_result(const td_device_info *info, const td_bench_submit_result *result)
{
    td_cli_print_setting(info);
    td_printf("work           %u replays of %u kernels\n", result->replays, result->kernels);
    td_printf("recorded list  %.3f us per kernel, spread %.0f %%\n", result->list_us_per_kernel,
              100 * result->list_spread);
    if (!result->has_bare) {
        td_printf("bare loop      none for this device's API\n");
        return;
    }
    td_printf("bare loop      %.3f us per kernel, spread %.0f %%\n", result->bare_us_per_kernel,
              100 * result->bare_spread);
    td_printf("ratio          %.3f\n", result->ratio);
}

typedef struct work {
    uint32_t kernels, replays;
} work;

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const work *w = context;
    td_bench_submit_result result;
    TD_CHECK(td_bench_submit_run(registry, info, w->kernels, w->replays, &result));
    if (json)
        put_result(json, &result);
    else
        print_result(info, &result);
    return TD_OK;
}

int td_cmd_bench_submit(td_cli *cli)
{
    work w = {
        .kernels = (uint32_t)td_cli_count(cli, "bench.kernels"),
        .replays = (uint32_t)td_cli_count(cli, "bench.replays"),
    };
    return td_cli_measure_device(cli, measure, &w);
}
