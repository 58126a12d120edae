/* Rows stretched in time, each lying between its neighbours, in stages one behind the other: what PyTorch's
 * interpolate(mode="linear", scale_factor=) does. Covered by tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_AUDIO_STRETCH_H
#define TD_AUDIO_STRETCH_H

#include <stddef.h>

enum { TD_STRETCH_STAGES = 3 };

typedef struct td_stretch {
    size_t width; /* of a row */
    double factors[TD_STRETCH_STAGES];
    size_t counts[TD_STRETCH_STAGES + 1]; /* rows before each stage, and behind the last */
} td_stretch;

/* Of n rows. */
td_stretch td_stretch_make(size_t n, size_t width, const double factors[TD_STRETCH_STAGES]);

/* Row `at`, below counts[TD_STRETCH_STAGES], of what rows [n, width] become. */
void td_stretch_row(const td_stretch *s, const float *rows, size_t at, float *out);

#endif
