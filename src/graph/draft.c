/* The draft of a plan: a copy of the graph without what nobody reads. Passes over it are in rewrite.c and
 * fuse.c. Covered by tests/graph/test_random.c. */
#include "graph/draft.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- life */

td_status td_draft_begin(const td_graph *graph, bool forward_only, td_draft *out)
{
    td_status status = TD_OK;
    *out = (td_draft){.graph = graph};
    TD_TRY(td_alloc_grow(&out->tensors, &out->tensor_capacity, graph->n_tensors, sizeof *out->tensors));
    TD_TRY(td_alloc_grow(&out->nodes, &out->node_capacity, graph->n_nodes + 1, sizeof *out->nodes));
    memcpy(out->tensors, graph->tensors, graph->n_tensors * sizeof *out->tensors);
    if (graph->n_nodes) memcpy(out->nodes, graph->nodes, graph->n_nodes * sizeof *out->nodes);
    out->n_tensors = graph->n_tensors;
    out->n_nodes = graph->n_nodes;
    TD_TRY(td_draft_drop_dead(out, forward_only));
fail:
    if (status != TD_OK) td_draft_clear(out);
    return status;
}

void td_draft_clear(td_draft *draft)
{
    free(draft->nodes);
    free(draft->tensors);
    *draft = (td_draft){0};
}

td_status td_draft_tensor(td_draft *draft, uint32_t like, td_dtype dtype, uint32_t *out)
{
    TD_CHECK(td_alloc_grow(&draft->tensors, &draft->tensor_capacity, draft->n_tensors + 1,
                           sizeof *draft->tensors));
    td_tensor_info *t = &draft->tensors[draft->n_tensors];
    *t = draft->tensors[like];
    t->dtype = dtype;
    t->role = TD_TENSOR_ACTIVATION;
    t->root = (uint32_t)draft->n_tensors;
    t->root_offset = 0;
    t->is_output = false;
    *out = (uint32_t)draft->n_tensors++;
    return TD_OK;
}

td_status td_uses_find(const td_draft *draft, td_uses *out)
{
    td_status status = TD_OK;
    *out = (td_uses){0};
    TD_TRY(TD_NEW_ARRAY(&out->maker, draft->n_tensors));
    TD_TRY(TD_NEW_ARRAY(&out->count, draft->n_tensors));
    for (size_t n = 0; n < draft->n_nodes; n++) {
        const td_node *node = &draft->nodes[n];
        for (size_t i = 0; i < TD_NODE_INPUTS; i++)
            out->count[node->in[i]]++;
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            out->maker[node->out[o]] = (uint32_t)n + 1;
    }
    out->maker[0] = out->count[0] = 0;
fail:
    if (status != TD_OK) td_uses_clear(out);
    return status;
}

void td_uses_clear(td_uses *uses)
{
    free(uses->maker);
    free(uses->count);
    *uses = (td_uses){0};
}

/* ---------------------------------------------------------------- dead nodes */

bool td_node_has_effect(const td_node *node)
{
    return node->kind == TD_OP_assign ||
           (node->kind == TD_OP_channel_norm && node->info.channel_norm.kind == TD_NORM_BATCH_TRAIN);
}

static bool is_wanted(const td_node *node, const bool *wanted)
{
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (node->out[o] && wanted[node->out[o]]) return true;
    return td_node_has_effect(node);
}

bool td_node_is_loss(const td_node *node)
{
    return node->kind == TD_OP_loss || node->kind == TD_OP_cross_entropy || node->kind == TD_OP_ctc;
}

td_status td_draft_drop_dead(td_draft *draft, bool forward_only)
{
    bool *wanted = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&wanted, draft->n_tensors));
    for (size_t t = 1; t < draft->n_tensors; t++)
        wanted[t] =
            draft->tensors[t].is_output || (!forward_only && draft->tensors[t].role == TD_TENSOR_GRADIENT);
    size_t kept = draft->n_nodes; /* nodes kept are moved to the end, then to the front */
    for (size_t n = draft->n_nodes; n-- > 0;) {
        td_node *node = &draft->nodes[n];
        if (!is_wanted(node, wanted)) continue;
        if (td_node_is_loss(node) && !wanted[node->out[LOSS_DX]]) node->out[LOSS_DX] = 0;
        for (size_t i = 0; i < TD_NODE_INPUTS; i++)
            wanted[node->in[i]] = node->in[i] != 0;
        draft->nodes[--kept] = *node;
    }
    draft->n_nodes -= kept;
    memmove(draft->nodes, draft->nodes + kept, draft->n_nodes * sizeof *draft->nodes);
fail:
    free(wanted);
    return status;
}
