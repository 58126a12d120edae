/* Launches of layer and RMS norm and of softmax; see norm.h. Batch and group norm are in channel_norm.c.
 * Covered by tests/ops/cases_norm.c. */
#include "ops/norm.h"

#include "kernels/rows_geometry.h"
#include "ops/norm_internal.h"
#include "ops/rows.h"

/* ---------------------------------------------------------------- forward */

static td_status check_norm(const td_norm_args *a, bool has_residual)
{
    const uint64_t n = (uint64_t)a->rows * a->columns;
    const bool is_layer = a->kind == TD_NORM_LAYER;
    TD_CHECK(td_op_check_size(a->rows, a->columns, 1, "norm"));
    TD_CHECK(td_op_check_span(a->x, n, "norm", "x"));
    TD_CHECK(td_op_check_span(a->gamma, a->columns, "norm", "gamma"));
    TD_CHECK(td_op_check_span(a->y, n, "norm", "y"));
    TD_CHECK(td_op_check_span(a->stats, (is_layer ? 2 : 1) * (uint64_t)a->rows, "norm", "stats"));
    if (is_layer) TD_CHECK(td_op_check_span(a->beta, a->columns, "norm", "beta"));
    if (has_residual) {
        TD_CHECK(td_op_check_span(a->residual, n, "norm", "residual"));
        TD_CHECK(td_op_check_span(a->sum, n, "norm", "sum"));
    }
    return TD_OK;
}

td_status td_op_norm(td_list *list, const td_norm_args *a)
{
    static const td_kernel_id kernels[2][2] = {[TD_NORM_LAYER] = {TD_K_layer_norm, TD_K_layer_norm_residual},
                                               [TD_NORM_RMS] = {TD_K_rms_norm, TD_K_rms_norm_residual}};
    const bool has_residual = td_op_given(a->residual);
    const double n = (double)a->rows * a->columns;
    TD_CHECK(check_norm(a, has_residual));
    const td_rows rows = td_rows_make(td_list_class(list), a->rows, a->columns);
    const td_norm_rows_params params = {
        .rows = a->rows, .columns = a->columns, .block = rows.block, .lanes = rows.lanes, .eps = a->eps};
    const td_span spans[] = {a->x, td_op_or(a->residual, a->x), a->gamma, td_op_or(a->beta, a->gamma),
                             a->y, td_op_or(a->sum, a->y),      a->stats};
    return td_list_dispatch(list, kernels[a->kind][has_residual], spans, &params, rows.grid,
                            (td_cost){.flops = 8 * n, .bytes = (has_residual ? 16 : 8) * n});
}

/* ---------------------------------------------------------------- backward */

static uint32_t count_sets(td_norm_kind kind)
{
    return kind == TD_NORM_LAYER ? 2 : 1;
}

uint64_t td_op_norm_back_partial(td_kernel_class kernel_class, td_norm_kind kind, uint32_t rows,
                                 uint32_t columns)
{
    const uint32_t block = td_rows_make_blocks(kernel_class, rows, columns).block;
    return (uint64_t)td_divide_up(rows, block) * count_sets(kind) * columns;
}

static td_status check_norm_back(td_kernel_class kernel_class, const td_norm_back_args *a, bool has_partial)
{
    const uint64_t n = (uint64_t)a->rows * a->columns;
    const uint64_t n_stats = (uint64_t)count_sets(a->kind) * a->rows;
    TD_CHECK(td_op_check_size(a->rows, a->columns, 1, "norm_back"));
    TD_CHECK(td_op_check_span(a->dy, n, "norm_back", "dy"));
    TD_CHECK(td_op_check_span(a->v, n, "norm_back", "v"));
    TD_CHECK(td_op_check_span(a->gamma, a->columns, "norm_back", "gamma"));
    TD_CHECK(td_op_check_span(a->stats, n_stats, "norm_back", "stats"));
    TD_CHECK(td_op_check_span(a->dx, n, "norm_back", "dx"));
    if (td_op_given(a->extra)) TD_CHECK(td_op_check_span(a->extra, n, "norm_back", "extra"));
    if (has_partial) {
        const uint64_t words = td_op_norm_back_partial(kernel_class, a->kind, a->rows, a->columns);
        TD_CHECK(td_op_check_span(a->dgamma, a->columns, "norm_back", "dgamma"));
        if (a->kind == TD_NORM_LAYER) TD_CHECK(td_op_check_span(a->dbeta, a->columns, "norm_back", "dbeta"));
        TD_CHECK(td_op_check_span(a->partial, words, "norm_back", "partial"));
    }
    return TD_OK;
}

td_status td_op_norm_back(td_list *list, const td_norm_back_args *a)
{
    const td_kernel_class kernel_class = td_list_class(list);
    const td_kernel_id kernel = a->kind == TD_NORM_LAYER ? TD_K_layer_norm_back : TD_K_rms_norm_back;
    const bool has_partial = td_op_given(a->dgamma);
    const bool has_extra = td_op_given(a->extra);
    const double n = (double)a->rows * a->columns;
    TD_CHECK(check_norm_back(kernel_class, a, has_partial));
    const td_rows rows = has_partial ? td_rows_make_blocks(kernel_class, a->rows, a->columns)
                                     : td_rows_make(kernel_class, a->rows, a->columns);
    const td_norm_rows_back_params params = {.rows = a->rows,
                                             .columns = a->columns,
                                             .block = rows.block,
                                             .lanes = rows.lanes,
                                             .has_extra = has_extra,
                                             .has_partial = has_partial};
    const td_span spans[] = {
        a->dy, a->v, a->gamma, a->stats, td_op_or(a->extra, a->dy), a->dx, has_partial ? a->partial : a->dx};
    TD_CHECK(td_list_dispatch(list, kernel, spans, &params, rows.grid,
                              (td_cost){.flops = 14 * n, .bytes = (has_extra ? 16 : 12) * n}));
    if (has_partial) {
        TD_CHECK(td_op_norm_finish(list, td_divide_up(a->rows, rows.block), count_sets(a->kind), a->columns,
                                   a->accumulate, a->partial, a->dgamma, td_op_or(a->dbeta, a->dgamma)));
    }
    return TD_OK;
}

td_status td_op_norm_finish(td_list *list, uint32_t blocks, uint32_t sets, uint32_t columns, bool accumulate,
                            td_span partial, td_span dgamma, td_span dbeta)
{
    const bool is_gpu = td_list_class(list) == TD_CLASS_GPU;
    const uint32_t per_group = is_gpu ? TD_FINISH_COLUMNS_GPU : TD_FINISH_COLUMNS_CPU;
    const td_norm_finish_params params = {
        .blocks = blocks, .sets = sets, .columns = columns, .accumulate = accumulate};
    const td_span spans[] = {partial, dgamma, dbeta};
    const double n = (double)blocks * sets * columns;
    return td_list_dispatch(list, TD_K_norm_finish, spans, &params,
                            td_grid_groups(td_divide_up(columns, per_group)),
                            (td_cost){.flops = n, .bytes = 4 * n});
}

/* ---------------------------------------------------------------- softmax */

static td_status check_softmax(const td_softmax_args *a)
{
    const uint64_t n = (uint64_t)a->rows * a->columns;
    TD_CHECK(td_op_check_size(a->rows, a->columns, 1, "softmax"));
    TD_CHECK(td_op_check_span(a->x, n, "softmax", "x"));
    TD_CHECK(td_op_check_span(a->y, n, "softmax", "y"));
    TD_REFUSE_IF(!(a->scale > 0), TD_ERR_ARGUMENT, "softmax: scale is %g but must be above 0",
                 (double)a->scale);
    TD_REFUSE_IF(a->queries > a->columns, TD_ERR_ARGUMENT,
                 "softmax: %u causal queries but only %u columns to see", a->queries, a->columns);
    if (td_op_given(a->lengths)) {
        TD_REFUSE_IF(!a->item_rows || a->rows % a->item_rows, TD_ERR_ARGUMENT,
                     "softmax: %u rows cannot be items of %u rows each", a->rows, a->item_rows);
        TD_CHECK(td_op_check_span(a->lengths, a->rows / a->item_rows, "softmax", "lengths"));
    }
    if (td_op_given(a->mask)) {
        TD_REFUSE_IF(!a->mask_rows, TD_ERR_ARGUMENT, "softmax: a mask of no rows; leave it out");
        TD_CHECK(td_op_check_span(a->mask, (uint64_t)a->mask_rows * a->columns, "softmax", "mask"));
    }
    return TD_OK;
}

td_status td_op_softmax(td_list *list, const td_softmax_args *a)
{
    const bool has_mask = td_op_given(a->mask);
    const bool has_lengths = td_op_given(a->lengths);
    const double n = (double)a->rows * a->columns;
    TD_CHECK(check_softmax(a));
    const td_rows rows = td_rows_make(td_list_class(list), a->rows, a->columns);
    const td_softmax_params params = {.rows = a->rows,
                                      .columns = a->columns,
                                      .block = rows.block,
                                      .lanes = rows.lanes,
                                      .scale = a->scale,
                                      .item_rows = has_lengths ? a->item_rows : 0,
                                      .queries = a->queries,
                                      .mask_rows = has_mask ? a->mask_rows : 0,
                                      .mask_repeat = a->mask_repeat ? a->mask_repeat : 1};
    const td_span spans[] = {a->x, td_op_or(a->mask, a->x), td_op_or(a->lengths, a->x), a->y};
    return td_list_dispatch(list, TD_K_softmax, spans, &params, rows.grid,
                            (td_cost){.flops = 20 * n, .bytes = (has_mask ? 12 : 8) * n});
}

td_status td_op_softmax_back(td_list *list, const td_softmax_back_args *a)
{
    const uint64_t n = (uint64_t)a->rows * a->columns;
    TD_CHECK(td_op_check_size(a->rows, a->columns, 1, "softmax_back"));
    TD_CHECK(td_op_check_span(a->y, n, "softmax_back", "y"));
    TD_CHECK(td_op_check_span(a->dy, n, "softmax_back", "dy"));
    TD_CHECK(td_op_check_span(a->dx, n, "softmax_back", "dx"));
    const td_rows rows = td_rows_make(td_list_class(list), a->rows, a->columns);
    const td_softmax_back_params params = {
        .rows = a->rows, .columns = a->columns, .block = rows.block, .lanes = rows.lanes, .scale = a->scale};
    const td_span spans[] = {a->y, a->dy, a->dx};
    return td_list_dispatch(list, TD_K_softmax_back, spans, &params, rows.grid,
                            (td_cost){.flops = 5 * (double)n, .bytes = 12 * (double)n});
}
