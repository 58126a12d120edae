/* How reductions cut up their work: the numbers that host (src/ops/reduce.c) and kernels must agree on.
 * Preprocessor lines only, because C, OpenCL C and GLSL all read this file.
 */
#ifndef TD_KERNELS_REDUCE_GEOMETRY_H
#define TD_KERNELS_REDUCE_GEOMETRY_H

/* Columns one group of column_sum and column_max takes: on a CPU long pieces of rows, for memory to run
 * ahead, whose sums still fit the first cache. */
#define TD_COLUMN_TILE_CPU 2048u
#define TD_COLUMN_TILE_GPU 128u

#endif
