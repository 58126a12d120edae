/* `tandem bench gemm`: shows what tools/bench_gemm.h measures, row by row. Covered by tests/cli/test_cli.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/bench_gemm.h"

static const char USUAL_SHAPES[] =
    "1024x1024x1024,2048x2048x512,6400x384x384,6400x1536x384,512x512x512,3200x192x768,"
    "1023x77x333,64x400x64x400";

static void add_json(void *context, const td_bench_gemm_row *row)
{
    td_json *json = context;
    td_json_begin_object(json);
    td_json_put_uint(json, "batch", row->shape.batch);
    td_json_put_uint(json, "m", row->shape.m);
    td_json_put_uint(json, "n", row->shape.n);
    td_json_put_uint(json, "k", row->shape.k);
    td_json_put_string(json, "layout", td_gemm_layout_name(row->layout));
    td_json_put_string(json, "provider", row->provider);
    td_json_put_string(json, "variant", row->variant);
    td_json_put_double(json, "gflops", row->gflops);
    td_json_put_double(json, "spread", row->spread);
    td_json_put_double(json, "max_rel_err", row->max_rel_err);
    if (row->openblas_gflops > 0) {
        td_json_put_double(json, "openblas_gflops", row->openblas_gflops);
        td_json_put_string(json, "openblas_core", row->openblas_core);
        td_json_put_double(json, "ratio", row->ratio);
    }
    td_json_end_object(json);
}

static void print_row(void *context, const td_bench_gemm_row *row)
{
    char shape[64];
    (void)context;
    if (row->shape.batch > 1) {
        snprintf(shape, sizeof shape, "%ux%ux%ux%u", row->shape.batch, row->shape.m, row->shape.n,
                 row->shape.k);
    } else {
        snprintf(shape, sizeof shape, "%ux%ux%u", row->shape.m, row->shape.n, row->shape.k);
    }
    td_printf("%-18s %-6s %-16s %9.2f %6.0f%% %10.1e", shape, td_gemm_layout_name(row->layout), row->variant,
              row->gflops, 100 * row->spread, row->max_rel_err);
    if (row->openblas_gflops > 0)
        td_printf(" %9.2f %-9s %6.3f", row->openblas_gflops, row->openblas_core, row->ratio);
    putchar('\n');
    fflush(stdout);
}

static void print_head(const td_device_info *info, const td_bench_gemm_options *options)
{
    td_cli_print_setting(info);
    td_printf("work           median of %u runs, packing and copies included\n\n", options->rounds);
    td_printf("%-18s %-6s %-16s %9s %7s %10s", "shape", "layout", "variant", "GFLOP/s", "spread", "error");
    if (options->against_openblas) td_printf(" %9s %-9s %6s", "OpenBLAS", "core", "ratio");
    putchar('\n');
}

static td_status read_options(const td_cli *cli, td_bench_gemm_options *out, td_gemm_shape **shapes)
{
    const char *text = td_cli_text(cli, "bench.shapes");
    const char *layout = td_cli_text(cli, "bench.layout");
    const char *provider = td_cli_text(cli, "bench.provider");
    *out = (td_bench_gemm_options){
        .against_openblas = strcmp(td_cli_text(cli, "bench.against"), "openblas") == 0,
        .rounds = (uint32_t)td_cli_count(cli, "bench.rounds"),
    };
    for (int i = 0; i < TD_GEMM_LAYOUT_COUNT; i++)
        out->layouts[i] =
            strcmp(layout, "all") == 0 || strcmp(layout, td_gemm_layout_name((td_gemm_layout)i)) == 0;
    for (int i = 0; i < TD_GEMM_PROVIDER_COUNT; i++)
        if (strcmp(provider, td_gemm_provider_name((td_gemm_provider)i)) == 0)
            out->provider = (td_gemm_provider)i;
    const td_status status = td_gemm_shapes_parse(text ? text : USUAL_SHAPES, shapes, &out->n_shapes);
    out->shapes = *shapes;
    return status;
}

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const td_bench_gemm_options *options = context;
    if (!json) {
        print_head(info, options);
        return td_bench_gemm_run(registry, info, options, print_row, NULL);
    }
    td_json_put_uint(json, "rounds", options->rounds);
    td_json_put_array(json, "results");
    TD_CHECK(td_bench_gemm_run(registry, info, options, add_json, json));
    td_json_end_array(json);
    return TD_OK;
}

int td_cmd_bench_gemm(td_cli *cli)
{
    td_bench_gemm_options options;
    td_gemm_shape *shapes = NULL;
    if (read_options(cli, &options, &shapes) != TD_OK) return td_cli_fail(cli, NULL);
    const int code = td_cli_measure_device(cli, measure, &options);
    free(shapes);
    return code;
}
