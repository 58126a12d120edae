/* A network that is modelled, and ranks of one process that are joined by it: each on a thread of its own, with
 * a td_cluster of its own. Bytes are truly exchanged and summed; calls take the time that the model gives
 * them, on the clock of simulated devices. So `profile --simulate-cluster` can be tried against what training
 * really does between backward pass and update. Covered by tests/cluster/test_sim.c.
 */
#ifndef TD_CLUSTER_SIM_H
#define TD_CLUSTER_SIM_H

#include "cluster/cluster.h"

/* Written as "key=value,...", such as "ranks=64,gbps=1.25,latency_us=20,drop=0". Every rank has a link of its
 * own, which sends and receives at once. */
typedef struct td_network_model {
    uint64_t ranks;
    double gbps;       /* of a link, GB/s each way: 1.25 is 10 Gbit/s */
    double latency_us; /* of a message */
    double drop;       /* share of packets that are lost, and sent again */
    double sum_gbps;   /* at which a rank adds up what it got, GB/s */
    uint64_t seed;     /* of what is lost */
} td_network_model;

/* Defaults, changed by `text`. TD_ERR_CONFIG names the mistake and all keys. */
td_status td_network_parse(const char *text, td_network_model *out);

/* How long it takes until every rank has sent `bytes` to others and got as many, in pieces of one rank after
 * the other; then how long a rank adds up pieces of together `bytes`. */
double td_network_exchange_ns(const td_network_model *model, uint32_t ranks, double bytes);
double td_network_sum_ns(const td_network_model *model, double bytes);

/* ---------------------------------------------------------------- ranks in one process */

typedef struct td_network td_network;

enum { TD_NETWORK_MOST_RANKS = 64 }; /* of one process */

/* For model->ranks ranks. *out: owned; destroy it after all have left. */
td_status td_network_create(const td_network_model *model, td_network **out);
void td_network_destroy(td_network *network);

/* *out: owned, td_network_leave(). Each rank joins once. */
td_status td_network_join(td_network *network, uint32_t rank, td_cluster **out);

/* A rank has failed: from now on the calls of all ranks fail. */
void td_network_fail(td_network *network);

/* In place of td_cluster_close(), also after a failure. NULL is fine. */
void td_network_leave(td_cluster *cluster);

#endif
