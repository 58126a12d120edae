/* See same_data.h. */
#include "train/same_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

static const char PREFIX[] = "data.", NAME[] = "rows";

/* ---------------------------------------------------------------- making */

typedef struct mark {
    uint32_t words[2];
    uint32_t row;
} mark;

static int compare_marks(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    if (x->words[0] != y->words[0]) return x->words[0] < y->words[0] ? -1 : 1;
    return (x->words[1] > y->words[1]) - (x->words[1] < y->words[1]);
}

static mark make_mark(const td_dataset *d, uint32_t row)
{
    const td_block_row *r = &d->view.rows[row];
    const char *id = td_dataset_id(d, row);
    const uint64_t numbers[] = {r->text_key.low, r->lang, r->clip.frames, r->clip.rate_hz,
                                (uint64_t)r->clip.file_bytes};
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_string(&hasher, td_block_string(&d->view, d->view.speakers[r->speaker]));
    td_hasher_bytes(&hasher, numbers, sizeof numbers);
    const uint32_t content = (uint32_t)td_hasher_digest(&hasher).low;
    return (mark){{(uint32_t)td_hash64(id, strlen(id)), (content & ~1u) | r->is_validation}, row};
}

td_status td_marks_make(const td_dataset *d, td_marks *out)
{
    td_status status = TD_OK;
    mark *all = NULL;
    *out = (td_marks){.count = d->n_train + d->n_val};
    TD_TRY(TD_NEW_ARRAY(&all, out->count + 1));
    TD_TRY(TD_NEW_ARRAY(&out->at, out->count + 1));
    TD_TRY(TD_NEW_ARRAY(&out->rows, out->count + 1));
    for (size_t i = 0; i < out->count; ++i)
        all[i] = make_mark(d, i < d->n_train ? d->train[i] : d->val[i - d->n_train]);
    qsort(all, out->count, sizeof *all, compare_marks);
    for (size_t i = 0; i < out->count; ++i) {
        memcpy(out->at[i], all[i].words, sizeof all[i].words);
        out->rows[i] = all[i].row;
    }
fail:
    free(all);
    if (status != TD_OK) td_marks_free(out);
    return status;
}

void td_marks_free(td_marks *marks)
{
    free(marks->at);
    free(marks->rows);
    *marks = (td_marks){0};
}

td_checkpoint_tensor_data td_marks_tensor(const td_marks *marks)
{
    return (td_checkpoint_tensor_data){.prefix = PREFIX,
                                       .name = NAME,
                                       .dtype = TD_SAFETENSORS_U32,
                                       .rank = 2,
                                       .dims = {marks->count, 2},
                                       .data = marks->at,
                                       .bytes = marks->count * sizeof *marks->at};
}

/* ---------------------------------------------------------------- comparing */

typedef struct difference {
    size_t n_added, n_removed, n_changed, n_moved;
    uint32_t first; /* row that was added or changed, the first of the dataset; UINT32_MAX: none */
} difference;

static void note_row(difference *d, uint32_t row)
{
    if (row < d->first) d->first = row;
}

/* Both ascend by id, so one walk sees all. */
static difference compare(const td_marks *now, const uint32_t (*old)[2], size_t n_old)
{
    difference d = {.first = UINT32_MAX};
    size_t i = 0, j = 0;
    while (i < now->count || j < n_old) {
        if (j == n_old || (i < now->count && now->at[i][0] < old[j][0])) {
            ++d.n_added;
            note_row(&d, now->rows[i++]);
        } else if (i == now->count || old[j][0] < now->at[i][0]) {
            ++d.n_removed;
            ++j;
        } else {
            const uint32_t differs = now->at[i][1] ^ old[j++][1];
            d.n_moved += differs == 1;
            if (differs > 1) {
                ++d.n_changed;
                note_row(&d, now->rows[i]);
            }
            ++i;
        }
    }
    return d;
}

/* What to do stands behind each refusal. */
static td_status refuse(const td_checkpoint *from, const char *what)
{
    return TD_FAIL(
        TD_ERR_CONFIG,
        "'%s' was trained with other data: %s; go on with the data it had, or begin a run with its "
        "parameters: training.init_from = that file and a new training.checkpoint_dir; "
        "training.reset_training begins at step 0",
        td_checkpoint_path(from), what);
}

static td_status refuse_rows(const difference *d, const td_dataset *dataset, const td_checkpoint *from)
{
    char what[TD_FILE_PATH_BYTES + 512], place[TD_FILE_PATH_BYTES + 16], id[256] = "";
    if (d->first != UINT32_MAX) {
        td_dataset_place(dataset, dataset->view.rows[d->first].line, place);
        snprintf(id, sizeof id, ", the first of them '%.200s'", td_dataset_id(dataset, d->first));
    }
    snprintf(what, sizeof what, "%zu rows were added, %zu removed, %zu changed%s%s%s%s", d->n_added,
             d->n_removed, d->n_changed, id, *id != '\0' ? " (" : "", *id != '\0' ? place : "",
             *id != '\0' ? ")" : "");
    return refuse(from, what);
}

static td_status check_kind(const td_dataset *dataset, const td_checkpoint *from, const char *language)
{
    static const char *const KINDS[] = {"characters", "phonemes", "byte pairs"};
    const td_checkpoint_info *then = td_checkpoint_get_info(from);
    const td_token_kind kind = (td_token_kind)dataset->view.header->token_kind;
    char what[256];
    if (then->token_kind != kind) {
        snprintf(what, sizeof what, "its tokens are %s, here they are %s", KINDS[then->token_kind],
                 KINDS[kind]);
        return refuse(from, what);
    }
    if (strcmp(then->language, language) == 0) return TD_OK;
    snprintf(what, sizeof what, "its language is %.40s, here it is %s", then->language, language);
    return refuse(from, what);
}

td_status td_marks_check(const td_marks *marks, const td_dataset *dataset, const td_checkpoint *from,
                         const char *language)
{
    td_status status = TD_OK;
    const td_safetensors_tensor *old;
    TD_TRY(check_kind(dataset, from, language));
    status = td_checkpoint_tensor(from, PREFIX, NAME, &old);
    if (status == TD_ERR_NOT_FOUND) return TD_OK; /* of before there were marks */
    TD_TRY(status);
    TD_FAIL_IF(old->dtype != TD_SAFETENSORS_U32 || old->rank != 2 || old->dims[1] != 2, TD_ERR_FORMAT,
               "'%s': tensor %s%s is not what training writes; use another checkpoint",
               td_checkpoint_path(from), PREFIX, NAME);
    const difference d = compare(marks, old->data, old->dims[0]);
    if (d.n_added + d.n_removed + d.n_changed > 0) TD_TRY(refuse_rows(&d, dataset, from));
    if (d.n_moved > 0)
        td_log_warn("%zu rows have changed sides between training and validation since '%s'; keep "
                    "training.seed and data.val_fraction to validate with rows that never trained",
                    d.n_moved, td_checkpoint_path(from));
fail:
    return status;
}
