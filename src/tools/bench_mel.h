/* `tandem bench mel`: how fast clips in host memory become log-mel spectrograms in device memory, and how far
 * those are from a transform in double. Prints nothing (src/cli/cmd_bench_mel.c does). Covered by
 * tests/cli/test_cli.py. */
#ifndef TD_TOOLS_BENCH_MEL_H
#define TD_TOOLS_BENCH_MEL_H

#include "audio/mel_config.h"
#include "tandem/device.h"

typedef struct td_bench_mel_options {
    uint32_t clips;
    double seconds;  /* of each clip */
    uint32_t rounds; /* the median counts */
    td_mel_config config;
} td_bench_mel_options;

typedef struct td_bench_mel_result {
    double realtime_factor, spread; /* seconds of audio per second; half the distance of the quartiles */
    double ms;                      /* of one batch, upload included: the median */
    double max_abs_err;             /* in ln units, of frames sampled all over the batch */
    double griffin_lim_factor;      /* seconds of audio made per second, from mel in device memory */
} td_bench_mel_result;

td_status td_bench_mel_run(td_registry *registry, const td_device_info *info,
                           const td_bench_mel_options *options, td_bench_mel_result *out);

#endif
