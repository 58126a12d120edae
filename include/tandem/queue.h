/* SPDX-License-Identifier: MIT
 *
 * Work: command lists recorded once and replayed, queues that run them in order, and timeline points,
 * the one way in which queues of any device and API, and the host, wait for each other.
 * Covered by tests/device/test_queue.c and test_list.c.
 *
 * Threads: queues may be used from any thread; a list is recorded by one thread at a time.
 */
#ifndef TANDEM_QUEUE_H
#define TANDEM_QUEUE_H

#include "tandem/memory.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_queue td_queue;
typedef struct td_list td_list;

typedef enum td_queue_kind { TD_QUEUE_COMPUTE, TD_QUEUE_COPY, TD_QUEUE_KIND_COUNT } td_queue_kind;

/* The moment a queue has finished its value-th submission. {NULL, 0} is always in the past.
 * Valid until the queue's device is closed. */
typedef struct td_point {
    td_queue *queue;
    uint64_t value;
} td_point;

#define TD_WAIT_FOREVER UINT64_MAX

/* When a submission ran, in nanoseconds of the host's monotonic clock. */
typedef struct td_times {
    uint64_t submitted_ns; /* handed to td_queue_submit */
    uint64_t started_ns;
    uint64_t finished_ns;
} td_times;

/* Borrowed from the device. COPY is the same queue as COMPUTE where caps.copy_queue is false. */
td_queue *td_device_queue(td_device *device, td_queue_kind kind);

/* An empty list for queues of that kind. *out is owned; td_list_destroy waits for its last use. */
td_status td_list_create(td_device *device, td_queue_kind kind, td_list **out);
void td_list_destroy(td_list *list);

/* Record one command. Commands of a list behave as if run one after the other; those whose byte ranges
 * do not conflict may overlap. Spans are borrowed until the list is destroyed. Offsets and sizes of
 * copies and fills are multiples of 4. Source and destination may be device or host memory of this
 * device, or of a device that shares its context. */
td_status td_list_copy(td_list *list, td_span destination, td_span source);
td_status td_list_fill(td_list *list, td_span destination, uint32_t word);

/* Ends recording and prepares the list for replay; needed once before it is submitted. */
td_status td_list_finish(td_list *list);

typedef struct td_submission {
    td_list *list;         /* NULL: only a join of the waits */
    const td_point *waits; /* points of any queues; copied */
    size_t n_waits;
    void (*host_task)(void *context); /* run on the host after the waits, before the list; may be NULL */
    void *host_context;
} td_submission;

/* Queues work behind all earlier work of this queue; never blocks for it. *reached (may be NULL) is the
 * point at which it is done. If something it waits for fails, the queue fails with TD_ERR_CANCELLED. */
td_status td_queue_submit(td_queue *queue, const td_submission *submission, td_point *reached);

/* Blocks, without burning a core, until the point is reached or has failed, at most timeout_ns
 * (TD_ERR_TIMEOUT; the work goes on). */
td_status td_point_wait(td_point point, uint64_t timeout_ns);

/* *reached says whether td_point_wait would return at once. */
td_status td_point_poll(td_point point, bool *reached);

/* Everything submitted so far. */
td_status td_queue_finish(td_queue *queue);

/* When a reached point's submission ran; kept for the queue's last 256 submissions (TD_ERR_NOT_FOUND
 * after that, TD_ERR_UNSUPPORTED without timestamps). */
td_status td_point_times(td_point point, td_times *out);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
