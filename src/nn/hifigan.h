/* The generator of HiFi-GAN: frames of features to samples, through stages that each make the signal longer and
 * then refine it by residual blocks of several widths. A speaker vector may be added before the first stage and in
 * each. Covered by tests/xtts/test_xtts_parts.c.
 *
 *   conv_pre, [cond_layer]
 *   for each stage s: leaky ReLU, ups.s (transposed), [conds.s], the mean of resblocks.(s * n_kernels + j)
 *   leaky ReLU, conv_post, tanh
 *
 * Weights are [taps, in, out]; those of ups [taps, out, in] (ops/conv.h). With weight norm a weight is made of two
 * parameters, weight_g over the last axis and weight_v: g v / |v|, the norm over the other axes. PyTorch's have their
 * axes the other way round, [out, in, taps], and weight norm, of ups and resblocks alone, is
 * parametrizations.weight.original0 [out, 1, 1] and original1.
 */
#ifndef TD_NN_HIFIGAN_H
#define TD_NN_HIFIGAN_H

#include "nn/nn.h"

enum { TD_HIFIGAN_STAGES = 8, TD_HIFIGAN_KERNELS = 4, TD_HIFIGAN_DILATIONS = 4 };

typedef enum td_hifigan_weights {
    TD_HIFIGAN_PLAIN,  /* as they are used, without weight norm */
    TD_HIFIGAN_NORMED, /* all of them with weight norm */
    TD_HIFIGAN_TORCH   /* with the names and shapes that PyTorch's have in files */
} td_hifigan_weights;

typedef struct td_hifigan {
    uint32_t channels; /* of the first layer; each stage halves them */
    uint32_t n_stages, rates[TD_HIFIGAN_STAGES], taps[TD_HIFIGAN_STAGES];
    uint32_t n_kernels, kernels[TD_HIFIGAN_KERNELS]; /* odd: taps of the residual blocks of a stage */
    uint32_t n_dilations, dilations[TD_HIFIGAN_DILATIONS];
    float slope, last_slope; /* of the leaky ReLUs, and of the one before conv_post */
    bool post_bias;
    td_hifigan_weights weights;
} td_hifigan;

/* z [B, T, C], speaker [B, D] or left out: samples [B, T * product of the rates]. */
td_tensor td_nn_hifigan(td_nn *nn, const td_hifigan *h, td_tensor z, td_tensor speaker);

/* Frames on each side of a frame that its samples depend on. */
uint32_t td_hifigan_reach(const td_hifigan *h);

#endif
