/* The constants that the kernels of the family "audio" read: windows, roots of unity, filterbank. Computed in
 * double; layouts as the heads of src/kernels/mel.kh, unmel.kh and pitch.kh say. Covered by
 * tests/ops/cases_audio.c and tests/audio/test_mel.c.
 */
#ifndef TD_AUDIO_MEL_TABLES_H
#define TD_AUDIO_MEL_TABLES_H

#include "audio/mel_config.h"

typedef struct td_mel_tables {
    float *floats; /* owned */
    uint32_t *words;
    uint32_t n_floats, n_words;
    uint32_t shares;     /* where in floats those of unmel begin; 0 for pitch */
    double window_power; /* sum of the squares of the window */
} td_mel_tables;

/* For mel, unmel, griffin and overlap_add, whose window they begin with. config is checked. */
td_status td_mel_tables_make(const td_mel_config *config, td_mel_tables *out);

/* The filterbank as a matrix [n_fft / 2 + 1, n_mels]; or its pseudo-inverse, [n_mels, n_fft / 2 + 1]: what gives
 * back of all spectra with these bands the one with the smallest squares. */
td_status td_mel_filterbank(const td_mel_config *config, bool inverse, float *out);

/* For pitch. */
td_status td_pitch_tables_make(const td_mel_config *config, td_mel_tables *out);

/* Fine for zeros, and after a failure. */
void td_mel_tables_free(td_mel_tables *tables);

#endif
