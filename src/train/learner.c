/* See learner.h. */
#include "train/learner.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_PLANS = 48 };

struct td_learner {
    td_learner_settings settings;
    td_optimizer *optimizer;
    td_shaped_plan *items[MAX_PLANS]; /* owned */
    size_t count;
    uint64_t clock;
};

/* ---------------------------------------------------------------- life */

td_status td_learner_open(const td_learner_settings *settings, td_learner **out)
{
    td_status status = TD_OK;
    td_learner *learner = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&learner));
    learner->settings = *settings;
    if (learner->settings.grad_accum == 0) learner->settings.grad_accum = 1;
    if (learner->settings.n_slots == 0) learner->settings.n_slots = 1;
    const td_learner_row *row = &settings->model.family->learners[settings->number];
    td_pace *pace = &learner->settings.pace;
    if (row->adjust != NULL) row->adjust(&settings->model.values, pace);
    pace->optimizer.shards = settings->shards;
    pace->optimizer.in_backward = settings->in_backward;
    TD_TRY(td_schedule_check(&pace->schedule));
    TD_TRY(td_optimizer_create(settings->store, settings->number, &pace->optimizer, &learner->optimizer));
    *out = learner;
    return TD_OK;
fail:
    td_learner_close(learner);
    return status;
}

static void destroy_item(td_shaped_plan *item)
{
    if (item == NULL) return;
    td_plan_destroy(item->plan);
    td_graph_destroy(item->graph);
    free(item->bound);
    free(item);
}

void td_learner_close(td_learner *learner)
{
    if (learner == NULL) return;
    for (size_t i = 0; i < learner->count; ++i)
        destroy_item(learner->items[i]);
    td_optimizer_destroy(learner->optimizer);
    free(learner);
}

const char *td_learner_name(const td_learner *learner)
{
    return learner->settings.model.family->learners[learner->settings.number].name;
}

td_optimizer *td_learner_optimizer(const td_learner *learner)
{
    return learner->optimizer;
}

const td_pace *td_learner_pace(const td_learner *learner)
{
    return &learner->settings.pace;
}

double td_learner_rate(const td_learner *learner, uint64_t step)
{
    return td_schedule_lr(&learner->settings.pace.schedule, step);
}

/* ---------------------------------------------------------------- plans */

static td_status make_item(const td_learner *learner, td_plan_use use, const td_batch_shape *shape,
                           td_shaped_plan **out)
{
    td_status status = TD_OK;
    const td_learner_settings *s = &learner->settings;
    td_shaped_plan *item = NULL;
    td_plan_options options = s->plan;
    const td_build build = {.config = &s->model,
                            .shape = *shape,
                            .learner = s->number,
                            .seed = s->seed,
                            .dropout = use == TD_USE_TRAIN && !s->no_dropout,
                            .backward = use == TD_USE_TRAIN,
                            .backward_scaled = s->plan.half == TD_F16,
                            .backward_scale = 1.0F / (float)s->grad_accum,
                            .weighs = use == TD_USE_TRAIN && s->grad_accum > 1,
                            .freeze = s->freeze};
    options.learner = s->number;
    options.forward_only = options.averaged = use == TD_USE_VALIDATE;
    options.slots = s->n_slots;
    options.buckets = use == TD_USE_TRAIN ? s->buckets : NULL;
    options.sums_gradients = use == TD_USE_TRAIN && s->grad_accum > 1 && s->buckets == NULL;
    options.updates = use == TD_USE_TRAIN && s->in_backward ? learner->optimizer : NULL;
    options.cuts_reads |= s->shards != NULL;
    TD_TRY(TD_NEW(&item));
    item->use = use;
    item->shape = *shape;
    item->n_slots = options.slots;
    TD_TRY(TD_NEW_ARRAY(&item->bound, item->n_slots));
    TD_TRY(td_family_build(&build, &item->graph));
    TD_TRY(td_plan_create(s->store, item->graph, &options, &item->plan));
    *out = item;
    return TD_OK;
fail:
    destroy_item(item);
    return status;
}

td_status td_learner_plan(td_learner *learner, td_plan_use use, const td_batch_shape *shape,
                          td_shaped_plan **out)
{
    size_t oldest = 0;
    *out = NULL;
    for (size_t i = 0; i < learner->count; ++i) {
        td_shaped_plan *item = learner->items[i];
        if (item->use == use && td_batch_shape_equal(&item->shape, shape)) {
            item->used = ++learner->clock;
            *out = item;
            return TD_OK;
        }
        if (item->used < learner->items[oldest]->used) oldest = i;
    }
    if (learner->count == MAX_PLANS) {
        destroy_item(learner->items[oldest]);
        learner->items[oldest] = learner->items[--learner->count];
    }
    TD_CHECK(make_item(learner, use, shape, out));
    (*out)->used = ++learner->clock;
    learner->items[learner->count++] = *out;
    return TD_OK;
}

/* ---------------------------------------------------------------- batches */

static bool is_same_span(td_span a, td_span b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
}

static td_status bind_features(td_shaped_plan *shaped, const td_batch *batch, uint32_t slot)
{
    shaped->bound[slot] = (td_span){0};
    for (size_t i = 0; i < td_graph_input_count(shaped->graph); ++i) {
        const td_tensor input = td_graph_input_at(shaped->graph, i);
        const td_feature *feature = td_batch_find(batch, td_graph_name(shaped->graph, input));
        if (feature != NULL) TD_CHECK(td_plan_bind(shaped->plan, slot, input, feature->span));
    }
    shaped->bound[slot] = batch->features[0].span;
    return TD_OK;
}

static td_status fill_scalars(const td_learner *learner, td_shaped_plan *shaped, const td_batch *batch,
                              uint64_t step, uint32_t slot)
{
    const td_model_config *model = &learner->settings.model;
    for (size_t i = 0; i < td_graph_input_count(shaped->graph); ++i) {
        const td_tensor input = td_graph_input_at(shaped->graph, i);
        const char *name = td_graph_name(shaped->graph, input);
        if (td_batch_find(batch, name) != NULL) continue;
        const float *share = td_batch_share(batch, name);
        if (share == NULL && model->family->scalar == NULL) continue;
        const float value = share != NULL ? *share : model->family->scalar(&model->values, name, step);
        TD_CHECK(td_plan_fill(shaped->plan, slot, input, &value));
    }
    return TD_OK;
}

td_status td_learner_bind(const td_learner *learner, td_shaped_plan *shaped, const td_batch *batch,
                          uint64_t step, uint32_t *slot)
{
    *slot = 0;
    while (*slot < shaped->n_slots && !is_same_span(shaped->bound[*slot], batch->features[0].span))
        ++*slot;
    if (*slot == shaped->n_slots) {
        *slot = shaped->next_slot;
        shaped->next_slot = (*slot + 1) % shaped->n_slots;
        TD_CHECK(bind_features(shaped, batch, *slot));
    }
    return fill_scalars(learner, shaped, batch, step, *slot);
}
