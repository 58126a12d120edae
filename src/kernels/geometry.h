/* How work is cut up: the numbers that host (grid.c) and kernels must agree on.
 *
 * Preprocessor lines only, because C, OpenCL C and GLSL all read this file.
 * CL/GLSL is the dialect, CPU/GPU the class of device (docs/kernels.md).
 */
#ifndef TD_KERNELS_GEOMETRY_H
#define TD_KERNELS_GEOMETRY_H

/* Work-items per group in class CPU. An OpenCL driver wants one item with wide
 * vectors; lavapipe runs eight invocations as one SIMD vector. In class GPU
 * each row of ops.def has its own. */
#define TD_GROUP_SIZE_CL_CPU 1u
#define TD_GROUP_SIZE_GLSL_CPU 8u

/* Elements one group walks in an element-wise kernel: on a CPU enough to hide
 * the cost of starting a group, on a GPU few, so that small tensors still fill
 * it. */
#define TD_BLOCK_CPU 4096u
#define TD_BLOCK_GPU 512u

/* Tile of C that one group of `matmul` makes. */
#define TD_MATMUL_ROWS_CPU 8u
#define TD_MATMUL_COLUMNS_CPU 64u
#define TD_MATMUL_ROWS_GPU 16u
#define TD_MATMUL_COLUMNS_GPU 16u

/* What a launch of `trial` makes. */
#define TD_TRIAL_ADD 0u
#define TD_TRIAL_RANDOM 1u
#define TD_TRIAL_PRODUCT 2u
#define TD_TRIAL_SUM 3u

/* Most partial sums the first launch of `reduce_sum` leaves to the second. */
#define TD_REDUCE_MAX_BLOCKS 1024u

#endif
