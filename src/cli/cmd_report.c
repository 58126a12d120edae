/* `tandem report RUN_DIR [OTHER_RUN_DIR]`: writes the page of tools/report.h and tells where it is. Covered
 * by tests/cli/test_report.py.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "tools/report.h"

static void put_run(td_json *json, const td_report_run *run)
{
    td_json_begin_object(json);
    td_json_put_string(json, "dir", run->dir);
    td_json_put_uint(json, "last_step", run->last_step);
    td_json_put_uint(json, "lines", run->n_lines);
    td_json_put_uint(json, "bad_lines", run->n_bad_lines);
    td_json_put_uint(json, "steps", run->n_steps);
    td_json_put_uint(json, "points_every", run->points_every);
    td_json_put_uint(json, "sample_steps", run->n_sample_steps);
    td_json_put_uint(json, "sample_steps_shown", run->n_sample_steps_shown);
    td_json_put_uint(json, "media_bytes", run->media_bytes);
    td_json_put_uint(json, "notes", run->n_notes);
    td_json_end_object(json);
}

static int print_json(const td_cli *cli, const td_report_request *request, const td_report_run *runs,
                      uint64_t bytes)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "output", request->path);
    td_json_put_uint(json, "bytes", bytes);
    td_json_put_array(json, "runs");
    for (size_t i = 0; i < request->n_dirs; i++)
        put_run(json, &runs[i]);
    td_json_end_array(json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

int td_cmd_report(td_cli *cli)
{
    char path[TD_FILE_PATH_BYTES], size[TD_TEXT_FORMAT_BYTES];
    td_report_run runs[TD_REPORT_RUNS];
    uint64_t bytes;
    td_report_request request = {.table = cli->table, .path = td_cli_text(cli, "output")};
    const char *const *dirs = td_options_arguments(cli->options, &request.n_dirs);
    for (size_t i = 0; i < request.n_dirs; i++)
        request.dirs[i] = dirs[i];
    if (!request.path) {
        if (snprintf(path, sizeof path, "%s/report.html", dirs[0]) >= (int)sizeof path) {
            TD_FAIL(TD_ERR_CONFIG, "the path '%s/report.html' is too long; name another with --output",
                    dirs[0]);
            return td_cli_fail(cli, NULL);
        }
        request.path = path;
    }
    if (td_report_write(&request, runs) != TD_OK) return td_cli_fail(cli, NULL);
    (void)td_file_size(request.path, &bytes); /* 0 if it is gone again */
    if (cli->json) return print_json(cli, &request, runs, bytes);
    td_text_format_bytes(bytes, size);
    td_printf("%s: %s, to be opened in a browser\n", request.path, size);
    return TD_EXIT_DONE;
}
