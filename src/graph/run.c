/* Running plans: slots that the host fills ahead, scalars that come back late, the optimizer, the cache of
 * plans. Nothing here waits for the device but td_plan_fill (for its own slot) and those who read. See
 * plan.h. Covered by tests/graph/test_plan.c. */
#include <stdlib.h>
#include <string.h>

#include "device/blocking.h"
#include "graph/plan_internal.h"
#include "ops/optim.h"

#define PACE_CLOSE 0.67           /* estimates this near to the truth stay */
#define TIME_SCALE_LEAST_NS 200e6 /* shorter lists are one submission anyway */

/* ---------------------------------------------------------------- slots */

/* A slot holds the inputs one after the other, then the learning rate, then the step. */
static uint64_t align(uint64_t bytes)
{
    return (bytes + TD_STORAGE_ALIGN - 1) / TD_STORAGE_ALIGN * TD_STORAGE_ALIGN;
}

static td_status list_inputs(td_plan *plan)
{
    const td_draft *draft = &plan->draft;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&plan->inputs, draft->n_tensors));
    TD_TRY(TD_NEW_ARRAY(&plan->input_at, draft->n_tensors));
    for (uint32_t id = 1; id < draft->n_tensors; id++) {
        const td_tensor_info *t = &draft->tensors[id];
        if (t->role != TD_TENSOR_INPUT || t->root != id) continue;
        plan->inputs[plan->n_inputs] = id;
        plan->input_at[plan->n_inputs++] = plan->slot_bytes;
        plan->slot_bytes += align(td_tensor_bytes(t));
    }
    plan->slot_bytes += 2 * TD_STORAGE_ALIGN;
fail:
    return status;
}

static td_span slot_word(const td_plan *plan, const td_plan_slot *slot, size_t word)
{
    return td_span_part(slot->host, plan->slot_bytes - (2 - word) * TD_STORAGE_ALIGN, 4);
}

/* Copies what a run takes in: the inputs from where they come, learning rate and step. */
static td_status record_slot(td_plan *plan, td_plan_slot *slot)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(plan->store->device, TD_QUEUE_COMPUTE, &list));
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const td_span to = plan->spans[plan->inputs[i]];
        if (to.buffer) TD_TRY(td_list_copy(list, to, slot->sources[i]));
    }
    TD_TRY(td_list_copy(list, td_span_part(plan->store->control, UINT64_C(4) * TD_CONTROL_LR, 4),
                        slot_word(plan, slot, 0)));
    TD_TRY(td_list_copy(list, plan->store->step, slot_word(plan, slot, 1)));
    TD_TRY(td_list_finish(list));
    td_list_destroy(slot->list);
    slot->list = list;
    return TD_OK;
fail:
    td_list_destroy(list);
    return status;
}

static td_status open_slot(td_plan *plan, td_plan_slot *slot)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&slot->sources, plan->n_inputs + 1));
    TD_TRY(td_memory_alloc(plan->store->memory, TD_MEMORY_HOST, plan->slot_bytes, &slot->host));
    memset(td_span_host(slot->host), 0, plan->slot_bytes);
    for (size_t i = 0; i < plan->n_inputs; i++)
        slot->sources[i] = td_span_part(slot->host, plan->input_at[i],
                                        td_tensor_bytes(&plan->draft.tensors[plan->inputs[i]]));
    TD_TRY(record_slot(plan, slot));
fail:
    return status;
}

static td_status list_scalars(td_plan *plan)
{
    td_status status = TD_OK;
    for (uint32_t id = 1; id < plan->draft.n_tensors; id++) {
        const td_tensor_info *t = &plan->draft.tensors[id];
        if (!t->is_output || td_shape_size(t->shape) != 1 || !plan->spans[id].buffer) continue;
        TD_FAIL_IF(plan->n_scalars == TD_PLAN_SCALARS, TD_ERR_LIMIT, "a plan has at most %d scalars",
                   TD_PLAN_SCALARS);
        plan->scalars[plan->n_scalars++] = id;
    }
fail:
    return status;
}

/* The control block, then the scalars. */
static td_status open_ring(td_plan *plan, td_plan_ring *ring)
{
    const uint64_t bytes = TD_CONTROL_BYTES + UINT64_C(4) * TD_PLAN_SCALARS;
    td_status status = TD_OK;
    TD_TRY(td_memory_alloc(plan->store->memory, TD_MEMORY_HOST, bytes, &ring->host));
    TD_TRY(td_list_create(plan->store->device, TD_QUEUE_COMPUTE, &ring->list));
    TD_TRY(td_list_copy(ring->list, td_span_part(ring->host, 0, TD_CONTROL_BYTES), plan->store->control));
    for (size_t i = 0; i < plan->n_scalars; i++)
        TD_TRY(td_list_copy(ring->list, td_span_part(ring->host, TD_CONTROL_BYTES + 4 * i, 4),
                            plan->spans[plan->scalars[i]]));
    TD_TRY(td_list_finish(ring->list));
fail:
    return status;
}

td_status td_plan_open_slots(td_plan *plan)
{
    td_status status = TD_OK;
    TD_TRY(list_inputs(plan));
    TD_TRY(list_scalars(plan));
    TD_TRY(TD_NEW_ARRAY(&plan->slots, plan->options.slots));
    for (uint32_t s = 0; s < plan->options.slots; s++)
        TD_TRY(open_slot(plan, &plan->slots[s]));
    for (size_t i = 0; i < TD_SCALAR_RING; i++)
        TD_TRY(open_ring(plan, &plan->ring[i]));
fail:
    return status;
}

void td_plan_close_slots(td_plan *plan)
{
    for (uint32_t s = 0; plan->slots && s < plan->options.slots; s++) {
        td_list_destroy(plan->slots[s].list);
        free(plan->slots[s].sources);
        td_memory_free(plan->store->memory, plan->slots[s].host);
    }
    for (size_t i = 0; i < TD_SCALAR_RING; i++) {
        td_list_destroy(plan->ring[i].list);
        td_memory_free(plan->store->memory, plan->ring[i].host);
    }
    free(plan->slots);
    free(plan->inputs);
    free(plan->input_at);
}

static td_status find_input(const td_plan *plan, uint32_t slot, td_tensor input, size_t *out)
{
    td_status status = TD_OK;
    size_t i = 0;
    while (i < plan->n_inputs && plan->inputs[i] != input.id)
        i++;
    TD_FAIL_IF(i == plan->n_inputs || slot >= plan->options.slots, TD_ERR_ARGUMENT, "slot %u has no input %s",
               slot, td_graph_name(plan->draft.graph, input));
    *out = i;
fail:
    return status;
}

td_status td_plan_fill(td_plan *plan, uint32_t slot, td_tensor input, const void *values)
{
    td_status status = TD_OK;
    size_t i = 0;
    TD_TRY(find_input(plan, slot, input, &i));
    TD_TRY(td_point_wait(plan->slots[slot].taken, TD_WAIT_FOREVER));
    memcpy((char *)td_span_host(plan->slots[slot].host) + plan->input_at[i], values,
           td_tensor_bytes(&plan->draft.tensors[input.id]));
fail:
    return status;
}

td_status td_plan_bind(td_plan *plan, uint32_t slot, td_tensor input, td_span source)
{
    td_status status = TD_OK;
    size_t i = 0;
    TD_TRY(find_input(plan, slot, input, &i));
    const uint64_t bytes = td_tensor_bytes(&plan->draft.tensors[input.id]);
    TD_FAIL_IF(source.bytes < bytes, TD_ERR_ARGUMENT, "input %s has %llu bytes, its source %llu",
               td_graph_name(plan->draft.graph, input), (unsigned long long)bytes,
               (unsigned long long)source.bytes);
    plan->slots[slot].sources[i] = td_span_part(source, 0, bytes);
    TD_TRY(record_slot(plan, &plan->slots[slot]));
fail:
    return status;
}

td_point td_plan_taken(const td_plan *plan, uint32_t slot)
{
    return slot < plan->options.slots ? plan->slots[slot].taken : (td_point){0};
}

/* ---------------------------------------------------------------- optimizer */

struct td_optimizer {
    td_store *store;
    td_optimizer_options options;
    td_span partial;
    td_list *list;
};

static bool is_trained(const td_segment *segment)
{
    return segment->blocks[TD_BLOCK_GRADIENT].buffer != NULL;
}

static td_status update_segment(td_optimizer *optimizer, const td_segment *segment)
{
    const td_optimizer_options *o = &optimizer->options;
    const td_span control = optimizer->store->control;
    const td_span w = segment->blocks[TD_BLOCK_WEIGHT];
    const td_decay_range range = {.count = (uint32_t)segment->elements,
                                  .decay = segment->group == TD_PARAM_DECAY ? o->decay : 0};
    td_status status = TD_OK;
    TD_TRY(td_op_adamw(optimizer->list,
                       &(td_adamw_args){.beta1 = o->beta1,
                                        .beta2 = o->beta2,
                                        .eps = o->eps,
                                        .ranges = &range,
                                        .n_ranges = 1,
                                        .g = segment->blocks[TD_BLOCK_GRADIENT],
                                        .control = control,
                                        .w = w,
                                        .m = segment->blocks[TD_BLOCK_MOMENT1],
                                        .v = segment->blocks[TD_BLOCK_MOMENT2],
                                        .format = td_dtype_format(optimizer->store->options.half),
                                        .shadow = segment->blocks[TD_BLOCK_HALF]}));
    if (segment->blocks[TD_BLOCK_AVERAGE].buffer)
        TD_TRY(td_op_ema(optimizer->list, &(td_ema_args){.n = (uint32_t)segment->elements,
                                                         .decay = o->average_decay,
                                                         .w = w,
                                                         .average = segment->blocks[TD_BLOCK_AVERAGE],
                                                         .control = control}));
fail:
    return status;
}

/* Norm of all gradients, clip factor, update: the same few launches whatever the model. */
static td_status record_update(td_optimizer *optimizer)
{
    const td_store *store = optimizer->store;
    const td_kernel_class kernel_class = td_device_class(store->device);
    uint32_t parts = 0;
    td_status status = TD_OK;
    for (size_t s = 0; s < store->n_segments; s++) {
        if (is_trained(&store->segments[s]))
            parts += td_op_square_sum_parts(kernel_class, (uint32_t)store->segments[s].elements);
    }
    TD_FAIL_IF(parts == 0, TD_ERR_ARGUMENT, "the store has nothing to train; create it for training");
    TD_TRY(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, 4 * (uint64_t)parts, &optimizer->partial));
    uint32_t first = 0;
    for (size_t s = 0; s < store->n_segments; s++) {
        const td_segment *segment = &store->segments[s];
        if (!is_trained(segment)) continue;
        TD_TRY(td_op_square_sum(optimizer->list, (uint32_t)segment->elements,
                                segment->blocks[TD_BLOCK_GRADIENT], optimizer->partial, first));
        first += td_op_square_sum_parts(kernel_class, (uint32_t)segment->elements);
    }
    TD_TRY(td_op_clip(optimizer->list, &(td_clip_args){.parts = parts,
                                                       .max_norm = optimizer->options.max_norm,
                                                       .growth_steps = optimizer->options.scale_growth_steps,
                                                       .beta1 = optimizer->options.beta1,
                                                       .beta2 = optimizer->options.beta2,
                                                       .partial = optimizer->partial,
                                                       .control = store->control}));
    for (size_t s = 0; s < store->n_segments; s++) {
        if (is_trained(&store->segments[s])) TD_TRY(update_segment(optimizer, &store->segments[s]));
    }
fail:
    return status;
}

td_status td_optimizer_create(td_store *store, const td_optimizer_options *options, td_optimizer **out)
{
    td_optimizer *optimizer = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&optimizer));
    optimizer->store = store;
    optimizer->options = *options;
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &optimizer->list));
    TD_TRY(record_update(optimizer));
    TD_TRY(td_list_finish(optimizer->list));
    *out = optimizer;
    return TD_OK;
fail:
    td_optimizer_destroy(optimizer);
    return status;
}

void td_optimizer_destroy(td_optimizer *optimizer)
{
    if (!optimizer) return;
    td_list_destroy(optimizer->list);
    td_memory_free(optimizer->store->memory, optimizer->partial);
    free(optimizer);
}

/* ---------------------------------------------------------------- runs */

static td_status submit(td_plan *plan, td_list *list, const td_run *run, td_point *reached)
{
    const td_submission submission = {
        .list = list, .waits = run ? run->waits : NULL, .n_waits = run ? run->n_waits : 0};
    return td_queue_submit(td_device_queue(plan->store->device, TD_QUEUE_COMPUTE), &submission, reached);
}

td_status td_plan_run(td_plan *plan, const td_run *run, td_point *reached)
{
    td_plan_ring *ring = &plan->ring[plan->runs % TD_SCALAR_RING];
    td_status status = TD_OK;
    TD_FAIL_IF(run->slot >= plan->options.slots, TD_ERR_ARGUMENT, "the plan has no slot %u", run->slot);
    td_plan_slot *slot = &plan->slots[run->slot];
    if (run->adds && !plan->run[1]) TD_TRY(td_plan_record(plan, 0, plan->draft.n_nodes, true, &plan->run[1]));
    TD_TRY(td_point_wait(slot->taken, TD_WAIT_FOREVER));
    memcpy(td_span_host(slot_word(plan, slot, 0)), &run->learning_rate, 4);
    memcpy(td_span_host(slot_word(plan, slot, 1)), &run->step, 4);
    TD_TRY(submit(plan, slot->list, run, &slot->taken));
    TD_TRY(submit(plan, plan->run[run->adds], NULL, &plan->last));
    if (plan->runs == 1) plan->timed = plan->last; /* in the first, drivers may compile */
    plan->points[0] = slot->taken;
    plan->points[1] = plan->points[2] = plan->last;
    if (run->optimizer) TD_TRY(submit(plan, run->optimizer->list, NULL, &plan->points[2]));
    TD_TRY(submit(plan, ring->list, NULL, &ring->reached));
    plan->points[3] = plan->last = ring->reached;
    plan->runs++;
    if (reached) *reached = plan->last;
fail:
    return status;
}

/* Where a step is long and estimates were far off, the list is recorded again, cut by what was measured. */
static td_status adapt(td_plan *plan)
{
    td_list *list = NULL;
    td_times times;
    td_status status = TD_OK;
    const double estimated_ns = td_list_estimated_ns(plan->run[0]);
    if (td_point_times(plan->timed, &times) != TD_OK) return TD_OK; /* a device without timestamps */
    const double measured_ns = (double)(times.finished_ns - times.started_ns);
    const double off = measured_ns / estimated_ns;
    if (td_list_submissions(plan->run[0]) == 1 && measured_ns < TIME_SCALE_LEAST_NS) return TD_OK;
    if (!(off > 0) || (off > PACE_CLOSE && off < 1 / PACE_CLOSE)) return TD_OK;
    plan->store->time_scale *= off;
    TD_TRY(td_plan_record(plan, 0, plan->draft.n_nodes, false, &list));
    td_list_destroy(plan->run[0]);
    td_list_destroy(plan->run[1]);
    plan->run[0] = list;
    plan->run[1] = NULL;
fail:
    return status;
}

const td_point *td_plan_points(const td_plan *plan)
{
    return plan->points;
}

uint64_t td_plan_runs(const td_plan *plan)
{
    return plan->runs;
}

td_status td_plan_scalars(td_plan *plan, uint64_t run, td_scalars *out)
{
    const td_plan_ring *ring = &plan->ring[run % TD_SCALAR_RING];
    td_status status = TD_OK;
    *out = (td_scalars){.count = plan->n_scalars};
    TD_FAIL_IF(run >= plan->runs || plan->runs - run > TD_SCALAR_RING, TD_ERR_NOT_FOUND,
               "scalars are kept for the last %d runs", TD_SCALAR_RING);
    TD_TRY(td_point_wait(ring->reached, TD_WAIT_FOREVER));
    if (run == 1 && plan->timed.queue) {
        TD_TRY(adapt(plan));
        plan->timed = (td_point){0};
    }
    const uint32_t *words = td_span_host(ring->host);
    memcpy(&out->norm, &words[TD_CONTROL_NORM], 4);
    memcpy(&out->loss_scale, &words[TD_CONTROL_SCALE], 4);
    out->steps = words[TD_CONTROL_STEPS];
    out->skipped = words[TD_CONTROL_SKIPPED];
    memcpy(out->values, words + TD_CONTROL_WORDS, 4 * plan->n_scalars);
    for (size_t i = 0; i < plan->n_scalars; i++)
        out->names[i] = plan->draft.tensors[plan->scalars[i]].name;
fail:
    return status;
}

td_status td_plan_read(td_plan *plan, td_tensor output, void *values)
{
    const td_tensor_info *t = td_graph_at(plan->draft.graph, output.id);
    td_status status = TD_OK;
    TD_FAIL_IF(!output.id || !t->is_output || !plan->spans[output.id].buffer, TD_ERR_ARGUMENT,
               "%s was not kept; mark it with td_graph_output before planning", t->name);
    TD_TRY(td_blocking_read(plan->store->memory, plan->spans[output.id], (td_point){0}, values));
fail:
    return status;
}

/* ---------------------------------------------------------------- cache */

typedef struct cached {
    uint64_t key, used;
    td_plan *plan;
} cached;

struct td_plan_cache {
    cached *items;
    size_t capacity, count;
    uint64_t clock;
};

td_status td_plan_cache_create(size_t capacity, td_plan_cache **out)
{
    td_plan_cache *cache = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(capacity == 0, TD_ERR_ARGUMENT, "a cache of no plans");
    TD_TRY(TD_NEW(&cache));
    cache->capacity = capacity;
    TD_TRY(TD_NEW_ARRAY(&cache->items, capacity));
    *out = cache;
    return TD_OK;
fail:
    td_plan_cache_destroy(cache);
    return status;
}

void td_plan_cache_destroy(td_plan_cache *cache)
{
    if (!cache) return;
    for (size_t i = 0; i < cache->count; i++)
        td_plan_destroy(cache->items[i].plan);
    free(cache->items);
    free(cache);
}

td_plan *td_plan_cache_find(td_plan_cache *cache, uint64_t key)
{
    for (size_t i = 0; i < cache->count; i++) {
        if (cache->items[i].key != key) continue;
        cache->items[i].used = ++cache->clock;
        return cache->items[i].plan;
    }
    return NULL;
}

td_status td_plan_cache_put(td_plan_cache *cache, uint64_t key, td_plan *plan)
{
    size_t place = cache->count;
    td_status status = TD_OK;
    TD_FAIL_IF(td_plan_cache_find(cache, key), TD_ERR_ARGUMENT, "a plan for this key is there already");
    if (cache->count == cache->capacity) {
        place = 0;
        for (size_t i = 1; i < cache->count; i++) {
            if (cache->items[i].used < cache->items[place].used) place = i;
        }
        td_plan_destroy(cache->items[place].plan);
    } else {
        cache->count++;
    }
    cache->items[place] = (cached){.key = key, .used = ++cache->clock, .plan = plan};
fail:
    return status;
}
