/* Reductions over one axis of x [outer, axis, inner]: sum, mean, sum of squares, largest, and their backward
 * passes. Any axis of any tensor is this after its neighbours have been joined. Fixed order: the same launch
 * twice on one device gives the same bits. Covered by tests/ops/cases_reduce.c.
 */
#ifndef TD_OPS_REDUCE_H
#define TD_OPS_REDUCE_H

#include "device/dispatch.h"

typedef enum td_reduce_kind { TD_REDUCE_SUM, TD_REDUCE_MEAN, TD_REDUCE_SQUARES } td_reduce_kind;

/* y [outer, inner], added to if `add` (the gradient of a bias, say). `workspace` holds
 * td_op_reduce_workspace() words and may be a zero span if that is 0. */
typedef struct td_reduce_args {
    td_reduce_kind kind;
    uint32_t outer, axis, inner;
    td_span x, y, workspace;
    bool add;
} td_reduce_args;

uint64_t td_op_reduce_workspace(td_kernel_class kernel_class, uint32_t outer, uint32_t axis, uint32_t inner);
td_status td_op_reduce(td_list *list, const td_reduce_args *args);

/* dx [outer, axis, inner] from dy [outer, inner]; x is needed for squares alone. */
typedef struct td_reduce_back_args {
    td_reduce_kind kind;
    uint32_t outer, axis, inner;
    td_span dy, x, dx;
} td_reduce_back_args;

td_status td_op_reduce_back(td_list *list, const td_reduce_back_args *args);

/* y [outer, inner] = the largest along the axis, arg [outer, inner] (uint) = where, the first of equals. NaN
 * is passed over. axis < 2^24. */
typedef struct td_max_args {
    uint32_t outer, axis, inner;
    td_span x, y, arg;
} td_max_args;

td_status td_op_max(td_list *list, const td_max_args *args);

/* dx [outer, axis, inner] = dy [outer, inner] where arg says, else 0. */
typedef struct td_max_back_args {
    uint32_t outer, axis, inner;
    td_span dy, arg, dx;
} td_max_back_args;

td_status td_op_max_back(td_list *list, const td_max_back_args *args);

#endif
