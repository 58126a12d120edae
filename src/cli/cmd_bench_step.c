/* `tandem bench step`: shows what tools/bench_step.h measured. Covered by tests/cli/test_step.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/bench_step.h"

typedef struct work {
    td_bench_step_options options;
    const char *name, *precision; /* as given */
    bool explains;
} work;

static void put_work(td_json *json, const work *w)
{
    const td_bench_step_options *o = &w->options;
    td_json_put_string(json, o->preset ? "model_size" : "sketch", w->name);
    td_json_put_uint(json, "batch_size", o->size.items);
    td_json_put_uint(json, "text_length", o->size.tokens);
    td_json_put_uint(json, "mel_frames", o->size.frames);
    td_json_put_uint(json, "steps", o->steps);
    td_json_put_string(json, "precision", w->precision);
    td_json_put_bool(json, "checkpointing", o->checkpoint);
}

static void put_result(td_json *json, const td_bench_step_result *r)
{
    td_json_put_uint(json, "parameters", r->parameters);
    td_json_put_double(json, "flops_per_step", r->plan.flops);
    td_stats_put_json(json, "ms_per_step", &r->ms, "median min p95 spread");
    td_json_put_double(json, "gflops", r->gflops);
    td_json_put_double(json, "audio_s_per_s", r->audio_s_per_s);
    td_json_put_uint(json, "peak_device_bytes", r->peak_bytes);
    td_json_put_uint(json, "arena_bytes", r->plan.arena_bytes);
    td_json_put_uint(json, "kept_bytes", r->plan.kept_bytes);
    td_json_put_uint(json, "store_bytes", r->plan.store_bytes);
    td_json_put_double(json, "host_share", r->host_share);
    td_json_put_double(json, "cpu_ms_per_step", r->cpu_ms);
    td_json_put_double(json, "plan_ms", r->plan_ms);
    td_json_put_uint(json, "nodes", r->plan.nodes);
    td_json_put_uint(json, "launches", r->plan.launches);
    td_json_put_double(json, "first_loss", (double)r->first_loss);
    td_json_put_double(json, "last_loss", (double)r->last_loss);
}

static void print_result(const td_device_info *info, const work *w, const td_bench_step_result *r)
{
    const td_bench_step_options *o = &w->options;
    char peak[TD_TEXT_FORMAT_BYTES], arena[TD_TEXT_FORMAT_BYTES], store[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(r->peak_bytes, peak);
    td_text_format_bytes(r->plan.arena_bytes, arena);
    td_text_format_bytes(r->plan.store_bytes, store);
    td_cli_print_setting(info);
    td_printf("work           %s %s, %.2f M parameters; %u items of %u tokens and %u frames; %s%s\n",
              o->preset ? "model" : "sketch", w->name, (double)r->parameters * 1e-6, o->size.items,
              o->size.tokens, o->size.frames, w->precision, o->checkpoint ? ", checkpointing" : "");
    td_printf("step           %.1f ms, at best %.1f, p95 %.1f, spread %.0f %%, median of %u steps\n",
              r->ms.median, r->ms.min, r->ms.p95, 100 * r->ms.spread, o->steps);
    td_printf("rate           %.1f GFLOP/s of %.2f GFLOP, %.0f s of audio per second\n", r->gflops,
              r->plan.flops * 1e-9, r->audio_s_per_s);
    td_printf("memory         %s: arena %s, parameters, gradients and moments %s\n", peak, arena, store);
    td_printf("host           %.2f %% of the step; %zu launches, planned in %.1f ms\n", 100 * r->host_share,
              r->plan.launches, r->plan_ms);
    td_printf("loss           %g to %g\n", (double)r->first_loss, (double)r->last_loss);
}

static uint32_t count(const td_cli *cli, const char *key)
{
    return (uint32_t)td_cli_count(cli, key);
}

static td_status read_options(const td_cli *cli, td_bench_step_options *out)
{
    const char *dot = td_cli_text(cli, "bench.explain_dot");
    const char *dump = td_cli_text(cli, "bench.dump");
    *out = (td_bench_step_options){
        .steps = count(cli, "bench.steps"),
        .half = td_settings_precision(td_cli_text(cli, "bench.precision")),
        .checkpoint = td_cli_is_on(cli, "bench.checkpointing"),
        .ragged = td_cli_is_on(cli, "bench.ragged"),
        .dump = dump && dump[0] ? dump : NULL,
    };
    TD_CHECK(td_sketch_parse(td_cli_text(cli, "bench.sketch"), &out->size));
    if (td_options_get(cli->options, "model.model_size")->origin != TD_ORIGIN_DEFAULT)
        out->preset = td_cli_text(cli, "model.model_size");
    out->family = td_settings_family(cli->options);
    out->keys = td_cli_text(cli, "bench.model_keys");
    out->state = td_settings_state(td_cli_text(cli, "training.optimizer_state"));
    out->host_moments = strcmp(td_cli_text(cli, "training.optimizer_device"), "host") == 0;
    out->size.items = count(cli, "training.batch_size");
    out->size.tokens = count(cli, "bench.text_length");
    out->size.frames = count(cli, "bench.mel_frames");
    if (!dot || !dot[0]) return TD_OK;
    out->explain_dot = fopen(dot, "w");
    TD_REFUSE_IF(!out->explain_dot, TD_ERR_IO, "%s cannot be written; give --explain-dot another file", dot);
    return TD_OK;
}

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    work *w = context;
    td_bench_step_result result = {0};
    char *explanation = NULL;
    size_t bytes = 0;
    td_status status = TD_OK;
    if (w->explains) w->options.explain = open_memstream(&explanation, &bytes);
    status = td_bench_step_run(registry, info, &w->options, &result);
    if (w->options.explain) fclose(w->options.explain); /* fills explanation in */
    TD_TRY(status);
    if (json) {
        put_work(json, w);
        put_result(json, &result);
        if (explanation) td_json_put_string(json, "explain", explanation);
    } else {
        print_result(info, w, &result);
        if (explanation) td_printf("\n%s", explanation);
    }
fail:
    free(explanation);
    return status;
}

int td_cmd_bench_step(td_cli *cli)
{
    work w = {.precision = td_cli_text(cli, "bench.precision"),
              .explains = td_cli_is_on(cli, "bench.explain")};
    if (read_options(cli, &w.options) != TD_OK) return td_cli_fail(cli, NULL);
    w.name = w.options.preset ? w.options.preset : td_cli_text(cli, "bench.sketch");
    const int code = td_cli_measure_device(cli, measure, &w);
    if (w.options.explain_dot && fclose(w.options.explain_dot) != 0 && code == TD_EXIT_DONE) {
        (void)TD_FAIL(TD_ERR_IO, "the picture of the plan could not be written");
        return td_cli_fail(cli, NULL);
    }
    return code;
}
