/* The parameters of a learner, cut into buckets: ranges of the store's flat blocks that hold whole entries, of
 * about equal size. The order is that in which a backward pass makes gradients final, as far as the store
 * can tell: entries that come last in the graph first. It depends on the store alone, so that ranks with
 * other devices and shapes have the same. Covered by tests/graph/test_bucket.c.
 */
#ifndef TD_GRAPH_BUCKET_H
#define TD_GRAPH_BUCKET_H

#include "cluster/cluster.h"
#include "graph/plan.h"

typedef struct td_bucket {
    uint32_t segment;      /* of the store */
    uint64_t first, count; /* elements, in the segment */
    size_t first_entry;    /* of the store: the least number of those in it */
} td_bucket;

typedef struct td_buckets td_buckets;

/* Buckets of at least `bytes` of gradients, but for the last of a segment. *out: owned; the store is borrowed
 * until it is destroyed. */
td_status td_buckets_create(td_store *store, uint32_t learner, uint64_t bytes, td_buckets **out);
void td_buckets_destroy(td_buckets *buckets);

size_t td_buckets_count(const td_buckets *buckets);
uint32_t td_buckets_learner(const td_buckets *buckets);
const td_bucket *td_buckets_at(const td_buckets *buckets, size_t i); /* borrowed */

/* Makes td_buckets_sum() there: for steps of several runs (td_run.adds). */
td_status td_buckets_want_sums(td_buckets *buckets);

/* Adds what the runs before have left; borrowed, NULL unless wanted. */
td_list *td_buckets_sum(const td_buckets *buckets, size_t i);

/* Elements of all together. */
uint64_t td_buckets_elements(const td_buckets *buckets);

/* Where `count` elements of a bucket, from its element `first` on, lie in a block. */
td_span td_buckets_span(const td_buckets *buckets, size_t i, td_block block, uint64_t first, uint64_t count);

/* The bucket that an entry of the store is in; their count: none. */
size_t td_buckets_find(const td_buckets *buckets, size_t entry);

/* What has travelled between ranks since the beginning: time from a bucket's leaving to its being there, time for
 * which a device had nothing to do but wait for it, and bytes as they lie in memory; of the last step, when the first
 * bucket left and the last one was there. */
typedef struct td_travel {
    uint64_t n_steps, way_ns, wait_ns, bytes;
    uint64_t last_start_ns, last_end_ns;
} td_travel;

/* Adds those of another learner, in the same steps, to *sum, which starts as {0}. */
void td_travel_add(td_travel *sum, const td_travel *one);

/* In a job of a cluster: waits until what it sends has come from the device, and gives signs of life meanwhile. A
 * modelled network is told when that was, whenever this thread wakes up. */
td_status td_bucket_await(td_cluster *cluster, td_point copied);

#endif
