/* What the stages of a pipeline did and when: for the line of progress, for warnings while training, for
 * `profile` and its pictures. Stages note the points of their work for a batch; the times behind the points
 * are asked for when the devices have passed them, so watching adds no synchronisation. Keeps the last
 * `capacity` batches. Any thread may note. Covered by tests/pipeline/test_monitor.c.
 */
#ifndef TD_PIPELINE_MONITOR_H
#define TD_PIPELINE_MONITOR_H

#include <stdbool.h>

#include "base/stats.h"
#include "tandem/queue.h"

typedef enum td_stage {
    TD_STAGE_LOAD,     /* host: decoding; busy_ns is that of all threads together */
    TD_STAGE_PREPARE,  /* data device: mel */
    TD_STAGE_TRANSFER, /* data device to model device */
    TD_STAGE_TRAIN,    /* model device */
    TD_STAGE_COUNT
} td_stage;

/* X(STAGE, name of its phase) */
#define TD_STAGE_LIST(X)                                                                                     \
    X(LOAD, load)                                                                                            \
    X(PREPARE, preprocess)                                                                                   \
    X(TRANSFER, transfer)                                                                                    \
    X(TRAIN, train)

const char *td_stage_name(td_stage stage); /* "load", "preprocess", "transfer", "train" */

/* Nanoseconds of td_clock_ns(). */
typedef struct td_interval {
    uint64_t start_ns, end_ns; /* end 0: not known */
    uint64_t busy_ns;          /* within it, what the stage itself took */
} td_interval;

typedef struct td_batch_times {
    uint64_t number;
    td_interval stages[TD_STAGE_COUNT];
    uint64_t waited_ns; /* that the trainer's thread waited for this batch */
    td_interval reduce; /* in which gradients were summed over ranks, at the end of a step; else end 0 */
    td_interval gather; /* in which parameters of the update before came from other ranks; else end 0 */
} td_batch_times;

typedef struct td_monitor td_monitor;

enum { TD_MONITOR_WINDOW = 100, TD_MONITOR_MAX_POINTS = 16 };

/* *out: owned. `is_single`: both roles share a device, so preparing keeps the model device busy too. */
td_status td_monitor_create(size_t capacity, bool is_single, td_monitor **out);
void td_monitor_destroy(td_monitor *monitor);

/* Work of a stage for batch `number` that ends at these points, at most TD_MONITOR_MAX_POINTS, of queues that
 * are open until td_monitor_collect() has seen them or the monitor is destroyed. monitor NULL: nothing. */
void td_monitor_note(td_monitor *monitor, td_stage stage, uint64_t number, const td_point *points,
                     size_t n_points);

/* Work on the host. */
void td_monitor_note_host(td_monitor *monitor, td_stage stage, uint64_t number, td_interval interval);

/* That the trainer waited for a batch. */
void td_monitor_note_wait(td_monitor *monitor, uint64_t number, uint64_t waited_ns);

/* That gradients were summed over ranks when this batch was the last of its step. */
void td_monitor_note_reduce(td_monitor *monitor, uint64_t number, td_interval interval);

/* That parameters came from other ranks while this batch, or the first of its step, began. */
void td_monitor_note_gather(td_monitor *monitor, uint64_t number, td_interval interval);

/* While paused, nothing is noted: the difference is what watching costs (`bench pipeline`). */
void td_monitor_pause(td_monitor *monitor, bool is_paused);

/* Asks for the times of all points that were reached. Call once per step; does not block. */
void td_monitor_collect(td_monitor *monitor);

/* The batches whose training has ended, oldest first; `out` has room for `capacity`. Returns how many. */
size_t td_monitor_read(td_monitor *monitor, td_batch_times *out);

/* ---------------------------------------------------------------- figures */

typedef struct td_pipeline_figures {
    size_t steps;
    td_stats step_ms;
    double cv;                                  /* std / mean of step_ms */
    td_stats stage_ms[TD_STAGE_COUNT];          /* for a batch; loading: with all its threads at work */
    td_stats idle_ms;                           /* of a step, what the model device did not train */
    double data_utilisation, model_utilisation; /* work of a device for a step, as a share of it; to 1 */
    double overlap;      /* share of preparing and transferring that ran while the model trained */
    double waited_share; /* of the time, that the trainer waited for batches */
    td_stage slowest;    /* the stage that sets the pace */
} td_pipeline_figures;

/* From the batches of td_monitor_read(). Those from `first` on count, at least two, else false; those before
 * it only tell what else went on meanwhile. */
bool td_pipeline_figures_of(const td_batch_times *times, size_t n, size_t first, bool is_single,
                            td_pipeline_figures *out);

/* Whether steps vary at all, more than is usual; and whether they do because the model device waits for some of the
 * batches. Steps on batches of different lengths differ by the work that they are, which is no starvation. */
bool td_pipeline_varies(const td_pipeline_figures *figures);
bool td_pipeline_waits_unevenly(const td_pipeline_figures *figures);

#endif
