/* Reductions and losses as nodes. Gradients of reductions are ops/reduce.h's; a loss writes its gradient in
 * the pass that computes it (output 2, made when td_graph_backward comes by), with the weight that the total
 * gives it. Covered by tests/graph/test_random.c. */
#include "graph/internal.h"

/* ---------------------------------------------------------------- sums and means */

static void shape_reduce(td_graph *graph, td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    td_graph_make_output(graph, node, 0, td_dims(info->outer, info->inner), TD_F32);
}

static void back_reduce(td_backprop *b, const td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    double dy = 0;
    if (info->kind != TD_REDUCE_SQUARES && td_backprop_get_constant(b, node->out[0], &dy)) {
        td_backprop_add_constant(b, node->in[0], info->kind == TD_REDUCE_MEAN ? dy / info->axis : dy);
        return;
    }
    const td_node back = {
        .kind = TD_OP_reduce_back,
        .in = {td_backprop_get(b, node->out[0]), info->kind == TD_REDUCE_SQUARES ? node->in[0] : 0},
        .info = node->info};
    td_backprop_append(b, back, node->in[0], 0, 0);
}

static td_status measure_reduce(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_reduce_info *info = &node->info.reduce;
    *bytes = 4 * td_op_reduce_workspace(r->kernel_class, info->outer, info->axis, info->inner);
    return TD_OK;
}

static td_status record_reduce(td_recorder *r, const td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    return td_op_reduce(r->list, &(td_reduce_args){.kind = info->kind,
                                                   .outer = info->outer,
                                                   .axis = info->axis,
                                                   .inner = info->inner,
                                                   .x = td_recorder_span(r, node->in[0]),
                                                   .y = td_recorder_span(r, node->out[0]),
                                                   .workspace = r->workspace,
                                                   .add = td_recorder_adds(node, 0)});
}

const td_op_row td_op_row_reduce = {.required = 1,
                                    .shape = shape_reduce,
                                    .backward = back_reduce,
                                    .record = record_reduce,
                                    .workspace = measure_reduce,
                                    .can_add = 1};

static td_status record_reduce_back(td_recorder *r, const td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    return td_op_reduce_back(r->list, &(td_reduce_back_args){.kind = info->kind,
                                                             .outer = info->outer,
                                                             .axis = info->axis,
                                                             .inner = info->inner,
                                                             .dy = td_recorder_span(r, node->in[0]),
                                                             .x = td_recorder_span(r, node->in[1]),
                                                             .dx = td_recorder_span(r, node->out[0])});
}

const td_op_row td_op_row_reduce_back = {
    .required = 1, .shape = td_op_shape_given, .record = record_reduce_back};

/* ---------------------------------------------------------------- largest */

static void shape_max(td_graph *graph, td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    td_graph_make_output(graph, node, 0, td_dims(info->outer, info->inner), TD_F32);
    td_graph_make_output(graph, node, 1, td_dims(info->outer, info->inner), TD_U32);
}

static void back_max(td_backprop *b, const td_node *node)
{
    const td_node back = {
        .kind = TD_OP_max_back, .in = {td_backprop_get(b, node->out[0]), node->out[1]}, .info = node->info};
    td_backprop_append(b, back, node->in[0], 0, 0);
}

static td_status record_max(td_recorder *r, const td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    return td_op_max(r->list, &(td_max_args){.outer = info->outer,
                                             .axis = info->axis,
                                             .inner = info->inner,
                                             .x = td_recorder_span(r, node->in[0]),
                                             .y = td_recorder_span(r, node->out[0]),
                                             .arg = td_recorder_span(r, node->out[1])});
}

const td_op_row td_op_row_max = {
    .required = 1, .shape = shape_max, .backward = back_max, .record = record_max};

static td_status record_max_back(td_recorder *r, const td_node *node)
{
    const td_reduce_info *info = &node->info.reduce;
    return td_op_max_back(r->list, &(td_max_back_args){.outer = info->outer,
                                                       .axis = info->axis,
                                                       .inner = info->inner,
                                                       .dy = td_recorder_span(r, node->in[0]),
                                                       .arg = td_recorder_span(r, node->in[1]),
                                                       .dx = td_recorder_span(r, node->out[0])});
}

const td_op_row td_op_row_max_back = {.required = 2, .shape = td_op_shape_given, .record = record_max_back};

/* ---------------------------------------------------------------- losses */

enum { LOSS_X, LOSS_Y, LOSS_LENGTHS };

void td_op_back_loss(td_backprop *b, const td_node *node)
{
    td_graph *graph = b->graph;
    td_node *forward = graph->nodes;
    double weight = 0;
    while (forward->out[0] != node->out[0])
        forward++;
    if (!td_backprop_wants(b, node->in[LOSS_X])) return;
    const bool known = td_backprop_get_constant(b, node->out[LOSS_VALUE], &weight);
    forward->info.loss.weight = known ? (float)weight : 1.0f;
    const td_shape shape = td_graph_at(graph, node->in[LOSS_X])->shape;
    const uint32_t dx = td_graph_new_tensor(graph, TD_TENSOR_ACTIVATION, TD_F32, shape, "dloss");
    forward->out[LOSS_DX] = dx;
    if (known) {
        td_backprop_add(b, node->in[LOSS_X], dx);
        return;
    }
    const uint32_t dy = td_backprop_get(b, node->out[LOSS_VALUE]);
    td_backprop_add(b, node->in[LOSS_X], td_chain_apply(graph, TD_CHAIN_MUL, dx, dy, 0).id);
}

static void shape_loss(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[LOSS_X])->shape;
    const td_tensor_info *lengths = td_graph_at(graph, node->in[LOSS_LENGTHS]);
    if (x.n_dims != 3 || !td_shape_equal(x, td_graph_at(graph, node->in[LOSS_Y])->shape))
        td_graph_blame(graph, node, "prediction and target must both be [B, T, C]");
    if (lengths->dtype != TD_U32 || td_shape_size(lengths->shape) != x.dims[0])
        td_graph_blame(graph, node, "lengths must be uint [B]");
    td_graph_make_output(graph, node, LOSS_VALUE, td_dims(1), TD_F32);
    td_graph_make_output(graph, node, LOSS_SCALE, td_dims(1), TD_F32);
}

static td_status measure_loss(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_shape x = td_recorder_shape(r, node->in[LOSS_X]);
    *bytes = 4 * td_op_masked_loss_partial(r->kernel_class, x.dims[0], x.dims[1], x.dims[2]);
    return TD_OK;
}

static td_status record_loss(td_recorder *r, const td_node *node)
{
    const td_loss_info *info = &node->info.loss;
    const td_shape x = td_recorder_shape(r, node->in[LOSS_X]);
    return td_op_masked_loss(r->list,
                             &(td_masked_loss_args){.kind = info->kind,
                                                    .items = x.dims[0],
                                                    .frames = x.dims[1],
                                                    .channels = x.dims[2],
                                                    .shape = info->shape,
                                                    .weight = info->weight,
                                                    .x = td_recorder_span(r, node->in[LOSS_X]),
                                                    .y = td_recorder_span(r, node->in[LOSS_Y]),
                                                    .lengths = td_recorder_span(r, node->in[LOSS_LENGTHS]),
                                                    .partial = r->workspace,
                                                    .scale = td_recorder_span(r, node->out[LOSS_SCALE]),
                                                    .loss = td_recorder_span(r, node->out[LOSS_VALUE]),
                                                    .dx = td_recorder_span(r, node->out[LOSS_DX])});
}

const td_op_row td_op_row_loss = {.required = 3,
                                  .shape = shape_loss,
                                  .backward = td_op_back_loss,
                                  .record = record_loss,
                                  .workspace = measure_loss};

static void shape_cross_entropy(td_graph *graph, td_node *node)
{
    const td_tensor_info *target = td_graph_at(graph, node->in[LOSS_Y]);
    uint32_t rows = 0, classes = 0;
    td_shape_rows(td_graph_at(graph, node->in[LOSS_X])->shape, &rows, &classes);
    if (target->dtype != TD_U32 || td_shape_size(target->shape) != rows)
        td_graph_blame(graph, node, "the target must be uint, one for each of %u rows", rows);
    td_graph_make_output(graph, node, LOSS_VALUE, td_dims(1), TD_F32);
    td_graph_make_output(graph, node, LOSS_SCALE, td_dims(1), TD_F32);
}

static td_status measure_cross_entropy(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    *bytes = 4 * td_shape_size(td_recorder_shape(r, node->in[LOSS_Y]));
    return TD_OK;
}

static td_status record_cross_entropy(td_recorder *r, const td_node *node)
{
    const td_loss_info *info = &node->info.loss;
    td_cross_entropy_args args = {.ignore = info->ignore,
                                  .smoothing = info->shape,
                                  .weight = info->weight,
                                  .x = td_recorder_span(r, node->in[LOSS_X]),
                                  .target = td_recorder_span(r, node->in[LOSS_Y]),
                                  .per_row = r->workspace,
                                  .scale = td_recorder_span(r, node->out[LOSS_SCALE]),
                                  .loss = td_recorder_span(r, node->out[LOSS_VALUE]),
                                  .dx = td_recorder_span(r, node->out[LOSS_DX])};
    td_shape_rows(td_recorder_shape(r, node->in[LOSS_X]), &args.rows, &args.classes);
    return td_op_cross_entropy(r->list, &args);
}

const td_op_row td_op_row_cross_entropy = {.required = 2,
                                           .shape = shape_cross_entropy,
                                           .backward = td_op_back_loss,
                                           .record = record_cross_entropy,
                                           .workspace = measure_cross_entropy};
