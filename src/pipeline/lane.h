/* A lane: the way of a loader's batches to the model device. With both roles on one device it is the loader
 * itself, with two a transfer behind it; who trains sees the same either way. Covered by
 * tests/pipeline/test_transfer.c and tests/train/test_train_pair.c.
 */
#ifndef TD_PIPELINE_LANE_H
#define TD_PIPELINE_LANE_H

#include "pipeline/transfer.h"

typedef struct td_lane {
    td_batch_source source; /* of batches on the model device */
    td_transfer *transfer;  /* owned; NULL with one device */
    td_monitor *monitor;
} td_lane;

typedef struct td_lane_settings {
    td_loader *loader;
    td_memory *data, *model;
    uint32_t n_ready;    /* batches on the model device at a time, with two devices; 0: 2 */
    bool verify;         /* as td_transfer_settings */
    td_monitor *monitor; /* NULL: none */
} td_lane_settings;

/* All of the settings is borrowed until the lane is closed. *lane: td_lane_close() before the loader. */
td_status td_lane_open(const td_lane_settings *settings, td_lane *lane);
void td_lane_close(td_lane *lane);

/* With two devices: waits at most `seconds` for the room on the model device to be filled, and logs how far
 * it came. */
void td_lane_prefill(td_lane *lane, double seconds);

/* The next batch, and how long it was waited for, told to the monitor. With two devices it has arrived: were
 * its point left to the model's queue, a data device that fails would take that queue with it, and nothing
 * could be read from the model any more. A batch that was sent ahead costs no waiting here. */
td_status td_lane_next(td_lane *lane, td_batch *out);
void td_lane_release(td_lane *lane, const td_batch *batch, td_point used);

#endif
