/* `tandem cut`: long recordings and their text to a dataset (tools/cut.h), and choices of its page applied to it. Covered
 * by tests/cli/test_cut.py.
 */
#include <stdio.h>

#include "align/align.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/cut.h"

/* ---------------------------------------------------------------- progress */

typedef struct shown {
    td_progress *bar;
    td_cut_phase phase;
    bool is_quiet;
} shown;

static td_status show(void *context, td_cut_phase phase, uint64_t done, uint64_t total)
{
    static const char *const LABELS[] = {[TD_CUT_LISTENING] = "listening",
                                         [TD_CUT_SEARCHING] = "searching",
                                         [TD_CUT_ADAPTING] = "learning the voice",
                                         [TD_CUT_WRITING] = "writing"};
    static const char *const UNITS[] = {[TD_CUT_LISTENING] = "s of sound",
                                        [TD_CUT_SEARCHING] = "s of sound",
                                        [TD_CUT_ADAPTING] = "steps",
                                        [TD_CUT_WRITING] = "rows"};
    shown *s = context;
    if (s->is_quiet) return TD_OK;
    if (s->bar && s->phase != phase) {
        td_progress_destroy(s->bar);
        s->bar = NULL;
    }
    s->phase = phase;
    if (!s->bar) TD_CHECK(td_progress_create(stderr, LABELS[phase], total, 10, &s->bar));
    td_progress_update(s->bar, done, "%s", UNITS[phase]);
    return TD_OK;
}

/* ---------------------------------------------------------------- results */

static int print_json(const td_cli *cli, const td_cut_result *r)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "output", td_cli_text(cli, "output"));
    td_json_put_double(json, "audio_s", r->audio_s);
    td_json_put_double(json, "speech_s", r->speech_s);
    td_json_put_double(json, "kept_s", r->kept_s);
    td_json_put_double(json, "unwritten_s", r->unwritten_s);
    td_json_put_uint(json, "sentences", r->n_sentences);
    td_json_put_uint(json, "sentences_heard", r->n_heard);
    td_json_put_uint(json, "rows", r->n_rows);
    td_json_put_double(json, "median_score", r->median_score);
    td_json_put_bool(json, "adapted", r->is_adapted);
    td_json_put_object(json, "counts");
    for (size_t i = 0; i < TD_CUT_REASON_COUNT; i++)
        td_json_put_uint(json, td_cut_reason_text((td_cut_reason)i), r->counts[i]);
    td_json_end_object(json);
    td_json_put_string(json, "verdict", r->verdict);
    return td_cli_print_json(cli, json, r->verdict[0] ? TD_EXIT_FAILED : TD_EXIT_DONE);
}

static int print(const td_cli *cli, const td_cut_result *r)
{
    char audio[TD_TEXT_FORMAT_BYTES], kept[TD_TEXT_FORMAT_BYTES], unwritten[TD_TEXT_FORMAT_BYTES];
    const char *folder = td_cli_text(cli, "output");
    td_text_format_duration(r->audio_s, audio);
    td_text_format_duration(r->kept_s, kept);
    td_text_format_duration(r->unwritten_s, unwritten);
    td_printf("recordings     %s, %.0f%% of it speech\n", audio, 100 * r->speech_s / r->audio_s);
    td_printf("text           %zu sentences, %zu of them heard\n", r->n_sentences, r->n_heard);
    td_printf("rows           %zu of %zu are kept, %s\n", r->counts[TD_CUT_KEPT], r->n_rows, kept);
    for (size_t i = TD_CUT_KEPT + 1; i < TD_CUT_REASON_COUNT; i++)
        if (r->counts[i])
            td_printf("left out       %zu %s: %s\n", r->counts[i], i == TD_CUT_UNHEARD ? "sentences" : "rows",
                      td_cut_reason_text((td_cut_reason)i));
    td_printf("in no row      %s of speech\n", unwritten);
    if (r->verdict[0]) {
        td_printf("verdict        %s\n", r->verdict);
        return TD_EXIT_FAILED;
    }
    td_printf("dataset        %s\n", folder);
    td_printf("next           open %s/cut.html, or: tandem train --train-data %s\n", folder, folder);
    return TD_EXIT_DONE;
}

/* ---------------------------------------------------------------- the command */

static int apply(const td_cli *cli, const char *choices)
{
    const char *folder = td_cli_text(cli, "output");
    size_t n_kept, n_rows;
    td_json *json;
    if (!folder) {
        (void)TD_FAIL(TD_ERR_CONFIG, "no folder was named; add -o DIR, the one that cut has made");
        return td_cli_fail(cli, NULL);
    }
    if (td_cut_apply(folder, choices, &n_kept, &n_rows) != TD_OK) return td_cli_fail(cli, NULL);
    if (!cli->json) {
        td_printf("rows           %zu of %zu are kept\n", n_kept, n_rows);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_uint(json, "kept", n_kept);
    td_json_put_uint(json, "rows", n_rows);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static td_status read_settings(const td_cli *cli, char aligner[TD_FILE_PATH_BYTES], td_cut_settings *out)
{
    const char *const *recordings = td_options_arguments(cli->options, &out->n_recordings);
    out->recordings = recordings;
    out->text = td_cli_text(cli, "text");
    out->output = td_cli_text(cli, "output");
    out->language = td_cli_text(cli, "data.language");
    out->aligner = td_cli_text(cli, "cut.aligner");
    TD_REFUSE_IF(out->n_recordings == 0, TD_ERR_CONFIG,
                 "no recording was named: tandem cut RECORDING --text FILE -o DIR");
    TD_REFUSE_IF(!out->text, TD_ERR_CONFIG, "no text was named; add --text FILE");
    TD_REFUSE_IF(!out->output, TD_ERR_CONFIG, "no folder for the dataset was named; add -o DIR");
    if (out->aligner) return TD_OK;
    out->aligner = aligner;
    return td_aligner_usual_path(td_cli_text(cli, "data.cache_dir"), aligner, TD_FILE_PATH_BYTES);
}

static td_status run(const td_cli *cli, td_cut_result *result, td_registry **registry)
{
    char aligner[TD_FILE_PATH_BYTES];
    const td_device_info *info;
    td_device *device = NULL;
    td_memory *memory = NULL;
    shown progress = {.is_quiet = td_cli_is_on(cli, "quiet")};
    td_cut_settings settings = {.tell = show, .context = &progress};
    td_status status = TD_OK;
    TD_TRY(read_settings(cli, aligner, &settings));
    TD_TRY(td_settings_open_registry(cli->options, registry));
    TD_TRY(td_cli_find_device(cli, *registry, &info));
    TD_TRY(td_device_open(*registry, info, &device));
    TD_TRY(td_memory_create(device, "data", 0, &memory));
    settings.memory = memory;
    TD_TRY(td_cut_run(&settings, result));
fail:
    td_progress_destroy(progress.bar);
    td_memory_destroy(memory);
    td_device_close(device);
    return status;
}

int td_cmd_cut(td_cli *cli)
{
    const char *choices = td_cli_text(cli, "apply");
    td_cut_result result;
    td_registry *registry = NULL;
    int code;
    if (choices) return apply(cli, choices);
    if (run(cli, &result, &registry) != TD_OK)
        code = td_cli_fail(cli, NULL);
    else
        code = cli->json ? print_json(cli, &result) : print(cli, &result);
    td_registry_close(registry);
    return code;
}
