/* `bench pipeline`: the same training on one device, on two with one stage after the other, and on two
 * overlapped, side by side. Prints nothing (src/cli/cmd_bench_pipeline.c does). Covered by
 * tests/cli/test_profile.py.
 */
#ifndef TD_TOOLS_BENCH_PIPELINE_H
#define TD_TOOLS_BENCH_PIPELINE_H

#include "tools/profile.h"

typedef enum td_pipeline_way {
    TD_WAY_SINGLE, /* both roles on the model device */
    TD_WAY_SERIAL, /* two devices, unoverlapped */
    TD_WAY_TWO,    /* two devices, overlapped */
    TD_WAY_COUNT
} td_pipeline_way;

const char *td_pipeline_way_name(td_pipeline_way way); /* "single_device", "unoverlapped", "two_device" */

typedef struct td_bench_pipeline_result {
    td_profile profiles[TD_WAY_COUNT];
    double median_ms[TD_WAY_COUNT];  /* of a step */
    double watched_ms, unwatched_ms; /* the same of steps on one device, with and without the monitor, ten of
                                      * each in turn; 0 with fewer than 30 steps */
} td_bench_pipeline_result;

/* Two different devices in the roles; else TD_ERR_CONFIG. *out: td_bench_pipeline_free(), also after a
 * failure. */
td_status td_bench_pipeline_run(td_registry *registry, const td_roles *roles,
                                const td_train_settings *settings, uint64_t steps,
                                td_bench_pipeline_result *out);
void td_bench_pipeline_free(td_bench_pipeline_result *result);

#endif
