/* See source.h. */
#include "ops/source.h"

#include "kernels/spectral_geometry.h"
#include "ops/rows.h"

td_status td_op_noise(td_list *list, const td_noise_args *a)
{
    const uint32_t block = td_list_class(list) == TD_CLASS_GPU ? TD_NOISE_BLOCK_GPU : TD_NOISE_BLOCK_CPU;
    TD_CHECK(td_op_check_size(a->n, 1, 1, "noise"));
    TD_CHECK(td_op_check_span(a->step, 1, "noise", "step"));
    TD_CHECK(td_op_check_span(a->y, a->n, "noise", "y"));
    const td_noise_params params = {.n = a->n,
                                    .seed_lo = (uint32_t)a->seed,
                                    .seed_hi = (uint32_t)(a->seed >> 32),
                                    .stream_lo = (uint32_t)a->stream,
                                    .stream_hi = (uint32_t)(a->stream >> 32)};
    return td_list_dispatch(list, TD_K_noise, (td_span[]){a->step, a->y}, &params,
                            td_grid_groups(td_divide_up(a->n, block)),
                            (td_cost){.flops = 40.0 * a->n, .bytes = 4.0 * a->n});
}

td_status td_op_pulse(td_list *list, const td_pulse_args *a)
{
    const uint64_t ways = (uint64_t)a->items * (a->frames - 1);
    TD_REFUSE_IF(a->frames < 2, TD_ERR_ARGUMENT, "pulse: %u frames; at least 2", a->frames);
    TD_REFUSE_IF(!(a->rate >= 100), TD_ERR_ARGUMENT, "pulse: %g samples a second; at least 100",
                 (double)a->rate);
    TD_CHECK(td_op_check_size(a->items, a->frames, a->hop, "pulse"));
    TD_CHECK(td_op_check_iterations(list, (uint64_t)a->frames + a->hop, "pulse"));
    TD_CHECK(td_op_check_span(a->pitch, (uint64_t)a->items * a->frames, "pulse", "pitch"));
    TD_CHECK(td_op_check_span(a->phase, a->items, "pulse", "phase"));
    TD_CHECK(td_op_check_span(a->y, ways * a->hop, "pulse", "y"));
    const td_pulse_params params = {.items = a->items, .frames = a->frames, .hop = a->hop, .rate = a->rate};
    return td_list_dispatch(list, TD_K_pulse, (td_span[]){a->pitch, a->phase, a->y}, &params,
                            td_grid_groups(ways),
                            (td_cost){.flops = (double)ways * (40.0 * a->hop + 5.0 * a->frames),
                                      .bytes = 4.0 * (double)ways * a->hop});
}
