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

/* After the update: every rank's parameters to all. Waits for the update and for the other ranks; what is
 * submitted to the compute queue after it sees the parameters. */
td_status td_shards_spread(td_shards *shards);

/* Where td_shards_gather() puts the whole moments of an entry, on rank 0; NULL: the entry has none here. Stays
 * the same. */
const float *td_shards_moment(const td_shards *shards, size_t entry, td_block block);

/* Gathers all ranks' moments on rank 0; all ranks call it. */
td_status td_shards_gather(td_shards *shards);

/* Takes this rank's part of an entry's moments. */
td_status td_shards_load(td_shards *shards, size_t entry, td_block block, const float *values);

#endif
