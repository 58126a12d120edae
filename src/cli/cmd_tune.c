/* `tandem tune`: shows what tools/tune.h measures and stores. Covered by tests/cli/test_cli.py. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"
#include "tools/tune.h"

static void put_rejected(td_json *json, const td_tuner_result *result)
{
    td_json_put_array(json, "rejected");
    for (size_t i = 0; i < result->n_candidates; i++) {
        if (!result->candidates[i].reason[0]) continue;
        td_json_begin_object(json);
        td_json_put_string(json, "variant", result->candidates[i].name);
        td_json_put_string(json, "reason", result->candidates[i].reason);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static void add_json(void *context, const td_tune_row *row, size_t done, size_t total)
{
    const td_tuner_candidate *best = &row->result.candidates[row->result.best];
    const uint32_t sizes[] = {row->shape.batch, row->shape.m, row->shape.n, row->shape.k, best->splits};
    static const char *const NAMES[] = {"batch", "m", "n", "k", "splits"};
    td_json *json = context;
    (void)done;
    (void)total;
    td_json_begin_object(json);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        td_json_put_uint(json, NAMES[i], sizes[i]);
    td_json_put_string(json, "layout", td_gemm_layout_name(row->layout));
    td_json_put_string(json, "variant", best->name);
    td_json_put_double(json, "gflops", best->gflops);
    td_json_put_string(json, "default_variant", row->result.candidates[0].name);
    td_json_put_double(json, "default_gflops", row->result.candidates[0].gflops);
    put_rejected(json, &row->result);
    td_json_end_object(json);
}

static void print_row(void *context, const td_tune_row *row, size_t done, size_t total)
{
    const td_tuner_candidate *best = &row->result.candidates[row->result.best];
    const td_tuner_candidate *usual = &row->result.candidates[0];
    char shape[64];
    (void)context;
    snprintf(shape, sizeof shape, "%ux%ux%ux%u", row->shape.batch, row->shape.m, row->shape.n, row->shape.k);
    td_printf("%3zu/%zu  %-20s %s  %-16s %2u  %9.2f   default %-16s %9.2f\n", done, total, shape,
              td_gemm_layout_name(row->layout), best->name, best->splits, best->gflops, usual->name,
              usual->gflops);
    fflush(stdout);
}

typedef struct work {
    td_gemm_shape *shapes;
    size_t n_shapes;
} work;

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const work *w = context;
    if (!json) {
        td_cli_print_setting(info);
        td_printf("result         variant, parts of k, GFLOP/s\n\n");
        return td_tune_run(registry, info, w->shapes, w->n_shapes, print_row, NULL);
    }
    td_json_put_array(json, "results");
    TD_CHECK(td_tune_run(registry, info, w->shapes, w->n_shapes, add_json, json));
    td_json_end_array(json);
    return TD_OK;
}

int td_cmd_tune(td_cli *cli)
{
    const char *text = td_cli_text(cli, "bench.shapes");
    work w = {0};
    if (text && td_gemm_shapes_parse(text, &w.shapes, &w.n_shapes) != TD_OK) return td_cli_fail(cli, NULL);
    const int code = td_cli_measure_device(cli, measure, &w);
    free(w.shapes);
    return code;
}
