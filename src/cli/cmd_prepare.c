/* `tandem prepare`: texts, tokens and the facts of the recordings into the cache, and what the data is like.
 * Covered by tests/cli/test_data.py.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/dataset_view.h"
#include "data/pair.h"
#include "settings/read.h"

static int print_json(const td_cli *cli, const td_dataset_pair *pair, const td_summary *summaries,
                      double seconds, size_t workers)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_double(json, "seconds", seconds);
    td_json_put_uint(json, "workers", workers);
    td_json_key(json, "train");
    td_cli_put_dataset(json, pair->train, &summaries[0]);
    td_json_key(json, "val");
    if (pair->val != NULL)
        td_cli_put_dataset(json, pair->val, &summaries[1]);
    else
        td_json_null(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static int show(const td_cli *cli, const td_dataset_pair *pair, double seconds, size_t workers)
{
    td_summary summaries[2] = {0};
    int code = TD_EXIT_DONE;
    if (td_summary_make(pair->train, &summaries[0]) != TD_OK ||
        (pair->val != NULL && td_summary_make(pair->val, &summaries[1]) != TD_OK)) {
        code = td_cli_fail(cli, NULL);
    } else if (cli->json) {
        code = print_json(cli, pair, summaries, seconds, workers);
    } else {
        char text[TD_TEXT_FORMAT_BYTES];
        td_text_format_duration(seconds, text);
        td_cli_print_dataset(pair->train, &summaries[0]);
        if (pair->val != NULL) {
            td_printf("\nvalidation\n");
            td_cli_print_dataset(pair->val, &summaries[1]);
        }
        td_printf("ready in       %s with %zu workers\n", text, workers);
    }
    td_summary_free(&summaries[0]);
    td_summary_free(&summaries[1]);
    return code;
}

int td_cmd_prepare(td_cli *cli)
{
    td_status status = TD_OK;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_dataset_settings settings;
    td_dataset_pair pair = {0};
    td_cli_progress progress = {0};
    td_pool *pool = NULL;
    int code = TD_EXIT_DONE;
    TD_TRY(td_settings_dataset(cli->options, cache_dir, &settings));
    settings.dir = td_cli_text(cli, "data.train_data");
    TD_FAIL_IF(settings.dir == NULL, TD_ERR_CONFIG, "no dataset was named; add --train-data DIR");
    if (!td_cli_is_on(cli, "quiet")) {
        settings.report = td_cli_show_progress;
        settings.report_context = &progress;
    }
    TD_TRY(td_settings_open_pool(cli->options, &pool));
    const uint64_t start = td_clock_ns();
    status = td_dataset_pair_open(&settings, td_cli_text(cli, "data.val_data"), pool, &pair);
    const double seconds = (double)(td_clock_ns() - start) * 1e-9;
    td_cli_end_progress(&progress);
    if (status == TD_OK) code = show(cli, &pair, seconds, td_pool_threads(pool));
fail:
    if (status != TD_OK) code = td_cli_fail(cli, NULL);
    td_dataset_pair_close(&pair);
    td_pool_destroy(pool);
    return code;
}
