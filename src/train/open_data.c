/* The dataset of a run: its tokens and symbols, whether it is the one that the run began with, and what it says about
 * the model. See train.h. Covered by tests/train and tests/cli/test_findings_recordings.py.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/pair.h"
#include "text/bpe.h"
#include "text/phonemes.h"
#include "train/hear.h"
#include "train/need.h"
#include "train/train_internal.h"

/* Those of the family, besides that of "mel". Crops of what was heard before have none. */
static td_status choose_front_ends(td_trainer *t)
{
    const td_family *family = t->s.model.family;
    static_assert(TD_DATA_FRONT_ENDS <= TD_CHECKPOINT_FRONT_ENDS, "checkpoints have room for them");
    TD_REFUSE_IF(family->n_front_ends > TD_DATA_FRONT_ENDS, TD_ERR_LIMIT,
                 "family %s has more than %d front ends", family->name, TD_DATA_FRONT_ENDS);
    t->s.data.n_front_ends = td_hears(&t->s.model) ? 0 : family->n_front_ends;
    for (size_t i = 0; i < t->s.data.n_front_ends; ++i) {
        t->s.data.front_ends[i].name = family->front_ends[i].name;
        t->s.data.front_ends[i].config = family->front_ends[i].config(&t->s.model.values);
    }
    return TD_OK;
}

/* The language that most rows have. */
static const char *find_language(const td_dataset *dataset)
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
    const td_dataset *dataset = t->data.dataset;
    TD_CHECK(td_marks_make(dataset, &t->marks));
    if (t->resumes) TD_CHECK(td_marks_check(&t->marks, dataset, t->from, find_language(dataset)));
    return TD_OK;
}

/* The tokens of a voice of byte pairs are its own, unless a file was named. A run that goes on has what it began with.
 * Checkpoints hold what is in the file, which may be gone when they speak. What such a model cannot read, it does not
 * learn. */
static td_status choose_byte_pairs(td_trainer *t, td_dataset_settings *o)
{
    const td_checkpoint_info *voice = t->from != NULL ? td_checkpoint_get_info(t->from) : NULL;
    const bool has_pairs = voice != NULL && voice->token_kind == TD_TOKENS_BPE;
    if (has_pairs && (o->bpe_path == NULL || (t->resumes && voice->tokenizer_json != NULL))) {
        o->tokens = TD_TOKENS_BPE;
        o->bpe_json = voice->tokenizer_json;
        if (o->bpe_json == NULL) o->bpe_path = voice->tokenizer;
    }
    if (o->tokens == TD_TOKENS_BPE && o->bpe_json == NULL) {
        size_t bytes;
        TD_CHECK(td_file_read(o->bpe_path, TD_BPE_MAX_FILE_BYTES, &t->bpe_json, &bytes));
        TD_REFUSE_IF(strlen(t->bpe_json) != bytes, TD_ERR_FORMAT, "'%.200s' has zero bytes in it",
                     o->bpe_path);
        o->bpe_json = t->bpe_json;
    }
    o->romanizes = o->refuses_unknown =
        o->tokens == TD_TOKENS_BPE && td_model_describe(&t->s.model).is_romanized;
    return TD_OK;
}

/* Letters or phonemes, where that was left open. */
static void choose_tokens(const td_trainer *t, td_dataset_settings *o)
{
    if (!o->is_auto || o->tokens == TD_TOKENS_BPE) return;
    if (t->from != NULL) o->tokens = td_checkpoint_get_info(t->from)->token_kind;
    if (o->tokens == TD_TOKENS_PHONEMES)
        td_log_info("tokens are the phonemes of espeak-ng");
    else if (td_phonemes_check() == TD_OK)
        td_log_info("tokens are letters");
    else
        td_log_info("tokens are letters; %s", td_error_last()->message);
}

/* New symbols enter the table of a model whose tensors are taken. */
static td_status open_with_symbols(td_trainer *t)
{
    bool changed;
    td_data_settings *o = &t->s.data;
    if (t->from == NULL || t->resumes || t->acoustic != NULL || o->dataset.tokens == TD_TOKENS_BPE)
        return TD_OK;
    TD_CHECK(td_trainer_join_symbols(t, &changed));
    if (!changed) return TD_OK;
    td_data_close(&t->data);
    o->dataset.symbols = t->symbols;
    return td_data_open(t->data_memory, o, &t->data);
}

td_status td_trainer_open_data(td_trainer *t)
{
    td_data_settings *o = &t->s.data;
    TD_CHECK(choose_front_ends(t));
    o->dataset.seed = t->s.seed;
    TD_CHECK(choose_byte_pairs(t, &o->dataset));
    choose_tokens(t, &o->dataset);
    o->slice = td_model_describe(&t->s.model).slice;
    if (t->s.model.family->mel != NULL) o->mel = t->s.model.family->mel(&t->s.model.values);
    if (t->acoustic != NULL) td_predict_tokens(t->acoustic, &o->dataset);
    t->has_val = o->dataset.dir != NULL && td_dataset_pair_plan(t->s.val_dir, &o->dataset, &t->val_plan);
    if (t->resumes && t->acoustic == NULL) o->dataset.symbols = td_checkpoint_get_info(t->from)->symbols;
    if (o->dataset.symbols != NULL && o->dataset.symbols[0] == '\0') o->dataset.symbols = NULL;
    TD_CHECK(td_data_open(t->data_memory, o, &t->data));
    td_dataset_tell_layout(t->data.dataset);
    TD_CHECK(open_with_symbols(t));
    return mark_rows(t);
}

/* What the rows say about the model. */
static td_data_facts measure_data(const td_trainer *t)
{
    const td_dataset *d = t->data.dataset;
    const td_mel_config *mel = td_mel_get_config(t->data.mel);
    td_data_facts facts = {.n_symbols = d->view.header->vocab_size,
                           .n_speakers = (uint32_t)d->view.n_speakers,
                           .n_mels = mel->n_mels,
                           .mel = mel,
                           .has_predictions = t->acoustic != NULL,
                           .max_tokens = t->s.data.max_text_length,
                           .max_frames = t->s.data.max_mel_frames};
    for (size_t i = 0; i < d->n_train; ++i) {
        td_sampler_row row;
        td_loader_lengths(d, &d->train[i], 1, mel, &row);
        facts.tokens += row.tokens;
        facts.frames += row.frames;
    }
    return facts;
}

/* What no graph of training has is kept, also of a part that came from a run of its own: the other half of a DVAE. A voice
 * that is trained further keeps its speakers. */
static void take_over(td_trainer *t)
{
    if (t->from == NULL) return;
    t->info.rest = t->from;
    if (td_checkpoint_get_info(t->from)->model.family != t->info.model.family) return;
    t->info.speakers = td_checkpoint_get_info(t->from)->speakers;
}

td_status td_trainer_describe(td_trainer *t)
{
    const td_dataset *dataset = t->data.dataset;
    TD_CHECK(td_dataset_list_speakers(dataset, &t->speakers));
    TD_CHECK(td_trainer_list_unseen(t));
    t->info = (td_checkpoint_info){.model = t->s.model,
                                   .mel = *td_mel_get_config(t->data.mel),
                                   .token_kind = (td_token_kind)dataset->view.header->token_kind,
                                   .symbols = td_block_string(&dataset->view, dataset->view.header->symbols),
                                   .unseen = t->unseen,
                                   .tokenizer =
                                       t->s.data.dataset.bpe_path != NULL ? t->s.data.dataset.bpe_path : "",
                                   .tokenizer_json = t->s.data.dataset.bpe_json,
                                   .language = find_language(dataset),
                                   .speakers = t->speakers};
    if (t->info.model.family->carries) take_over(t);
    for (size_t i = 0; i < t->info.model.family->n_front_ends; ++i)
        t->info.front_ends[i] = t->info.model.family->front_ends[i].config(&t->s.model.values);
    const td_data_facts facts = measure_data(t);
    const td_model_config *old = t->resumes ? &td_checkpoint_get_info(t->from)->model : NULL;
    if (old != NULL && old->family != t->s.model.family) old = NULL; /* is refused later, with the reason */
    t->info.model.family->fit(&facts, old != NULL ? &old->values : NULL, &t->info.model.values);
    return td_model_config_check(&t->info.model);
}
