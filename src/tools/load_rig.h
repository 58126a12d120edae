/* A loader with all it needs, run epoch by epoch with a stopwatch: what `bench load` and `analyze` share. The
 * batches go nowhere; a training step can be stood in for by a pause. Covered by tests/cli/test_load.py.
 */
#ifndef TD_TOOLS_LOAD_RIG_H
#define TD_TOOLS_LOAD_RIG_H

#include "base/stats.h"
#include "pipeline/batches.h"

/* Open; fields are borrowed until close. */
typedef struct td_load_rig {
    td_device *device;
    td_memory *memory;
    td_data data;
} td_load_rig;

/* *rig: td_load_rig_close(), also after a failure. */
td_status td_load_rig_open(td_registry *registry, const td_device_info *info,
                           const td_data_settings *settings, td_load_rig *rig);
void td_load_rig_close(td_load_rig *rig);

typedef struct td_load_run {
    size_t n_batches, n_items; /* of an epoch */
    size_t n_left_out;         /* rows past the limits */
    double audio_s;            /* of an epoch, the mean */
    td_stats epoch_s;          /* from its first batch asked for to its last one ready */
    td_stats wait_ms;          /* from asking for a batch to its being ready, pauses not counted */
    td_stats batch_ms;         /* from batch to batch */
    double idle;               /* waits as a share of waits and pauses */
    td_loader_stats loader;
} td_load_run;

typedef struct td_load_plan {
    td_pool *pool;             /* NULL: the rig's */
    td_mel_cache *cache;       /* may be NULL */
    uint32_t n_warm, n_epochs; /* epochs that do not count, then those that do */
    double step_ms;            /* pause after each batch */
    size_t max_batches;        /* of an epoch; 0: all */
} td_load_plan;

td_status td_load_rig_run(const td_load_rig *rig, const td_load_plan *plan, td_load_run *out);

#endif
