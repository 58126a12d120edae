/* See data.h. */
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { N_BUCKETS = 8, ROUND_FRAMES = 32, N_READY = 3 };

typedef char feature_name[TD_FEATURE_NAME_BYTES];

static bool has_name(const feature_name *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; ++i)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

bool td_data_wants(const td_data_settings *settings, const char *name)
{
    return has_name(settings->features, settings->n_features, name) ||
           has_name(settings->inner_features, settings->n_inner_features, name);
}

static td_status add_name(feature_name *names, size_t *n, const char *name)
{
    if (has_name(names, *n, name)) return TD_OK;
    if (*n == TD_BATCH_FEATURES || strlen(name) >= TD_FEATURE_NAME_BYTES)
        return TD_FAIL(TD_ERR_LIMIT, "'%s' is too long a name, or one feature more than the %d of a batch",
                       name, TD_BATCH_FEATURES);
    snprintf(names[(*n)++], TD_FEATURE_NAME_BYTES, "%s", name);
    return TD_OK;
}

td_status td_data_want(td_data_settings *settings, const char *name)
{
    return add_name(settings->features, &settings->n_features, name);
}

td_status td_data_want_inner(td_data_settings *settings, const char *name)
{
    return add_name(settings->inner_features, &settings->n_inner_features, name);
}

td_status td_data_open(td_memory *memory, const td_data_settings *settings, td_data *data)
{
    const td_mel_config config = settings->mel.rate > 0 ? settings->mel : td_mel_config_default();
    const td_device_info *info = td_device_get_info(td_memory_device(memory));
    *data = (td_data){.settings = *settings, .memory = memory};
    TD_REFUSE_IF(settings->dataset.dir == NULL, TD_ERR_CONFIG, "no dataset was named; set data.train_data");
    TD_CHECK(td_pool_create(settings->workers, &data->pool));
    data->workers = td_pool_threads(data->pool);
    TD_CHECK(td_dataset_open(&settings->dataset, data->pool, &data->dataset));
    TD_CHECK(td_mel_create(memory, &config, &data->mel));
    for (size_t i = 0; i < settings->n_front_ends; ++i) {
        td_mel *further;
        TD_CHECK(td_mel_create(memory, &settings->front_ends[i].config, &further));
        data->front_ends[i] = (td_front_end){.name = settings->front_ends[i].name, .mel = further};
    }
    snprintf(data->device_key, sizeof data->device_key, "%s %s", info->selector, info->driver);
    return TD_OK;
}

void td_data_close(td_data *data)
{
    for (size_t i = 0; i < TD_DATA_FRONT_ENDS; ++i)
        td_mel_destroy((td_mel *)data->front_ends[i].mel);
    td_mel_destroy(data->mel);
    td_dataset_close(data->dataset);
    td_pool_destroy(data->pool);
    *data = (td_data){0};
}

td_status td_data_open_cache(const td_data *data, td_mel_cache **out)
{
    const td_mel_cache_settings settings = {.kind = data->settings.crop_frames ? TD_MEL_CACHE_NONE
                                                                               : data->settings.mel_cache,
                                            .max_bytes = data->settings.mel_cache_bytes,
                                            .cache_dir = data->settings.dataset.cache_dir,
                                            .config = *td_mel_get_config(data->mel),
                                            .has_energy = td_data_wants(&data->settings, "energy"),
                                            .has_pitch = td_data_wants(&data->settings, "pitch"),
                                            .device = data->device_key};
    return td_mel_cache_open(&settings, data->dataset, out);
}

/* Each row as often as crops of it lie side by side. *out: owned. */
static td_status list_crops(const td_sampler_row *rows, size_t n, uint32_t crop, td_sampler_row **out,
                            size_t *n_out)
{
    size_t total = 0;
    for (size_t i = 0; i < n; ++i)
        total += rows[i].frames > crop ? rows[i].frames / crop : 1;
    *n_out = 0;
    const td_status status = TD_NEW_ARRAY(out, total + 1);
    for (size_t i = 0; i < n && status == TD_OK; ++i)
        for (uint32_t k = 0; k == 0 || k < rows[i].frames / crop; ++k)
            (*out)[(*n_out)++] = (td_sampler_row){.row = rows[i].row, .frames = crop, .tokens = 1};
    return status;
}

static td_status open_crops(const td_sampler_settings *usual, const td_sampler_row *rows, size_t n,
                            uint32_t crop, td_sampler **out)
{
    td_sampler_settings settings = *usual;
    td_sampler_row *crops = NULL;
    size_t n_crops = 0;
    td_status status = TD_OK;
    settings.n_buckets = 1;
    settings.round_frames = 1;
    settings.max_frames = crop;
    settings.max_tokens = 0;
    TD_TRY(list_crops(rows, n, crop, &crops, &n_crops));
    TD_TRY(td_sampler_create(&settings, crops, n_crops, out));
fail:
    free(crops);
    return status;
}

td_status td_data_open_sampler(const td_data *data, const td_data_rows *rows, td_sampler **out)
{
    td_status status = TD_OK;
    td_sampler_row *lengths = NULL;
    const td_data_settings *s = &data->settings;
    const td_sampler_settings settings = {.batch_size = s->batch_size,
                                          .n_buckets = s->n_buckets > 0 ? s->n_buckets : N_BUCKETS,
                                          .round_frames = ROUND_FRAMES,
                                          .max_frames = s->max_mel_frames,
                                          .max_tokens = s->max_text_length,
                                          .last = rows->last,
                                          .in_order = rows->in_order,
                                          .seed = s->dataset.seed,
                                          .frames_per_step = s->frames_per_step};
    *out = NULL;
    TD_TRY(TD_NEW_ARRAY(&lengths, rows->n_rows + 1));
    td_loader_lengths(data->dataset, rows->rows, rows->n_rows, td_mel_get_config(data->mel), lengths);
    TD_TRY(s->crop_frames ? open_crops(&settings, lengths, rows->n_rows, s->crop_frames, out)
                          : td_sampler_create(&settings, lengths, rows->n_rows, out));
    TD_TRY(td_sampler_set_state(*out, rows->state));
fail:
    free(lengths);
    return status;
}

bool td_data_knows(const td_data *data, const char *name)
{
    return td_loader_knows(&(td_loader_settings){.mel = data->mel,
                                                 .front_ends = data->front_ends,
                                                 .n_front_ends = data->settings.n_front_ends,
                                                 .parts = data->parts,
                                                 .n_parts = data->n_parts},
                           name);
}

td_status td_data_open_loader(const td_data *data, const td_data_rows *rows, td_sampler *sampler,
                              td_loader **out)
{
    const td_data_settings *s = &data->settings;
    const char *features[TD_BATCH_FEATURES], *inner[TD_BATCH_FEATURES];
    for (size_t i = 0; i < s->n_features; ++i)
        features[i] = s->features[i];
    for (size_t i = 0; i < s->n_inner_features; ++i)
        inner[i] = s->inner_features[i];
    const td_loader_settings settings = {.dataset = data->dataset,
                                         .rows = rows->rows,
                                         .n_rows = rows->n_rows,
                                         .sampler = sampler,
                                         .batch_size = s->batch_size,
                                         .pool = rows->pool != NULL ? rows->pool : data->pool,
                                         .memory = data->memory,
                                         .mel = data->mel,
                                         .front_ends = data->front_ends,
                                         .n_front_ends = s->n_front_ends,
                                         .parts = data->parts,
                                         .n_parts = data->n_parts,
                                         .predictions = data->predictions,
                                         .cache = s->crop_frames ? NULL : rows->cache,
                                         .crop_frames = s->crop_frames,
                                         .features = features,
                                         .n_features = s->n_features,
                                         .inner_features = inner,
                                         .n_inner_features = s->n_inner_features,
                                         .n_ready = s->n_ready > 0 ? s->n_ready : N_READY,
                                         .reference_s = s->reference_s,
                                         .slice = s->slice,
                                         .is_slice_fixed = rows->in_order,
                                         .max_bad_fraction = s->dataset.max_bad_fraction,
                                         .seed = s->dataset.seed,
                                         .n_batches = rows->n_batches};
    return td_loader_create(&settings, out);
}
