/* See step_dump.h. */
#include "tools/step_dump.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/safetensors.h"

typedef struct dump {
    td_safetensors_writer *writer;
    td_store *store;
    float *values; /* room for any entry */
} dump;

static td_status declare(const dump *d, const char *group, const char *name, td_safetensors_dtype dtype,
                         td_shape shape)
{
    uint64_t dims[4];
    char full[160];
    for (size_t i = 0; i < shape.n_dims; i++)
        dims[i] = shape.dims[i];
    snprintf(full, sizeof full, "%s.%.140s", group, name);
    return td_safetensors_writer_add_tensor(d->writer, full, dtype, shape.n_dims, dims);
}

static td_status write(const dump *d, const char *group, const char *name, const void *data, size_t words)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%.140s", group, name);
    return td_safetensors_writer_write(d->writer, full, data, 4 * words);
}

static td_status write_block(const dump *d, const char *group, td_block block)
{
    for (size_t i = 0; i < td_store_count(d->store); i++) {
        const td_store_entry e = td_store_get(d->store, i);
        TD_CHECK(td_store_read(d->store, i, block, d->values));
        TD_CHECK(write(d, group, e.name, d->values, (size_t)td_shape_size(e.shape)));
    }
    return TD_OK;
}

/* Names and shapes come first, in the order of the data. */
static td_status declare_all(dump *d, const td_step_work *work)
{
    static const char *const groups[] = {"param", "grad", "updated"};
    size_t most = 1;
    for (size_t i = 0; i < work->n_inputs; i++) {
        const td_step_input *in = &work->inputs[i];
        TD_CHECK(declare(d, "batch", td_graph_name(work->graph, in->tensor),
                         in->is_uint ? TD_SAFETENSORS_U32 : TD_SAFETENSORS_F32,
                         td_graph_shape(work->graph, in->tensor)));
    }
    TD_CHECK(declare(d, "loss", "total", TD_SAFETENSORS_F32, td_dims(1)));
    for (size_t g = 0; g < 3; g++) {
        for (size_t i = 0; i < td_store_count(d->store); i++) {
            const td_store_entry e = td_store_get(d->store, i);
            const size_t n = (size_t)td_shape_size(e.shape);
            most = n > most ? n : most;
            TD_CHECK(declare(d, groups[g], e.name, TD_SAFETENSORS_F32, e.shape));
        }
    }
    return TD_NEW_ARRAY(&d->values, most);
}

static td_status step_once(td_plan *plan, td_optimizer *optimizer)
{
    TD_CHECK(td_plan_run(plan, &(td_run){0}, NULL));
    return td_optimizer_step(optimizer, 1e-3f, NULL);
}

td_status td_step_dump(const char *path, const td_step_work *work, td_store *store, td_plan *plan,
                       td_optimizer *optimizer)
{
    dump d = {.store = store};
    td_scalars scalars;
    td_status status = TD_OK;
    TD_TRY(td_safetensors_writer_open(path, &d.writer));
    TD_TRY(declare_all(&d, work));
    for (size_t i = 0; i < work->n_inputs; i++)
        TD_TRY(write(&d, "batch", td_graph_name(work->graph, work->inputs[i].tensor), work->inputs[i].words,
                     work->inputs[i].n));
    TD_TRY(td_plan_run(plan, &(td_run){0}, NULL));
    TD_TRY(td_plan_scalars(plan, td_plan_runs(plan) - 1, &scalars));
    TD_TRY(write(&d, "loss", "total", scalars.values, 1));
    TD_TRY(write_block(&d, "param", TD_BLOCK_WEIGHT));
    TD_TRY(write_block(&d, "grad", TD_BLOCK_GRADIENT));
    for (uint32_t i = 0; i < TD_STEP_DUMP_UPDATES; i++)
        TD_TRY(step_once(plan, optimizer));
    TD_TRY(td_plan_scalars(plan, td_plan_runs(plan) - 1, &scalars));
    TD_TRY(write_block(&d, "updated", TD_BLOCK_WEIGHT));
    TD_TRY(td_safetensors_writer_commit(d.writer));
fail:
    td_safetensors_writer_close(d.writer);
    free(d.values);
    return status;
}
