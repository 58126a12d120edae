/* Gradients of several runs, added up: what the runs before have left is put aside, the run sets its own, and
 * the two are added. So a sum of micro-batches has the same bits as gradients that were computed apart, by
 * other ranks say, and then added in the same order; kernels that start from what lies there would round
 * elsewhere. Plans that sum (td_plan_options.sums_gradients) do it for each gradient apart, to what was cleared. See
 * plan.h. Covered by tests/graph/test_random.c and tests/cluster/test_train.py. */
#include "graph/store.h"
#include "ops/chain.h"

static bool has_gradients(const td_segment *segment, uint32_t learner)
{
    return segment->learner == learner && segment->blocks[TD_BLOCK_GRADIENT].buffer;
}

/* gradient = before + gradient, for a range of elements */
td_status td_store_record_sum(td_list *list, const td_segment *segment, uint64_t first, uint64_t count)
{
    const td_span gradient = td_span_part(segment->blocks[TD_BLOCK_GRADIENT], 4 * first, 4 * count);
    const td_span before = td_span_part(segment->before, 4 * first, 4 * count);
    return td_list_dispatch(list, TD_K_add, (td_span[]){before, gradient, gradient},
                            &(td_add_params){.n = (uint32_t)count},
                            td_grid_elements(td_list_class(list), (uint32_t)count),
                            (td_cost){.flops = (double)count, .bytes = 12.0 * (double)count});
}

td_status td_store_want_clear(td_store *store, uint32_t learner)
{
    td_status status = TD_OK;
    td_list *clear = NULL;
    if (store->clear[learner]) return TD_OK;
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &clear));
    for (size_t s = 0; s < store->n_segments; s++)
        if (has_gradients(&store->segments[s], learner))
            TD_TRY(td_list_fill(clear, store->segments[s].blocks[TD_BLOCK_GRADIENT], 0));
    TD_TRY(td_list_finish(clear));
    store->clear[learner] = clear;
    return TD_OK;
fail:
    td_list_destroy(clear);
    return status;
}

td_status td_store_want_sums(td_store *store, uint32_t learner)
{
    td_status status = TD_OK;
    td_list *keep = NULL, *sum = NULL;
    if (store->keep[learner]) return TD_OK;
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &keep));
    TD_TRY(td_list_create(store->device, TD_QUEUE_COMPUTE, &sum));
    for (size_t s = 0; s < store->n_segments; s++) {
        td_segment *segment = &store->segments[s];
        if (!has_gradients(segment, learner)) continue;
        if (!segment->before.buffer) {
            const uint64_t bytes = 4 * segment->elements;
            TD_TRY(td_memory_alloc(store->memory, TD_MEMORY_DEVICE, bytes, &segment->before));
            segment->before.bytes = bytes;
            store->bytes += bytes;
        }
        TD_TRY(td_list_copy(keep, segment->before, segment->blocks[TD_BLOCK_GRADIENT]));
        TD_TRY(td_store_record_sum(sum, segment, 0, segment->elements));
    }
    TD_TRY(td_list_finish(keep));
    TD_TRY(td_list_finish(sum));
    store->keep[learner] = keep;
    store->sum[learner] = sum;
    return TD_OK;
fail:
    td_list_destroy(keep);
    td_list_destroy(sum);
    return status;
}
