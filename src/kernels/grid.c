/* Grids from the numbers in geometry.h. Covered by tests/device/test_kernel_text.c. */
#include "kernels/grid.h"

#include "kernels/geometry.h"

static const struct {
    uint32_t block;
    uint32_t matmul_rows, matmul_columns;
} geometry[TD_CLASS_COUNT] = {
    [TD_CLASS_CPU] = {TD_BLOCK_CPU, TD_MATMUL_ROWS_CPU, TD_MATMUL_COLUMNS_CPU},
    [TD_CLASS_GPU] = {TD_BLOCK_GPU, TD_MATMUL_ROWS_GPU, TD_MATMUL_COLUMNS_GPU},
};

td_grid td_grid_groups(uint64_t groups)
{
    const uint64_t at_least_one = groups > 0 ? groups : 1;
    const uint64_t y = (at_least_one + TD_GRID_MAX_X - 1) / TD_GRID_MAX_X;
    return (td_grid){.x = (uint32_t)((at_least_one + y - 1) / y), .y = (uint32_t)y, .z = 1};
}

td_grid td_grid_elements(td_kernel_class kernel_class, uint32_t n)
{
    return td_grid_groups(td_divide_up(n, geometry[kernel_class].block));
}

td_grid td_grid_matmul(td_kernel_class kernel_class, uint32_t m, uint32_t n)
{
    return td_grid_groups((uint64_t)td_divide_up(m, geometry[kernel_class].matmul_rows) *
                          td_divide_up(n, geometry[kernel_class].matmul_columns));
}

td_reduce_sum_params td_reduce_sum_first(td_kernel_class kernel_class, uint32_t n)
{
    const uint32_t least = geometry[kernel_class].block;
    const uint32_t block = td_divide_up(td_divide_up(n, TD_REDUCE_MAX_BLOCKS), least) * least;
    if (n == 0) return (td_reduce_sum_params){.n = 0, .block = least, .blocks = 1};
    return (td_reduce_sum_params){.n = n, .block = block, .blocks = td_divide_up(n, block)};
}

td_reduce_sum_params td_reduce_sum_last(const td_reduce_sum_params *first)
{
    return (td_reduce_sum_params){.n = first->blocks, .block = first->blocks, .blocks = 1};
}

td_grid td_grid_reduce_sum(const td_reduce_sum_params *params)
{
    return td_grid_groups(params->blocks);
}
