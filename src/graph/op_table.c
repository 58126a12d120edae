/* The table of operations: one row per kind, made where the kind is (op_*.c). Covered by tests/graph. */
#include "graph/internal.h"

const td_op_row *const td_op_table[TD_OP_KINDS] = {
#define TD_OP_ROW(name) [TD_OP_##name] = &td_op_row_##name,
    TD_GRAPH_OPS(TD_OP_ROW)
#undef TD_OP_ROW
};

const char *const td_op_names[TD_OP_KINDS] = {
#define TD_OP_NAME(name) #name,
    TD_GRAPH_OPS(TD_OP_NAME)
#undef TD_OP_NAME
};

void td_op_shape_given(td_graph *graph, td_node *node)
{
    if (!node->out[0]) td_graph_blame(graph, node, "has no output");
}

td_shape td_recorder_shape(const td_recorder *r, uint32_t id)
{
    return r->tensors[id].shape;
}

td_span td_recorder_span(const td_recorder *r, uint32_t id)
{
    return id && r->spans ? r->spans[id] : (td_span){0};
}

uint32_t td_recorder_format(const td_recorder *r, uint32_t id)
{
    return td_dtype_format(r->tensors[id].dtype);
}

bool td_recorder_adds(const td_node *node, size_t o)
{
    return node->add[o] == TD_ADD_ALWAYS;
}
