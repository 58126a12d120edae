/* The columns of a table: what each is called and means, what separates them, and a line cut into its cells.
 * Bars cut at the first and the last, so that the text may hold bars; tabs cut everywhere; commas cut
 * everywhere but inside double quotes, as spreadsheets write them. Used by metadata.c alone. Covered by
 * tests/data/test_metadata.c and tests/fuzz/fuzz_metadata.c.
 */
#ifndef TD_DATA_COLUMNS_H
#define TD_DATA_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum td_column {
    TD_COLUMN_ID,
    TD_COLUMN_TEXT,
    TD_COLUMN_NORMALISED,
    TD_COLUMN_SPEAKER,
    TD_COLUMN_LANGUAGE,
    TD_COLUMN_SKIPPED,
    TD_COLUMN_COUNT
} td_column;

enum { TD_COLUMNS_MAX = 32 };

typedef struct td_columns {
    td_column at[TD_COLUMNS_MAX];
    size_t count;
    bool has[TD_COLUMN_COUNT];
    char separator; /* '|', '\t' or ',' */
} td_columns;

/* id|text|normalised */
extern const td_columns td_columns_usual;

/* A name that was found, borrowed from the line. */
typedef struct td_column_name {
    const char *text; /* NULL: none */
    size_t bytes;
} td_column_name;

/* Reads "id|speaker|text". *unknown: the first name that is not known; such a column is skipped. False if it
 * cannot be a table: no id, no text, a name twice, or too many. */
bool td_columns_read(const char *line, char separator, td_columns *out, td_column_name *unknown);

/* Whether a line is a header, not a row: its first cell is called as ids are, or it names an id, a text and
 * begins with a name that is known. *separator: what stands between its cells. */
bool td_columns_is_header(const char *line, char *separator);

/* Cuts the line in place; false if it has not the cells it should have, with what it has in *n_cells. A cell
 * that it does not have stays as it was. */
bool td_columns_cut(const td_columns *columns, char *line, char *cells[TD_COLUMN_COUNT], size_t *n_cells);

/* Without blanks around it; in place. */
char *td_columns_strip(char *text);

#endif
