/* Makes plans: the passes in their order, the check that it all fits, the arena, the recording. See plan.h.
 * Covered by tests/graph/test_plan.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "graph/plan_internal.h"

/* ---------------------------------------------------------------- does it fit */

static int by_bytes(const void *pa, const void *pb)
{
    const td_allocation *a = *(const td_allocation *const *)pa;
    const td_allocation *b = *(const td_allocation *const *)pb;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a < b ? -1 : 1;
}

/* "chain.12 [8, 100, 64] 200 KiB, ..." of the three largest. */
static void name_largest(const td_plan *plan, char *text, size_t capacity)
{
    const td_allocation *largest[4] = {0};
    size_t used = 0;
    for (size_t p = 0; p < plan->layout.n_allocations; p++) {
        const td_allocation *place = &plan->layout.allocations[p];
        if (!place->tensor || place->joined) continue;
        largest[3] = place;
        size_t n = 3;
        while (n > 0 && !largest[n - 1])
            n--;
        largest[n] = place;
        qsort(largest, n + 1, sizeof *largest, by_bytes);
        largest[3] = NULL;
    }
    text[0] = '\0';
    for (size_t i = 0; i < 3 && largest[i] && used < capacity; i++) {
        char bytes[TD_TEXT_FORMAT_BYTES];
        td_text_format_bytes(largest[i]->bytes, bytes);
        used += (size_t)snprintf(text + used, capacity - used, "%s%.48s %s", i ? ", " : "",
                                 plan->draft.tensors[largest[i]->tensor].name, bytes);
    }
}

static uint64_t needed_bytes(const td_plan *plan)
{
    uint64_t bytes = 0;
    for (size_t c = plan->store->n_arena; c < plan->layout.n_chunks; c++)
        bytes += plan->layout.chunk_bytes[c];
    return bytes;
}

/* Kernels are given whole tensors. */
static td_status check_bindings(const td_plan *plan)
{
    const td_device_info *info = td_device_get_info(plan->store->device);
    for (size_t p = 0; p < plan->layout.n_allocations; p++) {
        const td_allocation *place = &plan->layout.allocations[p];
        const uint32_t maker = plan->draft.nodes[place->first].out[0];
        char need[TD_TEXT_FORMAT_BYTES], most[TD_TEXT_FORMAT_BYTES];
        if (place->bytes <= info->caps.max_binding_bytes) continue;
        td_text_format_bytes(place->bytes, need);
        td_text_format_bytes(info->caps.max_binding_bytes, most);
        return TD_FAIL(
            TD_ERR_LIMIT,
            "%s%s needs %s in one piece, but %s gives a kernel at most %s at a time; make the batch "
            "smaller",
            place->tensor ? "" : "scratch for ",
            plan->draft.tensors[place->tensor ? place->tensor : maker].name, need, info->name, most);
    }
    return TD_OK;
}

/* Tells what is needed, why it is not to be had, and what would need less. */
static td_status fail_to_fit(const td_plan *plan, td_status status, const char *why)
{
    char need[TD_TEXT_FORMAT_BYTES], largest[200];
    td_text_format_bytes(needed_bytes(plan), need);
    name_largest(plan, largest, sizeof largest);
    return TD_FAIL(
        status, "the step needs %s for activations, but %s; the largest are %s; make the batch smaller%s%s",
        need, why, largest,
        plan->options.checkpoint || plan->options.forward_only ? "" : ", or turn on checkpointing",
        plan->options.half || plan->options.forward_only ? "" : ", or bf16");
}

static td_status check_fit(const td_plan *plan)
{
    const td_device_info *info = td_device_get_info(plan->store->device);
    char room_text[TD_TEXT_FORMAT_BYTES], why[320];
    td_memory_stats stats;
    td_memory_get_stats(plan->store->memory, &stats);
    const uint64_t limit = stats.limit_bytes ? stats.limit_bytes : info->caps.memory_bytes;
    const uint64_t room = limit > stats.used_bytes ? limit - stats.used_bytes : 0;
    if (needed_bytes(plan) <= room || !limit) return TD_OK;
    td_text_format_bytes(room, room_text);
    snprintf(why, sizeof why, "%s are left of the %s of %s", room_text,
             stats.limit_bytes ? "limit" : "memory", info->name);
    return fail_to_fit(plan, TD_ERR_LIMIT, why);
}

/* ---------------------------------------------------------------- places */

static td_status make_layout(td_plan *plan)
{
    const td_recorder r = td_plan_recorder(plan);
    td_layout_limits limits = {.n_existing = plan->store->n_arena,
                               .chunk_bytes = td_device_get_info(plan->store->device)->caps.max_alloc_bytes,
                               .no_reuse = plan->options.no_reuse};
    for (size_t c = 0; c < limits.n_existing; c++)
        limits.existing[c] = plan->store->arena[c].bytes;
    return td_layout_make(&plan->draft, &r, &limits, &plan->layout);
}

static td_status grow_arena(td_plan *plan)
{
    td_store *store = plan->store;
    td_status status = TD_OK;
    while (store->n_arena < plan->layout.n_chunks) {
        const uint64_t bytes = plan->layout.chunk_bytes[store->n_arena];
        status = td_memory_alloc(store->memory, TD_MEMORY_DEVICE, bytes, &store->arena[store->n_arena]);
        if (status == TD_ERR_DEVICE_MEMORY) { /* what others hold, or what the driver keeps for itself */
            char why[320];
            snprintf(why, sizeof why, "%.300s", td_error_last()->message);
            return fail_to_fit(plan, status, why);
        }
        TD_TRY(status);
        store->arena[store->n_arena++].bytes = bytes;
    }
fail:
    return status;
}

static td_span place_span(const td_plan *plan, uint32_t place)
{
    const td_allocation *p = &plan->layout.allocations[place];
    return td_span_part(plan->store->arena[p->chunk], p->offset, p->bytes);
}

static td_status find_span(td_plan *plan, uint32_t id)
{
    const td_tensor_info *t = &plan->draft.tensors[id];
    const td_tensor_info *root = &plan->draft.tensors[t->root];
    td_span whole = {0};
    if (root->role == TD_TENSOR_ACTIVATION || root->role == TD_TENSOR_INPUT) {
        if (!plan->layout.of_tensor[t->root]) return TD_OK; /* of a node that was dropped */
        whole = place_span(plan, plan->layout.of_tensor[t->root] - 1);
    } else {
        const bool is_gradient = root->role == TD_TENSOR_GRADIENT;
        const td_block block = is_gradient                 ? TD_BLOCK_GRADIENT
                               : td_dtype_format(t->dtype) ? TD_BLOCK_HALF
                               : plan->options.averaged    ? TD_BLOCK_AVERAGE
                                                           : TD_BLOCK_WEIGHT;
        TD_CHECK(td_store_find(plan->store, plan->draft.graph, is_gradient ? root->parameter : t->root, block,
                               &whole));
    }
    if (!whole.buffer) return TD_OK; /* weights in 16 bits alone, which products read as another tensor */
    plan->spans[id] = td_span_part(whole, 4 * t->root_offset, td_tensor_bytes(t));
    return TD_OK;
}

static bool is_used(const td_plan *plan, uint32_t id)
{
    const uint32_t root = plan->draft.tensors[id].root;
    const td_tensor_role role = plan->draft.tensors[root].role;
    if (role == TD_TENSOR_ACTIVATION || role == TD_TENSOR_INPUT) return plan->layout.of_tensor[root] != 0;
    return role != TD_TENSOR_GRADIENT || !plan->options.forward_only;
}

static td_status find_spans(td_plan *plan)
{
    TD_CHECK(TD_NEW_ARRAY(&plan->spans, plan->draft.n_tensors));
    for (uint32_t id = 1; id < plan->draft.n_tensors; id++)
        if (is_used(plan, id)) TD_CHECK(find_span(plan, id));
    return TD_OK;
}

/* ---------------------------------------------------------------- recording */

td_recorder td_plan_recorder(const td_plan *plan)
{
    return (td_recorder){.device = plan->store->device,
                         .kernel_class = td_device_class(plan->store->device),
                         .tensors = plan->draft.tensors,
                         .spans = plan->spans,
                         .step = plan->store->step,
                         .control = td_store_control(plan->store, plan->options.learner),
                         .updates = plan->options.updates,
                         .seed = plan->draft.graph->seed};
}

static const char *name_of(const td_plan *plan, const td_node *node)
{
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (node->out[o]) return plan->draft.tensors[node->out[o]].name;
    return "nothing";
}

/* Parameters that the loss does not depend on have no gradient node: their gradient is zero, whatever another
 * plan left there. */
static td_status clear_gradients(const td_plan *plan, td_list *list)
{
    const td_graph *graph = plan->draft.graph;
    td_span span = {0};
    for (uint32_t id = 1; id < graph->n_tensors; id++) {
        const td_tensor_info *t = &graph->tensors[id];
        if (t->role != TD_TENSOR_PARAMETER || t->is_frozen || t->gradient) continue;
        TD_CHECK(td_store_find(plan->store, graph, id, TD_BLOCK_GRADIENT, &span));
        TD_CHECK(td_list_fill(list, span, 0));
    }
    return TD_OK;
}

td_status td_plan_record(td_plan *plan, size_t first, size_t end, td_list **out)
{
    td_recorder r = td_plan_recorder(plan);
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_list_create(plan->store->device, TD_QUEUE_COMPUTE, &r.list));
    td_list_set_time_scale(r.list, plan->store->time_scale);
    for (size_t n = first; n < end; n++) {
        const td_node *node = &plan->draft.nodes[n];
        r.workspace = plan->layout.of_node[n] ? place_span(plan, plan->layout.of_node[n] - 1) : (td_span){0};
        status = td_op_table[node->kind]->record(&r, node);
        if (status != TD_OK) {
            td_error_context("%s, which makes %s", td_op_names[node->kind], name_of(plan, node));
            goto fail;
        }
    }
    if (!plan->options.forward_only && !plan->options.updates && end == plan->draft.n_nodes)
        TD_TRY(clear_gradients(plan, r.list));
    TD_TRY(td_list_finish(r.list));
    *out = r.list;
    return TD_OK;
fail:
    td_list_destroy(r.list);
    return status;
}

/* ---------------------------------------------------------------- life */

/* By the graph and not by the plan, which may compute some of it twice. */
static double heavy_flops(const td_plan *plan)
{
    const td_graph *graph = plan->draft.graph;
    const td_recorder r = {.device = plan->store->device, .tensors = graph->tensors};
    double flops = 0;
    for (size_t n = 0; n < graph->n_nodes; n++) {
        const td_node *node = &graph->nodes[n];
        const td_op_row *row = td_op_table[node->kind];
        if (row->flops && !(plan->options.forward_only && node->backward)) flops += row->flops(&r, node);
    }
    return flops;
}

/* What one pass over memory makes is made again instead of kept where products have so many flops to each
 * byte that this moves. A CPU does some 15 flops in the time of a byte, a graphics card 20 to 40: it costs 3
 * to 8 % there, and less with wider products. Those of layers 512 wide get there. */
#define CHEAP_FLOPS_PER_BYTE 500

static td_status run_passes(td_plan *plan, const td_graph *graph)
{
    const td_plan_options *o = &plan->options;
    TD_CHECK(td_draft_begin(graph, o->forward_only, &plan->draft));
    if (o->checkpoint && !o->forward_only) TD_CHECK(td_draft_checkpoint(&plan->draft));
    if (!o->forward_only) {
        const bool always = o->remake_cheap || o->checkpoint || o->half;
        TD_CHECK(td_draft_remake_cheap(&plan->draft,
                                       always ? INFINITY : heavy_flops(plan) / CHEAP_FLOPS_PER_BYTE));
    }
    if (!o->no_fusion) TD_CHECK(td_draft_fuse(&plan->draft));
    if (o->half && !o->forward_only) {
        const td_dtype weights = plan->store->options.half;
        TD_CHECK(td_draft_keep_half(&plan->draft, o->half));
        if (weights) TD_CHECK(td_draft_half_weights(&plan->draft, weights));
    } else if (plan->store->options.half && plan->store->options.half_frozen) {
        TD_CHECK(td_draft_half_weights(&plan->draft, plan->store->options.half));
    }
    if (o->updates && !o->forward_only) TD_CHECK(td_draft_update(&plan->draft));
    if (o->sums_gradients && !o->forward_only) TD_CHECK(td_draft_sum(&plan->draft));
    return TD_OK;
}

td_status td_plan_create(td_store *store, const td_graph *graph, const td_plan_options *options,
                         td_plan **out)
{
    td_plan *plan = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_graph_status(graph));
    TD_FAIL_IF(options->learner >= td_store_learners(store), TD_ERR_ARGUMENT, "the store has no learner %u",
               options->learner);
    TD_TRY(TD_NEW(&plan));
    plan->store = store;
    plan->options = *options;
    if (!plan->options.slots) plan->options.slots = 2;
    if (!graph->has_backward) plan->options.forward_only = true;
    TD_FAIL_IF(options->sums_gradients && (options->buckets || options->updates), TD_ERR_ARGUMENT,
               "gradients are added one by one, in buckets, or used at once: one of them");
    TD_TRY(run_passes(plan, graph));
    TD_FAIL_IF(plan->draft.n_nodes == 0, TD_ERR_ARGUMENT,
               "nothing is left to do: mark what is wanted with td_graph_output");
    TD_TRY(make_layout(plan));
    TD_TRY(check_bindings(plan));
    TD_TRY(check_fit(plan));
    TD_TRY(grow_arena(plan));
    TD_TRY(find_spans(plan));
    TD_TRY(td_plan_cut(plan));
    TD_TRY(td_plan_record_parts(plan));
    TD_TRY(td_plan_open_slots(plan));
    *out = plan;
    return TD_OK;
fail:
    td_plan_destroy(plan);
    return status;
}

void td_plan_destroy(td_plan *plan)
{
    if (!plan) return;
    td_plan_close_slots(plan);
    td_plan_free_parts(plan);
    td_layout_clear(&plan->layout);
    td_draft_clear(&plan->draft);
    free(plan->spans);
    free(plan->node_ms);
    free(plan);
}

/* ---------------------------------------------------------------- figures */

double td_plan_node_flops(const td_plan *plan, const td_node *node)
{
    const td_recorder r = td_plan_recorder(plan);
    const td_op_row *row = td_op_table[node->kind];
    if (row->flops) return row->flops(&r, node);
    return node->kind == TD_OP_view ? 0 : 8.0 * (double)td_shape_size(r.tensors[node->out[0]].shape);
}

double td_plan_node_bytes(const td_plan *plan, const td_node *node)
{
    double bytes = 0;
    if (node->kind == TD_OP_view) return 0;
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        bytes += node->in[i] ? (double)td_tensor_bytes(&plan->draft.tensors[node->in[i]]) : 0;
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        bytes += node->out[o] ? (double)td_tensor_bytes(&plan->draft.tensors[node->out[o]]) : 0;
    return bytes;
}

double td_plan_node_ms(const td_plan *plan, const td_node *node)
{
    const td_device_caps *caps = &td_device_get_info(plan->store->device)->caps;
    const double compute =
        caps->estimated_gflops > 0 ? td_plan_node_flops(plan, node) / caps->estimated_gflops : 0;
    const double memory =
        caps->estimated_gbps > 0 ? td_plan_node_bytes(plan, node) / caps->estimated_gbps : 0;
    return (compute > memory ? compute : memory) * 1e-6;
}

/* Storages that a forward node makes and a backward node still uses. */
static uint64_t kept_bytes(const td_plan *plan)
{
    const td_draft *draft = &plan->draft;
    uint64_t bytes = 0;
    for (size_t p = 0; p < plan->layout.n_allocations; p++) {
        const td_allocation *place = &plan->layout.allocations[p];
        if (place->joined || !place->tensor || place->last >= draft->n_nodes) continue;
        if (draft->tensors[place->tensor].role == TD_TENSOR_ACTIVATION &&
            !draft->nodes[place->first].backward && draft->nodes[place->last].backward)
            bytes += place->bytes;
    }
    return bytes;
}

void td_plan_get_stats(const td_plan *plan, td_plan_stats *out)
{
    *out = (td_plan_stats){.nodes = plan->draft.n_nodes,
                           .kept_bytes = kept_bytes(plan),
                           .sum_bytes = plan->layout.sum_bytes,
                           .store_bytes = plan->store->bytes,
                           .fused = plan->draft.fused,
                           .submissions = td_plan_submissions(plan)};
    for (size_t c = 0; c < plan->layout.n_chunks; c++)
        out->arena_bytes += plan->layout.chunk_bytes[c];
    for (size_t n = 0; n < plan->draft.n_nodes; n++) {
        out->launches += plan->draft.nodes[n].kind != TD_OP_view;
        out->estimated_ms += td_plan_node_ms(plan, &plan->draft.nodes[n]);
    }
    out->flops = heavy_flops(plan);
}
