/* See winograd.h. */
#include "ops/winograd.h"

#include "base/error.h"
#include "kernels/winograd_geometry.h"
#include "ops/rows.h"

#define LEAST_POSITIONS 128u /* below, transforming the weights is a large part of the work */
#define LEAST_TAPS 3u
#define ITEMS_PER_CORE 8u /* at least, so that cores finish together */

/* Four taps at a time. */
static uint32_t count_groups(const td_conv *c)
{
    return td_divide_up(c->kernel_width, TD_WINOGRAD_STEP);
}

static uint32_t tile_rows(td_device *device)
{
    return TD_GEMM_TILE_ROWS(td_device_vector(device));
}

/* Tiles of outputs that a work-item's room is enough for, in whole register tiles. */
static uint32_t most_rows(const td_conv *c, td_device *device)
{
    const uint32_t tiles = TD_WINOGRAD_ROOM / (TD_WINOGRAD_POINTS * c->in_channels);
    const uint32_t around = count_groups(c) - 1, least = tile_rows(device);
    const uint32_t rows = tiles > around ? tiles - around : 0;
    return (rows < TD_WINOGRAD_ROWS ? rows : TD_WINOGRAD_ROWS) / least * least;
}

static uint32_t count_positions(const td_conv *c)
{
    const uint32_t span = c->dilation_width * (c->kernel_width - 1);
    return c->in_width + c->pad_left + c->pad_right - span;
}

bool td_winograd_can(const td_conv *conv, td_device *device)
{
    const td_conv *c = conv;
    const uint32_t vector = td_device_vector(device);
    return c->groups == 1 && c->in_height == 1 && c->kernel_height == 1 && c->stride_width == 1 &&
           c->pad_top + c->pad_bottom == 0 && !c->transposed && !c->w_format &&
           c->in_channels % vector == 0 && c->in_channels % 4 == 0 && most_rows(c, device) > 0;
}

bool td_winograd_pays(const td_conv *conv, td_device *device)
{
    const uint32_t vector = td_device_vector(device);
    return td_winograd_can(conv, device) && vector > 1 && conv->kernel_width >= LEAST_TAPS &&
           conv->out_channels % vector == 0 &&
           (uint64_t)conv->batch * count_positions(conv) >= LEAST_POSITIONS;
}

uint64_t td_winograd_words(const td_conv *conv, td_device *device)
{
    const uint32_t columns = TD_GEMM_TILE_VECTORS * td_device_vector(device);
    return (uint64_t)TD_WINOGRAD_POINTS * count_groups(conv) * conv->in_channels *
           td_round_up(conv->out_channels, columns);
}

/* Fewer tiles to an item until there are enough items for all cores. */
static uint32_t choose_rows(const td_conv *c, uint32_t positions, td_device *device)
{
    const uint32_t units = td_device_get_info(device)->caps.compute_units;
    const uint32_t least = tile_rows(device), enough = ITEMS_PER_CORE * (units ? units : 1);
    const uint32_t tiles = td_divide_up(positions, TD_WINOGRAD_STEP * c->dilation_width);
    uint32_t rows = most_rows(c, device);
    while (rows > least && (uint64_t)c->batch * c->dilation_width * td_divide_up(tiles, rows) < enough)
        rows -= least;
    return rows;
}

static td_status record_weights(td_list *list, const td_conv *c, td_span w, td_span transformed)
{
    const td_winograd_weights_params params = {.taps = c->kernel_width,
                                               .groups = count_groups(c),
                                               .in_channels = c->in_channels,
                                               .out_channels = c->out_channels};
    const uint32_t group = td_device_group_size(td_list_device(list), TD_K_winograd_weights);
    return td_list_dispatch(list, TD_K_winograd_weights, (td_span[]){w, transformed}, &params,
                            td_grid_groups(td_divide_up(params.groups * c->in_channels, group)),
                            (td_cost){.bytes = (double)w.bytes + (double)transformed.bytes});
}

td_status td_winograd_record(td_list *list, const td_conv_args *args)
{
    const td_conv *c = &args->conv;
    td_device *device = td_list_device(list);
    const uint32_t positions = count_positions(c), rows = choose_rows(c, positions, device);
    const uint32_t blocks = td_divide_up(positions, rows * TD_WINOGRAD_STEP * c->dilation_width);
    const td_winograd_params params = {.lines = c->batch,
                                       .width = c->in_width,
                                       .out_width = positions,
                                       .in_channels = c->in_channels,
                                       .out_channels = c->out_channels,
                                       .groups = count_groups(c),
                                       .dilation = c->dilation_width,
                                       .pad = c->pad_left,
                                       .rows = rows,
                                       .blocks = blocks,
                                       .has_bias = td_op_given(args->bias),
                                       .save = td_op_given(args->pre),
                                       .activation = args->activation,
                                       .has_residual = td_op_given(args->residual)};
    const uint64_t of_line = (uint64_t)blocks * c->dilation_width;
    const uint64_t items =
        c->batch * (td_device_vector(device) > 1 ? of_line : of_line * rows * c->out_channels);
    const td_span spans[] = {args->x,
                             args->workspace,
                             args->y,
                             td_op_or(args->bias, args->x),
                             td_op_or(args->residual, args->x),
                             td_op_or(args->pre, args->y)};
    const uint32_t group = td_device_group_size(device, TD_K_winograd);
    const double products = 2.0 * c->batch * positions / TD_WINOGRAD_STEP * TD_WINOGRAD_POINTS *
                            params.groups * c->in_channels * c->out_channels;
    TD_CHECK(record_weights(list, c, args->w, args->workspace));
    return td_list_dispatch(
        list, TD_K_winograd, spans, &params, td_grid_groups((items + group - 1) / group),
        (td_cost){.flops = products, .bytes = (double)args->x.bytes + (double)args->y.bytes});
}
