/* The optimiser: norm and clipping of the gradient, AdamW, and a running average, over flat blocks of
 * parameters.
 *
 * What changes from step to step lies in a control block of TD_CONTROL_WORDS words on the device
 * (kernels/optim_geometry.h): the host writes the learning rate there, the device the rest, so a recorded
 * step is replayed as it is. Before the first step the block is all zeros but for the learning rate; a
 * checkpoint keeps it. A gradient with an infinite or undefined norm skips the step: nothing changes but the
 * count of skipped steps.
 *
 * Spans are borrowed until the list is destroyed; a zero td_span is an argument left out. Kernels:
 * src/kernels/square_sum.kh, clip_control.kh, adamw.kh, ema.kh. Covered by tests/ops/cases_optim.c.
 */
#ifndef TD_OPS_OPTIM_H
#define TD_OPS_OPTIM_H

#include <stdbool.h>

#include "device/dispatch.h"

/* Sums of squares of n elements, in td_op_square_sum_parts(n) parts written from partial[first] on. Blocks
 * too large for one buffer are summed one after the other into the same `partial`. */
td_status td_op_square_sum(td_list *list, uint32_t n, td_span x, td_span partial, uint32_t first);
uint32_t td_op_square_sum_parts(td_kernel_class kernel_class, uint32_t n);

/* Turns the parts of all blocks into norm and clip factor, and counts the step (or skips it). */
typedef struct td_clip_args {
    uint32_t parts;
    float max_norm;        /* 0: no clipping */
    float beta1, beta2;    /* of Adam; 0 <= beta < 1 */
    uint32_t growth_steps; /* after which the loss scale is doubled; 0: it stays as it is */
    td_span partial;       /* [parts] */
    td_span control;       /* [TD_CONTROL_WORDS] */
} td_clip_args;

td_status td_op_clip(td_list *list, const td_clip_args *args);

/* Elements first .. first + count have this weight decay. */
typedef struct td_decay_range {
    uint32_t first, count;
    float decay;
} td_decay_range;

/* m and v are the gradient's running first and second moments. One launch per range; elements in no range
 * stay. */
typedef struct td_adamw_args {
    float beta1, beta2, eps;
    const td_decay_range *ranges; /* borrowed during the call; they do not overlap */
    size_t n_ranges;
    td_span g;       /* gradient */
    td_span control; /* as td_op_clip left it */
    td_span w, m, v; /* updated */
    uint32_t format; /* of the shadow: TD_FORMAT_BF16 ... */
    td_span shadow;  /* w in 16 bits, two to a word, the first in the low half; or left out. Every range then
                        starts at an even element, and only the last may have an odd count. */
} td_adamw_args;

td_status td_op_adamw(td_list *list, const td_adamw_args *args);

/* The same over n elements with moments in fewer bits, as src/kernels/adamw_packed.kh has them. */
typedef struct td_adamw_packed_args {
    uint32_t bits;   /* 16 or 8 */
    uint32_t n;      /* with 8 bits a multiple of TD_STATE_BLOCK */
    uint32_t scales; /* with 8 bits: words from m and v to the largest magnitudes; 0: behind the n numbers */
    float beta1, beta2, eps, decay;
    td_span g, control;
    td_span w, m, v; /* updated */
    uint32_t format; /* of the shadow, as above */
    td_span shadow;
} td_adamw_packed_args;

td_status td_op_adamw_packed(td_list *list, const td_adamw_packed_args *args);

/* average += (1 - decay) (w - average). With control given, decay is at most (1 + t) / (10 + t), t = steps
 * taken. */
typedef struct td_ema_args {
    uint32_t n;
    float decay;
    td_span w, average; /* [n] */
    td_span control;    /* or left out */
} td_ema_args;

td_status td_op_ema(td_list *list, const td_ema_args *args);

#endif
