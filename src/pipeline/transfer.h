/* The stage between two devices: takes batches from the data device and hands them out on the model device,
 * ahead of whoever trains. A thread of its own packs each batch, sends it through a channel and goes on to
 * the next without waiting for the devices; stages know each other by timeline points alone. Room is bounded:
 * with `n_ready` batches on the model device the thread sleeps until one is released. Not needed with one
 * device. Covered by tests/pipeline/test_transfer.c.
 */
#ifndef TD_PIPELINE_TRANSFER_H
#define TD_PIPELINE_TRANSFER_H

#include "data/batch.h"
#include "pipeline/monitor.h"
#include "tandem/channel.h"

/* Everything is borrowed until destroy; the stage before is the transfer's alone until then. */
typedef struct td_transfer_settings {
    td_status (*next)(void *context, td_batch *out); /* of the stage before, as td_loader_next() */
    void (*release)(void *context, const td_batch *batch, td_point used); /* as td_loader_release() */
    void *context;
    td_memory *data;      /* where its batches lie */
    td_memory *model;     /* where they are to go */
    uint64_t batch_bytes; /* td_batch_bytes() of the largest */
    uint32_t n_ready;     /* batches on the model device at a time, on their way, waiting and in use; 0: 2 */
    bool verify;          /* compare checksums of both ends of every batch: for checking, not for speed */
    td_monitor *monitor;  /* NULL: none */
} td_transfer_settings;

typedef struct td_transfer td_transfer;

/* Starts at once. *out: owned, td_transfer_destroy(). */
td_status td_transfer_create(const td_transfer_settings *settings, td_transfer **out);

/* Ends the thread and waits for what is under way. Whoever uses a batch must be done. The stage before
 * must give a batch or end by itself: destroy the transfer first, as every stage before the one it asks. */
void td_transfer_destroy(td_transfer *transfer);

/* Sleeps until all room on the model device is filled, the stage has ended, or `limit_ns` of td_clock_ns() is
 * reached. Returns how many batches are there, of how many: *room. */
uint32_t td_transfer_wait_full(td_transfer *transfer, uint64_t limit_ns, uint32_t *room);

/* The next batch on the model device; a failure of this stage or the one before comes after the batches
 * before it. */
td_status td_transfer_next(td_transfer *transfer, td_batch *out);
void td_transfer_release(td_transfer *transfer, const td_batch *batch, td_point used);

typedef struct td_transfer_stats {
    td_path path;
    uint64_t n_batches, payload_bytes, copied_bytes;
    uint64_t wait_ns; /* for the stage before */
    uint64_t full_ns; /* for a batch to be released */
    uint64_t host_ns; /* CPU time of the transfer's thread for batches */
} td_transfer_stats;
td_transfer_stats td_transfer_count(td_transfer *transfer);

#endif
