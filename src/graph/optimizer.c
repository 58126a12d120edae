/* See optimizer.h. Every entry of a ring has the whole update recorded between the copy of its own learning
 * rate into the control block and the copy of that block out, so that one submission is one update. */
#include "graph/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "graph/store.h"
#include "ops/optim.h"

typedef struct ring_entry {
    td_span host; /* learning rate, then the control block */
    td_list *list;
    td_point reached;
} ring_entry;

struct td_optimizer {
    td_store *store;
    uint32_t learner;
    td_optimizer_options options;
    td_shards *shards; /* NULL: all moments are the store's */
    td_list *average;  /* with shards: of the running averages, once all parameters are here */
    td_span partial;   /* sums of squares, to be added up */
    ring_entry ring[TD_SCALAR_RING];
    uint64_t steps;
};

/* ---------------------------------------------------------------- recording */

static bool is_updated(const td_optimizer *optimizer, const td_segment *segment)
{
    return segment->learner == optimizer->learner && segment->blocks[TD_BLOCK_GRADIENT].buffer != NULL;
}

/* A range of elements with its moments. */
typedef struct update_range {
    td_param_group group;
    uint64_t elements;
    td_span w, g, m, v, shadow;
} update_range;

static td_status update_packed(const td_optimizer *optimizer, td_list *list, const update_range *u)
{
    const td_optimizer_options *o = &optimizer->options;
    const td_store_options *store = &optimizer->store->options;
    return td_op_adamw_packed(
        list, &(td_adamw_packed_args){.bits = store->state == TD_STATE_BF16 ? 16 : 8,
                                      .n = (uint32_t)u->elements,
                                      .beta1 = o->beta1,
                                      .beta2 = o->beta2,
                                      .eps = o->eps,
                                      .decay = u->group == TD_PARAM_DECAY ? o->decay : 0,
                                      .g = u->g,
                                      .control = td_store_control(optimizer->store, optimizer->learner),
                                      .w = u->w,
                                      .m = u->m,
                                      .v = u->v,
                                      .format = td_dtype_format(store->half),
                                      .shadow = u->shadow});
}

static td_status update_range_of(const td_optimizer *optimizer, td_list *list, const update_range *u)
{
    const td_optimizer_options *o = &optimizer->options;
    if (optimizer->store->options.state != TD_STATE_FP32) return update_packed(optimizer, list, u);
    const td_decay_range range = {.count = (uint32_t)u->elements,
                                  .decay = u->group == TD_PARAM_DECAY ? o->decay : 0};
    return td_op_adamw(list,
                       &(td_adamw_args){.beta1 = o->beta1,
                                        .beta2 = o->beta2,
                                        .eps = o->eps,
                                        .ranges = &range,
                                        .n_ranges = 1,
                                        .g = u->g,
                                        .control = td_store_control(optimizer->store, optimizer->learner),
                                        .w = u->w,
                                        .m = u->m,
                                        .v = u->v,
                                        .format = td_dtype_format(optimizer->store->options.half),
                                        .shadow = u->shadow});
}

static td_status update_average(const td_optimizer *optimizer, td_list *list, const td_segment *segment)
{
    if (!segment->blocks[TD_BLOCK_AVERAGE].buffer) return TD_OK;
    return td_op_ema(list, &(td_ema_args){.n = (uint32_t)segment->elements,
                                          .decay = optimizer->options.average_decay,
                                          .w = segment->blocks[TD_BLOCK_WEIGHT],
                                          .average = segment->blocks[TD_BLOCK_AVERAGE],
                                          .control = td_store_control(optimizer->store, optimizer->learner)});
}

static td_status update_segment(const td_optimizer *optimizer, td_list *list, const td_segment *segment)
{
    const update_range all = {.group = segment->group,
                              .elements = segment->elements,
                              .w = segment->blocks[TD_BLOCK_WEIGHT],
                              .g = segment->blocks[TD_BLOCK_GRADIENT],
                              .m = segment->blocks[TD_BLOCK_MOMENT1],
                              .v = segment->blocks[TD_BLOCK_MOMENT2],
                              .shadow = segment->blocks[TD_BLOCK_HALF]};
    TD_CHECK(update_range_of(optimizer, list, &all));
    return update_average(optimizer, list, segment);
}

/* Only this rank's part of each bucket. */
static td_status update_shards(const td_optimizer *optimizer, td_list *list)
{
    const td_buckets *buckets = td_shards_buckets(optimizer->shards);
    for (size_t i = 0; i < td_buckets_count(buckets); i++) {
        uint64_t first;
        update_range u = {.group = optimizer->store->segments[td_buckets_at(buckets, i)->segment].group};
        u.elements = td_shards_part(optimizer->shards, i, &first, &u.m, &u.v);
        if (u.elements == 0) continue;
        u.w = td_buckets_span(buckets, i, TD_BLOCK_WEIGHT, first, u.elements);
        u.g = td_buckets_span(buckets, i, TD_BLOCK_GRADIENT, first, u.elements);
        u.shadow = td_buckets_span(buckets, i, TD_BLOCK_HALF, first, u.elements);
        TD_CHECK(update_range_of(optimizer, list, &u));
    }
    return TD_OK;
}

static uint32_t count_parts(const td_optimizer *optimizer)
{
    const td_store *store = optimizer->store;
    uint32_t parts = 0;
    for (size_t s = 0; s < store->n_segments; s++) {
        if (is_updated(optimizer, &store->segments[s]))
            parts +=
                td_op_square_sum_parts(td_device_class(store->device), (uint32_t)store->segments[s].elements);
    }
    return parts;
}

/* Norm of all gradients, clip factor, update: the same few launches whatever the model. */
static td_status record_update(const td_optimizer *optimizer, td_list *list, uint32_t parts)
{
    const td_store *store = optimizer->store;
    const td_optimizer_options *o = &optimizer->options;
    uint32_t first = 0;
    for (size_t s = 0; s < store->n_segments; s++) {
        const td_segment *segment = &store->segments[s];
        if (!is_updated(optimizer, segment)) continue;
        TD_CHECK(td_op_square_sum(list, (uint32_t)segment->elements, segment->blocks[TD_BLOCK_GRADIENT],
                                  optimizer->partial, first));
        first += td_op_square_sum_parts(td_device_class(store->device), (uint32_t)segment->elements);
    }
    TD_CHECK(td_op_clip(list, &(td_clip_args){.parts = parts,
                                              .max_norm = o->max_norm,
                                              .growth_steps = o->scale_growth_steps,
                                              .beta1 = o->beta1,
                                              .beta2 = o->beta2,
                                              .partial = optimizer->partial,
                                              .control = td_store_control(store, optimizer->learner)}));
    if (optimizer->shards) TD_CHECK(update_shards(optimizer, list));
    for (size_t s = 0; !optimizer->shards && s < store->n_segments; s++)
        if (is_updated(optimizer, &store->segments[s]))
            TD_CHECK(update_segment(optimizer, list, &store->segments[s]));
    return TD_OK;
}

static td_span host_rate(const ring_entry *entry)
{
    return td_span_part(entry->host, 0, 4);
}

static td_span host_control(const ring_entry *entry)
{
    return td_span_part(entry->host, TD_STORAGE_ALIGN, TD_CONTROL_BYTES);
}

static td_status open_entry(const td_optimizer *optimizer, uint32_t parts, ring_entry *entry)
{
    const td_store *store = optimizer->store;
    const td_span control = td_store_control(store, optimizer->learner);
    TD_CHECK(
        td_memory_alloc(store->memory, TD_MEMORY_HOST, TD_STORAGE_ALIGN + TD_CONTROL_BYTES, &entry->host));
    TD_CHECK(td_list_create(store->device, TD_QUEUE_COMPUTE, &entry->list));
    TD_CHECK(
        td_list_copy(entry->list, td_span_part(control, UINT64_C(4) * TD_CONTROL_LR, 4), host_rate(entry)));
    TD_CHECK(record_update(optimizer, entry->list, parts));
    TD_CHECK(td_list_copy(entry->list, host_control(entry), control));
    return td_list_finish(entry->list);
}

/* ---------------------------------------------------------------- life */

static td_status record_averages(td_optimizer *optimizer)
{
    const td_store *store = optimizer->store;
    if (!optimizer->shards || !store->options.average) return TD_OK;
    TD_CHECK(td_list_create(store->device, TD_QUEUE_COMPUTE, &optimizer->average));
    for (size_t s = 0; s < store->n_segments; s++)
        if (is_updated(optimizer, &store->segments[s]))
            TD_CHECK(update_average(optimizer, optimizer->average, &store->segments[s]));
    TD_CHECK(td_list_finish(optimizer->average));
    td_shards_follow(optimizer->shards, optimizer->average);
    return TD_OK;
}

td_status td_optimizer_create(td_store *store, uint32_t learner, const td_optimizer_options *options,
                              td_optimizer **out)
{
    td_optimizer *optimizer = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&optimizer));
    optimizer->store = store;
    optimizer->learner = learner;
    optimizer->options = *options;
    optimizer->shards = options->shards;
    TD_FAIL_IF(options->shards && store->options.state != TD_STATE_FP32, TD_ERR_UNSUPPORTED,
               "moments that are cut among ranks are fp32; set training.optimizer_state = fp32 or "
               "cluster.shard_optimizer = false");
    const uint32_t parts = count_parts(optimizer);
    TD_FAIL_IF(parts == 0, TD_ERR_ARGUMENT, "the store has nothing to train; create it for training");
    TD_TRY(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, 4 * (uint64_t)parts, &optimizer->partial));
    for (size_t i = 0; i < TD_SCALAR_RING; i++)
        TD_TRY(open_entry(optimizer, parts, &optimizer->ring[i]));
    TD_TRY(record_averages(optimizer));
    *out = optimizer;
    return TD_OK;
fail:
    td_optimizer_destroy(optimizer);
    return status;
}

void td_optimizer_destroy(td_optimizer *optimizer)
{
    if (!optimizer) return;
    for (size_t i = 0; i < TD_SCALAR_RING; i++) {
        td_list_destroy(optimizer->ring[i].list);
        td_memory_free(optimizer->store->memory, optimizer->ring[i].host);
    }
    if (optimizer->shards) td_shards_follow(optimizer->shards, NULL);
    td_list_destroy(optimizer->average);
    td_memory_free(optimizer->store->memory, optimizer->partial);
    free(optimizer);
}

/* ---------------------------------------------------------------- steps */

td_status td_optimizer_step(td_optimizer *optimizer, float learning_rate, td_point *reached)
{
    ring_entry *entry = &optimizer->ring[optimizer->steps % TD_SCALAR_RING];
    td_queue *queue = td_device_queue(optimizer->store->device, TD_QUEUE_COMPUTE);
    TD_CHECK(td_point_wait(entry->reached, TD_WAIT_FOREVER));
    if (optimizer->shards)
        TD_CHECK(td_shards_finish(optimizer->shards, (td_point){0})); /* what nobody read */
    memcpy(td_span_host(host_rate(entry)), &learning_rate, 4);
    TD_CHECK(td_queue_submit(queue, &(td_submission){.list = entry->list}, &entry->reached));
    optimizer->steps++;
    if (reached) *reached = entry->reached;
    return optimizer->shards ? td_shards_begin(optimizer->shards) : TD_OK;
}

uint64_t td_optimizer_steps(const td_optimizer *optimizer)
{
    return optimizer->steps;
}

td_status td_optimizer_result(td_optimizer *optimizer, uint64_t number, td_update *out)
{
    const ring_entry *entry = &optimizer->ring[number % TD_SCALAR_RING];
    *out = (td_update){0};
    TD_REFUSE_IF(number >= optimizer->steps || optimizer->steps - number > TD_SCALAR_RING, TD_ERR_NOT_FOUND,
                 "results are kept for the last %d updates", TD_SCALAR_RING);
    TD_CHECK(td_point_wait(entry->reached, TD_WAIT_FOREVER));
    const uint32_t *words = td_span_host(host_control(entry));
    memcpy(&out->norm, &words[TD_CONTROL_NORM], 4);
    memcpy(&out->loss_scale, &words[TD_CONTROL_SCALE], 4);
    out->steps = words[TD_CONTROL_STEPS];
    out->skipped = words[TD_CONTROL_SKIPPED];
    return TD_OK;
}
