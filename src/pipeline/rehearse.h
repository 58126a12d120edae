/* A pipeline without data or model: batches that the data device makes by work of its own, the true transfer,
 * and steps of given work on the model device. The same queues, points and order as in training, on any
 * devices; what the work is, the caller says. For simulating and for checking a pair of devices. Covered by
 * tests/pipeline/test_simulate.c and tests/device/test_validate.c.
 */
#ifndef TD_PIPELINE_REHEARSE_H
#define TD_PIPELINE_REHEARSE_H

#include "pipeline/monitor.h"
#include "tandem/channel.h"

/* A finished list of the device's compute queue that fills `span` for batch or step `number`. *out: owned. */
typedef td_status (*td_make_work)(void *context, td_device *device, td_span span, uint64_t number,
                                  td_list **out);

/* Everything is borrowed during the call. */
typedef struct td_rehearsal {
    td_device *data, *model; /* the same: nothing is transferred */
    td_make_work prepare;    /* for each batch; `span` has batch_bytes */
    td_make_work train;      /* once, replayed in each step; `span` has TD_REHEARSAL_WEIGHT_BYTES */
    void *context;
    uint64_t batch_bytes, steps;
    uint32_t buffer_size, prefetch_size, depth; /* as td_simulation */
    bool is_serial;                             /* one stage after the other */
    bool verify;                                /* compare checksums of both ends of every batch */
} td_rehearsal;

#define TD_REHEARSAL_WEIGHT_BYTES UINT64_C(65536)

/* Runs; `monitor` (of at least `steps`) then has the times of every batch. *path (may be NULL): how batches
 * travelled. */
td_status td_rehearse(const td_rehearsal *rehearsal, td_monitor *monitor, td_path *path);

#endif
