/* `tandem analyze`: shows what tools/analyze.h found. Covered by tests/cli/test_load.py. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/analyze.h"

enum { MAX_FILES = 1000 };

static const char MEMBERS[] = "mean std min median p95 max cv";

static double rate_of(const td_load_run *run)
{
    return run->epoch_s.median > 0 ? (double)run->n_items / run->epoch_s.median : 0;
}

static void put_audio(td_json *json, const td_load_rig *rig, const td_analysis *a)
{
    td_json_put_object(json, "audio");
    td_json_put_double(json, "files", (double)a->n_files);
    td_stats_put_json(json, "load_ms", &a->decode_ms, MEMBERS);
    td_json_put_array(json, "slowest");
    for (size_t i = 0; i < a->n_slowest; ++i) {
        td_json_begin_object(json);
        td_json_put_string(json, "id", td_dataset_id(rig->data.dataset, a->slowest[i].row));
        td_json_put_uint(json, "line", rig->data.dataset->view.rows[a->slowest[i].row].line);
        td_json_put_double(json, "ms", a->slowest[i].ms);
        td_json_put_double(json, "audio_s", a->slowest[i].audio_s);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    td_json_end_object(json);
}

static void put_batches(td_json *json, double step_ms, const td_analysis *a)
{
    td_json_put_object(json, "mel");
    td_json_put_double(json, "ms_per_batch", a->mel_ms);
    td_json_put_double(json, "realtime_factor", a->mel_ms > 0 ? 1e3 * a->audio_s_per_batch / a->mel_ms : 0);
    td_json_end_object(json);
    td_json_put_object(json, "batches");
    td_json_put_double(json, "samples_per_s", rate_of(&a->free_run));
    td_stats_put_json(json, "interval_ms", &a->free_run.batch_ms, MEMBERS);
    td_json_put_double(json, "step_ms", step_ms);
    td_stats_put_json(json, "wait_ms", &a->paced_run.wait_ms, MEMBERS);
    td_json_end_object(json);
    td_json_put_double(json, "model_idle", a->paced_run.idle);
    td_json_put_object(json, "mel_cache");
    td_json_put_string(json, "kind", td_mel_cache_kind_name(a->cache));
    td_json_put_double(json, "samples_per_s", rate_of(&a->cached_run));
    td_json_end_object(json);
}

static void put_rest(td_json *json, const td_analysis *a)
{
    td_json_put_array(json, "workers_sweep");
    for (size_t i = 0; i < a->n_sweep; ++i) {
        td_json_begin_object(json);
        td_json_put_uint(json, "workers", a->sweep[i].workers);
        td_json_put_double(json, "samples_per_s", a->sweep[i].samples_per_s);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    td_json_put_array(json, "recommendations");
    for (size_t i = 0; i < a->n_advice; ++i) {
        td_json_begin_object(json);
        td_json_put_double(json, "gain", a->advice[i].gain);
        td_json_put_string(json, "option", a->advice[i].option);
        td_json_put_string(json, "reason", a->advice[i].reason);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static void put_result(td_json *json, const td_load_rig *rig, double step_ms, const td_analysis *a)
{
    td_json_put_double(json, "rows", (double)a->n_rows);
    td_json_put_double(json, "workers", (double)a->workers);
    td_json_put_object(json, "text");
    td_json_put_double(json, "cold_s", a->text_cold_s);
    td_json_put_double(json, "cached_s", rig->data.settings.dataset.cache_dir ? a->text_cached_s : NAN);
    td_json_end_object(json);
    put_audio(json, rig, a);
    put_batches(json, step_ms, a);
    put_rest(json, a);
}

static void print_result(const td_device_info *info, const td_load_rig *rig, double step_ms,
                         const td_analysis *a)
{
    td_cli_print_setting(info);
    td_printf("data           %zu rows to train, %zu workers\n", a->n_rows, a->workers);
    td_printf("text           %.3f s cold", a->text_cold_s);
    if (rig->data.settings.dataset.cache_dir != NULL) td_printf(", %.4f s cached", a->text_cached_s);
    td_printf("\naudio          %.2f ms a file, CV %.2f, slowest %.2f ms (%zu files, one thread)\n",
              a->decode_ms.mean, a->decode_ms.cv, a->decode_ms.max, a->n_files);
    for (size_t i = 0; i < a->n_slowest; ++i)
        td_printf("               %.2f ms for %.1f s: %s (line %u)\n", a->slowest[i].ms,
                  a->slowest[i].audio_s, td_dataset_id(rig->data.dataset, a->slowest[i].row),
                  rig->data.dataset->view.rows[a->slowest[i].row].line);
    td_printf("mel            %.1f ms a batch, %.0f times real time\n", a->mel_ms,
              a->mel_ms > 0 ? 1e3 * a->audio_s_per_batch / a->mel_ms : 0);
    td_printf("batches        %.0f samples/s from disk, one every %.1f ms (p95 %.1f)\n",
              rate_of(&a->free_run), a->free_run.batch_ms.mean, a->free_run.batch_ms.p95);
    if (a->cache != TD_MEL_CACHE_NONE)
        td_printf("mel cache      %.0f samples/s (%s)\n", rate_of(&a->cached_run),
                  td_mel_cache_kind_name(a->cache));
    td_printf(
        "waits          %.1f ms a batch (p95 %.1f) with steps of %.0f ms: the model device idles %.0f %%\n",
        a->paced_run.wait_ms.mean, a->paced_run.wait_ms.p95, step_ms, 100 * a->paced_run.idle);
    td_printf("workers       ");
    for (size_t i = 0; i < a->n_sweep; ++i)
        td_printf(" %zu: %.0f/s%s", a->sweep[i].workers, a->sweep[i].samples_per_s,
                  i + 1 < a->n_sweep ? "," : "\n");
    for (size_t i = 0; i < a->n_advice; ++i)
        td_printf("advice         %.1fx: %s%s%s\n", a->advice[i].gain, a->advice[i].option,
                  a->advice[i].option[0] != '\0' ? ": " : "", a->advice[i].reason);
    if (a->n_advice == 0) td_printf("advice         nothing: data keeps up with steps of %.0f ms\n", step_ms);
}

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const td_analyze_options *options = context;
    td_load_rig rig = {0};
    td_analysis analysis;
    td_status status = TD_OK;
    TD_TRY(td_load_rig_open(registry, info, &options->load, &rig));
    TD_TRY(td_analyze_run(&rig, options, &analysis));
    if (json)
        put_result(json, &rig, options->step_ms, &analysis);
    else
        print_result(info, &rig, options->step_ms, &analysis);
fail:
    td_load_rig_close(&rig);
    return status;
}

int td_cmd_analyze(td_cli *cli)
{
    td_analyze_options options = {.max_files = MAX_FILES};
    char cache_dir[TD_FILE_PATH_BYTES];
    if (td_settings_load(cli->options, cache_dir, &options.load) != TD_OK) return td_cli_fail(cli, NULL);
    options.load.workers = (size_t)td_cli_count(cli, "pipeline.num_workers");
    options.step_ms = (double)td_cli_count(cli, "analyze.step_ms");
    options.max_batches = (size_t)td_cli_count(cli, "bench.max_batches");
    return td_cli_measure_device(cli, measure, &options);
}
