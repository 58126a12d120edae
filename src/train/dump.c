/* One step written out: its batch, every parameter before, every gradient, every loss term, every parameter
 * after, with dropout off, so that it can be done again elsewhere from docs/model.md. See train.h. Covered by
 * tests/cli/test_train.py. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "device/blocking.h"
#include "train/train_internal.h"

enum { MAX_BATCH_TENSORS = 9 };

/* ---------------------------------------------------------------- what is written */

typedef struct dump {
    td_checkpoint_tensor_data *tensors; /* owned, and their data */
    size_t count, capacity;
} dump;

/* `data` is taken over. */
static td_status add(dump *d, const char *prefix, const char *name, td_safetensors_dtype dtype,
                     td_shape shape, void *data)
{
    const td_status status = td_alloc_grow(&d->tensors, &d->capacity, d->count + 1, sizeof *d->tensors);
    if (status != TD_OK) {
        free(data);
        return status;
    }
    td_checkpoint_tensor_data *t = &d->tensors[d->count++];
    *t = (td_checkpoint_tensor_data){.prefix = prefix,
                                     .name = name,
                                     .dtype = dtype,
                                     .rank = shape.n_dims,
                                     .data = data,
                                     .bytes = 4 * td_shape_size(shape)};
    for (size_t i = 0; i < t->rank; ++i)
        t->dims[i] = shape.dims[i];
    return TD_OK;
}

static td_status add_block(dump *d, td_store *store, td_block block, const char *prefix)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < td_store_count(store); ++i) {
        const td_store_entry entry = td_store_get(store, i);
        float *values = NULL;
        if (entry.role != TD_TENSOR_PARAMETER || td_store_span(store, i, block).buffer == NULL) continue;
        TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry.shape)));
        status = td_store_read(store, i, block, values);
        if (status != TD_OK) free(values);
        TD_TRY(status);
        TD_TRY(add(d, prefix, entry.name, TD_SAFETENSORS_F32, entry.shape, values));
    }
fail:
    return status;
}

static td_status add_batch(dump *d, td_trainer *t, const td_model_graph *g, const td_batch *batch)
{
    td_status status = TD_OK;
    const struct {
        const char *name;
        td_safetensors_dtype dtype;
        td_tensor tensor;
        td_span span;
    } parts[MAX_BATCH_TENSORS] = {
        {"token_ids", TD_SAFETENSORS_I32, g->in.token_ids, batch->token_ids},
        {"token_counts", TD_SAFETENSORS_U32, g->in.token_counts, batch->token_counts},
        {"frame_counts", TD_SAFETENSORS_U32, g->in.frame_counts, batch->frame_counts},
        {"speakers", TD_SAFETENSORS_U32, g->in.speakers, batch->speakers},
        {"mel", TD_SAFETENSORS_F32, g->in.mel, batch->mel},
        {"energy", TD_SAFETENSORS_F32, g->in.energy, batch->energy},
        {"pitch", TD_SAFETENSORS_F32, g->in.pitch, batch->pitch},
        {"reference_mel", TD_SAFETENSORS_F32, g->in.reference_mel, batch->reference_mel},
        {"reference_counts", TD_SAFETENSORS_U32, g->in.reference_counts, batch->reference_counts},
    };
    for (size_t i = 0; i < MAX_BATCH_TENSORS; ++i) {
        uint8_t *values = NULL;
        if (parts[i].tensor.id == 0) continue;
        TD_TRY(TD_NEW_ARRAY(&values, parts[i].span.bytes));
        status = td_blocking_read(t->model_memory, parts[i].span, batch->ready, values);
        if (status != TD_OK) free(values);
        TD_TRY(status);
        TD_TRY(add(d, "batch.", parts[i].name, parts[i].dtype, td_graph_shape(g->graph, parts[i].tensor),
                   values));
    }
fail:
    return status;
}

static td_status add_losses(dump *d, const td_scalars *scalars)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < scalars->count; ++i) {
        float *value = NULL;
        TD_TRY(TD_NEW_ARRAY(&value, 1));
        *value = scalars->values[i];
        const bool is_term = strncmp(scalars->names[i], "loss.", 5) == 0;
        TD_TRY(add(d, "loss.", is_term ? scalars->names[i] + 5 : "total", TD_SAFETENSORS_F32, td_dims(1),
                   value));
    }
fail:
    return status;
}

/* ---------------------------------------------------------------- the step */

/* The gradients alone first, then the same once more with the update: on one device they are the same bits.
 */
static td_status run_step(td_trainer *t, dump *d)
{
    td_status status = TD_OK;
    td_batch batch;
    td_shaped_plan *shaped;
    td_scalars scalars;
    uint32_t slot;
    td_run run = {.learning_rate = (float)td_schedule_lr(&t->s.schedule, t->state.step), .n_waits = 1};
    TD_TRY(td_lane_next(&t->train_lane, &batch));
    const td_model_shape shape = td_trainer_shape(t, &batch);
    TD_TRY(td_plans_get(t->plans, TD_USE_TRAIN, &shape, &shaped));
    TD_TRY(td_shaped_plan_bind(shaped, &batch, &slot));
    TD_TRY(td_trainer_fill_weights(shaped, slot, true));
    run.slot = slot;
    run.waits = &batch.ready;
    TD_TRY(add_batch(d, t, &shaped->graph, &batch));
    TD_TRY(add_block(d, t->store, TD_BLOCK_WEIGHT, "param."));
    TD_TRY(td_plan_run(shaped->plan, &run, NULL));
    TD_TRY(td_plan_scalars(shaped->plan, 0, &scalars));
    TD_TRY(add_losses(d, &scalars));
    TD_TRY(add_block(d, t->store, TD_BLOCK_GRADIENT, "grad."));
    run.optimizer = t->optimizer;
    TD_TRY(td_plan_run(shaped->plan, &run, NULL));
    TD_TRY(add_block(d, t->store, TD_BLOCK_WEIGHT, "updated."));
    td_lane_release(&t->train_lane, &batch, td_plan_taken(shaped->plan, slot));
fail:
    return status;
}

static td_status write_dump(td_trainer *t, dump *d)
{
    td_status status = TD_OK;
    const td_optimizer_options *o = &t->s.optimizer;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"train.lr", td_schedule_lr(&t->s.schedule, t->state.step)},
                   {"train.beta1", (double)o->beta1},
                   {"train.beta2", (double)o->beta2},
                   {"train.eps", (double)o->eps},
                   {"train.weight_decay", (double)o->decay},
                   {"train.grad_clip", (double)o->max_norm}};
    enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };
    td_safetensors_pair pairs[N_NUMBERS];
    char values[N_NUMBERS][TD_TEXT_FORMAT_BYTES];
    for (size_t i = 0; i < N_NUMBERS; ++i) {
        td_text_format_double(numbers[i].value, values[i]);
        pairs[i] = (td_safetensors_pair){numbers[i].key, values[i]};
    }
    TD_TRY(td_checkpoint_write(t->s.dump_step, &t->info, pairs, N_NUMBERS, d->tensors, d->count));
fail:
    return status;
}

td_status td_trainer_dump(td_trainer *t)
{
    td_status status = TD_OK;
    dump d = {0};
    TD_TRY(run_step(t, &d));
    TD_TRY(write_dump(t, &d));
    t->result->reason = TD_END_DUMPED;
fail:
    for (size_t i = 0; i < d.count; ++i)
        free((void *)d.tensors[i].data);
    free(d.tensors);
    return status;
}
