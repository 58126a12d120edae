/* Launches of the alignment search; see align.h. Covered by tests/ops/cases_align.c. */
#include "ops/align.h"

#include "ops/rows.h"

uint64_t td_op_align_bits(uint32_t items, uint32_t tokens, uint32_t frames)
{
    return (uint64_t)items * tokens * td_divide_up(frames, 32);
}

static td_status check_align(td_kernel_class kernel_class, const td_align_args *a)
{
    const uint64_t frames = (uint64_t)a->items * a->frames;
    TD_CHECK(td_op_check_size(a->items, a->tokens, a->frames, "align"));
    TD_REFUSE_IF(kernel_class == TD_CLASS_GPU && a->tokens > TD_ALIGN_MAX_TOKENS_GPU, TD_ERR_LIMIT,
                 "align: %u tokens, but a GPU takes at most %u; shorten the texts", a->tokens,
                 TD_ALIGN_MAX_TOKENS_GPU);
    TD_CHECK(td_op_check_span(a->x, frames * a->tokens, "align", "x"));
    TD_CHECK(td_op_check_span(a->lengths, 2 * (uint64_t)a->items, "align", "lengths"));
    TD_CHECK(td_op_check_span(a->edge, frames, "align", "edge"));
    TD_CHECK(td_op_check_span(a->bits, td_op_align_bits(a->items, a->tokens, a->frames), "align", "bits"));
    TD_CHECK(td_op_check_span(a->durations, (uint64_t)a->items * a->tokens, "align", "durations"));
    return td_op_check_span(a->index, frames, "align", "index");
}

td_status td_op_align(td_list *list, const td_align_args *a)
{
    const double n = (double)a->items * a->tokens * a->frames;
    TD_CHECK(check_align(td_list_class(list), a));
    const td_align_search_params search = {.items = a->items, .tokens = a->tokens, .frames = a->frames};
    const td_align_path_params path = {.items = a->items, .tokens = a->tokens, .frames = a->frames};
    const td_span search_spans[] = {a->x, a->lengths, a->edge, a->bits};
    const td_span path_spans[] = {a->lengths, a->bits, a->durations, a->index};
    TD_CHECK(td_list_dispatch(list, TD_K_align_search, search_spans, &search, td_grid_groups(a->items),
                              (td_cost){.flops = 4 * n, .bytes = 4 * n}));
    return td_list_dispatch(list, TD_K_align_path, path_spans, &path, td_grid_groups(a->items),
                            (td_cost){.bytes = 8.0 * a->items * a->frames});
}

/* ---------------------------------------------------------------- masks and counts */

static td_cost cost_of(uint32_t n)
{
    return (td_cost){.flops = 8.0 * n, .bytes = 8.0 * n};
}

/* spans: lengths [items], and the result [items, columns]. */
static td_status record_of_lengths(td_list *list, td_kernel_id kernel, const void *params,
                                   const td_span spans[2], uint32_t items, uint32_t columns)
{
    const char *op = td_kernel_get(kernel)->name;
    const uint32_t n = items * columns;
    TD_CHECK(td_op_check_size(items, columns, 1, op));
    TD_CHECK(td_op_check_span(spans[0], items, op, "lengths"));
    TD_CHECK(td_op_check_span(spans[1], n, op, "the result"));
    return td_list_dispatch(list, kernel, spans, params, td_grid_elements(td_list_class(list), n),
                            cost_of(n));
}

td_status td_op_align_mask(td_list *list, uint32_t items, uint32_t frames, uint32_t kind, td_span lengths,
                           td_span mask)
{
    const td_align_mask_params params = {.n = items * frames, .items = items, .frames = frames, .kind = kind};
    return record_of_lengths(list, TD_K_align_mask, &params, (td_span[]){lengths, mask}, items, frames);
}

td_status td_op_align_counts(td_list *list, uint32_t n, uint32_t divisor, td_span lengths, td_span y)
{
    const td_align_counts_params params = {.n = n, .divisor = divisor};
    if (divisor == 0) return TD_FAIL(TD_ERR_ARGUMENT, "align_counts: lengths cannot be divided by 0");
    return record_of_lengths(list, TD_K_align_counts, &params, (td_span[]){lengths, y}, n, 1);
}

/* ---------------------------------------------------------------- of alignments */

static td_status check_aligned(const td_aligned_args *a, uint64_t y_words, const char *op)
{
    TD_CHECK(td_op_check_size(a->items, a->tokens, a->frames, op));
    TD_CHECK(td_op_check_span(a->index, (uint64_t)a->items * a->frames, op, "index"));
    TD_CHECK(td_op_check_span(a->lengths, a->items, op, "lengths"));
    return td_op_check_span(a->y, y_words, op, "y");
}

td_status td_op_align_features(td_list *list, const td_aligned_args *a)
{
    const uint32_t n = a->items * a->frames;
    const td_align_features_params params = {.n = n, .tokens = a->tokens, .frames = a->frames};
    const td_span spans[] = {a->durations, a->index, a->lengths, a->y};
    TD_CHECK(check_aligned(a, UINT64_C(3) * n, "align features"));
    TD_CHECK(td_op_check_span(a->durations, (uint64_t)a->items * a->tokens, "align features", "durations"));
    return td_list_dispatch(list, TD_K_align_features, spans, &params,
                            td_grid_elements(td_list_class(list), n), cost_of(3 * n));
}

td_status td_op_align_tokens(td_list *list, td_align_kind kind, const td_aligned_args *a)
{
    static const td_kernel_id kernels[] = {TD_K_align_log, TD_K_align_mean, TD_K_align_mean_positive};
    const uint32_t n = a->items * a->tokens;
    const td_align_tokens_params params = {.n = n, .tokens = a->tokens, .frames = a->frames};
    const td_span spans[] = {a->durations, td_op_or(a->index, a->durations),
                             td_op_or(a->lengths, a->durations), td_op_or(a->x, a->durations), a->y};
    TD_CHECK(td_op_check_size(a->items, a->tokens, 1, "align tokens"));
    TD_CHECK(td_op_check_span(a->durations, n, "align tokens", "durations"));
    TD_CHECK(td_op_check_span(a->y, n, "align tokens", "y"));
    if (kind != TD_ALIGN_LOG) {
        TD_CHECK(check_aligned(a, n, "align tokens"));
        TD_CHECK(td_op_check_span(a->x, (uint64_t)a->items * a->frames, "align tokens", "x"));
    }
    return td_list_dispatch(list, kernels[kind], spans, &params, td_grid_elements(td_list_class(list), n),
                            cost_of(n));
}

td_status td_op_align_steps(td_list *list, uint32_t reduction, const td_aligned_args *a)
{
    const uint32_t steps = td_divide_up(a->frames, reduction ? reduction : 1);
    const uint32_t n = a->items * steps * a->tokens;
    const td_align_steps_params params = {
        .n = n, .tokens = a->tokens, .frames = a->frames, .steps = steps, .reduction = reduction};
    const td_span spans[] = {a->index, a->lengths, a->y};
    TD_REFUSE_IF(!reduction, TD_ERR_ARGUMENT, "align steps: a step has at least one frame");
    TD_CHECK(check_aligned(a, n, "align steps"));
    return td_list_dispatch(list, TD_K_align_steps, spans, &params, td_grid_elements(td_list_class(list), n),
                            cost_of(n));
}

td_status td_op_align_diagonal(td_list *list, const td_diagonal_args *a)
{
    const uint32_t n = a->items * a->rows * a->columns;
    const td_align_diagonal_params params = {.n = n, .rows = a->rows, .columns = a->columns};
    const td_span spans[] = {a->row_counts, a->column_counts, a->y};
    TD_CHECK(td_op_check_size(a->items, a->rows, a->columns, "align diagonal"));
    TD_CHECK(td_op_check_span(a->row_counts, a->items, "align diagonal", "row_counts"));
    TD_CHECK(td_op_check_span(a->column_counts, a->items, "align diagonal", "column_counts"));
    TD_CHECK(td_op_check_span(a->y, n, "align diagonal", "y"));
    return td_list_dispatch(list, TD_K_align_diagonal, spans, &params,
                            td_grid_elements(td_list_class(list), n), cost_of(n));
}

td_status td_op_align_put(td_list *list, const td_put_args *a)
{
    const uint32_t n = a->items * a->columns;
    const td_align_put_params params = {.n = n, .rows = a->rows, .columns = a->columns};
    const td_span spans[] = {a->x, a->at, a->y};
    TD_CHECK(td_op_check_size(a->items, a->rows, a->columns, "align put"));
    TD_CHECK(td_op_check_span(a->x, n, "align put", "x"));
    TD_CHECK(td_op_check_span(a->at, a->items, "align put", "at"));
    TD_CHECK(td_op_check_span(a->y, (uint64_t)n * a->rows, "align put", "y"));
    return td_list_dispatch(list, TD_K_align_put, spans, &params, td_grid_elements(td_list_class(list), n),
                            cost_of(n));
}
