/* How one step of a decoder is cut up: the numbers that ops/decode.c and the decode kernels must agree on. Preprocessor
 * lines only, because C, OpenCL C and GLSL all read this file. */
#ifndef TD_KERNELS_DECODE_GEOMETRY_H
#define TD_KERNELS_DECODE_GEOMETRY_H

/* Weights of the decoder besides those of half_geometry.h: signed bytes, four to a word, the first in the lowest. Each
 * output has a scale. */
#define TD_FORMAT_INT8 3u

/* Terms of a product that one part of `decode_qkv` sums; in class CPU at least, see td_decode_cut_up(). */
#define TD_DECODE_TERMS_CPU 64u
#define TD_DECODE_TERMS_GPU 128u

/* Columns that a group of class GPU makes of `decode_qkv` and of `decode_attend`: four to a work-item. A work-item of
 * class CPU makes all. */
#define TD_DECODE_COLUMNS_GPU 512u

/* Rows of the first matrix that a group of `decode_mlp`, or of the matrix of `decode_head`, goes through; the same. */
#define TD_DECODE_ROWS_CPU 128u
#define TD_DECODE_ROWS_GPU 64u

/* Work-items of class GPU that share a row of these; their sums take the place of the group's row in local memory. */
#define TD_DECODE_TEAM_GPU 16u

/* Rows of the cache that a work-item of class CPU looks at side by side. */
#define TD_DECODE_KEYS_CPU 4u

/* Class GPU keeps a row in local memory. */
#define TD_DECODE_MAX_WIDTH 2048u
#define TD_DECODE_MAX_HEAD 128u

/* Texts of a step at most. */
#define TD_DECODE_MAX_TEXTS 16u

/* Words of what tells a step where each text is. */
#define TD_DECODE_CODE 0u     /* the last code, */
#define TD_DECODE_POSITION 1u /* its position, */
#define TD_DECODE_ROW 2u      /* its row of the cache, */
#define TD_DECODE_SLOT 3u     /* and which cache that is */
#define TD_DECODE_WORDS 4u

#endif
