/* See reference.h. */
#include "families/xtts/reference.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "audio/decode.h"
#include "audio/sinc.h"
#include "base/error.h"

#define PI 3.14159265358979323846
#define N_FFT 512
#define HOP 160
#define BINS (N_FFT / 2 + 1)
#define LOG_FLOOR 1e-6
#define VARIANCE_FLOOR 1e-5
#define PEAK 0.75f
#define LEAST_RMS 1e-3 /* -60 dB */

/* ---------------------------------------------------------------- samples */

static void clip(float *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        samples[i] = fmaxf(-1, fminf(1, samples[i]));
}

static void scale_to_peak(float *samples, size_t count)
{
    float peak = 0;
    for (size_t i = 0; i < count; i++)
        peak = fmaxf(peak, fabsf(samples[i]));
    for (size_t i = 0; i < count && peak > 0; i++)
        samples[i] = samples[i] / peak * PEAK;
}

td_status td_xtts_hear(const td_xtts *c, const char *path, float **out, size_t *count)
{
    td_audio audio = {0};
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_audio_decode(path, &(td_decode_options){.finite = true}, &audio));
    TD_FAIL_IF(!(audio.report.rms >= LEAST_RMS), TD_ERR_FORMAT,
               "%s: silent (RMS %.1e); take a recording in which the speaker is heard", path,
               audio.report.rms);
    TD_TRY(td_sinc_resample(audio.samples, audio.count, audio.rate, c->input_sample_rate, out, count));
    clip(*out, *count);
    const double most = (double)c->max_ref_len * c->input_sample_rate;
    if ((double)*count > most) *count = (size_t)most;
    if (c->sound_norm_refs) scale_to_peak(*out, *count);
fail:
    td_audio_free(&audio);
    return status;
}

/* ---------------------------------------------------------------- spectrogram of the speaker encoder */

/* In place, of N_FFT values; `roots` has the first half of the circle. */
static void transform(double complex *x, const double complex *roots)
{
    for (size_t i = 1, j = 0; i < N_FFT; i++) {
        size_t bit = N_FFT / 2;
        for (; j & bit; bit /= 2)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            const double complex t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (size_t half = 1; half < N_FFT; half *= 2)
        for (size_t block = 0; block < N_FFT; block += 2 * half)
            for (size_t k = 0; k < half; k++) {
                const double complex t = roots[k * (N_FFT / 2 / half)] * x[block + half + k];
                x[block + half + k] = x[block + k] - t;
                x[block + k] += t;
            }
}

/* Sample i of the emphasised signal, mirrored at its ends. */
static double sample_at(const td_xtts_ear *ear, const float *samples, size_t count, ptrdiff_t i)
{
    const ptrdiff_t last = (ptrdiff_t)count - 1;
    if (i < 0) i = -i;
    if (i > last) i = 2 * last - i;
    return (double)samples[i] + (double)ear->emphasis * (double)samples[i > 0 ? i - 1 : 1];
}

static void measure_frame(const td_xtts_ear *ear, const float *samples, size_t count, ptrdiff_t middle,
                          const double complex *roots, double *power)
{
    const size_t first = (N_FFT - ear->n_window) / 2;
    double complex x[N_FFT];
    for (size_t n = 0; n < N_FFT; n++) {
        const bool inside = n >= first && n - first < ear->n_window;
        x[n] = inside ? (double)ear->window[n - first] *
                            sample_at(ear, samples, count, middle + (ptrdiff_t)n - N_FFT / 2)
                      : 0;
    }
    transform(x, roots);
    for (size_t k = 0; k < BINS; k++)
        power[k] = creal(x[k]) * creal(x[k]) + cimag(x[k]) * cimag(x[k]);
}

/* Logarithms of a frame's bands, band after band `stride` apart. */
static void fill_bands(const td_xtts_ear *ear, const double *power, double *out, size_t stride)
{
    for (uint32_t b = 0; b < ear->bands; b++) {
        double sum = 0;
        for (size_t k = 0; k < BINS; k++)
            sum += power[k] * (double)ear->filters[k * ear->bands + b];
        out[b * stride] = log(sum + LOG_FLOOR);
    }
}

static void standardise(const double *values, size_t n, float *out)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++)
        mean += values[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        variance += (values[i] - mean) * (values[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((values[i] - mean) / sqrt(variance + VARIANCE_FLOOR));
}

td_status td_xtts_listen(const td_xtts_ear *ear, const float *samples, size_t count, float **mel,
                         uint32_t *frames)
{
    double complex roots[N_FFT / 2];
    double power[BINS], *logs = NULL;
    td_status status = TD_OK;
    *mel = NULL;
    TD_FAIL_IF(count <= N_FFT / 2, TD_ERR_FORMAT, "a recording of %zu samples is too short to tell a speaker",
               count);
    TD_FAIL_IF(ear->n_window > N_FFT, TD_ERR_FORMAT, "a window of %zu samples; at most %d", ear->n_window,
               N_FFT);
    const size_t n = *frames = (uint32_t)(count / HOP + 1);
    TD_TRY(TD_NEW_ARRAY(&logs, n * ear->bands));
    TD_TRY(TD_NEW_ARRAY(mel, n * ear->bands));
    for (size_t k = 0; k < N_FFT / 2; k++)
        roots[k] = cos(2 * PI * (double)k / N_FFT) - I * sin(2 * PI * (double)k / N_FFT);
    for (size_t f = 0; f < n; f++) {
        measure_frame(ear, samples, count, (ptrdiff_t)(f * HOP), roots, power);
        fill_bands(ear, power, logs + f, n);
    }
    for (uint32_t b = 0; b < ear->bands; b++)
        standardise(logs + b * n, n, *mel + b * n);
fail:
    free(logs);
    return status;
}
