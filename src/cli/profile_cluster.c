/* `tandem profile --simulate-cluster`: shows what tools/cluster_forecast.h predicts. Covered by
 * tests/cli/test_profile_cluster.py. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/cluster_forecast.h"
#include "tools/planner.h"

enum { REHEARSED_STEPS = 3 };

typedef struct work {
    const char *device; /* as TANDEM_SIM; NULL: one of this computer */
    char name[128];
    td_train_settings settings;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_batch_shape shape;
    td_cluster_forecast forecast;
} work;

/* ---------------------------------------------------------------- finding out */

static td_status read_settings(const td_cli *cli, const td_device_info *info, work *w)
{
    td_lengths longest = {0};
    TD_CHECK(td_settings_plan(cli->options, info, w->cache_dir, &w->settings));
    TD_REFUSE_IF(w->settings.auto_batch, TD_ERR_CONFIG,
                 "--batch-size auto cannot be forecast; `tandem advise` tells what fits, then give a number");
    if (w->settings.data.dataset.dir) TD_CHECK(td_planner_measure(&w->settings.data, &longest));
    w->shape = td_run_shape(&w->settings, longest);
    w->shape.items = w->settings.data.batch_size;
    return TD_OK;
}

static td_status measure_simulated(const td_cli *cli, work *w)
{
    td_registry *registry = NULL;
    const td_device_info *info;
    td_status status = TD_OK;
    (void)snprintf(w->name, sizeof w->name, "%s", w->device);
    TD_TRY(td_cli_open_stand_in(w->device, &registry, &info));
    TD_TRY(read_settings(cli, info, w));
    TD_TRY(td_rank_times_simulate(w->device, &w->settings, &w->shape, &w->forecast.times));
fail:
    td_registry_close(registry);
    return status;
}

static td_status measure_here(const td_cli *cli, td_registry *registry, const td_device_info *info, work *w)
{
    td_device *device = NULL;
    td_memory *memory = NULL;
    td_status status = TD_OK;
    (void)snprintf(w->name, sizeof w->name, "%s", info->selector);
    TD_TRY(read_settings(cli, info, w));
    TD_TRY(td_device_open(registry, info, &device));
    TD_TRY(td_memory_create(device, "model", 0, &memory));
    TD_TRY(td_rank_times_measure(memory, &w->settings, &w->shape, &w->forecast.times));
fail:
    td_memory_destroy(memory);
    td_device_close(device);
    return status;
}

/* Where few ranks are asked for, on simulated devices, they are also simulated one by one. */
static td_status rehearse(work *w, const td_network_model *network)
{
    td_cluster_forecast *f = &w->forecast;
    const td_rehearsal_request request = {.device = w->device,
                                          .settings = &w->settings,
                                          .shape = w->shape,
                                          .network = *network,
                                          .steps = REHEARSED_STEPS,
                                          .pace = td_cluster_rehearsal_pace(f)};
    if (!w->device || !td_cluster_can_rehearse(f, REHEARSED_STEPS)) return TD_OK;
    return td_cluster_rehearse(&request, &f->simulated_ms);
}

/* ---------------------------------------------------------------- showing */

static double samples_per_s(const work *w, const td_cluster_figures *f)
{
    return 1e3 * w->shape.items * w->forecast.times.grad_accum * f->ranks / f->step_ms;
}

static void put_figures(td_json *json, const work *w, const td_cluster_figures *f)
{
    td_json_put_uint(json, "ranks", f->ranks);
    td_json_put_double(json, "step_ms", f->step_ms);
    td_json_put_double(json, "efficiency", f->efficiency);
    td_json_put_double(json, "overlap", f->overlap);
    td_json_put_double(json, "reduce_ms", f->reduce_ms);
    td_json_put_double(json, "wait_ms", f->wait_ms);
    td_json_put_double(json, "gather_ms", f->gather_ms);
    td_json_put_double(json, "gather_wait_ms", f->gather_wait_ms);
    td_json_put_double(json, "samples_per_s", samples_per_s(w, f));
}

static void put_json(td_json *json, const work *w)
{
    const td_cluster_forecast *f = &w->forecast;
    td_json_put_bool(json, "simulated", w->device != NULL);
    td_json_put_string(json, "model_device", w->name);
    td_json_put_object(json, "network");
    td_json_put_double(json, "gbps", f->network.gbps);
    td_json_put_double(json, "latency_us", f->network.latency_us);
    td_json_put_double(json, "drop", f->network.drop);
    td_json_put_double(json, "sum_gbps", f->network.sum_gbps);
    td_json_end_object(json);
    td_json_put_uint(json, "batch_size", w->shape.items);
    td_json_put_uint(json, "grad_accum", f->times.grad_accum);
    td_json_put_uint(json, "bytes", f->gradient_bytes);
    td_json_put_uint(json, "buckets", f->times.n_buckets);
    put_figures(json, w, &f->asked);
    td_json_put_array(json, "rows");
    for (size_t i = 0; i < TD_CLUSTER_DOUBLINGS; ++i) {
        td_json_begin_object(json);
        put_figures(json, w, &f->rows[i]);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    td_json_put_uint(json, "pays_to", f->pays_to);
    td_json_put_uint(json, "fastest", f->fastest);
    td_json_put_uint(json, "enough_grad_accum", f->enough_accum);
    if (f->simulated_ms > 0) td_json_put_double(json, "simulated_step_ms", f->simulated_ms);
}

static void print_row(const work *w, const td_cluster_figures *f, const char *mark)
{
    td_printf("  %5" PRIu32 " %10.2f %10.2f %10.2f %8.0f %% %10.2f %12.1f%s\n", f->ranks, f->step_ms,
              f->reduce_ms, f->wait_ms, 100 * f->overlap, f->efficiency, samples_per_s(w, f), mark);
}

static void print_rows(const work *w)
{
    const td_cluster_forecast *f = &w->forecast;
    bool shown = false;
    td_printf("\n  ranks    step ms  reduce ms    wait ms   hidden  efficiency  samples/s\n");
    for (size_t i = 0; i < TD_CLUSTER_DOUBLINGS; ++i) {
        if (!shown && f->asked.ranks < f->rows[i].ranks) {
            print_row(w, &f->asked, "  *");
            shown = true;
        }
        print_row(w, &f->rows[i], f->asked.ranks == f->rows[i].ranks ? "  *" : "");
        shown = shown || f->asked.ranks == f->rows[i].ranks;
    }
}

static void print_verdict(const td_cluster_forecast *f)
{
    if (f->pays_to > 1)
        td_printf("\nUp to %" PRIu32 " ranks at least half of the time goes into training.", f->pays_to);
    else
        td_printf("\nEven two ranks would spend more than half of the time on their network.");
    if (f->fastest < f->rows[TD_CLUSTER_DOUBLINGS - 1].ranks)
        td_printf(" More than %" PRIu32 " together are slower than these.", f->fastest);
    td_printf("\n");
    if (f->asked.ranks > 1 && f->asked.efficiency < TD_CLUSTER_GOOD) {
        if (f->enough_accum > 0)
            td_printf("With grad_accum = %" PRIu32 " the efficiency of %" PRIu32
                      " ranks would be %.1f or more",
                      f->enough_accum, f->asked.ranks, TD_CLUSTER_GOOD);
        else
            td_printf("No grad_accum up to 4096 brings %" PRIu32 " ranks to an efficiency of %.1f",
                      f->asked.ranks, TD_CLUSTER_GOOD);
        td_printf("%s.\n", f->times.format == TD_WIRE_FP32
                               ? "; cluster.reduce_format = bf16 halves what travels"
                               : "");
    }
    if (f->times.shards && f->asked.ranks > 1)
        td_printf("After an update parameters are %.2f ms on their way to %" PRIu32
                  " ranks; the next forward pass waits for %.2f ms of it.\n",
                  f->asked.gather_ms, f->asked.ranks, f->asked.gather_wait_ms);
    if (f->simulated_ms > 0)
        td_printf("simulation     %" PRIu32
                  " ranks, one by one: %.2f ms a step; the prediction is %.1f %% off\n",
                  f->asked.ranks, f->simulated_ms, 100 * (f->asked.step_ms / f->simulated_ms - 1));
}

static void print_forecast(const work *w)
{
    const td_cluster_forecast *f = &w->forecast;
    char bytes[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(f->gradient_bytes, bytes);
    td_printf("device         %s%s\n", w->name, w->device ? " (simulated)" : " (measured)");
    td_printf("network        %g GB/s a rank, %g us, %g %% lost; ranks add up at %g GB/s\n", f->network.gbps,
              f->network.latency_us, 100 * f->network.drop, f->network.sum_gbps);
    td_printf("step           %" PRIu32
              " x %u rows of %u tokens and %u frames; gradients of %s in %zu buckets%s%s\n",
              f->times.grad_accum, w->shape.items, w->shape.tokens, w->shape.frames, bytes,
              f->times.n_buckets, f->times.format == TD_WIRE_BF16 ? ", sent as bf16" : "",
              f->times.shards ? ", moments cut among ranks" : "");
    print_rows(w);
    print_verdict(f);
}

int td_cli_profile_cluster(td_cli *cli)
{
    work w = {.device = td_cli_text(cli, "simulate-device")};
    td_network_model network;
    td_registry *registry = NULL;
    td_roles roles = {0};
    td_json *json;
    td_status status = TD_OK;
    int code = TD_EXIT_DONE;
    TD_TRY(td_network_parse(td_cli_text(cli, "simulate-cluster"), &network));
    if (w.device) {
        TD_TRY(measure_simulated(cli, &w));
    } else {
        TD_TRY(td_settings_open_registry(cli->options, &registry));
        TD_TRY(td_settings_resolve_roles(cli->options, registry, &roles));
        TD_TRY(measure_here(cli, registry, roles.model, &w));
    }
    td_cluster_forecast_make(&network, &w.forecast);
    TD_TRY(rehearse(&w, &network));
    if (cli->json) {
        TD_TRY(td_cli_begin_json(&json));
        put_json(json, &w);
        code = td_cli_print_json(cli, json, TD_EXIT_DONE);
    } else {
        print_forecast(&w);
    }
fail:
    if (status != TD_OK) code = td_cli_fail(cli, roles.model ? NULL : registry);
    td_rank_times_free(&w.forecast.times);
    td_registry_close(registry);
    return code;
}
