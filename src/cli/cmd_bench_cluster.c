/* `tandem bench cluster`: shows what tools/bench_cluster.h measured, on rank 0. Covered by
 * tests/cluster/test_bench.py. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/bench_cluster.h"

typedef struct work {
    td_cluster *cluster;
    td_registry *registry;
    const td_device_info *info;
    td_train_settings settings;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_bench_cluster_options options;
    td_bench_cluster_result result;
} work;

/* The device that is named, or that of this rank's number on its computer, as in training. */
static td_status choose_device(const td_cli *cli, work *w)
{
    td_roles roles;
    TD_CHECK(td_settings_open_registry(cli->options, &w->registry));
    if (td_cli_text(cli, "bench.device")) return td_cli_find_device(cli, w->registry, &w->info);
    TD_CHECK(td_settings_resolve_rank(cli->options, w->registry, td_cluster_local_rank(w->cluster), &roles));
    w->info = roles.model;
    return TD_OK;
}

static td_status read_work(const td_cli *cli, work *w)
{
    td_train_settings *s = &w->settings;
    TD_CHECK(td_settings_plan(cli->options, w->info, w->cache_dir, s));
    TD_REFUSE_IF(s->auto_batch, TD_ERR_CONFIG, "--batch-size auto would differ among ranks; give a number");
    s->data.max_text_length = (uint32_t)td_cli_count(cli, "bench.text_length");
    s->data.max_mel_frames = (uint32_t)td_cli_count(cli, "bench.mel_frames");
    w->options = (td_bench_cluster_options){.cluster = w->cluster,
                                            .settings = s,
                                            .shape = td_run_shape(s, (td_lengths){0}),
                                            .steps = (uint32_t)td_cli_count(cli, "bench.steps")};
    w->options.shape.items = s->data.batch_size;
    return TD_OK;
}

static td_status run(const td_cli *cli, work *w)
{
    TD_CHECK(choose_device(cli, w));
    TD_REFUSE_IF(w->info->type == TD_DEVICE_SIM, TD_ERR_CONFIG,
                 "the simulated device computes nothing, so there is nothing to sum up; `tandem profile "
                 "--simulate-cluster` predicts steps of devices that this computer does not have");
    TD_CHECK(read_work(cli, w));
    return td_bench_cluster_run(w->registry, w->info, &w->options, &w->result);
}

/* ---------------------------------------------------------------- showing */

static void put_json(td_json *json, const work *w)
{
    const td_bench_cluster_result *r = &w->result;
    td_cli_put_setting(json, w->info);
    td_json_put_string(json, "cluster", td_cluster_name(w->cluster));
    td_json_put_uint(json, "batch_size", w->options.shape.items);
    td_json_put_uint(json, "grad_accum", w->settings.grad_accum);
    td_json_put_uint(json, "steps", w->options.steps);
    td_json_put_uint(json, "ranks", r->n_ranks);
    td_json_put_uint(json, "bytes", r->bytes);
    td_json_put_double(json, "reduce_gbps", r->reduce_gbps);
    td_json_put_double(json, "latency_us", r->latency_us);
    td_json_put_double(json, "overlap", r->overlap);
    td_json_put_double(json, "gather_overlap", r->gather_overlap);
    td_json_put_double(json, "step_ms", r->step_ms);
    td_json_put_double(json, "efficiency", r->efficiency);
    td_json_put_array(json, "per_rank");
    for (uint32_t i = 0; i < r->n_ranks; ++i) {
        const td_bench_rank *rank = &r->ranks[i];
        td_json_begin_object(json);
        td_json_put_uint(json, "rank", i);
        td_json_put_string(json, "host", rank->host);
        td_json_put_string(json, "device", rank->device);
        td_json_put_double(json, "alone_ms", rank->alone_ms);
        td_json_put_double(json, "step_ms", rank->step_ms);
        td_json_put_double(json, "reduce_ms", rank->reduce_ms);
        td_json_put_double(json, "wait_ms", rank->wait_ms);
        td_json_put_double(json, "gather_ms", rank->gather_ms);
        td_json_put_double(json, "gather_wait_ms", rank->gather_wait_ms);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static void print_result(const work *w)
{
    const td_bench_cluster_result *r = &w->result;
    char bytes[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(r->bytes, bytes);
    td_cli_print_setting(w->info);
    td_printf("work           %" PRIu32 " x %u rows of %u tokens and %u frames; gradients of %s\n",
              w->settings.grad_accum, w->options.shape.items, w->options.shape.tokens,
              w->options.shape.frames, bytes);
    td_printf("ranks          %" PRIu32 ", %s\n", r->n_ranks, td_cluster_name(w->cluster));
    td_printf("step           %.1f ms, mean of %u; efficiency %.2f\n", r->step_ms, w->options.steps,
              r->efficiency);
    if (r->n_ranks == 1) {
        td_printf("network        none: start it with `mpirun -n 2 tandem bench cluster`\n");
        return;
    }
    td_printf("network        %.3f GB/s a rank each way, %.0f us a message\n", r->reduce_gbps, r->latency_us);
    td_printf("reduction      %.0f %% of it behind the backward pass\n", 100 * r->overlap);
    if (isfinite(r->gather_overlap))
        td_printf("gathering      %.1f ms for parameters after an update, %.0f %% of it behind the next "
                  "forward pass\n",
                  r->ranks[0].gather_ms, 100 * r->gather_overlap);
    td_printf("\n   rank   alone ms    step ms  reduce ms    wait ms   device\n");
    for (uint32_t i = 0; i < r->n_ranks; ++i) {
        const td_bench_rank *rank = &r->ranks[i];
        td_printf("  %5" PRIu32 " %10.1f %10.1f %10.1f %10.1f   %s on %s\n", i, rank->alone_ms, rank->step_ms,
                  rank->reduce_ms, rank->wait_ms, rank->device, rank->host);
    }
}

static int show(const td_cli *cli, const work *w)
{
    td_json *json;
    if (td_cluster_rank(w->cluster) > 0) return TD_EXIT_DONE;
    if (!cli->json) {
        print_result(w);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    put_json(json, w);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

int td_cmd_bench_cluster(td_cli *cli)
{
    work w = {0};
    int code = TD_EXIT_DONE;
    td_log_context *silence = td_cli_silence_rank(cli, td_cluster_launch().rank);
    td_status status = td_settings_open_cluster(cli->options, &w.cluster);
    if (status == TD_OK && run(cli, &w) != TD_OK) {
        const uint32_t ranks = td_cluster_size(w.cluster);
        status = ranks > 1 ? td_error_context("rank %u of %u", td_cluster_rank(w.cluster), ranks)
                           : td_error_last()->status;
    }
    if (status == TD_OK)
        code = show(cli, &w);
    else if (w.cluster != NULL || td_cluster_launch().local_rank == 0) /* see td_cluster_open() */
        code = td_cli_fail(cli, w.info ? NULL : w.registry);
    else
        code = status == TD_ERR_CONFIG ? TD_EXIT_USAGE : TD_EXIT_FAILED;
    td_cluster_close(w.cluster, status != TD_OK);
    td_bench_cluster_free(&w.result);
    td_registry_close(w.registry);
    td_log_close(silence);
    return code;
}
