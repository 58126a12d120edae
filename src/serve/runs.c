/* Training runs for the page: which there are, what a run tells as it goes (metrics.jsonl, as events), its pictures and
 * sounds, and wishes to it. Nothing is asked of the trainer but by files in its folder (docs/formats.md), and of that
 * folder nothing is shown but what is listed here. Runs and files are asked for by a hash of their name, which is
 * looked for among those that lie there: no part of a request becomes part of a path. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "serve/server.h"

#define METRICS "metrics.jsonl"

enum { ID_BYTES = 17, MOST_FILE = 64 << 20, MOST_LINE = 1 << 16, LOOK_MS = 250, BREATH_S = 10 };

static void make_id(const char *name, char out[ID_BYTES])
{
    snprintf(out, ID_BYTES, "%016llx", (unsigned long long)td_hash64(name, strlen(name)));
}

static bool join(const char *folder, const char *name, char out[TD_FILE_PATH_BYTES])
{
    const int n = snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", folder, name);
    return n > 0 && n < TD_FILE_PATH_BYTES;
}

static bool is_run(const char *folder)
{
    char path[TD_FILE_PATH_BYTES];
    return join(folder, METRICS, path) && td_file_exists(path);
}

/* The file of that id in a folder, by looking at all of them. */
static bool find_by_id(const char *folder, const char *id, char out[TD_FILE_PATH_BYTES])
{
    td_file_names names;
    char own[ID_BYTES];
    bool is_found = false;
    if (td_file_list(folder, &names) != TD_OK) return false;
    for (size_t i = 0; i < names.count && !is_found; i++) {
        make_id(names.at[i], own);
        is_found = strcmp(own, id) == 0 && join(folder, names.at[i], out);
    }
    td_file_names_free(&names);
    return is_found;
}

/* Cuts "/runs/ID/rest" up. *rest is borrowed from the call. False: not of that form, or there is no such run; the call
 * is answered so. */
static bool find_run(td_call *call, char folder[TD_FILE_PATH_BYTES], const char **rest)
{
    const td_server *server = call->context;
    const char *dir = server->settings.runs_dir, *id = call->path + strlen("/runs/");
    const size_t n = strcspn(id, "/");
    char wanted[ID_BYTES], own[ID_BYTES];
    snprintf(wanted, sizeof wanted, "%.*s", n < ID_BYTES ? (int)n : 0, id);
    *rest = id + n + (id[n] == '/');
    make_id(".", own);
    if (dir && strcmp(wanted, own) == 0 && is_run(dir)) {
        snprintf(folder, TD_FILE_PATH_BYTES, "%s", dir);
        return true;
    }
    if (dir && find_by_id(dir, wanted, folder) && is_run(folder)) return true;
    td_reply_error(call, 404, NULL, "run_not_found", "there is no such run");
    return false;
}

/* ---------------------------------------------------------------- the list */

/* A trainer that works holds the lock of its folder. */
static bool is_training(const char *folder)
{
    char path[TD_FILE_PATH_BYTES];
    const int file = join(folder, "lock", path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return false;
    const bool is_held = flock(file, LOCK_SH | LOCK_NB) != 0;
    close(file);
    return is_held;
}

static void put_run(td_json *json, const char *name, const char *folder)
{
    char id[ID_BYTES];
    make_id(name, id);
    td_json_begin_object(json);
    td_json_put_string(json, "id", id);
    td_json_put_string(json, "name", strcmp(name, ".") == 0 ? folder : name);
    td_json_put_bool(json, "is_training", is_training(folder));
    td_json_end_object(json);
}

static void put_runs(td_json *json, const char *dir)
{
    td_file_names names;
    char path[TD_FILE_PATH_BYTES];
    if (is_run(dir)) put_run(json, ".", dir);
    if (td_file_list(dir, &names) != TD_OK) return;
    for (size_t i = 0; i < names.count; i++)
        if (join(dir, names.at[i], path) && is_run(path)) put_run(json, names.at[i], path);
    td_file_names_free(&names);
}

static void list_runs(td_call *call)
{
    const td_server *server = call->context;
    td_json *json = NULL;
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_bool(json, "is_offered", server->settings.runs_dir != NULL);
        td_json_put_array(json, "runs");
        if (server->settings.runs_dir) put_runs(json, server->settings.runs_dir);
        td_json_end_array(json);
        td_json_end_object(json);
    }
    td_reply_json(call, 200, json);
}

/* ---------------------------------------------------------------- events */

typedef struct tail {
    FILE *file;
    uint64_t told_ns;
    char line[MOST_LINE];
    size_t used; /* of a line whose end is not written yet */
} tail;

static void close_tail(void *context)
{
    tail *t = context;
    fclose(t->file);
    free(t);
}

/* What has come since: each whole line an event. A breath now and then shows who has left. */
static td_source_state fill_tail(void *context, td_bytes *out)
{
    tail *t = context;
    const size_t before = out->size;
    while (out->size - before < 65536 && fgets(t->line + t->used, (int)(sizeof t->line - t->used), t->file)) {
        t->used += strlen(t->line + t->used);
        if (t->line[t->used - 1] != '\n') {
            if (t->used + 1 == sizeof t->line) return TD_SOURCE_FAILED;
            continue;
        }
        td_bytes_add(out, "data: ", 6);
        td_bytes_add(out, t->line, t->used);
        td_bytes_add(out, "\n", 1);
        t->used = 0;
    }
    if (out->size > before) {
        t->told_ns = td_clock_ns();
        return TD_SOURCE_MORE;
    }
    clearerr(t->file);
    if (td_clock_ns() - t->told_ns > UINT64_C(1000000000) * BREATH_S) {
        td_bytes_print(out, ": still here\n\n");
        t->told_ns = td_clock_ns();
    } else {
        td_clock_sleep_until(td_clock_ns() + UINT64_C(1000000) * LOOK_MS);
    }
    return TD_SOURCE_MORE;
}

static void follow(td_call *call, const char *folder)
{
    char path[TD_FILE_PATH_BYTES];
    tail *t = NULL;
    FILE *file = join(folder, METRICS, path) ? fopen(path, "re") : NULL;
    if (!file || TD_NEW(&t) != TD_OK) {
        if (file) fclose(file);
        td_reply_error(call, 500, NULL, "not_readable", "the run's figures cannot be read");
        return;
    }
    t->file = file;
    t->told_ns = td_clock_ns();
    td_reply_source(call, "text/event-stream",
                    &(td_source){.fill = fill_tail, .close = close_tail, .context = t, .is_endless = true});
}

/* ---------------------------------------------------------------- pictures and sounds */

static const char *find_type(const char *name)
{
    static const char *const TYPES[][2] = {
        {".png", "image/png"}, {".wav", "audio/wav"}, {".txt", "text/plain; charset=utf-8"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcmp(dot, TYPES[i][0]) == 0) return TYPES[i][1];
    return NULL;
}

static void list_samples(td_call *call, const char *folder)
{
    td_file_names names = {0};
    char id[ID_BYTES];
    td_json *json = NULL;
    if (td_file_list(folder, &names) != TD_OK) names = (td_file_names){0}; /* none were made yet */
    if (td_json_create(NULL, 0, &json) == TD_OK) {
        td_json_begin_object(json);
        td_json_put_array(json, "files");
        for (size_t i = 0; i < names.count; i++) {
            if (!find_type(names.at[i])) continue;
            make_id(names.at[i], id);
            td_json_begin_object(json);
            td_json_put_string(json, "id", id);
            td_json_put_string(json, "name", names.at[i]);
            td_json_end_object(json);
        }
        td_json_end_array(json);
        td_json_end_object(json);
    }
    td_file_names_free(&names);
    td_reply_json(call, 200, json);
}

static void show_sample(td_call *call, const char *folder, const char *id)
{
    char path[TD_FILE_PATH_BYTES], *data = NULL;
    size_t bytes;
    const char *type = find_by_id(folder, id, path) ? find_type(path) : NULL;
    if (type && td_file_read(path, MOST_FILE, &data, &bytes) == TD_OK)
        td_reply_bytes(call, 200, type, data, bytes);
    else
        td_reply_error(call, 404, NULL, "sample_not_found", "there is no such sample");
    free(data);
}

static void show_run(td_call *call)
{
    char folder[TD_FILE_PATH_BYTES], samples[TD_FILE_PATH_BYTES];
    const char *rest;
    if (!find_run(call, folder, &rest)) return;
    if (strcmp(rest, "events") == 0)
        follow(call, folder);
    else if (strcmp(rest, "samples") == 0 && join(folder, "samples", samples))
        list_samples(call, samples);
    else if (strncmp(rest, "samples/", 8) == 0 && join(folder, "samples", samples))
        show_sample(call, samples, rest + 8);
    else
        td_reply_error(call, 404, NULL, "unknown_path", "a run has events and samples");
}

/* ---------------------------------------------------------------- wishes */

static void wish(td_call *call)
{
    static const char OK[] = "{\"status\":\"ok\"}";
    static const char *const WISHES[] = {"stop", "sample"};
    char folder[TD_FILE_PATH_BYTES], path[TD_FILE_PATH_BYTES];
    const char *rest, *name = NULL;
    if (!find_run(call, folder, &rest)) return;
    for (size_t i = 0; i < sizeof WISHES / sizeof *WISHES; i++)
        if (strcmp(rest, WISHES[i]) == 0) name = WISHES[i];
    if (!name)
        td_reply_error(call, 404, NULL, "unknown_path", "a run can be asked to stop or to sample");
    else if (!is_training(folder))
        td_reply_error(call, 409, NULL, "not_training", "nobody trains this run at the moment");
    else if (!join(folder, name, path) || td_file_write_atomic(path, "", 0) != TD_OK)
        td_reply_error(call, 500, NULL, "not_writable", "the run's folder cannot be written to");
    else
        td_reply_bytes(call, 202, "application/json", OK, strlen(OK));
}

const td_route td_runs_routes[] = {
    {"GET", "/runs", list_runs, .is_open = false},
    {"GET", "/runs/*", show_run, .is_open = false},
    {"POST", "/runs/*", wish, .is_open = false},
    {0},
};
