/* Launches of the alignment search; see align.h. Covered by tests/ops/cases_align.c. */
#include "ops/align.h"

#include "kernels/align_geometry.h"
#include "ops/rows.h"

uint64_t td_op_align_bits(uint32_t items, uint32_t tokens, uint32_t frames)
{
    return (uint64_t)items * tokens * td_divide_up(frames, 32);
}

static td_status check_align(td_kernel_class kernel_class, const td_align_args *a)
{
    const uint64_t frames = (uint64_t)a->items * a->frames;
    td_status status = TD_OK;
    TD_TRY(td_op_check_size(a->items, a->tokens, a->frames, "align"));
    TD_FAIL_IF(kernel_class == TD_CLASS_GPU && a->tokens > TD_ALIGN_MAX_TOKENS_GPU, TD_ERR_LIMIT,
               "align: %u tokens, but a GPU takes at most %u; shorten the texts", a->tokens,
               TD_ALIGN_MAX_TOKENS_GPU);
    TD_TRY(td_op_check_span(a->x, frames * a->tokens, "align", "x"));
    TD_TRY(td_op_check_span(a->lengths, 2 * (uint64_t)a->items, "align", "lengths"));
    TD_TRY(td_op_check_span(a->edge, frames, "align", "edge"));
    TD_TRY(td_op_check_span(a->bits, td_op_align_bits(a->items, a->tokens, a->frames), "align", "bits"));
    TD_TRY(td_op_check_span(a->durations, (uint64_t)a->items * a->tokens, "align", "durations"));
    TD_TRY(td_op_check_span(a->index, frames, "align", "index"));
fail:
    return status;
}

td_status td_op_align(td_list *list, const td_align_args *a)
{
    const double n = (double)a->items * a->tokens * a->frames;
    td_status status = TD_OK;
    TD_TRY(check_align(td_list_class(list), a));
    const td_align_search_params search = {.items = a->items, .tokens = a->tokens, .frames = a->frames};
    const td_align_path_params path = {.items = a->items, .tokens = a->tokens, .frames = a->frames};
    const td_span search_spans[] = {a->x, a->lengths, a->edge, a->bits};
    const td_span path_spans[] = {a->lengths, a->bits, a->durations, a->index};
    TD_TRY(td_list_dispatch(list, TD_K_align_search, search_spans, &search, td_grid_groups(a->items),
                            (td_cost){.flops = 4 * n, .bytes = 4 * n}));
    TD_TRY(td_list_dispatch(list, TD_K_align_path, path_spans, &path, td_grid_groups(a->items),
                            (td_cost){.bytes = 8.0 * a->items * a->frames}));
fail:
    return status;
}
