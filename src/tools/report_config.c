/* The configuration and the checkpoints of a run, for its report. See report.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/safetensors.h"
#include "tools/report_internal.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_CHECKPOINTS = 256, MAX_VALUE_BYTES = 400 };

/* ---------------------------------------------------------------- config.ini
 *
 * As td_options_config() writes it: "key = value ; place", a long one with "; place" on the line before, and
 * "; key is not set". */

/* Spaces at both ends taken off, in place. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

static void put_setting(const td_report_state *state, const char *section, const char *key, const char *value,
                        const char *place)
{
    char name[256];
    td_json *json = state->json;
    const td_option *option = td_option_find(state->table, section, key);
    snprintf(name, sizeof name, "%s.%s", section, key);
    td_json_begin_object(json);
    td_json_put_string(json, "key", name);
    td_json_put_string(json, "value", value);
    td_json_put_string(json, "place", place);
    td_json_put_string(json, "default", option ? option->default_text : NULL);
    td_json_put_string(json, "help", option ? option->help : "of another version");
    td_json_end_object(json);
}

/* "key = value ; place"; without a place, that of the comment before. */
static void put_line(const td_report_state *state, const char *section, char *line, const char *comment)
{
    char *value = strchr(line, '=');
    if (value == NULL) return;
    *value++ = '\0';
    char *place = strstr(value, " ;");
    if (place != NULL) {
        *place = '\0';
        place = trim(place + 2);
    }
    put_setting(state, section, trim(line), trim(value), place ? place : comment);
}

static void put_lines(const td_report_state *state, char *text)
{
    static const char NOT_SET[] = " is not set";
    char section[64] = "";
    const char *comment = "";
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        line = trim(line);
        const size_t length = strlen(line);
        if (line[0] == '[') {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
        } else if (line[0] == ';') {
            comment = trim(line + 1);
            if (length > strlen(NOT_SET) && strcmp(line + length - strlen(NOT_SET), NOT_SET) == 0) {
                line[length - strlen(NOT_SET)] = '\0';
                put_setting(state, section, comment, NULL, "default");
                comment = "";
            }
        } else if (length > 0) {
            put_line(state, section, line, comment);
            comment = "";
        }
    }
}

td_status td_report_put_config(td_report_state *state)
{
    char path[TD_FILE_PATH_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    const td_status status = td_report_path(state, "config.ini", path);
    if (status != TD_OK) return status;
    if (td_file_read(path, MAX_CONFIG_BYTES, &text, &bytes) != TD_OK)
        td_report_note(state, "The configuration is not known: %s", td_error_last()->message);
    td_json_key(state->json, "config");
    td_json_begin_array(state->json);
    if (text != NULL) put_lines(state, text);
    td_json_end_array(state->json);
    free(text);
    return TD_OK;
}

/* ---------------------------------------------------------------- checkpoints */

static void put_metadata(td_report_state *state, const char *name, const char *path)
{
    char value[MAX_VALUE_BYTES];
    td_safetensors *file = NULL;
    td_json_key(state->json, "metadata");
    td_json_begin_object(state->json);
    if (td_safetensors_open(path, &file) != TD_OK) {
        td_report_note(state, "%s cannot be read: %s", name, td_error_last()->message);
    } else {
        for (size_t i = 0; i < td_safetensors_metadata_count(file); ++i) {
            const td_safetensors_pair *pair = td_safetensors_metadata_at(file, i);
            if (strncmp(pair->key, "hash.", 5) == 0) continue;
            snprintf(value, sizeof value, "%s", pair->value);
            td_json_put_string(state->json, pair->key, value);
        }
    }
    td_json_end_object(state->json);
    td_safetensors_close(file);
}

static bool is_checkpoint(const char *name)
{
    static const char SUFFIX[] = ".safetensors";
    const size_t length = strlen(name), suffix = strlen(SUFFIX);
    if (length < suffix || strcmp(name + length - suffix, SUFFIX) != 0) return false;
    return strncmp(name, "checkpoint-", 11) == 0 || strcmp(name, "best.safetensors") == 0;
}

/* By step; best.safetensors, which has none, first. */
static int compare_names(const void *a, const void *b)
{
    const char *left = *(const char *const *)a, *right = *(const char *const *)b;
    const unsigned long long l = strncmp(left, "best", 4) != 0 ? strtoull(left + 11, NULL, 10) : 0;
    const unsigned long long r = strncmp(right, "best", 4) != 0 ? strtoull(right + 11, NULL, 10) : 0;
    return l < r ? -1 : l > r;
}

td_status td_report_put_checkpoints(td_report_state *state)
{
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES];
    td_file_names all;
    const char *names[MAX_CHECKPOINTS];
    size_t count = 0;
    uint64_t bytes;
    TD_TRY(td_file_list(state->run->dir, &all));
    for (size_t i = 0; i < all.count && count < MAX_CHECKPOINTS; ++i)
        if (is_checkpoint(all.at[i])) names[count++] = all.at[i];
    qsort(names, count, sizeof *names, compare_names);
    td_json_key(state->json, "checkpoints");
    td_json_begin_array(state->json);
    for (size_t i = 0; i < count; ++i) {
        TD_TRY(td_report_path(state, names[i], path));
        if (td_file_size(path, &bytes) != TD_OK) {
            td_report_note(state, "%s is left out: %s", names[i], td_error_last()->message);
            continue;
        }
        td_json_begin_object(state->json);
        td_json_put_string(state->json, "name", names[i]);
        td_json_put_uint(state->json, "bytes", bytes);
        /* The others tell the same but for the step. */
        if (i == 0 || i + 1 == count) put_metadata(state, names[i], path);
        td_json_end_object(state->json);
    }
    td_json_end_array(state->json);
    if (count == 0) td_report_note(state, "There is no checkpoint yet.");
fail:
    td_file_names_free(&all);
    return status;
}
