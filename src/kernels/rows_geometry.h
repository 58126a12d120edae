/* How work on rows and columns is cut up: the numbers that host (src/ops) and kernels must agree on.
 * Preprocessor lines only, because C, OpenCL C and GLSL all read this file.
 */
#ifndef TD_KERNELS_ROWS_GEOMETRY_H
#define TD_KERNELS_ROWS_GEOMETRY_H

/* Work-items per group of the row kernels in class GPU: the `group` of their rows in ops.def. */
#define TD_ROW_WG_GPU 128u

/* Columns whose partial sums one group adds up (norm_finish). */
#define TD_FINISH_COLUMNS_CPU 64u
#define TD_FINISH_COLUMNS_GPU 128u

/* What channel_merge does besides joining. */
#define TD_MERGE_PLAIN 0u
#define TD_MERGE_RUNNING 1u
#define TD_MERGE_EVAL 2u

/* Elements one group takes in a pass that only reads (sums of losses, of squares), at least. */
#define TD_SUM_BLOCK_CPU 4096u
#define TD_SUM_BLOCK_GPU 1024u

/* Most partial sums the first launch of a sum of squares leaves to the second. */
#define TD_SUM_MAX_BLOCKS 1024u

#endif
