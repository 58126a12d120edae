/* The tile provider: kernels/gemm_tile.kh with the tile and layout of each row of ops/gemm.def. For GPUs,
 * under both APIs. Covered by tests/ops/cases_gemm.c. */
#include "linalg/gemm_internal.h"

typedef struct tile {
    uint32_t rows, columns;
    td_kernel_id kernels[TD_GEMM_LAYOUT_COUNT];
    td_kernel_id half[TD_GEMM_TN]; /* B is; nn and nt */
} tile;

#define KERNELS(name)                                                                                        \
    {                                                                                                        \
        TD_K_gemm_tile_##name##_nn, TD_K_gemm_tile_##name##_nt, TD_K_gemm_tile_##name##_tn                   \
    }

#define HALF_KERNELS(name)                                                                                   \
    {                                                                                                        \
        TD_K_gemm_tile_##name##_nn_half, TD_K_gemm_tile_##name##_nt_half                                     \
    }

static const tile TILES[TD_GEMM_V_COUNT] = {
    [TD_GEMM_V_TILE_64X64] = {64, 64, KERNELS(64x64), HALF_KERNELS(64x64)},
    [TD_GEMM_V_TILE_128X64] = {128, 64, KERNELS(128x64), HALF_KERNELS(128x64)},
    [TD_GEMM_V_TILE_128X128] = {128, 128, KERNELS(128x128), {0}},
    [TD_GEMM_V_TILE_ANY] = {64, 64, KERNELS(any), HALF_KERNELS(any)},
};

/* Buffers of four floats: whatever lies along a row, and every start of a row, must be a multiple of four. */
const char *td_gemm_refuse_vec4(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    const uint32_t along_a = d->layout == TD_GEMM_TN ? d->m : d->k;
    const uint32_t along_b = d->layout == TD_GEMM_NT ? d->k : d->n;
    const uint32_t all =
        along_a | along_b | d->n | d->lda | d->ldb | d->ldc | d->stride_a | d->stride_b | d->stride_c;
    return all % 4 ? "its rows and offsets are not multiples of 4" : NULL;
}

/* Intel's compilers run 8 x 4 sums at half the width and put 8 x 8 into memory (docs/gpu_portability.md). */
const char *td_gemm_refuse_large_tile(const td_gemm_problem *problem)
{
    if (problem->info->vendor_id == 0x8086 && problem->info->type != TD_DEVICE_CPU)
        return "it has too many sums for the registers of an Intel GPU";
    return td_gemm_refuse_vec4(problem);
}

const char *td_gemm_refuse_largest_tile(const td_gemm_problem *problem)
{
    if (problem->desc.b_format) return td_gemm_refuse_half(problem);
    return td_gemm_refuse_large_tile(problem);
}

td_status td_gemm_record_tile(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant)
{
    const td_gemm_desc *d = &problem->desc;
    const tile *shape = &TILES[variant];
    const td_gemm_tile_params params = {
        TD_GEMM_SIZES(d), TD_GEMM_SPLIT(problem), TD_GEMM_EPILOGUE(d),
        .lda = d->lda,    .ldb = d->ldb,          .format = d->b_format,
    };
    const td_span spans[] = {
        d->a, d->b, d->c, td_gemm_or(d->bias, d->a), td_gemm_or(d->residual, d->a), td_gemm_or(d->pre, d->c)};
    const td_kernel_id kernel = (d->b_format ? shape->half : shape->kernels)[d->layout];
    const uint64_t tiles = (uint64_t)d->batch * problem->splits * td_divide_up(d->m, shape->rows) *
                           td_divide_up(d->n, shape->columns);
    const uint64_t elements = (uint64_t)d->batch * problem->splits * d->m * d->n;
    const td_grid grid = problem->kernel_class == TD_CLASS_CPU ? td_gemm_grid(problem, kernel, elements)
                                                               : td_grid_groups(tiles);
    return td_list_dispatch(list, kernel, spans, &params, grid, td_gemm_cost(problem));
}
