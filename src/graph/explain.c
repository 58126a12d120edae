/* Plans for people: a table and a picture for Graphviz, with what was fused, where tensors lie, and what a
 * node is estimated to cost. See plan.h. Covered by tests/graph/test_plan.c. */
#include <stdio.h>

#include "base/text.h"
#include "graph/plan_internal.h"

static const char *const chain_names[TD_CHAIN_OPERATIONS] = {
    "save",     "store",      "exp",       "log",   "sqrt",       "tanh",       "sigmoid",
    "softplus", "erf",        "silu",      "gelu",  "gelu_erf",   "leaky_relu", "sin",
    "cos",      "load",       "add",       "sub",   "sub_from",   "mul",        "div",
    "div_into", "add_scaled", "min",       "max",   "pass_above", "pass_below", "leaky_relu'",
    "tanh'",    "sigmoid'",   "softplus'", "silu'", "gelu'",      "gelu_erf'",
};

static const char *const activation_names[] = {"", "relu", "gelu", "gelu_erf", "silu", "tanh", "sigmoid"};

/* "matmul nt + bias + gelu", "chain mul add store", what the node does in one line. */
static void describe(const td_node *node, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "%s", td_op_names[node->kind]);
#define APPEND(...)                                                                                          \
    if (used < capacity) used += (size_t)snprintf(text + used, capacity - used, __VA_ARGS__)
    if (node->kind == TD_OP_chain) {
        for (size_t s = 0; s < node->info.program.length; s++) {
            const uint8_t operation = node->info.program.code[s].operation;
            if (operation > TD_CHAIN_STORE && operation != TD_CHAIN_LOAD)
                APPEND(" %s", chain_names[operation]);
        }
    }
    if (node->kind == TD_OP_matmul) {
        APPEND(" %s %ux%ux%u", td_gemm_layout_name(node->info.matmul.layout), node->info.matmul.m,
               node->info.matmul.n, node->info.matmul.k);
        if (node->in[MATMUL_BIAS]) APPEND(" + bias");
    }
    if (node->kind == TD_OP_matmul || node->kind == TD_OP_conv) {
        if (node->activation) APPEND(" + %s", activation_names[node->activation]);
        if (node->in[MATMUL_RESIDUAL]) APPEND(" + residual");
    }
    if (node->kind == TD_OP_norm && node->in[NORM_RESIDUAL]) APPEND(" + residual");
    if (node->kind == TD_OP_norm_back && node->in[NORM_BACK_EXTRA]) APPEND(" + gradient");
    if (node->add[0] == TD_ADD_ALWAYS) APPEND(" added");
#undef APPEND
}

static void print_place(const td_plan *plan, uint32_t id, char *text, size_t capacity)
{
    const td_tensor_info *t = &plan->draft.tensors[id];
    const uint32_t number = plan->layout.of_tensor[t->root];
    if (!number) {
        snprintf(text, capacity, "store");
        return;
    }
    const td_allocation *place = &plan->layout.allocations[number - 1];
    const uint64_t offset = place->offset + 4 * t->root_offset;
    snprintf(text, capacity, "%u:%llu", place->chunk, (unsigned long long)offset);
}

static uint32_t first_output(const td_node *node)
{
    size_t o = 0;
    while (o + 1 < TD_NODE_OUTPUTS && !node->out[o])
        o++;
    return node->out[o];
}

/* GFLOP/s of products, else GB/s. */
static double rate_of(const td_plan *plan, size_t n)
{
    const td_node *node = &plan->draft.nodes[n];
    const double work =
        td_op_table[node->kind]->flops ? td_plan_node_flops(plan, node) : td_plan_node_bytes(plan, node);
    return plan->node_ms[n] > 0 ? work * 1e-6 / plan->node_ms[n] : 0;
}

static uint64_t output_bytes(const td_plan *plan, const td_node *node)
{
    uint64_t bytes = 0;
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        bytes += node->out[o] ? td_tensor_bytes(&plan->draft.tensors[node->out[o]]) : 0;
    return bytes;
}

/* ---------------------------------------------------------------- measuring */

static td_status measure_node(td_plan *plan, size_t n, uint32_t rounds, double *ms)
{
    td_list *list = NULL;
    td_point reached = {0};
    td_times times = {0};
    td_status status = TD_OK;
    TD_TRY(td_plan_record(plan, n, n + 1, &list));
    for (uint32_t i = 0; i < rounds; i++) {
        const td_submission submission = {.list = list};
        TD_TRY(
            td_queue_submit(td_device_queue(plan->store->device, TD_QUEUE_COMPUTE), &submission, &reached));
        TD_TRY(td_point_wait(reached, TD_WAIT_FOREVER));
        TD_TRY(td_point_times(reached, &times));
        const double now = (double)(times.finished_ns - times.started_ns) * 1e-6;
        if (i == 0 || now < *ms) *ms = now;
    }
fail:
    td_list_destroy(list);
    return status;
}

td_status td_plan_measure(td_plan *plan, uint32_t rounds)
{
    if (!plan->node_ms) TD_CHECK(TD_NEW_ARRAY(&plan->node_ms, plan->draft.n_nodes));
    for (size_t n = 0; n < plan->draft.n_nodes; n++)
        if (plan->draft.nodes[n].kind != TD_OP_view)
            TD_CHECK(measure_node(plan, n, rounds, &plan->node_ms[n]));
    return TD_OK;
}

/* ---------------------------------------------------------------- the table */

static void explain_node(const td_plan *plan, size_t n, FILE *file)
{
    const td_node *node = &plan->draft.nodes[n];
    char what[160], place[48], bytes[TD_TEXT_FORMAT_BYTES];
    describe(node, what, sizeof what);
    print_place(plan, first_output(node), place, sizeof place);
    td_text_format_bytes(output_bytes(plan, node), bytes);
    fprintf(file, "%5zu %-8s %-40s %-24.24s %14s %10s %9.1f ", n, node->backward ? "backward" : "forward",
            what, plan->draft.tensors[first_output(node)].name, place, bytes,
            1e3 * td_plan_node_ms(plan, node));
    if (plan->node_ms) fprintf(file, "%9.1f %7.1f ", 1e3 * plan->node_ms[n], rate_of(plan, n));
    fprintf(file, " from");
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        if (node->in[i]) fprintf(file, " %s", plan->draft.tensors[node->in[i]].name);
    fprintf(file, "\n");
}

static td_status check_written(FILE *file)
{
    return ferror(file) ? TD_FAIL(TD_ERR_IO, "the explanation of a plan could not be written") : TD_OK;
}

td_status td_plan_explain(const td_plan *plan, FILE *file)
{
    char arena[TD_TEXT_FORMAT_BYTES], kept[TD_TEXT_FORMAT_BYTES], sum[TD_TEXT_FORMAT_BYTES];
    char store[TD_TEXT_FORMAT_BYTES];
    td_plan_stats stats;
    double measured = 0;
    td_plan_get_stats(plan, &stats);
    fprintf(file, "%5s %-8s %-40s %-24s %14s %10s %9s%s\n", "node", "pass", "operation", "makes",
            "chunk:offset", "bytes", "est. us", plan->node_ms ? "   took us   GF/GB" : "");
    for (size_t n = 0; n < plan->draft.n_nodes; n++)
        explain_node(plan, n, file);
    for (size_t n = 0; plan->node_ms && n < plan->draft.n_nodes; n++)
        measured += plan->node_ms[n];
    td_text_format_bytes(stats.arena_bytes, arena);
    td_text_format_bytes(stats.kept_bytes, kept);
    td_text_format_bytes(stats.sum_bytes, sum);
    td_text_format_bytes(stats.store_bytes, store);
    fprintf(file, "%zu nodes (%zu fused into others), %.3f GFLOP, estimated %.1f ms\n", stats.nodes,
            stats.fused, stats.flops * 1e-9, stats.estimated_ms);
    if (plan->node_ms) fprintf(file, "nodes one by one took %.1f ms\n", measured);
    fprintf(file, "arena %s (%s without sharing; %s kept for the backward pass), store %s\n", arena, sum,
            kept, store);
    return check_written(file);
}

td_status td_plan_explain_dot(const td_plan *plan, FILE *file)
{
    td_uses uses;
    TD_CHECK(td_uses_find(&plan->draft, &uses));
    fprintf(file, "digraph plan {\n  node [shape=box, fontname=\"sans\", fontsize=10];\n");
    for (size_t n = 0; n < plan->draft.n_nodes; n++) {
        const td_node *node = &plan->draft.nodes[n];
        char what[160], place[48];
        describe(node, what, sizeof what);
        print_place(plan, first_output(node), place, sizeof place);
        fprintf(file, "  n%zu [label=\"%zu %s\\n%s at %s\", style=filled, fillcolor=%s];\n", n, n, what,
                plan->draft.tensors[first_output(node)].name, place, node->backward ? "lightgrey" : "white");
        for (size_t i = 0; i < TD_NODE_INPUTS; i++) {
            const uint32_t maker = node->in[i] ? uses.maker[node->in[i]] : 0;
            if (maker && maker - 1 < n) fprintf(file, "  n%u -> n%zu;\n", maker - 1, n);
        }
    }
    fprintf(file, "}\n");
    td_uses_clear(&uses);
    return check_written(file);
}
