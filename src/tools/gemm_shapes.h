/* Lists of matrix products as users type them: "MxNxK", or "BxMxNxK" for a batch of B, separated by commas.
 * Covered by tests/unit/test_tuning.c. */
#ifndef TD_TOOLS_GEMM_SHAPES_H
#define TD_TOOLS_GEMM_SHAPES_H

#include "linalg/gemm.h"

typedef struct td_gemm_shape {
    uint32_t batch, m, n, k;
} td_gemm_shape;

/* *out: owned, free(); *count of them. TD_ERR_CONFIG names the piece that is not a shape. */
td_status td_gemm_shapes_parse(const char *text, td_gemm_shape **out, size_t *count);

/* A product of that shape with rows and matrices tight; operands are not set. */
td_gemm_desc td_gemm_shape_desc(const td_gemm_shape *shape, td_gemm_layout layout);

#endif
