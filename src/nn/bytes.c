/* See bytes.h. Rows are gone through in the order of memory, in loops that compilers make vectors of: a model has
 * hundreds of millions of weights, and is opened while somebody waits. */
#include "nn/bytes.h"

#include <math.h>

/* Added and taken away, it leaves the nearest whole number of any float below 2^22. */
#define ROUNDER 12582912.0f

void td_bytes_find_scales(const float *values, size_t in, size_t out, float *scales)
{
    for (size_t j = 0; j < out; j++)
        scales[j] = 0;
    for (size_t i = 0; i < in; i++) {
        const float *row = values + i * out;
        for (size_t j = 0; j < out; j++) {
            const float size = fabsf(row[j]);
            scales[j] = size > scales[j] ? size : scales[j];
        }
    }
    for (size_t j = 0; j < out; j++)
        scales[j] = scales[j] > 0 ? scales[j] / 127 : 1;
}

void td_bytes_make(const float *values, size_t in, size_t out, const float *scales, int8_t *bytes)
{
    for (size_t i = 0; i < in; i++) {
        const float *row = values + i * out;
        int8_t *to = bytes + i * out;
        for (size_t j = 0; j < out; j++) {
            const float nearest = (row[j] / scales[j] + ROUNDER) - ROUNDER;
            to[j] = (int8_t)(int32_t)nearest;
        }
    }
}

void td_bytes_widen(const int8_t *bytes, size_t in, size_t out, const float *scales, float *values)
{
    for (size_t i = 0; i < in; i++)
        for (size_t j = 0; j < out; j++)
            values[i * out + j] = (float)bytes[i * out + j] * scales[j];
}
