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
    td_checkpoint_tensor_data *tensors; /* owned, and their data */
    size_t n_tensors, capacity;
};

static td_status build_part(void *context, const td_batch_shape *shape, td_graph **graph, td_tensor *output)
{
    const maker *m = context;
    return td_family_frozen_graph(m->model, m->number, shape, graph, output);
}

/* ---------------------------------------------------------------- values */

/* Tensors of another model that fit; the others keep what the seed gave. */
static td_status take_part(td_store *store, const char *part, const td_checkpoint *from)
{
    size_t n_taken = 0;
    for (size_t i = 0; i < td_store_count(store); ++i) {
        bool taken = false;
        if (td_store_get(store, i).role == TD_TENSOR_PARAMETER)
            TD_CHECK(td_checkpoint_take(from, store, i, &taken));
        n_taken += taken;
    }
    if (n_taken == 0) td_log_warn("'%s' has nothing for %s", td_checkpoint_path(from), part);
    return TD_OK;
}

static td_status fill_part(td_store *store, const char *part, uint64_t seed, const td_checkpoint *from,
                           bool resumes)
{
    TD_CHECK(td_store_init(store, seed));
    if (from != NULL)
        TD_CHECK(resumes ? td_checkpoint_load(from, store, TD_BLOCK_WEIGHT) : take_part(store, part, from));
    return TD_OK;
}

static td_status keep_tensor(td_frozen *f, td_store *store, size_t i)
{
    td_status status = TD_OK;
    float *values = NULL;
    const td_store_entry entry = td_store_get(store, i);
    if (entry.role != TD_TENSOR_PARAMETER) return TD_OK;
    TD_TRY(td_alloc_grow(&f->tensors, &f->capacity, f->n_tensors + 1, sizeof *f->tensors));
    TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry.shape)));
    TD_TRY(td_store_read(store, i, TD_BLOCK_WEIGHT, values));
    td_checkpoint_tensor_data *t = &f->tensors[f->n_tensors++];
    *t = (td_checkpoint_tensor_data){.prefix = "param.",
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
        TD_TRY(fill_part(part->store, part->name, seed, from, resumes));
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
    pthread_mutex_destroy(&f->lock);
    free(f->tensors);
    free(f);
}

/* ---------------------------------------------------------------- use */

void td_frozen_join(const td_frozen *f, td_data *data)
{
    if (f == NULL) return;
    data->parts = f->parts;
    data->n_parts = f->n_parts;
}

const td_checkpoint_tensor_data *td_frozen_tensors(const td_frozen *f, size_t *count)
{
    *count = f != NULL ? f->n_tensors : 0;
    return f != NULL ? f->tensors : NULL;
}
