/* How matrix products are cut up: the numbers that linalg/ and the gemm kernels must agree on, and the names
 * of activations. Preprocessor lines only, because C, OpenCL C and GLSL all read this file. */
#ifndef TD_KERNELS_GEMM_GEOMETRY_H
#define TD_KERNELS_GEMM_GEOMETRY_H

/* The register tile: rows by vector width, and vectors side by side. With AVX2 (width 8) 6 x 2 sums, 2 of B
 * and one of A fill 15 of 16 registers; with AVX-512 (width 16) 12 x 2 leave room to fold loads. */
#define TD_GEMM_TILE_ROWS(width) ((width) == 16u ? 12u : (width) == 8u ? 6u : 4u)
#define TD_GEMM_TILE_VECTORS 2u

/* Panels of A that a work-item of class CPU packs for itself: so many tiles of rows, so many terms; and the
 * tiles of columns, at most, that it uses them for. */
#define TD_GEMM_OWN_TILES 8u
#define TD_GEMM_OWN_DEPTH 512u
#define TD_GEMM_OWN_COLUMN_TILES 64u

/* What a work-item of `gemm_pack` moves: so many steps of k for so many panels. */
#define TD_GEMM_PACK_DEPTH 64u
#define TD_GEMM_PACK_PANELS 16u

/* Vectors along a row of C that a work-item of `gemm_finish` takes: many where they are wide, for finding the
 * row costs more than a vector does. */
#define TD_GEMM_FINISH_VECTORS(width) ((width) > 1u ? 64u : 1u)

/* gemv: columns of C that a work-item of class CPU takes, in vectors, and rows of B that it reads side by
 * side. */
#define TD_GEMV_VECTORS 32u
#define TD_GEMV_ROWS 4u

/* activation of the finish */
#define TD_GEMM_LINEAR 0u
#define TD_GEMM_RELU 1u
#define TD_GEMM_GELU_TANH 2u
#define TD_GEMM_GELU_ERF 3u
#define TD_GEMM_SILU 4u
#define TD_GEMM_TANH 5u
#define TD_GEMM_SIGMOID 6u

#endif
