/* How far made samples are from recorded ones, by their spectra: what every family that makes sound learns from.
 * docs/vocoder.md. B S are items and samples. Covered by tests/model/test_model_golden.c.
 */
#ifndef TD_FAMILIES_WAVE_LOSS_H
#define TD_FAMILIES_WAVE_LOSS_H

#include "audio/mel_config.h"
#include "nn/nn.h"

/* |x|, and the mean over all of x, [1]. */
td_tensor td_wave_abs(td_graph *g, td_tensor x);
td_tensor td_wave_mean(td_graph *g, td_tensor x);

/* sqrt(re^2 + im^2 + eps) of a spectrum [B, T, 2, bins]: [B, T, bins]. */
td_tensor td_wave_sizes_of(td_graph *g, td_tensor spectrum, float eps);

/* Sizes of the bins [B, T, bins] of samples [B, S], never 0. */
td_tensor td_wave_sizes(td_graph *g, td_tensor wave, const td_stft_options *way);

/* A front end's filterbank [bins, n_mels], or its pseudo-inverse [n_mels, bins]: a constant of the graph. */
td_tensor td_wave_bands(td_graph *g, const td_mel_config *mel, bool inverse);

/* Natural logarithms of a front end's bands [B, T, n_mels] of samples [B, S], from the first whole window to the last. */
td_tensor td_wave_mel(td_graph *g, const td_mel_config *mel, td_tensor wave);

/* Made samples [B, S] against recorded ones, at three resolutions, [1]. */
td_tensor td_wave_spectral_loss(td_graph *g, td_tensor made, td_tensor recorded);

#endif
