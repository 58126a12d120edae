/* `tandem profile`: shows what tools/profile.h found. Covered by tests/cli/test_profile.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/profile.h"

static void print_row(const char *name, const td_stats *s, double step_ms)
{
    td_printf("  %-12s %9.2f %8.2f %9.2f %9.2f %9.2f  %5.0f %%\n", name, s->mean, s->std, s->min, s->max,
              s->p95, step_ms > 0 ? 100 * s->mean / step_ms : 0);
}

static void print_forecast(const td_forecast *f)
{
    td_printf("from the plan: %u rows of %u tokens and %u frames; %.1f GFLOP in %zu launches; data %.3f ms, "
              "transfer %.3f ms, train %.3f ms\n",
              f->shape.items, f->shape.tokens, f->shape.frames, f->flops * 1e-9, f->launches, f->data_ms,
              f->transfer_ms, f->train_ms);
}

static void print_profile(const td_cli *cli, const td_profile *p)
{
    const td_pipeline_figures *f = &p->figures;
    td_printf("%s, data on %s, model on %s%s\n", p->is_single ? "single-device" : "two-device",
              p->data_device, p->model_device, p->is_simulated ? " (simulated)" : "");
    td_printf("%zu steps, the first %zu not counted\n", p->n_times, p->n_warm_up);
    if (p->forecast.shape.items > 0) print_forecast(&p->forecast);
    td_printf("\n");
    td_printf("  phase             mean      std       min       max       p95  share   (ms)\n");
    print_row("step", &f->step_ms, f->step_ms.mean);
    for (int s = 0; s < TD_STAGE_COUNT; ++s)
        print_row(td_stage_name((td_stage)s), &f->stage_ms[s], f->step_ms.mean);
    print_row("idle", &f->idle_ms, f->step_ms.mean);
    td_printf(
        "\nbusy           model device %.0f %%, data device %.0f %%; %.0f %% of the data work overlapped\n",
        100 * f->model_utilisation, 100 * f->data_utilisation, 100 * f->overlap);
    td_printf("variation      %.3f\n", f->cv);
    if (p->host_ms > 0)
        td_printf("host           %.2f ms of a step to lead batches through the stages (%.1f %%)\n",
                  p->host_ms, 100 * p->host_ms / f->step_ms.mean);
    if (p->samples_per_step > 0)
        td_printf("rate           %.1f samples/s, %.1f s of audio per second\n",
                  1000 * p->samples_per_step / f->step_ms.mean, 1000 * p->audio_s_per_step / f->step_ms.mean);
    if (p->model_peak_bytes > 0)
        td_printf("memory         data role %.1f MB, model role %.1f MB\n",
                  (double)p->data_peak_bytes / 1048576, (double)p->model_peak_bytes / 1048576);
    for (size_t i = 0; i < p->n_verdicts; ++i) {
        td_printf("\n");
        td_cli_print_colored(cli, TD_COLOR_YELLOW, p->verdicts[i].message, 0);
        td_printf("\n  %s\n", p->verdicts[i].advice);
    }
}

static td_simulation read_simulation(const td_cli *cli)
{
    td_simulation s = {
        .is_serial = td_cli_is_on(cli, "profile.serial"),
        .seed = td_cli_count(cli, "training.seed"),
        .buffer_size = (uint32_t)td_cli_count(cli, "pipeline.buffer_size"),
        .prefetch_size = (uint32_t)td_cli_count(cli, "pipeline.prefetch_buffer_size"),
        .depth = (uint32_t)td_cli_count(cli, "pipeline.pipeline_depth"),
        .steps = td_cli_count(cli, "profile.num_steps"),
    };
    if (s.prefetch_size == 0) s.prefetch_size = 8;
    return s;
}

/* One device plays both roles where only the model device was named, as in training. */
static td_status run_simulation(const td_cli *cli, const char *stages, td_profile *out)
{
    td_simulation s = read_simulation(cli);
    s.is_single = td_cli_text(cli, "devices.model") && !td_cli_text(cli, "devices.data");
    TD_CHECK(td_simulation_parse(stages, &s));
    return td_profile_simulate(&s, out);
}

/* What a training run would do on devices of given rates. Lengths come from the data where it is named. */
static td_status run_forecast(td_cli *cli, const char *model, td_profile *out)
{
    const td_simulation simulation = read_simulation(cli);
    td_train_settings settings;
    td_registry *registry = NULL;
    const td_device_info *info;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_profile_forecast_request request = {
        .data = td_cli_text(cli, "simulate-data-device"), .model = model, .settings = &settings};
    td_status status = TD_OK;
    TD_TRY(td_cli_open_stand_in(model, &registry, &info));
    TD_TRY(td_settings_plan(cli->options, info, cache_dir, &settings));
    TD_FAIL_IF(settings.auto_batch, TD_ERR_CONFIG,
               "--batch-size auto cannot be forecast; `tandem advise` tells what fits, then give a number");
    if (settings.data.dataset.dir) TD_TRY(td_planner_measure(&settings.data, &request.longest));
    TD_TRY(td_profile_forecast(&request, &simulation, out));
fail:
    td_registry_close(registry);
    return status;
}

static td_status write_files(const td_cli *cli, const td_profile *profile)
{
    const char *trace = td_cli_text(cli, "profile.trace");
    const char *html = td_cli_text(cli, "profile.html");
    if (trace) TD_CHECK(td_profile_write_trace(profile, trace));
    if (html) TD_CHECK(td_profile_write_html(profile, html));
    return TD_OK;
}

/* Trains as `train` would with these options, also with other ranks. */
static td_status run_training(td_cli *cli, td_cluster *cluster, td_registry *registry, const td_roles *roles,
                              td_profile *out)
{
    td_train_settings settings;
    char cache_dir[TD_FILE_PATH_BYTES];
    const uint64_t steps = td_cli_count(cli, "profile.num_steps");
    TD_CHECK(td_settings_train(cli->options, roles->model, cache_dir, &settings));
    settings.is_serial = td_cli_is_on(cli, "profile.serial");
    settings.cluster = cluster;
    TD_CHECK(td_profile_train(registry, roles, &settings, steps, out));
    return td_profile_gather(out, cluster);
}

static int show(const td_cli *cli, const td_profile *profile)
{
    td_json *json;
    if (!cli->json) {
        print_profile(cli, profile);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_profile_put_json(json, profile);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

/* Devices of this computer, and the ranks that a launcher has started. */
static td_status profile_here(td_cli *cli, td_cluster **cluster, td_registry **registry, td_roles *roles,
                              td_profile *out)
{
    TD_CHECK(td_settings_open_cluster(cli->options, cluster));
    TD_CHECK(td_settings_open_registry(cli->options, registry));
    TD_CHECK(td_settings_resolve_rank(cli->options, *registry, td_cluster_local_rank(*cluster), roles));
    return run_training(cli, *cluster, *registry, roles, out);
}

int td_cmd_profile(td_cli *cli)
{
    if (td_cli_text(cli, "simulate-cluster")) return td_cli_profile_cluster(cli);
    const char *stages = td_cli_text(cli, "profile.simulate");
    const char *device = td_cli_text(cli, "simulate-device");
    td_profile profile = {0};
    td_cluster *cluster = NULL;
    td_registry *registry = NULL;
    td_roles roles = {0};
    td_status status = TD_OK;
    int code = TD_EXIT_DONE;
    td_log_context *silence = td_cli_silence_rank(cli, td_cluster_launch().rank);
    TD_FAIL_IF(td_cli_text(cli, "simulate-data-device") && !device, TD_ERR_CONFIG,
               "--simulate-data-device needs --simulate-device, which is the model device");
    TD_FAIL_IF(stages && device, TD_ERR_CONFIG,
               "--simulate gives the times of stages, --simulate-device derives them; leave one out");
    if (device)
        TD_TRY(run_forecast(cli, device, &profile));
    else if (stages)
        TD_TRY(run_simulation(cli, stages, &profile));
    else
        TD_TRY(profile_here(cli, &cluster, &registry, &roles, &profile));
    if (!cluster || td_cluster_rank(cluster) == 0) {
        TD_TRY(write_files(cli, &profile));
        code = show(cli, &profile);
    }
fail:
    if (status != TD_OK) code = td_cli_fail(cli, roles.model ? NULL : registry);
    td_cluster_close(cluster, status != TD_OK);
    td_profile_free(&profile);
    td_registry_close(registry);
    td_log_close(silence);
    return code;
}
