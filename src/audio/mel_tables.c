/* See mel_tables.h. Mel scales: HTK's 2595 log10(1 + f / 700), and Slaney's of the Auditory Toolbox, linear
 * up to 1000 Hz and logarithmic above. */
#include "audio/mel_tables.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "kernels/audio_geometry.h"
#include "ops/stft.h"

#define PI 3.14159265358979323846
#define SLANEY_STEP_HZ (200.0 / 3.0)
#define SLANEY_LINEAR_HZ 1000.0
#define SLANEY_LINEAR_MELS (SLANEY_LINEAR_HZ / SLANEY_STEP_HZ)
#define SLANEY_LOG_STEP (log(6.4) / 27.0)
#define OCTAVE_COST 0.02 /* of the frame's power, for each octave that a pitch lies below the highest */

/* ---------------------------------------------------------------- filterbank */

static double to_mel(td_mel_scale scale, double hz)
{
    if (scale == TD_MEL_HTK) return 2595.0 * log10(1.0 + hz / 700.0);
    if (hz < SLANEY_LINEAR_HZ) return hz / SLANEY_STEP_HZ;
    return SLANEY_LINEAR_MELS + log(hz / SLANEY_LINEAR_HZ) / SLANEY_LOG_STEP;
}

static double to_hz(td_mel_scale scale, double mel)
{
    if (scale == TD_MEL_HTK) return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
    if (mel < SLANEY_LINEAR_MELS) return mel * SLANEY_STEP_HZ;
    return SLANEY_LINEAR_HZ * exp(SLANEY_LOG_STEP * (mel - SLANEY_LINEAR_MELS));
}

/* The i-th of n_mels + 2 corners of triangles, equally far apart in mels. */
static double corner_hz(const td_mel_config *c, uint32_t i)
{
    const double low = to_mel(c->mel_scale, (double)c->fmin_hz);
    const double high = to_mel(c->mel_scale, (double)c->fmax_hz);
    return to_hz(c->mel_scale, low + (high - low) * i / (c->n_mels + 1));
}

static double weight_of(const td_mel_config *c, uint32_t band, uint32_t bin)
{
    const double left = corner_hz(c, band), middle = corner_hz(c, band + 1), right = corner_hz(c, band + 2);
    const double hz = (double)bin * c->rate / c->n_fft;
    const double height = fmin((hz - left) / (middle - left), (right - hz) / (right - middle));
    return (height > 1e-9 ? height : 0) * /* a corner that lies on a bin may miss it by rounding */
           (c->area_norm ? 2 / (right - left) : 1);
}

/* Rows of bins with weight, one band after the other; and seen from a bin, the first band that holds it and
 * how it shares itself between that one and the next. */
static void fill_bands(const td_mel_config *c, td_mel_tables *t, uint32_t weights_at)
{
    const uint32_t bins = c->n_fft / 2 + 1;
    uint32_t *bands = t->words + c->n_fft / 2;
    uint32_t *first_band = bands + (size_t)3 * c->n_mels;
    float *shares = t->floats + t->shares;
    uint32_t at = weights_at;
    for (uint32_t m = 0; m < c->n_mels; m++) {
        uint32_t *row = bands + (size_t)3 * m;
        row[2] = at;
        for (uint32_t k = 0; k < bins; k++) {
            const double weight = weight_of(c, m, k);
            if (weight == 0) continue;
            if (row[1]++ == 0) row[0] = k;
            t->floats[at++] = (float)weight;
            if (shares[(size_t)2 * k] == 0) {
                first_band[k] = m;
                shares[(size_t)2 * k] = (float)weight;
            } else {
                shares[2 * k + 1] = (float)weight;
            }
        }
    }
    for (uint32_t k = 0; k < bins; k++) {
        const float sum = shares[(size_t)2 * k] + shares[(size_t)2 * k + 1];
        if (sum == 0) continue;
        shares[(size_t)2 * k] /= sum;
        shares[2 * k + 1] /= sum;
    }
}

/* Solves (F F^T) x = y for one column y after another in place, F F^T = L L^T given by L's lower triangle. */
static void solve_column(const double *lower, uint32_t n, double *x)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            x[i] -= lower[i * n + k] * x[k];
        x[i] /= lower[i * n + i];
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++)
            x[i] -= lower[k * n + i] * x[k];
        x[i] /= lower[i * n + i];
    }
}

/* Cholesky's L of F F^T, F [n, bins]; bands without a bin get a 1 in place of their 0. */
static void decompose(const double *f, uint32_t n, uint32_t bins, double *lower)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < bins; k++)
                sum += f[(size_t)i * bins + k] * f[(size_t)j * bins + k];
            for (uint32_t k = 0; k < j; k++)
                sum -= lower[i * n + k] * lower[j * n + k];
            if (i == j)
                lower[i * n + i] = sum > 1e-20 ? sqrt(sum) : 1;
            else
                lower[i * n + j] = sum / lower[j * n + j];
        }
}

td_status td_mel_filterbank(const td_mel_config *c, bool inverse, float *out)
{
    const uint32_t bins = c->n_fft / 2 + 1, n = c->n_mels;
    double *f = NULL, *lower = NULL, *column = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&f, (size_t)n * bins));
    TD_TRY(TD_NEW_ARRAY(&lower, (size_t)n * n));
    TD_TRY(TD_NEW_ARRAY(&column, n));
    for (uint32_t m = 0; m < n; m++)
        for (uint32_t k = 0; k < bins; k++)
            f[(size_t)m * bins + k] = weight_of(c, m, k);
    if (inverse) decompose(f, n, bins, lower);
    for (uint32_t k = 0; k < bins; k++) {
        for (uint32_t m = 0; m < n; m++)
            column[m] = f[(size_t)m * bins + k];
        if (inverse) solve_column(lower, n, column);
        for (uint32_t m = 0; m < n; m++)
            out[inverse ? (size_t)m * bins + k : (size_t)k * n + m] = (float)column[m];
    }
fail:
    free(f);
    free(lower);
    free(column);
    return status;
}

td_status td_mel_tables_make(const td_mel_config *c, td_mel_tables *out)
{
    const uint32_t bins = c->n_fft / 2 + 1;
    const uint32_t weights_at = 6 * c->n_fft;
    td_status status = TD_OK;
    *out = (td_mel_tables){.shares = weights_at + 2 * bins, /* a bin has two weights at most */
                           .n_floats = weights_at + 4 * bins,
                           .n_words = c->n_fft / 2 + 3 * c->n_mels + bins};
    TD_TRY(TD_NEW_ARRAY(&out->floats, out->n_floats));
    TD_TRY(TD_NEW_ARRAY(&out->words, out->n_words));
    float *lows = out->floats + (size_t)3 * c->n_fft;
    out->window_power = td_fft_window(out->floats, lows, c->n_fft, c->win_samples);
    td_fft_roots(out->floats + c->n_fft, lows + c->n_fft, c->n_fft);
    td_fft_order(out->words, c->n_fft / 2);
    fill_bands(c, out, weights_at);
    return TD_OK;
fail:
    td_mel_tables_free(out);
    return status;
}

/* ---------------------------------------------------------------- pitch */

static double correlate_window(const float *window, uint32_t lag)
{
    double sum = 0;
    for (uint32_t n = 0; n + lag < TD_PITCH_WINDOW; n++)
        sum += (double)window[n] * (double)window[n + lag];
    return sum;
}

td_status td_pitch_tables_make(const td_mel_config *c, td_mel_tables *out)
{
    const uint32_t size = 1u << TD_PITCH_LOG2;
    const uint32_t lags = TD_PITCH_MAX_LAG + 1;
    td_status status = TD_OK;
    *out = (td_mel_tables){.n_floats = TD_PITCH_WINDOW + 2 * size + 2 * lags, .n_words = size / 2};
    TD_TRY(TD_NEW_ARRAY(&out->floats, out->n_floats));
    TD_TRY(TD_NEW_ARRAY(&out->words, out->n_words));
    float *gain = out->floats + TD_PITCH_WINDOW + (size_t)2 * size;
    float *cost = gain + lags;
    out->window_power = td_fft_window(out->floats, NULL, TD_PITCH_WINDOW, TD_PITCH_WINDOW);
    td_fft_roots(out->floats + TD_PITCH_WINDOW, NULL, size);
    td_fft_order(out->words, size / 2);
    for (uint32_t lag = 0; lag < lags; lag++) {
        gain[lag] = (float)(out->window_power / correlate_window(out->floats, lag));
        cost[lag] = (float)(OCTAVE_COST * log2(fmax(1, lag * (double)c->pitch_max_hz / c->rate)));
    }
    return TD_OK;
fail:
    td_mel_tables_free(out);
    return status;
}

void td_mel_tables_free(td_mel_tables *tables)
{
    free(tables->floats);
    free(tables->words);
    *tables = (td_mel_tables){0};
}
