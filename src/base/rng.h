/* Counter-based random numbers: pure functions of (seed, stream, index), so there is no state to save, draws
 * can be made in any order on any thread, and kernels that include philox.kh draw the same words. Philox key
 * = seed; counter = (block index, stream), low words first. Give each purpose a stream of its own: the
 * functions below read the same words of a stream in different ways. Not for secrets. Covered by
 * tests/unit/test_rng.c.
 */
#ifndef TD_BASE_RNG_H
#define TD_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* The four words of one Philox block. */
void td_rng_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]);

/* Word `index` of the stream: word index % 4 of block index / 4. */
uint32_t td_rng_u32(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1): the top 24 bits of word `index`, exact in float. */
float td_rng_float(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1) with 53 bits, from words 2 * index and 2 * index + 1. */
double td_rng_double(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in 0 .. bound-1 without bias (0 for bound 0). index < 2^48. */
uint64_t td_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);

/* Standard normal; values 2k and 2k+1 are the Box-Muller pair of words 2k and 2k+1. |value| < 5.8. */
float td_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* Fisher-Yates over `count` items of `item_bytes` each, using td_rng_below() at indices 1 .. count-1. */
void td_rng_shuffle(uint64_t seed, uint64_t stream, void *items, size_t count, size_t item_bytes);

#endif
