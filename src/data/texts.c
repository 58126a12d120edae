/* See texts.h. */
#include "data/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/buffer.h"

enum { MAX_DEPTH = 4, MAX_TEXT_BYTES = 1 << 20 };

typedef struct walk {
    const td_source *source;
    const char *ending;
    bool only_one;
    td_file_names found; /* below the source's folder */
    size_t capacity;
} walk;

static bool has_ending(const char *name, const char *ending)
{
    const size_t bytes = strlen(name), n = strlen(ending);
    return bytes > n && strcmp(name + bytes - n, ending) == 0;
}

/* 'd' for a folder, 'f' for a file, 0 for what is neither. */
static char find_kind(const char *dir, const char *name)
{
    char path[TD_FILE_PATH_BYTES];
    struct stat about;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= TD_FILE_PATH_BYTES || stat(path, &about) != 0)
        return 0;
    return S_ISDIR(about.st_mode) ? 'd' : S_ISREG(about.st_mode) ? 'f' : 0;
}

bool td_texts_has_folder(const char *dir, const char *prefix)
{
    td_file_names names;
    bool has = false;
    if (td_file_list(dir, &names) != TD_OK) return false;
    for (size_t i = 0; i < names.count && !has; ++i)
        has = strncmp(names.at[i], prefix, strlen(prefix)) == 0 && find_kind(dir, names.at[i]) == 'd';
    td_file_names_free(&names);
    return has;
}

bool td_texts_is_table(const char *dir, const char *table)
{
    char prefix[TD_FILE_PATH_BYTES];
    const size_t bytes = strcspn(table, "*");
    if (table[bytes] == '\0') return find_kind(dir, table) == 'd';
    snprintf(prefix, sizeof prefix, "%.*s", (int)bytes, table);
    return td_texts_has_folder(dir, prefix);
}

/* ---------------------------------------------------------------- finding */

static td_status keep(walk *w, const char *path)
{
    TD_CHECK(td_alloc_grow((void *)&w->found.at, &w->capacity, w->found.count + 1, sizeof *w->found.at));
    char *copy = strdup(path);
    TD_REFUSE_IF(copy == NULL, TD_ERR_HOST_MEMORY, "no memory left for a list of texts");
    w->found.at[w->found.count++] = copy;
    return TD_OK;
}

/* Goes through `folder` ("" or "train-clean/19"), below the source's. Names with a dot are not folders: so
 * nobody asks the disk about every recording. */
static td_status walk_folder(walk *w, const char *folder, int depth)
{
    td_status status = TD_OK;
    td_file_names names = {0};
    char path[TD_FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", w->source->dir, folder);
    TD_TRY(td_file_list(path, &names));
    for (size_t i = 0; i < names.count && !(w->only_one && w->found.count > 0); ++i) {
        const bool is_text = has_ending(names.at[i], w->ending);
        if (!is_text && (depth == 0 || strchr(names.at[i], '.') != NULL)) continue;
        TD_FAIL_IF(snprintf(path, sizeof path, "%s%s%s", folder, *folder != '\0' ? "/" : "", names.at[i]) >=
                       TD_FILE_PATH_BYTES,
                   TD_ERR_LIMIT, "a path below '%s' is too long; choose a shorter one", w->source->dir);
        const char kind = find_kind(w->source->dir, path);
        if (is_text && kind == 'f') TD_TRY(keep(w, path));
        if (!is_text && kind == 'd') TD_TRY(walk_folder(w, path, depth - 1));
    }
fail:
    td_file_names_free(&names);
    return status;
}

/* All folders that the source's table means. */
static td_status walk_table(walk *w)
{
    td_status status = TD_OK;
    td_file_names names = {0};
    const char *table = w->source->table;
    const size_t bytes = strcspn(table, "*");
    if (strcmp(table, ".") == 0) return walk_folder(w, "", MAX_DEPTH);
    if (table[bytes] == '\0') return walk_folder(w, table, MAX_DEPTH);
    TD_TRY(td_file_list(w->source->dir, &names));
    for (size_t i = 0; i < names.count && !(w->only_one && w->found.count > 0); ++i)
        if (strncmp(names.at[i], table, bytes) == 0 && find_kind(w->source->dir, names.at[i]) == 'd')
            TD_TRY(walk_folder(w, names.at[i], MAX_DEPTH));
fail:
    td_file_names_free(&names);
    return status;
}

bool td_texts_has_any(const td_source *source, const char *ending)
{
    walk w = {.source = source, .ending = ending, .only_one = true};
    (void)walk_table(&w);
    const bool has = w.found.count > 0;
    td_file_names_free(&w.found);
    return has;
}

/* ---------------------------------------------------------------- reading */

/* The id: the file's path in its layout, which recordings have too. */
static const char *skip_table(const td_source *source, const char *file)
{
    const size_t bytes = strlen(source->table);
    const bool is_below = strncmp(file, source->table, bytes) == 0 && file[bytes] == '/';
    return is_below ? file + bytes + 1 : file;
}

static td_status add_speaker(td_buffer *out, const char *id, size_t id_bytes)
{
    size_t name = id_bytes, end;
    while (name > 0 && id[name - 1] != '/')
        --name;
    for (end = name; end < id_bytes && id[end] != '_'; ++end)
        continue;
    if (end < id_bytes) return td_buffer_append(out, id + name, end - name);
    if (name == 0) return TD_OK;
    end = --name;
    while (name > 0 && id[name - 1] != '/')
        --name;
    return td_buffer_append(out, id + name, end - name);
}

/* One line: id, speaker and text with tabs between. */
static td_status add_line(const td_source *source, const char *file, const char *ending, td_buffer *out)
{
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES], *text = NULL;
    size_t bytes;
    const char *id = skip_table(source, file);
    const size_t id_bytes = strlen(id) - strlen(ending);
    TD_FAIL_IF(snprintf(path, sizeof path, "%s/%s", source->dir, file) >= TD_FILE_PATH_BYTES, TD_ERR_LIMIT,
               "the path of '%s' is too long; choose a shorter one", file);
    TD_TRY(td_file_read(path, MAX_TEXT_BYTES, &text, &bytes));
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < bytes; ++i)
        if (strchr("\r\n\t", text[i]) != NULL && text[i] != '\0') text[i] = ' ';
    TD_TRY(td_buffer_append(out, id, id_bytes));
    TD_TRY(td_buffer_append(out, "\t", 1));
    TD_TRY(add_speaker(out, id, id_bytes));
    TD_TRY(td_buffer_append(out, "\t", 1));
    TD_TRY(td_buffer_append(out, text + mark, bytes - mark));
    TD_TRY(td_buffer_append(out, "\n", 1));
fail:
    free(text);
    return status;
}

td_status td_texts_read(td_source *source, td_metadata_settings *form, char **text, size_t *bytes)
{
    td_status status = TD_OK;
    const char *ending = source->layout->text_ending;
    td_buffer lines = {0};
    walk w = {.source = source, .ending = ending};
    TD_FAIL_IF(form->columns != NULL, TD_ERR_CONFIG,
               "data.columns is of tables, and layout %s has a file for each text; leave it out",
               source->layout->name);
    TD_TRY(walk_table(&w));
    for (size_t i = 0; i < w.found.count; ++i)
        TD_TRY(add_line(source, w.found.at[i], ending, &lines));
    TD_TRY(td_buffer_append(&lines, "", 0));
    form->columns = "id|speaker|text";
    form->separator = '\t';
    form->has_no_header = true;
    *text = lines.data;
    *bytes = lines.size;
    source->files = w.found;
    return TD_OK;
fail:
    td_buffer_free(&lines);
    td_file_names_free(&w.found);
    return status;
}
