/* Where every tensor lies: each storage lives from the node that first writes it to the last that uses it;
 * storages whose lives do not meet share bytes. Largest first, each at the lowest offset that is free during
 * its life. A node may write over an input that dies there, if its row of the table says so. Scratch of a
 * node is a storage that lives at that node alone. Covered by tests/graph/test_plan.c. */
#include <stdlib.h>

#include "graph/draft.h"

#define NONE UINT32_MAX

uint64_t td_tensor_bytes(const td_tensor_info *t)
{
    const uint64_t size = td_shape_size(t->shape);
    return 4 * (td_dtype_format(t->dtype) ? TD_HALF_WORDS(size) : size);
}

static bool is_in_arena(const td_tensor_info *t)
{
    return t->role == TD_TENSOR_ACTIVATION || t->role == TD_TENSOR_INPUT;
}

/* ---------------------------------------------------------------- lives */

static td_allocation *add_allocation(td_layout *layout, uint64_t bytes, uint32_t first, uint32_t last,
                                     uint32_t tensor)
{
    td_allocation *place = &layout->allocations[layout->n_allocations++];
    *place = (td_allocation){
        .bytes = td_round_up(bytes, TD_STORAGE_ALIGN), .first = first, .last = last, .tensor = tensor};
    return place;
}

static void note_use(const td_draft *draft, td_layout *layout, uint32_t id, uint32_t n)
{
    const uint32_t root = draft->tensors[id].root;
    const td_tensor_info *t = &draft->tensors[root];
    if (!id || !is_in_arena(t)) return;
    if (!layout->of_tensor[root]) {
        add_allocation(layout, td_tensor_bytes(t), t->role == TD_TENSOR_INPUT ? 0 : n, n, root);
        layout->of_tensor[root] = (uint32_t)layout->n_allocations;
    }
    td_allocation *place = &layout->allocations[layout->of_tensor[root] - 1];
    if (n > place->last) place->last = n;
    if (draft->tensors[id].is_output || t->is_output) place->last = (uint32_t)draft->n_nodes;
}

static td_status find_lives(const td_draft *draft, const td_recorder *r, td_layout *layout)
{
    for (uint32_t n = 0; n < draft->n_nodes; n++) {
        const td_node *node = &draft->nodes[n];
        const td_op_row *row = td_op_table[node->kind];
        uint64_t scratch = 0;
        for (size_t i = 0; i < TD_NODE_INPUTS; i++)
            note_use(draft, layout, node->in[i], n);
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            note_use(draft, layout, node->out[o], n);
        if (row->workspace) TD_CHECK(row->workspace(r, node, &scratch));
        if (!scratch) continue;
        add_allocation(layout, scratch, n, n, 0);
        layout->of_node[n] = (uint32_t)layout->n_allocations;
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- in place */

static uint32_t resolve(const td_layout *layout, uint32_t place)
{
    while (layout->allocations[place].joined)
        place = layout->allocations[place].joined - 1;
    return place;
}

/* How often a storage is an input of the node. */
static size_t count_reads(const td_draft *draft, const td_node *node, uint32_t root)
{
    size_t n = 0;
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        n += node->in[i] && draft->tensors[node->in[i]].root == root;
    return n;
}

/* Output 0 of node n over input i: the input whole, as large as the output, and read for the last time. */
static bool can_join(const td_draft *draft, const td_layout *layout, uint32_t n, size_t i)
{
    const td_node *node = &draft->nodes[n];
    const td_tensor_info *in = &draft->tensors[node->in[i]];
    const td_tensor_info *out = &draft->tensors[node->out[0]];
    const uint32_t of_in = layout->of_tensor[in->root];
    const uint32_t of_out = layout->of_tensor[out->root];
    if (!of_in || !of_out || in->root == out->root) return false;
    const td_allocation *a = &layout->allocations[resolve(layout, of_in - 1)];
    const td_allocation *b = &layout->allocations[of_out - 1];
    return a->last == n && b->first == n && !b->joined && a->bytes == b->bytes && in->root_offset == 0 &&
           out->root_offset == 0 && td_shape_equal(in->shape, out->shape) && in->dtype == out->dtype &&
           td_tensor_bytes(&draft->tensors[in->root]) == td_tensor_bytes(in) &&
           count_reads(draft, node, in->root) == 1;
}

/* A chain with two outputs stores one before it has read all: those stay apart. */
static bool may_work_in_place(const td_node *node)
{
    return node->kind != TD_OP_chain || !node->out[1];
}

static void join_allocations(const td_draft *draft, td_layout *layout)
{
    for (uint32_t n = 0; n < draft->n_nodes; n++) {
        const td_node *node = &draft->nodes[n];
        const uint8_t allowed = td_op_table[node->kind]->in_place;
        for (size_t i = 0; may_work_in_place(node) && i < TD_NODE_INPUTS; i++) {
            if (!(allowed >> i & 1) || !node->in[i] || !can_join(draft, layout, n, i)) continue;
            const uint32_t a = resolve(layout, layout->of_tensor[draft->tensors[node->in[i]].root] - 1);
            td_allocation *b = &layout->allocations[layout->of_tensor[draft->tensors[node->out[0]].root] - 1];
            b->joined = a + 1;
            layout->allocations[a].last = b->last;
            break;
        }
    }
}

/* ---------------------------------------------------------------- offsets */

static bool do_meet(const td_allocation *a, const td_allocation *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int by_size(const void *pa, const void *pb)
{
    const td_allocation *a = *(const td_allocation *const *)pa;
    const td_allocation *b = *(const td_allocation *const *)pb;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Places with an offset, by chunk in order of offset. */
typedef struct shelf {
    td_allocation **placed;
    size_t n;
} shelf;

static bool put_on(shelf *s, td_allocation *place, uint64_t capacity, uint32_t chunk)
{
    uint64_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        const td_allocation *other = s->placed[i];
        if (!do_meet(place, other)) continue;
        if (other->offset >= at + place->bytes) break;
        if (other->offset + other->bytes > at) at = other->offset + other->bytes;
    }
    if (at + place->bytes > capacity) return false;
    place->offset = at;
    place->chunk = chunk;
    size_t i = s->n++;
    for (; i > 0 && s->placed[i - 1]->offset > at; i--)
        s->placed[i] = s->placed[i - 1];
    s->placed[i] = place;
    return true;
}

static uint64_t capacity_of(const td_layout_limits *limits, size_t chunk)
{
    return chunk < limits->n_existing ? limits->existing[chunk] : limits->chunk_bytes;
}

static td_status put_all(td_layout *layout, const td_layout_limits *limits, td_allocation **order, size_t n,
                         shelf *shelves)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t chunk = 0;
        while (chunk < 16 && !put_on(&shelves[chunk], order[i], capacity_of(limits, chunk), chunk))
            chunk++;
        TD_REFUSE_IF(
            chunk == 16, TD_ERR_LIMIT,
            "a tensor of %llu bytes has no place: chunks of the device are at most %llu bytes, and a plan "
            "has at most 16; use smaller batches",
            (unsigned long long)order[i]->bytes, (unsigned long long)limits->chunk_bytes);
        const uint64_t end = order[i]->offset + order[i]->bytes;
        if (end > layout->chunk_bytes[chunk]) layout->chunk_bytes[chunk] = end;
        if (chunk + 1 > layout->n_chunks) layout->n_chunks = chunk + 1;
    }
    return TD_OK;
}

static td_status assign_offsets(td_layout *layout, const td_layout_limits *limits)
{
    td_allocation **order = NULL;
    shelf shelves[16] = {0};
    size_t n = 0;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&order, layout->n_allocations + 1));
    for (size_t c = 0; c < 16; c++)
        TD_TRY(TD_NEW_ARRAY(&shelves[c].placed, layout->n_allocations + 1));
    for (size_t p = 0; p < layout->n_allocations; p++) {
        td_allocation *place = &layout->allocations[p];
        layout->sum_bytes += place->bytes;
        if (!place->joined) order[n++] = place;
    }
    qsort(order, n, sizeof *order, by_size);
    TD_TRY(put_all(layout, limits, order, n, shelves));
    for (size_t p = 0; p < layout->n_allocations; p++) {
        td_allocation *place = &layout->allocations[p];
        const td_allocation *owner = &layout->allocations[resolve(layout, (uint32_t)p)];
        place->offset = owner->offset;
        place->chunk = owner->chunk;
    }
fail:
    for (size_t c = 0; c < 16; c++)
        free(shelves[c].placed);
    free(order);
    return status;
}

td_status td_layout_make(const td_draft *draft, const td_recorder *r, const td_layout_limits *limits,
                         td_layout *out)
{
    td_status status = TD_OK;
    *out = (td_layout){0};
    TD_TRY(TD_NEW_ARRAY(&out->allocations, draft->n_tensors + draft->n_nodes + 1));
    TD_TRY(TD_NEW_ARRAY(&out->of_tensor, draft->n_tensors));
    TD_TRY(TD_NEW_ARRAY(&out->of_node, draft->n_nodes + 1));
    TD_TRY(find_lives(draft, r, out));
    if (!limits->no_reuse) join_allocations(draft, out);
    for (size_t p = 0; limits->no_reuse && p < out->n_allocations; p++) {
        out->allocations[p].first = 0;
        out->allocations[p].last = (uint32_t)draft->n_nodes;
    }
    TD_TRY(assign_offsets(out, limits));
fail:
    if (status != TD_OK) td_layout_clear(out);
    return status;
}

void td_layout_clear(td_layout *layout)
{
    free(layout->allocations);
    free(layout->of_tensor);
    free(layout->of_node);
    *layout = (td_layout){0};
}
