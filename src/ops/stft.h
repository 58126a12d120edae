/* Spectra of signals and signals of spectra, each the other's gradient: launches of the kernels stft, istft
 * and overlap_add. B S T are items, samples and frames. Covered by tests/ops/cases_spectral.c.
 *
 * Frame t holds the samples from t * hop on, under a periodic Hann window of `win` samples in the middle of
 * n_fft; there is no padding. A spectrum is [B, T, 2, n_fft / 2 + 1]: real parts, then imaginary parts.
 */
#ifndef TD_OPS_STFT_H
#define TD_OPS_STFT_H

#include "device/dispatch.h"

typedef struct td_stft {
    uint32_t n_fft, hop, win; /* 512, 1024 or 2048; from 1 to n_fft; from 2 to n_fft */
    uint32_t items, samples, frames;
    bool inverse; /* forward and adjoint of the inverse transform, else of the transform itself */
} td_stft;

/* Frames of so many samples; 0 if not even one fits. */
uint32_t td_stft_frames(const td_stft *stft, uint32_t samples);

/* TD_ERR_ARGUMENT says what cannot be. */
td_status td_stft_check(const td_stft *stft);

/* Words of the constants that all launches with this n_fft and win read. */
uint64_t td_stft_table_words(uint32_t n_fft);
void td_stft_table(uint32_t n_fft, uint32_t win, float *out);

/* Parts of such tables, for front ends too: a periodic Hann window of `win` samples in the middle of `size`
 * (returns the sum of its squares); cosines and negative sines of 2 pi k / size; bit-reversed indices. `lows`,
 * unless NULL, gets what is left of each value when it is rounded to float. */
double td_fft_window(float *out, float *lows, uint32_t size, uint32_t win);
void td_fft_roots(float *out, float *lows, uint32_t size);
void td_fft_order(uint32_t *out, uint32_t count);

typedef struct td_stft_args {
    td_stft stft;
    td_span signal, spectrum; /* [B, S], [B, T, 2, n_fft / 2 + 1] */
    td_span table;
    td_span workspace; /* td_stft_workspace() words; may be a zero span where that is 0 */
} td_stft_args;

/* Scratch of td_op_stft (to_signal false) or td_op_istft, in words. */
uint64_t td_stft_workspace(const td_stft *stft, bool to_signal);

/* spectrum from signal: the transform, or with `inverse` the adjoint of the inverse one. */
td_status td_op_stft(td_list *list, const td_stft_args *args);

/* signal from spectrum: with `inverse` the inverse transform, frames overlapped and added over the sum of
 * their windows squared (at least 1e-3); without, the adjoint of the transform. */
td_status td_op_istft(td_list *list, const td_stft_args *args);

#endif
