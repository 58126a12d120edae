/* Pictures of spectrograms and alignments: values as colours of even lightness steps, as a PNG file in
 * memory. Covered by tests/train/test_train_picture.c.
 */
#ifndef TD_TRAIN_PICTURE_H
#define TD_TRAIN_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* A grid of values; column x, row y is values[x * column_step + y * row_step]. Row 0 is drawn at the bottom.
 */
typedef struct td_heat {
    const float *values;
    uint32_t columns, rows;
    size_t column_step, row_step;
    float low, high; /* darkest and lightest; equal: those of the values */
    uint32_t scale;  /* pixels of a value in both directions; 0: 1 */
} td_heat;

typedef struct td_picture {
    uint8_t *png; /* owned, free() */
    size_t bytes;
    uint32_t width, height;
} td_picture;

td_status td_picture_encode(const td_heat *grid, td_picture *out);

/* The colour of a share from 0 to 1 as sRGB: lightness rises evenly from near black to near white while the
 * hue turns from violet to yellow. */
void td_picture_color(double share, uint8_t rgb[3]);

#endif
