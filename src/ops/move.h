/* Moving and converting: permute, slice, set_slice (concat), pad, casts to and from 16 bits, rows by index
 * (embedding, length regulation) and the backward pass of that. All move 32-bit words of any meaning, unless
 * floats are named.
 *
 * Backward passes of the others are each other: of slice it is pad with 0, of set_slice and pad it is slice,
 * of permute the inverse permute. Sources and results must not overlap. Covered by tests/ops/cases_move.c.
 */
#ifndef TD_OPS_MOVE_H
#define TD_OPS_MOVE_H

#include "device/dispatch.h"

#define TD_MOVE_AXES 4

/* Up to four axes, outermost first. */
typedef struct td_shape {
    uint32_t dims[TD_MOVE_AXES];
    size_t n_dims;
} td_shape;

/* Axis d of y is axis order[d] of x; x has `shape`. */
td_status td_op_permute(td_list *list, td_span x, td_shape shape, const uint32_t *order, td_span y);

/* y [size] = the part of x [shape] from start on, size[d] long along axis d. */
td_status td_op_slice(td_list *list, td_span x, td_shape shape, const uint32_t *start, const uint32_t *size,
                      td_span y);

/* The part of y [y_shape] from start on = x [shape]; the rest of y stays. Joining tensors is one call each.
 */
td_status td_op_set_slice(td_list *list, td_span x, td_shape shape, td_span y, td_shape y_shape,
                          const uint32_t *start);

/* y = x [shape] with before[d] and after[d] times `value` around it along axis d. */
td_status td_op_pad(td_list *list, td_span x, td_shape shape, const uint32_t *before, const uint32_t *after,
                    float value, td_span y);

/* n floats to n numbers of 16 bits (format TD_FORMAT_BF16 ...) in (n + 1) / 2 words, element 2w in the low
 * half of word w, rounded to nearest, ties to even; and back. */
td_status td_op_cast_half(td_list *list, uint32_t format, uint32_t n, td_span x, td_span y);
td_status td_op_cast_float(td_list *list, uint32_t format, uint32_t n, td_span x, td_span y);

/* y [items, out_rows, columns] = rows of x [items, in_rows, columns], each item's rows by its own index
 * [items, out_rows]; an index not below in_rows gives zeros. An embedding has one item. */
typedef struct td_gather_args {
    uint32_t items, in_rows, out_rows, columns;
    td_span x, index, y;
} td_gather_args;

td_status td_op_gather_rows(td_list *list, const td_gather_args *args);

/* dx [items, in_rows, columns] = for each row the sum of the rows of dy [items, out_rows, columns] that were
 * taken from it, in rising order, without atomics. `order` [items * out_rows] is scratch: the rows are sorted
 * on the device, so a recorded list can be replayed with other indices; that costs items * out_rows^2
 * comparisons, and items * out_rows must be below 2^24. `add`: added to dx. */
typedef struct td_scatter_args {
    uint32_t items, in_rows, out_rows, columns;
    td_span dy, index, order, dx;
    bool add;
} td_scatter_args;

td_status td_op_scatter_rows(td_list *list, const td_scatter_args *args);

#endif
