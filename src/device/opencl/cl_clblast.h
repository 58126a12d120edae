/* The CLBlast library as a provider of matrix products on OpenCL devices, opened at run time where it is
 * installed. No OpenCL types here, so that linalg needs none. Covered by tests/ops/cases_gemm.c. */
#ifndef TD_OPENCL_CL_CLBLAST_H
#define TD_OPENCL_CL_CLBLAST_H

#include "device/dispatch.h"

/* C = A B (+ C), row-major, as linalg/gemm.h has it; `a_transposed`: A is [k,m], `b_transposed`: B is [n,k].
 */
typedef struct td_cl_clblast_gemm {
    uint32_t a_transposed, b_transposed, accumulate;
    uint32_t m, n, k;
    uint32_t lda, ldb, ldc;
    uint32_t batch, stride_a, stride_b, stride_c;
} td_cl_clblast_gemm;

/* NULL if the device can use it, else why not. The library is opened by the first call for a device. */
const char *td_cl_clblast_refuse(td_device *device);

/* Bytes of scratch that CLBlast wants for this product; 0 also where it refuses to tell. Only where not
 * refused. */
uint64_t td_cl_clblast_workspace(td_device *device, const td_cl_clblast_gemm *gemm);

/* Records the product. The first replay may take seconds: CLBlast builds its kernels then. `workspace` may be
 * empty. */
td_status td_cl_clblast_record(td_list *list, const td_cl_clblast_gemm *gemm, td_span a, td_span b, td_span c,
                               td_span workspace, td_cost cost);

#endif
