/* See spectrum.h: the radix-2 transform of Cooley and Tukey, with its tables computed in double. */
#include "audio/spectrum.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

#define PI 3.14159265358979323846

struct td_spectrum {
    size_t n;
    float *window;   /* [n] */
    float *roots;    /* [n / 2, 2]: cos and -sin of 2 pi k / n */
    size_t *reverse; /* [n]: the index with its bits reversed */
};

td_status td_spectrum_create(uint32_t n_fft, td_spectrum **out)
{
    td_status status = TD_OK;
    td_spectrum *s = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&s));
    s->n = n_fft;
    TD_TRY(TD_NEW_ARRAY(&s->window, n_fft));
    TD_TRY(TD_NEW_ARRAY(&s->roots, n_fft));
    TD_TRY(TD_NEW_ARRAY(&s->reverse, n_fft));
    for (size_t i = 0; i < n_fft; ++i) {
        const double angle = 2 * PI * (double)i / n_fft;
        s->window[i] = (float)(0.5 - 0.5 * cos(angle));
        s->reverse[i] = s->reverse[i / 2] / 2 | (i % 2 ? n_fft / 2 : 0);
        if (i >= n_fft / 2) continue;
        s->roots[2 * i] = (float)cos(angle);
        s->roots[2 * i + 1] = (float)-sin(angle);
    }
    *out = s;
    return TD_OK;
fail:
    td_spectrum_destroy(s);
    return status;
}

void td_spectrum_destroy(td_spectrum *spectrum)
{
    if (spectrum == NULL) return;
    free(spectrum->window);
    free(spectrum->roots);
    free(spectrum->reverse);
    free(spectrum);
}

/* One butterfly: a + w b and a - w b. */
static void turn(float *a, float *b, const float *w)
{
    const float re = b[0] * w[0] - b[1] * w[1], im = b[0] * w[1] + b[1] * w[0];
    b[0] = a[0] - re;
    b[1] = a[1] - im;
    a[0] += re;
    a[1] += im;
}

void td_spectrum_run(const td_spectrum *s, const float *samples, float *scratch, float *power)
{
    for (size_t i = 0; i < s->n; ++i) {
        scratch[2 * s->reverse[i]] = samples[i] * s->window[i];
        scratch[2 * s->reverse[i] + 1] = 0;
    }
    for (size_t half = 1; half < s->n; half *= 2)
        for (size_t first = 0; first < s->n; first += 2 * half)
            for (size_t k = 0; k < half; ++k)
                turn(scratch + 2 * (first + k), scratch + 2 * (first + k + half),
                     s->roots + 2 * (k * (s->n / 2 / half)));
    for (size_t k = 0; k <= s->n / 2; ++k)
        power[k] = scratch[2 * k] * scratch[2 * k] + scratch[2 * k + 1] * scratch[2 * k + 1];
}
