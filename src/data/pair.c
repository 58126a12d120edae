/* Training and validation rows (pair.h). */
#include "data/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

static const char EVAL_TABLE[] = "metadata_eval.csv";

static bool has_table(const char *dir, const char *name)
{
    char path[TD_FILE_PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", dir, name) < TD_FILE_PATH_BYTES && td_file_exists(path);
}

bool td_dataset_pair_plan(const char *val_dir, td_dataset_settings *train, td_dataset_settings *val)
{
    if (val_dir == NULL && train->metadata == NULL && has_table(train->dir, EVAL_TABLE)) {
        if (!has_table(train->dir, "metadata.csv"))
            val_dir = train->dir;
        else
            td_log_warn("%s/%s does not validate beside metadata.csv; name that metadata_train.csv",
                        train->dir, EVAL_TABLE);
    }
    if (val_dir == NULL) return false;
    train->val_fraction = 0;
    *val = *train;
    val->dir = val_dir;
    val->metadata = has_table(val_dir, EVAL_TABLE) ? EVAL_TABLE : NULL;
    return true;
}

/* ---------------------------------------------------------------- rows of both */

/* A row by the file of its recording: where that lies on the disk, or its path if it is not there. */
typedef struct recording {
    uint64_t key[2];
    uint32_t row;
} recording;

static int compare_recordings(const void *a, const void *b)
{
    return memcmp(((const recording *)a)->key, ((const recording *)b)->key, sizeof((recording *)0)->key);
}

/* *out: owned, free(). */
static td_status find_recordings(const td_dataset *d, recording **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(out, d->n_train + 1));
    for (size_t i = 0; i < d->n_train; ++i) {
        char path[TD_FILE_PATH_BYTES];
        struct stat about;
        recording *r = &(*out)[i];
        r->row = d->train[i];
        TD_TRY(td_dataset_clip_path(d, r->row, path));
        if (stat(path, &about) == 0) {
            r->key[0] = (uint64_t)about.st_dev;
            r->key[1] = (uint64_t)about.st_ino;
        } else {
            const td_digest digest = td_hash128(path, strlen(path));
            r->key[0] = digest.low;
            r->key[1] = digest.high;
        }
    }
    qsort(*out, d->n_train, sizeof **out, compare_recordings);
fail:
    return status;
}

td_status td_dataset_pair_check(const td_dataset *train, const td_dataset *val)
{
    td_status status = TD_OK;
    recording *learnt = NULL, *heard = NULL;
    struct stat a, b;
    TD_FAIL_IF(stat(train->metadata_path, &a) == 0 && stat(val->metadata_path, &b) == 0 &&
                   a.st_dev == b.st_dev && a.st_ino == b.st_ino,
               TD_ERR_CONFIG,
               "'%s' is both the training and the validation table; leave data.val_data out to split it",
               val->metadata_path);
    TD_TRY(find_recordings(train, &learnt));
    TD_TRY(find_recordings(val, &heard));
    for (size_t i = 0; i < val->n_train; ++i) {
        const recording *same =
            bsearch(&heard[i], learnt, train->n_train, sizeof *learnt, compare_recordings);
        TD_FAIL_IF(
            same != NULL, TD_ERR_CONFIG,
            "%s:%u: '%s' validates, but is a training row too (%s:%u); take it out of one of the tables",
            val->metadata_path, val->view.rows[heard[i].row].line, td_dataset_id(val, heard[i].row),
            train->metadata_path, train->view.rows[same->row].line);
    }
fail:
    free(learnt);
    free(heard);
    return status;
}

/* ---------------------------------------------------------------- opening */

td_status td_dataset_pair_open(const td_dataset_settings *settings, const char *val_dir, td_pool *pool,
                               td_dataset_pair *out)
{
    td_status status = TD_OK;
    td_dataset_settings train = *settings, val;
    *out = (td_dataset_pair){0};
    const bool is_pair = td_dataset_pair_plan(val_dir, &train, &val);
    TD_TRY(td_dataset_open(&train, pool, &out->train));
    if (!is_pair) return TD_OK;
    const td_block_view *view = &out->train->view;
    val.symbols = settings->tokens == TD_TOKENS_BPE ? NULL : td_block_string(view, view->header->symbols);
    TD_TRY(td_dataset_open(&val, pool, &out->val));
    TD_TRY(td_dataset_pair_check(out->train, out->val));
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
