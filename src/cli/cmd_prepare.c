/* `tandem prepare`: texts, tokens and the facts of the recordings into the cache, and what the data is like.
 * Covered by tests/cli/test_data.py.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/dataset_view.h"
#include "data/loader.h"
#include "data/pair.h"
#include "settings/read.h"

/* Recordings that training would leave out for their length. */
typedef struct too_long {
    double seconds; /* that it takes at most */
    size_t train, val;
} too_long;

static size_t tell_long_rows(const td_cli *cli, const td_dataset *d, double *seconds)
{
    const td_mel_config mel = td_mel_config_default();
    const uint64_t limit = td_cli_count(cli, "data.max_mel_frames");
    size_t n_long = 0;
    uint32_t first = 0;
    *seconds = (double)limit * mel.hop_samples / mel.rate;
    for (uint32_t i = (uint32_t)d->view.n_rows; i-- > 0;) {
        td_sampler_row length;
        if (d->view.rows[i].clip.state != TD_CLIP_GOOD) continue;
        td_loader_lengths(d, &i, 1, &mel, &length);
        if (length.frames <= limit) continue;
        ++n_long;
        first = i;
    }
    if (n_long == 0) return 0;
    char place[TD_FILE_PATH_BYTES + 16];
    td_dataset_place(d, d->view.rows[first].line, place);
    td_log_warn(
        "%zu recordings are longer than %.1f s, and `train` leaves them out; the first is %s: %s; cut "
        "them at pauses, with a row for each piece, or give `train` more --max-mel-frames",
        n_long, *seconds, place, td_dataset_id(d, first));
    return n_long;
}

static int print_json(const td_cli *cli, const td_dataset_pair *pair, const td_summary *summaries,
                      const too_long *left_out, double seconds, size_t workers)
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
    td_json_put_object(json, "too_long");
    td_json_put_double(json, "seconds", left_out->seconds);
    td_json_put_uint(json, "train", left_out->train);
    td_json_put_uint(json, "val", left_out->val);
    td_json_end_object(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static int show(const td_cli *cli, const td_dataset_pair *pair, double seconds, size_t workers)
{
    too_long left_out = {0};
    left_out.train = tell_long_rows(cli, pair->train, &left_out.seconds);
    if (pair->val != NULL) left_out.val = tell_long_rows(cli, pair->val, &left_out.seconds);
    td_summary summaries[2] = {0};
    int code = TD_EXIT_DONE;
    if (td_summary_make(pair->train, &summaries[0]) != TD_OK ||
        (pair->val != NULL && td_summary_make(pair->val, &summaries[1]) != TD_OK)) {
        code = td_cli_fail(cli, NULL);
    } else if (cli->json) {
        code = print_json(cli, pair, summaries, &left_out, seconds, workers);
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
