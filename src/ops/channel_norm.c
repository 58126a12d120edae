/* Launches of batch and group norm; see norm.h. Both are one chain of kernels over [segments, rows,
 * channels]: group norm has a segment per item and groups of channels, batch norm one segment and groups of
 * one channel. Covered by tests/ops/cases_norm.c. */
#include "kernels/rows_geometry.h"
#include "ops/norm_internal.h"
#include "ops/rows.h"

/* Rows of a block: few enough to lie in a CPU's second cache, and many enough to leave few partial sums. */
#define LEAST_BLOCK_CPU 64u
#define LEAST_BLOCK_GPU 32u
#define MOST_BLOCKS_CPU 64u
#define MOST_BLOCKS_GPU 256u

typedef struct shape {
    uint32_t segments, rows, channels, width; /* width: channels of a group */
    uint32_t block, blocks;                   /* rows of a block, blocks of a segment */
    uint64_t n;                               /* elements */
} shape;

/* Fields that the parameters of kernels share: of those over blocks of rows, of those over rows by teams. */
#define BLOCK_FIELDS(s)                                                                                      \
    .segments = (s)->segments, .rows = (s)->rows, .columns = (s)->channels, .block = (s)->block,             \
    .blocks = (s)->blocks
#define ROW_FIELDS(n, r) .rows = (n), .block = (r).block, .lanes = (r).lanes

static shape make_shape(td_kernel_class kernel_class, td_channel_norm_kind kind, uint32_t items,
                        uint32_t frames, uint32_t channels, uint32_t groups)
{
    const bool is_group = kind == TD_NORM_GROUP;
    const uint32_t rows = is_group ? frames : items * frames;
    const uint32_t least = kernel_class == TD_CLASS_GPU ? LEAST_BLOCK_GPU : LEAST_BLOCK_CPU;
    const uint32_t few = td_divide_up(rows, kernel_class == TD_CLASS_GPU ? MOST_BLOCKS_GPU : MOST_BLOCKS_CPU);
    const uint32_t block = few > least ? few : least;
    return (shape){.segments = is_group ? items : 1,
                   .rows = rows,
                   .channels = channels,
                   .width = is_group && groups ? channels / groups : 1,
                   .block = block,
                   .blocks = td_divide_up(rows, block),
                   .n = (uint64_t)items * frames * channels};
}

uint64_t td_op_channel_norm_partial(td_kernel_class kernel_class, td_channel_norm_kind kind, uint32_t items,
                                    uint32_t frames, uint32_t channels)
{
    const shape s = make_shape(kernel_class, kind, items, frames, channels, 1);
    return (uint64_t)s.segments * s.blocks * 2 * channels;
}

static td_status check_groups(td_channel_norm_kind kind, uint32_t channels, uint32_t groups)
{
    if (kind != TD_NORM_GROUP || (groups > 0 && channels % groups == 0)) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "group norm: %u channels cannot be split into %u groups", channels,
                   groups);
}

/* ---------------------------------------------------------------- forward */

static td_status check_forward(const td_channel_norm_args *a, const shape *s)
{
    TD_CHECK(check_groups(a->kind, a->channels, a->groups));
    TD_CHECK(td_op_check_span(a->x, s->n, "channel_norm", "x"));
    TD_CHECK(td_op_check_span(a->y, s->n, "channel_norm", "y"));
    TD_CHECK(td_op_check_span(a->gamma, a->channels, "channel_norm", "gamma"));
    TD_CHECK(td_op_check_span(a->beta, a->channels, "channel_norm", "beta"));
    TD_CHECK(td_op_check_span(a->table, (uint64_t)s->segments * 2 * a->channels, "channel_norm", "table"));
    if (a->kind != TD_NORM_GROUP) {
        TD_CHECK(td_op_check_span(a->running_mean, a->channels, "channel_norm", "running_mean"));
        TD_CHECK(td_op_check_span(a->running_var, a->channels, "channel_norm", "running_var"));
    }
    if (a->kind != TD_NORM_BATCH_EVAL) {
        const uint64_t words = (uint64_t)s->segments * s->blocks * 2 * a->channels;
        TD_CHECK(td_op_check_span(a->partial, words, "channel_norm", "partial"));
    }
    return TD_OK;
}

static td_status launch_stats(td_list *list, const td_channel_norm_args *a, const shape *s)
{
    const td_channel_stats_params params = {BLOCK_FIELDS(s)};
    const td_span spans[] = {a->x, a->partial};
    return td_list_dispatch(list, TD_K_channel_stats, spans, &params,
                            td_grid_columns(td_list_class(list), s->segments * s->blocks, s->channels),
                            (td_cost){.flops = 4 * (double)s->n, .bytes = 4 * (double)s->n});
}

static td_status launch_merge(td_list *list, const td_channel_norm_args *a, const shape *s)
{
    static const uint32_t modes[] = {[TD_NORM_GROUP] = TD_MERGE_PLAIN,
                                     [TD_NORM_BATCH_TRAIN] = TD_MERGE_RUNNING,
                                     [TD_NORM_BATCH_EVAL] = TD_MERGE_EVAL};
    const uint32_t n_rows = s->segments * (s->channels / s->width);
    const td_rows rows = td_rows_make(td_list_class(list), n_rows, s->width);
    const td_channel_merge_params params = {ROW_FIELDS(n_rows, rows),  .channels = s->channels,
                                            .width = s->width,         .segment_rows = s->rows,
                                            .segment_block = s->block, .segment_blocks = s->blocks,
                                            .mode = modes[a->kind],    .eps = a->eps,
                                            .momentum = a->momentum};
    const td_span spans[] = {a->kind == TD_NORM_BATCH_EVAL ? a->gamma : a->partial,
                             td_op_or(a->running_mean, a->table), td_op_or(a->running_var, a->table),
                             a->table};
    const double n = (double)s->segments * s->blocks * 2 * s->channels;
    return td_list_dispatch(list, TD_K_channel_merge, spans, &params, rows.grid,
                            (td_cost){.flops = 4 * n, .bytes = 4 * n});
}

static td_status launch_norm(td_list *list, const td_channel_norm_args *a, const shape *s)
{
    const td_rows rows = td_rows_make(td_list_class(list), s->segments * s->rows, s->channels);
    const td_channel_norm_params params = {ROW_FIELDS(s->segments * s->rows, rows), .columns = s->channels,
                                           .segment_rows = s->rows};
    const td_span spans[] = {a->x, a->table, a->gamma, a->beta, a->y};
    return td_list_dispatch(list, TD_K_channel_norm, spans, &params, rows.grid,
                            (td_cost){.flops = 4 * (double)s->n, .bytes = 8 * (double)s->n});
}

td_status td_op_channel_norm(td_list *list, const td_channel_norm_args *a)
{
    TD_CHECK(td_op_check_size(a->items, a->frames, a->channels, "channel_norm"));
    const shape s = make_shape(td_list_class(list), a->kind, a->items, a->frames, a->channels, a->groups);
    TD_CHECK(check_forward(a, &s));
    if (a->kind != TD_NORM_BATCH_EVAL) TD_CHECK(launch_stats(list, a, &s));
    TD_CHECK(launch_merge(list, a, &s));
    return launch_norm(list, a, &s);
}

/* ---------------------------------------------------------------- backward */

static td_status check_backward(const td_channel_norm_back_args *a, const shape *s)
{
    const uint64_t table = (uint64_t)s->segments * 2 * a->channels;
    TD_CHECK(check_groups(a->kind, a->channels, a->groups));
    TD_CHECK(td_op_check_span(a->dy, s->n, "channel_norm_back", "dy"));
    TD_CHECK(td_op_check_span(a->x, s->n, "channel_norm_back", "x"));
    TD_CHECK(td_op_check_span(a->gamma, a->channels, "channel_norm_back", "gamma"));
    TD_CHECK(td_op_check_span(a->table, table, "channel_norm_back", "table"));
    TD_CHECK(td_op_check_span(a->dx, s->n, "channel_norm_back", "dx"));
    TD_CHECK(td_op_check_span(a->dgamma, a->channels, "channel_norm_back", "dgamma"));
    TD_CHECK(td_op_check_span(a->dbeta, a->channels, "channel_norm_back", "dbeta"));
    TD_CHECK(td_op_check_span(a->partial, table * s->blocks, "channel_norm_back", "partial"));
    if (a->kind != TD_NORM_BATCH_EVAL)
        TD_CHECK(td_op_check_span(a->means, table, "channel_norm_back", "means"));
    return TD_OK;
}

static td_status launch_back_sums(td_list *list, const td_channel_norm_back_args *a, const shape *s)
{
    const td_channel_back_sums_params params = {BLOCK_FIELDS(s)};
    const td_span spans[] = {a->dy, a->x, a->table, a->partial};
    return td_list_dispatch(list, TD_K_channel_back_sums, spans, &params,
                            td_grid_columns(td_list_class(list), s->segments * s->blocks, s->channels),
                            (td_cost){.flops = 4 * (double)s->n, .bytes = 8 * (double)s->n});
}

static td_status launch_back_merge(td_list *list, const td_channel_norm_back_args *a, const shape *s)
{
    const uint32_t n_rows = s->segments * (s->channels / s->width);
    const td_rows rows = td_rows_make(td_list_class(list), n_rows, s->width);
    const td_channel_back_merge_params params = {ROW_FIELDS(n_rows, rows), .channels = s->channels,
                                                 .width = s->width, .segment_rows = s->rows,
                                                 .segment_blocks = s->blocks};
    const td_span spans[] = {a->partial, a->gamma, a->means};
    const double n = (double)s->segments * s->blocks * 2 * s->channels;
    return td_list_dispatch(list, TD_K_channel_back_merge, spans, &params, rows.grid,
                            (td_cost){.flops = 2 * n, .bytes = 4 * n});
}

static td_status launch_back(td_list *list, const td_channel_norm_back_args *a, const shape *s)
{
    const td_rows rows = td_rows_make(td_list_class(list), s->segments * s->rows, s->channels);
    const td_channel_back_params params = {ROW_FIELDS(s->segments * s->rows, rows), .columns = s->channels,
                                           .segment_rows = s->rows,
                                           .is_constant = a->kind == TD_NORM_BATCH_EVAL};
    const td_span spans[] = {a->dy, a->x, a->gamma, a->table, td_op_or(a->means, a->table), a->dx};
    return td_list_dispatch(list, TD_K_channel_back, spans, &params, rows.grid,
                            (td_cost){.flops = 7 * (double)s->n, .bytes = 12 * (double)s->n});
}

td_status td_op_channel_norm_back(td_list *list, const td_channel_norm_back_args *a)
{
    TD_CHECK(td_op_check_size(a->items, a->frames, a->channels, "channel_norm_back"));
    const shape s = make_shape(td_list_class(list), a->kind, a->items, a->frames, a->channels, a->groups);
    TD_CHECK(check_backward(a, &s));
    TD_CHECK(launch_back_sums(list, a, &s));
    TD_CHECK(td_op_norm_finish(list, s.segments * s.blocks, 2, s.channels, a->accumulate, a->partial,
                               a->dgamma, a->dbeta));
    if (a->kind != TD_NORM_BATCH_EVAL) TD_CHECK(launch_back_merge(list, a, &s));
    return launch_back(list, a, &s);
}
