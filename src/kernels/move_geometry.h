/* How moving kernels cut up their work: the numbers that host (src/ops/move.c) and kernels must agree on.
 * Preprocessor lines only, because C, OpenCL C and GLSL all read this file.
 */
#ifndef TD_KERNELS_MOVE_GEOMETRY_H
#define TD_KERNELS_MOVE_GEOMETRY_H

/* Rows and columns that one group of `transpose` handles: on a CPU both sides should fit its first cache. */
#define TD_TRANSPOSE_ROWS_CPU 64u
#define TD_TRANSPOSE_COLUMNS_CPU 64u
#define TD_TRANSPOSE_ROWS_GPU 32u
#define TD_TRANSPOSE_COLUMNS_GPU 32u

/* Elements of the result, about, that one group of gather_rows and scatter_rows makes. */
#define TD_ROWS_BLOCK_CPU 4096u
#define TD_ROWS_BLOCK_GPU 512u

/* Rows one group of rank_rows ranks. */
#define TD_RANK_ROWS_CPU 32u
#define TD_RANK_ROWS_GPU 128u

#endif
