/* Power spectra of frames on the processor, for what looks at recordings where no device is open; training and
 * synthesis use mel.h. Covered by tests/audio/test_spectrum.c.
 */
#ifndef TD_AUDIO_SPECTRUM_H
#define TD_AUDIO_SPECTRUM_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* Tables of one length; immutable, so any number of threads may use them. */
typedef struct td_spectrum td_spectrum;

/* *out: owned, td_spectrum_destroy(). `n_fft`: a power of two from 8 on. */
td_status td_spectrum_create(uint32_t n_fft, td_spectrum **out);
void td_spectrum_destroy(td_spectrum *spectrum);

/* |X|^2 of `n_fft` samples under a periodic Hann window. `power`: n_fft / 2 + 1 values. `scratch`: 2 n_fft. */
void td_spectrum_run(const td_spectrum *spectrum, const float *samples, float *scratch, float *power);

#endif
