/* `tandem bench kernels`: shows what tools/bench_kernels.h measures, row by row. Covered by
 * tests/cli/test_cli.py. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/bench_kernels.h"

static void add_json(void *context, const td_bench_kernels_row *row)
{
    td_json *json = context;
    td_json_begin_object(json);
    td_json_put_string(json, "op", row->op);
    td_json_put_string(json, "shape", row->shape);
    td_json_put_double(json, "ms", row->ms);
    td_json_put_double(json, "spread", row->spread);
    td_json_put_double(json, "least_ms", row->least_ms);
    td_json_put_double(json, "gbps", row->gbps > 0 ? row->gbps : NAN);
    td_json_put_double(json, "gflops", row->gflops > 0 ? row->gflops : NAN);
    td_json_put_double(json, "share", row->share);
    td_json_put_string(json, "of", row->of);
    td_json_end_object(json);
}

typedef struct table {
    const td_device_info *info;
    const td_bench_kernels_options *options;
    bool has_head; /* printed with the first row, so that a mistake prints none */
} table;

static void print_head(const table *t)
{
    td_cli_print_setting(t->info);
    td_printf("work           median of %u runs, in turns with a copy of the same traffic or a product\n",
              t->options->rounds);
    td_printf("data           %s\n\n",
              t->options->cached ? "where the launch before left it" : "from memory");
    td_printf("%-16s %-32s %9s %7s %14s %6s\n", "op", "shape", "ms", "spread", "rate", "share");
}

static void print_row(void *context, const td_bench_kernels_row *row)
{
    table *t = context;
    const bool is_product = row->gflops > 0;
    if (!t->has_head) print_head(t);
    t->has_head = true;
    td_printf("%-16s %-32s %9.3f %6.0f%% %9.2f %-4s %6.2f of a %s\n", row->op, row->shape, row->ms,
              100 * row->spread, is_product ? row->gflops : row->gbps, is_product ? "GF/s" : "GB/s",
              row->share, row->of);
    fflush(stdout);
}

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const td_bench_kernels_options *options = context;
    if (!json) {
        table t = {.info = info, .options = options};
        return td_bench_kernels_run(registry, info, options, print_row, &t);
    }
    td_json_put_uint(json, "rounds", options->rounds);
    td_json_put_bool(json, "cached", options->cached);
    td_json_put_array(json, "results");
    TD_CHECK(td_bench_kernels_run(registry, info, options, add_json, json));
    td_json_end_array(json);
    return TD_OK;
}

int td_cmd_bench_kernels(td_cli *cli)
{
    td_bench_kernels_options options = {
        .ops = td_cli_text(cli, "bench.ops"),
        .rounds = (uint32_t)td_cli_count(cli, "bench.rounds"),
        .cached = td_cli_is_on(cli, "bench.cached"),
    };
    return td_cli_measure_device(cli, measure, &options);
}
