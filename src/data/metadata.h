/* The table of a dataset: one row per line, `id|text|normalised` unless a header line or the settings name
 * other columns (columns.h says how lines are cut). A byte order mark, CRLF, blank lines and a missing or
 * empty last column are tolerated. A bad row is put on a list with its line, and left out. Recordings are not
 * looked at here (clip.h). Covered by tests/data/test_metadata.c and tests/fuzz/fuzz_metadata.c.
 */
#ifndef TD_DATA_METADATA_H
#define TD_DATA_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "data/problems.h"
#include "text/lang.h"

enum {
    TD_METADATA_MAX_BYTES = 1 << 30,
    TD_METADATA_MAX_LINE_BYTES = 1 << 14,
    TD_METADATA_MAX_ID_BYTES = 200,
    TD_METADATA_NO_LANG = TD_LANG_COUNT, /* the row does not tell */
};

typedef struct td_metadata_settings {
    const char
        *columns; /* "id|speaker|text|language|-": '-' is skipped; NULL: the header, or the usual ones */
    const char *speaker_pattern; /* POSIX extended expression, matched with the id; its first group is the
                                  * speaker. NULL: the speaker column, or one speaker for all */
    const char *speakers;        /* one a line: they have these numbers, and others the numbers behind; may be
                                  * NULL */
    char separator;              /* '|', tab or comma; 0: by the header, a bar without one */
    bool has_no_header;          /* the first line is a row, whatever it looks like */
} td_metadata_settings;

/* Texts are zero-terminated and borrowed from the table. */
typedef struct td_metadata_row {
    const char *id;   /* without "wavs/" and ".wav" */
    const char *text; /* the normalised column where it has something, else the text column; not "" */
    uint32_t text_bytes;
    uint32_t line; /* from 1 */
    uint32_t speaker;
    td_lang lang; /* TD_METADATA_NO_LANG if there is no such column or the cell is empty */
} td_metadata_row;

/* Immutable once read. */
typedef struct td_metadata {
    td_metadata_row *rows; /* the good ones, in the order of the file */
    size_t n_rows;
    const char **speakers; /* the known ones, then the others sorted by bytes; at least one, which is "" if
                              none is named; borrowed from the table */
    size_t n_speakers;
    td_problems problems; /* total: rows that are not in `rows` */
    bool has_header;
    char *bytes;     /* owned: what the texts point into */
    td_arena *arena; /* owned: speakers that a pattern cut out */
} td_metadata;

/* Takes over `text` (from malloc; free()d at once on failure), `bytes` bytes and a zero byte after them.
 * `name` is for messages. *out: owned, td_metadata_destroy(). Fails only for wrong settings (TD_ERR_CONFIG)
 * and want of memory; a file without one good row gives none. */
td_status td_metadata_parse(char *text, size_t bytes, const char *name, const td_metadata_settings *settings,
                            td_metadata **out);
void td_metadata_destroy(td_metadata *metadata);

#endif
