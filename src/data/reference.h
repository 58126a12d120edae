/* Which recording conditions the speaker of a row: another one of the same speaker, or a part of the row's
 * own where there is no other, or where that is the rule. A pure function of seed, epoch and row, so that it is the same for any number
 * of threads and after a restart. Covered by tests/data/test_reference.c.
 */
#ifndef TD_DATA_REFERENCE_H
#define TD_DATA_REFERENCE_H

#include "data/dataset.h"

typedef struct td_references td_references;

typedef struct td_reference {
    uint32_t row;
    bool is_own; /* the row's own recording: half of it at most is used */
    float place; /* where in the recording the part begins: a share of what there is to choose from */
} td_reference;

/* References are chosen among `rows`, ascending. *out: owned, td_references_destroy(); immutable, so any
 * number of threads may choose. The dataset and rows are not needed afterwards. */
td_status td_references_create(const td_dataset *dataset, const uint32_t *rows, size_t n_rows,
                               td_references **out);
void td_references_destroy(td_references *references);

/* For a row of the list; one that is not in it gets its own recording. Cannot fail. */
td_reference td_reference_choose(const td_references *references, uint64_t seed, uint64_t epoch,
                                 uint32_t row);

/* The part of a recording of `samples` (> 0) to use: at least one and at most `max_samples` (> 0) samples
 * from *first on. */
void td_reference_part(const td_reference *reference, size_t samples, size_t max_samples, size_t *first,
                       size_t *count);

/* References that are slices of the recording itself, of a random length and place. */
typedef struct td_slice {
    uint32_t least, most; /* samples; silence is put behind up to `most`. most 0: there are no slices */
} td_slice;

/* The slice of a recording of `samples`: half of it where it is shorter than what was drawn. For validation
 * (`is_fixed`) of the length in the middle, from the start on. */
void td_slice_choose(td_slice slice, bool is_fixed, uint64_t seed, uint64_t epoch, uint32_t row,
                     size_t samples, size_t *first, size_t *count);

#endif
