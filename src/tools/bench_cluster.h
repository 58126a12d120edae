/* `tandem bench cluster`: training steps of all ranks that a launcher has started, with their sums and without,
 * and the network between them. Data is made up and already on the devices. All ranks call it; each gets all
 * figures. Prints nothing (src/cli/cmd_bench_cluster.c does). Covered by tests/cluster/test_bench.py.
 */
#ifndef TD_TOOLS_BENCH_CLUSTER_H
#define TD_TOOLS_BENCH_CLUSTER_H

#include "base/stats.h"
#include "train/need.h"

typedef struct td_bench_cluster_options {
    td_cluster *cluster;
    const td_train_settings *settings;
    td_batch_shape shape;
    uint32_t steps; /* that count, of each kind */
} td_bench_cluster_options;

/* One rank. In ms: means of a step, of the quickest of three rounds; reduce and wait of the last one. */
typedef struct td_bench_rank {
    char host[64], device[96];
    double alone_ms;  /* step without sums, while all other ranks make such steps too */
    double step_ms;   /* step with them */
    double reduce_ms; /* that buckets of a step took, from leaving to being summed */
    double wait_ms;   /* of it, what came after the backward pass */
    double
        gather_ms; /* that parameters took from rank to rank after the update; 0 where moments are not cut */
    double gather_wait_ms; /* of it, what the next forward pass waited for */
    double bare_ms;        /* that they take while nothing is computed */
    double small_ms;       /* that eight bytes of each rank take to all */
} td_bench_rank;

typedef struct td_bench_cluster_result {
    td_bench_rank *ranks; /* owned */
    uint32_t n_ranks;
    uint64_t bytes; /* of gradients of a rank in a step */
    double
        reduce_gbps; /* GB/s that a rank sends, and gets, while nothing is computed; of one rank not finite */
    double latency_us; /* of a message; the same */
    double overlap;    /* share of the reduction behind the backward pass; the same */
    double
        gather_overlap; /* share of the gathering behind the next forward pass; also not finite where there is none */
    double step_ms;
    double efficiency; /* steps of all ranks together, by those they would make without sums */
} td_bench_cluster_result;

/* *out: td_bench_cluster_free(), also after a failure. */
td_status td_bench_cluster_run(td_registry *registry, const td_device_info *info,
                               const td_bench_cluster_options *options, td_bench_cluster_result *out);
void td_bench_cluster_free(td_bench_cluster_result *result);

#endif
