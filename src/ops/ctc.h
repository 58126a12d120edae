/* Connectionist temporal classification: how likely a text is, given for each frame how likely each class is, over all
 * ways to lay the text's labels along the frames, with blanks (class 0) before, between and behind them. The mean over
 * all labels, and its gradient, in the log domain and in fixed order. A text that has no way along its frames (too few
 * of them) counts with loss 0 and gradient 0. Kernels: src/kernels/ctc_*.kh. Covered by tests/ops/cases_ctc.c.
 */
#ifndef TD_OPS_CTC_H
#define TD_OPS_CTC_H

#include "device/dispatch.h"

/* Spans are borrowed until the list is destroyed; a zero td_span is an argument left out. */
typedef struct td_ctc_args {
    uint32_t items, frames, classes, tokens;
    uint32_t edge;     /* tokens at each end of a text that are no labels, but its start and end */
    float weight;      /* of this loss in the gradient: dx = weight * dloss/dx */
    td_span x;         /* [items, frames, classes]: logits */
    td_span token_ids; /* uint [items, tokens] */
    td_span lengths;   /* uint [2, items]: tokens of each item, edges too, then frames of each */
    td_span workspace; /* td_op_ctc_workspace words */
    td_span per_item;  /* [items]: -log(probability) of each text */
    td_span scale;     /* [1]: 1 / tokens of all items */
    td_span loss;      /* [1]: sum of per_item * scale, without weight */
    td_span dx;        /* [items, frames, classes], or left out */
} td_ctc_args;

td_status td_op_ctc(td_list *list, const td_ctc_args *args);
uint64_t td_op_ctc_workspace(uint32_t items, uint32_t frames, uint32_t tokens);

#endif
