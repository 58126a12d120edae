/* Convolutions over activations with channels last, in one and two dimensions, plain and transposed, and
 * their backward passes. Every product is td_gemm()'s; sums have a fixed order.
 *
 *   x [batch, in_height, in_width, in_channels]   y [batch, out_height, out_width, out_channels]
 *   w [groups, kernel_width, kernel_height, in_channels / groups, out_channels / groups]
 *
 * so that w of one dimension is [taps, in, out]. Transposed, w is that of the convolution whose data gradient
 * it computes: the last two axes are out_channels / groups, in_channels / groups. Nothing is allocated when a
 * list runs: scratch is the caller's, td_conv_workspace() tells how much. Covered by tests/ops/cases_conv.c.
 */
#ifndef TD_OPS_CONV_H
#define TD_OPS_CONV_H

#include "device/dispatch.h"
#include "kernels/gemm_geometry.h"

/* How it is computed. AUTO decides by device and shape; the other is for tests. */
typedef enum td_conv_way {
    TD_CONV_AUTO,
    TD_CONV_WINOGRAD /* with fewer products, where that can be done (ops/winograd.h), else as AUTO */
} td_conv_way;

/* Zero means one for heights, strides, dilations and groups: one dimension is a height of one. */
typedef struct td_conv {
    uint32_t batch, in_height, in_width, in_channels, out_channels;
    uint32_t kernel_height, kernel_width;
    uint32_t stride_height, stride_width;
    uint32_t dilation_height, dilation_width;
    uint32_t pad_top, pad_bottom, pad_left, pad_right; /* zeros around x; transposed: what is cut off y */
    uint32_t groups;
    bool transposed;
    uint32_t extra_height, extra_width; /* transposed: more of y at its end, below the stride */
    uint32_t
        w_format; /* of w where it is read: TD_FORMAT_FP32, or TD_FORMAT_BF16 ... with an even last axis */
    td_conv_way way;
} td_conv;

/* Sets the pads so that y is in / stride long, rounded up, with the odd zero at the end. */
void td_conv_pad_same(td_conv *conv);

/* Sets the pads of the width so that y at t knows nothing of x after t * stride. */
void td_conv_pad_causal(td_conv *conv);

/* Fails for a convolution that cannot be. */
td_status td_conv_output(const td_conv *conv, uint32_t *height, uint32_t *width);

typedef enum td_conv_pass { TD_CONV_FORWARD, TD_CONV_BACK_DATA, TD_CONV_BACK_WEIGHTS } td_conv_pass;

/* Bytes of workspace for this pass on this device. */
td_status td_conv_workspace(const td_conv *conv, td_conv_pass pass, td_device *device, uint64_t *bytes);

/* pre = conv(x, w) + bias;  y = activation(pre) + residual. Zero spans: not used. Transposed takes no
 * activation, pre and residual. Nothing may overlap y or pre. */
typedef struct td_conv_args {
    td_conv conv;
    td_span x, w, y;
    td_span bias;        /* out_channels */
    uint32_t activation; /* TD_GEMM_LINEAR, TD_GEMM_RELU ... */
    td_span pre, residual;
    td_span workspace; /* at least td_conv_workspace() bytes; may be shared by the passes of one list */
} td_conv_args;

td_status td_op_conv(td_list *list, const td_conv_args *args);

/* dx from dy, the gradient of conv(x, w) + bias; `add`: added to dx. */
typedef struct td_conv_back_data_args {
    td_conv conv;
    td_span dy, w, dx;
    bool add;
    td_span workspace;
} td_conv_back_data_args;

td_status td_op_conv_back_data(td_list *list, const td_conv_back_data_args *args);

/* dw and, unless a zero span, dbias; `add`: added to both. */
typedef struct td_conv_back_weights_args {
    td_conv conv;
    td_span x, dy, dw, dbias;
    bool add;
    td_span workspace;
} td_conv_back_weights_args;

td_status td_op_conv_back_weights(td_list *list, const td_conv_back_weights_args *args);

#endif
