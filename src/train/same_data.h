/* Whether a run goes on with the data that it began with. Each row of a dataset has a mark: 32 bits of its
 * id, and 32 of what it is: text, language, speaker, and the length and size of its recording. A checkpoint
 * has the marks of all rows, so that what was added, removed or changed can be told, wherever the folder lies
 * now. Covered by tests/cli/test_findings_data.py.
 */
#ifndef TD_TRAIN_SAME_DATA_H
#define TD_TRAIN_SAME_DATA_H

#include "data/dataset.h"
#include "families/checkpoint.h"

/* Starts as {0}; td_marks_free(). */
typedef struct td_marks {
    uint32_t (
        *at)[2];    /* id and content, ascending; the lowest bit of the content: the row validates; owned */
    uint32_t *rows; /* of the dataset, for each mark; owned */
    size_t count;
} td_marks;

/* Of all rows whose recording is good. */
td_status td_marks_make(const td_dataset *dataset, td_marks *out);
void td_marks_free(td_marks *marks);

/* As a tensor of checkpoints; borrowed from the marks. */
td_checkpoint_tensor_data td_marks_tensor(const td_marks *marks);

/* TD_ERR_CONFIG, with what differs, if the checkpoint was trained with other rows, in another language or
 * with other tokens. One of before there were marks passes if language and tokens are the same. Rows that
 * changed sides between training and validation are a warning. */
td_status td_marks_check(const td_marks *marks, const td_dataset *dataset, const td_checkpoint *from,
                         const char *language);

#endif
