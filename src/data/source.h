/* What a dataset is read from: which of its tables, in which layout, and where each line of it stands. A
 * folder, or a table with its recordings beside it, is looked at and its layout recognised, or taken as told;
 * then it is read as one table, also where each row has a text file of its own. Covered by
 * tests/data/test_layout.c and tests/fuzz/fuzz_layout.c.
 */
#ifndef TD_DATA_SOURCE_H
#define TD_DATA_SOURCE_H

#include "base/file.h"
#include "data/layout.h"
#include "data/metadata.h"

typedef struct td_source_request {
    const char *path;   /* a folder, or a table */
    const char *table;  /* its name in the folder; NULL: `path` if that is one, else what the layout has */
    const char *layout; /* name of the layout; NULL or "auto": by what is there */
    bool validates;     /* rather the layout's table of validation rows, where it has one */
} td_source_request;

/* Starts as {0}; td_source_free(). */
struct td_source {
    const td_layout *layout;
    bool is_recognised;  /* the layout was not told */
    char *dir;           /* owned: what recordings lie below */
    char *table;         /* owned: name in `dir`: of a file, or of folders with a file for each text */
    char *path;          /* owned: both, for people */
    const char *eval;    /* the table that validates beside it; NULL: none; borrowed for ever */
    td_file_names files; /* of each line, below `dir`; none: the lines are those of the table */
};

/* TD_ERR_NOT_FOUND if nothing like a dataset is there, TD_ERR_CONFIG for a layout of another name. */
td_status td_source_find(const td_source_request *request, td_source *out);

/* *text: owned, free(); `bytes` bytes and a zero. `form`: how it is to be parsed, where the settings do not
 * say. */
td_status td_source_read(td_source *source, td_metadata_settings *form, char **text, size_t *bytes);
void td_source_free(td_source *source);

/* The file of a line that was read, and the line there. */
uint32_t td_source_file(const td_source *source, uint32_t line, char out[TD_FILE_PATH_BYTES]);

/* "FILE:LINE" of a line that was read, for messages. */
void td_source_place(const td_source *source, uint32_t line, char out[TD_FILE_PATH_BYTES + 16]);

#endif
