/* `tandem bench pipeline`: shows what tools/bench_pipeline.h measured. Covered by tests/cli/test_profile.py.
 */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/bench_pipeline.h"

static double get_ratio(const td_bench_pipeline_result *r, td_pipeline_way slow)
{
    return r->median_ms[TD_WAY_TWO] > 0 ? r->median_ms[slow] / r->median_ms[TD_WAY_TWO] : 0;
}

static int print_json(const td_cli *cli, const td_bench_pipeline_result *r)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_cli_put_build(json);
    td_json_put_string(json, "data_device", r->profiles[TD_WAY_TWO].data_device);
    td_json_put_string(json, "model_device", r->profiles[TD_WAY_TWO].model_device);
    td_json_put_bool(json, "simulated", r->profiles[TD_WAY_TWO].is_simulated);
    for (int way = 0; way < TD_WAY_COUNT; ++way) {
        td_json_put_object(json, td_pipeline_way_name((td_pipeline_way)way));
        td_json_put_double(json, "median_ms", r->median_ms[way]);
        td_json_put_object(json, "profile");
        td_profile_put_json(json, &r->profiles[way]);
        td_json_end_object(json);
        td_json_end_object(json);
    }
    td_json_put_object(json, "watching");
    td_json_put_double(json, "on_ms", r->watched_ms);
    td_json_put_double(json, "off_ms", r->unwatched_ms);
    td_json_end_object(json);
    td_json_put_object(json, "ratios"); /* how much longer a step takes than overlapped on two devices */
    td_json_put_double(json, td_pipeline_way_name(TD_WAY_SINGLE), get_ratio(r, TD_WAY_SINGLE));
    td_json_put_double(json, td_pipeline_way_name(TD_WAY_SERIAL), get_ratio(r, TD_WAY_SERIAL));
    td_json_end_object(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static void print_result(const td_bench_pipeline_result *r)
{
    static const char *const LABELS[] = {"single device", "two, unoverlapped", "two, overlapped"};
    const td_profile *two = &r->profiles[TD_WAY_TWO];
    td_cli_print_build();
    td_printf("devices        data on %s, model on %s%s\n", two->data_device, two->model_device,
              two->is_simulated ? " (simulated)" : "");
    td_printf("work           %zu steps each, the first %zu not counted\n\n", two->n_times, two->n_warm_up);
    td_printf(
        "                     median ms   spread   model busy   data busy   host ms   samples/s   ratio\n");
    for (int way = 0; way < TD_WAY_COUNT; ++way) {
        const td_profile *p = &r->profiles[way];
        const td_pipeline_figures *f = &p->figures;
        td_printf("%-19s  %9.2f  %6.0f %%  %9.0f %%  %8.0f %%  %8.2f  %10.1f  %6.2f\n", LABELS[way],
                  r->median_ms[way], 100 * f->cv, 100 * f->model_utilisation, 100 * f->data_utilisation,
                  p->host_ms, f->step_ms.mean > 0 ? 1000 * p->samples_per_step / f->step_ms.mean : 0,
                  get_ratio(r, (td_pipeline_way)way));
    }
    if (r->unwatched_ms > 0)
        td_printf(
            "\nwatching       a step on one device takes %.2f ms, without the monitor %.2f ms (%+.1f %%)\n",
            r->watched_ms, r->unwatched_ms, 100 * (r->watched_ms / r->unwatched_ms - 1));
}

int td_cmd_bench_pipeline(td_cli *cli)
{
    const uint64_t steps = td_cli_count(cli, "profile.num_steps");
    td_bench_pipeline_result result = {0};
    td_train_settings settings;
    td_registry *registry = NULL;
    td_roles roles = {0};
    char cache_dir[TD_FILE_PATH_BYTES];
    td_status status = TD_OK;
    int code = TD_EXIT_DONE;
    TD_TRY(td_settings_open_registry(cli->options, &registry));
    TD_TRY(td_settings_resolve_roles(cli->options, registry, &roles));
    TD_TRY(td_settings_train(cli->options, roles.model, cache_dir, &settings));
    TD_TRY(td_bench_pipeline_run(registry, &roles, &settings, steps, &result));
    if (cli->json)
        code = print_json(cli, &result);
    else
        print_result(&result);
fail:
    if (status != TD_OK) code = td_cli_fail(cli, roles.model ? NULL : registry);
    td_bench_pipeline_free(&result);
    td_registry_close(registry);
    return code;
}
