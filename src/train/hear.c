/* See hear.h. */
#include "train/hear.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

#define KIND "heard"

enum { MOST_FILE_BYTES = 1 << 28 };

typedef struct hearing {
    const td_data *data;
    td_listener *listener;
    td_blob_cache *kept; /* of nothing without a cache folder */
    td_predictions *out;
    size_t n_kept;
} hearing;

bool td_hears(const td_model_config *model)
{
    const td_listener_class *class = model->family->listener;
    return class != NULL && class->listens(&model->values);
}

/* ---------------------------------------------------------------- a row */

static td_status make_key(const hearing *h, const td_hearing *row, td_digest *out)
{
    char *bytes;
    size_t count;
    td_hasher hasher;
    TD_CHECK(td_file_read(row->path, MOST_FILE_BYTES, &bytes, &count));
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, &h->listener->key, sizeof h->listener->key);
    td_hasher_string(&hasher, h->data->device_key);
    td_hasher_bytes(&hasher, row->tokens, row->n_tokens * sizeof *row->tokens);
    td_hasher_bytes(&hasher, bytes, count);
    free(bytes);
    *out = td_hasher_digest(&hasher);
    return TD_OK;
}

/* A blob: the vector, then the latents. */
static td_status put(hearing *h, size_t row, const float *vector, const float *latents, uint32_t n)
{
    TD_CHECK(td_predictions_put_vector(h->out, (uint32_t)row, vector, h->listener->vector_width));
    return td_predictions_put(h->out, (uint32_t)row, n, latents);
}

static bool recall(hearing *h, size_t row, td_digest key, td_status *status)
{
    const uint32_t own = h->listener->vector_width, width = h->listener->width;
    void *blob;
    size_t bytes;
    if (!td_blob_cache_load(h->kept, KIND, key, &blob, &bytes)) return false;
    const size_t words = bytes / sizeof(float);
    const bool fits = bytes % sizeof(float) == 0 && words > own && (words - own) % width == 0;
    if (fits) *status = put(h, row, blob, (const float *)blob + own, (uint32_t)((words - own) / width));
    h->n_kept += fits;
    free(blob);
    return fits;
}

static td_status keep(const hearing *h, td_digest key, const td_heard *heard)
{
    const size_t own = h->listener->vector_width, n = (size_t)heard->n * h->listener->width;
    float *blob = NULL;
    TD_CHECK(TD_NEW_ARRAY(&blob, own + n));
    memcpy(blob, heard->vector, own * sizeof *blob);
    memcpy(blob + own, heard->latents, n * sizeof *blob);
    td_blob_cache_store(h->kept, KIND, key, blob, (own + n) * sizeof *blob);
    free(blob);
    return TD_OK;
}

static td_status hear_row(hearing *h, uint32_t row)
{
    const td_dataset *d = h->data->dataset;
    char path[TD_FILE_PATH_BYTES];
    td_heard heard = {0};
    td_digest key;
    td_status status = TD_OK;
    TD_TRY(td_dataset_clip_path(d, row, path));
    const td_hearing what = {.path = path,
                             .tokens = (const uint32_t *)td_dataset_tokens(d, row),
                             .n_tokens = d->view.rows[row].n_tokens};
    TD_TRY(make_key(h, &what, &key));
    if (recall(h, row, key, &status)) return status;
    TD_TRY(h->listener->class->hear(h->listener, &what, &heard));
    TD_TRY(put(h, row, heard.vector, heard.latents, heard.n));
    TD_TRY(keep(h, key, &heard));
fail:
    free(heard.vector);
    free(heard.latents);
    free(heard.codes);
    return status;
}

/* ---------------------------------------------------------------- all rows */

static bool is_of_the_row(td_status status)
{
    return status == TD_ERR_FORMAT || status == TD_ERR_LIMIT || status == TD_ERR_IO ||
           status == TD_ERR_NOT_FOUND;
}

/* *n becomes how many are left. */
static td_status hear_rows(hearing *h, uint32_t *rows, size_t *n)
{
    size_t left = 0;
    for (size_t i = 0; i < *n; ++i) {
        const td_status status = hear_row(h, rows[i]);
        if (status != TD_OK && !is_of_the_row(status)) return status;
        if (status == TD_OK)
            rows[left++] = rows[i];
        else
            td_log_warn("a recording is left out: %s", td_error_last()->message);
        if (i % 100 == 99) td_log_info("%zu of %zu recordings were heard", i + 1, *n);
    }
    *n = left;
    return TD_OK;
}

static td_status open_kept(hearing *h)
{
    char path[TD_FILE_PATH_BYTES];
    const char *dir = h->data->settings.dataset.cache_dir;
    if (dir == NULL) return td_blob_cache_open(NULL, &h->kept);
    TD_REFUSE_IF(snprintf(path, sizeof path, "%s/features", dir) >= (int)sizeof path, TD_ERR_LIMIT,
                 "the name of the folder '%s' is too long", dir);
    return td_blob_cache_open(path, &h->kept);
}

td_status td_hear_rows(const td_checkpoint *voice, td_data *data, td_predictions **out)
{
    td_dataset *d = data->dataset;
    const size_t all = d->n_train + d->n_val;
    hearing h = {.data = data};
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(open_kept(&h));
    TD_TRY(td_checkpoint_get_info(voice)->model.family->listener->open(data->memory, voice, &h.listener));
    TD_TRY(td_predictions_create(d->view.n_rows, h.listener->width, &h.out));
    td_predictions_stretch(h.out, h.listener->factors);
    TD_TRY(hear_rows(&h, d->train, &d->n_train));
    TD_TRY(hear_rows(&h, d->val, &d->n_val));
    TD_FAIL_IF(d->n_train == 0, TD_ERR_CONFIG, "no recording that trains can be heard by '%s'",
               td_checkpoint_path(voice));
    td_log_info("'%s' has heard %zu recordings, %zu of them in an earlier run; %zu are left out",
                td_checkpoint_path(voice), d->n_train + d->n_val, h.n_kept, all - d->n_train - d->n_val);
    *out = h.out;
    h.out = NULL;
fail:
    if (h.listener != NULL) h.listener->class->close(h.listener);
    td_predictions_free(h.out);
    td_blob_cache_close(h.kept);
    return status;
}
