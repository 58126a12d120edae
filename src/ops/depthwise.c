/* See depthwise.h. The gradient of x is the convolution of dy with the taps in reverse. */
#include "ops/depthwise.h"

#include "kernels/geometry.h"
#include "kernels/spectral_geometry.h"
#include "ops/rows.h"

static td_status check(const td_depthwise *d, td_span x, td_span y)
{
    const uint64_t n = (uint64_t)d->items * d->frames * d->channels;
    TD_CHECK(td_op_check_size(d->items, d->frames, d->channels, "depthwise"));
    TD_CHECK(td_op_check_size(d->items, d->taps, d->channels, "depthwise"));
    TD_REFUSE_IF(d->before >= d->taps, TD_ERR_ARGUMENT, "depthwise: %u zeros before %u taps; fewer than taps",
                 d->before, d->taps);
    TD_CHECK(td_op_check_span(x, n, "depthwise", "x"));
    return td_op_check_span(y, n, "depthwise", "y");
}

static td_status convolve(td_list *list, const td_depthwise *d, td_span x, td_span w, td_span y,
                          bool is_flipped)
{
    const uint32_t rows = d->items * d->frames;
    const double n = (double)rows * d->channels;
    TD_CHECK(check(d, x, y));
    TD_CHECK(td_op_check_span(w, (uint64_t)d->taps * d->channels, "depthwise", "w"));
    const td_depthwise_params params = {
        .items = d->items,
        .frames = d->frames,
        .channels = d->channels,
        .taps = d->taps,
        .before = is_flipped ? d->taps - 1 - d->before : d->before,
        .is_flipped = is_flipped,
        .block = td_list_class(list) == TD_CLASS_GPU ? 1 : 1 + TD_BLOCK_CPU / d->channels,
    };
    return td_list_dispatch(list, TD_K_depthwise, (td_span[]){x, w, y}, &params,
                            td_grid_groups(td_divide_up(rows, params.block)),
                            (td_cost){.flops = 2.0 * n * d->taps, .bytes = 8.0 * n});
}

td_status td_op_depthwise(td_list *list, const td_depthwise *d, td_span x, td_span w, td_span y)
{
    return convolve(list, d, x, w, y, false);
}

td_status td_op_depthwise_back_data(td_list *list, const td_depthwise *d, td_span dy, td_span w, td_span dx)
{
    return convolve(list, d, dy, w, dx, true);
}

td_status td_op_depthwise_back_weights(td_list *list, const td_depthwise *d, td_span x, td_span dy,
                                       td_span dw)
{
    const bool is_gpu = td_list_class(list) == TD_CLASS_GPU;
    const uint32_t tiles = td_divide_up(d->channels, is_gpu ? TD_DEPTHWISE_TILE_GPU : TD_DEPTHWISE_TILE_CPU);
    const double n = (double)d->items * d->frames * d->channels;
    TD_CHECK(check(d, x, dy));
    TD_CHECK(td_op_check_span(dw, (uint64_t)d->items * d->taps * d->channels, "depthwise", "dw"));
    TD_CHECK(td_op_check_iterations(list, (uint64_t)d->frames * TD_DEPTHWISE_TILE_CPU / 8, "depthwise"));
    const td_depthwise_weights_params params = {.items = d->items,
                                                .frames = d->frames,
                                                .channels = d->channels,
                                                .taps = d->taps,
                                                .before = d->before};
    return td_list_dispatch(list, TD_K_depthwise_weights, (td_span[]){x, dy, dw}, &params,
                            td_grid_groups((uint64_t)d->items * d->taps * tiles),
                            (td_cost){.flops = 2.0 * n * d->taps, .bytes = 8.0 * n});
}
