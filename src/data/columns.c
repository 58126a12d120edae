/* See columns.h. */
#include "data/columns.h"

#include <string.h>
#include <strings.h>

/* The names people give them, in lower case. */
static const struct {
    const char *name;
    td_column meaning;
} NAMES[] = {
    {"id", TD_COLUMN_ID},
    {"fileid", TD_COLUMN_ID},
    {"file_id", TD_COLUMN_ID},
    {"wav_id", TD_COLUMN_ID},
    {"file", TD_COLUMN_ID},
    {"filename", TD_COLUMN_ID},
    {"file_name", TD_COLUMN_ID},
    {"audio_file", TD_COLUMN_ID},
    {"path", TD_COLUMN_ID},
    {"text", TD_COLUMN_TEXT},
    {"transcription", TD_COLUMN_TEXT},
    {"transcript", TD_COLUMN_TEXT},
    {"sentence", TD_COLUMN_TEXT},
    {"normalised", TD_COLUMN_NORMALISED},
    {"normalized", TD_COLUMN_NORMALISED},
    {"normalised_text", TD_COLUMN_NORMALISED},
    {"normalized_text", TD_COLUMN_NORMALISED},
    {"normalised transcription", TD_COLUMN_NORMALISED},
    {"normalized transcription", TD_COLUMN_NORMALISED},
    {"speaker", TD_COLUMN_SPEAKER},
    {"speaker_name", TD_COLUMN_SPEAKER},
    {"speaker_id", TD_COLUMN_SPEAKER},
    {"client_id", TD_COLUMN_SPEAKER},
    {"language", TD_COLUMN_LANGUAGE},
    {"lang", TD_COLUMN_LANGUAGE},
    {"locale", TD_COLUMN_LANGUAGE},
    {"-", TD_COLUMN_SKIPPED},
};

const td_columns td_columns_usual = {
    .at = {TD_COLUMN_ID, TD_COLUMN_TEXT, TD_COLUMN_NORMALISED},
    .count = 3,
    .has = {[TD_COLUMN_ID] = true, [TD_COLUMN_TEXT] = true, [TD_COLUMN_NORMALISED] = true},
    .separator = '|',
};

/* ---------------------------------------------------------------- names */

/* The bytes of the cell at `at`, without quotes and blanks around them. */
static td_column_name read_name(const char *at, size_t bytes)
{
    while (bytes > 0 && strchr(" \"", at[bytes - 1]) != NULL)
        --bytes;
    while (bytes > 0 && strchr(" \"", *at) != NULL)
        ++at, --bytes;
    return (td_column_name){at, bytes};
}

static td_column find_meaning(td_column_name name)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        if (strlen(NAMES[i].name) == name.bytes && strncasecmp(NAMES[i].name, name.text, name.bytes) == 0)
            return NAMES[i].meaning;
    return TD_COLUMN_COUNT;
}

static size_t cell_bytes(const char *at, char separator)
{
    const char *end = strchr(at, separator);
    return end != NULL ? (size_t)(end - at) : strlen(at);
}

bool td_columns_read(const char *line, char separator, td_columns *out, td_column_name *unknown)
{
    *out = (td_columns){.separator = separator};
    *unknown = (td_column_name){0};
    for (const char *at = line;;) {
        const size_t bytes = cell_bytes(at, separator);
        const td_column_name name = read_name(at, bytes);
        td_column meaning = find_meaning(name);
        if (out->count == TD_COLUMNS_MAX) return false;
        if (meaning == TD_COLUMN_COUNT) {
            if (unknown->text == NULL) *unknown = name;
            meaning = TD_COLUMN_SKIPPED;
        }
        if (meaning != TD_COLUMN_SKIPPED && out->has[meaning]) return false;
        out->has[meaning] = true;
        out->at[out->count++] = meaning;
        if (at[bytes] == '\0') break;
        at += bytes + 1;
    }
    return out->has[TD_COLUMN_ID] && out->has[TD_COLUMN_TEXT];
}

bool td_columns_is_header(const char *line, char *separator)
{
    static const char SEPARATORS[] = "|\t,";
    for (const char *s = SEPARATORS; *s != '\0'; ++s) {
        td_columns found;
        td_column_name unknown;
        const size_t first = cell_bytes(line, *s);
        if (line[first] == '\0') continue;
        const td_column meaning = find_meaning(read_name(line, first));
        const bool is_usable = td_columns_read(line, *s, &found, &unknown);
        /* "file,", a text of one word, is no header of commas. */
        if ((meaning == TD_COLUMN_ID && (*s == '|' || is_usable)) ||
            (meaning != TD_COLUMN_COUNT && is_usable)) {
            *separator = *s;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- cells */

char *td_columns_strip(char *text)
{
    text += strspn(text, " \t");
    size_t bytes = strlen(text);
    while (bytes > 0 && strchr(" \t\r", text[bytes - 1]) != NULL)
        text[--bytes] = '\0';
    return text;
}

/* A row may leave out the normalised column. */
static bool cut_at_bars(const td_columns *c, char *line, char *cells[TD_COLUMN_COUNT], size_t *n_cells)
{
    td_column columns[TD_COLUMNS_MAX] = {0};
    size_t n = 0, text_at = 0;
    *n_cells = 1;
    for (const char *at = line; (at = strchr(at, '|')) != NULL; ++at)
        ++*n_cells;
    const bool shorter = c->has[TD_COLUMN_NORMALISED] && *n_cells + 1 == c->count;
    for (size_t i = 0; i < c->count; ++i) {
        if (shorter && c->at[i] == TD_COLUMN_NORMALISED) continue;
        if (c->at[i] == TD_COLUMN_TEXT) text_at = n;
        columns[n++] = c->at[i];
    }
    if (*n_cells < n) return false;
    for (size_t i = 0; i < text_at; ++i) {
        char *bar = strchr(line, '|');
        *bar = '\0';
        cells[columns[i]] = td_columns_strip(line);
        line = bar + 1;
    }
    for (size_t i = n - 1; i > text_at; --i) {
        char *bar = strrchr(line, '|');
        *bar = '\0';
        cells[columns[i]] = td_columns_strip(bar + 1);
    }
    cells[TD_COLUMN_TEXT] = td_columns_strip(line);
    return true;
}

/* The content of a cell in double quotes, two of which stand for one; in place. NULL if they do not close.
 * *end: behind the cell. */
static char *unquote(char *cell, char **end)
{
    char *from = cell + 1, *to = cell;
    while (*from != '\0' && !(*from == '"' && from[1] != '"')) {
        from += *from == '"';
        *to++ = *from++;
    }
    if (*from == '\0') return NULL;
    *end = from + 1;
    *to = '\0';
    return cell;
}

/* Cells at the end may be missing, where they are neither id nor text. */
static bool cut_everywhere(const td_columns *c, char *line, char *cells[TD_COLUMN_COUNT], size_t *n_cells)
{
    bool found[TD_COLUMN_COUNT] = {false};
    *n_cells = 0;
    for (char *at = line;;) {
        char *cell = at, *end = at;
        if (c->separator == ',' && *at == '"') {
            cell = unquote(at, &end);
            if (cell == NULL) return false;
            end += strspn(end, " ");
            if (*end != '\0' && *end != ',') return false;
        } else {
            end += cell_bytes(at, c->separator);
        }
        const bool is_last = *end == '\0';
        *end = '\0';
        if (*n_cells == c->count) return false;
        const td_column meaning = c->at[(*n_cells)++];
        cells[meaning] = td_columns_strip(cell);
        found[meaning] = true;
        if (is_last) break;
        at = end + 1;
    }
    return found[TD_COLUMN_ID] && found[TD_COLUMN_TEXT];
}

bool td_columns_cut(const td_columns *c, char *line, char *cells[TD_COLUMN_COUNT], size_t *n_cells)
{
    return c->separator == '|' ? cut_at_bars(c, line, cells, n_cells)
                               : cut_everywhere(c, line, cells, n_cells);
}
