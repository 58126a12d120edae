/* See sum.h. */
#include "cluster/sum.h"

#include <string.h>

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void td_wire_pack(const float *values, uint64_t n, void *out)
{
    uint16_t *halves = out;
    for (uint64_t i = 0; i < n; ++i)
        halves[i] = to_bf16(values[i]);
}

void td_wire_unpack(const void *packed, uint64_t n, float *out)
{
    const uint16_t *halves = packed;
    for (uint64_t i = 0; i < n; ++i)
        out[i] = from_bf16(halves[i]);
}

void td_wire_sum(const void *parts, td_wire_format format, uint32_t n_parts, uint64_t n, float *out)
{
    if (format == TD_WIRE_FP32) {
        const float *part = parts;
        memcpy(out, part, n * sizeof *out);
        for (uint32_t p = 1; p < n_parts; ++p)
            for (uint64_t i = 0; i < n; ++i)
                out[i] += part[p * n + i];
        return;
    }
    const uint16_t *part = parts;
    td_wire_unpack(part, n, out);
    for (uint32_t p = 1; p < n_parts; ++p)
        for (uint64_t i = 0; i < n; ++i)
            out[i] += from_bf16(part[p * n + i]);
}
