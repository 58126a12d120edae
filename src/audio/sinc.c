/* See sinc.h. With the rates o and n without common factor, output q = n b + j lies j / n of a block of o input
 * samples behind the start of block b, so there are n different rows of taps. */
#include "audio/sinc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define PI 3.14159265358979323846
#define ZEROS 6.0
#define ROLLOFF 0.99

typedef struct row {
    ptrdiff_t first; /* tap, counted from the first input sample of the block */
    size_t count;
} row;

typedef struct filter {
    size_t o, n, most; /* most: taps of a row at most */
    row *rows;         /* [n] */
    double *taps;      /* [n, most] */
} filter;

static size_t find_divisor(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static td_status make_filter(uint32_t from, uint32_t to, filter *f)
{
    const size_t divisor = find_divisor(from, to);
    f->o = from / divisor;
    f->n = to / divisor;
    const double base = ROLLOFF * (double)(f->o < f->n ? f->o : f->n);
    const ptrdiff_t width = (ptrdiff_t)ceil(ZEROS * (double)f->o / base);
    f->most = 2 * (size_t)width + 2;
    TD_CHECK(TD_NEW_ARRAY(&f->rows, f->n));
    TD_CHECK(TD_NEW_ARRAY(&f->taps, f->n * f->most));
    for (size_t j = 0; j < f->n; j++) {
        row *r = &f->rows[j];
        for (ptrdiff_t i = -width; i < width + (ptrdiff_t)f->o; i++) {
            const double t = ((double)i / (double)f->o - (double)j / (double)f->n) * base;
            if (fabs(t) >= ZEROS) continue;
            if (r->count == 0) r->first = i;
            const double window = cos(PI * t / (2 * ZEROS));
            f->taps[j * f->most + r->count++] =
                window * window * (t == 0 ? 1 : sin(PI * t) / (PI * t)) * base / (double)f->o;
        }
    }
    return TD_OK;
}

static float filter_at(const filter *f, const float *samples, size_t count, size_t q)
{
    const row *r = &f->rows[q % f->n];
    const double *taps = f->taps + (q % f->n) * f->most;
    const ptrdiff_t first = (ptrdiff_t)(q / f->n * f->o) + r->first;
    double sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        const ptrdiff_t at = first + (ptrdiff_t)i;
        if (at >= 0 && (size_t)at < count) sum += taps[i] * (double)samples[at];
    }
    return (float)sum;
}

td_status td_sinc_resample(const float *samples, size_t count, uint32_t from, uint32_t to, float **out,
                           size_t *out_count)
{
    filter f = {0};
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(from == 0 || to == 0, TD_ERR_ARGUMENT, "resampling from %u to %u Hz", from, to);
    TD_TRY(make_filter(from, to, &f));
    *out_count = (count * f.n + f.o - 1) / f.o;
    TD_TRY(TD_NEW_ARRAY(out, *out_count));
    if (from == to)
        memcpy(*out, samples, count * sizeof *samples);
    else
        for (size_t q = 0; q < *out_count; q++)
            (*out)[q] = filter_at(&f, samples, count, q);
fail:
    free(f.rows);
    free(f.taps);
    return status;
}
