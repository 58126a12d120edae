/* Gradients of a learner, summed over the ranks of a cluster between the backward pass and the update. They
 * travel in buckets of about equal size, in an order that all ranks share: device, pinned memory, the
 * cluster's thread, and back. A bucket leaves as soon as its gradients are final, while the rest of the
 * backward pass still runs. Covered by tests/cluster/test_train.py.
 */
#ifndef TD_TRAIN_REDUCE_H
#define TD_TRAIN_REDUCE_H

#include "cluster/cluster.h"
#include "graph/bucket.h"

typedef struct td_reducer_settings {
    td_cluster *cluster;
    td_memory *memory; /* of the store */
    td_store *store;
    const td_buckets *buckets; /* of the learner */
    td_wire_format format;
} td_reducer_settings;

typedef struct td_reducer td_reducer;

/* Takes pinned memory for all gradients, and records the copies. All is borrowed until destroy. *out: owned. */
td_status td_reducer_create(const td_reducer_settings *settings, td_reducer **out);

/* Waits for what was begun. */
void td_reducer_destroy(td_reducer *reducer);

/* The run whose gradients are the last of a step was submitted: each bucket leaves when its point is reached.
 * `ready` has one for each bucket. Does not wait. */
td_status td_reducer_begin(td_reducer *reducer, const td_point *ready);

/* Waits for the buckets, one after the other, and submits their way back; whatever is submitted to the compute
 * queue after this sees the sums. */
td_status td_reducer_finish(td_reducer *reducer);

/* Of a step's reducers together, up to the first that is NULL; waited for is what was not there when the backward pass
 * had ended. */
td_travel td_reducers_count(td_reducer *const *reducers, size_t n);

#endif
