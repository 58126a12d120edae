/* See source.h. */
#include "data/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "data/texts.h"

enum { HEAD_BYTES = 1 << 16 };

/* ---------------------------------------------------------------- looking */

/* Opening a pipe would wait for a writer. */
static td_status check_table(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode)) return TD_OK; /* reading says why */
    return TD_FAIL(TD_ERR_IO, "%s is %s; a dataset's table is a file with lines id|text", path,
                   S_ISDIR(about.st_mode) ? "a folder" : "a pipe or a device");
}

/* How a table begins, cut at the last end of a line unless it has none. *out: owned; NULL if it cannot be
 * read, which reading says. */
static td_status read_head(const char *path, char **out)
{
    td_status status = check_table(path);
    *out = NULL;
    if (status != TD_OK) return status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(out, HEAD_BYTES + 1));
    size_t bytes = 0;
    for (ssize_t n = 1; n > 0 && bytes<HEAD_BYTES; bytes += n> 0 ? (size_t)n : 0)
        n = read(fd, *out + bytes, HEAD_BYTES - bytes);
    char *end = bytes == HEAD_BYTES ? memrchr(*out, '\n', bytes) : NULL;
    if (end != NULL) *end = '\0';
fail:
    close(fd);
    return status;
}

static td_status set_paths(td_source *s, const char *dir, size_t dir_bytes, const char *table)
{
    free(s->dir);
    free(s->table);
    free(s->path);
    s->dir = strndup(dir, dir_bytes);
    s->table = strdup(table);
    s->path = NULL;
    if (s->dir == NULL || s->table == NULL || asprintf(&s->path, "%s/%s", s->dir, table) < 0)
        return TD_FAIL(TD_ERR_HOST_MEMORY, "no memory left for a path");
    if (strlen(s->path) < TD_FILE_PATH_BYTES) return TD_OK;
    return TD_FAIL(TD_ERR_LIMIT, "the path of the dataset is too long; choose a shorter one");
}

/* ---------------------------------------------------------------- choosing */

/* The folder and, if the path or the request names one, the table. */
static td_status split_path(const td_source_request *request, td_source *s, bool *has_table)
{
    const char *slash = strrchr(request->path, '/');
    const bool is_file = !td_file_is_folder(request->path);
    *has_table = is_file || request->table != NULL;
    if (!is_file)
        return set_paths(s, request->path, strlen(request->path),
                         request->table != NULL ? request->table : "");
    const char *name = request->table != NULL ? request->table : slash != NULL ? slash + 1 : request->path;
    if (slash == NULL) return set_paths(s, ".", 1, name);
    return set_paths(s, request->path, slash > request->path ? (size_t)(slash - request->path) : 1, name);
}

static td_status find_layout(const char *name, const td_layout **out)
{
    char names[256] = "";
    *out = NULL;
    if (name == NULL || strcmp(name, "auto") == 0) return TD_OK;
    for (size_t i = 0; i < td_layout_count(); ++i) {
        const size_t used = strlen(names);
        if (strcmp(td_layout_at(i)->name, name) == 0) {
            *out = td_layout_at(i);
            return TD_OK;
        }
        snprintf(names + used, sizeof names - used, ", %s", td_layout_at(i)->name);
    }
    return TD_FAIL(TD_ERR_CONFIG, "data.layout = '%s': there are auto%s", name, names);
}

static const char *find_eval(const td_layout *layout, const char *table)
{
    for (size_t i = 0; i < TD_LAYOUT_TABLES && layout->tables[i].train != NULL; ++i)
        if (strcmp(layout->tables[i].train, table) == 0) return layout->tables[i].eval;
    return NULL;
}

/* The source has dir and table: takes the layout if it fits. */
static td_status try_layout(td_source *s, const td_layout *layout, bool is_told)
{
    td_status status = TD_OK;
    char *head = NULL;
    const bool is_tree = layout->text_ending != NULL;
    if (is_tree ? !td_texts_is_table(s->dir, s->table) : !td_file_exists(s->path)) return TD_OK;
    if (!is_tree) TD_TRY(read_head(s->path, &head));
    if (is_told || layout->fits(s, head != NULL ? head : "")) s->layout = layout;
fail:
    free(head);
    return status;
}

/* The tables that this layout has in the folder, one after the other. */
static td_status try_tables(td_source *s, const td_layout *layout, bool is_told, bool validates)
{
    td_status status = TD_OK;
    char *dir = strdup(s->dir);
    TD_FAIL_IF(dir == NULL, TD_ERR_HOST_MEMORY, "no memory left for a path");
    for (size_t i = 0; i < TD_LAYOUT_TABLES && s->layout == NULL; ++i) {
        const char *table = validates ? layout->tables[i].eval : layout->tables[i].train;
        if (layout->tables[i].train == NULL) break;
        if (table == NULL) continue;
        TD_TRY(set_paths(s, dir, strlen(dir), table));
        TD_TRY(try_layout(s, layout, is_told));
    }
fail:
    free(dir);
    return status;
}

static td_status choose(const td_source_request *request, const td_layout *told, bool has_table, td_source *s)
{
    const bool passes[] = {true, false};
    for (size_t p = request->validates && !has_table ? 0 : 1; p < 2 && s->layout == NULL; ++p) {
        for (size_t i = 0; i < td_layout_count() && s->layout == NULL; ++i) {
            const td_layout *layout = td_layout_at(i);
            if (told != NULL && layout != told) continue;
            if (has_table)
                TD_CHECK(try_layout(s, layout, told != NULL));
            else
                TD_CHECK(try_tables(s, layout, told != NULL, passes[p]));
        }
    }
    return TD_OK;
}

/* Nothing was found. */
static td_status refuse(const td_source_request *request, const td_layout *told, bool has_table,
                        const td_source *s)
{
    if (has_table && !td_file_exists(s->path))
        return TD_FAIL(TD_ERR_NOT_FOUND, "'%s' has no %s; check the path of the table", s->dir, s->table);
    if (told != NULL)
        return TD_FAIL(TD_ERR_NOT_FOUND, "'%s' has no %s; layout %s is: %s", request->path,
                       told->tables[0].train, told->name, told->shape);
    return TD_FAIL(TD_ERR_NOT_FOUND,
                   "'%s' has no metadata.csv and nothing of another known layout; a dataset is a folder with "
                   "metadata.csv (lines id|text) and wavs/ID.wav; data.layout names the others",
                   request->path);
}

td_status td_source_find(const td_source_request *request, td_source *out)
{
    td_status status = TD_OK;
    const td_layout *told;
    bool has_table = false;
    *out = (td_source){0};
    TD_TRY(find_layout(request->layout, &told));
    TD_FAIL_IF(!td_file_exists(request->path), TD_ERR_NOT_FOUND,
               "the dataset '%s' is not there; check the path", request->path);
    TD_TRY(split_path(request, out, &has_table));
    TD_TRY(choose(request, told, has_table, out));
    if (out->layout == NULL) TD_TRY(refuse(request, told, has_table, out));
    out->is_recognised = told == NULL;
    out->eval = find_eval(out->layout, out->table);
fail:
    if (status != TD_OK) td_source_free(out);
    return status;
}

/* ---------------------------------------------------------------- use */

td_status td_source_read(td_source *source, td_metadata_settings *form, char **text, size_t *bytes)
{
    td_file_names_free(&source->files);
    return source->layout->read(source, form, text, bytes);
}

uint32_t td_source_file(const td_source *source, uint32_t line, char out[TD_FILE_PATH_BYTES])
{
    const bool is_own = line > 0 && line <= source->files.count;
    if (is_own)
        snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", source->dir, source->files.at[line - 1]);
    else
        snprintf(out, TD_FILE_PATH_BYTES, "%s", source->path);
    return is_own ? 1 : line;
}

void td_source_place(const td_source *source, uint32_t line, char out[TD_FILE_PATH_BYTES + 16])
{
    const uint32_t number = td_source_file(source, line, out);
    snprintf(out + strlen(out), 16, ":%u", number);
}

void td_source_free(td_source *source)
{
    free(source->dir);
    free(source->table);
    free(source->path);
    td_file_names_free(&source->files);
    *source = (td_source){0};
}
