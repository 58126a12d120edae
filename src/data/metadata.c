/* Reading metadata (metadata.h). The lines are cut in place: bars and ends of lines become zero bytes. */
#include "data/metadata.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/recordings.h"
#include "text/unicode.h"

typedef enum column {
    COLUMN_ID,
    COLUMN_TEXT,
    COLUMN_NORMALISED,
    COLUMN_SPEAKER,
    COLUMN_LANGUAGE,
    COLUMN_SKIPPED,
    COLUMN_COUNT
} column;

enum { MAX_COLUMNS = 16 };

/* The names people give them, in lower case. */
static const struct {
    const char *name;
    column meaning;
} NAMES[] = {
    {"id", COLUMN_ID},
    {"fileid", COLUMN_ID},
    {"file_id", COLUMN_ID},
    {"wav_id", COLUMN_ID},
    {"file", COLUMN_ID},
    {"audio_file", COLUMN_ID},
    {"text", COLUMN_TEXT},
    {"transcription", COLUMN_TEXT},
    {"transcript", COLUMN_TEXT},
    {"sentence", COLUMN_TEXT},
    {"normalised", COLUMN_NORMALISED},
    {"normalized", COLUMN_NORMALISED},
    {"normalised_text", COLUMN_NORMALISED},
    {"normalized_text", COLUMN_NORMALISED},
    {"normalised transcription", COLUMN_NORMALISED},
    {"normalized transcription", COLUMN_NORMALISED},
    {"speaker", COLUMN_SPEAKER},
    {"speaker_name", COLUMN_SPEAKER},
    {"speaker_id", COLUMN_SPEAKER},
    {"language", COLUMN_LANGUAGE},
    {"lang", COLUMN_LANGUAGE},
    {"-", COLUMN_SKIPPED},
};

typedef struct layout {
    column columns[MAX_COLUMNS];
    size_t count;
    bool has[COLUMN_COUNT];
} layout;

static const layout USUAL = {
    .columns = {COLUMN_ID, COLUMN_TEXT, COLUMN_NORMALISED},
    .count = 3,
    .has = {[COLUMN_ID] = true, [COLUMN_TEXT] = true, [COLUMN_NORMALISED] = true},
};

typedef struct reader {
    td_metadata *table;
    const char *name;
    layout layout;
    regex_t pattern;
    bool has_pattern;
    size_t row_capacity;
    const char **speakers; /* of each row */
    size_t speaker_capacity;
    uint32_t *by_id; /* open addressing: row + 1, 0 = free */
    size_t n_slots;  /* a power of two, at least twice the rows */
} reader;

/* ---------------------------------------------------------------- columns */

static column find_meaning(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        if (strlen(NAMES[i].name) == bytes && strncasecmp(NAMES[i].name, name, bytes) == 0)
            return NAMES[i].meaning;
    return COLUMN_COUNT;
}

/* Reads "id|speaker|text". *unknown: the first name that is not known (its length in *unknown_bytes), or
 * NULL; such a column is skipped. False if it cannot be a layout: no id, no text, or a name twice. */
static bool read_layout(const char *line, layout *out, const char **unknown, size_t *unknown_bytes)
{
    *out = (layout){0};
    *unknown = NULL;
    for (const char *at = line;;) {
        const size_t bytes = strcspn(at, "|");
        column meaning = find_meaning(at, bytes);
        if (out->count == MAX_COLUMNS) return false;
        if (meaning == COLUMN_COUNT) {
            if (*unknown == NULL) *unknown = at, *unknown_bytes = bytes;
            meaning = COLUMN_SKIPPED;
        }
        if (meaning != COLUMN_SKIPPED && out->has[meaning]) return false;
        out->has[meaning] = true;
        out->columns[out->count++] = meaning;
        if (at[bytes] == '\0') break;
        at += bytes + 1;
    }
    return out->has[COLUMN_ID] && out->has[COLUMN_TEXT];
}

static td_status set_columns(reader *r, const char *columns)
{
    const char *unknown = NULL;
    size_t bytes = 0;
    r->layout = USUAL;
    if (columns == NULL) return TD_OK;
    const bool possible = read_layout(columns, &r->layout, &unknown, &bytes);
    if (unknown != NULL) {
        return TD_FAIL(TD_ERR_CONFIG,
                       "data.columns = '%s': there is no column '%.*s'; the names are id, text, normalised, "
                       "speaker, language, and - for one to skip",
                       columns, (int)bytes, unknown);
    }
    if (possible) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG,
                   "data.columns = '%s': id and text must be there, each name once, at most %d in all",
                   columns, MAX_COLUMNS);
}

/* A first line whose first column is called as ids are called is not a row. It gives the columns unless the
 * settings did. */
static bool take_header(reader *r, const char *line, uint32_t number, bool columns_given)
{
    layout found;
    const char *unknown = NULL;
    size_t bytes = 0;
    const size_t first = strcspn(line, "|");
    if (line[first] == '\0' || find_meaning(line, first) != COLUMN_ID) return false;
    if (columns_given) return true;
    if (!read_layout(line, &found, &unknown, &bytes)) {
        td_log_warn("%s:%u: the header names no usable set of columns; rows are read as id|text|normalised, "
                    "set data.columns if that is wrong",
                    r->name, number);
        return true;
    }
    if (unknown != NULL)
        td_log_info("%s:%u: column '%.*s' is not used", r->name, number, (int)bytes, unknown);
    r->layout = found;
    return true;
}

/* ---------------------------------------------------------------- rows */

static char *strip(char *text)
{
    text += strspn(text, " \t");
    size_t bytes = strlen(text);
    while (bytes > 0 && strchr(" \t\r", text[bytes - 1]) != NULL)
        text[--bytes] = '\0';
    return text;
}

/* Cuts the line into the cells of the layout; false if it has too few bars. A row may leave out the
 * normalised column. */
static bool cut_line(const layout *l, char *line, char *cells[COLUMN_COUNT], size_t *n_bars)
{
    column columns[MAX_COLUMNS] = {0};
    size_t n = 0, text_at = 0;
    *n_bars = 0;
    for (const char *at = line; (at = strchr(at, '|')) != NULL; ++at)
        ++*n_bars;
    const bool shorter = l->has[COLUMN_NORMALISED] && *n_bars + 2 == l->count;
    for (size_t i = 0; i < l->count; ++i) {
        if (shorter && l->columns[i] == COLUMN_NORMALISED) continue;
        if (l->columns[i] == COLUMN_TEXT) text_at = n;
        columns[n++] = l->columns[i];
    }
    if (*n_bars + 1 < n) return false;
    for (size_t i = 0; i < text_at; ++i) {
        char *bar = strchr(line, '|');
        *bar = '\0';
        cells[columns[i]] = strip(line);
        line = bar + 1;
    }
    for (size_t i = n - 1; i > text_at; --i) {
        char *bar = strrchr(line, '|');
        *bar = '\0';
        cells[columns[i]] = strip(bar + 1);
    }
    cells[COLUMN_TEXT] = strip(line);
    return true;
}

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
    td_status status = TD_OK;
    TD_TRY(td_alloc_grow(&table->rows, &r->row_capacity, table->n_rows + 1, sizeof *table->rows));
    TD_TRY(td_alloc_grow((void *)&r->speakers, &r->speaker_capacity, table->n_rows + 1, sizeof *r->speakers));
    if (2 * (table->n_rows + 1) <= r->n_slots) return TD_OK;
    free(r->by_id);
    r->n_slots = r->n_slots > 0 ? 2 * r->n_slots : 64;
    TD_TRY(TD_NEW_ARRAY(&r->by_id, r->n_slots));
    for (size_t i = 0; i < table->n_rows; ++i)
        *find_slot(r, table->rows[i].id) = (uint32_t)i + 1;
fail:
    return status;
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

static td_status read_row(reader *r, char *line, uint32_t number)
{
    char none[1] = "";
    char *cells[COLUMN_COUNT] = {[COLUMN_ID] = none, [COLUMN_TEXT] = none};
    const char *reason = NULL;
    td_problems *problems = &r->table->problems;
    size_t n_bars = 0;
    if (!cut_line(&r->layout, line, cells, &n_bars)) {
        const size_t n_needed = r->layout.count - 1 - r->layout.has[COLUMN_NORMALISED];
        return td_problems_add(problems, number, "%zu bar%s where at least %zu belong; write id|text", n_bars,
                               n_bars == 1 ? "" : "s", n_needed);
    }
    char *id = clean_id(cells[COLUMN_ID], &reason);
    if (id == NULL) return td_problems_add(problems, number, "%s", reason);
    const char *normalised = cells[COLUMN_NORMALISED], *text = cells[COLUMN_TEXT];
    td_metadata_row row = {.id = id,
                           .text = normalised != NULL && *normalised != '\0' ? normalised : text,
                           .line = number,
                           .lang = (td_lang)TD_METADATA_NO_LANG};
    if (*row.text == '\0') return td_problems_add(problems, number, "'%s' has no text", id);
    row.text_bytes = (uint32_t)strlen(row.text);
    if (cells[COLUMN_LANGUAGE] != NULL && *cells[COLUMN_LANGUAGE] != '\0' &&
        td_lang_parse(cells[COLUMN_LANGUAGE], &row.lang) != TD_OK)
        return td_problems_add(problems, number, "%s", td_error_last()->message);
    char *speaker = cells[COLUMN_SPEAKER];
    if (r->has_pattern) {
        const td_status status = match_speaker(r, id, &speaker);
        if (status != TD_OK) return status;
        if (speaker == NULL)
            return td_problems_add(problems, number, "data.speaker_pattern does not match the id '%s'", id);
    }
    return keep_row(r, &row, speaker != NULL ? speaker : "");
}

static td_status read_line(reader *r, char *line, size_t bytes, uint32_t number, bool columns_given)
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
    line = strip(line);
    if (!r->table->has_header && r->table->n_rows + problems->total == 0 &&
        take_header(r, line, number, columns_given)) {
        r->table->has_header = true;
        return TD_OK;
    }
    return read_row(r, line, number);
}

static td_status read_lines(reader *r, char *text, size_t bytes, bool columns_given)
{
    char *const end = text + bytes;
    uint32_t number = 0;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3;
    while (text < end) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        if (stop == NULL) stop = end;
        *stop = '\0';
        const td_status status = read_line(r, text, (size_t)(stop - text), ++number, columns_given);
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

/* Numbers the speakers in the order of their names. */
static td_status number_speakers(reader *r)
{
    td_metadata *table = r->table;
    td_status status = TD_OK;
    TD_TRY(td_alloc_zeroed(table->n_rows + 1, sizeof *table->speakers, (void *)&table->speakers));
    if (table->n_rows > 0) memcpy(table->speakers, r->speakers, table->n_rows * sizeof *r->speakers);
    qsort(table->speakers, table->n_rows, sizeof *table->speakers, compare_texts);
    for (size_t i = 0; i < table->n_rows; ++i) {
        const size_t last = table->n_speakers;
        if (last == 0 || strcmp(table->speakers[last - 1], table->speakers[i]) != 0)
            table->speakers[table->n_speakers++] = table->speakers[i];
    }
    if (table->n_speakers == 0) table->speakers[table->n_speakers++] = "";
    for (size_t i = 0; i < table->n_rows; ++i) {
        const char **found = bsearch(&r->speakers[i], table->speakers, table->n_speakers,
                                     sizeof *table->speakers, compare_texts);
        table->rows[i].speaker = (uint32_t)(found - table->speakers);
    }
fail:
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
    reader r = {.name = name};
    *out = NULL;
    if ((status = TD_NEW(&r.table)) != TD_OK) {
        free(text);
        return status;
    }
    r.table->bytes = text;
    TD_TRY(td_arena_create(0, &r.table->arena));
    TD_TRY(set_columns(&r, settings->columns));
    TD_TRY(compile_pattern(&r, settings->speaker_pattern));
    TD_TRY(read_lines(&r, text, bytes, settings->columns != NULL));
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
