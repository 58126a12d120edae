/* `tandem bench vocoder`: how fast the part of a family that makes samples works, with random weights, and how long
 * the first samples of a stream take. From features in host memory to samples in host memory. Prints nothing
 * (src/cli/cmd_bench_vocoder.c does). Covered by tests/cli/test_bench_vocoder.py; beside PyTorch by
 * tests/peers/hifigan.py.
 */
#ifndef TD_TOOLS_BENCH_VOCODER_H
#define TD_TOOLS_BENCH_VOCODER_H

#include <stdio.h>

#include "base/stats.h"
#include "families/family.h"
#include "graph/plan.h"
#include "tandem/device.h"

typedef struct td_bench_vocoder_options {
    const td_family *family;
    const char *preset;
    double seconds;  /* of sound */
    uint32_t rounds; /* the median counts */
    FILE *explain;   /* the plan as a table, with measured times of its nodes; NULL: not wanted */
} td_bench_vocoder_options;

typedef struct td_bench_vocoder_result {
    uint64_t parameters;
    uint32_t frames, rate;
    double seconds;        /* of sound, as frames have it */
    td_stats ms;           /* of all */
    double first_audio_ms; /* of what a stream begins with, the median */
    double realtime_factor, gflops;
    td_plan_stats plan;
} td_bench_vocoder_result;

td_status td_bench_vocoder_run(td_registry *registry, const td_device_info *info,
                               const td_bench_vocoder_options *options, td_bench_vocoder_result *out);

#endif
