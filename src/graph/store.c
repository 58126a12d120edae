/* What outlives a step: parameters, gradients, moments, averages and states in flat blocks of one order.
 * Groups lie together, so that an update is one launch per group and piece; every entry starts where any
 * device lets a binding start, and the gaps hold zeros. See plan.h. Covered by tests/graph/test_plan.c. */
#include "graph/store.h"
#include "device/blocking.h"
#include "ops/move.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- layout */

static bool is_kept(const td_tensor_info *t)
{
    return t->role == TD_TENSOR_PARAMETER || t->role == TD_TENSOR_STATE;
}

#define USUAL_ALIGN 256u /* bytes */
#define LAST_RANK (TD_MAX_LEARNERS * TD_PARAM_GROUPS + TD_PARAM_GROUPS + 1)

/* So that an entry starts where a binding may in every block. The gaps are part of the sums that clip gradients, so
 * only devices that need wider ones have them: elsewhere a run's bits stay what they were. */
static uint64_t align_elements(const td_store *store)
{
    const uint32_t least = td_device_get_info(store->device)->caps.offset_align;
    const uint64_t bytes = least > USUAL_ALIGN ? TD_OFFSET_ALIGN : USUAL_ALIGN;
    if (store->options.state == TD_STATE_INT8) return bytes > TD_STATE_BLOCK ? bytes : TD_STATE_BLOCK;
    return bytes / (store->options.half || store->options.state == TD_STATE_BF16 ? 2 : 4);
}

static uint64_t padded(const td_store *store, td_shape shape)
{
    return td_round_up(td_shape_size(shape), align_elements(store));
}

/* The segment that the next entry goes to: the last one, unless it is of another kind or full. */
static td_status find_segment(td_store *store, const td_placed_entry *placed, uint64_t most, uint32_t *out)
{
    const td_store_entry *e = &placed->entry;
    const bool is_state = e->role == TD_TENSOR_STATE, is_half_only = placed->is_half_only;
    if (store->n_segments > 0) {
        const td_segment *last = &store->segments[store->n_segments - 1];
        if (last->learner == e->learner && last->group == e->group && last->is_state == is_state &&
            last->is_half_only == is_half_only && last->elements + padded(store, e->shape) <= most) {
            *out = (uint32_t)store->n_segments - 1;
            return TD_OK;
        }
    }
    TD_REFUSE_IF(padded(store, e->shape) > most, TD_ERR_LIMIT,
                 "%s has %llu elements, but %s can work on %llu at a time; split it", e->name,
                 (unsigned long long)td_shape_size(e->shape), td_device_get_info(store->device)->name,
                 (unsigned long long)most);
    TD_CHECK(td_alloc_grow(&store->segments, &store->segment_capacity, store->n_segments + 1,
                           sizeof *store->segments));
    store->segments[store->n_segments] = (td_segment){
        .learner = e->learner, .group = e->group, .is_state = is_state, .is_half_only = is_half_only};
    *out = (uint32_t)store->n_segments++;
    return TD_OK;
}

static td_placed_entry *find_entry(const td_store *store, const char *name)
{
    for (size_t i = 0; i < store->n_entries; i++)
        if (strcmp(store->entries[i].entry.name, name) == 0) return &store->entries[i];
    return NULL;
}

/* An entry for a tensor of a graph; there is room for it. */
static td_status add_entry(td_store *store, const td_tensor_info *info)
{
    td_placed_entry *e = &store->entries[store->n_entries];
    char *name = NULL, *like = NULL;
    TD_CHECK(td_arena_strdup(store->names, info->name, &name));
    if (info->init.like) TD_CHECK(td_arena_strdup(store->names, info->init.like, &like));
    *e = (td_placed_entry){.entry = {.name = name,
                                     .shape = info->shape,
                                     .role = info->role,
                                     .group = info->group,
                                     .state_kind = info->state_kind,
                                     .learner = TD_MAX_LEARNERS},
                           .init = info->init};
    e->init.like = like;
    store->n_entries++;
    return TD_OK;
}

static td_status claim(td_placed_entry *e, const td_tensor_info *info, uint32_t learner)
{
    TD_REFUSE_IF(!td_shape_equal(e->entry.shape, info->shape) || e->entry.role != info->role, TD_ERR_ARGUMENT,
                 "%s has two shapes in the graphs of one store", info->name);
    if (info->role == TD_TENSOR_STATE || info->is_frozen) return TD_OK;
    TD_REFUSE_IF(e->entry.learner != TD_MAX_LEARNERS, TD_ERR_ARGUMENT,
                 "two learners update %s; freeze it in the graph of one", info->name);
    e->entry.learner = learner;
    return TD_OK;
}

static td_status list_entries(td_store *store, const td_graph *graph, uint32_t learner)
{
    for (size_t t = 1; t < graph->n_tensors; t++) {
        const td_tensor_info *info = &graph->tensors[t];
        if (!is_kept(info)) continue;
        td_placed_entry *known = find_entry(store, info->name);
        if (!known) {
            TD_CHECK(td_alloc_grow(&store->entries, &store->entry_capacity, store->n_entries + 1,
                                   sizeof *store->entries));
            TD_CHECK(add_entry(store, info));
            known = &store->entries[store->n_entries - 1];
        }
        TD_CHECK(claim(known, info, learner));
    }
    return TD_OK;
}

/* The first prefix that fits, or their number. */
static size_t find_prefix(const char *const *order, const char *name)
{
    size_t i = 0;
    while (order[i] && strncmp(name, order[i], strlen(order[i])) != 0)
        i++;
    return i;
}

/* Entries that go together stay in the order of the graphs. */
static td_status sort_entries(td_store *store)
{
    const char *const *order = store->options.order;
    td_placed_entry *sorted = NULL;
    size_t n = 0, n_prefixes = 0;
    if (!order) return TD_OK;
    while (order[n_prefixes])
        n_prefixes++;
    TD_CHECK(TD_NEW_ARRAY(&sorted, store->entry_capacity));
    for (size_t p = 0; p <= n_prefixes; p++) {
        for (size_t i = 0; i < store->n_entries; i++)
            if (find_prefix(order, store->entries[i].entry.name) == p) sorted[n++] = store->entries[i];
    }
    free(store->entries);
    store->entries = sorted;
    return TD_OK;
}

/* Whether a tensor is read as the right side of products, and by nothing else. */
static bool is_of_products(const td_graph *graph, uint32_t id)
{
    for (size_t n = 0; n < graph->n_nodes; n++) {
        const td_node *node = &graph->nodes[n];
        for (size_t k = 0; k < TD_NODE_INPUTS && node->kind != TD_OP_view; k++) {
            if (!node->in[k] || graph->tensors[node->in[k]].root != id) continue;
            if (node->kind != TD_OP_matmul || k != MATMUL_B || node->info.matmul.layout == TD_GEMM_TN)
                return false;
        }
    }
    return true;
}

/* Which weights exist in 16 bits alone. */
static void find_half_only(td_store *store, const td_graph *const *graphs, size_t n_graphs)
{
    for (size_t i = 0; i < store->n_entries && store->options.half && store->options.half_frozen; i++) {
        td_placed_entry *e = &store->entries[i];
        e->is_half_only = e->entry.role == TD_TENSOR_PARAMETER && e->entry.learner == TD_MAX_LEARNERS &&
                          e->entry.group == TD_PARAM_DECAY && td_shape_size(e->entry.shape) >= TD_LEAST_HALF;
        for (size_t g = 0; g < n_graphs && e->is_half_only; g++) {
            const td_tensor t = td_graph_find(graphs[g], e->entry.name);
            if (t.id) e->is_half_only = is_of_products(graphs[g], t.id);
        }
    }
}

/* Where an entry's segment stands in the order: learner after learner and group after group, then what no
 * learner updates, then states, then what has 16 bits alone. */
static uint32_t rank_of(const td_placed_entry *placed)
{
    const td_store_entry *e = &placed->entry;
    if (placed->is_half_only) return LAST_RANK;
    if (e->role == TD_TENSOR_STATE) return LAST_RANK - 1;
    return e->learner * TD_PARAM_GROUPS + (uint32_t)e->group;
}

/* Within a rank in the order of the entries. */
static td_status lay_out(td_store *store)
{
    const td_device_caps *caps = &td_device_get_info(store->device)->caps;
    const uint64_t bytes =
        caps->max_binding_bytes < caps->max_alloc_bytes ? caps->max_binding_bytes : caps->max_alloc_bytes;
    const uint64_t align = align_elements(store);
    const uint64_t most = (bytes / 4 < UINT32_C(1) << 30 ? bytes / 4 : UINT32_C(1) << 30) / align * align;
    for (uint32_t rank = 0; rank <= LAST_RANK; rank++) {
        for (size_t i = 0; i < store->n_entries; i++) {
            td_placed_entry *e = &store->entries[i];
            if (rank_of(e) != rank) continue;
            TD_CHECK(find_segment(store, e, most, &e->segment));
            td_segment *segment = &store->segments[e->segment];
            e->offset = segment->elements;
            segment->elements += padded(store, e->entry.shape);
        }
    }
    return TD_OK;
}

static bool is_moment(td_block block)
{
    return block == TD_BLOCK_MOMENT1 || block == TD_BLOCK_MOMENT2;
}

static bool has_block(const td_store *store, const td_segment *segment, td_block block)
{
    if (block == TD_BLOCK_WEIGHT) return !segment->is_half_only;
    if (block == TD_BLOCK_HALF)
        return store->options.half && !segment->is_state && segment->group != TD_PARAM_NO_DECAY;
    if (segment->is_state || segment->learner == TD_MAX_LEARNERS) return false;
    if (store->options.no_moments && is_moment(block)) return false;
    if (store->options.no_gradients && block == TD_BLOCK_GRADIENT) return false;
    return block == TD_BLOCK_AVERAGE ? store->options.average : store->options.training;
}

static uint64_t block_bytes(const td_store *store, const td_segment *segment, int block)
{
    if (is_moment((td_block)block)) return td_packed_bytes(store->options.state, segment->elements);
    return (block == TD_BLOCK_HALF ? 2 : 4) * segment->elements;
}

static td_status take(td_store *store, td_list *list, uint64_t bytes, td_span *out)
{
    TD_CHECK(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, bytes, out));
    out->bytes = bytes;
    store->bytes += bytes;
    return td_list_fill(list, *out, 0);
}

/* What the host keeps is none of the device's bytes. */
static td_status take_on_host(td_store *store, uint64_t bytes, td_span *out)
{
    TD_CHECK(td_memory_alloc(store->memory, TD_MEMORY_HOST, bytes, out));
    out->bytes = bytes;
    if (td_device_get_info(store->device)->type !=
        TD_DEVICE_SIM) /* which computes nothing: room is enough there */
        memset(td_span_host(*out), 0, bytes);
    return TD_OK;
}

/* The loss scale before the first step, as bits. */
static uint32_t first_scale(const td_store *store)
{
    const float scale = store->options.half == TD_F16 ? TD_LOSS_SCALE_START : 1.0f;
    uint32_t bits = 0;
    memcpy(&bits, &scale, sizeof bits);
    return bits;
}

/* Words of the optimizers, and the step. */
static td_status take_controls(td_store *store, td_list *list)
{
    for (size_t i = 0; i < store->n_learners; i++) {
        TD_CHECK(take(store, list, TD_CONTROL_BYTES, &store->controls[i]));
        TD_CHECK(td_list_fill(list, td_span_part(store->controls[i], UINT64_C(4) * TD_CONTROL_SCALE, 4),
                              first_scale(store)));
    }
    return take(store, list, 4, &store->step);
}

static td_status allocate(td_store *store)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(take_controls(store, list));
    for (size_t s = 0; s < store->n_segments; s++) {
        td_segment *segment = &store->segments[s];
        for (int block = 0; block < TD_BLOCK_COUNT; block++) {
            const uint64_t bytes = block_bytes(store, segment, block);
            if (!has_block(store, segment, (td_block)block)) continue;
            TD_TRY(store->options.host_moments && is_moment((td_block)block)
                       ? take_on_host(store, bytes, &segment->blocks[block])
                       : take(store, list, bytes, &segment->blocks[block]));
        }
    }
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_store_create_shared(td_memory *memory, const td_graph *const *graphs, size_t n_graphs,
                                 const td_store_options *options, td_store **out)
{
    td_store *store = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(n_graphs > TD_MAX_LEARNERS, TD_ERR_LIMIT, "%zu learners; a store has at most %u", n_graphs,
               TD_MAX_LEARNERS);
    for (size_t i = 0; i < n_graphs; i++)
        TD_TRY(td_graph_status(graphs[i]));
    TD_TRY(TD_NEW(&store));
    store->memory = memory;
    store->device = td_memory_device(memory);
    store->options = *options;
    store->time_scale = 1;
    TD_TRY(td_arena_create(0, &store->names));
    store->n_learners = n_graphs;
    for (size_t i = 0; i < n_graphs; i++)
        TD_TRY(list_entries(store, graphs[i], (uint32_t)i));
    TD_TRY(sort_entries(store));
    find_half_only(store, graphs, n_graphs);
    TD_TRY(lay_out(store));
    TD_TRY(allocate(store));
    *out = store;
    return TD_OK;
fail:
    td_store_destroy(store);
    return status;
}

td_status td_store_create(td_memory *memory, const td_graph *graph, const td_store_options *options,
                          td_store **out)
{
    return td_store_create_shared(memory, &graph, 1, options, out);
}

/* In a segment of its own. */
static td_status add_state(td_store *store, td_list *list, const td_tensor_info *info)
{
    TD_CHECK(
        td_alloc_grow(&store->entries, &store->entry_capacity, store->n_entries + 1, sizeof *store->entries));
    TD_CHECK(td_alloc_grow(&store->segments, &store->segment_capacity, store->n_segments + 1,
                           sizeof *store->segments));
    td_segment *segment = &store->segments[store->n_segments];
    *segment = (td_segment){.learner = TD_MAX_LEARNERS,
                            .group = info->group,
                            .is_state = true,
                            .elements = padded(store, info->shape)};
    TD_CHECK(take(store, list, 4 * segment->elements, &segment->blocks[TD_BLOCK_WEIGHT]));
    const uint32_t at = (uint32_t)store->n_segments++;
    TD_CHECK(add_entry(store, info));
    store->entries[store->n_entries - 1].segment = at;
    return TD_OK;
}

td_status td_store_extend(td_store *store, const td_graph *graph)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_graph_status(graph));
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &list));
    for (size_t t = 1; t < graph->n_tensors; t++) {
        const td_tensor_info *info = &graph->tensors[t];
        if (info->role == TD_TENSOR_STATE && !find_entry(store, info->name))
            TD_TRY(add_state(store, list, info));
    }
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* ---------------------------------------------------------------- borrowing */

static td_status copy_entries(td_store *store, const td_store *lender)
{
    TD_CHECK(TD_NEW_ARRAY(&store->entries, lender->n_entries));
    store->entry_capacity = lender->n_entries;
    for (size_t i = 0; i < lender->n_entries; i++) {
        const td_placed_entry *from = &lender->entries[i];
        const td_tensor_info info = {.name = (char *)from->entry.name,
                                     .shape = from->entry.shape,
                                     .role = from->entry.role,
                                     .group = from->entry.group,
                                     .state_kind = from->entry.state_kind,
                                     .init = from->init};
        TD_CHECK(add_entry(store, &info));
        td_placed_entry *e = &store->entries[i];
        e->entry.learner = from->entry.learner;
        e->segment = from->segment;
        e->offset = from->offset;
    }
    return TD_OK;
}

/* Parameters stay where they are; states get room and the lender's values. */
static td_status borrow_segments(td_store *store, const td_store *lender)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&store->segments, lender->n_segments));
    store->segment_capacity = lender->n_segments;
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(take_controls(store, list));
    for (size_t s = 0; s < lender->n_segments; s++) {
        td_segment *to = &store->segments[s];
        const td_segment *from = &lender->segments[s];
        *to = (td_segment){.learner = from->learner,
                           .group = from->group,
                           .is_state = from->is_state,
                           .is_borrowed = !from->is_state,
                           .elements = from->elements};
        store->n_segments++;
        if (to->is_borrowed) {
            memcpy(to->blocks, from->blocks, sizeof to->blocks);
        } else {
            TD_TRY(take(store, list, 4 * to->elements, &to->blocks[TD_BLOCK_WEIGHT]));
            TD_TRY(td_list_copy(list, to->blocks[TD_BLOCK_WEIGHT], from->blocks[TD_BLOCK_WEIGHT]));
        }
    }
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_store_borrow(const td_store *lender, td_store **out)
{
    td_store *store = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(lender->options.training, TD_ERR_ARGUMENT, "the weights of a store for training are not lent");
    TD_TRY(TD_NEW(&store));
    store->memory = lender->memory;
    store->device = lender->device;
    store->options = lender->options;
    store->options.order = NULL;
    store->n_learners = lender->n_learners;
    store->time_scale = lender->time_scale;
    TD_TRY(td_arena_create(0, &store->names));
    TD_TRY(copy_entries(store, lender));
    TD_TRY(borrow_segments(store, lender));
    *out = store;
    return TD_OK;
fail:
    td_store_destroy(store);
    return status;
}

void td_store_destroy(td_store *store)
{
    if (!store) return;
    for (size_t s = 0; s < store->n_segments; s++)
        for (int block = 0; block < TD_BLOCK_COUNT && !store->segments[s].is_borrowed; block++)
            td_memory_free(store->memory, store->segments[s].blocks[block]);
    for (size_t s = 0; s < store->n_segments; s++)
        td_memory_free(store->memory, store->segments[s].before);
    for (size_t c = 0; c < store->n_arena; c++)
        td_memory_free(store->memory, store->arena[c]);
    for (size_t i = 0; i < store->n_learners; i++) {
        td_list_destroy(store->keep[i]);
        td_list_destroy(store->sum[i]);
        td_list_destroy(store->clear[i]);
        td_memory_free(store->memory, store->controls[i]);
    }
    td_memory_free(store->memory, store->step);
    td_arena_destroy(store->names);
    free(store->segments);
    free(store->entries);
    free(store);
}

/* ---------------------------------------------------------------- looking up */

size_t td_store_count(const td_store *store)
{
    return store->n_entries;
}

td_store_entry td_store_get(const td_store *store, size_t i)
{
    return store->entries[i].entry;
}

td_span td_store_span(const td_store *store, size_t i, td_block block)
{
    const td_placed_entry *e = &store->entries[i];
    const td_span whole = store->segments[e->segment].blocks[block];
    if (!whole.buffer) return (td_span){0};
    const uint64_t size = td_shape_size(e->entry.shape);
    const td_state_format state = is_moment(block) ? store->options.state : TD_STATE_FP32;
    if (block == TD_BLOCK_HALF || state == TD_STATE_BF16)
        return td_span_part(whole, 2 * e->offset, 4 * TD_HALF_WORDS(size));
    if (state == TD_STATE_INT8) return td_span_part(whole, e->offset, td_round_up(size, 4));
    return td_span_part(whole, 4 * e->offset, 4 * size);
}

td_span td_store_scales(const td_store *store, size_t i, td_block block)
{
    const td_placed_entry *e = &store->entries[i];
    const td_segment *segment = &store->segments[e->segment];
    const td_span whole = segment->blocks[block];
    if (!whole.buffer || !is_moment(block) || store->options.state != TD_STATE_INT8) return (td_span){0};
    const uint64_t blocks = td_round_up(td_shape_size(e->entry.shape), TD_STATE_BLOCK) / TD_STATE_BLOCK;
    return td_span_part(whole, segment->elements + 4 * (e->offset / TD_STATE_BLOCK), 4 * blocks);
}

td_state_format td_store_state(const td_store *store)
{
    return store->options.state;
}

td_status td_store_find(const td_store *store, const td_graph *graph, uint32_t tensor, td_block block,
                        td_span *out)
{
    const td_tensor_info *t = &graph->tensors[tensor];
    const td_placed_entry *e = find_entry(store, t->name);
    TD_REFUSE_IF(
        !e || !td_shape_equal(e->entry.shape, t->shape) || e->entry.role != t->role ||
            e->entry.group != t->group,
        TD_ERR_ARGUMENT,
        "the store has no %s of this shape and group; graphs of one store must have the same parameters",
        t->name);
    *out = td_store_span(store, (size_t)(e - store->entries), block);
    if (e->is_half_only && block != TD_BLOCK_HALF) return TD_OK; /* products read the others */
    if (!out->buffer && block == TD_BLOCK_AVERAGE)
        *out = td_store_span(store, (size_t)(e - store->entries), TD_BLOCK_WEIGHT);
    TD_REFUSE_IF(!out->buffer, TD_ERR_ARGUMENT, "the store has no gradients of %s; create it for training",
                 t->name);
    return TD_OK;
}

/* ---------------------------------------------------------------- moving values */

static td_status find_values(const td_store *store, size_t i, td_block block, td_span *out)
{
    *out = td_store_span(store, i, block);
    if (out->buffer) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "the store does not keep this block for this entry");
}

/* The copy in 16 bits follows. */
static td_status cast_entry(td_store *store, size_t i)
{
    const td_span half = td_store_span(store, i, TD_BLOCK_HALF);
    td_list *list = NULL;
    td_status status = TD_OK;
    if (!half.buffer) return TD_OK;
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_op_cast_half(list, td_dtype_format(store->options.half),
                           (uint32_t)td_shape_size(store->entries[i].entry.shape),
                           td_store_span(store, i, TD_BLOCK_WEIGHT), half));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

static bool is_packed(const td_store *store, td_block block)
{
    return is_moment(block) && store->options.state != TD_STATE_FP32;
}

bool td_store_has(const td_store *store, size_t i, td_block block)
{
    const bool is_half_only = store->entries[i].is_half_only && block == TD_BLOCK_WEIGHT;
    return td_store_span(store, i, is_half_only ? TD_BLOCK_HALF : block).buffer != NULL;
}

td_status td_store_write(td_store *store, size_t i, td_block block, const float *values)
{
    td_span span;
    TD_CHECK(td_store_settle(store));
    if (store->entries[i].is_half_only && block == TD_BLOCK_WEIGHT)
        return td_store_move_half(store, i, values, NULL);
    TD_CHECK(find_values(store, i, block, &span));
    if (is_packed(store, block)) return td_store_write_packed(store, i, block, values);
    TD_CHECK(td_blocking_write(store->memory, span, values));
    if (block == TD_BLOCK_WEIGHT) TD_CHECK(cast_entry(store, i));
    return TD_OK;
}

/* Takes the loss scale out of an entry's gradients; a power of two, so nothing is lost. */
static td_status unscale(td_store *store, const td_store_entry *entry, float *values)
{
    uint32_t words[TD_CONTROL_WORDS];
    float scale = 0;
    if (store->options.half != TD_F16) return TD_OK;
    TD_CHECK(td_store_read_control(store, entry->learner, words));
    memcpy(&scale, &words[TD_CONTROL_SCALE], sizeof scale);
    for (uint64_t k = 0; k < td_shape_size(entry->shape); k++)
        values[k] /= scale;
    return TD_OK;
}

td_status td_store_read(td_store *store, size_t i, td_block block, float *values)
{
    td_span span;
    TD_CHECK(td_store_settle(store));
    if (store->entries[i].is_half_only && block == TD_BLOCK_WEIGHT)
        return td_store_move_half(store, i, NULL, values);
    TD_CHECK(find_values(store, i, block, &span));
    if (is_packed(store, block)) return td_store_read_packed(store, i, block, values);
    TD_CHECK(td_blocking_read(store->memory, span, (td_point){0}, values));
    if (block == TD_BLOCK_GRADIENT) TD_CHECK(unscale(store, &store->entries[i].entry, values));
    return TD_OK;
}

size_t td_store_learners(const td_store *store)
{
    return store->n_learners;
}

td_status td_store_write_control(td_store *store, size_t learner, const uint32_t *words)
{
    uint32_t own[TD_CONTROL_WORDS];
    memcpy(own, words, sizeof own);
    if (!own[TD_CONTROL_SCALE] || store->options.half != TD_F16) own[TD_CONTROL_SCALE] = first_scale(store);
    return td_blocking_write(store->memory, store->controls[learner], own);
}

td_status td_store_read_control(td_store *store, size_t learner, uint32_t *words)
{
    return td_blocking_read(store->memory, store->controls[learner], (td_point){0}, words);
}

td_span td_store_control(const td_store *store, size_t learner)
{
    return store->controls[learner];
}

static bool are_finite(const float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

td_status td_store_find_broken(td_store *store, td_block block, size_t *out)
{
    float *values = NULL;
    uint64_t most = 1;
    td_status status = TD_OK;
    *out = store->n_entries;
    for (size_t i = 0; i < store->n_entries; i++) {
        const uint64_t size = td_shape_size(store->entries[i].entry.shape);
        if (size > most) most = size;
    }
    TD_TRY(TD_NEW_ARRAY(&values, most));
    for (size_t i = 0; i < store->n_entries; i++) {
        if (!td_store_span(store, i, block).buffer) continue;
        TD_TRY(td_store_read(store, i, block, values));
        if (are_finite(values, td_shape_size(store->entries[i].entry.shape))) continue;
        *out = i;
        break;
    }
fail:
    free(values);
    return status;
}
