/* See stretch.h. */
#include "audio/stretch.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 256 }; /* that are made at a time */

/* Columns of a row behind so many stages. */
typedef struct part {
    const td_stretch *s;
    const float *rows; /* from the first of the columns on */
    size_t n;
} part;

static void make_part(const part *p, size_t stages, size_t at, float *out)
{
    float a[COLUMNS], b[COLUMNS];
    while (stages > 0 && p->s->factors[stages - 1] == 1)
        stages--;
    if (stages == 0) {
        memcpy(out, p->rows + at * p->s->width, p->n * sizeof *out);
        return;
    }
    const double from = fmax(0, ((double)at + 0.5) / p->s->factors[stages - 1] - 0.5);
    const size_t low = (size_t)from, last = p->s->counts[stages - 1] - 1, high = low < last ? low + 1 : last;
    const float share = (float)(from - (double)low);
    make_part(p, stages - 1, low, a);
    make_part(p, stages - 1, high, b);
    for (size_t i = 0; i < p->n; i++)
        out[i] = (1 - share) * a[i] + share * b[i];
}

td_stretch td_stretch_make(size_t n, size_t width, const double factors[TD_STRETCH_STAGES])
{
    td_stretch s = {.width = width, .counts = {n}};
    for (size_t i = 0; i < TD_STRETCH_STAGES; i++) {
        s.factors[i] = factors[i];
        s.counts[i + 1] = (size_t)floor((double)s.counts[i] * factors[i]);
    }
    return s;
}

void td_stretch_row(const td_stretch *s, const float *rows, size_t at, float *out)
{
    for (size_t first = 0; first < s->width; first += COLUMNS) {
        const size_t left = s->width - first;
        const part p = {.s = s, .rows = rows + first, .n = left < COLUMNS ? left : COLUMNS};
        make_part(&p, TD_STRETCH_STAGES, at, out + first);
    }
}
