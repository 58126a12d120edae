/* XTTS's vocoder learns: what it makes of latents is compared with the recording, and judged by discriminators
 * (families/adversary.h). Everything else is frozen and was asked before (hear.h). Covered by
 * tests/model/test_model_golden.c and tests/xtts/test_xtts_scratch.c.
 *
 * Inputs, B items of F frames:
 *
 *   latents         [B, F, width]        of which the last frame is not spoken
 *   speaker_vector  [B, d]
 *   wave            [B, (F - 1) hop]     of the recording, at the rate of what is spoken
 */
#ifndef TD_FAMILIES_XTTS_TUNE_VOCODER_H
#define TD_FAMILIES_XTTS_TUNE_VOCODER_H

#include "families/xtts/xtts_config.h"

enum { TD_XTTS_LEAST_CROP = 12 }; /* frames: the longest spectra that are compared are of 2048 samples */

td_tensor td_xtts_build_vocoder(td_nn *nn, const td_build *build);
float td_xtts_scalar(const void *values, const char *input, uint64_t step);

/* The front end of crops: the spectrogram that is compared, at the rate of what is spoken. */
td_mel_config td_xtts_spoken_mel(const void *values);

#endif
