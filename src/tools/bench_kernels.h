/* `tandem bench kernels`: the speed of every op at one size of a training step, turn by turn with a plain
 * copy of the same traffic, or for ops bound by arithmetic with a large matrix product. Prints nothing
 * (src/cli/cmd_bench_kernels.c does). Covered by tests/cli/test_cli.py. */
#ifndef TD_TOOLS_BENCH_KERNELS_H
#define TD_TOOLS_BENCH_KERNELS_H

#include "tandem/device.h"

typedef struct td_bench_kernels_options {
    const char *ops; /* shell pattern of the names wanted; NULL: all. Borrowed during the call. */
    uint32_t rounds; /* runs in turns; the median counts */
    bool cached;     /* every launch on the same buffers, which caches then hold as far as they can */
} td_bench_kernels_options;

typedef struct td_bench_kernels_row {
    const char *op; /* borrowed forever */
    char shape[64];
    double ms, spread; /* of one launch: median, and half the distance of the quartiles as a share of it */
    double least_ms;   /* of the fastest run: what counts on a computer that has other work */
    double gbps;       /* least traffic the op can do with / time; 0 for ops compared with a product */
    double gflops;     /* 0 for ops compared with a copy */
    double share;      /* of the speed of `of`, "copy" or "gemm" */
    const char *of;
} td_bench_kernels_row;

/* Called after each row, which is borrowed until it returns. */
typedef void (*td_bench_kernels_report)(void *context, const td_bench_kernels_row *row);

/* TD_ERR_CONFIG where no op has a name as wanted, TD_ERR_UNSUPPORTED for the simulated device. */
td_status td_bench_kernels_run(td_registry *registry, const td_device_info *info,
                               const td_bench_kernels_options *options, td_bench_kernels_report report,
                               void *context);

#endif
