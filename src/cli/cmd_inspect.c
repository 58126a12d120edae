/* `tandem inspect`: what is in a dataset, a cache file or a checkpoint. Covered by tests/cli/test_data.py and
 * test_dataset_check.py.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "align/align.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/dataset_view.h"
#include "cli/inspect_checkpoint.h"
#include "settings/read.h"

/* ---------------------------------------------------------------- a dataset */

/* What was made of the findings, where --html and --fix ask for it. */
typedef struct written {
    const char *page, *table; /* NULL: not asked for */
    td_fixed_table fixed;
} written;

static void print_problems(const td_dataset *dataset)
{
    for (size_t i = 0; i < dataset->problems.count; ++i) {
        char place[TD_FILE_PATH_BYTES + 16];
        td_dataset_place(dataset, dataset->problems.items[i].line, place);
        td_printf("bad row        %s: %s\n", place, dataset->problems.items[i].message);
    }
}

static void print_written(const written *w, const td_dataset *dataset)
{
    if (w->page != NULL) td_printf("page           %s, to be opened in a browser\n", w->page);
    if (w->table == NULL) return;
    td_printf("cleaned        %s: %zu rows kept, %zu left out\n", w->table, w->fixed.n_kept, w->fixed.n_out);
    if (w->fixed.is_elsewhere)
        td_printf("               its recordings are looked for beside it: move it into %s\n", dataset->dir);
}

static void put_written(td_json *json, const written *w)
{
    td_json_put_string(json, "page", w->page);
    td_json_key(json, "fixed");
    if (w->table == NULL) {
        td_json_null(json);
        return;
    }
    td_json_begin_object(json);
    td_json_put_string(json, "output", w->table);
    td_json_put_uint(json, "kept", w->fixed.n_kept);
    td_json_put_uint(json, "left_out", w->fixed.n_out);
    td_json_put_bool(json, "beside_recordings", !w->fixed.is_elsewhere);
    td_json_end_object(json);
}

static int show_dataset(const td_cli *cli, const td_dataset *dataset, const td_dataset_check *check,
                        const written *w)
{
    td_summary summary;
    td_json *json;
    int code = TD_EXIT_DONE;
    if (td_summary_make(dataset, &summary) != TD_OK) return td_cli_fail(cli, NULL);
    if (!cli->json) {
        td_cli_print_dataset(dataset, &summary);
        print_problems(dataset);
        td_cli_print_check(cli, check);
        print_written(w, dataset);
    } else if (td_cli_begin_json(&json) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else {
        td_json_put_string(json, "kind", "dataset");
        td_json_key(json, "dataset");
        td_cli_put_dataset(json, dataset, &summary);
        td_json_key(json, "check");
        td_cli_put_check(json, check);
        put_written(json, w);
        code = td_cli_print_json(cli, json, code);
    }
    td_summary_free(&summary);
    return code;
}

static td_status write_files(const td_dataset_check *check, written *w)
{
    if (w->page != NULL) TD_CHECK(td_dataset_check_write_page(check, w->page));
    if (w->table != NULL) TD_CHECK(td_dataset_check_fix(check, w->table, &w->fixed));
    return TD_OK;
}

/* The aligner that was named or that is where it usually is, with the device that it runs on. */
typedef struct opened_aligner {
    td_dataset_aligner own;
    char path[TD_FILE_PATH_BYTES];
    td_registry *registry;
    td_device *device;
} opened_aligner;

static td_status open_aligner(const td_cli *cli, bool listens, opened_aligner *aligner)
{
    const char *named = td_cli_text(cli, "cut.aligner");
    const td_device_info *info;
    if (!listens || (named != NULL && strcmp(named, "none") == 0)) return TD_OK;
    if (named == NULL) {
        TD_CHECK(
            td_aligner_usual_path(td_cli_text(cli, "data.cache_dir"), aligner->path, sizeof aligner->path));
        if (!td_file_exists(aligner->path)) return TD_OK;
    }
    TD_CHECK(td_settings_open_registry(cli->options, &aligner->registry));
    TD_CHECK(td_cli_find_device(cli, aligner->registry, &info));
    TD_CHECK(td_device_open(aligner->registry, info, &aligner->device));
    TD_CHECK(td_memory_create(aligner->device, "data", 0, &aligner->own.memory));
    aligner->own.path = named != NULL ? named : aligner->path;
    return TD_OK;
}

/* A folder or a table. All bad rows are shown, so none are too many. */
static int inspect_dataset(const td_cli *cli, const char *path)
{
    td_status status = TD_OK;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_dataset_settings settings;
    td_dataset *dataset = NULL;
    td_dataset_check *check = NULL;
    td_pool *pool = NULL;
    td_cli_progress progress = {0};
    opened_aligner aligner = {0};
    written w = {.page = td_cli_text(cli, "inspect.html"), .table = td_cli_text(cli, "inspect.fix")};
    int code = TD_EXIT_DONE;
    TD_TRY(td_settings_dataset(cli->options, cache_dir, &settings));
    settings.dir = path;
    settings.max_bad_fraction = 1;
    if (!td_cli_is_on(cli, "quiet")) {
        settings.report = td_cli_show_progress;
        settings.report_context = &progress;
    }
    TD_TRY(td_settings_open_pool(cli->options, &pool));
    TD_TRY(open_aligner(cli, settings.listen, &aligner));
    status = td_dataset_open(&settings, pool, &dataset);
    if (status == TD_OK) status = td_dataset_check_run(&settings, dataset, &aligner.own, pool, &check);
    td_cli_end_progress(&progress);
    TD_TRY(status);
    TD_TRY(write_files(check, &w));
    code = show_dataset(cli, dataset, check, &w);
fail:
    if (status != TD_OK) code = td_cli_fail(cli, NULL);
    td_dataset_check_free(check);
    td_dataset_close(dataset);
    td_pool_destroy(pool);
    td_memory_destroy(aligner.own.memory);
    td_device_close(aligner.device);
    td_registry_close(aligner.registry);
    return code;
}

/* ---------------------------------------------------------------- a cache file */

static void put_cache(td_json *json, const char *path, const td_block_view *view)
{
    const struct {
        const char *key;
        uint64_t value;
    } sizes[] = {
        {"version", view->header->version},
        {"bytes", view->header->block_bytes},
        {"rows", view->n_rows},
        {"tokens", view->n_tokens},
        {"speakers", view->n_speakers},
        {"bad", view->header->n_bad},
        {"vocab_size", view->header->vocab_size},
    };
    td_json_put_string(json, "kind", "cache");
    td_json_put_string(json, "path", path);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i)
        td_json_put_uint(json, sizes[i].key, sizes[i].value);
    td_json_put_string(json, "symbols", td_block_string(view, view->header->symbols));
}

static void print_cache(const char *path, const td_block_view *view)
{
    char size[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(view->header->block_bytes, size);
    td_printf("cache          %s: a prepared dataset, version %u, whole\n", path, view->header->version);
    td_printf("content        %s: %zu rows, %zu tokens, %zu speakers, %llu bad rows\n", size, view->n_rows,
              view->n_tokens, view->n_speakers, (unsigned long long)view->header->n_bad);
    td_printf("symbols        %u: %s\n", view->header->vocab_size,
              td_block_string(view, view->header->symbols));
    for (size_t i = 0; i < view->n_rows && i < 3; ++i)
        td_printf("row            %s: %s\n", td_block_string(view, view->rows[i].id),
                  td_block_string(view, view->rows[i].text));
}

static int inspect_cache(const td_cli *cli, const char *path)
{
    td_data_block block;
    td_block_view view;
    td_json *json;
    const char *reason;
    int code = TD_EXIT_DONE;
    td_block_map(path, &block, &view, &reason);
    if (reason != NULL) {
        TD_FAIL(TD_ERR_FORMAT,
                "'%s' cannot be shown: %s; a dataset's folder, its metadata, or a cache file of Tandem can",
                path, reason);
        return td_cli_fail(cli, NULL);
    }
    if (!cli->json) {
        print_cache(path, &view);
    } else if (td_cli_begin_json(&json) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else {
        put_cache(json, path, &view);
        code = td_cli_print_json(cli, json, code);
    }
    td_block_release(&block);
    return code;
}

int td_cmd_inspect(td_cli *cli)
{
    struct stat info;
    size_t count;
    const char *path = td_options_arguments(cli->options, &count)[0];
    if (stat(path, &info) != 0) {
        TD_FAIL(TD_ERR_NOT_FOUND, "'%s' is not there; check the path", path);
        return td_cli_fail(cli, NULL);
    }
    const size_t bytes = strlen(path);
    if (!S_ISDIR(info.st_mode) && bytes > 12 && strcmp(path + bytes - 12, ".safetensors") == 0)
        return td_cli_inspect_checkpoint(cli, path);
    if (td_cli_text(cli, "slim") != NULL) {
        TD_FAIL(TD_ERR_CONFIG,
                "--slim copies a checkpoint, and '%s' is not one; name a .safetensors file of a run", path);
        return td_cli_fail(cli, NULL);
    }
    const bool is_table =
        bytes > 4 && (strcmp(path + bytes - 4, ".csv") == 0 || strcmp(path + bytes - 4, ".tsv") == 0 ||
                      strcmp(path + bytes - 4, ".txt") == 0);
    if (S_ISDIR(info.st_mode) || is_table) return inspect_dataset(cli, path);
    return inspect_cache(cli, path);
}
