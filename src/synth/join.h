/* Pieces of speech in a row, with pauses between them and no clicks: each fades in and out over a few
 * milliseconds. Covered by tests/synth/test_join.c.
 */
#ifndef TD_SYNTH_JOIN_H
#define TD_SYNTH_JOIN_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* Starts as {.rate = R}. */
typedef struct td_join {
    uint32_t rate;
    float *samples; /* owned: free(), or taken over by the caller */
    size_t count, capacity;
} td_join;

/* Adds a piece and `pause_s` of silence behind it. */
td_status td_join_add(td_join *join, const float *samples, size_t count, double pause_s);

/* The same in parts: samples from `first` on of a piece of `total`; the pause behind the last of them. */
td_status td_join_add_part(td_join *join, const float *samples, size_t count, size_t first, size_t total,
                           double pause_s);

/* Turns the whole down if a sample is beyond full scale, so that nothing is cut off. */
void td_join_level(td_join *join);

/* The same for samples that leave before the last are there: all of these have *gain, which starts at 1 and
 * is lowered first if one of them would be beyond full scale. */
void td_join_level_on(td_join *join, float *gain);

#endif
