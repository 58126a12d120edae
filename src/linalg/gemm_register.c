/* The register provider: packs what does not lie well, then runs a register tile over it
 * (kernels/gemm_pack.kh and gemm_register.kh). For CPU drivers, where a work-item with wide vectors is the
 * whole machine of a core.
 *
 * B is packed once per product. A, often the largest operand, is not: in nn and nt each row of a tile is one
 * stream, and in tn a work-item packs what it needs for itself. Covered by tests/ops/cases_gemm.c. */
#include "linalg/gemm_internal.h"

#define K_BLOCK 1024u             /* terms between two visits to C */
#define ROW_TILES 8u              /* rows of a work-item, in tiles */
#define COLUMN_TILES 4u           /* its columns, in tiles */
#define ITEMS_PER_CORE 16u        /* at least, so that cores finish together */
#define OWN_ITEMS_PER_CORE 8u     /* the same where each packs A again */
#define ITEM_FLOPS_LEAST 200000.0 /* about 3 us */

static uint32_t tile_rows(const td_gemm_problem *problem)
{
    return TD_GEMM_TILE_ROWS(problem->vector);
}

static uint32_t tile_columns(const td_gemm_problem *problem)
{
    return TD_GEMM_TILE_VECTORS * problem->vector;
}

/* Elements of one matrix B in panels. */
static uint64_t panel_elements(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    return (uint64_t)td_divide_up(d->n, tile_columns(problem)) * d->k * tile_columns(problem);
}

static uint64_t panel_bytes(const td_gemm_problem *problem)
{
    return sizeof(float) * panel_elements(problem) * (problem->desc.stride_b ? problem->desc.batch : 1);
}

uint64_t td_gemm_register_workspace(const td_gemm_problem *problem)
{
    return td_gemm_align(problem, panel_bytes(problem));
}

static const char *refuse_panels(const td_gemm_problem *problem)
{
    const uint64_t bytes = panel_bytes(problem);
    return bytes > problem->info->caps.max_binding_bytes || bytes >= sizeof(float) << 31
               ? "its packed operand passes the largest range the device can bind"
               : NULL;
}

const char *td_gemm_refuse_rows(const td_gemm_problem *problem)
{
    return problem->desc.layout == TD_GEMM_TN ? "A does not lie in rows" : refuse_panels(problem);
}

const char *td_gemm_refuse_columns(const td_gemm_problem *problem)
{
    return problem->desc.layout != TD_GEMM_TN ? "A does not lie in columns" : refuse_panels(problem);
}

const char *td_gemm_refuse_direct(const td_gemm_problem *problem)
{
    return problem->desc.layout == TD_GEMM_NT ? "B does not lie in rows" : td_gemm_refuse_half(problem);
}

static td_status record_pack(td_list *list, const td_gemm_problem *problem, td_span panels)
{
    const td_gemm_desc *d = &problem->desc;
    static const td_kernel_id KERNELS[2][2] = {{TD_K_gemm_pack_along, TD_K_gemm_pack_along_half},
                                               {TD_K_gemm_pack_across, TD_K_gemm_pack_across_half}};
    const td_kernel_id kernel = KERNELS[d->layout == TD_GEMM_NT][d->b_format != TD_FORMAT_FP32];
    const td_gemm_pack_params params = {
        .n = d->n,
        .k = d->k,
        .ld = d->ldb,
        .stride_x = d->stride_b,
        .stride_y = (uint32_t)(panel_elements(problem) / problem->vector),
        .batch = d->stride_b ? d->batch : 1,
        .format = d->b_format,
    };
    const uint32_t n_panels = td_divide_up(d->n, tile_columns(problem));
    const uint64_t items = (uint64_t)params.batch * td_divide_up(d->k, TD_GEMM_PACK_DEPTH) *
                           td_divide_up(n_panels, TD_GEMM_PACK_PANELS);
    const td_span spans[] = {d->b, panels};
    return td_list_dispatch(list, kernel, spans, &params, td_gemm_grid(problem, kernel, items),
                            (td_cost){.bytes = 2.0 * (double)panel_bytes(problem)});
}

/* Halves the blocks, columns first, until there are enough for all cores or they are too small to be worth
 * it. */
static void cut_blocks(const td_gemm_problem *problem, bool packs_a, uint32_t *row_block,
                       uint32_t *column_block)
{
    const td_gemm_desc *d = &problem->desc;
    const uint32_t cores = problem->info->caps.compute_units ? problem->info->caps.compute_units : 1;
    const uint32_t rows = td_divide_up(d->m, tile_rows(problem));
    const uint32_t columns = td_divide_up(d->n, tile_columns(problem));
    /* Without vectors items are many and slow, and lavapipe ends their loops after 65,535 iterations. */
    const bool is_wide = problem->vector > 1;
    const uint32_t most_across = !is_wide ? 1 : packs_a ? TD_GEMM_OWN_COLUMN_TILES : COLUMN_TILES;
    const uint32_t most_down = is_wide ? ROW_TILES : 1;
    const uint32_t least_items = cores * (packs_a ? OWN_ITEMS_PER_CORE : ITEMS_PER_CORE);
    uint32_t down = most_down < rows ? most_down : rows;
    uint32_t across = most_across < columns ? most_across : columns;
    for (;;) {
        const double items =
            (double)problem->splits * d->batch * td_divide_up(rows, down) * td_divide_up(columns, across);
        const double item_flops =
            2.0 * down * tile_rows(problem) * across * tile_columns(problem) * (double)problem->k_part;
        if (items >= least_items || item_flops < 2 * ITEM_FLOPS_LEAST || (down == 1 && across == 1)) break;
        if (across > 1 && across >= (packs_a ? 2 * down : down / 2))
            across = (across + 1) / 2;
        else
            down = (down + 1) / 2;
    }
    /* Even shares rather than a small rest. */
    down = td_divide_up(rows, td_divide_up(rows, down));
    across = td_divide_up(columns, td_divide_up(columns, across));
    *row_block = down * tile_rows(problem);
    *column_block = across * tile_columns(problem);
}

static td_gemm_register_params make_params(const td_gemm_problem *problem, bool packs_a)
{
    const td_gemm_desc *d = &problem->desc;
    td_gemm_register_params params = {
        TD_GEMM_SIZES(d),
        TD_GEMM_SPLIT(problem),
        TD_GEMM_EPILOGUE(d),
        .lda = d->layout == TD_GEMM_TN ? 1 : d->lda,
        .a_step = d->layout == TD_GEMM_TN ? d->lda : 1,
        .ldb = d->ldb,
        .k_block = packs_a ? TD_GEMM_OWN_DEPTH : K_BLOCK,
    };
    cut_blocks(problem, packs_a, &params.row_block, &params.column_block);
    return params;
}

td_status td_gemm_record_register(td_list *list, const td_gemm_problem *problem, td_gemm_variant variant)
{
    static const td_kernel_id KERNELS[] = {
        [TD_GEMM_V_REGISTER_ROWS] = TD_K_gemm_register_rows,
        [TD_GEMM_V_REGISTER_COLUMNS] = TD_K_gemm_register_columns,
        [TD_GEMM_V_REGISTER_DIRECT] = TD_K_gemm_register_direct,
    };
    const td_gemm_desc *d = &problem->desc;
    td_gemm_register_params params = make_params(problem, variant == TD_GEMM_V_REGISTER_COLUMNS);
    td_span b = d->b;
    if (variant != TD_GEMM_V_REGISTER_DIRECT) {
        b = td_span_part(d->workspace, 0, panel_bytes(problem));
        TD_CHECK(record_pack(list, problem, b));
        /* B is now read in vectors. */
        params.stride_b = d->stride_b ? (uint32_t)(panel_elements(problem) / problem->vector) : 0;
    }
    const td_span spans[] = {
        d->a, b, d->c, td_gemm_or(d->bias, d->a), td_gemm_or(d->residual, d->a), td_gemm_or(d->pre, d->c)};
    const uint64_t items = (uint64_t)d->batch * problem->splits * td_divide_up(d->m, params.row_block) *
                           td_divide_up(d->n, params.column_block);
    return td_list_dispatch(list, KERNELS[variant], spans, &params,
                            td_gemm_grid(problem, KERNELS[variant], items), td_gemm_cost(problem));
}
