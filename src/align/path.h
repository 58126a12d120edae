/* A long text along a long recording: which of its sentences are heard where. Sentences come in the text's order; one that
 * was not read is skipped, at a price, and what was read but is not in the text is passed over, at a price for each step
 * in which a letter is heard. Steps come in pieces as they are made, and only ways near the best one are followed, so that
 * memory is that of the text and of what was found, however long the recording is. Covered by tests/align/test_align.c.
 */
#ifndef TD_ALIGN_PATH_H
#define TD_ALIGN_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* The letters of all sentences, one behind the other. */
typedef struct td_path_text {
    const uint16_t *classes;
    const size_t *firsts; /* [count + 1]: where each sentence begins */
    size_t count;
} td_path_text;

/* A sentence that was heard: steps of its first and its last letter. */
typedef struct td_found {
    uint32_t sentence, first, last;
} td_found;

/* What ways pay, as logarithms. */
typedef struct td_path_prices {
    float pass_over;  /* of a step in which something is heard that is not in the text */
    float skip_first; /* of the first of some sentences that were not read, */
    float skip_more;  /* and of each */
    float nothing;    /* of a step in which nothing is heard though somebody speaks */
    bool
        asks_hints; /* passing over a step in which somebody speaks always costs; sentences begin and end at pauses */
    float beam; /* ways so far below the best are given up */
} td_path_prices;

extern const td_path_prices TD_PATH_USUAL; /* of an aligner that hears the voice well */
extern const td_path_prices TD_PATH_LOOSE; /* of one that does not, by which nothing is what is heard most */

/* What is known of a step by its loudness. */
enum { TD_PATH_SPEECH = 1, TD_PATH_NEAR_PAUSE = 2 };

typedef struct td_path td_path;

/* `text` and `prices` are borrowed until destroy. Sentences without letters are not found. *out: owned. */
td_status td_path_create(const td_path_text *text, size_t classes, const td_path_prices *prices,
                         td_path **out);
void td_path_destroy(td_path *path);

/* The next steps, [steps, classes] as td_heard has them. hints[steps]: TD_PATH_*; NULL with prices that do not ask. */
td_status td_path_push(td_path *path, const float *heard, const unsigned char *hints, size_t steps);

/* What the best way found, in order. *out: owned, free(). Nothing may be pushed afterwards. */
td_status td_path_finish(td_path *path, td_found **out, size_t *count);

#endif
