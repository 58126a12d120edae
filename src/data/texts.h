/* Datasets that have a text file for each recording: the files below a folder become one table with the
 * columns id, speaker, text. The speaker is what stands before the first '_' of a file's name, or its folder.
 * Used by layout.c alone. Covered by tests/data/test_layout.c.
 */
#ifndef TD_DATA_TEXTS_H
#define TD_DATA_TEXTS_H

#include "data/source.h"

/* Whether the folder has another whose name begins so. */
bool td_texts_has_folder(const char *dir, const char *prefix);

/* Whether there is a table of this name: "txt" or ".", folders; "train*", folders that begin so. */
bool td_texts_is_table(const char *dir, const char *table);

/* Whether a file with this ending lies below the source's table. */
bool td_texts_has_any(const td_source *source, const char *ending);

/* As td_source_read(); the files become the source's. */
td_status td_texts_read(td_source *source, td_metadata_settings *form, char **text, size_t *bytes);

#endif
