/* Launches of the losses; see loss.h. Each is three: what the mean divides by, the losses with their
 * gradient, and the ordered sum. Covered by tests/ops/cases_loss.c. */
#include "ops/loss.h"

#include "kernels/rows_geometry.h"
#include "ops/rows.h"

static const td_grid one_group = {1, 1, 1};

static td_status launch_count(td_list *list, const td_loss_count_params *params, td_span words, td_span scale)
{
    const td_span spans[] = {words, scale};
    return td_list_dispatch(list, TD_K_loss_count, spans, params, one_group,
                            (td_cost){.flops = params->n, .bytes = 4.0 * params->n});
}

td_status td_op_loss_total(td_list *list, uint32_t n, td_span partial, td_span scale, td_span loss)
{
    const td_loss_total_params params = {.n = n};
    const td_span spans[] = {partial, scale, loss};
    return td_list_dispatch(list, TD_K_loss_total, spans, &params, one_group,
                            (td_cost){.flops = n, .bytes = 4.0 * n});
}

td_status td_op_loss_count(td_list *list, uint32_t n, uint32_t limit, td_span lengths, td_span scale)
{
    return launch_count(list, &(td_loss_count_params){.n = n, .limit = limit, .row = 1}, lengths, scale);
}

/* ---------------------------------------------------------------- cross-entropy */

static td_status check_cross_entropy(const td_cross_entropy_args *a)
{
    const uint64_t n = (uint64_t)a->rows * a->classes;
    TD_CHECK(td_op_check_size(a->rows, a->classes, 1, "cross_entropy"));
    TD_REFUSE_IF(!(a->smoothing >= 0 && a->smoothing < 1), TD_ERR_ARGUMENT,
                 "cross_entropy: label smoothing is %g but must be at least 0 and below 1",
                 (double)a->smoothing);
    TD_CHECK(td_op_check_span(a->x, n, "cross_entropy", "x"));
    TD_CHECK(td_op_check_span(a->target, a->rows, "cross_entropy", "target"));
    TD_CHECK(td_op_check_span(a->per_row, a->rows, "cross_entropy", "per_row"));
    TD_CHECK(td_op_check_span(a->scale, 1, "cross_entropy", "scale"));
    TD_CHECK(td_op_check_span(a->loss, 1, "cross_entropy", "loss"));
    if (td_op_given(a->dx)) TD_CHECK(td_op_check_span(a->dx, n, "cross_entropy", "dx"));
    return TD_OK;
}

td_status td_op_cross_entropy(td_list *list, const td_cross_entropy_args *a)
{
    const bool has_dx = td_op_given(a->dx);
    const double n = (double)a->rows * a->classes;
    TD_CHECK(check_cross_entropy(a));
    const td_rows rows = td_rows_make(td_list_class(list), a->rows, a->classes);
    const td_loss_count_params count = {.n = a->rows, .classes = a->classes, .ignore = a->ignore};
    const td_cross_entropy_params params = {.rows = a->rows,
                                            .columns = a->classes,
                                            .block = rows.block,
                                            .lanes = rows.lanes,
                                            .ignore = a->ignore,
                                            .smoothing = a->smoothing,
                                            .weight = a->weight};
    const td_span spans[] = {a->x, a->target, a->scale, a->per_row, td_op_or(a->dx, a->per_row)};
    TD_CHECK(launch_count(list, &count, a->target, a->scale));
    TD_CHECK(td_list_dispatch(list, has_dx ? TD_K_cross_entropy_back : TD_K_cross_entropy, spans, &params,
                              rows.grid, (td_cost){.flops = 20 * n, .bytes = (has_dx ? 8 : 4) * n}));
    return td_op_loss_total(list, a->rows, a->per_row, a->scale, a->loss);
}

/* ---------------------------------------------------------------- element-wise */

static uint32_t block_of(td_kernel_class kernel_class)
{
    return kernel_class == TD_CLASS_GPU ? TD_SUM_BLOCK_GPU : TD_SUM_BLOCK_CPU;
}

uint64_t td_op_masked_loss_partial(td_kernel_class kernel_class, uint32_t items, uint32_t frames,
                                   uint32_t channels)
{
    return (uint64_t)items * td_divide_up(frames * channels, block_of(kernel_class));
}

static td_status check_masked_loss(td_kernel_class kernel_class, const td_masked_loss_args *a)
{
    const uint64_t n = (uint64_t)a->items * a->frames * a->channels;
    TD_CHECK(td_op_check_size(a->items, a->frames, a->channels, "masked_loss"));
    TD_REFUSE_IF(a->kind == TD_LOSS_HUBER && !(a->shape > 0), TD_ERR_ARGUMENT,
                 "masked_loss: Huber's bend is at %g but must lie above 0", (double)a->shape);
    const uint64_t words = td_op_masked_loss_partial(kernel_class, a->items, a->frames, a->channels);
    TD_CHECK(td_op_check_span(a->x, n, "masked_loss", "x"));
    TD_CHECK(td_op_check_span(a->y, n, "masked_loss", "y"));
    TD_CHECK(td_op_check_span(a->lengths, a->items, "masked_loss", "lengths"));
    TD_CHECK(td_op_check_span(a->partial, words, "masked_loss", "partial"));
    TD_CHECK(td_op_check_span(a->scale, 1, "masked_loss", "scale"));
    TD_CHECK(td_op_check_span(a->loss, 1, "masked_loss", "loss"));
    if (td_op_given(a->dx)) TD_CHECK(td_op_check_span(a->dx, n, "masked_loss", "dx"));
    return TD_OK;
}

td_status td_op_masked_loss(td_list *list, const td_masked_loss_args *a)
{
    static const td_kernel_id kernels[] = {[TD_LOSS_L1] = TD_K_loss_l1,
                                           [TD_LOSS_MSE] = TD_K_loss_mse,
                                           [TD_LOSS_HUBER] = TD_K_loss_huber,
                                           [TD_LOSS_BCE] = TD_K_loss_bce};
    const td_kernel_class kernel_class = td_list_class(list);
    const bool has_dx = td_op_given(a->dx);
    const double n = (double)a->items * a->frames * a->channels;
    TD_CHECK(check_masked_loss(kernel_class, a));
    const td_loss_count_params count = {.n = a->items, .limit = a->frames, .row = a->channels};
    const td_loss_masked_params params = {
        .items = a->items,
        .item = a->frames * a->channels,
        .row = a->channels,
        .block = block_of(kernel_class),
        .blocks = td_divide_up(a->frames * a->channels, block_of(kernel_class)),
        .gradient = has_dx,
        .shape = a->shape,
        .weight = a->weight,
    };
    const uint32_t blocks = params.items * params.blocks;
    const td_span spans[] = {a->x, a->y, a->lengths, a->scale, a->partial, td_op_or(a->dx, a->partial)};
    TD_CHECK(launch_count(list, &count, a->lengths, a->scale));
    TD_CHECK(td_list_dispatch(list, kernels[a->kind], spans, &params, td_grid_groups(blocks),
                              (td_cost){.flops = 8 * n, .bytes = (has_dx ? 12 : 8) * n}));
    return td_op_loss_total(list, blocks, a->partial, a->scale, a->loss);
}
