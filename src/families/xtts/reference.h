/* What XTTS hears of a recording, as its reference implementation does: samples at the GPT's rate, and the speaker
 * encoder's spectrogram. Host work in double, once for each recording. Covered by tests/xtts/test_xtts_audio.c.
 */
#ifndef TD_FAMILIES_XTTS_REFERENCE_H
#define TD_FAMILIES_XTTS_REFERENCE_H

#include "families/xtts/xtts_config.h"

/* A recording: mean of its channels, resampled to model.input_sample_rate, clipped, cut to model.max_ref_len and, with
 * model.sound_norm_refs, scaled. *out: owned, free(). TD_ERR_FORMAT for silence. */
td_status td_xtts_hear(const td_xtts *c, const char *path, float **out, size_t *count);

/* The front end of the speaker encoder, whose window and filters are in the model's file. */
typedef struct td_xtts_ear {
    const float *window;  /* [n_window] */
    const float *filters; /* [n_fft / 2 + 1, bands] */
    size_t n_window;
    uint32_t bands;
    float emphasis; /* y[t] = x[t] + emphasis x[t - 1] */
} td_xtts_ear;

/* Samples at TD_XTTS_SPEAKER_RATE to *mel [bands, *frames]: logarithms, each band with mean 0 and variance 1. Owned,
 * free(). */
td_status td_xtts_listen(const td_xtts_ear *ear, const float *samples, size_t count, float **mel,
                         uint32_t *frames);

#endif
