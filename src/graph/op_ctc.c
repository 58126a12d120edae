/* The CTC loss as a node; its gradient is written in the pass that computes it, as that of other losses is
 * (op_reduce.c). Covered by tests/graph/test_spectral.c. */
#include "graph/internal.h"

enum { CTC_X, CTC_IDS, CTC_LENGTHS };

static void shape_ctc(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[CTC_X])->shape;
    const td_tensor_info *ids = td_graph_at(graph, node->in[CTC_IDS]);
    const td_tensor_info *lengths = td_graph_at(graph, node->in[CTC_LENGTHS]);
    if (x.n_dims != 3 || ids->dtype != TD_U32 || ids->shape.n_dims != 2 || ids->shape.dims[0] != x.dims[0])
        td_graph_blame(graph, node, "logits must be [B, T, K] and the texts uint [B, S]");
    if (lengths->dtype != TD_U32 || td_shape_size(lengths->shape) != UINT64_C(2) * x.dims[0])
        td_graph_blame(graph, node, "the counts must be uint [B]");
    td_graph_make_output(graph, node, LOSS_VALUE, td_dims(1), TD_F32);
    td_graph_make_output(graph, node, LOSS_SCALE, td_dims(1), TD_F32);
}

static uint64_t item_bytes(td_shape x)
{
    return td_round_up(UINT64_C(4) * x.dims[0], TD_STORAGE_ALIGN);
}

static td_status measure_ctc(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_shape x = td_recorder_shape(r, node->in[CTC_X]);
    const uint32_t tokens = td_recorder_shape(r, node->in[CTC_IDS]).dims[1];
    *bytes = item_bytes(x) + 4 * td_op_ctc_workspace(x.dims[0], x.dims[1], tokens);
    return TD_OK;
}

static td_status record_ctc(td_recorder *r, const td_node *node)
{
    const td_shape x = td_recorder_shape(r, node->in[CTC_X]);
    const uint64_t items = item_bytes(x);
    return td_op_ctc(
        r->list, &(td_ctc_args){.items = x.dims[0],
                                .frames = x.dims[1],
                                .classes = x.dims[2],
                                .tokens = td_recorder_shape(r, node->in[CTC_IDS]).dims[1],
                                .edge = node->info.loss.ignore,
                                .weight = node->info.loss.weight,
                                .x = td_recorder_span(r, node->in[CTC_X]),
                                .token_ids = td_recorder_span(r, node->in[CTC_IDS]),
                                .lengths = td_recorder_span(r, node->in[CTC_LENGTHS]),
                                .per_item = td_span_part(r->workspace, 0, items),
                                .workspace = td_span_part(r->workspace, items, r->workspace.bytes - items),
                                .scale = td_recorder_span(r, node->out[LOSS_SCALE]),
                                .loss = td_recorder_span(r, node->out[LOSS_VALUE]),
                                .dx = td_recorder_span(r, node->out[LOSS_DX])});
}

const td_op_row td_op_row_ctc = {.required = 3,
                                 .shape = shape_ctc,
                                 .backward = td_op_back_loss,
                                 .record = record_ctc,
                                 .workspace = measure_ctc};

td_tensor td_graph_ctc(td_graph *graph, td_tensor logits, td_tensor token_ids, td_tensor token_counts,
                       td_tensor frame_counts, uint32_t edge)
{
    const td_shape row = td_dims(1, td_graph_shape(graph, logits).dims[0]);
    const td_tensor counts[] = {td_graph_reshape(graph, token_counts, row),
                                td_graph_reshape(graph, frame_counts, row)};
    const td_tensor lengths = td_graph_concat(graph, counts, 2, 0);
    return td_graph_append(graph, (td_node){.kind = TD_OP_ctc,
                                            .in = {logits.id, token_ids.id, lengths.id},
                                            .info = {.loss = {.ignore = edge}}});
}
