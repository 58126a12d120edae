/* The clblast provider: device/opencl/cl_clblast.h with a product's numbers. Never chosen by default, since a
 * measurement has to speak for it (tuner.h). Covered by tests/ops/cases_gemm.c. */
#include "device/opencl/cl_clblast.h"

#include "linalg/gemm_internal.h"

static td_cl_clblast_gemm gemm_of(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    return (td_cl_clblast_gemm){
        TD_GEMM_SIZES(d),
        .a_transposed = d->layout == TD_GEMM_TN,
        .b_transposed = d->layout == TD_GEMM_NT,
        .lda = d->lda,
        .ldb = d->ldb,
    };
}

const char *td_gemm_refuse_clblast(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    if (d->b_format) return td_gemm_refuse_half(problem);
    if (d->lda < (d->layout == TD_GEMM_TN ? d->m : d->k)) return "the rows of A overlap";
    return td_cl_clblast_refuse(problem->device);
}

uint64_t td_gemm_clblast_workspace(const td_gemm_problem *problem)
{
    const td_cl_clblast_gemm gemm = gemm_of(problem);
    return td_gemm_align(problem, td_cl_clblast_workspace(problem->device, &gemm));
}

td_status td_gemm_record_clblast(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant)
{
    const td_cl_clblast_gemm gemm = gemm_of(problem);
    const uint64_t bytes = td_cl_clblast_workspace(problem->device, &gemm);
    const td_gemm_desc *d = &problem->desc;
    const td_span scratch = bytes ? td_span_part(d->workspace, 0, bytes) : (td_span){0};
    (void)variant;
    return td_cl_clblast_record(list, &gemm, d->a, d->b, d->c, scratch, td_gemm_cost(problem));
}
