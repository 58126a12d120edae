/* The batches that a consumer takes, on the device where it wants them: sampler and loader on the data
 * device, and with a second device a transfer behind them; the consumer sees the same either way. Covered by
 * tests/pipeline/test_batches.c and tests/train/test_train_pair.c.
 */
#ifndef TD_PIPELINE_BATCHES_H
#define TD_PIPELINE_BATCHES_H

#include "data/data.h"
#include "pipeline/transfer.h"

typedef struct td_batches {
    const td_data *data;
    td_data_rows rows;     /* its state and n_batches may be changed until the start */
    td_sampler *sampler;   /* owned; shapes and counts may be asked at any time */
    td_loader *loader;     /* owned; NULL before the start */
    td_transfer *transfer; /* owned; NULL with one device */
    td_monitor *monitor;
} td_batches;

/* Tells shapes and how long an epoch is; loads nothing yet. `data` and what `rows` borrows are borrowed until
 * close. *batches: td_batches_close(), also after a failure. */
td_status td_batches_open(const td_data *data, const td_data_rows *rows, td_batches *batches);

/* How batches come to the consumer. All is borrowed until close. */
typedef struct td_batches_way {
    td_memory *model; /* where they are to go; NULL or of the data's device: they stay where they are made */
    uint32_t n_ready; /* batches on the model device at a time, with two devices; 0: 2 */
    bool verify;      /* as td_transfer_settings */
    td_monitor *monitor; /* NULL: none */
} td_batches_way;

/* Begins loading. */
td_status td_batches_start(td_batches *batches, const td_batches_way *way);
void td_batches_close(td_batches *batches);

/* With two devices: waits at most `seconds` for the room on the model device to be filled, and logs how far
 * it came. */
void td_batches_prefill(td_batches *batches, double seconds);

/* The next batch, and how long it was waited for, reported to the monitor. With two devices it has arrived:
 * were its point left to the model's queue, a data device that fails would take that queue with it, and
 * nothing could be read from the model any more. A batch that was sent ahead costs no waiting here. After a
 * failure first the batches before it come, then the failure, again and again. TD_ERR_NOT_FOUND past the
 * last of rows.n_batches. One thread at a time. */
td_status td_batches_next(td_batches *batches, td_batch *out);

/* The batch's room may be filled again once `used` is reached ({NULL, 0}: at once). Any order, any thread. */
void td_batches_release(td_batches *batches, const td_batch *batch, td_point used);

#endif
