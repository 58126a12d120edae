/* Reverse-mode gradients: walks the nodes backwards, asks each row of the table for its gradient nodes, and
 * sums what comes to one tensor in the order of the walk, so that the same graph always adds in the same
 * order. The derivative of each operation is with the operation. Covered by tests/graph/test_random.c. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/internal.h"

/* ---------------------------------------------------------------- the gradients so far */

static struct td_slot *slot_of(const td_backprop *b, uint32_t id)
{
    return id < b->capacity ? &b->of[id] : NULL;
}

bool td_backprop_wants(const td_backprop *b, uint32_t id)
{
    return id && td_graph_at(b->graph, id)->needs_gradient;
}

bool td_backprop_get_constant(const td_backprop *b, uint32_t id, double *value)
{
    const struct td_slot *slot = slot_of(b, id);
    if (!slot || !slot->is_constant || slot->id) return false;
    *value = slot->value;
    return true;
}

static uint32_t make_constant(td_graph *graph, td_shape shape, double value)
{
    td_node node = {.kind = TD_OP_fill, .info = {.value = (float)value}};
    td_graph_make_output(graph, &node, 0, shape, TD_F32);
    return td_graph_append(graph, node).id;
}

uint32_t td_backprop_get(td_backprop *b, uint32_t id)
{
    struct td_slot *slot = slot_of(b, id);
    if (!slot) return 0;
    if (slot->is_constant && !slot->id) {
        slot->id = make_constant(b->graph, td_graph_at(b->graph, id)->shape, slot->value);
        slot->is_constant = false;
    }
    return slot->id;
}

void td_backprop_add_constant(td_backprop *b, uint32_t id, double value)
{
    struct td_slot *slot = slot_of(b, id);
    const td_tensor_info *t = td_graph_at(b->graph, id);
    if (!slot || !td_backprop_wants(b, id)) return;
    if (!slot->id && t->role != TD_TENSOR_PARAMETER) {
        slot->is_constant = true;
        slot->value += value;
        return;
    }
    td_backprop_add(b, id, make_constant(b->graph, t->shape, value));
}

/* ---------------------------------------------------------------- contributions */

/* Where the gradient of a parameter lies; *add says whether this contribution is the first. */
static uint32_t claim(td_backprop *b, uint32_t id, td_add *add)
{
    char name[160];
    uint32_t gradient = td_graph_at(b->graph, id)->gradient;
    *add = gradient ? TD_ADD_ALWAYS : TD_ADD_FIRST;
    if (gradient) return gradient;
    snprintf(name, sizeof name, "d %.150s", td_graph_at(b->graph, id)->name);
    gradient =
        td_graph_new_tensor(b->graph, TD_TENSOR_GRADIENT, TD_F32, td_graph_at(b->graph, id)->shape, name);
    td_graph_at(b->graph, gradient)->parameter = id;
    td_graph_at(b->graph, id)->gradient = gradient;
    return gradient;
}

static bool is_parameter(const td_backprop *b, uint32_t id)
{
    return td_graph_at(b->graph, id)->role == TD_TENSOR_PARAMETER;
}

/* Outputs of a node share their flag: all gradients are written straight to their parameters, or none. */
static bool can_claim(const td_backprop *b, const td_node *node, const uint32_t *targets)
{
    const uint8_t can_add = td_op_table[node->kind]->can_add;
    size_t n = 0;
    bool first[2] = {false, false};
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++) {
        if (!targets[o] || !(can_add >> o & 1)) continue;
        if (!is_parameter(b, targets[o])) return false;
        for (size_t p = 0; p < o; p++)
            if (targets[p] == targets[o]) return false;
        first[td_graph_at(b->graph, targets[o])->gradient ? 1 : 0] = true;
        n++;
    }
    return n > 0 && first[0] != first[1];
}

void td_backprop_append(td_backprop *b, td_node node, uint32_t target0, uint32_t target1, uint32_t target2)
{
    uint32_t targets[TD_NODE_OUTPUTS] = {target0, target1, target2};
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (!td_backprop_wants(b, targets[o])) targets[o] = 0;
    const bool claims = can_claim(b, &node, targets);
    const uint8_t can_add = td_op_table[node.kind]->can_add;
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++) {
        if (!targets[o]) continue;
        if (claims && can_add >> o & 1) {
            node.out[o] = claim(b, targets[o], &node.add[o]);
            targets[o] = 0;
        } else {
            td_graph_make_output(b->graph, &node, o, td_graph_at(b->graph, targets[o])->shape, TD_F32);
        }
    }
    td_graph_append(b->graph, node);
    if (!td_graph_is_sound(b->graph)) return;
    const td_node *made = &b->graph->nodes[b->graph->n_nodes - 1];
    uint32_t out[TD_NODE_OUTPUTS];
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        out[o] = made->out[o];
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (targets[o]) td_backprop_add(b, targets[o], out[o]);
}

/* The axes of `repeated` along which `target` repeats, from `d` on: [*first, return). */
static size_t find_run(td_shape repeated, td_shape target, size_t d, size_t *first)
{
    const size_t lead = repeated.n_dims - target.n_dims;
#define REPEATS(axis) (repeated.dims[axis] != 1 && ((axis) < lead || target.dims[(axis)-lead] == 1))
    while (d < repeated.n_dims && !REPEATS(d))
        d++;
    *first = d;
    while (d < repeated.n_dims && REPEATS(d))
        d++;
#undef REPEATS
    return d;
}

/* The gradient of something repeated is the sum over its copies: one reduction per run of axes. */
static void add_summed(td_backprop *b, uint32_t id, uint32_t gradient)
{
    const td_shape target = td_graph_at(b->graph, id)->shape;
    td_shape repeated = td_graph_at(b->graph, gradient)->shape;
    size_t first = 0;
    size_t end = find_run(repeated, target, 0, &first);
    while (first < end && td_graph_is_sound(b->graph)) {
        td_node node = {.kind = TD_OP_reduce, .in = {gradient}};
        td_reduce_info *info = &node.info.reduce;
        *info = (td_reduce_info){.kind = TD_REDUCE_SUM, .outer = 1, .axis = 1, .inner = 1};
        for (size_t d = 0; d < repeated.n_dims; d++)
            *(d < first ? &info->outer : d < end ? &info->axis : &info->inner) *= repeated.dims[d];
        for (size_t d = first; d < end; d++)
            repeated.dims[d] = 1;
        size_t next = 0;
        const size_t next_end = find_run(repeated, target, 0, &next);
        if (next == next_end || td_shape_size(repeated) == td_shape_size(target)) {
            td_backprop_append(b, node, id, 0, 0);
            return;
        }
        td_graph_make_output(b->graph, &node, 0, repeated, TD_F32);
        gradient = td_graph_append(b->graph, node).id;
        first = next;
        end = next_end;
    }
}

static void add_to_parameter(td_backprop *b, uint32_t id, uint32_t gradient)
{
    td_node node = td_chain_node(gradient, 0, 0, 0);
    td_chain_node_add(&node, TD_CHAIN_LOAD, TD_CHAIN_INPUT, 0);
    td_chain_node_add(&node, TD_CHAIN_STORE, 0, 0);
    td_backprop_append(b, node, id, 0, 0);
}

void td_backprop_add(td_backprop *b, uint32_t id, uint32_t gradient)
{
    struct td_slot *slot = slot_of(b, id);
    if (!td_backprop_wants(b, id) || !gradient || !td_graph_is_sound(b->graph) || !slot) return;
    const uint64_t size = td_shape_size(td_graph_at(b->graph, id)->shape);
    if (td_shape_size(td_graph_at(b->graph, gradient)->shape) != size) {
        add_summed(b, id, gradient);
    } else if (is_parameter(b, id)) {
        add_to_parameter(b, id, gradient);
    } else {
        const uint32_t before = td_backprop_get(b, id);
        const td_shape shape = td_graph_at(b->graph, id)->shape;
        if (!td_shape_equal(td_graph_at(b->graph, gradient)->shape,
                            shape)) /* repeated once: axes of 1 before it */
            gradient = td_graph_reshape(b->graph, (td_tensor){gradient}, shape).id;
        slot->id = before ? td_chain_apply(b->graph, TD_CHAIN_ADD, before, gradient, 0).id : gradient;
    }
}

/* ---------------------------------------------------------------- the walk */

static bool has_gradient(const td_backprop *b, const td_node *node)
{
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++) {
        const struct td_slot *slot = slot_of(b, node->out[o]);
        if (node->out[o] && slot && (slot->id || slot->is_constant)) return true;
    }
    return false;
}

static void walk(td_backprop *b)
{
    td_graph *graph = b->graph;
    for (size_t i = graph->n_nodes; i-- > 0 && td_graph_is_sound(graph);) {
        const td_node node = graph->nodes[i]; /* the array moves while nodes are appended */
        if (!has_gradient(b, &node) || !td_graph_at(graph, node.out[0])->needs_gradient) continue;
        td_op_table[node.kind]->backward(b, &node);
    }
}

static td_status append_gradients(td_graph *graph, td_tensor loss, float scale, bool is_scaled)
{
    td_backprop b = {.graph = graph};
    td_status status = TD_OK;
    TD_TRY(td_graph_status(graph));
    TD_FAIL_IF(graph->has_backward, TD_ERR_ARGUMENT, "td_graph_backward was called twice on one graph");
    TD_FAIL_IF(!loss.id || td_shape_size(td_graph_shape(graph, loss)) != 1, TD_ERR_ARGUMENT,
               "the gradient of %s was asked for, which is not a single number", td_graph_name(graph, loss));
    TD_FAIL_IF(!td_graph_at(graph, loss.id)->needs_gradient, TD_ERR_ARGUMENT,
               "%s depends on no parameter that is trained", td_graph_name(graph, loss));
    b.capacity = graph->n_tensors; /* tensors made from here on are gradients themselves */
    TD_TRY(TD_NEW_ARRAY(&b.of, b.capacity));
    graph->has_backward = graph->in_backward = true;
    graph->loss = loss.id;
    graph->block = 0;
    if (is_scaled) {
        const td_tensor now = td_graph_append(graph, (td_node){.kind = TD_OP_loss_scale});
        td_backprop_add(&b, loss.id, td_chain_apply_constant(graph, TD_CHAIN_MUL, now.id, scale).id);
    } else {
        td_backprop_add_constant(&b, loss.id, (double)scale);
    }
    walk(&b);
    graph->in_backward = false;
    TD_TRY(td_graph_status(graph));
fail:
    free(b.of);
    return status;
}

td_status td_graph_backward(td_graph *graph, td_tensor loss, float scale)
{
    return append_gradients(graph, loss, scale, false);
}

td_status td_graph_backward_scaled(td_graph *graph, td_tensor loss, float scale)
{
    return append_gradients(graph, loss, scale, true);
}
