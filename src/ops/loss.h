/* Losses: cross-entropy over classes, and element-wise losses over the valid frames of a padded batch. Each
 * is the mean over what counts, reduced to one number on the device, and can write its gradient in the same
 * pass.
 *
 * Spans are borrowed until the list is destroyed; a zero td_span is an argument left out. Kernels:
 * src/kernels/cross_entropy.kh, loss_*.kh. Covered by tests/ops/cases_loss.c.
 */
#ifndef TD_OPS_LOSS_H
#define TD_OPS_LOSS_H

#include "device/dispatch.h"

/* For each row: logsumexp(x) - (1 - smoothing) x[target] - smoothing mean(x). A row counts unless its target
 * is `ignore` or not a class; other rows have loss 0 and gradient 0. */
typedef struct td_cross_entropy_args {
    uint32_t rows, classes;
    uint32_t ignore; /* UINT32_MAX: none */
    float smoothing; /* 0 <= smoothing < 1 */
    float weight;    /* of this loss in the gradient: dx = weight * dloss/dx */
    td_span x;       /* [rows, classes]: logits */
    td_span target;  /* uint [rows] */
    td_span per_row; /* [rows]: loss of each row */
    td_span scale;   /* [1]: 1 / rows that count */
    td_span loss;    /* [1]: mean over the rows that count, without weight */
    td_span dx;      /* [rows, classes], or left out; may lie over x */
} td_cross_entropy_args;

td_status td_op_cross_entropy(td_list *list, const td_cross_entropy_args *args);

typedef enum td_loss_kind {
    TD_LOSS_L1,    /* |x - y| */
    TD_LOSS_MSE,   /* (x - y)^2 */
    TD_LOSS_HUBER, /* (x - y)^2 / 2 up to |x - y| = shape, then straight on */
    TD_LOSS_BCE, /* binary cross-entropy of logits x and labels y in 0..1; shape weighs the positive class */
} td_loss_kind;

/* Mean over the first lengths[b] frames of each item b. Behind them x and y may hold anything and dx is 0. */
typedef struct td_masked_loss_args {
    td_loss_kind kind;
    uint32_t items, frames, channels;
    float shape;     /* Huber: > 0; BCE: weight of the positive class, 1 for none; else unused */
    float weight;    /* of this loss in the gradient: dx = weight * dloss/dx */
    td_span x, y;    /* [B, T, C]: prediction, target */
    td_span lengths; /* uint [B]: valid frames; more than T counts as T */
    td_span partial; /* scratch of td_op_masked_loss_partial words */
    td_span scale;   /* [1]: 1 / elements that count */
    td_span loss;    /* [1]: the mean, without weight; 0 where nothing counts */
    td_span dx;      /* [B, T, C], or left out; may lie over x */
} td_masked_loss_args;

td_status td_op_masked_loss(td_list *list, const td_masked_loss_args *args);
uint64_t td_op_masked_loss_partial(td_kernel_class kernel_class, uint32_t items, uint32_t frames,
                                   uint32_t channels);

/* What losses of other headers end with. scale [1] = 1 / (sum of min(lengths[i], limit)), 0 of nothing; lengths
 * uint [n]. loss [1] = scale * sum of partial [n], in fixed order. */
td_status td_op_loss_count(td_list *list, uint32_t n, uint32_t limit, td_span lengths, td_span scale);
td_status td_op_loss_total(td_list *list, uint32_t n, td_span partial, td_span scale, td_span loss);

#endif
