/* See run_dir.h. */
#include "train/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

#define PREFIX "checkpoint-"
#define SUFFIX ".safetensors"

enum { MAX_LATEST_BYTES = 256 };

struct td_run_dir {
    char dir[TD_FILE_PATH_BYTES];
    int lock; /* -1: not held */
};

/* ---------------------------------------------------------------- the folder */

td_status td_run_dir_path(const td_run_dir *run, const char *name, char out[TD_FILE_PATH_BYTES])
{
    if (snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", run->dir, name) >= TD_FILE_PATH_BYTES)
        return TD_FAIL(TD_ERR_CONFIG, "'%s/%s' is too long a path; choose another training.checkpoint_dir",
                       run->dir, name);
    return TD_OK;
}

td_status td_run_dir_checkpoint(const td_run_dir *run, uint64_t step, char out[TD_FILE_PATH_BYTES])
{
    char name[64];
    snprintf(name, sizeof name, PREFIX "%" PRIu64 SUFFIX, step);
    return td_run_dir_path(run, name, out);
}

bool td_run_dir_take_wish(const td_run_dir *run, const char *wish)
{
    char path[TD_FILE_PATH_BYTES];
    return td_run_dir_path(run, wish, path) == TD_OK && unlink(path) == 0;
}

const char *td_run_dir_name(const td_run_dir *run)
{
    return run->dir;
}

static td_status take_lock(td_run_dir *run)
{
    char path[TD_FILE_PATH_BYTES], who[32] = "";
    TD_CHECK(td_run_dir_path(run, "lock", path));
    run->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    TD_REFUSE_IF(run->lock < 0, TD_ERR_IO, "cannot write '%s': %s; choose another training.checkpoint_dir",
                 path, strerror(errno));
    if (flock(run->lock, LOCK_EX | LOCK_NB) != 0) {
        TD_REFUSE_IF(errno != EWOULDBLOCK, TD_ERR_IO,
                     "cannot lock '%s': %s; choose another training.checkpoint_dir", path, strerror(errno));
        const ssize_t bytes = read(run->lock, who, sizeof who - 1);
        who[bytes > 0 ? strcspn(who, "\n") : 0] = '\0';
        TD_REFUSE_IF(true, TD_ERR_CONFIG,
                     "another trainer (process %s) works in '%s'; wait for it or choose another "
                     "training.checkpoint_dir",
                     who[0] != '\0' ? who : "unknown", run->dir);
    }
    snprintf(who, sizeof who, "%ld\n", (long)getpid());
    if (ftruncate(run->lock, 0) != 0 || write(run->lock, who, strlen(who)) < 0)
        td_log_warn("'%s' cannot be written: %s", path, strerror(errno));
    return TD_OK;
}

/* Temporary files of writers that were killed: no process but this one may write here now. */
static void remove_leftovers(const td_run_dir *run)
{
    char path[TD_FILE_PATH_BYTES];
    td_file_names names;
    if (td_file_list(run->dir, &names) != TD_OK) return;
    for (size_t i = 0; i < names.count; ++i) {
        if (strstr(names.at[i], ".tmp-") == NULL) continue;
        if (td_run_dir_path(run, names.at[i], path) == TD_OK) unlink(path);
    }
    td_file_names_free(&names);
}

static td_status name_dir(const char *dir, td_run_dir **out)
{
    TD_CHECK(TD_NEW(out));
    (*out)->lock = -1;
    TD_REFUSE_IF(snprintf((*out)->dir, sizeof(*out)->dir, "%s", dir) >= (int)sizeof(*out)->dir, TD_ERR_CONFIG,
                 "training.checkpoint_dir is too long a path");
    return TD_OK;
}

td_status td_run_dir_look(const char *dir, td_run_dir **out)
{
    td_status status = TD_OK;
    td_run_dir *run = NULL;
    *out = NULL;
    TD_TRY(name_dir(dir, &run));
    TD_FAIL_IF(!td_file_exists(dir), TD_ERR_CONFIG,
               "'%s' is not here; choose a training.checkpoint_dir that all computers share", dir);
    *out = run;
    return TD_OK;
fail:
    td_run_dir_close(run);
    return status;
}

td_status td_run_dir_open(const char *dir, td_run_dir **out)
{
    td_status status = TD_OK;
    td_run_dir *run = NULL;
    *out = NULL;
    TD_TRY(name_dir(dir, &run));
    TD_TRY(td_file_make_dirs(dir));
    TD_TRY(take_lock(run));
    remove_leftovers(run);
    *out = run;
    return TD_OK;
fail:
    td_run_dir_close(run);
    return status;
}

void td_run_dir_close(td_run_dir *run)
{
    if (run == NULL) return;
    if (run->lock >= 0) close(run->lock);
    free(run);
}

/* ---------------------------------------------------------------- checkpoints */

static bool parse_name(const char *name, uint64_t *step)
{
    char digits[32];
    const size_t bytes = strlen(name), ends = strlen(PREFIX) + strlen(SUFFIX);
    if (bytes <= ends || bytes - ends >= sizeof digits) return false;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    if (strcmp(name + bytes - strlen(SUFFIX), SUFFIX) != 0) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)(bytes - ends), name + strlen(PREFIX));
    return td_text_parse_u64(digits, step) == TD_OK;
}

static bool read_latest(const td_run_dir *run, uint64_t *step)
{
    char path[TD_FILE_PATH_BYTES], *name = NULL;
    size_t bytes;
    if (td_run_dir_path(run, "latest", path) != TD_OK) return false;
    if (td_file_read(path, MAX_LATEST_BYTES, &name, &bytes) != TD_OK) return false;
    name[strcspn(name, "\n")] = '\0';
    const bool found = parse_name(name, step);
    free(name);
    return found;
}

static int compare_falling(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

td_status td_run_dir_list(const td_run_dir *run, uint64_t **out, size_t *count)
{
    td_status status = TD_OK;
    uint64_t *steps = NULL, step;
    size_t n = 0;
    td_file_names names;
    *out = NULL;
    *count = 0;
    TD_TRY(td_file_list(run->dir, &names));
    if (names.count > 0) TD_TRY(TD_NEW_ARRAY(&steps, names.count));
    for (size_t i = 0; i < names.count; ++i)
        if (parse_name(names.at[i], &step)) steps[n++] = step;
    if (n > 1) qsort(steps, n, sizeof *steps, compare_falling);
    if (n > 0 && read_latest(run, &step)) {
        for (size_t i = 0; i < n; ++i) {
            if (steps[i] != step) continue;
            memmove(steps + 1, steps, i * sizeof *steps);
            steps[0] = step;
            break;
        }
    }
    *out = steps;
    *count = n;
    steps = NULL;
fail:
    free(steps);
    td_file_names_free(&names);
    return status;
}

static uint64_t measure_file(const char *path)
{
    uint64_t bytes;
    return td_file_size(path, &bytes) == TD_OK ? bytes : 0;
}

td_status td_run_dir_forecast(const td_run_dir *run, uint64_t bytes, uint64_t count)
{
    td_status status = TD_OK;
    struct statvfs disk;
    char path[TD_FILE_PATH_BYTES], need[TD_TEXT_FORMAT_BYTES], each[TD_TEXT_FORMAT_BYTES],
        room[TD_TEXT_FORMAT_BYTES];
    uint64_t *steps = NULL, free_bytes;
    size_t n_there;
    if (statvfs(run->dir, &disk) != 0) return TD_OK; /* a file system that does not tell */
    free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    TD_TRY(td_run_dir_path(run, "best.safetensors", path));
    free_bytes += measure_file(path);
    TD_TRY(td_run_dir_list(run, &steps, &n_there));
    for (size_t i = 0; i < n_there; ++i) {
        TD_TRY(td_run_dir_checkpoint(run, steps[i], path));
        free_bytes += measure_file(path);
    }
    td_text_format_bytes(count * bytes, need);
    td_text_format_bytes(bytes, each);
    td_text_format_bytes(free_bytes, room);
    TD_FAIL_IF(
        free_bytes < count * bytes, TD_ERR_IO,
        "'%s' has room for %s, but this run needs %s: %" PRIu64
        " checkpoints of %s at once; free space there, lower training.keep_checkpoints, or choose another "
        "training.checkpoint_dir",
        run->dir, room, need, count, each);
fail:
    free(steps);
    return status;
}

td_status td_run_dir_finish(const td_run_dir *run, uint64_t step, size_t keep)
{
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES], name[64];
    uint64_t *steps = NULL;
    size_t count, kept = 0;
    const int bytes = snprintf(name, sizeof name, PREFIX "%" PRIu64 SUFFIX "\n", step);
    TD_TRY(td_run_dir_path(run, "latest", path));
    TD_TRY(td_file_write_atomic(path, name, (size_t)bytes));
    TD_TRY(td_run_dir_list(run, &steps, &count));
    for (size_t i = 0; i < count; ++i) {
        if (steps[i] <= step && kept++ < (keep > 0 ? keep : 1)) continue;
        TD_TRY(td_run_dir_checkpoint(run, steps[i], path));
        if (unlink(path) != 0) td_log_warn("'%s' cannot be removed: %s", path, strerror(errno));
    }
fail:
    free(steps);
    return status;
}
