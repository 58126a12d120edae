/* The true pipeline on simulated devices: the same transfer, queues and points as in training, with stages
 * that take the time they are given and compute nothing. Answers what a pair of devices would do with given
 * stage times, and proves the overlap on computers that have no such pair. Covered by
 * tests/pipeline/test_simulate.c.
 */
#ifndef TD_PIPELINE_SIMULATE_H
#define TD_PIPELINE_SIMULATE_H

#include "pipeline/monitor.h"

typedef struct td_simulation {
    double data_ms, transfer_ms, train_ms;
    double jitter;          /* each batch's data stage takes 1 +- this share of data_ms; below 1 */
    uint64_t seed;          /* of the jitter */
    bool is_single;         /* one device in both roles: nothing is transferred */
    bool is_serial;         /* one stage after the other, for comparison */
    uint32_t buffer_size;   /* batches ahead on the data device */
    uint32_t prefetch_size; /* batches ahead on the model device */
    uint32_t depth;         /* steps that the trainer submits ahead */
    uint64_t steps;
} td_simulation;

/* "data=30,transfer=5,train=40,jitter=0.5" into those four; others stay. TD_ERR_CONFIG names the mistake. */
td_status td_simulation_parse(const char *text, td_simulation *simulation);

/* Runs; `monitor` (of at least `steps`) then has the times of every batch. */
td_status td_simulate(const td_simulation *simulation, td_monitor *monitor);

#endif
