/* Host cost of submitting recorded work: a list of small kernels replayed many times, beside a bare loop of
 * the driver's own enqueue call doing the same in the same run. Prints nothing (src/cli/cmd_bench.c does).
 */
#ifndef TD_TOOLS_BENCH_SUBMIT_H
#define TD_TOOLS_BENCH_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "tandem/device.h"

typedef struct td_bench_submit_result {
    char device[256];
    uint32_t kernels, replays;
    double list_us_per_kernel, bare_us_per_kernel; /* medians */
    double ratio;                                  /* list / bare */
    double list_spread, bare_spread;               /* as a share of the median */
    bool has_bare;                                 /* the bare loop exists for this device's API */
} td_bench_submit_result;

td_status td_bench_submit_run(td_registry *registry, const td_device_info *device, uint32_t kernels,
                              uint32_t replays, td_bench_submit_result *out);

#endif
