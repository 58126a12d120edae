/* The data of a training run: rows to train with and rows to validate with, with one symbol table. They come
 * from two folders, from metadata_train.csv and metadata_eval.csv of one, or from a split of one table.
 * Covered by tests/data/test_pair.c.
 */
#ifndef TD_DATA_PAIR_H
#define TD_DATA_PAIR_H

#include "data/dataset.h"

typedef struct td_dataset_pair {
    td_dataset *train; /* owned */
    td_dataset *val;   /* owned; NULL: the validation rows are those of `train` */
} td_dataset_pair;

/* Whether validation has rows of its own: in `val_dir`, or without one in metadata_eval.csv beside
 * metadata_train.csv. Then all rows of `train` train, and *val says how to open the others; the symbols are
 * left to set. */
bool td_dataset_pair_plan(const char *val_dir, td_dataset_settings *train, td_dataset_settings *val);

/* TD_ERR_CONFIG, naming the row, for a recording that is of both. */
td_status td_dataset_pair_check(const td_dataset *train, const td_dataset *val);

/* `settings` is for the training rows; `val_dir` may be NULL. Where validation has a table of its own, all
 * rows of the first train. *out: td_dataset_pair_close(), also after a failure. */
td_status td_dataset_pair_open(const td_dataset_settings *settings, const char *val_dir, td_pool *pool,
                               td_dataset_pair *out);
void td_dataset_pair_close(td_dataset_pair *pair);

#endif
