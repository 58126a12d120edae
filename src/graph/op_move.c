/* Nodes that move: views, permute, slice, concat, pad, rows by index, casts, constants. Gradients of moves
 * are moves: of permute the inverse, of slice padding with zeros and the reverse, of concat slices, of a
 * gather the scatter. Covered by tests/graph/test_random.c. */
#include <string.h>

#include "graph/internal.h"
#include "kernels/optim_geometry.h"

/* ---------------------------------------------------------------- views */

/* The builder has made the output: only it knows the shape. */
static void shape_view(td_graph *graph, td_node *node)
{
    td_tensor_info *y = td_graph_at(graph, node->out[0]);
    const td_tensor_info *x = td_graph_at(graph, node->in[0]);
    if (node->info.view.offset + td_shape_size(y->shape) > td_shape_size(x->shape)) {
        td_graph_blame(graph, node, "a view of %llu elements from %llu on",
                       (unsigned long long)td_shape_size(y->shape),
                       (unsigned long long)node->info.view.offset);
        return;
    }
    y->dtype = x->dtype;
    y->root = x->root;
    y->root_offset = x->root_offset + node->info.view.offset;
}

/* A part's gradient is the gradient of the whole with zeros around it. */
static void back_view(td_backprop *b, const td_node *node)
{
    td_graph *graph = b->graph;
    const uint32_t x = node->in[0];
    const uint32_t dy = td_backprop_get(b, node->out[0]);
    const td_shape shape = td_graph_at(graph, x)->shape;
    if (td_shape_size(shape) == td_shape_size(td_graph_at(graph, node->out[0])->shape)) {
        td_node back = {.kind = TD_OP_view, .in = {dy}};
        td_graph_make_output(graph, &back, 0, shape, TD_F32);
        td_backprop_add(b, x, td_graph_append(graph, back).id);
        return;
    }
    td_node back = {.kind = TD_OP_pad, .in = {dy}};
    const uint64_t row = td_shape_size(shape) / shape.dims[0];
    const uint32_t rows = td_graph_at(graph, node->out[0])->shape.dims[0];
    back.info.move.first[0] = (uint32_t)(node->info.view.offset / row);
    back.info.move.last[0] = shape.dims[0] - rows - back.info.move.first[0];
    td_backprop_append(b, back, x, 0, 0);
}

static td_status record_nothing(td_recorder *r, const td_node *node)
{
    (void)r;
    (void)node;
    return TD_OK;
}

const td_op_row td_op_row_view = {
    .required = 1, .shape = shape_view, .backward = back_view, .record = record_nothing};

/* ---------------------------------------------------------------- permute */

static void shape_permute(td_graph *graph, td_node *node)
{
    const td_tensor_info *x = td_graph_at(graph, node->in[0]);
    td_shape y = x->shape;
    unsigned seen = 0;
    for (size_t d = 0; d < y.n_dims; d++) {
        const uint32_t from = node->info.move.first[d];
        seen |= from < y.n_dims ? 1u << from : 0;
        y.dims[d] = x->shape.dims[from < y.n_dims ? from : 0];
    }
    if (seen != (1u << y.n_dims) - 1) td_graph_blame(graph, node, "the order does not name each axis once");
    td_graph_make_output(graph, node, 0, y, x->dtype);
}

static void back_permute(td_backprop *b, const td_node *node)
{
    td_node back = {.kind = TD_OP_permute, .in = {td_backprop_get(b, node->out[0])}};
    const size_t n = td_graph_at(b->graph, node->in[0])->shape.n_dims;
    for (size_t d = 0; d < n; d++)
        back.info.move.first[node->info.move.first[d]] = (uint32_t)d;
    td_backprop_append(b, back, node->in[0], 0, 0);
}

static td_status record_permute(td_recorder *r, const td_node *node)
{
    return td_op_permute(r->list, td_recorder_span(r, node->in[0]), td_recorder_shape(r, node->in[0]),
                         node->info.move.first, td_recorder_span(r, node->out[0]));
}

const td_op_row td_op_row_permute = {
    .required = 1, .shape = shape_permute, .backward = back_permute, .record = record_permute};

/* ---------------------------------------------------------------- slice and pad */

/* What is left of x in front of (start) and behind (end) y. */
static void shape_slice(td_graph *graph, td_node *node)
{
    const td_tensor_info *x = td_graph_at(graph, node->in[0]);
    td_shape y = x->shape;
    for (size_t d = 0; d < y.n_dims; d++) {
        const uint64_t cut = (uint64_t)node->info.move.first[d] + node->info.move.last[d];
        if (cut >= x->shape.dims[d]) {
            td_graph_blame(graph, node, "nothing is left of axis %zu", d);
            return;
        }
        y.dims[d] -= (uint32_t)cut;
    }
    td_graph_make_output(graph, node, 0, y, x->dtype);
}

static void shape_pad(td_graph *graph, td_node *node)
{
    const td_tensor_info *x = td_graph_at(graph, node->in[0]);
    td_shape y = x->shape;
    for (size_t d = 0; d < y.n_dims; d++)
        y.dims[d] += node->info.move.first[d] + node->info.move.last[d];
    td_graph_make_output(graph, node, 0, y, x->dtype);
}

static void back_slice(td_backprop *b, const td_node *node)
{
    td_node back = {.kind = TD_OP_pad, .in = {td_backprop_get(b, node->out[0])}, .info = node->info};
    back.info.move.value = 0;
    td_backprop_append(b, back, node->in[0], 0, 0);
}

static void back_pad(td_backprop *b, const td_node *node)
{
    const td_node back = {.kind = TD_OP_slice, .in = {td_backprop_get(b, node->out[0])}, .info = node->info};
    td_backprop_append(b, back, node->in[0], 0, 0);
}

static td_status record_slice(td_recorder *r, const td_node *node)
{
    return td_op_slice(r->list, td_recorder_span(r, node->in[0]), td_recorder_shape(r, node->in[0]),
                       node->info.move.first, td_recorder_shape(r, node->out[0]).dims,
                       td_recorder_span(r, node->out[0]));
}

static td_status record_pad(td_recorder *r, const td_node *node)
{
    const td_move_info *m = &node->info.move;
    return td_op_pad(r->list, td_recorder_span(r, node->in[0]), td_recorder_shape(r, node->in[0]), m->first,
                     m->last, m->value, td_recorder_span(r, node->out[0]));
}

const td_op_row td_op_row_slice = {
    .required = 1, .shape = shape_slice, .backward = back_slice, .record = record_slice};
const td_op_row td_op_row_pad = {
    .required = 1, .shape = shape_pad, .backward = back_pad, .record = record_pad};

/* ---------------------------------------------------------------- concat */

static void shape_concat(td_graph *graph, td_node *node)
{
    const uint32_t axis = node->info.axis;
    td_shape y = td_graph_at(graph, node->in[0])->shape;
    if (axis >= y.n_dims) {
        td_graph_blame(graph, node, "there is no axis %u", axis);
        return;
    }
    y.dims[axis] = 0;
    for (size_t i = 0; i < TD_NODE_INPUTS && node->in[i]; i++) {
        const td_shape x = td_graph_at(graph, node->in[i])->shape;
        td_shape same = x;
        if (x.n_dims != y.n_dims) {
            td_graph_blame(graph, node, "the parts have different numbers of axes");
            return;
        }
        same.dims[axis] = y.dims[axis];
        if (!td_shape_equal(same, y))
            td_graph_blame(graph, node, "the parts differ along other axes than %u", axis);
        y.dims[axis] += x.dims[axis];
    }
    td_graph_make_output(graph, node, 0, y, td_graph_at(graph, node->in[0])->dtype);
}

static void back_concat(td_backprop *b, const td_node *node)
{
    const uint32_t axis = node->info.axis;
    const uint32_t dy = td_backprop_get(b, node->out[0]);
    const uint32_t whole = td_graph_at(b->graph, node->out[0])->shape.dims[axis];
    uint32_t start = 0;
    for (size_t i = 0; i < TD_NODE_INPUTS && node->in[i]; i++) {
        const uint32_t length = td_graph_at(b->graph, node->in[i])->shape.dims[axis];
        td_node back = {.kind = TD_OP_slice, .in = {dy}};
        back.info.move.first[axis] = start;
        back.info.move.last[axis] = whole - start - length;
        start += length;
        if (td_backprop_wants(b, node->in[i])) td_backprop_append(b, back, node->in[i], 0, 0);
    }
}

static td_status record_concat(td_recorder *r, const td_node *node)
{
    const td_shape whole = td_recorder_shape(r, node->out[0]);
    uint32_t start[4] = {0};
    for (size_t i = 0; i < TD_NODE_INPUTS && node->in[i]; i++) {
        const td_shape part = td_recorder_shape(r, node->in[i]);
        TD_CHECK(td_op_set_slice(r->list, td_recorder_span(r, node->in[i]), part,
                                 td_recorder_span(r, node->out[0]), whole, start));
        start[node->info.axis] += part.dims[node->info.axis];
    }
    return TD_OK;
}

const td_op_row td_op_row_concat = {
    .required = 1, .shape = shape_concat, .backward = back_concat, .record = record_concat};

/* ---------------------------------------------------------------- rows by index */

/* x [V, C] with index [..], or x [B, T, C] with index [B, U]. */
static td_gather_args read_gather(td_shape x, td_shape index)
{
    const bool shared = x.n_dims == 2;
    return (td_gather_args){.items = shared ? 1 : x.dims[0],
                            .in_rows = x.dims[x.n_dims - 2],
                            .out_rows = (uint32_t)td_shape_size(index) / (shared ? 1 : x.dims[0]),
                            .columns = x.dims[x.n_dims - 1]};
}

static void shape_gather(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[0])->shape;
    const td_tensor_info *index = td_graph_at(graph, node->in[1]);
    td_shape y = index->shape;
    if (index->dtype != TD_U32) td_graph_blame(graph, node, "the index is not uint");
    if (y.n_dims == 4 || (x.n_dims != 2 && (x.n_dims != 3 || y.n_dims != 2 || y.dims[0] != x.dims[0]))) {
        td_graph_blame(graph, node,
                       "a table [V, C] and an index [..], or x [B, T, C] and an index [B, U], are possible");
        return;
    }
    y.dims[y.n_dims++] = x.dims[x.n_dims - 1];
    td_graph_make_output(graph, node, 0, y, TD_F32);
}

static td_status record_gather(td_recorder *r, const td_node *node)
{
    td_gather_args args = read_gather(td_recorder_shape(r, node->in[0]), td_recorder_shape(r, node->in[1]));
    args.x = td_recorder_span(r, node->in[0]);
    args.index = td_recorder_span(r, node->in[1]);
    args.y = td_recorder_span(r, node->out[0]);
    return td_op_gather_rows(r->list, &args);
}

static void back_gather(td_backprop *b, const td_node *node)
{
    const td_node back = {.kind = TD_OP_scatter, .in = {td_backprop_get(b, node->out[0]), node->in[1]}};
    td_backprop_append(b, back, node->in[0], 0, 0);
}

const td_op_row td_op_row_gather = {
    .required = 2, .shape = shape_gather, .backward = back_gather, .record = record_gather};

static void shape_scatter(td_graph *graph, td_node *node)
{
    if (!node->out[0]) td_graph_blame(graph, node, "has no output");
}

static td_status measure_scatter(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    *bytes = 4 * td_shape_size(td_recorder_shape(r, node->in[1]));
    return TD_OK;
}

static td_status record_scatter(td_recorder *r, const td_node *node)
{
    const td_gather_args g =
        read_gather(td_recorder_shape(r, node->out[0]), td_recorder_shape(r, node->in[1]));
    return td_op_scatter_rows(r->list, &(td_scatter_args){.items = g.items,
                                                          .in_rows = g.in_rows,
                                                          .out_rows = g.out_rows,
                                                          .columns = g.columns,
                                                          .dy = td_recorder_span(r, node->in[0]),
                                                          .index = td_recorder_span(r, node->in[1]),
                                                          .order = r->workspace,
                                                          .dx = td_recorder_span(r, node->out[0]),
                                                          .add = td_recorder_adds(node, 0)});
}

const td_op_row td_op_row_scatter = {.required = 2,
                                     .shape = shape_scatter,
                                     .record = record_scatter,
                                     .workspace = measure_scatter,
                                     .can_add = 1};

/* ---------------------------------------------------------------- constants and casts */

static td_status record_fill(td_recorder *r, const td_node *node)
{
    uint32_t word = 0;
    memcpy(&word, &node->info.value, sizeof word);
    return td_list_fill(r->list, td_recorder_span(r, node->out[0]), word);
}

const td_op_row td_op_row_fill = {.shape = td_op_shape_given, .record = record_fill};

static td_status record_cast(td_recorder *r, const td_node *node)
{
    const uint32_t n = (uint32_t)td_shape_size(td_recorder_shape(r, node->in[0]));
    const td_span x = td_recorder_span(r, node->in[0]);
    const td_span y = td_recorder_span(r, node->out[0]);
    return node->kind == TD_OP_to_half
               ? td_op_cast_half(r->list, td_recorder_format(r, node->out[0]), n, x, y)
               : td_op_cast_float(r->list, td_recorder_format(r, node->in[0]), n, x, y);
}

/* Casts are made by passes of a plan, with their outputs. */
const td_op_row td_op_row_to_half = {.required = 1, .shape = td_op_shape_given, .record = record_cast};
const td_op_row td_op_row_to_float = {.required = 1, .shape = td_op_shape_given, .record = record_cast};

/* What the loss is multiplied by at the moment, as a tensor. */
static void shape_loss_scale(td_graph *graph, td_node *node)
{
    td_graph_make_output(graph, node, 0, td_dims(1), TD_F32);
}

static td_status record_loss_scale(td_recorder *r, const td_node *node)
{
    return td_list_copy(r->list, td_recorder_span(r, node->out[0]),
                        td_span_part(r->control, UINT64_C(4) * TD_CONTROL_SCALE, 4));
}

const td_op_row td_op_row_loss_scale = {.shape = shape_loss_scale, .record = record_loss_scale};
