/* A plan's commands in parts, cut where the gradients of a bucket are final, so that each bucket has a point
 * from which it may leave for other ranks while the rest still runs. Without buckets there is one part. See
 * plan.h. Covered by tests/graph/test_bucket.c. */
#include <stdlib.h>
#include <string.h>

#include "graph/bucket.h"
#include "graph/plan_internal.h"

/* The entry of the store that a parameter of the graph is; their count: none. */
static size_t find_entry(const td_plan *plan, uint32_t parameter)
{
    const char *name = td_graph_at(plan->draft.graph, parameter)->name;
    size_t i = 0;
    while (i < plan->store->n_entries && strcmp(plan->store->entries[i].entry.name, name) != 0)
        i++;
    return i;
}

/* Behind which node each bucket is final. What no node makes is cleared at the end. */
static td_status find_ends(const td_plan *plan, size_t *ends)
{
    const td_buckets *buckets = plan->options.buckets;
    const size_t n_buckets = td_buckets_count(buckets);
    const td_graph *graph = plan->draft.graph;
    memset(ends, 0, n_buckets * sizeof *ends);
    for (uint32_t id = 1; id < graph->n_tensors; id++) {
        const td_tensor_info *t = &graph->tensors[id];
        if (t->role != TD_TENSOR_PARAMETER || t->is_frozen) continue;
        const size_t entry = find_entry(plan, id);
        TD_REFUSE_IF(entry == plan->store->n_entries, TD_ERR_ARGUMENT, "the store has no %s", t->name);
        const size_t bucket = td_buckets_find(buckets, entry);
        TD_REFUSE_IF(bucket == n_buckets, TD_ERR_ARGUMENT, "no bucket has %s", t->name);
        size_t end = 0;
        for (size_t n = plan->draft.n_nodes; t->gradient && n-- > 0 && end == 0;)
            for (size_t o = 0; o < TD_NODE_OUTPUTS; o++) {
                const uint32_t out = plan->draft.nodes[n].out[o];
                if (out && plan->draft.tensors[out].root == t->gradient) end = n + 1;
            }
        if (end == 0) end = plan->draft.n_nodes;
        if (end > ends[bucket]) ends[bucket] = end;
    }
    return TD_OK;
}

static int by_size(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

td_status td_plan_cut(td_plan *plan)
{
    const td_buckets *buckets = plan->options.forward_only ? NULL : plan->options.buckets;
    const size_t n_buckets = buckets ? td_buckets_count(buckets) : 0;
    const size_t n_nodes = plan->draft.n_nodes;
    size_t *ends = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&plan->part_end, n_buckets + 1));
    TD_TRY(TD_NEW_ARRAY(&plan->parts, n_buckets + 1));
    TD_TRY(TD_NEW_ARRAY(&plan->ready_part, n_buckets + 1));
    TD_TRY(TD_NEW_ARRAY(&plan->ready, n_buckets + 1));
    TD_TRY(TD_NEW_ARRAY(&ends, n_buckets + 1));
    plan->n_ready = n_buckets;
    if (buckets) TD_TRY(find_ends(plan, ends));
    memcpy(plan->part_end, ends, n_buckets * sizeof *ends);
    plan->part_end[n_buckets] = n_nodes;
    qsort(plan->part_end, n_buckets + 1, sizeof *plan->part_end, by_size);
    for (size_t i = 0; i <= n_buckets; i++)
        if (plan->part_end[i] > (plan->n_parts ? plan->part_end[plan->n_parts - 1] : 0))
            plan->part_end[plan->n_parts++] = plan->part_end[i];
    for (size_t b = 0; b < n_buckets; b++)
        while (plan->part_end[plan->ready_part[b]] < ends[b])
            plan->ready_part[b]++;
fail:
    free(ends);
    return status;
}

static void destroy_lists(td_list **lists, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        td_list_destroy(lists[i]);
        lists[i] = NULL;
    }
}

td_status td_plan_record_parts(td_plan *plan)
{
    td_list **lists = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&lists, plan->n_parts));
    for (size_t i = 0; i < plan->n_parts; i++)
        TD_TRY(td_plan_record(plan, i ? plan->part_end[i - 1] : 0, plan->part_end[i], &lists[i]));
    destroy_lists(plan->parts, plan->n_parts);
    memcpy(plan->parts, lists, plan->n_parts * sizeof *lists);
    free(lists);
    return TD_OK;
fail:
    if (lists) destroy_lists(lists, plan->n_parts);
    free(lists);
    return status;
}

void td_plan_free_parts(td_plan *plan)
{
    if (plan->parts) destroy_lists(plan->parts, plan->n_parts);
    free(plan->parts);
    free(plan->part_end);
    free(plan->ready_part);
    free(plan->ready);
}

double td_plan_estimated_ns(const td_plan *plan)
{
    double ns = 0;
    for (size_t i = 0; i < plan->n_parts; i++)
        ns += td_list_estimated_ns(plan->parts[i]);
    return ns;
}

size_t td_plan_submissions(const td_plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->n_parts; i++)
        count += td_list_submissions(plan->parts[i]);
    return count;
}
