/* What a training step would take on many computers: from the real plan of a model, with the points in time at
 * which its buckets of gradients are final, and the numbers of a network (cluster/sim.h). A prediction for any
 * number of ranks, and for a few of them the same step truly made by simulated ranks, to hold it against.
 * Prints nothing (src/cli/cmd_profile.c does). Covered by tests/cluster/test_forecast.c and
 * tests/cli/test_profile_cluster.py.
 */
#ifndef TD_TOOLS_CLUSTER_FORECAST_H
#define TD_TOOLS_CLUSTER_FORECAST_H

#include "cluster/sim.h"
#include "train/need.h"

/* ---------------------------------------------------------------- one rank */

/* A step of one rank that nobody else takes part in. */
typedef struct td_rank_times {
    double first_ms, more_ms, last_ms; /* a step's first micro-batch, one between, its last */
    double update_ms;
    double
        whole_update; /* share of the update that a rank makes for all parameters, also if moments are cut */
    double copy_ms, copy_gbps; /* of a bucket between device and host: what any copy takes, and the rate */
    struct td_rank_bucket {
        double ready_ms; /* since the last micro-batch began */
        double read_ms;  /* into a micro-batch, until its parameters are first read; told with `shards` */
        uint64_t elements;
    } * buckets; /* owned */
    size_t n_buckets;
    uint32_t grad_accum;
    bool shards; /* moments are cut among ranks */
    td_wire_format format;
} td_rank_times;

/* Plans, and runs a few steps, on the device of `memory`. *out: td_rank_times_free(), also after a failure. */
td_status td_rank_times_measure(td_memory *memory, const td_train_settings *settings,
                                const td_batch_shape *shape, td_rank_times *out);

/* The same on a simulated device, as TANDEM_SIM. */
td_status td_rank_times_simulate(const char *device, const td_train_settings *settings,
                                 const td_batch_shape *shape, td_rank_times *out);
void td_rank_times_free(td_rank_times *times);

/* ---------------------------------------------------------------- many */

typedef struct td_cluster_figures {
    uint32_t ranks;
    double step_ms;
    double reduce_ms;      /* that the network is busy in a step, sums included */
    double wait_ms;        /* of it, what comes after the backward pass */
    double gather_ms;      /* that the network is busy with parameters after an update, if moments are cut */
    double gather_wait_ms; /* of it, what the next forward pass waits for */
    double overlap; /* share of the reduction behind the backward pass: 1 - wait / reduce; of one rank: 1 */
    double efficiency; /* step of one rank alone / step */
} td_cluster_figures;

td_cluster_figures td_cluster_predict(const td_rank_times *times, const td_network_model *network,
                                      uint32_t ranks);

enum { TD_CLUSTER_DOUBLINGS = 13 }; /* 1, 2, 4 ... 4096 ranks */

typedef struct td_cluster_forecast {
    td_network_model network;
    td_rank_times times;
    uint64_t gradient_bytes; /* that a rank sums up in a step, as they lie in its memory */
    td_cluster_figures asked, rows[TD_CLUSTER_DOUBLINGS];
    uint32_t pays_to;      /* most ranks of the rows whose efficiency is at least TD_CLUSTER_PAYS */
    uint32_t fastest;      /* ranks of the rows beyond which more of them are slower together */
    uint32_t enough_accum; /* least grad_accum, in doublings, with which the ranks asked for reach
                            * TD_CLUSTER_GOOD; 0: none up to 4096 */
    double simulated_ms;   /* of the ranks asked for, by td_cluster_rehearse(); 0: not done */
} td_cluster_forecast;

#define TD_CLUSTER_PAYS 0.5
#define TD_CLUSTER_GOOD 0.9

/* From out->times, all else but the simulation. `network` says how many ranks are asked for. */
void td_cluster_forecast_make(const td_network_model *network, td_cluster_forecast *out);

/* ---------------------------------------------------------------- simulated ranks */

typedef struct td_rehearsal_request {
    const char *device; /* as TANDEM_SIM: every rank has one like this */
    const td_train_settings *settings;
    td_batch_shape shape;
    td_network_model network;
    uint32_t steps; /* that count; to 16 */
    double pace;    /* everything is run slower by this factor, and told as if it were not [1] */
} td_rehearsal_request;

/* The pace at which what this computer itself takes for the bytes does not count; and whether that many ranks and
 * steps can be waited for. */
double td_cluster_rehearsal_pace(const td_cluster_forecast *forecast);
bool td_cluster_can_rehearse(const td_cluster_forecast *forecast, uint32_t steps);

/* Each rank on a thread: the plan on a simulated device, and the same reducers, shards and updates as in training,
 * over a simulated network. *step_ms: the shortest step, since this computer can only add to it. */
td_status td_cluster_rehearse(const td_rehearsal_request *request, double *step_ms);

#endif
