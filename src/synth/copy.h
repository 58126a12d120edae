/* Copy-synthesis: a recording to its spectrogram and back, without a model. What a vocoder costs in quality
 * is heard and measured with it. Covered by tests/synth/test_copy.c.
 */
#ifndef TD_SYNTH_COPY_H
#define TD_SYNTH_COPY_H

#include "audio/mel_clip.h"
#include "audio/vocoder.h"

/* *out: owned, free(); as long as the input, to within a hop. */
td_status td_copy_run(td_vocoder *vocoder, const td_mel *mel, td_memory *memory, const float *samples,
                      size_t count, uint64_t seed, float **out, size_t *out_count);

#endif
