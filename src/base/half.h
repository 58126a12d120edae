/* Numbers of 16 bits on the host: bfloat16, the upper half of a float, and IEEE half. Rounded to nearest, ties to
 * even; overflow gives infinity, NaN stays NaN. Integers alone, so that the bits are the same everywhere, and
 * those of kernels/half.kh. Covered by tests/torch/test_convert.c.
 */
#ifndef TD_BASE_HALF_H
#define TD_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t td_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float td_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t td_bf16_from_float(float value)
{
    const uint32_t bits = td_float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits | 0x400000) >> 16);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float td_bf16_to_float(uint16_t value)
{
    return td_float_of_bits((uint32_t)value << 16);
}

static inline uint16_t td_fp16_from_float(float value)
{
    const uint32_t bits = td_float_bits(value), size = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000)
        return (uint16_t)(sign | ((size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13));
    if (size < 0x33000000) return (uint16_t)sign; /* less than half of the least number */
    /* Below 2^-14 a unit is 2^-24: the mantissa moves right by 14 bits, and one more for each power of two. */
    const uint32_t shift = 126 - (size >> 23), mantissa = (size & 0x7fffff) | 0x800000;
    const uint32_t half = (UINT32_C(1) << (shift - 1)) - 1 + ((mantissa >> shift) & 1);
    return (uint16_t)(sign | ((mantissa + half) >> shift));
}

static inline float td_fp16_to_float(uint16_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000) << 16, size = value & 0x7fff;
    if (size < 0x400) {
        const float tiny = (float)size * 5.9604644775390625e-8F;
        return td_float_of_bits(sign | td_float_bits(tiny));
    }
    return td_float_of_bits(sign | ((size << 13) + (size >= 0x7c00 ? 0x70000000 : 0x38000000)));
}

#endif
