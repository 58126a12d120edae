/* Training and validation rows (pair.h). */
#include "data/pair.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char EVAL_TABLE[] = "metadata_eval.csv";

static bool has_table(const char *dir, const char *name)
{
    char path[TD_FILE_PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", dir, name) < TD_FILE_PATH_BYTES && td_file_exists(path);
}

td_status td_dataset_pair_open(const td_dataset_settings *settings, const char *val_dir, td_pool *pool,
                               td_dataset_pair *out)
{
    td_status status = TD_OK;
    td_dataset_settings train = *settings;
    *out = (td_dataset_pair){0};
    if (val_dir == NULL && settings->metadata == NULL && !has_table(settings->dir, "metadata.csv") &&
        has_table(settings->dir, EVAL_TABLE))
        val_dir = settings->dir;
    if (val_dir != NULL) train.val_fraction = 0;
    TD_TRY(td_dataset_open(&train, pool, &out->train));
    if (val_dir == NULL) return TD_OK;
    td_dataset_settings val = train;
    const td_block_view *view = &out->train->view;
    val.dir = val_dir;
    val.metadata = has_table(val_dir, EVAL_TABLE) ? EVAL_TABLE : NULL;
    val.symbols = settings->tokens == TD_TOKENS_BPE ? NULL : td_block_string(view, view->header->symbols);
    TD_TRY(td_dataset_open(&val, pool, &out->val));
    TD_FAIL_IF(strcmp(out->val->metadata_path, out->train->metadata_path) == 0, TD_ERR_CONFIG,
               "'%s' is both the training and the validation table; leave data.val_data out to split it",
               out->val->metadata_path);
fail:
    if (status != TD_OK) td_dataset_pair_close(out);
    return status;
}

void td_dataset_pair_close(td_dataset_pair *pair)
{
    td_dataset_close(pair->train);
    td_dataset_close(pair->val);
    *pair = (td_dataset_pair){0};
}
