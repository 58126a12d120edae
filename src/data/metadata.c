/* Reading metadata (metadata.h). The lines are cut in place: separators and ends of lines become zero bytes. */
#include "data/metadata.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/columns.h"
#include "data/recordings.h"
#include "text/unicode.h"

typedef struct reader {
    td_metadata *table;
    const td_metadata_settings *settings;
    const char *name;
    td_columns columns;
    regex_t pattern;
    bool has_pattern;
    size_t row_capacity;
    const char **speakers; /* of each row */
    size_t speaker_capacity;
    uint32_t *by_id; /* open addressing: row + 1, 0 = free */
    size_t n_slots;  /* a power of two, at least twice the rows */
} reader;

/* ---------------------------------------------------------------- columns */

static td_status set_columns(reader *r, const char *columns)
{
    td_column_name unknown = {0};
    r->columns = td_columns_usual;
    if (columns == NULL) return TD_OK;
    const bool possible = td_columns_read(columns, '|', &r->columns, &unknown);
    if (unknown.text != NULL) {
        return TD_FAIL(TD_ERR_CONFIG,
                       "data.columns = '%s': there is no column '%.*s'; the names are id, text, normalised, "
                       "speaker, language, and - for one to skip",
                       columns, (int)unknown.bytes, unknown.text);
    }
    if (possible) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG,
                   "data.columns = '%s': id and text must be there, each name once, at most %d in all",
                   columns, TD_COLUMNS_MAX);
}

/* A first line of names is not a row. It tells what separates columns, and names them unless the settings
 * did. */
static bool take_header(reader *r, const char *line, uint32_t number)
{
    td_columns found;
    td_column_name unknown = {0};
    char separator;
    if (!td_columns_is_header(line, &separator)) return false;
    r->columns.separator = separator;
    if (r->settings->columns != NULL) return true;
    if (!td_columns_read(line, separator, &found, &unknown)) {
        td_log_warn("%s:%u: the header names no usable set of columns; rows are read as id|text|normalised, "
                    "set data.columns if that is wrong",
                    r->name, number);
        return true;
    }
    if (unknown.text != NULL)
        td_log_info("%s:%u: column '%.*s' is not used", r->name, number, (int)unknown.bytes, unknown.text);
    r->columns = found;
    return true;
}

/* ---------------------------------------------------------------- rows */

/* The id as people write it to the id of the file; NULL with the reason if it cannot be one. */
static char *clean_id(char *id, const char **reason)
{
    if (strncmp(id, "wavs/", 5) == 0) id += 5;
    id[td_recordings_stem(id)] = '\0';
    *reason = NULL;
    if (*id == '\0')
        *reason = "the id is empty";
    else if (strlen(id) > TD_METADATA_MAX_ID_BYTES)
        *reason = "the id is longer than 200 bytes; is a bar missing?";
    else if (*id == '/' || strcmp(id, "..") == 0 || strncmp(id, "../", 3) == 0 || strstr(id, "/../") ||
             (strlen(id) > 3 && strcmp(id + strlen(id) - 3, "/..") == 0))
        *reason = "the id leads out of the folder wavs";
    return *reason == NULL ? id : NULL;
}

/* The first group of the pattern in the id, as a text of its own; NULL if it does not match. */
static td_status match_speaker(const reader *r, const char *id, char **out)
{
    regmatch_t found[2];
    *out = NULL;
    if (regexec(&r->pattern, id, 2, found, 0) != 0 || found[1].rm_so < 0) return TD_OK;
    return td_arena_printf(r->table->arena, out, "%.*s", (int)(found[1].rm_eo - found[1].rm_so),
                           id + found[1].rm_so);
}

/* The slot of the id: of the row that has it, or a free one. */
static uint32_t *find_slot(const reader *r, const char *id)
{
    size_t slot = (size_t)td_hash64(id, strlen(id)) & (r->n_slots - 1);
    while (r->by_id[slot] != 0 && strcmp(r->table->rows[r->by_id[slot] - 1].id, id) != 0)
        slot = (slot + 1) & (r->n_slots - 1);
    return &r->by_id[slot];
}

static td_status make_room(reader *r)
{
    td_metadata *table = r->table;
    TD_CHECK(td_alloc_grow(&table->rows, &r->row_capacity, table->n_rows + 1, sizeof *table->rows));
    TD_CHECK(
        td_alloc_grow((void *)&r->speakers, &r->speaker_capacity, table->n_rows + 1, sizeof *r->speakers));
    if (2 * (table->n_rows + 1) <= r->n_slots) return TD_OK;
    free(r->by_id);
    r->n_slots = r->n_slots > 0 ? 2 * r->n_slots : 64;
    TD_CHECK(TD_NEW_ARRAY(&r->by_id, r->n_slots));
    for (size_t i = 0; i < table->n_rows; ++i)
        *find_slot(r, table->rows[i].id) = (uint32_t)i + 1;
    return TD_OK;
}

static td_status keep_row(reader *r, const td_metadata_row *row, const char *speaker)
{
    td_metadata *table = r->table;
    const td_status status = make_room(r);
    if (status != TD_OK) return status;
    uint32_t *slot = find_slot(r, row->id);
    if (*slot != 0) {
        return td_problems_add(&table->problems, row->line, "the id '%s' is already that of line %u", row->id,
                               table->rows[*slot - 1].line);
    }
    r->speakers[table->n_rows] = speaker;
    table->rows[table->n_rows++] = *row;
    *slot = (uint32_t)table->n_rows;
    return TD_OK;
}

/* A line that has not the cells of its table. */
static td_status add_miscut(reader *r, uint32_t number, size_t n_cells)
{
    const td_columns *c = &r->columns;
    if (c->separator == '|')
        return td_problems_add(&r->table->problems, number,
                               "%zu bar%s where at least %zu belong; write id|text", n_cells - 1,
                               n_cells == 2 ? "" : "s", c->count - 1 - c->has[TD_COLUMN_NORMALISED]);
    if (n_cells < c->count && c->separator == ',')
        return td_problems_add(
            &r->table->problems, number,
            "after column %zu of %zu a double quote does not close, or columns are missing", n_cells,
            c->count);
    return td_problems_add(&r->table->problems, number, "%s columns, where the header has %zu",
                           n_cells < c->count ? "too few" : "too many", c->count);
}

static td_status read_row(reader *r, char *line, uint32_t number)
{
    char none[1] = "";
    char *cells[TD_COLUMN_COUNT] = {[TD_COLUMN_ID] = none, [TD_COLUMN_TEXT] = none};
    const char *reason = NULL;
    td_problems *problems = &r->table->problems;
    size_t n_cells = 0;
    if (!td_columns_cut(&r->columns, line, cells, &n_cells)) return add_miscut(r, number, n_cells);
    char *id = clean_id(cells[TD_COLUMN_ID], &reason);
    if (id == NULL) return td_problems_add(problems, number, "%s", reason);
    const char *normalised = cells[TD_COLUMN_NORMALISED], *text = cells[TD_COLUMN_TEXT];
    td_metadata_row row = {.id = id,
                           .text = normalised != NULL && *normalised != '\0' ? normalised : text,
                           .line = number,
                           .lang = (td_lang)TD_METADATA_NO_LANG};
    if (*row.text == '\0') return td_problems_add(problems, number, "'%s' has no text", id);
    row.text_bytes = (uint32_t)strlen(row.text);
    if (cells[TD_COLUMN_LANGUAGE] != NULL && *cells[TD_COLUMN_LANGUAGE] != '\0' &&
        td_lang_parse(cells[TD_COLUMN_LANGUAGE], &row.lang) != TD_OK)
        return td_problems_add(problems, number, "%s", td_error_last()->message);
    char *speaker = cells[TD_COLUMN_SPEAKER];
    if (r->has_pattern) {
        const td_status status = match_speaker(r, id, &speaker);
        if (status != TD_OK) return status;
        if (speaker == NULL)
            return td_problems_add(problems, number, "data.speaker_pattern does not match the id '%s'", id);
    }
    return keep_row(r, &row, speaker != NULL ? speaker : "");
}

static td_status read_line(reader *r, char *line, size_t bytes, uint32_t number)
{
    static const char BLANKS[] = " \t\r";
    td_problems *problems = &r->table->problems;
    if (bytes > TD_METADATA_MAX_LINE_BYTES) {
        return td_problems_add(problems, number,
                               "the line has %zu bytes, more than the %d allowed; split it, or is the end "
                               "of a line missing?",
                               bytes, TD_METADATA_MAX_LINE_BYTES);
    }
    if (td_unicode_check(line, bytes, NULL) != TD_OK)
        return td_problems_add(problems, number, "%s", td_error_last()->message);
    if (line[strspn(line, BLANKS)] == '\0') return TD_OK;
    if (r->columns.separator != '\t') /* where blanks at the ends are empty cells */
        line = td_columns_strip(line);
    else if (line[strlen(line) - 1] == '\r')
        line[strlen(line) - 1] = '\0';
    if (!r->settings->has_no_header && !r->table->has_header && r->table->n_rows + problems->total == 0 &&
        take_header(r, line, number)) {
        r->table->has_header = true;
        return TD_OK;
    }
    return read_row(r, line, number);
}

static td_status read_lines(reader *r, char *text, size_t bytes)
{
    char *const end = text + bytes;
    uint32_t number = 0;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3;
    while (text < end) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        if (stop == NULL) stop = end;
        *stop = '\0';
        const td_status status = read_line(r, text, (size_t)(stop - text), ++number);
        if (status != TD_OK) return status;
        text = stop + 1;
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- speakers */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The speakers that the settings tell come first, in their order: `out` has room for them. */
static td_status take_known(reader *r, const char **out, size_t *n_out)
{
    const char *at = r->settings->speakers;
    *n_out = 0;
    while (at != NULL && *at != '\0') {
        const size_t bytes = strcspn(at, "\n");
        char *name;
        TD_CHECK(td_arena_printf(r->table->arena, &name, "%.*s", (int)bytes, at));
        out[(*n_out)++] = name;
        at += bytes;
        at += *at == '\n';
    }
    return TD_OK;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; text != NULL && *text != '\0'; ++n) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return n;
}

static int compare_named(const void *a, const void *b)
{
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* Rows get the number of their speaker in table->speakers, of which `sorted` points to each by its name. */
static void number_rows(reader *r, const char ***sorted)
{
    td_metadata *table = r->table;
    for (size_t i = 0; i < table->n_rows; ++i) {
        const char **wanted = &r->speakers[i];
        const char ***found =
            bsearch((void *)&wanted, (void *)sorted, table->n_speakers, sizeof *sorted, compare_named);
        table->rows[i].speaker = (uint32_t)(*found - table->speakers);
    }
}

/* Speakers are numbered in the order of their names, behind those that are known. */
static td_status number_speakers(reader *r)
{
    td_metadata *table = r->table;
    td_status status = TD_OK;
    const char **names = NULL, ***sorted = NULL;
    const size_t room = table->n_rows + count_lines(r->settings->speakers) + 1;
    TD_TRY(td_alloc_zeroed(room, sizeof *names, (void *)&names));
    TD_TRY(td_alloc_zeroed(room, sizeof *sorted, (void *)&sorted));
    TD_TRY(td_alloc_zeroed(room, sizeof *table->speakers, (void *)&table->speakers));
    TD_TRY(take_known(r, table->speakers, &table->n_speakers));
    const size_t n_known = table->n_speakers;
    for (size_t i = 0; i < n_known; ++i)
        sorted[i] = &table->speakers[i];
    if (n_known > 0) qsort((void *)sorted, n_known, sizeof *sorted, compare_named);
    if (table->n_rows > 0) memcpy((void *)names, (void *)r->speakers, table->n_rows * sizeof *names);
    qsort((void *)names, table->n_rows, sizeof *names, compare_texts);
    for (size_t i = 0; i < table->n_rows; ++i) {
        const char **wanted = &names[i];
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0) continue;
        if (n_known > 0 && bsearch((void *)&wanted, (void *)sorted, n_known, sizeof *sorted, compare_named))
            continue;
        table->speakers[table->n_speakers++] = names[i];
    }
    if (table->n_speakers == 0) table->speakers[table->n_speakers++] = "";
    for (size_t i = n_known; i < table->n_speakers; ++i)
        sorted[i] = &table->speakers[i];
    qsort((void *)sorted, table->n_speakers, sizeof *sorted, compare_named);
    number_rows(r, sorted);
fail:
    free((void *)names);
    free((void *)sorted);
    return status;
}

static td_status compile_pattern(reader *r, const char *pattern)
{
    char reason[200];
    if (pattern == NULL) return TD_OK;
    const int code = regcomp(&r->pattern, pattern, REG_EXTENDED);
    r->has_pattern = code == 0;
    if (code != 0) {
        regerror(code, &r->pattern, reason, sizeof reason);
        return TD_FAIL(TD_ERR_CONFIG, "data.speaker_pattern = '%s': %s; write a POSIX extended expression",
                       pattern, reason);
    }
    if (r->pattern.re_nsub > 0) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG,
                   "data.speaker_pattern = '%s' has no group; put the speaker's part in brackets: "
                   "'^([^_]+)_'",
                   pattern);
}

td_status td_metadata_parse(char *text, size_t bytes, const char *name, const td_metadata_settings *settings,
                            td_metadata **out)
{
    td_status status = TD_OK;
    reader r = {.name = name, .settings = settings};
    *out = NULL;
    if ((status = TD_NEW(&r.table)) != TD_OK) {
        free(text);
        return status;
    }
    r.table->bytes = text;
    TD_TRY(td_arena_create(0, &r.table->arena));
    TD_TRY(set_columns(&r, settings->columns));
    if (settings->separator != 0) r.columns.separator = settings->separator;
    TD_TRY(compile_pattern(&r, settings->speaker_pattern));
    TD_TRY(read_lines(&r, text, bytes));
    TD_TRY(number_speakers(&r));
    *out = r.table;
    r.table = NULL;
fail:
    if (r.has_pattern) regfree(&r.pattern);
    free((void *)r.speakers);
    free(r.by_id);
    td_metadata_destroy(r.table);
    return status;
}

void td_metadata_destroy(td_metadata *metadata)
{
    if (metadata == NULL) return;
    td_problems_free(&metadata->problems);
    td_arena_destroy(metadata->arena);
    free((void *)metadata->speakers);
    free(metadata->rows);
    free(metadata->bytes);
    free(metadata);
}
