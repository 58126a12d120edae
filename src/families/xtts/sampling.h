/* Which code comes next: the penalty of repetitions, then temperature, top-k and top-p in this order, then a draw that
 * depends on the seed alone. On the host, so that it is the same with every device. Covered by
 * tests/xtts/test_xtts_speak.c.
 */
#ifndef TD_FAMILIES_XTTS_SAMPLING_H
#define TD_FAMILIES_XTTS_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef struct td_xtts_sampling {
    double temperature, top_p, repetition_penalty;
    uint32_t top_k; /* 0: all */
    bool greedy;    /* the likeliest, with the penalty alone */
    uint64_t seed;
} td_xtts_sampling;

/* Room for one choice among n codes. */
typedef struct td_xtts_chooser {
    size_t n;
    bool *spoken;  /* [n]: codes that the penalty is for. Owned, as are the others */
    float *scores; /* [n]: probabilities behind td_xtts_weigh() */
    uint32_t *order;
} td_xtts_chooser;

td_status td_xtts_chooser_open(size_t n, td_xtts_chooser *out);
void td_xtts_chooser_close(td_xtts_chooser *chooser);

/* Makes chooser->scores of logits [n]: what each code would be drawn with. */
void td_xtts_weigh(td_xtts_chooser *chooser, const td_xtts_sampling *sampling, const float *logits);

/* Chooses: draw `index` of stream `stream` of the seed. */
uint32_t td_xtts_choose(td_xtts_chooser *chooser, const td_xtts_sampling *sampling, const float *logits,
                        uint64_t stream, uint64_t index);

#endif
