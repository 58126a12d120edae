/* See move.h. A box of the result is filled from the source by one of two kernels: `move`, where the
 * innermost axis of both is the same, and `transpose`, where it is not. Covered by tests/ops/cases_move.c. */
#include "ops/move.h"

#include <string.h>

#include "kernels/half_geometry.h"
#include "kernels/move_geometry.h"
#include "ops/rows.h"

/* ---------------------------------------------------------------- boxes */

/* One axis of a box: its length, the steps of both sides, and where along it the source lies. */
typedef struct axis {
    uint32_t length, x_step, y_step, before, x_length;
} axis;

static td_status check_shape(td_shape shape, const char *op, uint64_t *n)
{
    *n = 1;
    TD_REFUSE_IF(shape.n_dims == 0 || shape.n_dims > TD_MOVE_AXES, TD_ERR_ARGUMENT,
                 "%s: %zu axes; it takes 1 to 4", op, shape.n_dims);
    for (size_t d = 0; d < shape.n_dims; d++) {
        TD_CHECK(td_op_check_size(*n, shape.dims[d], 1, op));
        *n *= shape.dims[d];
    }
    return TD_OK;
}

/* Steps of a dense tensor of this shape. */
static void make_steps(td_shape shape, uint32_t steps[TD_MOVE_AXES])
{
    uint32_t step = 1;
    for (size_t d = shape.n_dims; d-- > 0; step *= shape.dims[d])
        steps[d] = step;
}

static bool is_whole(const axis *a)
{
    return a->before == 0 && a->x_length == a->length;
}

/* Joins an axis to the one inside it where both sides walk them as one: rows get longer. */
static size_t fold_axes(axis *axes, size_t count)
{
    size_t n = 0;
    for (size_t d = 0; d < count; d++) {
        axis *outer = n > 0 ? &axes[n - 1] : NULL;
        const axis inner = axes[d];
        if (outer && is_whole(&inner) && outer->x_step == inner.x_step * inner.length &&
            outer->y_step == inner.y_step * inner.length) {
            *outer = (axis){.length = outer->length * inner.length,
                            .x_step = inner.x_step,
                            .y_step = inner.y_step,
                            .before = outer->before * inner.length,
                            .x_length = outer->x_length * inner.length};
        } else {
            axes[n++] = inner;
        }
    }
    return n;
}

/* The innermost step is 1 on both sides. */
static td_status record_move(td_list *list, td_span x, uint32_t x_at, td_span y, uint32_t y_at,
                             const axis *given, size_t count, uint32_t fill)
{
    axis a[TD_MOVE_AXES];
    uint32_t n = 1;
    memcpy(a, given, count * sizeof *a);
    count = fold_axes(a, count);
    memmove(a + TD_MOVE_AXES - count, a, count * sizeof *a);
    for (size_t d = 0; d < TD_MOVE_AXES - count; d++)
        a[d] = (axis){.length = 1, .x_length = 1};
    for (size_t d = 0; d < TD_MOVE_AXES; d++)
        n *= a[d].length;
    const td_move_params params = {
        .n = n,
        .d1 = a[1].length,
        .d2 = a[2].length,
        .d3 = a[3].length,
        .y_at = y_at,
        .y0 = a[0].y_step,
        .y1 = a[1].y_step,
        .y2 = a[2].y_step,
        .x_at = x_at,
        .x0 = a[0].x_step,
        .x1 = a[1].x_step,
        .x2 = a[2].x_step,
        .b0 = a[0].before,
        .b1 = a[1].before,
        .b2 = a[2].before,
        .b3 = a[3].before,
        .s0 = a[0].x_length,
        .s1 = a[1].x_length,
        .s2 = a[2].x_length,
        .s3 = a[3].x_length,
        .fill = fill,
    };
    return td_list_dispatch(list, TD_K_move, (td_span[]){x, y}, &params,
                            td_grid_elements(td_list_class(list), n), (td_cost){.bytes = 8.0 * n});
}

td_status td_op_slice(td_list *list, td_span x, td_shape shape, const uint32_t *start, const uint32_t *size,
                      td_span y)
{
    axis axes[TD_MOVE_AXES];
    uint32_t x_steps[TD_MOVE_AXES], y_steps[TD_MOVE_AXES];
    td_shape part = shape;
    uint64_t n = 0, n_part = 0;
    uint32_t x_at = 0;
    TD_CHECK(check_shape(shape, "slice", &n));
    memcpy(part.dims, size, part.n_dims * sizeof *size);
    TD_CHECK(check_shape(part, "slice", &n_part));
    TD_CHECK(td_op_check_span(x, n, "slice", "x"));
    TD_CHECK(td_op_check_span(y, n_part, "slice", "y"));
    make_steps(shape, x_steps);
    make_steps(part, y_steps);
    for (size_t d = 0; d < shape.n_dims; d++) {
        TD_REFUSE_IF(start[d] > shape.dims[d] || size[d] > shape.dims[d] - start[d], TD_ERR_ARGUMENT,
                     "slice: %u elements from %u on of an axis of %u", size[d], start[d], shape.dims[d]);
        axes[d] = (axis){size[d], x_steps[d], y_steps[d], 0, size[d]};
        x_at += start[d] * x_steps[d];
    }
    return record_move(list, x, x_at, y, 0, axes, shape.n_dims, 0);
}

td_status td_op_set_slice(td_list *list, td_span x, td_shape shape, td_span y, td_shape y_shape,
                          const uint32_t *start)
{
    axis axes[TD_MOVE_AXES];
    uint32_t x_steps[TD_MOVE_AXES], y_steps[TD_MOVE_AXES];
    uint64_t n = 0, n_y = 0;
    uint32_t y_at = 0;
    TD_CHECK(check_shape(shape, "set_slice", &n));
    TD_CHECK(check_shape(y_shape, "set_slice", &n_y));
    TD_CHECK(td_op_check_span(x, n, "set_slice", "x"));
    TD_CHECK(td_op_check_span(y, n_y, "set_slice", "y"));
    TD_REFUSE_IF(shape.n_dims != y_shape.n_dims, TD_ERR_ARGUMENT, "set_slice: %zu axes into %zu",
                 shape.n_dims, y_shape.n_dims);
    make_steps(shape, x_steps);
    make_steps(y_shape, y_steps);
    for (size_t d = 0; d < shape.n_dims; d++) {
        const uint32_t length = shape.dims[d];
        TD_REFUSE_IF(start[d] > y_shape.dims[d] || length > y_shape.dims[d] - start[d], TD_ERR_ARGUMENT,
                     "set_slice: %u elements from %u on of an axis of %u", length, start[d], y_shape.dims[d]);
        axes[d] = (axis){length, x_steps[d], y_steps[d], 0, length};
        y_at += start[d] * y_steps[d];
    }
    return record_move(list, x, 0, y, y_at, axes, shape.n_dims, 0);
}

td_status td_op_pad(td_list *list, td_span x, td_shape shape, const uint32_t *before, const uint32_t *after,
                    float value, td_span y)
{
    axis axes[TD_MOVE_AXES];
    uint32_t x_steps[TD_MOVE_AXES], y_steps[TD_MOVE_AXES], fill;
    td_shape padded = shape;
    uint64_t n = 0, n_y = 0;
    TD_CHECK(check_shape(shape, "pad", &n));
    for (size_t d = 0; d < shape.n_dims; d++) {
        const uint64_t length = (uint64_t)before[d] + shape.dims[d] + after[d];
        TD_CHECK(td_op_check_size(length, 1, 1, "pad"));
        padded.dims[d] = (uint32_t)length;
    }
    TD_CHECK(check_shape(padded, "pad", &n_y));
    TD_CHECK(td_op_check_span(x, n, "pad", "x"));
    TD_CHECK(td_op_check_span(y, n_y, "pad", "y"));
    make_steps(shape, x_steps);
    make_steps(padded, y_steps);
    for (size_t d = 0; d < shape.n_dims; d++)
        axes[d] = (axis){padded.dims[d], x_steps[d], y_steps[d], before[d], shape.dims[d]};
    memcpy(&fill, &value, sizeof fill);
    return record_move(list, x, 0, y, 0, axes, shape.n_dims, fill);
}

/* ---------------------------------------------------------------- permute */

/* The axes of y with steps of both sides, those of one element left out and those joined that stay together.
 */
static size_t make_permuted(td_shape shape, const uint32_t *order, axis *axes)
{
    uint32_t x_steps[TD_MOVE_AXES], y_steps[TD_MOVE_AXES];
    td_shape permuted = shape;
    size_t count = 0;
    for (size_t d = 0; d < shape.n_dims; d++)
        permuted.dims[d] = shape.dims[order[d]];
    make_steps(shape, x_steps);
    make_steps(permuted, y_steps);
    for (size_t d = 0; d < shape.n_dims; d++) {
        const uint32_t length = permuted.dims[d];
        if (length > 1) axes[count++] = (axis){length, x_steps[order[d]], y_steps[d], 0, length};
    }
    if (count == 0) axes[count++] = (axis){1, 1, 1, 0, 1};
    return fold_axes(axes, count);
}

/* The last axis is innermost in y, `inner_of_x` in x; the others, at most two, are walked as they are. */
static td_status record_transpose(td_list *list, td_span x, td_span y, const axis *a, size_t count,
                                  size_t inner_of_x)
{
    const axis rows = a[count - 1], columns = a[inner_of_x];
    const bool is_gpu = td_list_class(list) == TD_CLASS_GPU;
    const uint32_t tile_rows = is_gpu ? TD_TRANSPOSE_ROWS_GPU : TD_TRANSPOSE_ROWS_CPU;
    const uint32_t tile_columns = is_gpu ? TD_TRANSPOSE_COLUMNS_GPU : TD_TRANSPOSE_COLUMNS_CPU;
    axis others[2] = {{.length = 1}, {.length = 1}};
    size_t n_others = 0;
    for (size_t d = 0; d + 1 < count; d++)
        if (d != inner_of_x) others[n_others++] = a[d];
    const td_transpose_params params = {.outer = others[0].length,
                                        .inner = others[1].length,
                                        .rows = rows.length,
                                        .columns = columns.length,
                                        .x_outer = others[0].x_step,
                                        .x_inner = others[1].x_step,
                                        .x_row = rows.x_step,
                                        .y_outer = others[0].y_step,
                                        .y_inner = others[1].y_step,
                                        .y_row = columns.y_step};
    const uint64_t matrices = (uint64_t)params.outer * params.inner;
    const uint64_t tiles =
        (uint64_t)td_divide_up(rows.length, tile_rows) * td_divide_up(columns.length, tile_columns);
    return td_list_dispatch(list, TD_K_transpose, (td_span[]){x, y}, &params,
                            td_grid_groups(matrices * tiles),
                            (td_cost){.bytes = 8.0 * (double)matrices * rows.length * columns.length});
}

td_status td_op_permute(td_list *list, td_span x, td_shape shape, const uint32_t *order, td_span y)
{
    axis axes[TD_MOVE_AXES];
    uint64_t n = 0;
    unsigned seen = 0;
    TD_CHECK(check_shape(shape, "permute", &n));
    TD_CHECK(td_op_check_span(x, n, "permute", "x"));
    TD_CHECK(td_op_check_span(y, n, "permute", "y"));
    for (size_t d = 0; d < shape.n_dims; d++)
        seen |= order[d] < shape.n_dims ? 1u << order[d] : 0;
    TD_REFUSE_IF(seen != (1u << shape.n_dims) - 1, TD_ERR_ARGUMENT,
                 "permute: the order does not name each of %zu axes once", shape.n_dims);
    const size_t count = make_permuted(shape, order, axes);
    size_t inner_of_x = 0;
    while (axes[inner_of_x].x_step != 1)
        inner_of_x++;
    if (inner_of_x == count - 1)
        TD_CHECK(record_move(list, x, 0, y, 0, axes, count, 0));
    else
        TD_CHECK(record_transpose(list, x, y, axes, count, inner_of_x));
    return TD_OK;
}

/* ---------------------------------------------------------------- casts */

/* A word at a time, in either direction; both kernels have the same parameters. */
static td_status record_cast(td_list *list, td_kernel_id kernel, const td_cast_half_params *params, td_span x,
                             td_span y)
{
    const char *op = td_kernel_get(kernel)->name;
    const bool to_half = kernel == TD_K_cast_half;
    const uint32_t n = params->n, format = params->format, words = TD_HALF_WORDS(n);
    TD_CHECK(td_op_check_size(n, 1, 1, op));
    TD_CHECK(td_op_check_span(x, to_half ? n : words, op, "x"));
    TD_CHECK(td_op_check_span(y, to_half ? words : n, op, "y"));
    TD_REFUSE_IF(format != TD_FORMAT_BF16 && format != TD_FORMAT_FP16, TD_ERR_ARGUMENT,
                 "%s: format %u does not exist", op, format);
    return td_list_dispatch(list, kernel, (td_span[]){x, y}, params,
                            td_grid_elements(td_list_class(list), words), (td_cost){.bytes = 6.0 * n});
}

td_status td_op_cast_half(td_list *list, uint32_t format, uint32_t n, td_span x, td_span y)
{
    return record_cast(list, TD_K_cast_half, &(td_cast_half_params){.n = n, .format = format}, x, y);
}

td_status td_op_cast_float(td_list *list, uint32_t format, uint32_t n, td_span x, td_span y)
{
    return record_cast(list, TD_K_cast_float, &(td_cast_half_params){.n = n, .format = format}, x, y);
}

/* ---------------------------------------------------------------- rows by index */

/* Rows of one group: about a block of elements. */
static uint32_t choose_rows(td_kernel_class kernel_class, uint32_t columns)
{
    const uint32_t block = kernel_class == TD_CLASS_GPU ? TD_ROWS_BLOCK_GPU : TD_ROWS_BLOCK_CPU;
    return columns < block ? block / columns : 1;
}

td_status td_op_gather_rows(td_list *list, const td_gather_args *a)
{
    const uint32_t block = choose_rows(td_list_class(list), a->columns ? a->columns : 1);
    TD_CHECK(td_op_check_size(a->items, a->in_rows, a->columns, "gather_rows"));
    TD_CHECK(td_op_check_size(a->items, a->out_rows, a->columns, "gather_rows"));
    const uint32_t rows = a->items * a->out_rows;
    TD_CHECK(td_op_check_span(a->x, (uint64_t)a->items * a->in_rows * a->columns, "gather_rows", "x"));
    TD_CHECK(td_op_check_span(a->index, rows, "gather_rows", "index"));
    TD_CHECK(td_op_check_span(a->y, (uint64_t)rows * a->columns, "gather_rows", "y"));
    const td_gather_rows_params params = {
        .rows = rows, .columns = a->columns, .in_rows = a->in_rows, .out_rows = a->out_rows, .block = block};
    return td_list_dispatch(list, TD_K_gather_rows, (td_span[]){a->x, a->index, a->y}, &params,
                            td_grid_groups(td_divide_up(rows, block)),
                            (td_cost){.bytes = 8.0 * rows * a->columns});
}

td_status td_op_scatter_rows(td_list *list, const td_scatter_args *a)
{
    const td_kernel_class kernel_class = td_list_class(list);
    const uint32_t block =
        kernel_class == TD_CLASS_GPU ? 1 : choose_rows(kernel_class, a->columns ? a->columns : 1);
    TD_CHECK(td_op_check_size(a->items, a->in_rows, a->columns, "scatter_rows"));
    TD_CHECK(td_op_check_size(a->items, a->out_rows, a->columns, "scatter_rows"));
    const uint32_t rows = a->items * a->out_rows;
    const uint32_t dx_rows = a->items * a->in_rows;
    TD_REFUSE_IF(rows >= 1u << 24, TD_ERR_LIMIT, "scatter_rows: %u rows, at most 2^24 - 1; split the batch",
                 rows);
    TD_CHECK(td_op_check_span(a->dy, (uint64_t)rows * a->columns, "scatter_rows", "dy"));
    TD_CHECK(td_op_check_span(a->index, rows, "scatter_rows", "index"));
    TD_CHECK(td_op_check_span(a->order, rows, "scatter_rows", "order"));
    TD_CHECK(td_op_check_span(a->dx, (uint64_t)dx_rows * a->columns, "scatter_rows", "dx"));
    const td_rank_rows_params rank = {.rows = rows, .out_rows = a->out_rows};
    TD_CHECK(td_list_dispatch(list, TD_K_rank_rows, (td_span[]){a->index, a->order}, &rank,
                              td_grid_groups(td_divide_up(
                                  rows, kernel_class == TD_CLASS_GPU ? TD_RANK_ROWS_GPU : TD_RANK_ROWS_CPU)),
                              (td_cost){.flops = 3.0 * rows * a->out_rows}));
    const td_scatter_rows_params params = {.dx_rows = dx_rows,
                                           .columns = a->columns,
                                           .in_rows = a->in_rows,
                                           .out_rows = a->out_rows,
                                           .block = block,
                                           .add = a->add};
    return td_list_dispatch(list, TD_K_scatter_rows, (td_span[]){a->dy, a->index, a->order, a->dx}, &params,
                            td_grid_groups(td_divide_up(dx_rows, block)),
                            (td_cost){.bytes = 4.0 * ((double)rows + dx_rows) * a->columns});
}
