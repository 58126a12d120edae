/* How attention is cut up: the numbers that host (ops/attention.c) and kernels must agree on.
 *
 * Preprocessor lines only, because C, OpenCL C and GLSL all read this file.
 */
#ifndef TD_KERNELS_ATTENTION_GEOMETRY_H
#define TD_KERNELS_ATTENTION_GEOMETRY_H

/* Queries of one head (keys, for the gradients of keys and values) that one group owns, or, in class CPU, so
 * many vectors of them that one work-item does: what it keeps of them then fits the nearest cache. */
#define TD_ATTENTION_VECTORS_CPU 3u
#define TD_ATTENTION_BLOCK_GPU 32u

/* (query, head) pairs of one group of `attention_stats`. */
#define TD_ATTENTION_PAIRS_CPU 256u
#define TD_ATTENTION_PAIRS_GPU 64u

/* The elements at which k and v start in their buffers, both below 2^16, as one parameter: with two, Intel's compiler
 * runs out of registers and halves its vectors. */
#define TD_ATTENTION_KV_FIRST(k, v) ((k) | (v) << 16)
#define TD_ATTENTION_K_FIRST(both) ((both)&0xffffu)
#define TD_ATTENTION_V_FIRST(both) ((both) >> 16)

#endif
