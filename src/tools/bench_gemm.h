/* `tandem bench gemm`: speed and error of matrix products on a device, packing and copies included, and
 * beside OpenBLAS on the same cores if asked. Prints nothing (src/cli/cmd_bench_gemm.c does). Covered by
 * tests/cli/test_cli.py. */
#ifndef TD_TOOLS_BENCH_GEMM_H
#define TD_TOOLS_BENCH_GEMM_H

#include "tools/gemm_shapes.h"

typedef struct td_bench_gemm_options {
    const td_gemm_shape *shapes;
    size_t n_shapes;
    bool layouts[TD_GEMM_LAYOUT_COUNT];
    td_gemm_provider provider;
    bool against_openblas;
    uint32_t rounds; /* runs in turns; the median counts */
} td_bench_gemm_options;

typedef struct td_bench_gemm_row {
    td_gemm_shape shape;
    td_gemm_layout layout;
    const char *provider; /* who made it; borrowed forever */
    const char *variant;
    double gflops, spread;  /* median, and half the distance of the quartiles as a share of it */
    double max_rel_err;     /* largest error of sampled elements, as a share of the largest of them */
    double openblas_gflops; /* 0: not asked for */
    char openblas_core[32]; /* the best one */
    double ratio;           /* gflops / openblas_gflops */
} td_bench_gemm_row;

/* Called after each row, which is borrowed until it returns. */
typedef void (*td_bench_gemm_report)(void *context, const td_bench_gemm_row *row);

td_status td_bench_gemm_run(td_registry *registry, const td_device_info *info,
                            const td_bench_gemm_options *options, td_bench_gemm_report report, void *context);

#endif
