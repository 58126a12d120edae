/* See packed.h. */
#include "graph/packed.h"

#include <math.h>
#include <string.h>

enum { FIRST_BITS = 3, SECOND_BITS = 4, SIGN = 0x80 };

uint64_t td_packed_bytes(td_state_format format, uint64_t elements)
{
    if (format == TD_STATE_FP32) return 4 * elements;
    if (format == TD_STATE_BF16) return 2 * elements;
    return elements + 4 * (elements / TD_STATE_BLOCK);
}

/* As src/kernels/byte_float.kh. */
static uint32_t to_byte_float(float x, uint32_t bits)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    if (word < UINT32_C(113) << 23) return (uint32_t)lrintf(x * (float)(UINT32_C(1) << (14 + bits)));
    return ((word + (UINT32_C(1) << (22 - bits))) >> (23 - bits)) - (UINT32_C(112) << bits);
}

static float from_byte_float(uint32_t code, uint32_t bits)
{
    const uint32_t word = (code + (UINT32_C(112) << bits)) << (23 - bits);
    float x;
    if (code < UINT32_C(1) << bits) return (float)code / (float)(UINT32_C(1) << (14 + bits));
    memcpy(&x, &word, sizeof x);
    return x;
}

static uint64_t block_end(uint64_t first, uint64_t n)
{
    return n - first < TD_STATE_BLOCK ? n : first + TD_STATE_BLOCK;
}

/* What is kept of a value: itself, or its root. */
static float get_kept(float value, bool is_second)
{
    return is_second ? sqrtf(value) : value;
}

void td_packed_encode(const float *values, uint64_t n, bool is_second, uint8_t *bytes, float *largest)
{
    for (uint64_t first = 0; first < n; first += TD_STATE_BLOCK) {
        float most = 0;
        for (uint64_t i = first; i < block_end(first, n); i++)
            most = fmaxf(most, fabsf(get_kept(values[i], is_second)));
        const float share = most > 0 ? 1 / most : 0;
        largest[first / TD_STATE_BLOCK] = most;
        for (uint64_t i = first; i < block_end(first, n); i++) {
            const float kept = get_kept(values[i], is_second);
            uint32_t code =
                to_byte_float(fminf(fabsf(kept) * share, 1), is_second ? SECOND_BITS : FIRST_BITS);
            if (is_second && code == 0 && kept > 0) code = 1;
            bytes[i] = (uint8_t)(code | (!is_second && signbit(kept) ? SIGN : 0));
        }
    }
}

void td_packed_decode(const uint8_t *bytes, const float *largest, uint64_t n, bool is_second, float *values)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t code = is_second ? bytes[i] : bytes[i] & (SIGN - 1U);
        const float kept =
            from_byte_float(code, is_second ? SECOND_BITS : FIRST_BITS) * largest[i / TD_STATE_BLOCK];
        values[i] = is_second ? kept * kept : bytes[i] & SIGN ? -kept : kept;
    }
}
