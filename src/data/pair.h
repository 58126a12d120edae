/* The data of a training run: rows to train with and rows to validate with, with one symbol table and one
 * list of speakers. They come from two folders, from the two tables of one layout (metadata_train.csv and
 * metadata_eval.csv, train.tsv and dev.tsv), or from a split of one table. Covered by tests/data/test_pair.c.
 */
#ifndef TD_DATA_PAIR_H
#define TD_DATA_PAIR_H

#include "data/dataset.h"

typedef struct td_dataset_pair {
    td_dataset *train; /* owned */
    td_dataset *val;   /* owned; NULL: the validation rows are those of `train` */
} td_dataset_pair;

/* Whether validation has rows of its own: in `val_dir`, or without one in the table that the layout has
 * beside the training's. Then all rows of `train` train, and *val says how to open the others; symbols and
 * speakers are left to set. */
bool td_dataset_pair_plan(const char *val_dir, td_dataset_settings *train, td_dataset_settings *val);

/* Names of the speakers, one a line; what td_metadata_settings.speakers takes. *out: owned, free(). */
td_status td_dataset_list_speakers(const td_dataset *dataset, char **out);

/* Leaves out rows of speakers with the number `n_known` or a higher one, before anybody else sees the
 * dataset. How many; *first: a row of them. */
size_t td_dataset_keep_speakers(td_dataset *dataset, size_t n_known, uint32_t *first);

/* TD_ERR_CONFIG, naming the row, for one that is of both: the same recording, or the same id with the same
 * text and length. */
td_status td_dataset_pair_check(const td_dataset *train, const td_dataset *val);

/* `settings` is for the training rows; `val_dir` may be NULL. Where validation has a table of its own, all
 * rows of the first train. *out: td_dataset_pair_close(), also after a failure. */
td_status td_dataset_pair_open(const td_dataset_settings *settings, const char *val_dir, td_pool *pool,
                               td_dataset_pair *out);
void td_dataset_pair_close(td_dataset_pair *pair);

#endif
