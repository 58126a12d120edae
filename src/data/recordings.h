/* Recordings of a dataset by id: files of the folders that its layout names, with any ending that libsndfile
 * reads, in any case. Every folder is listed once, however many rows there are. Covered by
 * tests/data/test_recordings.c.
 */
#ifndef TD_DATA_RECORDINGS_H
#define TD_DATA_RECORDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "data/layout.h"

/* Paths below the dataset's folder, borrowed until td_recordings_close(). */
typedef struct td_recording {
    const char *file; /* ID.wav in the first folder if there is none */
    const char *twin; /* another file of the same id in the same folder; NULL: none */
} td_recording;

typedef struct td_recordings td_recordings;

/* *out: owned, td_recordings_close(). `dir` is borrowed until then. */
td_status td_recordings_open(const char *dir, const td_layout *layout, td_recordings **out);
void td_recordings_close(td_recordings *recordings); /* NULL is allowed */

/* Lists the folders that this id may lie in, unless they are listed. All ids are added before the first is
 * looked for. */
td_status td_recordings_add(td_recordings *recordings, const char *id);
td_status td_recordings_find(td_recordings *recordings, const char *id, td_recording *out);

/* Whether one of the layout's folders is there. */
bool td_recordings_has_place(const td_recordings *recordings);

/* Whether any file with such an ending was found. */
bool td_recordings_has_any(const td_recordings *recordings);

/* Bytes of `name` before an ending of recordings; all of them if it has none. */
size_t td_recordings_stem(const char *name);

#endif
