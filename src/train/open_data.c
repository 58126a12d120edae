/* The data of a run: opened with the symbols of the model that it goes on from, marked, compared with what was
 * trained before. See train.h. Covered by tests/train/test_train_run.c and tests/cli/test_findings_data.py. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/pair.h"
#include "train/train_internal.h"

/* Those of the family, besides that of "mel". */
static td_status choose_front_ends(td_trainer *t)
{
    td_status status = TD_OK;
    const td_family *family = t->s.model.family;
    static_assert(TD_DATA_FRONT_ENDS <= TD_CHECKPOINT_FRONT_ENDS, "checkpoints have room for them");
    TD_FAIL_IF(family->n_front_ends > TD_DATA_FRONT_ENDS, TD_ERR_LIMIT,
               "family %s has more than %d front ends", family->name, TD_DATA_FRONT_ENDS);
    for (size_t i = 0; i < family->n_front_ends; ++i) {
        t->s.data.front_ends[i].name = family->front_ends[i].name;
        t->s.data.front_ends[i].config = family->front_ends[i].config(&t->s.model.values);
    }
    t->s.data.n_front_ends = family->n_front_ends;
fail:
    return status;
}

/* The language that most rows have. */
const char *td_trainer_language(const td_dataset *dataset)
{
    size_t counts[TD_LANG_COUNT] = {0}, best = 0;
    for (size_t i = 0; i < dataset->view.n_rows; ++i)
        if (dataset->view.rows[i].lang < TD_LANG_COUNT) ++counts[dataset->view.rows[i].lang];
    for (size_t i = 1; i < TD_LANG_COUNT; ++i)
        if (counts[i] > counts[best]) best = i;
    return td_lang_code((td_lang)best);
}

/* The rows are marked, and compared with those of the checkpoint that is gone on from. */
static td_status mark_rows(td_trainer *t)
{
    td_status status = TD_OK;
    const td_dataset *dataset = t->data.dataset;
    TD_TRY(td_marks_make(dataset, &t->marks));
    if (t->resumes) TD_TRY(td_marks_check(&t->marks, dataset, t->from, td_trainer_language(dataset)));
fail:
    return status;
}

/* New symbols enter the table of a model whose tensors are taken. */
static td_status open_with_symbols(td_trainer *t)
{
    td_status status = TD_OK;
    bool changed;
    td_data_settings *o = &t->s.data;
    if (t->from == NULL || t->resumes || o->dataset.tokens == TD_TOKENS_BPE) return TD_OK;
    TD_TRY(td_trainer_join_symbols(t, &changed));
    if (!changed) return TD_OK;
    td_data_close(&t->data);
    o->dataset.symbols = t->symbols;
    TD_TRY(td_data_open(t->data_memory, o, &t->data));
fail:
    return status;
}

td_status td_trainer_open_data(td_trainer *t)
{
    td_status status = TD_OK;
    td_data_settings *o = &t->s.data;
    TD_TRY(choose_front_ends(t));
    o->dataset.seed = t->s.seed;
    t->has_val = o->dataset.dir != NULL && td_dataset_pair_plan(t->s.val_dir, &o->dataset, &t->val_plan);
    if (t->resumes) o->dataset.symbols = td_checkpoint_get_info(t->from)->symbols;
    if (o->dataset.symbols != NULL && o->dataset.symbols[0] == '\0') o->dataset.symbols = NULL;
    TD_TRY(td_data_open(t->data_memory, o, &t->data));
    td_dataset_tell_layout(t->data.dataset);
    TD_TRY(open_with_symbols(t));
    TD_TRY(mark_rows(t));
fail:
    return status;
}

/* Of the training rows: texts as tokens, and the sizes of the recordings. Not their times, which a copy of
 * the data does not have. */
uint64_t td_trainer_hash_data(const td_dataset *d)
{
    td_hasher hasher;
    td_hasher_init(&hasher);
    for (size_t i = 0; i < d->n_train; ++i) {
        const td_block_row *row = &d->view.rows[d->train[i]];
        const uint64_t sizes[] = {row->n_tokens, row->clip.frames, row->clip.rate_hz,
                                  (uint64_t)row->clip.file_bytes};
        td_hasher_string(&hasher, td_dataset_id(d, d->train[i]));
        td_hasher_bytes(&hasher, sizes, sizeof sizes);
        td_hasher_bytes(&hasher, d->view.tokens + row->first_token, row->n_tokens * sizeof *d->view.tokens);
    }
    return td_hasher_digest(&hasher).low;
}

/* A model with a table of speakers cannot be validated with others. */
void td_trainer_leave_out_strangers(td_trainer *t)
{
    char place[TD_FILE_PATH_BYTES + 16];
    uint32_t first;
    td_dataset *val = t->val_data.dataset;
    const size_t n_known = td_model_describe(&t->info.model).n_speakers;
    const size_t n_left_out = n_known > 0 ? td_dataset_keep_speakers(val, n_known, &first) : 0;
    if (n_left_out == 0) return;
    const td_block_row *row = &val->view.rows[first];
    td_dataset_place(val, row->line, place);
    td_log_warn("%zu rows do not validate, since their speakers do not train; the first is %s: '%s'",
                n_left_out, place, td_block_string(&val->view, val->view.speakers[row->speaker]));
}
