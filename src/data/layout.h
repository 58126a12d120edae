/* The layouts in which people have datasets, one row each: which tables there are, where recordings lie, how
 * a folder is recognised, and how it is read. A new one is a row in layout.c, and a function that reads it if
 * no other does. Used through source.h. Covered by tests/data/test_layout.c.
 */
#ifndef TD_DATA_LAYOUT_H
#define TD_DATA_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "tandem/status.h"

enum { TD_LAYOUT_TABLES = 3, TD_LAYOUT_PLACES = 4 };

typedef struct td_source td_source;
struct td_metadata_settings;

typedef struct td_layout {
    const char *name;
    const char *shape; /* what such a folder has, for people */
    struct {
        const char *train; /* name in the folder; "train*": folders that begin so; ".": the folder itself */
        const char *eval;  /* that validates beside it; NULL: none */
    } tables[TD_LAYOUT_TABLES];           /* the first that is there; NULL ends them */
    const char *places[TD_LAYOUT_PLACES]; /* folders of recordings, "wavs/" or "wav*" + "/", the first counts;
                                           * NULL ends them */
    const char *suffix;                   /* that may stand between id and ending; NULL: none */
    const char *text_ending;              /* of the files that hold one text each; NULL: tables are files */

    /* Whether the source, of which dir and table are known, is of this layout. `head`: how the table begins,
     * whole lines; "" if it is of folders. */
    bool (*fits)(const td_source *source, const char *head);

    /* As td_source_read(). */
    td_status (*read)(td_source *source, struct td_metadata_settings *form, char **text, size_t *bytes);
} td_layout;

size_t td_layout_count(void);
const td_layout *td_layout_at(size_t i);
#endif
