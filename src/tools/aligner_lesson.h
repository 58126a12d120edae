/* An aligner learns a voice, a microphone and a room from rows whose texts are known, for some seconds, by the same engine
 * as `tandem train`. Which rows those are, the caller knows. Covered by tests/cli/test_cut.py.
 *
 *   FOLDER/metadata.csv, wavs/, run/   rows, and the run whose last checkpoint is the aligner
 */
#ifndef TD_TOOLS_ALIGNER_LESSON_H
#define TD_TOOLS_ALIGNER_LESSON_H

#include "align/align.h"
#include "base/file.h"
#include "text/buffer.h"

#define TD_LESSON_WELL_HEARD -0.1 /* the median score of rows by an aligner that knows the voice */

enum {
    TD_LESSON_LEAST_ROWS = 24, /* fewer teach nothing */
    TD_LESSON_MOST_ROWS = 400, /* more take longer, and teach little more */
};

/* All but the last two are set by the caller, and borrowed. */
typedef struct td_lesson {
    const td_aligner *aligner;
    td_memory *memory;
    td_lang lang;
    const char *folder;
    td_status (*tell)(void *context, uint64_t step, uint64_t steps); /* a status other than TD_OK ends it */
    void *context;
    size_t n_rows;
    td_buffer table; /* owned: td_lesson_free() */
} td_lesson;

td_status td_lesson_begin(const td_lesson *lesson); /* makes the folder */
td_status td_lesson_add(td_lesson *lesson, const float *samples, size_t count, uint32_t rate_hz,
                        const char *text /* normalised */);

/* Trains, and tells the path of the checkpoint. A run that was interrupted goes on. */
td_status td_lesson_learn(const td_lesson *lesson, char out[TD_FILE_PATH_BYTES]);
void td_lesson_free(td_lesson *lesson);

td_status td_lesson_remove(const char *folder); /* and all in it; one that is not there is none */

#endif
