/* One step written out: its batch, every parameter before, every gradient, every loss term, every parameter
 * after, with dropout off, so that it can be done again elsewhere from docs/model.md. A run that goes on from
 * a checkpoint adds the moments that it begins with; without them they are zero. See train.h. Covered by
 * tests/cli/test_train.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "device/blocking.h"
#include "train/train_internal.h"

/* ---------------------------------------------------------------- what is written */

enum { MAX_NAMES = TD_MAX_LEARNERS * (TD_PLAN_SCALARS + TD_BATCH_FEATURES) };

typedef struct dump {
    td_checkpoint_tensor_data *tensors; /* owned, and their data */
    size_t count, capacity;
    char names[MAX_NAMES][64]; /* of losses and of numbers that batches do not have */
    size_t n_names;
    td_safetensors_pair *pairs; /* owned, and their texts */
    size_t n_pairs, pair_capacity;
} dump;

#define ALL_LEARNERS UINT32_MAX

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

/* The same for a single number, whose name is copied. One that is there stays: learners share their inputs. */
static td_status add_number(dump *d, const char *prefix, const char *name, float number)
{
    float *value = NULL;
    for (size_t i = 0; i < d->count; ++i)
        if (strcmp(d->tensors[i].prefix, prefix) == 0 && strcmp(d->tensors[i].name, name) == 0) return TD_OK;
    TD_REFUSE_IF(d->n_names == MAX_NAMES, TD_ERR_LIMIT, "a step has more than %d numbers to write out",
                 MAX_NAMES);
    snprintf(d->names[d->n_names], sizeof d->names[0], "%s", name);
    TD_CHECK(TD_NEW_ARRAY(&value, 1));
    *value = number;
    return add(d, prefix, d->names[d->n_names++], TD_SAFETENSORS_F32, td_dims(1), value);
}

/* Of the parameters that a learner updates, or of all. */
static td_status add_block(dump *d, td_store *store, uint32_t learner, td_block block, const char *prefix)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < td_store_count(store); ++i) {
        const td_store_entry entry = td_store_get(store, i);
        float *values = NULL;
        if (entry.role != TD_TENSOR_PARAMETER || !td_store_has(store, i, block) ||
            (learner != ALL_LEARNERS && entry.learner != learner))
            continue;
        TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry.shape)));
        status = td_store_read(store, i, block, values);
        if (status != TD_OK) free(values);
        TD_TRY(status);
        TD_TRY(add(d, prefix, entry.name, TD_SAFETENSORS_F32, entry.shape, values));
    }
fail:
    return status;
}

/* Tokens, codes and places are signed in the file. */
static bool is_signed(const char *name)
{
    static const char *const NAMES[] = {"token_ids", "text_ids", "codes", "cond_range"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

static td_status add_batch(dump *d, td_trainer *t, const td_batch *batch)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < batch->n_features; ++i) {
        const td_feature *f = &batch->features[i];
        uint8_t *values = NULL;
        if (f->is_inner) continue;
        TD_TRY(TD_NEW_ARRAY(&values, f->span.bytes));
        status = td_blocking_read(t->model_memory, f->span, batch->ready, values);
        if (status != TD_OK) free(values);
        TD_TRY(status);
        TD_TRY(add(d, "batch.", f->name,
                   f->dtype == TD_F32   ? TD_SAFETENSORS_F32
                   : is_signed(f->name) ? TD_SAFETENSORS_I32
                                        : TD_SAFETENSORS_U32,
                   f->shape, values));
    }
fail:
    return status;
}

/* What batches do not have but the graph takes: as at the end of training, when all terms count. */
static td_status add_scalar_inputs(dump *d, const td_trainer *t, const td_graph *graph, const td_batch *batch)
{
    const td_model_config *model = &t->info.model;
    for (size_t i = 0; i < td_graph_input_count(graph); ++i) {
        const char *name = td_graph_name(graph, td_graph_input_at(graph, i));
        if (td_batch_find(batch, name) == NULL)
            TD_CHECK(add_number(d, "batch.", name, model->family->scalar(&model->values, name, UINT64_MAX)));
    }
    return TD_OK;
}

/* "loss.total" and "loss.TERM"; of several learners "loss.LEARNER.total" ... */
static td_status add_losses(dump *d, const td_trainer *t, size_t learner, const td_scalars *scalars)
{
    for (size_t i = 0; i < scalars->count; ++i) {
        const bool is_term = strncmp(scalars->names[i], "loss.", 5) == 0;
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", t->n_learners > 1 ? td_learner_name(t->learners[learner]) : "",
                 t->n_learners > 1 ? "." : "", is_term ? scalars->names[i] + 5 : "total");
        TD_CHECK(add_number(d, "loss.", name, scalars->values[i]));
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- the step */

/* One learner's losses and gradients, then its update. Where there are several, what one updates the next
 * sees, as in training. */
static td_status run_learner(td_trainer *t, size_t number, const td_batch *batch, dump *d, td_point *taken)
{
    td_learner *learner = t->learners[number];
    td_shaped_plan *shaped;
    td_scalars scalars;
    uint32_t slot;
    TD_CHECK(td_learner_plan(learner, TD_USE_TRAIN, &batch->shape, &shaped));
    TD_CHECK(td_learner_bind(learner, shaped, batch, UINT64_MAX, &slot));
    TD_CHECK(add_scalar_inputs(d, t, shaped->graph, batch));
    TD_CHECK(td_plan_run(shaped->plan, &(td_run){.slot = slot, .waits = &batch->ready, .n_waits = 1}, NULL));
    TD_CHECK(td_plan_scalars(shaped->plan, 0, &scalars));
    TD_CHECK(add_losses(d, t, number, &scalars));
    TD_CHECK(add_block(d, t->store, (uint32_t)number, TD_BLOCK_GRADIENT, "grad."));
    TD_CHECK(td_optimizer_step(td_learner_optimizer(learner), (float)td_learner_rate(learner, t->state.step),
                               NULL));
    *taken = td_plan_taken(shaped->plan, slot);
    return TD_OK;
}

static td_status run_step(td_trainer *t, dump *d)
{
    td_batch batch;
    td_point taken = {0};
    TD_CHECK(td_batches_next(&t->train, &batch));
    TD_CHECK(add_batch(d, t, &batch));
    TD_CHECK(add_block(d, t->store, ALL_LEARNERS, TD_BLOCK_WEIGHT, "param."));
    if (t->resumes) {
        TD_CHECK(add_block(d, t->store, ALL_LEARNERS, TD_BLOCK_MOMENT1, "moment1."));
        TD_CHECK(add_block(d, t->store, ALL_LEARNERS, TD_BLOCK_MOMENT2, "moment2."));
    }
    for (size_t i = 0; i < t->n_learners; ++i)
        TD_CHECK(run_learner(t, i, &batch, d, &taken));
    TD_CHECK(add_block(d, t->store, ALL_LEARNERS, TD_BLOCK_WEIGHT, "updated."));
    td_batches_release(&t->train, &batch, taken);
    return TD_OK;
}

/* ---------------------------------------------------------------- metadata */

static td_status copy_text(const char *text, const char **out)
{
    char *copy = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&copy, strlen(text) + 1));
    memcpy(copy, text, strlen(text) + 1);
fail:
    *out = copy;
    return status;
}

/* "train.KEY", or "train.LEARNER.KEY" where a learner is named. */
static td_status add_pair(dump *d, const char *learner, const char *key, const char *value)
{
    char name[96];
    snprintf(name, sizeof name, "train.%s%s%s", learner ? learner : "", learner ? "." : "", key);
    TD_CHECK(td_alloc_grow(&d->pairs, &d->pair_capacity, d->n_pairs + 1, sizeof *d->pairs));
    td_safetensors_pair *pair = &d->pairs[d->n_pairs++];
    *pair = (td_safetensors_pair){0};
    TD_CHECK(copy_text(name, &pair->key));
    return copy_text(value, &pair->value);
}

static td_status add_whole(dump *d, const char *learner, const char *key, uint64_t value)
{
    char text[TD_TEXT_FORMAT_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return add_pair(d, learner, key, text);
}

/* How a learner updates, and how often it has. */
static td_status describe_learner(dump *d, td_trainer *t, size_t number)
{
    const td_learner *learner = t->learners[number];
    const char *name = t->n_learners > 1 ? td_learner_name(learner) : NULL;
    const td_optimizer_options *o = &td_learner_pace(learner)->optimizer;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"lr", td_learner_rate(learner, t->state.step)},
                   {"beta1", (double)o->beta1},
                   {"beta2", (double)o->beta2},
                   {"eps", (double)o->eps},
                   {"weight_decay", (double)o->decay},
                   {"grad_clip", (double)o->max_norm}};
    uint32_t control[TD_CONTROL_WORDS];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
        char text[TD_TEXT_FORMAT_BYTES];
        td_text_format_double(numbers[i].value, text);
        TD_CHECK(add_pair(d, name, numbers[i].key, text));
    }
    TD_CHECK(td_store_read_control(t->store, number, control));
    return add_whole(d, name, "updates", control[TD_CONTROL_STEPS]);
}

/* The family's keys that checkpoints do not have: weights of the loss terms, and how they are measured. */
static td_status describe_losses(dump *d, const td_trainer *t)
{
    const td_model_config *model = &t->info.model;
    for (size_t i = 0; i < model->family->n_keys; ++i) {
        char value[TD_MODEL_VALUE_BYTES];
        if (strcmp(model->family->keys[i].section, "model") == 0) continue;
        td_model_config_get(model, i, value);
        TD_CHECK(add_pair(d, NULL, model->family->keys[i].name, value));
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- the whole */

static void free_dump(dump *d)
{
    for (size_t i = 0; i < d->count; ++i)
        free((void *)d->tensors[i].data);
    for (size_t i = 0; i < d->n_pairs; ++i) {
        free((void *)d->pairs[i].key);
        free((void *)d->pairs[i].value);
    }
    free(d->tensors);
    free(d->pairs);
}

td_status td_trainer_dump(td_trainer *t)
{
    td_status status = TD_OK;
    dump d = {0};
    td_checkpoint_info info = t->info;
    info.rest = NULL; /* the step alone */
    TD_TRY(add_whole(&d, NULL, "seed", t->s.seed));
    TD_TRY(add_whole(&d, NULL, "step", t->state.step));
    for (size_t i = 0; i < t->n_learners; ++i)
        TD_TRY(describe_learner(&d, t, i));
    TD_TRY(describe_losses(&d, t));
    TD_TRY(run_step(t, &d));
    TD_TRY(td_checkpoint_write(t->s.dump_step, &info, d.pairs, d.n_pairs, d.tensors, d.count));
    t->result->reason = TD_END_DUMPED;
fail:
    free_dump(&d);
    return status;
}
