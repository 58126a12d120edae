/* See predict.h. */
#include "train/predict.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "data/pair.h"
#include "device/blocking.h"
#include "train/need.h"

#define FEATURE "aligned_mel" /* what the voice makes, as a feature of whole recordings */

enum { BATCH_ITEMS = 8 };

typedef struct prediction_work {
    const td_model_config *model;
    td_store *store; /* owned */
    pthread_mutex_t lock;
    td_data data; /* a view of the caller's, with other settings */
    td_frozen_part part;
    td_predictions *out;
    float *room; /* owned */
    size_t room_count;
} prediction_work;

void td_predict_tokens(const td_checkpoint *voice, td_dataset_settings *settings)
{
    const td_checkpoint_info *info = td_checkpoint_get_info(voice);
    settings->is_auto = false;
    settings->tokens = info->token_kind;
    settings->symbols = info->symbols[0] != '\0' ? info->symbols : NULL;
    if (info->token_kind != TD_TOKENS_BPE) return;
    settings->bpe_path = info->tokenizer;
    settings->bpe_json = info->tokenizer_json;
}

/* ---------------------------------------------------------------- what fits */

static td_status check_front_end(const td_checkpoint *voice, const td_data *data)
{
    char own[TD_MEL_CONFIG_LINE_BYTES], other[TD_MEL_CONFIG_LINE_BYTES];
    if (!td_mel_config_differ(&td_checkpoint_get_info(voice)->mel, td_mel_get_config(data->mel), own, other))
        return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG, "training.acoustic: '%s' has another front end: its %s is %s here",
                   td_checkpoint_path(voice), own, other);
}

static td_status check_voice(const td_checkpoint *voice, const td_data *data)
{
    const td_checkpoint_info *info = td_checkpoint_get_info(voice);
    char *speakers = NULL;
    TD_REFUSE_IF(
        info->model.family->predict == NULL, TD_ERR_CONFIG,
        "training.acoustic: '%s' is of family %s, which does not predict along a recording; take a voice "
        "that makes all frames at once",
        td_checkpoint_path(voice), info->model.family->name);
    TD_CHECK(check_front_end(voice, data));
    if (td_model_describe(&info->model).n_speakers == 0) return TD_OK;
    TD_CHECK(td_dataset_list_speakers(data->dataset, &speakers));
    const bool is_same = strcmp(speakers, info->speakers) == 0;
    free(speakers);
    TD_REFUSE_IF(!is_same, TD_ERR_CONFIG,
                 "training.acoustic: '%s' knows other speakers than the recordings have",
                 td_checkpoint_path(voice));
    return TD_OK;
}

/* ---------------------------------------------------------------- the voice as a part */

static td_status build_part(void *context, const td_batch_shape *shape, td_graph **graph, td_tensor *output)
{
    const prediction_work *w = context;
    return td_family_predict_graph(w->model, shape, graph, output);
}

/* Its parameters, and the features that it is made from. */
static td_status open_part(prediction_work *w, const td_checkpoint *voice)
{
    td_graph *graph = NULL;
    td_tensor output;
    td_data_settings *s = &w->data.settings;
    td_status status = TD_OK;
    TD_TRY(td_family_predict_graph(w->model, NULL, &graph, &output));
    TD_TRY(td_store_create(w->data.memory, graph, &(td_store_options){0}, &w->store));
    TD_TRY(td_store_init(w->store, 0));
    TD_TRY(td_checkpoint_load_voice(voice, w->store));
    s->n_features = 0;
    for (size_t i = 0; i < td_graph_input_count(graph); ++i)
        TD_TRY(td_data_want(s, td_graph_name(graph, td_graph_input_at(graph, i))));
    TD_TRY(td_data_want(s, "frame_counts"));
    TD_TRY(td_data_want(s, FEATURE));
    if (td_data_wants(s, "reference_mel") && !(s->reference_s > 0)) s->reference_s = TD_REFERENCE_S;
    w->part = (td_frozen_part){
        .name = FEATURE, .store = w->store, .lock = &w->lock, .build = build_part, .context = w};
    w->data.parts = &w->part;
    w->data.n_parts = 1;
fail:
    td_graph_destroy(graph);
    return status;
}

/* ---------------------------------------------------------------- rows */

static td_status keep_batch(prediction_work *w, const td_batch *batch)
{
    const td_feature *mel = td_batch_find(batch, FEATURE);
    const td_feature *counts = td_batch_find(batch, "frame_counts");
    const size_t words = td_shape_size(mel->shape), per_item = words / mel->shape.dims[0];
    uint32_t frames[BATCH_ITEMS];
    TD_CHECK(td_alloc_grow(&w->room, &w->room_count, words, sizeof *w->room));
    TD_CHECK(td_blocking_read(w->data.memory, counts->span, batch->ready, frames));
    TD_CHECK(td_blocking_read(w->data.memory, mel->span, batch->ready, w->room));
    for (uint32_t i = 0; i < batch->count; ++i)
        TD_CHECK(td_predictions_put(w->out, batch->rows[i], frames[i], w->room + i * per_item));
    return TD_OK;
}

static td_status predict(prediction_work *w, const uint32_t *rows, size_t n_rows)
{
    td_data_rows which = {.rows = rows, .n_rows = n_rows, .last = TD_LAST_KEEP, .in_order = true};
    td_sampler *sampler = NULL;
    td_loader *loader = NULL;
    td_batch batch;
    td_status status = TD_OK;
    if (n_rows == 0) return TD_OK;
    TD_TRY(td_data_open_sampler(&w->data, &which, &sampler));
    which.n_batches = td_sampler_batches_per_epoch(sampler);
    TD_TRY(td_data_open_loader(&w->data, &which, sampler, &loader));
    for (uint64_t i = 0; i < which.n_batches; ++i) {
        TD_TRY(td_loader_next(loader, &batch));
        status = keep_batch(w, &batch);
        td_loader_release(loader, &batch, (td_point){0});
        TD_TRY(status);
    }
fail:
    td_loader_destroy(loader);
    td_sampler_destroy(sampler);
    return status;
}

td_status td_predict_rows(const td_checkpoint *voice, const td_data *data, td_predictions **out)
{
    const td_dataset *d = data->dataset;
    prediction_work w = {.model = &td_checkpoint_get_info(voice)->model, .data = *data};
    td_status status = TD_OK;
    *out = NULL;
    pthread_mutex_init(&w.lock, NULL);
    w.data.settings.crop_frames = 0;
    w.data.settings.batch_size = BATCH_ITEMS;
    TD_TRY(check_voice(voice, data));
    TD_TRY(td_predictions_create(d->view.n_rows, td_mel_get_config(data->mel)->n_mels, &w.out));
    TD_TRY(open_part(&w, voice));
    TD_TRY(predict(&w, d->train, d->n_train));
    TD_TRY(predict(&w, d->val, d->n_val));
    const size_t count = td_predictions_count(w.out);
    TD_FAIL_IF(count == 0, TD_ERR_CONFIG,
               "training.acoustic: no recording is as short as data.max_mel_frames and data.max_text_length "
               "ask for");
    td_log_info("'%s' predicts the spectrograms of %zu recordings; %zu have none", td_checkpoint_path(voice),
                count, d->n_train + d->n_val - count);
    *out = w.out;
    w.out = NULL;
fail:
    td_predictions_free(w.out);
    td_store_destroy(w.store);
    pthread_mutex_destroy(&w.lock);
    free(w.room);
    return status;
}
