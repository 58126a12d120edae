/* Philox-4x32-10 on the host and what is drawn from it. The rounds themselves are in philox.kh, shared with
 * the kernels. Bounded integers: Lemire, "Fast random integer generation in an interval" (2019). Covered by
 * tests/unit/test_rng.c. */
#include "base/rng.h"

#include <math.h>

typedef unsigned int uint;
#define MUL_HI(a, b) ((uint)((uint64_t)(a) * (b) >> 32))
#include "base/philox.kh"

/* Wider than C11 has; every 64-bit target of gcc and clang does. */
__extension__ typedef unsigned __int128 wide;

enum { RETRY_SHIFT = 48 };

void td_rng_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4])
{
    uint c0 = (uint)block, c1 = (uint)(block >> 32);
    uint c2 = (uint)stream, c3 = (uint)(stream >> 32);
    uint k0 = (uint)seed, k1 = (uint)(seed >> 32);
    PHILOX_4X32_10(c0, c1, c2, c3, k0, k1);
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t td_rng_u32(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    td_rng_block(seed, stream, index / 4, words);
    return words[index % 4];
}

float td_rng_float(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(td_rng_u32(seed, stream, index) >> 8) * 0x1p-24f;
}

double td_rng_double(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    td_rng_block(seed, stream, index / 2, words);
    const uint32_t *pair = words + 2 * (index % 2);
    uint64_t bits = (uint64_t)pair[1] << 32 | pair[0];
    return (double)(bits >> 11) * 0x1p-53;
}

/* The top of bits * bound is uniform once the low part below 2^64 mod bound is rejected. Each index owns
 * block `index`, and block `index` of further counter regions for retries, so no draw touches another's
 * words. */
uint64_t td_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
    if (bound == 0) return 0;
    uint64_t threshold = -bound % bound;
    for (uint64_t attempt = 0;; ++attempt) {
        uint32_t words[4];
        td_rng_block(seed, stream, index + (attempt << RETRY_SHIFT), words);
        for (size_t half = 0; half < 2; ++half) {
            uint64_t bits = (uint64_t)words[2 * half + 1] << 32 | words[2 * half];
            wide product = (wide)bits * bound;
            if ((uint64_t)product >= threshold) return (uint64_t)(product >> 64);
        }
    }
}

float td_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    td_rng_block(seed, stream, index / 4, words);
    const uint32_t *pair = words + 2 * (index / 2 % 2);
    double u = ((pair[0] >> 8) + 1) * 0x1p-24; /* in (0, 1]: the logarithm is finite */
    double angle = 2 * M_PI * ((pair[1] >> 8) * 0x1p-24);
    double radius = sqrt(-2 * log(u));
    return (float)(radius * (index % 2 ? sin(angle) : cos(angle)));
}

static void swap_items(unsigned char *a, unsigned char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        unsigned char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

void td_rng_shuffle(uint64_t seed, uint64_t stream, void *items, size_t count, size_t item_bytes)
{
    unsigned char *bytes = items;
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)td_rng_below(seed, stream, i, i + 1);
        if (j != i) swap_items(bytes + i * item_bytes, bytes + j * item_bytes, item_bytes);
    }
}
