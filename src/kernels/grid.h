/* How many work-groups a kernel needs: the host's half of the geometry whose other half is in the .kh bodies.
 *
 * The counts serve both dialects, so callers ask with the class of the device alone. A grid is never empty,
 * hence always a legal launch; groups beyond the data do nothing. All n < 2^31.
 * Covered by tests/device/test_kernel_text.c.
 */
#ifndef TD_KERNELS_GRID_H
#define TD_KERNELS_GRID_H

#include <stdint.h>

#include "kernels/kernel.h"

#define TD_GRID_MAX_X 65535u /* the least limit Vulkan promises per dimension; more groups fold into y */

typedef struct td_grid {
    uint32_t x, y, z; /* work-groups, not work-items */
} td_grid;

/* n / by, rounded up. */
static inline uint32_t td_divide_up(uint32_t n, uint32_t by)
{
    return n / by + (n % by != 0);
}

/* The least multiple of `step` that is at least n. */
static inline uint64_t td_round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

/* That many groups, or as few more as a rectangle allows: for kernels whose cut depends on their parameters.
 */
td_grid td_grid_groups(uint64_t groups);

/* fill, copy, add: n elements. random: n Philox blocks of four words each. */
td_grid td_grid_elements(td_kernel_class kernel_class, uint32_t n);

/* matmul: C of m rows and n columns. */
td_grid td_grid_matmul(td_kernel_class kernel_class, uint32_t m, uint32_t n);

/* reduce_sum of n elements to one: launch `first` from the data to first.blocks (at most
 * TD_REDUCE_MAX_BLOCKS) partial sums, then `last` from these to the result. */
td_reduce_sum_params td_reduce_sum_first(td_kernel_class kernel_class, uint32_t n);
td_reduce_sum_params td_reduce_sum_last(const td_reduce_sum_params *first);
td_grid td_grid_reduce_sum(const td_reduce_sum_params *params);

#endif
