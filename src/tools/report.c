/* The page as a whole, and its curves: metrics.jsonl. See report.h. */
#include "tools/report.h"

#include <cJSON.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "tandem/version.h"
#include "tools/page.h"
#include "tools/report_internal.h"

enum { MAX_METRICS_BYTES = 1 << 30, MAX_NESTING = 8 };

/* pages/report.html, as bytes. */
static const unsigned char PAGE[] = {
#include "page_report.inc"
};

void td_report_note(td_report_state *state, const char *format, ...)
{
    va_list arguments;
    if (state->run->n_notes == TD_REPORT_NOTES) return;
    va_start(arguments, format);
    vsnprintf(state->notes[state->run->n_notes++], TD_REPORT_NOTE_BYTES, format, arguments);
    va_end(arguments);
}

td_status td_report_path(const td_report_state *state, const char *name, char out[TD_FILE_PATH_BYTES])
{
    const int length = snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", state->run->dir, name);
    if (length < TD_FILE_PATH_BYTES) return TD_OK;
    return TD_FAIL(TD_ERR_LIMIT, "the path '%s/%s' is too long; move the run", state->run->dir, name);
}

/* ---------------------------------------------------------------- metrics.jsonl */

static void put_value(td_json *json, const cJSON *value, int nesting)
{
    if (cJSON_IsString(value)) {
        td_json_string(json, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        td_json_double(json, value->valuedouble);
    } else if (cJSON_IsBool(value)) {
        td_json_bool(json, cJSON_IsTrue(value));
    } else if ((cJSON_IsObject(value) || cJSON_IsArray(value)) && nesting < MAX_NESTING) {
        const bool is_object = cJSON_IsObject(value);
        is_object ? td_json_begin_object(json) : td_json_begin_array(json);
        for (const cJSON *item = value->child; item != NULL; item = item->next) {
            if (is_object) td_json_key(json, item->string);
            put_value(json, item, nesting + 1);
        }
        is_object ? td_json_end_object(json) : td_json_end_array(json);
    } else {
        td_json_null(json);
    }
}

/* One event, or NULL if the line is none; free with cJSON_Delete(). */
static cJSON *parse_event(const char *line, size_t bytes)
{
    cJSON *event = cJSON_ParseWithLength(line, bytes);
    if (cJSON_IsString(cJSON_GetObjectItemCaseSensitive(event, "event"))) return event;
    cJSON_Delete(event);
    return NULL;
}

static bool is_step(const cJSON *event)
{
    return strcmp(cJSON_GetObjectItemCaseSensitive(event, "event")->valuestring, "step") == 0;
}

/* The line at *at, and *at past it; false at the end. A last line without its end is told by `is_torn`. */
static bool next_line(const char **at, const char *end, const char **line, size_t *bytes, bool *is_torn)
{
    if (*at == end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *is_torn = stop == NULL;
    *line = *at;
    *bytes = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    return true;
}

static void count_lines(td_report_state *state, const char *text, size_t bytes)
{
    td_report_run *run = state->run;
    const char *line;
    size_t length;
    bool is_torn;
    for (const char *at = text; next_line(&at, text + bytes, &line, &length, &is_torn);) {
        cJSON *event = parse_event(line, length);
        if (event != NULL) {
            const cJSON *step = cJSON_GetObjectItemCaseSensitive(event, "step");
            if (cJSON_IsNumber(step) && step->valuedouble > 0 && step->valuedouble < 1e15)
                run->last_step = (uint64_t)step->valuedouble;
            run->n_lines += 1;
            run->n_steps += is_step(event);
        } else if (is_torn) {
            td_report_note(state,
                           "The last line of metrics.jsonl is cut off: the run is being written, or was "
                           "killed. It is left out.");
        } else {
            run->n_bad_lines += 1;
        }
        cJSON_Delete(event);
    }
    run->points_every = 1 + (run->n_steps > 0 ? (run->n_steps - 1) / TD_REPORT_POINTS : 0);
}

/* Every event that is not a step; of the steps the first, every points_every-th and the last. */
static void put_lines(const td_report_state *state, const char *text, size_t bytes)
{
    const td_report_run *run = state->run;
    const char *line;
    size_t length;
    bool is_torn;
    uint64_t n = 0;
    for (const char *at = text; next_line(&at, text + bytes, &line, &length, &is_torn);) {
        cJSON *event = parse_event(line, length);
        if (event == NULL) continue;
        bool is_shown = true;
        if (is_step(event)) {
            is_shown = n % run->points_every == 0 || n + 1 == run->n_steps;
            ++n;
        }
        if (is_shown) put_value(state->json, event, 0);
        cJSON_Delete(event);
    }
}

td_status td_report_put_events(td_report_state *state)
{
    char path[TD_FILE_PATH_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    td_status status = td_report_path(state, "metrics.jsonl", path);
    if (status != TD_OK) return status;
    if (td_file_read(path, MAX_METRICS_BYTES, &text, &bytes) != TD_OK)
        td_report_note(state, "There are no curves: %s", td_error_last()->message);
    else
        count_lines(state, text, bytes);
    td_json_key(state->json, "events");
    td_json_begin_array(state->json);
    if (text != NULL) put_lines(state, text, bytes);
    td_json_end_array(state->json);
    free(text);
    if (state->run->n_bad_lines > 0)
        td_report_note(state, "%llu lines of metrics.jsonl are no events and are left out.",
                       (unsigned long long)state->run->n_bad_lines);
    if (state->run->points_every > 1)
        td_report_note(state, "Curves show one of each %llu of the %llu logged steps.",
                       (unsigned long long)state->run->points_every, (unsigned long long)state->run->n_steps);
    return TD_OK;
}

/* ---------------------------------------------------------------- the page */

static td_status put_run(td_json *json, const td_report_request *request, td_report_run *run)
{
    td_status status = TD_OK;
    td_report_state *state = NULL;
    TD_TRY(TD_NEW(&state));
    state->json = json;
    state->run = run;
    state->table = request->table;
    td_json_begin_object(json);
    td_json_put_string(json, "dir", run->dir);
    TD_TRY(td_report_put_events(state));
    TD_TRY(td_report_put_config(state));
    TD_TRY(td_report_put_checkpoints(state));
    TD_TRY(td_report_put_samples(state));
    td_json_put_array(json, "notes");
    for (size_t i = 0; i < run->n_notes; ++i)
        td_json_string(json, state->notes[i]);
    td_json_end_array(json);
    td_json_end_object(json);
fail:
    free(state);
    return status;
}

static td_status check_dir(const char *dir)
{
    static const char *const NAMES[] = {"metrics.jsonl", "config.ini"};
    char path[TD_FILE_PATH_BYTES];
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i) {
        const int length = snprintf(path, sizeof path, "%s/%s", dir, NAMES[i]);
        if (length < (int)sizeof path && td_file_exists(path)) return TD_OK;
    }
    return TD_FAIL(TD_ERR_CONFIG,
                   "'%s' is not a run: it has neither metrics.jsonl nor config.ini; name the folder of "
                   "a `tandem train`",
                   dir);
}

static void put_head(td_json *json)
{
    char text[64];
    struct tm parts;
    const time_t now = time(NULL);
    td_json_put_string(json, "made_by", "tandem " TANDEM_VERSION " (" TD_BUILD_ID ")");
    if (gmtime_r(&now, &parts) != NULL && strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) > 0)
        td_json_put_string(json, "made_at", text);
    td_json_put_uint(json, "media_limit_bytes", TD_REPORT_MEDIA_BYTES);
}

td_status td_report_write(const td_report_request *request, td_report_run runs[TD_REPORT_RUNS])
{
    td_status status = TD_OK;
    td_json *json = NULL;
    memset(runs, 0, TD_REPORT_RUNS * sizeof *runs);
    for (size_t i = 0; i < request->n_dirs; ++i)
        TD_TRY(check_dir(request->dirs[i]));
    TD_TRY(td_json_create(NULL, 0, &json));
    td_json_begin_object(json);
    put_head(json);
    td_json_put_array(json, "runs");
    for (size_t i = 0; i < request->n_dirs; ++i) {
        runs[i].dir = request->dirs[i];
        TD_TRY(put_run(json, request, &runs[i]));
    }
    td_json_end_array(json);
    td_json_end_object(json);
    TD_TRY(td_page_write(request->path, PAGE, sizeof PAGE, json));
fail:
    td_json_destroy(json);
    return status;
}
