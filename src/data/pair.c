/* Training and validation rows (pair.h). */
#include "data/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/assemble.h"

/* ---------------------------------------------------------------- which tables */

/* A table for validation lies there, but the one that was found trains alone. */
static void warn_unused(const td_source *s)
{
    char path[TD_FILE_PATH_BYTES];
    for (size_t i = 0; i < TD_LAYOUT_TABLES && s->layout->tables[i].train != NULL; ++i) {
        const char *eval = s->layout->tables[i].eval;
        if (eval != NULL && snprintf(path, sizeof path, "%s/%s", s->dir, eval) < TD_FILE_PATH_BYTES &&
            td_file_exists(path))
            td_log_warn("%s does not validate beside %s; name that %s", path, s->table,
                        s->layout->tables[i].train);
    }
}

/* Whether there is a table for validation beside the training's. What is wrong is told when that is opened. */
static bool find_eval(const td_dataset_settings *train, const char **out)
{
    td_source source, eval;
    bool has = false;
    const td_source_request request = {train->dir, train->metadata, train->layout, false};
    if (td_source_find(&request, &source) != TD_OK) return false;
    const td_source_request beside = {source.dir, source.eval, source.layout->name, true};
    *out = source.eval;
    if (source.eval == NULL) {
        if (train->metadata == NULL) warn_unused(&source);
    } else if (td_source_find(&beside, &eval) == TD_OK) {
        has = true;
        td_source_free(&eval);
    }
    td_source_free(&source);
    return has;
}

bool td_dataset_pair_plan(const char *val_dir, td_dataset_settings *train, td_dataset_settings *val)
{
    const char *table = NULL;
    if (val_dir == NULL && !find_eval(train, &table)) return false;
    train->val_fraction = 0;
    *val = *train;
    val->metadata = table;
    val->validates = true;
    if (val_dir != NULL) val->dir = val_dir;
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
    TD_CHECK(TD_NEW_ARRAY(out, d->n_train + 1));
    for (size_t i = 0; i < d->n_train; ++i) {
        char path[TD_FILE_PATH_BYTES];
        struct stat about;
        recording *r = &(*out)[i];
        r->row = d->train[i];
        TD_CHECK(td_dataset_clip_path(d, r->row, path));
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
    return TD_OK;
}

/* The row of `train` that `val` has a copy of in `row`, or NULL: the same id, text and length. Speakers may
 * have read the same sentences under the same names. */
static const td_block_row *find_copy(const td_assemble_index *train, const td_dataset *val, uint32_t row)
{
    const td_block_row *same = td_assemble_find_id(train, td_dataset_id(val, row));
    const td_clip *clip = &val->view.rows[row].clip;
    if (same == NULL || strcmp(td_block_string(train->view, same->text), td_dataset_text(val, row)) != 0 ||
        same->clip.frames != clip->frames || same->clip.rate_hz != clip->rate_hz)
        return NULL;
    return same;
}

static td_status refuse_row(const td_dataset *train, const td_block_row *learnt, const td_dataset *val,
                            uint32_t row)
{
    char here[TD_FILE_PATH_BYTES + 16], there[TD_FILE_PATH_BYTES + 16];
    td_dataset_place(val, val->view.rows[row].line, here);
    td_dataset_place(train, learnt->line, there);
    return TD_FAIL(TD_ERR_CONFIG,
                   "%s: '%s' validates, but is a training row too (%s); take it out of one of the tables",
                   here, td_dataset_id(val, row), there);
}

td_status td_dataset_pair_check(const td_dataset *train, const td_dataset *val)
{
    td_status status = TD_OK;
    recording *learnt = NULL, *heard = NULL;
    td_assemble_index index = {0};
    struct stat a, b;
    TD_FAIL_IF(stat(train->metadata_path, &a) == 0 && stat(val->metadata_path, &b) == 0 &&
                   a.st_dev == b.st_dev && a.st_ino == b.st_ino,
               TD_ERR_CONFIG,
               "'%s' is both the training and the validation table; leave data.val_data out to split it",
               val->metadata_path);
    TD_TRY(find_recordings(train, &learnt));
    TD_TRY(find_recordings(val, &heard));
    TD_TRY(td_assemble_index_make(&train->view, &index));
    for (size_t i = 0; i < val->n_train; ++i) {
        const recording *same =
            bsearch(&heard[i], learnt, train->n_train, sizeof *learnt, compare_recordings);
        const td_block_row *row =
            same != NULL ? &train->view.rows[same->row] : find_copy(&index, val, heard[i].row);
        if (row != NULL) TD_TRY(refuse_row(train, row, val, heard[i].row));
    }
fail:
    td_assemble_index_free(&index);
    free(learnt);
    free(heard);
    return status;
}

td_status td_dataset_list_speakers(const td_dataset *dataset, char **out)
{
    const td_block_view *view = &dataset->view;
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < view->n_speakers; ++i)
        bytes += view->speakers[i].bytes + 1;
    TD_CHECK(TD_NEW_ARRAY(out, bytes));
    for (size_t i = 0; i < view->n_speakers; ++i)
        at += (size_t)snprintf(*out + at, bytes - at, "%s%s", i > 0 ? "\n" : "",
                               td_block_string(view, view->speakers[i]));
    return TD_OK;
}

size_t td_dataset_keep_speakers(td_dataset *d, size_t n_known, uint32_t *first)
{
    size_t n_kept = 0;
    const size_t n_all = d->n_train;
    for (size_t i = 0; i < n_all; ++i) {
        if (d->view.rows[d->train[i]].speaker < n_known)
            d->train[n_kept++] = d->train[i];
        else if (i == n_kept)
            *first = d->train[i];
    }
    d->n_train = n_kept;
    return n_all - n_kept;
}

/* ---------------------------------------------------------------- opening */

td_status td_dataset_pair_open(const td_dataset_settings *settings, const char *val_dir, td_pool *pool,
                               td_dataset_pair *out)
{
    td_status status = TD_OK;
    td_dataset_settings train = *settings, val;
    *out = (td_dataset_pair){0};
    char *speakers = NULL;
    const bool is_pair = td_dataset_pair_plan(val_dir, &train, &val);
    TD_TRY(td_dataset_open(&train, pool, &out->train));
    td_dataset_tell_layout(out->train);
    if (!is_pair) return TD_OK;
    TD_TRY(td_dataset_list_speakers(out->train, &speakers));
    val.table.speakers = speakers;
    const td_block_view *view = &out->train->view;
    val.symbols = settings->tokens == TD_TOKENS_BPE ? NULL : td_block_string(view, view->header->symbols);
    TD_TRY(td_dataset_open(&val, pool, &out->val));
    TD_TRY(td_dataset_pair_check(out->train, out->val));
fail:
    free(speakers);
    if (status != TD_OK) td_dataset_pair_close(out);
    return status;
}

void td_dataset_pair_close(td_dataset_pair *pair)
{
    td_dataset_close(pair->train);
    td_dataset_close(pair->val);
    *pair = (td_dataset_pair){0};
}
