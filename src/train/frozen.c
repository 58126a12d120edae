/* See frozen.h. */
#include "train/frozen.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

enum { MAX_PARTS = 4 };

/* What builds one part. */
typedef struct maker {
    const td_model_config *model;
    size_t number;
} maker;

struct td_frozen {
    td_frozen_part parts[MAX_PARTS]; /* stores: owned */
    maker makers[MAX_PARTS];
    size_t n_parts;
    pthread_mutex_t lock;
    td_blob_cache *kept;                /* what parts made of recordings; NULL: nothing is kept */
    td_checkpoint_tensor_data *tensors; /* owned, and their data */
    size_t n_tensors, capacity;
    size_t n_taken; /* of what a run is initialised from */
};

static td_status build_part(void *context, const td_batch_shape *shape, td_graph **graph, td_tensor *output)
{
    const maker *m = context;
    return td_family_frozen_graph(m->model, m->number, shape, graph, output);
}

/* ---------------------------------------------------------------- values */

/* Parameters and running statistics: what files hold. */
static bool is_filed(const td_store_entry *entry)
{
    return entry->role == TD_TENSOR_PARAMETER || entry->state_kind == TD_STATE_KEPT;
}

/* All tensors of another model, or none, and what the seed gave is kept: what a part makes with half of its parameters is
 * of no use to anybody. A model of the same family has them. */
static td_status take_part(td_frozen *f, size_t part, const td_checkpoint *from)
{
    td_store *store = f->parts[part].store;
    const char *lacks = NULL;
    size_t n_taken = 0;
    for (size_t i = 0; i < td_store_count(store); ++i) {
        const td_store_entry entry = td_store_get(store, i);
        bool taken = false;
        if (!is_filed(&entry)) continue;
        TD_CHECK(td_checkpoint_take(from, store, i, &taken));
        n_taken += taken;
        if (!taken && lacks == NULL) lacks = entry.name;
    }
    const bool is_same = td_checkpoint_get_info(from)->model.family == f->makers[part].model->family;
    TD_REFUSE_IF(lacks != NULL && (is_same || n_taken > 0), TD_ERR_CONFIG,
                 "'%s' has no %s in the shape that '%s' is made with", td_checkpoint_path(from), lacks,
                 f->parts[part].name);
    if (lacks != NULL) td_log_warn("'%s' has nothing for %s", td_checkpoint_path(from), f->parts[part].name);
    f->n_taken += n_taken;
    return TD_OK;
}

static td_status fill_part(td_frozen *f, size_t part, uint64_t seed, const td_checkpoint *from, bool resumes)
{
    td_store *store = f->parts[part].store;
    TD_CHECK(td_store_init(store, seed));
    if (from == NULL) return TD_OK;
    if (resumes) return td_checkpoint_load(from, store, TD_BLOCK_WEIGHT);
    return take_part(f, part, from);
}

static const td_checkpoint_tensor_data *find_kept(const td_frozen *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; ++i)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

/* Once, though several parts have it. */
static td_status keep_tensor(td_frozen *f, td_store *store, size_t i)
{
    td_status status = TD_OK;
    float *values = NULL;
    const td_store_entry entry = td_store_get(store, i);
    if (!is_filed(&entry) || find_kept(f, entry.name) != NULL) return TD_OK;
    TD_TRY(td_alloc_grow(&f->tensors, &f->capacity, f->n_tensors + 1, sizeof *f->tensors));
    TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry.shape)));
    TD_TRY(td_store_read(store, i, TD_BLOCK_WEIGHT, values));
    td_checkpoint_tensor_data *t = &f->tensors[f->n_tensors++];
    *t = (td_checkpoint_tensor_data){.prefix = entry.role == TD_TENSOR_PARAMETER ? "param." : "state.",
                                     .name = entry.name,
                                     .dtype = TD_SAFETENSORS_F32,
                                     .rank = entry.shape.n_dims,
                                     .data = values,
                                     .bytes = sizeof(float) * td_shape_size(entry.shape)};
    for (size_t d = 0; d < t->rank; ++d)
        t->dims[d] = entry.shape.dims[d];
    return TD_OK;
fail:
    free(values);
    return status;
}

/* ---------------------------------------------------------------- life */

static td_status open_part(td_frozen *f, td_memory *memory, const td_model_config *model)
{
    td_status status = TD_OK;
    td_graph *graph = NULL;
    td_tensor output;
    const size_t i = f->n_parts;
    f->makers[i] = (maker){.model = model, .number = i};
    f->parts[i] = (td_frozen_part){.name = model->family->frozen[i].name,
                                   .lock = &f->lock,
                                   .build = build_part,
                                   .context = &f->makers[i]};
    TD_TRY(td_family_frozen_graph(model, i, NULL, &graph, &output));
    TD_TRY(td_store_create(memory, graph, &(td_store_options){0}, &f->parts[i].store));
    ++f->n_parts;
fail:
    td_graph_destroy(graph);
    return status;
}

td_status td_frozen_open(td_memory *memory, const td_model_config *model, uint64_t seed,
                         const td_checkpoint *from, bool resumes, td_frozen **out)
{
    td_status status = TD_OK;
    td_frozen *f = NULL;
    *out = NULL;
    if (model->family->n_frozen == 0) return TD_OK;
    TD_FAIL_IF(model->family->n_frozen > MAX_PARTS, TD_ERR_LIMIT, "family %s has more than %d frozen parts",
               model->family->name, MAX_PARTS);
    TD_TRY(TD_NEW(&f));
    pthread_mutex_init(&f->lock, NULL);
    while (f->n_parts < model->family->n_frozen) {
        TD_TRY(open_part(f, memory, model));
        const td_frozen_part *part = &f->parts[f->n_parts - 1];
        TD_TRY(fill_part(f, f->n_parts - 1, seed, from, resumes));
        for (size_t i = 0; i < td_store_count(part->store); ++i)
            TD_TRY(keep_tensor(f, part->store, i));
    }
    *out = f;
    return TD_OK;
fail:
    td_frozen_close(f);
    return status;
}

void td_frozen_close(td_frozen *f)
{
    if (f == NULL) return;
    for (size_t i = 0; i < f->n_tensors; ++i)
        free((void *)f->tensors[i].data);
    for (size_t i = 0; i < f->n_parts; ++i)
        td_store_destroy(f->parts[i].store);
    td_blob_cache_close(f->kept);
    pthread_mutex_destroy(&f->lock);
    free(f->tensors);
    free(f);
}

/* ---------------------------------------------------------------- use */

/* Of all that decides what a part makes but the recording: its parameters, the front ends, and the device, whose
 * last bits are its own. */
static td_status make_key(const td_frozen *f, size_t part, const td_data *data, td_digest *out)
{
    const td_store *store = f->parts[part].store;
    char config[TD_MEL_CONFIG_TEXT_BYTES];
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_string(&hasher, f->makers[part].model->family->name);
    td_hasher_string(&hasher, f->parts[part].name);
    td_hasher_string(&hasher, data->device_key);
    td_mel_config_format(td_mel_get_config(data->mel), config);
    td_hasher_string(&hasher, config);
    for (size_t i = 0; i < data->settings.n_front_ends; ++i) {
        td_mel_config_format(&data->settings.front_ends[i].config, config);
        td_hasher_string(&hasher, config);
    }
    for (size_t i = 0; i < td_store_count(store); ++i) {
        const td_store_entry entry = td_store_get(store, i);
        const td_checkpoint_tensor_data *t = find_kept(f, entry.name);
        if (t == NULL) continue;
        td_hasher_string(&hasher, t->name);
        td_hasher_bytes(&hasher, t->data, t->bytes);
    }
    *out = td_hasher_digest(&hasher);
    return TD_OK;
}

static td_status open_kept(td_frozen *f, const td_data *data)
{
    const td_family *family = f->makers[0].model->family;
    char path[TD_FILE_PATH_BYTES];
    if (f->kept != NULL || data->settings.dataset.cache_dir == NULL) return TD_OK;
    if (snprintf(path, sizeof path, "%s/features", data->settings.dataset.cache_dir) >= (int)sizeof path)
        return TD_OK;
    TD_CHECK(td_blob_cache_open(path, &f->kept));
    for (size_t i = 0; i < f->n_parts; ++i) {
        if (!family->frozen[i].is_kept) continue;
        f->parts[i].kept = f->kept;
        TD_CHECK(make_key(f, i, data, &f->parts[i].key));
    }
    return TD_OK;
}

td_status td_frozen_join(td_frozen *f, td_data *data)
{
    if (f == NULL) return TD_OK;
    TD_CHECK(open_kept(f, data));
    data->parts = f->parts;
    data->n_parts = f->n_parts;
    return TD_OK;
}

const td_checkpoint_tensor_data *td_frozen_tensors(const td_frozen *f, size_t *count)
{
    *count = f != NULL ? f->n_tensors : 0;
    return f != NULL ? f->tensors : NULL;
}

size_t td_frozen_taken(const td_frozen *f)
{
    return f != NULL ? f->n_taken : 0;
}
