/* A plan's commands in parts, cut where the gradients of a bucket are final, so that each bucket has a point
 * from which it may leave for other ranks while the rest still runs; and, where that is wanted, where parameters of a
 * bucket are first read, so that what comes before need not wait for them. Without buckets there is one part. See
 * plan.h. Covered by tests/graph/test_bucket.c. */
#include <stdlib.h>
#include <string.h>

#include "graph/bucket.h"
#include "graph/plan_internal.h"
#include "graph/shard.h"

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

/* Those of a learner whose parameters a run may have to wait for; NULL: none. */
static const td_buckets *find_awaited(const td_plan *plan, uint32_t learner)
{
    if (plan->options.forward_only || !plan->options.cuts_reads) return NULL;
    if (plan->store->shards[learner]) return td_shards_buckets(plan->store->shards[learner]);
    return learner == plan->options.learner ? plan->options.buckets : NULL;
}

/* The first node that reads each tensor, or any view of it, or its copy in 16 bits. */
static void find_readers(const td_draft *draft, size_t *readers)
{
    for (size_t n = draft->n_nodes; n-- > 0;)
        for (size_t i = 0; i < TD_NODE_INPUTS; i++)
            if (draft->nodes[n].in[i]) readers[draft->tensors[draft->nodes[n].in[i]].root] = n;
}

/* The first node that reads parameters of each bucket of a learner; n_nodes: none does. */
static td_status find_reads(const td_plan *plan, const td_buckets *buckets, size_t *reads)
{
    const td_draft *draft = &plan->draft;
    const size_t n_buckets = td_buckets_count(buckets);
    size_t *readers = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&readers, draft->n_tensors));
    for (size_t i = 0; i < draft->n_tensors; i++)
        readers[i] = draft->n_nodes;
    for (size_t b = 0; b < n_buckets; b++)
        reads[b] = draft->n_nodes;
    find_readers(draft, readers);
    for (uint32_t id = 1; id < draft->graph->n_tensors; id++) {
        if (draft->graph->tensors[id].role != TD_TENSOR_PARAMETER || readers[id] == draft->n_nodes) continue;
        const size_t entry = find_entry(plan, id);
        if (entry == plan->store->n_entries) continue;
        const size_t bucket = td_buckets_find(buckets, entry);
        if (bucket < n_buckets && readers[id] < reads[bucket]) reads[bucket] = readers[id];
    }
fail:
    free(readers);
    return status;
}

static int by_size(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* The part that begins with a node. */
static size_t find_part(const td_plan *plan, size_t node)
{
    size_t part = 0;
    while (part < plan->n_parts && (part ? plan->part_end[part - 1] : 0) < node)
        part++;
    return part;
}

/* Cuts into `cuts`, of which there are n, some of them the same; the last is the end. */
static td_status set_parts(td_plan *plan, size_t *cuts, size_t n)
{
    TD_CHECK(TD_NEW_ARRAY(&plan->part_end, n));
    TD_CHECK(TD_NEW_ARRAY(&plan->parts, n));
    qsort(cuts, n, sizeof *cuts, by_size);
    for (size_t i = 0; i < n; i++)
        if (cuts[i] > (plan->n_parts ? plan->part_end[plan->n_parts - 1] : 0))
            plan->part_end[plan->n_parts++] = cuts[i];
    return TD_OK;
}

td_status td_plan_cut(td_plan *plan)
{
    const td_buckets *buckets = plan->options.forward_only ? NULL : plan->options.buckets;
    const td_buckets *awaited[TD_MAX_LEARNERS];
    size_t n_cuts = 1, *cuts = NULL, *ends = NULL;
    td_status status = TD_OK;
    plan->n_ready = buckets ? td_buckets_count(buckets) : 0;
    n_cuts += plan->n_ready;
    for (uint32_t l = 0; l < TD_MAX_LEARNERS; l++) {
        awaited[l] = find_awaited(plan, l);
        n_cuts += awaited[l] ? td_buckets_count(awaited[l]) : 0;
    }
    TD_TRY(TD_NEW_ARRAY(&cuts, n_cuts));
    TD_TRY(TD_NEW_ARRAY(&ends, plan->n_ready + 1));
    TD_TRY(TD_NEW_ARRAY(&plan->ready_part, plan->n_ready + 1));
    TD_TRY(TD_NEW_ARRAY(&plan->ready, plan->n_ready + 1));
    TD_TRY(TD_NEW_ARRAY(&plan->reads, plan->n_ready + 1));
    if (buckets) TD_TRY(find_ends(plan, ends));
    memcpy(cuts, ends, plan->n_ready * sizeof *ends);
    n_cuts = plan->n_ready;
    for (uint32_t l = 0; l < TD_MAX_LEARNERS; l++) {
        if (!awaited[l]) continue;
        const size_t count = td_buckets_count(awaited[l]);
        TD_TRY(TD_NEW_ARRAY(&plan->read_part[l], count));
        TD_TRY(find_reads(plan, awaited[l], plan->read_part[l]));
        memcpy(cuts + n_cuts, plan->read_part[l], count * sizeof *cuts);
        n_cuts += count;
    }
    cuts[n_cuts++] = plan->draft.n_nodes;
    TD_TRY(set_parts(plan, cuts, n_cuts));
    for (size_t b = 0; b < plan->n_ready; b++)
        while (plan->part_end[plan->ready_part[b]] < ends[b])
            plan->ready_part[b]++;
    for (uint32_t l = 0; l < TD_MAX_LEARNERS; l++)
        for (size_t b = 0; awaited[l] && b < td_buckets_count(awaited[l]); b++)
            plan->read_part[l][b] = find_part(plan, plan->read_part[l][b]);
fail:
    free(cuts);
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
    for (size_t l = 0; l < TD_MAX_LEARNERS; l++)
        free(plan->read_part[l]);
    free(plan->reads);
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
