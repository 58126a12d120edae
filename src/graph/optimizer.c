/* See optimizer.h. Every entry of a ring has the whole update recorded between the copy of its own learning
 * rate into the control block and the copy of that block out, so that one submission is one update. */
#include "graph/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/blocking.h"
#include "graph/store.h"
#include "ops/optim.h"

enum { STAGE_ELEMENTS = 1 << 20 }; /* of moments that are fetched at a time */

typedef struct ring_entry {
    td_span host;   /* learning rate, then the control block */
    td_list *begin; /* of a step whose updates are in the run of a plan; else NULL */
    td_list *list;
    td_point reached;
} ring_entry;

struct td_optimizer {
    td_store *store;
    uint32_t learner;
    td_optimizer_options options;
    td_shards *shards;    /* NULL: all moments are the store's */
    td_list *average;     /* with shards: of the running averages, once all parameters are here */
    td_span partial;      /* sums of squares, to be added up */
    td_span aside;        /* with in_backward: loss_square(), norm_control() */
    td_span stages[2][2]; /* with host_moments: room for a piece of both, twice */
    ring_entry ring[TD_SCALAR_RING];
    uint64_t steps;
};

/* ---------------------------------------------------------------- recording */

static bool is_updated(const td_optimizer *optimizer, const td_segment *segment)
{
    return segment->learner == optimizer->learner && !segment->is_state;
}

/* A range of elements with its moments. */
typedef struct update_range {
    td_param_group group;
    uint64_t elements;
    td_span w, g, m, v, shadow;
    uint64_t scales; /* with 8 bits: words from m and v to the largest magnitudes; 0: behind the elements */
} update_range;

static td_status update_packed(const td_optimizer *optimizer, td_list *list, const update_range *u)
{
    const td_optimizer_options *o = &optimizer->options;
    const td_store_options *store = &optimizer->store->options;
    return td_op_adamw_packed(
        list, &(td_adamw_packed_args){.bits = store->state == TD_STATE_BF16 ? 16 : 8,
                                      .n = (uint32_t)u->elements,
                                      .scales = (uint32_t)u->scales,
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

/* Elements of a segment, and where their gradients lie. With 8 bits whole blocks. */
typedef struct segment_range {
    const td_segment *segment;
    uint64_t first, count;
    td_span g;
} segment_range;

/* Where the moments of a range lie in a block of its segment. */
static td_span find_moment(const td_optimizer *optimizer, const segment_range *r, td_block block)
{
    const td_span whole = r->segment->blocks[block];
    switch (optimizer->store->options.state) {
    case TD_STATE_FP32:
        return td_span_part(whole, 4 * r->first, 4 * r->count);
    case TD_STATE_BF16:
        return td_span_part(whole, 2 * r->first, 4 * TD_HALF_WORDS(r->count));
    case TD_STATE_INT8:
        break;
    }
    /* on to the end of their largest magnitudes */
    return td_span_part(whole, r->first,
                        r->segment->elements - r->first + 4 * ((r->first + r->count) / TD_STATE_BLOCK));
}

/* Words from the moments of a range to their largest magnitudes. */
static uint64_t find_scales(const segment_range *r)
{
    return (r->segment->elements - r->first) / 4 + r->first / TD_STATE_BLOCK;
}

static td_span find_shadow(const segment_range *r)
{
    const td_span whole = r->segment->blocks[TD_BLOCK_HALF];
    return whole.buffer ? td_span_part(whole, 2 * r->first, 4 * TD_HALF_WORDS(r->count)) : whole;
}

static update_range describe_range(const segment_range *r)
{
    return (update_range){.group = r->segment->group,
                          .elements = r->count,
                          .w = td_span_part(r->segment->blocks[TD_BLOCK_WEIGHT], 4 * r->first, 4 * r->count),
                          .g = r->g,
                          .shadow = find_shadow(r)};
}

/* Moments of a range between the host and a stage, whose largest magnitudes lie behind its elements. */
static td_status move_moment(const td_optimizer *optimizer, td_list *list, const segment_range *r,
                             td_block block, td_span stage, bool is_back)
{
    const td_span home = find_moment(optimizer, r, block);
    const bool is_int8 = optimizer->store->options.state == TD_STATE_INT8;
    const uint64_t bytes = is_int8 ? r->count : home.bytes;
    const td_span ends[2] = {td_span_part(stage, 0, bytes), td_span_part(home, 0, bytes)};
    TD_CHECK(td_list_copy(list, ends[is_back], ends[!is_back]));
    if (!is_int8) return TD_OK;
    const uint64_t scale_bytes = 4 * (r->count / TD_STATE_BLOCK);
    const td_span scales[2] = {td_span_part(stage, r->count, scale_bytes),
                               td_span_part(home, 4 * find_scales(r), scale_bytes)};
    return td_list_copy(list, scales[is_back], scales[!is_back]);
}

/* Piece after piece through two stages in turn, so that one can be on its way while the other is worked on. */
static td_status update_from_host(const td_optimizer *optimizer, td_list *list, const segment_range *whole)
{
    for (uint64_t at = 0, n = 0; at < whole->count; at += STAGE_ELEMENTS, n++) {
        const uint64_t left = whole->count - at;
        const td_span *stage = optimizer->stages[n % 2];
        segment_range piece = {.segment = whole->segment,
                               .first = whole->first + at,
                               .count = left < STAGE_ELEMENTS ? left : STAGE_ELEMENTS};
        piece.g = td_span_part(whole->g, 4 * at, 4 * piece.count);
        update_range u = describe_range(&piece);
        u.m = stage[0];
        u.v = stage[1];
        TD_CHECK(move_moment(optimizer, list, &piece, TD_BLOCK_MOMENT1, stage[0], false));
        TD_CHECK(move_moment(optimizer, list, &piece, TD_BLOCK_MOMENT2, stage[1], false));
        TD_CHECK(update_range_of(optimizer, list, &u));
        TD_CHECK(move_moment(optimizer, list, &piece, TD_BLOCK_MOMENT1, stage[0], true));
        TD_CHECK(move_moment(optimizer, list, &piece, TD_BLOCK_MOMENT2, stage[1], true));
    }
    return TD_OK;
}

static td_status update_part(const td_optimizer *optimizer, td_list *list, const segment_range *r)
{
    if (optimizer->store->options.host_moments) return update_from_host(optimizer, list, r);
    update_range u = describe_range(r);
    u.m = find_moment(optimizer, r, TD_BLOCK_MOMENT1);
    u.v = find_moment(optimizer, r, TD_BLOCK_MOMENT2);
    u.scales = find_scales(r);
    return update_range_of(optimizer, list, &u);
}

static td_status update_segment(const td_optimizer *optimizer, td_list *list, const td_segment *segment)
{
    const segment_range all = {
        .segment = segment, .count = segment->elements, .g = segment->blocks[TD_BLOCK_GRADIENT]};
    TD_CHECK(update_part(optimizer, list, &all));
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

static uint32_t count_entry_parts(const td_optimizer *optimizer, const td_placed_entry *e)
{
    if (!is_updated(optimizer, &optimizer->store->segments[e->segment])) return 0;
    return td_op_square_sum_parts(td_device_class(optimizer->store->device),
                                  (uint32_t)td_shape_size(e->entry.shape));
}

/* Sums of squares: of each segment, or of each entry where these come one by one. */
static uint32_t count_parts(const td_optimizer *optimizer)
{
    const td_store *store = optimizer->store;
    uint32_t parts = 0;
    for (size_t i = 0; optimizer->options.in_backward && i < store->n_entries; i++)
        parts += count_entry_parts(optimizer, &store->entries[i]);
    for (size_t s = 0; !optimizer->options.in_backward && s < store->n_segments; s++) {
        if (is_updated(optimizer, &store->segments[s]))
            parts +=
                td_op_square_sum_parts(td_device_class(store->device), (uint32_t)store->segments[s].elements);
    }
    return parts;
}

static td_clip_args describe_clip(const td_optimizer *optimizer, uint32_t parts, td_span partial,
                                  td_span control)
{
    const td_optimizer_options *o = &optimizer->options;
    return (td_clip_args){.parts = parts,
                          .max_norm = o->max_norm,
                          .growth_steps = o->scale_growth_steps,
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .partial = partial,
                          .control = control};
}

/* Norm of all gradients, clip factor, update: the same few launches whatever the model. */
static td_status record_update(const td_optimizer *optimizer, td_list *list, uint32_t parts)
{
    const td_store *store = optimizer->store;
    uint32_t first = 0;
    for (size_t s = 0; s < store->n_segments; s++) {
        const td_segment *segment = &store->segments[s];
        if (!is_updated(optimizer, segment)) continue;
        TD_CHECK(td_op_square_sum(list, (uint32_t)segment->elements, segment->blocks[TD_BLOCK_GRADIENT],
                                  optimizer->partial, first));
        first += td_op_square_sum_parts(td_device_class(store->device), (uint32_t)segment->elements);
    }
    const td_clip_args clip =
        describe_clip(optimizer, parts, optimizer->partial, td_store_control(store, optimizer->learner));
    TD_CHECK(td_op_clip(list, &clip));
    if (optimizer->shards) TD_CHECK(update_shards(optimizer, list));
    for (size_t s = 0; !optimizer->shards && s < store->n_segments; s++)
        if (is_updated(optimizer, &store->segments[s]))
            TD_CHECK(update_segment(optimizer, list, &store->segments[s]));
    return TD_OK;
}

/* ---------------------------------------------------------------- in the run of a plan */

/* Of `loss`: its square, then a control block in which norms are found. */
static td_span loss_square(const td_optimizer *optimizer)
{
    return td_span_part(optimizer->aside, 0, 4);
}

static td_span norm_control(const td_optimizer *optimizer)
{
    return td_span_part(optimizer->aside, TD_STORAGE_ALIGN, TD_CONTROL_BYTES);
}

td_status td_optimizer_record_begin(const td_optimizer *optimizer, td_list *list, td_span loss)
{
    const td_clip_args clip = describe_clip(optimizer, 1, loss_square(optimizer),
                                            td_store_control(optimizer->store, optimizer->learner));
    TD_CHECK(td_op_square_sum(list, 1, loss, loss_square(optimizer), 0));
    return td_op_clip(list, &clip);
}

/* With 8 bits updates are of whole blocks: gradients that end in the midst of one are copied. */
uint64_t td_optimizer_scratch(const td_optimizer *optimizer, uint64_t elements)
{
    const bool is_copied = optimizer->store->options.state == TD_STATE_INT8 && elements % TD_STATE_BLOCK != 0;
    return is_copied ? 4 * td_round_up(elements, TD_STATE_BLOCK) : 0;
}

td_status td_optimizer_record_update(const td_optimizer *optimizer, td_list *list, const char *parameter,
                                     td_span gradient, td_span scratch)
{
    const td_store *store = optimizer->store;
    const uint64_t bytes = td_optimizer_scratch(optimizer, gradient.bytes / 4);
    uint32_t first = 0;
    size_t i = 0;
    for (; i < store->n_entries && strcmp(store->entries[i].entry.name, parameter) != 0; i++)
        first += count_entry_parts(optimizer, &store->entries[i]);
    TD_REFUSE_IF(i == store->n_entries, TD_ERR_ARGUMENT, "the store has no %s", parameter);
    const td_placed_entry *e = &store->entries[i];
    segment_range r = {.segment = &store->segments[e->segment],
                       .first = e->offset,
                       .count = td_shape_size(e->entry.shape),
                       .g = gradient};
    TD_CHECK(td_op_square_sum(list, (uint32_t)r.count, gradient, optimizer->partial, first));
    if (bytes > 0) {
        TD_CHECK(td_list_copy(list, td_span_part(scratch, 0, gradient.bytes), gradient));
        TD_CHECK(td_list_fill(list, td_span_part(scratch, gradient.bytes, bytes - gradient.bytes), 0));
        r.count = bytes / 4;
        r.g = td_span_part(scratch, 0, bytes);
    }
    return update_part(optimizer, list, &r);
}

/* What is left to do behind the run: the norm, and the averages. */
static td_status record_end(const td_optimizer *optimizer, td_list *list, uint32_t parts)
{
    const td_store *store = optimizer->store;
    const td_span norm = td_span_part(norm_control(optimizer), UINT64_C(4) * TD_CONTROL_NORM, 4);
    const td_span control = td_store_control(store, optimizer->learner);
    const td_clip_args clip = describe_clip(optimizer, parts, optimizer->partial, norm_control(optimizer));
    TD_CHECK(td_op_clip(list, &clip));
    TD_CHECK(td_list_copy(list, td_span_part(control, UINT64_C(4) * TD_CONTROL_NORM, 4), norm));
    for (size_t s = 0; s < store->n_segments; s++)
        if (is_updated(optimizer, &store->segments[s]))
            TD_CHECK(update_average(optimizer, list, &store->segments[s]));
    return TD_OK;
}

/* ---------------------------------------------------------------- entries of the ring */

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
    const td_span rate = td_span_part(control, UINT64_C(4) * TD_CONTROL_LR, 4);
    TD_CHECK(td_list_create(store->device, TD_QUEUE_COMPUTE, &entry->list));
    if (optimizer->options.in_backward) {
        TD_CHECK(td_list_create(store->device, TD_QUEUE_COMPUTE, &entry->begin));
        TD_CHECK(td_list_copy(entry->begin, rate, host_rate(entry)));
        TD_CHECK(td_list_finish(entry->begin));
        TD_CHECK(record_end(optimizer, entry->list, parts));
    } else {
        TD_CHECK(td_list_copy(entry->list, rate, host_rate(entry)));
        TD_CHECK(record_update(optimizer, entry->list, parts));
    }
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

/* What updates need besides the store's blocks; the stages count as the store's. */
static td_status take_aside(td_optimizer *optimizer)
{
    td_store *store = optimizer->store;
    const uint64_t bytes = td_packed_bytes(store->options.state, STAGE_ELEMENTS);
    if (optimizer->options.in_backward) {
        uint32_t zeros[TD_CONTROL_WORDS] = {0};
        TD_CHECK(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, TD_STORAGE_ALIGN + TD_CONTROL_BYTES,
                                 &optimizer->aside));
        TD_CHECK(td_blocking_write(store->memory, norm_control(optimizer), zeros));
    }
    for (size_t i = 0; store->options.host_moments && i < 4; i++) {
        TD_CHECK(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, bytes, &optimizer->stages[i / 2][i % 2]));
        store->bytes += bytes;
    }
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
    TD_FAIL_IF(
        options->in_backward && (options->shards || options->max_norm > 0 || options->scale_growth_steps > 0),
        TD_ERR_UNSUPPORTED,
        "parameters cannot be updated in the backward pass where gradients are cut, scaled or shared among "
        "ranks");
    TD_FAIL_IF(options->in_backward != store->options.no_gradients, TD_ERR_ARGUMENT,
               "a store without gradients is for updates in the backward pass, and these for such a store");
    const uint32_t parts = store->options.training ? count_parts(optimizer) : 0;
    TD_FAIL_IF(parts == 0, TD_ERR_ARGUMENT, "the store has nothing to train; create it for training");
    TD_TRY(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, 4 * (uint64_t)parts, &optimizer->partial));
    TD_TRY(take_aside(optimizer));
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
        td_list_destroy(optimizer->ring[i].begin);
        td_list_destroy(optimizer->ring[i].list);
        td_memory_free(optimizer->store->memory, optimizer->ring[i].host);
    }
    if (optimizer->shards) td_shards_follow(optimizer->shards, NULL);
    td_list_destroy(optimizer->average);
    for (size_t i = 0; i < 4; i++)
        td_memory_free(optimizer->store->memory, optimizer->stages[i / 2][i % 2]);
    td_memory_free(optimizer->store->memory, optimizer->aside);
    td_memory_free(optimizer->store->memory, optimizer->partial);
    free(optimizer);
}

/* ---------------------------------------------------------------- steps */

td_status td_optimizer_begin(td_optimizer *optimizer, float learning_rate)
{
    ring_entry *entry = &optimizer->ring[optimizer->steps % TD_SCALAR_RING];
    if (!optimizer->options.in_backward) return TD_OK;
    TD_CHECK(td_point_wait(entry->reached, TD_WAIT_FOREVER));
    memcpy(td_span_host(host_rate(entry)), &learning_rate, 4);
    return td_queue_submit(td_device_queue(optimizer->store->device, TD_QUEUE_COMPUTE),
                           &(td_submission){.list = entry->begin}, NULL);
}

td_status td_optimizer_step(td_optimizer *optimizer, float learning_rate, td_point *reached)
{
    ring_entry *entry = &optimizer->ring[optimizer->steps % TD_SCALAR_RING];
    td_queue *queue = td_device_queue(optimizer->store->device, TD_QUEUE_COMPUTE);
    TD_CHECK(td_point_wait(entry->reached, TD_WAIT_FOREVER));
    if (optimizer->shards)
        TD_CHECK(td_shards_finish(optimizer->shards, (td_point){0})); /* what nobody read */
    if (!optimizer->options.in_backward) memcpy(td_span_host(host_rate(entry)), &learning_rate, 4);
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
    out->is_broken = optimizer->options.in_backward && !words[TD_CONTROL_SKIP] && !isfinite(out->norm);
    out->steps = words[TD_CONTROL_STEPS];
    out->skipped = words[TD_CONTROL_SKIPPED];
    return TD_OK;
}
