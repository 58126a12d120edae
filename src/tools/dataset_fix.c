/* A dataset's table without the rows that are better left out. See dataset_check.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/dataset_check.h"

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The table itself, or any other file of the dataset: only what is not there yet, or a table we may replace. */
static td_status check_target(const td_dataset *d, const char *path)
{
    char file[TD_FILE_PATH_BYTES];
    bool is_own = is_same_file(path, d->metadata_path);
    for (size_t i = 0; i < d->view.n_rows && !is_own && td_file_exists(path); ++i) {
        td_source_file(&d->source, d->view.rows[i].line, file);
        is_own = is_same_file(path, file) ||
                 (td_dataset_clip_path(d, i, file) == TD_OK && is_same_file(path, file));
    }
    TD_REFUSE_IF(is_own, TD_ERR_CONFIG,
                 "'%s' is part of the dataset, which is never changed; name another file", path);
    return TD_OK;
}

static void get_folder(const char *path, char out[TD_FILE_PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(out, TD_FILE_PATH_BYTES, ".");
    else
        snprintf(out, TD_FILE_PATH_BYTES, "%.*s", slash > path ? (int)(slash - path) : 1, path);
}

/* ---------------------------------------------------------------- tables */

/* Lines as they are, those before the first row (a header) too if the table was read so. */
static td_status copy_lines(const td_dataset_check *c, td_file_writer *file, td_fixed_table *out)
{
    td_status status = TD_OK;
    char *text = NULL;
    size_t bytes, next = 0;
    uint32_t line = 1;
    bool has_header = !c->table->has_header;
    TD_TRY(td_file_read(c->dataset->metadata_path, TD_METADATA_MAX_BYTES, &text, &bytes));
    for (const char *at = text; at < text + bytes; ++line) {
        const char *stop = memchr(at, '\n', (size_t)(text + bytes - at));
        const size_t length = stop != NULL ? (size_t)(stop - at) + 1 : (size_t)(text + bytes - at);
        while (next < c->n_rows && c->dataset->view.rows[c->rows[next].row].line < line)
            ++next;
        const bool is_row = next < c->n_rows && c->dataset->view.rows[c->rows[next].row].line == line;
        const bool is_blank = strspn(at, "\xef\xbb\xbf \t\r\n") >= length;
        const bool is_kept = is_row ? !c->is_out[next] : !has_header && !is_blank;
        if (!is_row && !is_blank) has_header = true;
        out->n_kept += is_row && is_kept;
        if (is_kept) TD_TRY(td_file_writer_write(file, at, length));
        if (is_kept && stop == NULL) TD_TRY(td_file_writer_write(file, "\n", 1));
        at += length;
    }
fail:
    free(text);
    return status;
}

/* ---------------------------------------------------------------- a file for each text */

static td_status write_rows(const td_dataset_check *c, td_file_writer *file, td_fixed_table *out)
{
    static const char HEADER[] = "audio_file|text|speaker_name\n";
    const td_dataset *d = c->dataset;
    TD_CHECK(td_file_writer_write(file, HEADER, strlen(HEADER)));
    for (size_t i = 0; i < c->n_rows; ++i) {
        char *line;
        const size_t row = c->rows[i].row;
        if (c->is_out[i]) continue;
        const int bytes = asprintf(&line, "%s|%s|%s\n", d->files[row].file, c->rows[i].text,
                                   td_block_string(&d->view, d->view.speakers[d->view.rows[row].speaker]));
        TD_REFUSE_IF(bytes < 0, TD_ERR_HOST_MEMORY, "no memory left for a line");
        const td_status status = td_file_writer_write(file, line, (size_t)bytes);
        free(line);
        TD_CHECK(status);
        ++out->n_kept;
    }
    return TD_OK;
}

td_status td_dataset_check_fix(const td_dataset_check *check, const char *path, td_fixed_table *out)
{
    td_status status = TD_OK;
    td_file_writer *file = NULL;
    char folder[TD_FILE_PATH_BYTES];
    const td_dataset *d = check->dataset;
    *out = (td_fixed_table){0};
    TD_CHECK(check_target(d, path));
    get_folder(path, folder);
    TD_TRY(td_file_writer_open(path, &file));
    if (d->source.layout->text_ending != NULL)
        TD_TRY(write_rows(check, file, out));
    else
        TD_TRY(copy_lines(check, file, out));
    TD_TRY(td_file_writer_commit(file));
    out->n_out = d->view.n_rows + (size_t)d->view.header->n_bad - out->n_kept;
    out->is_elsewhere = !is_same_file(folder, d->dir);
fail:
    td_file_writer_close(file);
    return status;
}
