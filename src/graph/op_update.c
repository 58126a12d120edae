/* What becomes of gradients in the run itself. Updates: behind the last use of a parameter and of its gradient stands a node that updates it, so
 * that the gradient's place is free from there on. Gradients of all parameters are never there at once; hence nothing
 * can depend on all of them before the first is used, as clipping would. Sums: behind the last use of a gradient stands a
 * node that adds it to the store's. Covered by tests/graph/test_plan.c. */
#include <stdlib.h>
#include <string.h>

#include "graph/draft.h"
#include "graph/optimizer.h"

/* ---------------------------------------------------------------- launching */

static td_status record_begin(td_recorder *r, const td_node *node)
{
    return td_optimizer_record_begin(r->updates, r->list, td_recorder_span(r, node->in[0]));
}

static td_status record_update(td_recorder *r, const td_node *node)
{
    return td_optimizer_record_update(r->updates, r->list, r->tensors[node->in[UPDATE_PARAMETER]].name,
                                      td_recorder_span(r, node->in[UPDATE_GRADIENT]), r->workspace);
}

static td_status find_workspace(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    *bytes = td_optimizer_scratch(r->updates, td_shape_size(td_recorder_shape(r, node->in[UPDATE_GRADIENT])));
    return TD_OK;
}

const td_op_row td_op_row_begin_update = {.required = 1, .shape = td_op_shape_given, .record = record_begin};
const td_op_row td_op_row_update = {
    .required = 2, .shape = td_op_shape_given, .record = record_update, .workspace = find_workspace};

/* ---------------------------------------------------------------- where they stand */

/* A node that updates the parameter, and the node behind which it stands, counted from 1. */
typedef struct update {
    uint32_t parameter, gradient;
    size_t behind;
} update;

/* Parameters that the loss does not depend on are updated too, by a gradient of zeros: decay pulls on them, and their
 * moments fade. */
static td_status find_updates(td_draft *draft, update *updates, size_t *count)
{
    const size_t n_tensors = draft->n_tensors;
    *count = 0;
    for (uint32_t id = 1; id < n_tensors; id++) {
        const td_tensor_info *t = &draft->tensors[id];
        if (t->role != TD_TENSOR_PARAMETER || t->is_frozen || t->root != id || td_dtype_format(t->dtype))
            continue;
        updates[*count] = (update){.parameter = id, .gradient = t->gradient};
        if (!t->gradient) TD_CHECK(td_draft_tensor(draft, id, TD_F32, &updates[*count].gradient));
        ++*count;
    }
    return TD_OK;
}

/* By tensor that others are part of: the last node that uses it, counted from 1; 0: none. */
static void find_last_uses(const td_draft *draft, size_t *last)
{
    for (size_t n = 0; n < draft->n_nodes; n++) {
        const td_node *node = &draft->nodes[n];
        for (size_t i = 0; i < TD_NODE_INPUTS; i++)
            last[draft->tensors[node->in[i]].root] = n + 1;
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            last[draft->tensors[node->out[o]].root] = n + 1;
    }
}

static int by_place(const void *pa, const void *pb)
{
    const update *a = pa, *b = pb;
    if (a->behind != b->behind) return a->behind < b->behind ? -1 : 1;
    return a->parameter < b->parameter ? -1 : 1;
}

/* Adds the gradient to the store's, another tensor of the same parameter. */
static td_node make_sum(uint32_t gradient, uint32_t sum)
{
    td_node node = td_chain_node(gradient, 0, 0, 0);
    td_chain_node_add(&node, TD_CHAIN_LOAD, TD_CHAIN_INPUT, 0);
    td_chain_node_add(&node, TD_CHAIN_STORE, 0, 0);
    node.out[0] = sum;
    node.add[0] = TD_ADD_ALWAYS;
    node.backward = true;
    return node;
}

td_status td_draft_sum(td_draft *draft)
{
    td_status status = TD_OK;
    const size_t n_old = draft->n_nodes, n_tensors = draft->n_tensors;
    size_t *behind = NULL; /* by tensor: the last node that uses it, counted from 1 */
    uint32_t *sums = NULL; /* by tensor that is a gradient: the store's */
    td_node *old = NULL;
    TD_TRY(TD_NEW_ARRAY(&behind, n_tensors));
    TD_TRY(TD_NEW_ARRAY(&sums, n_tensors));
    TD_TRY(TD_NEW_ARRAY(&old, n_old));
    memcpy(old, draft->nodes, n_old * sizeof *old);
    find_last_uses(draft, behind);
    for (uint32_t id = 1; id < n_tensors; id++) {
        if (draft->tensors[id].role != TD_TENSOR_GRADIENT || draft->tensors[id].root != id) continue;
        TD_TRY(td_draft_tensor(draft, id, TD_F32, &sums[id]));
        draft->tensors[sums[id]].role = TD_TENSOR_GRADIENT;
        draft->tensors[id].role = TD_TENSOR_ACTIVATION;
    }
    TD_TRY(td_alloc_grow(&draft->nodes, &draft->node_capacity, n_old + n_tensors, sizeof *draft->nodes));
    draft->n_nodes = 0;
    for (size_t n = 0; n < n_old; n++) {
        draft->nodes[draft->n_nodes++] = old[n];
        for (uint32_t id = 1; id < n_tensors; id++)
            if (sums[id] && behind[id] == n + 1) draft->nodes[draft->n_nodes++] = make_sum(id, sums[id]);
    }
fail:
    free(behind);
    free(sums);
    free(old);
    return status;
}

/* All nodes with those of the updates between them; the first update has the loss judged before it. */
static void put_in(td_draft *draft, const td_node *old, size_t n_old, const update *updates, size_t count)
{
    size_t next = 0;
    draft->n_nodes = 0;
    for (size_t n = 0; n <= n_old; n++) {
        for (; next < count && updates[next].behind == n; next++) {
            const update *u = &updates[next];
            if (next == 0)
                draft->nodes[draft->n_nodes++] =
                    (td_node){.kind = TD_OP_begin_update, .in = {draft->graph->loss}, .backward = true};
            if (!draft->tensors[u->parameter].gradient)
                draft->nodes[draft->n_nodes++] =
                    (td_node){.kind = TD_OP_fill, .out = {u->gradient}, .backward = true};
            draft->nodes[draft->n_nodes++] =
                (td_node){.kind = TD_OP_update, .in = {u->gradient, u->parameter}, .backward = true};
        }
        if (n < n_old) draft->nodes[draft->n_nodes++] = old[n];
    }
}

td_status td_draft_update(td_draft *draft)
{
    td_status status = TD_OK;
    update *updates = NULL;
    size_t *last = NULL;
    td_node *old = NULL;
    const size_t n_old = draft->n_nodes;
    size_t count = 0;
    TD_TRY(TD_NEW_ARRAY(&updates, draft->n_tensors));
    TD_TRY(find_updates(draft, updates, &count));
    TD_TRY(TD_NEW_ARRAY(&last, draft->n_tensors));
    TD_TRY(TD_NEW_ARRAY(&old, n_old));
    find_last_uses(draft, last);
    for (size_t i = 0; i < count; i++) {
        const size_t read = last[updates[i].parameter], made = last[updates[i].gradient];
        updates[i].behind = made == 0 ? n_old : made > read ? made : read;
    }
    qsort(updates, count, sizeof *updates, by_place);
    memcpy(old, draft->nodes, n_old * sizeof *old);
    TD_TRY(td_alloc_grow(&draft->nodes, &draft->node_capacity, n_old + 2 * count + 1, sizeof *draft->nodes));
    put_in(draft, old, n_old, updates, count);
    for (size_t i = 0; i < count; i++)
        draft->tensors[updates[i].gradient].role = TD_TENSOR_ACTIVATION;
fail:
    free(updates);
    free(last);
    free(old);
    return status;
}
