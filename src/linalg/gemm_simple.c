/* The small kernels of a matrix product: plain, gemv for a few rows (decoding), and the finish, which sums
 * the parts of a split k and does what a variant without an epilogue leaves. Covered by
 * tests/ops/cases_gemm.c. */
#include "linalg/gemm_internal.h"

#define GEMV_ROWS_MOST 4u
#define GEMV_SCALAR_TERMS 4096u /* lavapipe ends all loops of a work-item after 65,535 iterations together */

td_status td_gemm_record_plain(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant)
{
    const td_gemm_desc *d = &problem->desc;
    const td_gemm_plain_params params = {
        TD_GEMM_SIZES(d),
        .a_row = d->layout == TD_GEMM_TN ? 1 : d->lda,
        .a_step = d->layout == TD_GEMM_TN ? d->lda : 1,
        .b_step = d->layout == TD_GEMM_NT ? 1 : d->ldb,
        .b_column = d->layout == TD_GEMM_NT ? d->ldb : 1,
    };
    const td_span spans[] = {d->a, d->b, d->c};
    (void)variant;
    return td_list_dispatch(list, TD_K_gemm_plain, spans, &params,
                            td_gemm_grid(problem, TD_K_gemm_plain, (uint64_t)d->batch * d->m * d->n),
                            td_gemm_cost(problem));
}

/* ---------------------------------------------------------------- gemv */

const char *td_gemm_refuse_gemv(const td_gemm_problem *problem)
{
    if (problem->desc.b_format) return td_gemm_refuse_half(problem);
    if (problem->desc.m > GEMV_ROWS_MOST) return "it has more than 4 rows";
    if (problem->splits > 1 && problem->desc.layout == TD_GEMM_NT) return "k lies along the rows of B";
    if (problem->kernel_class == TD_CLASS_CPU && problem->vector == 1 && problem->desc.k > GEMV_SCALAR_TERMS)
        return "k is too long for this driver's loops";
    return NULL;
}

static td_status record_columns(td_list *list, const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    const td_gemv_columns_params params = {
        TD_GEMM_SIZES(d),
        TD_GEMM_SPLIT(problem),
        .a_row = d->layout == TD_GEMM_TN ? 1 : d->lda,
        .a_step = d->layout == TD_GEMM_TN ? d->lda : 1,
        .ldb = d->ldb,
    };
    const td_kernel_id kernel = d->m == 1 ? TD_K_gemv_columns_1 : TD_K_gemv_columns_4;
    const td_span spans[] = {d->a, d->b, d->c};
    const uint32_t block = problem->kernel_class == TD_CLASS_CPU
                               ? TD_GEMV_VECTORS * problem->vector
                               : td_device_group_size(problem->device, kernel);
    const uint64_t blocks = (uint64_t)d->batch * problem->splits * td_divide_up(d->n, block);
    const td_grid grid = problem->kernel_class == TD_CLASS_CPU ? td_gemm_grid(problem, kernel, blocks)
                                                               : td_grid_groups(blocks);
    return td_list_dispatch(list, kernel, spans, &params, grid, td_gemm_cost(problem));
}

static td_status record_rows(td_list *list, const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    const td_gemv_rows_params params = {TD_GEMM_SIZES(d), .lda = d->lda, .ldb = d->ldb};
    const td_kernel_id kernel = d->m == 1 ? TD_K_gemv_rows_1 : TD_K_gemv_rows_4;
    const td_span spans[] = {d->a, d->b, d->c};
    const td_grid grid =
        problem->kernel_class == TD_CLASS_CPU
            ? td_gemm_grid(problem, kernel, (uint64_t)d->batch * td_divide_up(d->n, TD_GEMV_ROWS))
            : td_grid_groups((uint64_t)d->batch * d->n);
    return td_list_dispatch(list, kernel, spans, &params, grid, td_gemm_cost(problem));
}

td_status td_gemm_record_gemv(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant)
{
    (void)variant;
    return problem->desc.layout == TD_GEMM_NT ? record_rows(list, problem) : record_columns(list, problem);
}

/* ---------------------------------------------------------------- finish */

td_status td_gemm_record_finish(td_list *list, const td_gemm_problem *whole, const td_gemm_problem *parts)
{
    const td_gemm_desc *d = &whole->desc;
    const td_gemm_finish_params params = {
        .m = d->m,
        .n = d->n,
        .ldc = d->ldc,
        .stride_c = d->stride_c,
        .ld_part = parts->desc.ldc,
        .stride_part = parts->desc.stride_c,
        .stride_split = parts->stride_split,
        .batch = d->batch,
        .splits = parts->splits,
        .accumulate = parts->splits > 1 && d->accumulate, /* else the variant has added C already */
        TD_GEMM_EPILOGUE(d),
    };
    const td_span spans[] = {parts->desc.c, d->c, td_gemm_or(d->bias, parts->desc.c),
                             td_gemm_or(d->residual, parts->desc.c), td_gemm_or(d->pre, d->c)};
    const uint32_t pieces = td_divide_up(d->n, TD_GEMM_FINISH_VECTORS(whole->vector) * whole->vector);
    const double elements = (double)d->batch * d->m * d->n;
    return td_list_dispatch(list, TD_K_gemm_finish, spans, &params,
                            td_gemm_grid(whole, TD_K_gemm_finish, (uint64_t)d->batch * d->m * pieces),
                            (td_cost){.bytes = sizeof(float) * elements * (parts->splits + 1.0)});
}
