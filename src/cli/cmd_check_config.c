/* `tandem check-config FILE`: reads a configuration as `train` would, lets tools/check_config.h judge it, and
 * shows each finding with its key and line. --fix writes a corrected copy beside the file, if there is
 * something that it can correct. Covered by tests/cli/test_check_config.py and test_findings_guards.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/wrap.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/check_config.h"

enum { MAX_FILE_BYTES = 1 << 20 };

typedef struct check {
    td_cli *cli;
    const char *path;
    char *text; /* of the file, ended by a zero; owned */
    size_t bytes;
    td_registry *registry, *data_registry; /* owned; the second for --simulate-data-device */
    td_config_report report;
    td_config_request request;
    td_train_settings settings;
    char cache_dir[TD_FILE_PATH_BYTES];
} check;

/* ---------------------------------------------------------------- lines */

/* The line of "path:12", else 0. */
static size_t line_of_place(const check *c, const char *place)
{
    const size_t n = strlen(c->path);
    if (!place || strncmp(place, c->path, n) != 0 || place[n] != ':') return 0;
    return strtoul(place + n + 1, NULL, 10);
}

/* Copies line `number` (from 1) without its end. False past the last. */
static bool get_line(const check *c, size_t number, char *out, size_t capacity)
{
    const char *at = c->text;
    for (size_t i = 1; i < number && at; ++i) {
        at = strchr(at, '\n');
        if (at) ++at;
    }
    if (!at || *at == '\0') return false;
    (void)snprintf(out, capacity, "%.*s", (int)strcspn(at, "\r\n"), at);
    return true;
}

/* "section.key" of a line, as far as it has them. */
static void name_line(const check *c, size_t number, char *out, size_t capacity)
{
    char line[512], section[128] = "";
    for (size_t i = 1; i <= number && get_line(c, i, line, sizeof line); ++i) {
        const char *at = line + strspn(line, " \t");
        if (*at == '[') (void)snprintf(section, sizeof section, "%.*s", (int)strcspn(at + 1, "]"), at + 1);
        if (i < number) continue;
        size_t n = *at == '[' ? 0 : strcspn(at, "=:");
        while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
            --n;
        (void)snprintf(out, capacity, "%s%s%.*s", section, n > 0 ? "." : "", (int)n, at);
    }
}

static size_t line_of(const check *c, const td_config_finding *finding)
{
    char name[192];
    const td_option_value *value = td_options_get(c->cli->options, finding->key);
    if (value && line_of_place(c, value->place) > 0) return line_of_place(c, value->place);
    size_t n_mistakes; /* a line that was not taken in: its mistake knows */
    const td_option_mistake *mistakes = td_options_mistakes(c->cli->options, &n_mistakes);
    for (size_t i = 0; i < n_mistakes; ++i) {
        const size_t line = line_of_place(c, mistakes[i].place);
        name[0] = '\0';
        name_line(c, line, name, sizeof name);
        if (strncmp(name, finding->key, sizeof finding->key - 1) == 0) return line;
    }
    return 0;
}

/* ---------------------------------------------------------------- reading */

static td_status read_config(check *c)
{
    size_t before, after;
    char name[64];
    if (td_file_read(c->path, MAX_FILE_BYTES, &c->text, &c->bytes) != TD_OK)
        return TD_FAIL(TD_ERR_CONFIG, "%s", td_error_last()->message);
    (void)td_options_mistakes(c->cli->options, &before);
    TD_CHECK(td_options_read_text(c->cli->options, c->path, c->text, c->bytes));
    const td_option_mistake *mistakes = td_options_mistakes(c->cli->options, &after);
    for (size_t i = before; i < after; ++i) {
        name[0] = '\0';
        name_line(c, line_of_place(c, mistakes[i].place), name, sizeof name);
        TD_CHECK(td_config_report_add(&c->report, true, name, "", "%s", mistakes[i].message));
    }
    return TD_OK;
}

/* Another device that could take a role. */
static const char *suggest_device(const check *c, const td_device_info *taken)
{
    const td_device_info *best = NULL;
    for (size_t i = 0; i < td_registry_count(c->registry); ++i) {
        const td_device_info *info = td_registry_info(c->registry, i);
        if (info->type != TD_DEVICE_SIM && info->usable && info != taken) return info->selector;
    }
    return td_registry_select(c->registry, "any", &best) == TD_OK ? best->selector : "";
}

static td_status blame_roles(check *c, const char *data, const char *model, const char *why)
{
    const td_device_info *found = NULL;
    char message[384];
    (void)snprintf(message, sizeof message, "%.383s", why);
    if (data && td_registry_select(c->registry, data, &found) != TD_OK)
        return td_config_report_add(&c->report, true, "devices.data", suggest_device(c, NULL), "%s", message);
    if (!model)
        return td_config_report_add(&c->report, true, data ? "devices.data" : "devices.model", "", "%s",
                                    message);
    const bool is_known = td_registry_select(c->registry, model, &found) == TD_OK;
    return td_config_report_add(&c->report, true, is_known && data ? "devices.data" : "devices.model",
                                suggest_device(c, is_known ? found : NULL), "%s", message);
}

static td_status find_roles(check *c)
{
    const char *data = td_cli_text(c->cli, "devices.data");
    const char *model = td_cli_text(c->cli, "devices.model");
    const char *stand_in = td_cli_text(c->cli, "simulate-device");
    const char *data_stand_in = td_cli_text(c->cli, "simulate-data-device");
    td_roles roles;
    if (stand_in) {
        TD_CHECK(td_cli_open_stand_in(stand_in, &c->registry, &c->request.model));
        c->request.data = c->request.model;
        if (data_stand_in || data)
            TD_CHECK(td_cli_open_stand_in(data_stand_in ? data_stand_in : stand_in, &c->data_registry,
                                          &c->request.data));
        return TD_OK;
    }
    TD_CHECK(td_settings_open_registry(c->cli->options, &c->registry));
    if (td_settings_resolve_roles(c->cli->options, c->registry, &roles) != TD_OK)
        return blame_roles(c, data, model, td_error_last()->message);
    c->request.data = roles.data;
    c->request.model = roles.model;
    return TD_OK;
}

/* The settings that `train` would get. False: not even those, and a finding says why. */
static td_status read_settings(check *c, bool *is_read)
{
    static const td_device_info NONE = {0};
    char key[64] = "";
    const td_device_info *device = c->request.model ? c->request.model : &NONE;
    c->request.has_data = td_cli_text(c->cli, "data.train_data") != NULL;
    if (!c->request.has_data)
        TD_CHECK(td_config_report_add(&c->report, true, "data.train_data", "",
                                      "no dataset is named; put the folder that has metadata.csv and wavs/"));
    *is_read = td_settings_plan(c->cli->options, device, c->cache_dir, &c->settings) == TD_OK;
    if (*is_read) return TD_OK;
    const char *message = td_error_last()->message, *at = strstr(message, ": model.");
    if (at) at += 2;
    if (at) (void)snprintf(key, sizeof key, "%.*s", (int)strspn(at, "abcdefghijklmnopqrstuvwxyz_."), at);
    return td_config_report_add(&c->report, true, key, "", "%s", message);
}

static td_status judge(check *c)
{
    bool is_read;
    TD_CHECK(read_config(c));
    TD_CHECK(find_roles(c));
    TD_CHECK(read_settings(c, &is_read));
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c->request.settings = &c->settings;
    c->request.cores = cores > 0 ? (uint32_t)cores : 1;
    if (is_read) TD_CHECK(td_check_config(&c->request, &c->report));
    return TD_OK;
}

/* ---------------------------------------------------------------- the corrected copy */

/* "dir/run.ini" to "dir/run.fixed.ini". */
static void name_copy(const char *path, char out[TD_FILE_PATH_BYTES])
{
    const char *dot = strrchr(path, '.');
    const size_t n = dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
    (void)snprintf(out, TD_FILE_PATH_BYTES, "%.*s.fixed%s", (int)n, path, path + n);
}

/* The error on a line; warnings are the user's to weigh. */
static const td_config_finding *find_on_line(const check *c, size_t line)
{
    for (size_t i = 0; i < c->report.count; ++i)
        if (c->report.findings[i].is_error && line_of(c, &c->report.findings[i]) == line)
            return &c->report.findings[i];
    return NULL;
}

/* Whether a copy would differ: an error has a line to change, or a value to add. */
static bool can_correct(const check *c)
{
    for (size_t i = 0; i < c->report.count; ++i) {
        const td_config_finding *finding = &c->report.findings[i];
        if (finding->is_error &&
            (line_of(c, finding) > 0 || (finding->suggest[0] && strchr(finding->key, '.'))))
            return true;
    }
    return false;
}

/* A line as it should be: with the value to put, or behind a comment sign where it cannot stay. */
static td_status write_line(const check *c, td_file_writer *file, size_t number, const char *line)
{
    char changed[1024];
    const td_config_finding *finding = find_on_line(c, number);
    const char *key = finding ? strrchr(finding->key, '.') : NULL;
    if (finding && finding->suggest[0] && key)
        (void)snprintf(changed, sizeof changed, "%s = %s\n", key + 1, finding->suggest);
    else
        (void)snprintf(changed, sizeof changed, "%s%s\n", finding && !finding->suggest[0] ? "; " : "", line);
    return td_file_writer_write(file, changed, strlen(changed));
}

static td_status write_copy(const check *c, char path[TD_FILE_PATH_BYTES])
{
    td_file_writer *file = NULL;
    char line[768];
    td_status status = TD_OK;
    name_copy(c->path, path);
    TD_TRY(td_file_writer_open(path, &file));
    for (size_t i = 1; get_line(c, i, line, sizeof line); ++i)
        TD_TRY(write_line(c, file, i, line));
    for (size_t i = 0; i < c->report.count; ++i) {
        const td_config_finding *finding = &c->report.findings[i];
        const char *dot = strchr(finding->key, '.');
        if (!finding->is_error || !finding->suggest[0] || !dot || line_of(c, finding) > 0) continue;
        (void)snprintf(line, sizeof line, "\n[%.*s]\n%s = %s\n", (int)(dot - finding->key), finding->key,
                       dot + 1, finding->suggest);
        TD_TRY(td_file_writer_write(file, line, strlen(line)));
    }
    TD_TRY(td_file_writer_commit(file));
fail:
    td_file_writer_close(file);
    return status;
}

/* ---------------------------------------------------------------- showing */

static void put_findings(const check *c, td_json *json, const char *name, bool is_error)
{
    td_json_put_array(json, name);
    for (size_t i = 0; i < c->report.count; ++i) {
        const td_config_finding *finding = &c->report.findings[i];
        const size_t line = line_of(c, finding);
        if (finding->is_error != is_error) continue;
        td_json_begin_object(json);
        td_json_put_string(json, "key", finding->key);
        td_json_key(json, "line");
        if (line > 0)
            td_json_uint(json, line);
        else
            td_json_null(json);
        td_json_put_string(json, "message", finding->message);
        td_json_put_string(json, "suggest", finding->suggest[0] ? finding->suggest : NULL);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static int print_json(const check *c, const char *copy, int code)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(c->cli, NULL);
    td_json_put_string(json, "file", c->path);
    put_findings(c, json, "errors", true);
    put_findings(c, json, "warnings", false);
    td_json_put_object(json, "memory");
    td_json_put_uint(json, "model_bytes", c->report.need_bytes);
    td_json_put_uint(json, "limit_bytes", c->report.limit_bytes);
    td_json_put_uint(json, "largest_batch", c->report.largest_batch);
    td_json_end_object(json);
    td_json_put_string(json, "fixed", copy[0] ? copy : NULL);
    return td_cli_print_json(c->cli, json, code);
}

static void print_finding(const check *c, const td_config_finding *finding)
{
    const size_t line = line_of(c, finding);
    char text[640];
    td_cli_print_colored(c->cli, finding->is_error ? TD_COLOR_RED : TD_COLOR_YELLOW,
                         finding->is_error ? "error" : "warning", 9);
    if (line > 0)
        (void)snprintf(text, sizeof text, "%s:%zu: %s: %s", c->path, line, finding->key, finding->message);
    else
        (void)snprintf(text, sizeof text, "%s: %s", finding->key, finding->message);
    td_wrap_write(stdout, text, 9, 9, c->cli->columns);
    if (finding->suggest[0]) td_printf("         put %s = %s\n", finding->key, finding->suggest);
}

static void print_report(const check *c, const char *copy)
{
    const size_t n_errors = td_config_report_errors(&c->report);
    char need[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES];
    for (int errors = 1; errors >= 0; --errors)
        for (size_t i = 0; i < c->report.count; ++i)
            if (c->report.findings[i].is_error == (errors == 1)) print_finding(c, &c->report.findings[i]);
    if (c->report.limit_bytes > 0) {
        td_text_format_bytes(c->report.need_bytes, need);
        td_text_format_bytes(c->report.limit_bytes, room);
        td_printf("memory   the model role needs %s of %s; the largest batch that fits has %u rows\n", need,
                  room, c->report.largest_batch);
    }
    td_printf("%zu errors, %zu warnings\n", n_errors, c->report.count - n_errors);
    if (copy[0])
        td_printf("corrected copy: %s\n", copy);
    else if (td_cli_is_on(c->cli, "fix"))
        td_printf("no corrected copy: %s\n", n_errors > 0 ? "none of the errors can be corrected in the file"
                                                          : "there is nothing to correct");
}

int td_cmd_check_config(td_cli *cli)
{
    size_t n_arguments;
    char copy[TD_FILE_PATH_BYTES] = "";
    check c = {.cli = cli, .path = td_options_arguments(cli->options, &n_arguments)[0]};
    td_status status = TD_OK;
    int code;
    TD_TRY(judge(&c));
    if (td_cli_is_on(cli, "fix") && can_correct(&c)) TD_TRY(write_copy(&c, copy));
    code = td_config_report_errors(&c.report) > 0 ? TD_EXIT_FAILED : TD_EXIT_DONE;
    if (cli->json)
        code = print_json(&c, copy, code);
    else
        print_report(&c, copy);
fail:
    if (status != TD_OK) code = td_cli_fail(cli, NULL);
    td_config_report_clear(&c.report);
    td_registry_close(c.registry);
    td_registry_close(c.data_registry);
    free(c.text);
    return code;
}
