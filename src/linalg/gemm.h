/* Matrix products: one call for every layout, batch, epilogue and device.
 *
 *   nn  A [m,k]  B [k,n]      nt  A [m,k]  B [n,k]      tn  A [k,m]  B [k,n]      C [m,n], all row-major fp32
 *   v = A B + bias (+ C where `accumulate`);  pre = v;  C = activation(v) + residual
 *
 * B of nn and nt may be 16-bit (bf16 or fp16), two elements to a word; it is converted when it is read, and
 * everything else is fp32.
 *
 * Which kernels make the product is decided per device and shape: by what `tandem tune` measured and stored,
 * else by a table of defaults (tuning.h). The same list on the same device gives the same bits each time.
 * Nothing is allocated when a list runs: scratch is the caller's, td_gemm_workspace() tells how much. Covered
 * by tests/ops/cases_gemm.c and tests/unit/test_tuning.c.
 */
#ifndef TD_LINALG_GEMM_H
#define TD_LINALG_GEMM_H

#include "kernels/gemm_geometry.h"
#include "kernels/half_geometry.h"
#include "tandem/queue.h"

typedef enum td_gemm_layout { TD_GEMM_NN, TD_GEMM_NT, TD_GEMM_TN, TD_GEMM_LAYOUT_COUNT } td_gemm_layout;

/* Who makes it. AUTO decides as above; the others are for measuring and for tests. */
typedef enum td_gemm_provider {
    TD_GEMM_AUTO,
    TD_GEMM_REGISTER, /* register tiles over packed panels: CPU drivers */
    TD_GEMM_TILE,     /* tiles in local memory: GPUs */
    TD_GEMM_GEMV,     /* m up to 4 */
    TD_GEMM_CLBLAST,  /* the CLBlast library, where it is installed, on OpenCL devices */
    TD_GEMM_PLAIN,    /* one element at a time: what the others are checked against */
    TD_GEMM_PROVIDER_COUNT
} td_gemm_provider;

/* Zero fields mean: rows are contiguous (ld*), one matrix (batch), not used (bias, pre, residual). A, B and
 * C of a batch are stride_* elements apart; stride_a or stride_b 0: the same matrix for all. pre and residual
 * are laid out as C. Rows of A may overlap (windows of a convolution), and matrices C may lie side by side in the
 * same rows. No operand may overlap C or pre; each span must start where the device lets a binding start. */
typedef struct td_gemm_desc {
    td_gemm_layout layout;
    td_gemm_provider provider;
    uint32_t m, n, k; /* >= 1 */
    uint32_t lda, ldb, ldc;
    uint32_t batch;
    uint32_t stride_a, stride_b, stride_c;
    uint32_t b_format; /* TD_FORMAT_FP32, or TD_FORMAT_BF16 ... (not with tn) */
    bool accumulate;
    uint32_t activation; /* TD_GEMM_LINEAR, TD_GEMM_RELU ... of gemm_geometry.h */
    td_span a, b, c;
    td_span bias; /* n elements */
    td_span pre, residual;
    td_span workspace; /* at least td_gemm_workspace() bytes; may be shared by products of one list */
} td_gemm_desc;

/* Records the product. */
td_status td_gemm(td_list *list, const td_gemm_desc *desc);

/* Bytes of workspace that td_gemm() will want for this product on this device; spans of `desc` are not looked
 * at. Fails as td_gemm() would for a wrong shape. */
td_status td_gemm_workspace(const td_gemm_desc *desc, td_device *device, uint64_t *bytes);

/* Elements from the first to the last of each operand, the last included: what its span must hold. */
typedef struct td_gemm_extent {
    uint64_t a, b, c;
} td_gemm_extent;
td_gemm_extent td_gemm_extents(const td_gemm_desc *desc);

/* "register" ... and "nn" ...; the first also of TD_GEMM_AUTO ("auto"). Cannot fail. */
const char *td_gemm_provider_name(td_gemm_provider provider);
const char *td_gemm_layout_name(td_gemm_layout layout);

#endif
