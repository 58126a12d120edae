/* The moments of a learner's parameters, cut among ranks: of each bucket (bucket.h) a rank has the part that
 * td_cluster_shard() gives it. It updates the parameters of that part and gets the others from other ranks.
 * The store then has no moments (td_store_options.no_moments). Covered by tests/cluster/test_train.py.
 */
#ifndef TD_GRAPH_SHARD_H
#define TD_GRAPH_SHARD_H

#include "cluster/cluster.h"
#include "graph/bucket.h"

typedef struct td_shards td_shards;

/* Takes memory for this rank's moments, zeros. All is borrowed until destroy. *out: owned. */
td_status td_shards_create(td_cluster *cluster, td_store *store, const td_buckets *buckets, td_shards **out);
void td_shards_destroy(td_shards *shards);

/* This rank's part of a bucket: elements [*first, *first + return) of it, and where their moments lie. */
uint64_t td_shards_part(const td_shards *shards, size_t bucket, uint64_t *first, td_span *moment1,
                        td_span *moment2);
const td_buckets *td_shards_buckets(const td_shards *shards);

/* The update was submitted: every rank's parameters leave for all others, those that a forward pass reads first before
 * the rest. Does not wait: what reads parameters after this waits for them, bucket by bucket (runs of plans that are
 * cut for it, td_plan_options.cuts_reads), or for all (other runs, td_store_read(), td_store_settle()). */
td_status td_shards_begin(td_shards *shards);

/* Waits for a bucket, or for all; what is submitted to the compute queue after it sees their parameters. `before` is
 * what was submitted there last: while it runs nothing is lost by waiting. */
td_status td_shards_await(td_shards *shards, size_t bucket, td_point before);
td_status td_shards_finish(td_shards *shards, td_point before);

/* Is submitted whenever all parameters have come; NULL: nothing. Borrowed. */
void td_shards_follow(td_shards *shards, td_list *list);

/* While they rest, nothing travels: for seeing what travelling costs. */
void td_shards_rest(td_shards *shards, bool rests);

/* Of a step's shards together, those that are NULL left out. The last step is the last one that all came of. */
td_travel td_shards_count(td_shards *const *shards, size_t n);

/* Where td_shards_gather() puts the whole moments of an entry, on rank 0; NULL: the entry has none here. Stays
 * the same. */
const float *td_shards_moment(const td_shards *shards, size_t entry, td_block block);

/* Gathers all ranks' moments on rank 0; all ranks call it. */
td_status td_shards_gather(td_shards *shards);

/* Takes this rank's part of an entry's moments. */
td_status td_shards_load(td_shards *shards, size_t entry, td_block block, const float *values);

#endif
