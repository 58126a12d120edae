/* Launches of the optimiser; see optim.h. Covered by tests/ops/cases_optim.c. */
#include "ops/optim.h"

#include <math.h>

#include "kernels/half_geometry.h"
#include "kernels/optim_geometry.h"
#include "kernels/rows_geometry.h"
#include "ops/rows.h"

/* ---------------------------------------------------------------- norm and clipping */

/* Few enough parts for one group to add up, none shorter than a block. */
static uint32_t part_of(td_kernel_class kernel_class, uint32_t n)
{
    const uint32_t least = kernel_class == TD_CLASS_GPU ? TD_SUM_BLOCK_GPU : TD_SUM_BLOCK_CPU;
    return td_divide_up(td_divide_up(n, TD_SUM_MAX_BLOCKS), least) * least;
}

uint32_t td_op_square_sum_parts(td_kernel_class kernel_class, uint32_t n)
{
    return n > 0 ? td_divide_up(n, part_of(kernel_class, n)) : 0;
}

td_status td_op_square_sum(td_list *list, uint32_t n, td_span x, td_span partial, uint32_t first)
{
    const td_kernel_class kernel_class = td_list_class(list);
    TD_CHECK(td_op_check_size(n, 1, 1, "square_sum"));
    const td_square_sum_params params = {.n = n,
                                         .block = part_of(kernel_class, n),
                                         .blocks = td_op_square_sum_parts(kernel_class, n),
                                         .first = first};
    TD_CHECK(td_op_check_span(x, n, "square_sum", "x"));
    TD_CHECK(td_op_check_span(partial, (uint64_t)first + params.blocks, "square_sum", "partial"));
    const td_span spans[] = {x, partial};
    return td_list_dispatch(list, TD_K_square_sum, spans, &params, td_grid_groups(params.blocks),
                            (td_cost){.flops = 2.0 * n, .bytes = 4.0 * n});
}

static td_status check_betas(float beta1, float beta2, const char *op)
{
    if (beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "%s: beta1 %g and beta2 %g must be at least 0 and below 1", op,
                   (double)beta1, (double)beta2);
}

/* Of the float that the caller gave; a beta of 0 becomes so negative that exp() gives 0. */
static float log_of(float beta)
{
    return beta > 0 ? (float)log((double)beta) : -200.0f;
}

td_status td_op_clip(td_list *list, const td_clip_args *a)
{
    TD_CHECK(check_betas(a->beta1, a->beta2, "clip"));
    TD_CHECK(td_op_check_size(a->parts, 1, 1, "clip"));
    TD_CHECK(td_op_check_span(a->partial, a->parts, "clip", "partial"));
    TD_CHECK(td_op_check_span(a->control, TD_CONTROL_WORDS, "clip", "control"));
    TD_REFUSE_IF(!(a->max_norm >= 0), TD_ERR_ARGUMENT, "clip: a maximum norm of %g; give 0 for no clipping",
                 (double)a->max_norm);
    const td_clip_control_params params = {.n = a->parts,
                                           .growth_steps = a->growth_steps,
                                           .max_norm = a->max_norm,
                                           .log_beta1 = log_of(a->beta1),
                                           .log_beta2 = log_of(a->beta2)};
    const td_span spans[] = {a->partial, a->control};
    return td_list_dispatch(list, TD_K_clip_control, spans, &params, (td_grid){1, 1, 1},
                            (td_cost){.flops = a->parts, .bytes = 4.0 * a->parts});
}

/* ---------------------------------------------------------------- AdamW */

static td_grid grid_of(td_list *list, uint32_t n)
{
    const bool is_gpu = td_list_class(list) == TD_CLASS_GPU;
    return td_grid_groups(td_divide_up(n, is_gpu ? TD_OPTIM_BLOCK_GPU : TD_OPTIM_BLOCK_CPU));
}

static td_status check_range(const td_adamw_args *a, size_t i)
{
    const td_decay_range *range = &a->ranges[i];
    const uint64_t end = (uint64_t)range->first + range->count;
    const bool has_shadow = td_op_given(a->shadow);
    TD_CHECK(td_op_check_size(range->count, 1, 1, "adamw"));
    TD_CHECK(td_op_check_size(end, 1, 1, "adamw"));
    TD_CHECK(td_op_check_span(a->g, end, "adamw", "g"));
    TD_CHECK(td_op_check_span(a->w, end, "adamw", "w"));
    TD_CHECK(td_op_check_span(a->m, end, "adamw", "m"));
    TD_CHECK(td_op_check_span(a->v, end, "adamw", "v"));
    if (has_shadow) TD_CHECK(td_op_check_span(a->shadow, TD_HALF_WORDS(end), "adamw", "shadow"));
    TD_REFUSE_IF(has_shadow && (range->first % 2 || (range->count % 2 && i + 1 < a->n_ranges)),
                 TD_ERR_ARGUMENT,
                 "adamw: range %zu (from %u, %u elements) cuts a word of two 16-bit numbers; pad tensors to "
                 "even sizes",
                 i, range->first, range->count);
    return TD_OK;
}

td_status td_op_adamw(td_list *list, const td_adamw_args *a)
{
    const bool has_shadow = td_op_given(a->shadow);
    const td_span spans[] = {a->g, a->control, a->w, a->m, a->v, td_op_or(a->shadow, a->v)};
    TD_CHECK(check_betas(a->beta1, a->beta2, "adamw"));
    TD_REFUSE_IF(has_shadow && a->format != TD_FORMAT_BF16 && a->format != TD_FORMAT_FP16, TD_ERR_ARGUMENT,
                 "adamw: format %u of the shadow does not exist", a->format);
    TD_CHECK(td_op_check_span(a->control, TD_CONTROL_WORDS, "adamw", "control"));
    for (size_t i = 0; i < a->n_ranges; i++) {
        TD_CHECK(check_range(a, i));
        const td_adamw_params params = {.first = a->ranges[i].first,
                                        .n = a->ranges[i].count,
                                        .format = has_shadow ? a->format : TD_FORMAT_FP32,
                                        .one_minus_beta1 = (float)(1.0 - (double)a->beta1),
                                        .one_minus_beta2 = (float)(1.0 - (double)a->beta2),
                                        .eps = a->eps,
                                        .decay = a->ranges[i].decay};
        TD_CHECK(td_list_dispatch(
            list, TD_K_adamw, spans, &params, grid_of(list, params.n),
            (td_cost){.flops = 16.0 * params.n, .bytes = (has_shadow ? 30.0 : 28.0) * params.n}));
    }
    return TD_OK;
}

static uint32_t find_scales(const td_adamw_packed_args *a)
{
    return a->scales ? a->scales : a->n / 4;
}

/* Words of a moment. */
static uint64_t packed_words(const td_adamw_packed_args *a)
{
    return a->bits == 16 ? TD_HALF_WORDS(a->n) : (uint64_t)find_scales(a) + a->n / TD_STATE_BLOCK;
}

static td_status check_packed(const td_adamw_packed_args *a)
{
    static const char op[] = "adamw packed";
    const bool has_shadow = td_op_given(a->shadow);
    TD_CHECK(check_betas(a->beta1, a->beta2, op));
    TD_CHECK(td_op_check_size(a->n, 1, 1, op));
    TD_REFUSE_IF((a->bits != 16 && a->bits != 8) || (a->bits == 8 && a->n % TD_STATE_BLOCK != 0),
                 TD_ERR_ARGUMENT, "%s: %u elements in %u bits; 16, or 8 and blocks of %u", op, a->n, a->bits,
                 TD_STATE_BLOCK);
    TD_CHECK(td_op_check_span(a->g, a->n, op, "g"));
    TD_CHECK(td_op_check_span(a->w, a->n, op, "w"));
    TD_CHECK(td_op_check_span(a->m, packed_words(a), op, "m"));
    TD_CHECK(td_op_check_span(a->v, packed_words(a), op, "v"));
    if (has_shadow) TD_CHECK(td_op_check_span(a->shadow, TD_HALF_WORDS(a->n), op, "shadow"));
    return td_op_check_span(a->control, TD_CONTROL_WORDS, op, "control");
}

td_status td_op_adamw_packed(td_list *list, const td_adamw_packed_args *a)
{
    const td_span spans[] = {a->g, a->control, a->w, a->m, a->v, td_op_or(a->shadow, a->g)};
    TD_CHECK(check_packed(a));
    const td_adamw_packed_params params = {.n = a->n,
                                           .format = td_op_given(a->shadow) ? a->format : TD_FORMAT_FP32,
                                           .scales = find_scales(a),
                                           .one_minus_beta1 = (float)(1.0 - (double)a->beta1),
                                           .one_minus_beta2 = (float)(1.0 - (double)a->beta2),
                                           .eps = a->eps,
                                           .decay = a->decay};
    return td_list_dispatch(list, a->bits == 16 ? TD_K_adamw_bf16 : TD_K_adamw_int8, spans, &params,
                            grid_of(list, a->n),
                            (td_cost){.flops = 32.0 * a->n, .bytes = (12.0 + a->bits / 2.0) * a->n});
}

/* ---------------------------------------------------------------- running average */

td_status td_op_ema(td_list *list, const td_ema_args *a)
{
    const bool has_control = td_op_given(a->control);
    TD_CHECK(td_op_check_size(a->n, 1, 1, "ema"));
    TD_CHECK(td_op_check_span(a->w, a->n, "ema", "w"));
    TD_CHECK(td_op_check_span(a->average, a->n, "ema", "average"));
    if (has_control) TD_CHECK(td_op_check_span(a->control, TD_CONTROL_WORDS, "ema", "control"));
    const td_ema_params params = {.n = a->n, .warm_up = has_control, .decay = a->decay};
    const td_span spans[] = {a->w, td_op_or(a->control, a->w), a->average};
    return td_list_dispatch(list, TD_K_ema, spans, &params, grid_of(list, a->n),
                            (td_cost){.flops = 2.0 * a->n, .bytes = 12.0 * a->n});
}
