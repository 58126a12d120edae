/* See plans.h. */
#include "train/plans.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_PLANS = 48 };

struct td_plans {
    td_plans_settings settings;
    td_store *store;
    td_shaped_plan *items[MAX_PLANS]; /* owned */
    size_t count;
    uint64_t clock;
};

static td_status build_graph(const td_plans_settings *s, td_plan_use use, const td_model_shape *shape,
                             td_model_graph *out)
{
    const td_model_options options = {
        .seed = s->seed,
        .dropout = use == TD_USE_TRAIN && !s->no_dropout,
        .backward = use == TD_USE_TRAIN,
        .backward_scaled = s->plan.half == TD_F16,
        .backward_scale = s->grad_accum > 1 ? 1.0F / (float)s->grad_accum : 1.0F,
        .freeze = s->freeze,
        .n_freeze = s->n_freeze,
    };
    return td_model_train_graph(&s->model, &s->losses, shape, &options, out);
}

td_status td_plans_create(const td_plans_settings *settings, const td_model_shape *shape, td_plans **out)
{
    td_status status = TD_OK;
    td_plans *plans = NULL;
    td_model_graph graph = {0};
    *out = NULL;
    TD_TRY(TD_NEW(&plans));
    plans->settings = *settings;
    TD_TRY(build_graph(settings, TD_USE_TRAIN, shape, &graph));
    TD_TRY(td_store_create(
        settings->memory, graph.graph,
        &(td_store_options){.training = true, .average = settings->average, .half = settings->plan.half},
        &plans->store));
    *out = plans;
    plans = NULL;
fail:
    td_model_graph_clear(&graph);
    td_plans_destroy(plans);
    return status;
}

static void destroy_item(td_shaped_plan *item)
{
    if (item == NULL) return;
    td_plan_destroy(item->plan);
    td_model_graph_clear(&item->graph);
    free(item->bound);
    free(item);
}

void td_plans_destroy(td_plans *plans)
{
    if (plans == NULL) return;
    for (size_t i = 0; i < plans->count; ++i)
        destroy_item(plans->items[i]);
    td_store_destroy(plans->store);
    free(plans);
}

td_store *td_plans_store(const td_plans *plans)
{
    return plans->store;
}

static bool is_same_shape(const td_model_shape *a, const td_model_shape *b)
{
    return a->items == b->items && a->tokens == b->tokens && a->frames == b->frames &&
           a->reference_frames == b->reference_frames;
}

static td_status make_item(const td_plans *plans, td_plan_use use, const td_model_shape *shape,
                           td_shaped_plan **out)
{
    td_status status = TD_OK;
    td_shaped_plan *item = NULL;
    td_plan_options options = plans->settings.plan;
    options.forward_only = use == TD_USE_VALIDATE;
    options.slots = plans->settings.n_slots > 0 ? plans->settings.n_slots : 1;
    TD_TRY(TD_NEW(&item));
    item->use = use;
    item->n_slots = options.slots;
    TD_TRY(TD_NEW_ARRAY(&item->bound, item->n_slots));
    TD_TRY(build_graph(&plans->settings, use, shape, &item->graph));
    TD_TRY(td_plan_create(plans->store, item->graph.graph, &options, &item->plan));
    *out = item;
    return TD_OK;
fail:
    destroy_item(item);
    return status;
}

td_status td_plans_get(td_plans *plans, td_plan_use use, const td_model_shape *shape, td_shaped_plan **out)
{
    td_status status = TD_OK;
    size_t place = plans->count, oldest = 0;
    *out = NULL;
    for (size_t i = 0; i < plans->count; ++i) {
        td_shaped_plan *item = plans->items[i];
        if (item->use == use && is_same_shape(&item->graph.shape, shape)) {
            item->used = ++plans->clock;
            *out = item;
            return TD_OK;
        }
        if (item->used < plans->items[oldest]->used) oldest = i;
    }
    if (plans->count == MAX_PLANS) {
        destroy_item(plans->items[oldest]);
        plans->items[oldest] = plans->items[--plans->count];
        place = plans->count;
    }
    TD_TRY(make_item(plans, use, shape, &plans->items[place]));
    plans->count = place + 1;
    plans->items[place]->used = ++plans->clock;
    *out = plans->items[place];
fail:
    return status;
}

td_model_shape td_batch_shape(const td_batch *batch)
{
    return (td_model_shape){.items = batch->count,
                            .tokens = batch->tokens,
                            .frames = batch->frames,
                            .reference_frames = batch->reference_frames};
}

static bool is_same_span(td_span a, td_span b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
}

td_status td_shaped_plan_bind(td_shaped_plan *shaped, const td_batch *batch, uint32_t *slot)
{
    td_status status = TD_OK;
    const td_model_inputs *in = &shaped->graph.in;
    const struct {
        td_tensor tensor;
        td_span span;
    } inputs[] = {
        {in->token_ids, batch->token_ids},
        {in->token_counts, batch->token_counts},
        {in->frame_counts, batch->frame_counts},
        {in->speakers, batch->speakers},
        {in->mel, batch->mel},
        {in->energy, batch->energy},
        {in->pitch, batch->pitch},
        {in->reference_mel, batch->reference_mel},
        {in->reference_counts, batch->reference_counts},
    };
    for (uint32_t s = 0; s < shaped->n_slots; ++s) {
        if (!is_same_span(shaped->bound[s], batch->mel)) continue;
        *slot = s;
        return TD_OK;
    }
    *slot = shaped->next_slot;
    shaped->next_slot = *slot + 1 < shaped->n_slots ? *slot + 1 : 0;
    shaped->bound[*slot] = (td_span){0};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; ++i) {
        if (inputs[i].tensor.id == 0) continue;
        TD_FAIL_IF(inputs[i].span.buffer == NULL, TD_ERR_CONFIG,
                   "the model takes '%s', which the data does not bring; see --pitch and --reference-seconds",
                   td_graph_name(shaped->graph.graph, inputs[i].tensor));
        TD_TRY(td_plan_bind(shaped->plan, *slot, inputs[i].tensor, inputs[i].span));
    }
    shaped->bound[*slot] = batch->mel;
fail:
    return status;
}
