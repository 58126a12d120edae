/* Copy-synthesis: a recording to its spectrogram and back, without a model. What a vocoder costs in quality
 * is heard and measured with it. Also makes the spectrogram of a reference recording. Covered by
 * tests/synth/test_copy.c.
 */
#ifndef TD_SYNTH_COPY_H
#define TD_SYNTH_COPY_H

#include "audio/vocoder.h"

/* A spectrogram on the device. */
typedef struct td_copy_mel {
    td_span mel; /* [1, frames, n_mels]; owned: td_memory_free() */
    uint32_t frames;
} td_copy_mel;

/* Waits for the result. `count` > 0. */
td_status td_copy_analyse(const td_mel *mel, td_memory *memory, const float *samples, size_t count,
                          td_copy_mel *out);

/* *out: owned, free(); as long as the input, to within a hop. */
td_status td_copy_run(td_vocoder *vocoder, const td_mel *mel, td_memory *memory, const float *samples,
                      size_t count, uint64_t seed, float **out, size_t *out_count);

#endif
