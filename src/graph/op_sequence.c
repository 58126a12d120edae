/* Nodes that make sequences of tokens and codes (ops/sequence.h). None has a gradient. Covered by
 * tests/ops/cases_sequence.c and tests/xtts/test_xtts_train.c. */
#include "graph/internal.h"

static void shape_sequence(td_graph *graph, td_node *node)
{
    const td_tensor_info *first = td_graph_at(graph, node->in[0]);
    const td_tensor_info *second = td_graph_at(graph, node->in[1]);
    const td_sequence_info *info = &node->info.sequence;
    const uint32_t items = first->shape.dims[0];
    const uint32_t wanted = info->kind == TD_SEQUENCE_HIDE ? 2 * items : items;
    if (first->dtype != TD_U32 || (node->in[1] && second->dtype != TD_U32))
        td_graph_blame(graph, node, "sequences, counts and ranges are uint");
    if (info->kind != TD_SEQUENCE_ROWS && first->shape.n_dims != 2)
        td_graph_blame(graph, node, "a sequence is [B, n]");
    if (node->in[1] && td_shape_size(second->shape) != wanted)
        td_graph_blame(graph, node, "each of %u items has one count, or the two ends of a range", items);
    td_graph_make_output(graph, node, 0, td_dims(items, info->columns), TD_U32);
}

static td_status record_sequence(td_recorder *r, const td_node *node)
{
    const td_sequence_info *info = &node->info.sequence;
    const td_shape in = td_recorder_shape(r, node->in[0]), out = td_recorder_shape(r, node->out[0]);
    const td_span x = td_recorder_span(r, node->in[0]), other = td_recorder_span(r, node->in[1]);
    const td_span y = td_recorder_span(r, node->out[0]);
    switch (info->kind) {
    case TD_SEQUENCE_WRAP:
        return td_op_sequence_wrap(r->list, &(td_wrap_args){.items = out.dims[0],
                                                            .width = in.dims[1],
                                                            .columns = out.dims[1],
                                                            .wrapping = info->wrapping,
                                                            .ids = x,
                                                            .counts = other,
                                                            .y = y});
    case TD_SEQUENCE_ROWS:
        return td_op_sequence_rows(r->list, &(td_rows_args){.items = out.dims[0],
                                                            .columns = out.dims[1],
                                                            .start = info->start,
                                                            .width = info->width,
                                                            .joins = info->joins,
                                                            .counts = x,
                                                            .y = y});
    case TD_SEQUENCE_HIDE:
        break;
    }
    return td_op_sequence_hide(r->list, &(td_hide_args){.items = out.dims[0],
                                                        .columns = out.dims[1],
                                                        .item = info->start,
                                                        .divisor = info->width,
                                                        .value = info->wrapping.rest,
                                                        .x = x,
                                                        .ranges = other,
                                                        .y = y});
}

const td_op_row td_op_row_sequence = {.required = 1, .shape = shape_sequence, .record = record_sequence};

static td_tensor append(td_graph *graph, td_sequence_info info, td_tensor first, td_tensor second)
{
    return td_graph_append(
        graph, (td_node){.kind = TD_OP_sequence, .in = {first.id, second.id}, .info = {.sequence = info}});
}

td_tensor td_graph_wrap(td_graph *graph, td_tensor ids, td_tensor counts, uint32_t columns,
                        const td_wrapping *wrapping)
{
    return append(graph,
                  (td_sequence_info){.kind = TD_SEQUENCE_WRAP, .columns = columns, .wrapping = *wrapping},
                  ids, counts);
}

td_tensor td_graph_join_rows(td_graph *graph, td_tensor counts, uint32_t start, uint32_t width,
                             uint32_t columns)
{
    return append(
        graph,
        (td_sequence_info){
            .kind = TD_SEQUENCE_ROWS, .columns = columns, .start = start, .width = width, .joins = true},
        counts, TD_NO_TENSOR);
}

td_tensor td_graph_joined_rows(td_graph *graph, td_tensor counts, uint32_t start, uint32_t width,
                               uint32_t columns)
{
    return append(
        graph,
        (td_sequence_info){.kind = TD_SEQUENCE_ROWS, .columns = columns, .start = start, .width = width},
        counts, TD_NO_TENSOR);
}

td_tensor td_graph_hide(td_graph *graph, td_tensor x, td_tensor ranges, uint32_t item, uint32_t divisor,
                        uint32_t value)
{
    return append(graph,
                  (td_sequence_info){.kind = TD_SEQUENCE_HIDE,
                                     .columns = td_graph_shape(graph, x).dims[1],
                                     .start = item,
                                     .width = divisor,
                                     .wrapping = {.rest = value}},
                  x, ranges);
}
