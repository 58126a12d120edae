/* Matrices [in, out] as signed bytes, with a scale for each output: value = byte * scale. Covered by
 * tests/nn/test_nn_bytes.c.
 */
#ifndef TD_NN_BYTES_H
#define TD_NN_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* A tensor NAME of bytes has its scales in a tensor of this name behind it. */
#define TD_BYTES_SCALE ".scale"
#define TD_BYTES_SCALES "*.scale" /* all of them, as a pattern */

/* scales [out], so that the largest of each output becomes 127; 1 where all are 0. Values are finite. */
void td_bytes_find_scales(const float *values, size_t in, size_t out, float *scales);

/* The nearest bytes, ties to even. */
void td_bytes_make(const float *values, size_t in, size_t out, const float *scales, int8_t *bytes);
void td_bytes_widen(const int8_t *bytes, size_t in, size_t out, const float *scales, float *values);

#endif
