/* Sequences of tokens or codes as models take them: with starts and stops around them, the rows of one laid right behind
 * those of another, targets hidden in part. All are uint, and none has a gradient. Spans are borrowed until the list is
 * destroyed. Kernels: src/kernels/sequence_*.kh. Covered by tests/ops/cases_sequence.c.
 */
#ifndef TD_OPS_SEQUENCE_H
#define TD_OPS_SEQUENCE_H

#include <stdbool.h>

#include "device/dispatch.h"

/* What comes around the ids of an item: `before` times `first`, the ids, `after` times `last`, then `rest`. */
typedef struct td_wrapping {
    uint32_t before, first;
    uint32_t after, last;
    uint32_t rest;
} td_wrapping;

typedef struct td_wrap_args {
    uint32_t items, width, columns;
    td_wrapping wrapping;
    td_span ids;    /* [items, width] */
    td_span counts; /* [items]: ids of each; more than `width` counts as `width` */
    td_span y;      /* [items, columns] */
} td_wrap_args;

td_status td_op_sequence_wrap(td_list *list, const td_wrap_args *args);

/* Items have start + width rows of a first part, of which start + counts[b] count, then a second part. */
typedef struct td_rows_args {
    uint32_t items, columns, start, width;
    bool
        joins; /* y: rows to take so that the second part follows without a gap; else where its rows are then */
    td_span counts; /* [items] */
    td_span y;      /* [items, columns] */
} td_rows_args;

td_status td_op_sequence_rows(td_list *list, const td_rows_args *args);

/* y = x, but `value` from ranges[b][0] / divisor to before ranges[b][1] / divisor, of the items from `item` on. */
typedef struct td_hide_args {
    uint32_t items, columns, item, divisor, value;
    td_span x, ranges; /* [items, columns], [items, 2] */
    td_span y;         /* [items, columns] */
} td_hide_args;

td_status td_op_sequence_hide(td_list *list, const td_hide_args *args);

#endif
