/* Looks after a running pipeline: figures of the last steps for the line of progress, and one warning each,
 * with advice, when steps vary, memory keeps growing or the model device starves. Adds no synchronisation.
 * Covered by tests/pipeline/test_watch.c.
 */
#ifndef TD_PIPELINE_WATCH_H
#define TD_PIPELINE_WATCH_H

#include "pipeline/monitor.h"
#include "tandem/memory.h"

typedef enum td_watch_warning {
    TD_WATCH_VARIES,
    TD_WATCH_STARVES,
    TD_WATCH_GROWS_DATA,
    TD_WATCH_GROWS_MODEL,
    TD_WATCH_WARNINGS
} td_watch_warning;

/* Zero is a watch that has seen nothing. */
typedef struct td_watch {
    td_monitor *monitor; /* of TD_MONITOR_WINDOW batches or more; borrowed */
    bool is_single;
    size_t capacity; /* of the monitor */
    uint64_t from;   /* batches before this one are left out: something else held them up */
    uint64_t n_steps;
    bool is_known; /* whether `figures` tell something */
    td_pipeline_figures figures;
    bool warned[TD_WATCH_WARNINGS];
    uint64_t first_bytes[2], last_bytes[2]; /* data role, model role */
    unsigned rises[2];                      /* windows in a row that ended with more memory in use */
} td_watch;

/* After each step, with the bytes that the roles have in use. */
void td_watch_step(td_watch *watch, uint64_t data_bytes, uint64_t model_bytes);

/* Something other than a step took time; batches from `next` on count again. */
void td_watch_pause(td_watch *watch, uint64_t next);

/* The stage that is waited for: "train" when none is. */
const char *td_watch_waits_for(const td_watch *watch);

#endif
