/* The layers of XTTS with the names and layouts of Coqui's files: a linear layer's weight is [out, in], so that what
 * is trained or imported is stored as it is used. Convolutions of the vocoder and the speaker encoder are the one
 * exception (load.h). Covered by tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_LAYERS_H
#define TD_FAMILIES_XTTS_LAYERS_H

#include "families/xtts/xtts_config.h"

/* x [.., C] times NAME.weight [width, C] transposed, plus NAME.bias. */
td_tensor td_xtts_linear(td_nn *nn, const char *name, td_tensor x, uint32_t width);

/* The same without a bias; and of a convolution over one frame, whose weight is [width, C, 1]. */
td_tensor td_xtts_project(td_nn *nn, const char *name, td_tensor x, uint32_t width);
td_tensor td_xtts_pointwise(td_nn *nn, const char *name, td_tensor x, uint32_t width);

/* Layer norm with NAME.weight and NAME.bias. */
td_tensor td_xtts_norm(td_nn *nn, const char *name, td_tensor x);

/* NAME.weight or NAME.bias of a norm: begins as ones or zeros. */
td_tensor td_xtts_scale(td_nn *nn, const char *name, uint32_t width);
td_tensor td_xtts_offset(td_nn *nn, const char *name, uint32_t width);

/* ---------------------------------------------------------------- the parts */

/* Spectrogram [B, S, n_mels] (logarithms) divided by mel_stats, as the GPT and the DVAE hear it. */
td_tensor td_xtts_divide(td_nn *nn, const td_xtts *c, td_tensor mel);

/* Divided spectrogram [B, S, n_mels] to [B, latents, width]. */
td_tensor td_xtts_condition(td_nn *nn, const td_xtts *c, td_tensor divided);

/* Its two halves: [B, S, width], then [B, n, width] of that. */
td_tensor td_xtts_encode_reference(td_nn *nn, const td_xtts *c, td_tensor divided);
td_tensor td_xtts_perceive(td_nn *nn, const td_xtts *c, td_tensor encoded);

/* Normalised spectrogram [1, bands, T] to a vector [1, d] of length 1. */
td_tensor td_xtts_speaker(td_nn *nn, const td_xtts *c, td_tensor mel);

/* Frames [1, T, width] and the speaker's vector [1, d] to samples [1, T * hop]. */
td_tensor td_xtts_vocode(td_nn *nn, const td_xtts *c, td_tensor frames, td_tensor speaker);

/* The same of any number of items, with its parameters as files have them. */
td_tensor td_xtts_vocode_filed(td_nn *nn, const td_xtts *c, td_tensor frames, td_tensor speaker);

/* Frames on each side that a frame's samples depend on. */
uint32_t td_xtts_vocoder_reach(const td_xtts *c);

#endif
