/* The processes that train together: who of them this one is, and how data goes between them. Either alone,
 * or started by a launcher (mpirun, srun) and joined by MPI, whose module is opened at run time (module.h).
 *
 * One thread makes all calls of the module, one after the other, blocking. Others give it jobs and may go on
 * in the meantime; every rank must give the same jobs in the same order. Sums are made in the order of the
 * ranks, element by element in fp32, so that the same ranks always get the same bits, all of them.
 *
 * A failure ends a cluster: from then on every call fails with the first cause. So does the silence of a rank
 * whose computer is gone; one that is only slow still gives signs of life. A rank that is not
 * closed within some seconds of a failure, because it computes, is ended with all others. Covered by tests/cluster.
 */
#ifndef TD_CLUSTER_CLUSTER_H
#define TD_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef enum td_cluster_kind {
    TD_CLUSTER_AUTO, /* MPI if a launcher started several processes, else alone */
    TD_CLUSTER_NONE, /* alone, whoever started it */
    TD_CLUSTER_MPI,
} td_cluster_kind;

/* What the environment says of a launcher. */
typedef struct td_launch {
    const char *launcher; /* "mpirun (Open MPI)"; NULL: none, or of a single process */
    uint32_t rank;        /* as far as it is told before the cluster is open */
    uint32_t local_rank;  /* among those of the same computer; where that is not told, the rank */
} td_launch;
td_launch td_cluster_launch(void);

typedef struct td_cluster td_cluster;

/* *out: owned, td_cluster_close(). TD_ERR_CONFIG if there is a launcher but no module, or the other way: the first
 * rank of each computer (td_launch.local_rank) tells that, and returns some seconds before its others. */
td_status td_cluster_open(td_cluster_kind kind, td_cluster **out);

/* Where all went well, waits for the others. After a failure, here or in what the cluster is used for
 * (`failed`), ends all ranks instead, for they would wait for this one for ever. NULL is fine. */
void td_cluster_close(td_cluster *cluster, bool failed);

uint32_t td_cluster_rank(const td_cluster *cluster);
uint32_t td_cluster_size(const td_cluster *cluster);
uint32_t td_cluster_local_rank(const td_cluster *cluster); /* among those of the same computer */
const char *td_cluster_name(const td_cluster *cluster);    /* "alone", "Open MPI 4.1.4" */

/* ---------------------------------------------------------------- calls that wait */

/* `data` of rank `root` to all. */
td_status td_cluster_broadcast(td_cluster *cluster, void *data, size_t bytes, uint32_t root);

/* `bytes` of each rank, in the order of the ranks, to `all`. */
td_status td_cluster_all_gather(td_cluster *cluster, const void *mine, size_t bytes, void *all);

td_status td_cluster_barrier(td_cluster *cluster);

/* ---------------------------------------------------------------- sums */

/* How numbers travel. */
typedef enum td_wire_format {
    TD_WIRE_FP32,
    TD_WIRE_BF16, /* rounded to nearest, before and after the sum; the sum itself is fp32 */
} td_wire_format;

/* The part of n elements that a rank sums up: [*first, *first + return). Parts begin at multiples of 64. */
uint64_t td_cluster_shard(uint64_t n, uint32_t size, uint32_t rank, uint64_t *first);

/* counts[r] of `total` pieces of work for each of n ranks, at least one, such that the last to finish does so
 * as early as can be; seconds[r]: what one piece takes rank r. total >= n. */
void td_cluster_share_out(const double *seconds, uint32_t n, uint32_t total, uint32_t *counts);

/* Work for the thread: a function of any kind, for what is neither a sum nor a gathering. */
typedef struct td_cluster_job {
    td_status (*run)(td_cluster *cluster, void *context); /* uses the td_cluster_do_ functions below */
    void *context;                                        /* borrowed until the job is done */
} td_cluster_job;

/* Gives a job to the thread; without a thread (alone) it runs at once. *number tells it from others. */
td_status td_cluster_give(td_cluster *cluster, const td_cluster_job *job, uint64_t *number);

/* Sleeps until the job of this number and all before it are done. */
td_status td_cluster_wait(td_cluster *cluster, uint64_t number);

/* Of jobs alone, on their thread. */

/* A job that waits for something else than other ranks calls this at least once a second. */
td_status td_cluster_do_pulse(td_cluster *cluster);

/* `scratch` has room for td_cluster_scratch_bytes(). */
size_t td_cluster_scratch_bytes(const td_cluster *cluster, uint64_t n);

/* Every rank's `values` are added up, in the order of the ranks, each rank its own shard, which then holds
 * the sum; what lies outside of it is left as it is. */
td_status td_cluster_do_reduce_scatter(td_cluster *cluster, td_wire_format format, uint64_t n, float *values,
                                       void *scratch);

/* Every rank's shard of `values` to all. */
td_status td_cluster_do_all_gather(td_cluster *cluster, td_wire_format format, uint64_t n, float *values,
                                   void *scratch);

/* When (td_clock_ns()) what the job sends was there. Asked for by a modelled network alone. */
bool td_cluster_is_modelled(const td_cluster *cluster);
void td_cluster_do_note_ready(td_cluster *cluster, uint64_t ns);

/* `bytes` of this rank; on `root` `all` gets those of all ranks, counts[r] bytes of rank r, one behind the
 * other. */
td_status td_cluster_do_gather(td_cluster *cluster, const void *mine, const size_t *counts, void *all,
                               uint32_t root);

#endif
