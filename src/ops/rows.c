/* Sharing out rows and columns; see rows.h. The numbers depend on the shape and the class alone, so a launch
 * twice on one device adds in the same order. */
#include "ops/rows.h"

#include "kernels/rows_geometry.h"

#define ELEMENTS_PER_ITEM_CPU 8192u /* hides the cost of starting a work-group */
#define LEAST_GROUPS_CPU 16u        /* but every core gets several */
#define MOST_BLOCKS_CPU 64u
#define MOST_BLOCKS_GPU 512u
#define COLUMNS_PER_LANE_GPU 4u

static uint32_t choose_lanes(uint32_t columns)
{
    uint32_t lanes = 1;
    while (lanes < TD_ROW_WG_GPU && lanes * COLUMNS_PER_LANE_GPU < columns)
        lanes *= 2;
    return lanes;
}

static td_rows make(td_kernel_class kernel_class, uint32_t rows, uint32_t columns, uint32_t block)
{
    const uint32_t lanes = kernel_class == TD_CLASS_GPU ? choose_lanes(columns) : 1;
    const uint32_t teams_per_group = kernel_class == TD_CLASS_GPU ? TD_ROW_WG_GPU / lanes : 1;
    const uint32_t teams = td_divide_up(rows, block);
    return (td_rows){
        .block = block, .lanes = lanes, .grid = td_grid_groups(td_divide_up(teams, teams_per_group))};
}

static uint32_t at_least_one(uint32_t n)
{
    return n > 0 ? n : 1;
}

static uint32_t choose_block_cpu(uint32_t rows, uint32_t columns)
{
    const uint32_t long_enough = at_least_one(ELEMENTS_PER_ITEM_CPU / at_least_one(columns));
    const uint32_t fair = td_divide_up(rows, LEAST_GROUPS_CPU);
    return at_least_one(long_enough < fair ? long_enough : fair);
}

td_rows td_rows_make(td_kernel_class kernel_class, uint32_t rows, uint32_t columns)
{
    return make(kernel_class, rows, columns,
                kernel_class == TD_CLASS_GPU ? 1 : choose_block_cpu(rows, columns));
}

td_rows td_rows_make_blocks(td_kernel_class kernel_class, uint32_t rows, uint32_t columns)
{
    const bool is_gpu = kernel_class == TD_CLASS_GPU;
    const uint32_t least = is_gpu ? 4 : choose_block_cpu(rows, columns);
    const uint32_t few = td_divide_up(rows, is_gpu ? MOST_BLOCKS_GPU : MOST_BLOCKS_CPU);
    return make(kernel_class, rows, columns, few > least ? few : least);
}

td_grid td_grid_columns(td_kernel_class kernel_class, uint32_t blocks, uint32_t columns)
{
    const uint32_t tiles = kernel_class == TD_CLASS_GPU ? td_divide_up(columns, TD_ROW_WG_GPU) : 1;
    return td_grid_groups((uint64_t)blocks * tiles);
}

/* ---------------------------------------------------------------- arguments */

td_status td_op_check_span(td_span span, uint64_t words, const char *op, const char *name)
{
    if (span.buffer && span.bytes >= words * 4) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "%s: %s has %llu bytes but needs %llu", op, name,
                   (unsigned long long)span.bytes, (unsigned long long)(words * 4));
}

td_status td_op_check_size(uint64_t a, uint64_t b, uint64_t c, const char *op)
{
    const uint64_t most = UINT64_C(1) << 31;
    if (a > 0 && b > 0 && c > 0 && a < most && b < most && c < most && a * b < most && a * b * c < most)
        return TD_OK;
    return TD_FAIL(
        TD_ERR_ARGUMENT,
        "%s: a size of %llu x %llu x %llu elements; each must be at least 1 and all together below "
        "2^31, so split the batch",
        op, (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
}

td_status td_op_check_iterations(const td_list *list, uint64_t iterations, const char *op)
{
    const uint64_t most = 65535;
    const td_device_info *info = td_device_get_info(td_list_device(list));
    if (info->api != TD_API_VULKAN || td_list_class(list) != TD_CLASS_CPU || iterations <= most) return TD_OK;
    return TD_FAIL(
        TD_ERR_LIMIT,
        "%s: %s would end the loops of a work-item after %llu of about %llu iterations; use an OpenCL "
        "device (`tandem devices` lists them) or shorter items",
        op, info->name, (unsigned long long)most, (unsigned long long)iterations);
}

bool td_op_given(td_span optional)
{
    return optional.buffer != NULL;
}

uint32_t td_op_align_span(const td_list *list, td_span *span)
{
    const uint32_t align = td_device_get_info(td_list_device(list))->caps.offset_align;
    const uint64_t before = align ? span->offset % align : 0;
    span->offset -= before;
    span->bytes += before;
    return (uint32_t)(before / 4);
}

td_span td_op_or(td_span optional, td_span stand_in)
{
    return td_op_given(optional) ? optional : stand_in;
}
