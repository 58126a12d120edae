/* `tandem bench vocoder`: shows what tools/bench_vocoder.h measured. Covered by tests/cli/test_bench_vocoder.py. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/bench_vocoder.h"

#define USUAL_PRESET "base"

static void put_result(td_json *json, const td_bench_vocoder_options *o, const td_bench_vocoder_result *r)
{
    td_json_put_string(json, "family", o->family->name);
    td_json_put_string(json, "model_size", o->preset);
    td_json_put_uint(json, "parameters", r->parameters);
    td_json_put_uint(json, "frames", r->frames);
    td_json_put_double(json, "seconds", r->seconds);
    td_json_put_uint(json, "rounds", o->rounds);
    td_stats_put_json(json, "ms", &r->ms, "median min p95 spread");
    td_json_put_double(json, "realtime_factor", r->realtime_factor);
    td_json_put_double(json, "first_audio_ms", r->first_audio_ms);
    td_json_put_double(json, "gflops", r->gflops);
    td_json_put_uint(json, "launches", r->plan.launches);
    td_json_put_uint(json, "arena_bytes", r->plan.arena_bytes);
    td_json_put_uint(json, "store_bytes", r->plan.store_bytes);
}

static void print_result(const td_device_info *info, const td_bench_vocoder_options *o,
                         const td_bench_vocoder_result *r)
{
    td_cli_print_setting(info);
    td_printf("work           vocoder of family %s, size %s, %.2f M parameters; %.2f s of sound, %u frames\n",
              o->family->name, o->preset, (double)r->parameters * 1e-6, r->seconds, r->frames);
    td_printf(
        "speed          %.2f times real time: %.1f ms, at best %.1f, spread %.0f %%, median of %u runs\n",
        r->realtime_factor, r->ms.median, r->ms.min, 100 * r->ms.spread, o->rounds);
    td_printf("rate           %.1f GFLOP/s of %.1f GFLOP, %zu launches\n", r->gflops, r->plan.flops * 1e-9,
              r->plan.launches);
    td_printf("first audio    %.1f ms\n", r->first_audio_ms);
}

typedef struct work {
    td_bench_vocoder_options options;
    bool explains;
} work;

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    work *w = context;
    td_bench_vocoder_result result;
    char *explanation = NULL;
    size_t bytes = 0;
    td_status status = TD_OK;
    if (w->explains) w->options.explain = open_memstream(&explanation, &bytes);
    status = td_bench_vocoder_run(registry, info, &w->options, &result);
    if (w->options.explain) fclose(w->options.explain); /* fills explanation in */
    TD_TRY(status);
    if (json) {
        put_result(json, &w->options, &result);
        if (explanation) td_json_put_string(json, "explain", explanation);
    } else {
        print_result(info, &w->options, &result);
        if (explanation) td_printf("\n%s", explanation);
    }
fail:
    free(explanation);
    return status;
}

/* The family that was named, else the first that makes samples. */
static const td_family *choose_family(const td_cli *cli)
{
    const td_family *family = td_settings_family(cli->options);
    if (td_options_get(cli->options, "model.family")->origin != TD_ORIGIN_DEFAULT) return family;
    for (size_t i = 0; i < td_family_count(); i++)
        if (td_family_at(i)->wave_graph) return td_family_at(i);
    return family;
}

int td_cmd_bench_vocoder(td_cli *cli)
{
    work w = {.options = {.family = choose_family(cli),
                          .preset = USUAL_PRESET,
                          .seconds = (double)td_cli_count(cli, "bench.seconds"),
                          .rounds = (uint32_t)td_cli_count(cli, "bench.rounds")},
              .explains = td_cli_is_on(cli, "bench.explain")};
    if (td_options_get(cli->options, "model.model_size")->origin != TD_ORIGIN_DEFAULT)
        w.options.preset = td_cli_text(cli, "model.model_size");
    return td_cli_measure_device(cli, measure, &w);
}
