/* Convolutions along the frames in which each channel has taps of its own, and their gradients. B T C are items,
 * frames and channels; as many frames come out as go in, zeros lie beyond the ends. Covered by
 * tests/ops/cases_spectral.c. */
#ifndef TD_OPS_DEPTHWISE_H
#define TD_OPS_DEPTHWISE_H

#include <stdbool.h>

#include "device/dispatch.h"

typedef struct td_depthwise {
    uint32_t items, frames, channels, taps;
    uint32_t before; /* zeros before the first frame; below taps */
} td_depthwise;

/* y[b, t, c] = sum over j of w[j, c] x[b, t + j - before, c]; x, y [B, T, C], w [taps, C]. */
td_status td_op_depthwise(td_list *list, const td_depthwise *d, td_span x, td_span w, td_span y);

/* dx from dy. */
td_status td_op_depthwise_back_data(td_list *list, const td_depthwise *d, td_span dy, td_span w, td_span dx);

/* What each item adds to dw: [B, taps, C]. */
td_status td_op_depthwise_back_weights(td_list *list, const td_depthwise *d, td_span x, td_span dy,
                                       td_span dw);

#endif
