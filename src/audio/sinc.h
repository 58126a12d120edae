/* Resampling by a windowed sinc: the filter that torchaudio's `resample` has by default (six zero crossings, a Hann
 * window, a cut-off at 0.99 of the lower half rate), for models that were trained with it. Taps and sums are in
 * double. Other recordings go through decode.h. Covered by tests/xtts/test_xtts_audio.c.
 */
#ifndef TD_AUDIO_SINC_H
#define TD_AUDIO_SINC_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* `count` samples at `from` Hz to *out_count = ceil(count * to / from) at `to` Hz. *out: owned, free(). */
td_status td_sinc_resample(const float *samples, size_t count, uint32_t from, uint32_t to, float **out,
                           size_t *out_count);

#endif
