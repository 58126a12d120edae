/* Normalisations: layer and RMS norm and softmax along rows, batch and group norm per channel; forward and
 * backward.
 *
 * Tensors are fp32 and row-major; B T C are items, frames and channels, so that channels are always innermost
 * ([B, T, C]). A zero td_span is an argument left out, where that is allowed. Spans are borrowed until the
 * list is destroyed. Functions record into the list and launch nothing. Kernels: src/kernels/norm_rows*.kh,
 * channel_*.kh, softmax*.kh. Covered by tests/ops/cases_norm.c.
 */
#ifndef TD_OPS_NORM_H
#define TD_OPS_NORM_H

#include <stdbool.h>

#include "device/dispatch.h"

/* ---------------------------------------------------------------- layer and RMS norm */

typedef enum td_norm_kind { TD_NORM_LAYER, TD_NORM_RMS } td_norm_kind;

/* y = norm(v) gamma + beta for each row, v = x or x + residual. */
typedef struct td_norm_args {
    td_norm_kind kind;
    uint32_t rows, columns;
    float eps;
    td_span x;           /* [rows, columns] */
    td_span residual;    /* [rows, columns], or left out */
    td_span gamma, beta; /* [columns]; RMS has no beta */
    td_span y;           /* [rows, columns]; may lie over x or residual */
    td_span sum;         /* [rows, columns]: x + residual; only with residual; may lie over x or residual */
    td_span stats;       /* layer [2, rows]: means, 1/deviations; RMS [rows]: 1/deviations */
} td_norm_args;

td_status td_op_norm(td_list *list, const td_norm_args *args);

/* With h = (v - mean) / deviation and g = dy gamma: dx = (g - mean(g) - h mean(g h)) / deviation + extra
 * (RMS: without mean(g)), dgamma = sum of dy h over rows, dbeta = sum of dy. One pass makes all three. */
typedef struct td_norm_back_args {
    td_norm_kind kind;
    uint32_t rows, columns;
    bool accumulate;       /* add to dgamma and dbeta */
    td_span dy;            /* [rows, columns] */
    td_span v;             /* [rows, columns]: what was normalised: x, or sum with a residual */
    td_span gamma;         /* [columns] */
    td_span stats;         /* from the forward pass */
    td_span extra;         /* [rows, columns]: a gradient of v from elsewhere, or left out */
    td_span dx;            /* [rows, columns]: gradient of v; may lie over dy or extra */
    td_span dgamma, dbeta; /* [columns], or both left out; RMS has no dbeta */
    td_span partial;       /* scratch of td_op_norm_back_partial words; only with dgamma */
} td_norm_back_args;

td_status td_op_norm_back(td_list *list, const td_norm_back_args *args);
uint64_t td_op_norm_back_partial(td_kernel_class kernel_class, td_norm_kind kind, uint32_t rows,
                                 uint32_t columns);

/* ---------------------------------------------------------------- batch and group norm */

typedef enum td_channel_norm_kind {
    TD_NORM_GROUP,       /* statistics of each item and group of channels, over its frames */
    TD_NORM_BATCH_TRAIN, /* statistics of each channel over all items and frames; moves the running ones */
    TD_NORM_BATCH_EVAL,  /* the running statistics */
} td_channel_norm_kind;

/* y = (x - mean) gamma / deviation + beta. Padding frames count like others. */
typedef struct td_channel_norm_args {
    td_channel_norm_kind kind;
    uint32_t items, frames, channels;
    uint32_t groups; /* group norm alone: divides channels */
    float eps;
    float momentum;                    /* running += momentum (new - running), variance unbiased */
    td_span x;                         /* [B, T, C] */
    td_span gamma, beta;               /* [C] */
    td_span running_mean, running_var; /* [C]; batch norm alone */
    td_span y;                         /* [B, T, C]; may lie over x */
    td_span table;   /* for the backward pass: group [B, 2, C], batch [2, C]: mean, 1/deviation per channel */
    td_span partial; /* scratch of td_op_channel_norm_partial words; not for BATCH_EVAL */
} td_channel_norm_args;

td_status td_op_channel_norm(td_list *list, const td_channel_norm_args *args);
uint64_t td_op_channel_norm_partial(td_kernel_class kernel_class, td_channel_norm_kind kind, uint32_t items,
                                    uint32_t frames, uint32_t channels);

typedef struct td_channel_norm_back_args {
    td_channel_norm_kind kind;
    uint32_t items, frames, channels, groups;
    bool accumulate;       /* add to dgamma and dbeta */
    td_span dy, x;         /* [B, T, C] */
    td_span gamma;         /* [C] */
    td_span table;         /* from the forward pass */
    td_span dx;            /* [B, T, C]; may lie over dy */
    td_span dgamma, dbeta; /* [C] */
    td_span partial;       /* scratch of td_op_channel_norm_partial words */
    td_span means;         /* scratch as large as table; not for BATCH_EVAL */
} td_channel_norm_back_args;

td_status td_op_channel_norm_back(td_list *list, const td_channel_norm_back_args *args);

/* ---------------------------------------------------------------- softmax */

/* y = softmax(scale x + mask) along each row, over the columns it may see; zeros elsewhere, and everywhere in
 * a row that may see none. */
typedef struct td_softmax_args {
    uint32_t rows, columns;
    float scale;          /* > 0 */
    uint32_t item_rows;   /* rows of one item; needed with lengths */
    uint32_t queries;     /* causal: rows count 0 .. queries-1 again and again, and row q sees columns
                             0 .. q + columns - queries; 0: not causal */
    uint32_t mask_rows;   /* row r has mask row (r / mask_repeat) % mask_rows; needed with mask */
    uint32_t mask_repeat; /* 0: 1 */
    td_span x;            /* [rows, columns] */
    td_span mask;         /* [mask_rows, columns], added; or left out */
    td_span lengths;      /* uint [rows / item_rows]: columns that rows of an item see; or left out */
    td_span y;            /* [rows, columns]; may lie over x */
} td_softmax_args;

td_status td_op_softmax(td_list *list, const td_softmax_args *args);

/* dx = scale y (dy - sum of dy y along the row); dy finite everywhere; dx may lie over dy. */
typedef struct td_softmax_back_args {
    uint32_t rows, columns;
    float scale;
    td_span y, dy, dx; /* [rows, columns] */
} td_softmax_back_args;

td_status td_op_softmax_back(td_list *list, const td_softmax_back_args *args);

#endif
