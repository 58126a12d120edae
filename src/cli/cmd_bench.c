/* `tandem bench submit`: shows what tools/bench_submit.h measured. Covered by tests/cli/test_cli.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/bench_submit.h"

static void put_cost(td_json *json, const char *key, double value, bool is_known)
{
    td_json_key(json, key);
    if (is_known) {
        td_json_double(json, value);
    } else {
        td_json_null(json);
    }
}

static int print_json(const td_cli *cli, const td_device_info *info, const td_bench_submit_result *result)
{
    td_json *json;
    if (td_json_create(NULL, 2, &json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_begin_object(json);
    td_cli_put_setting(json, info);
    td_json_put_uint(json, "kernels", result->kernels);
    td_json_put_uint(json, "replays", result->replays);
    put_cost(json, "list_us_per_kernel", result->list_us_per_kernel, true);
    put_cost(json, "list_spread", result->list_spread, true);
    put_cost(json, "bare_us_per_kernel", result->bare_us_per_kernel, result->has_bare);
    put_cost(json, "bare_spread", result->bare_spread, result->has_bare);
    put_cost(json, "ratio", result->ratio, result->has_bare);
    td_json_end_object(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static void print_result(const td_device_info *info, const td_bench_submit_result *result)
{
    printf("device         %s, driver %s\n", result->device, info->driver);
    printf("build          %s (%s)\n", TD_VERSION, TD_BUILD_ID);
    printf("work           %u replays of %u kernels\n", result->replays, result->kernels);
    printf("recorded list  %.3f us per kernel, spread %.0f %%\n", result->list_us_per_kernel,
           100 * result->list_spread);
    if (!result->has_bare) {
        printf("bare loop      none for this device's API\n");
        return;
    }
    printf("bare loop      %.3f us per kernel, spread %.0f %%\n", result->bare_us_per_kernel,
           100 * result->bare_spread);
    printf("ratio          %.3f\n", result->ratio);
}

int td_cmd_bench_submit(td_cli *cli)
{
    td_registry *registry;
    const td_device_info *info;
    td_bench_submit_result result;
    int code = TD_EXIT_DONE;
    const uint32_t kernels = (uint32_t)td_options_get(cli->options, "bench.kernels")->integer;
    const uint32_t replays = (uint32_t)td_options_get(cli->options, "bench.replays")->integer;
    if (td_cli_open_registry(cli, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    if (td_cli_find_device(cli, registry, &info) != TD_OK) {
        code = td_cli_fail(cli, registry);
    } else if (td_bench_submit_run(registry, info, kernels, replays, &result) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else if (cli->json) {
        code = print_json(cli, info, &result);
    } else {
        print_result(info, &result);
    }
    td_registry_close(registry);
    return code;
}
