/* Launches for sequences; see sequence.h. Covered by tests/ops/cases_sequence.c. */
#include "ops/sequence.h"

#include "ops/rows.h"

static td_status record(td_list *list, td_kernel_id kernel, const void *params, const td_span *spans,
                        uint32_t n)
{
    return td_list_dispatch(list, kernel, spans, params, td_grid_elements(td_list_class(list), n),
                            (td_cost){.flops = 4.0 * n, .bytes = 8.0 * n});
}

td_status td_op_sequence_wrap(td_list *list, const td_wrap_args *a)
{
    static const char op[] = "sequence wrap";
    const uint32_t n = a->items * a->columns;
    const td_wrapping *w = &a->wrapping;
    const td_sequence_wrap_params params = {.n = n,
                                            .columns = a->columns,
                                            .width = a->width,
                                            .before = w->before,
                                            .first = w->first,
                                            .after = w->after,
                                            .last = w->last,
                                            .rest = w->rest};
    TD_CHECK(td_op_check_size(a->items, a->columns, 1, op));
    TD_CHECK(td_op_check_span(a->ids, (uint64_t)a->items * a->width, op, "ids"));
    TD_CHECK(td_op_check_span(a->counts, a->items, op, "counts"));
    TD_CHECK(td_op_check_span(a->y, n, op, "y"));
    return record(list, TD_K_sequence_wrap, &params, (td_span[]){a->ids, a->counts, a->y}, n);
}

td_status td_op_sequence_rows(td_list *list, const td_rows_args *a)
{
    static const char op[] = "sequence rows";
    const uint32_t n = a->items * a->columns;
    const td_sequence_rows_params params = {
        .n = n, .columns = a->columns, .start = a->start, .width = a->width, .joins = a->joins};
    TD_CHECK(td_op_check_size(a->items, a->columns, 1, op));
    TD_CHECK(td_op_check_span(a->counts, a->items, op, "counts"));
    TD_CHECK(td_op_check_span(a->y, n, op, "y"));
    return record(list, TD_K_sequence_rows, &params, (td_span[]){a->counts, a->y}, n);
}

td_status td_op_sequence_hide(td_list *list, const td_hide_args *a)
{
    static const char op[] = "sequence hide";
    const uint32_t n = a->items * a->columns;
    const td_sequence_hide_params params = {
        .n = n, .columns = a->columns, .item = a->item, .divisor = a->divisor, .value = a->value};
    TD_REFUSE_IF(a->divisor == 0, TD_ERR_ARGUMENT, "%s: ranges cannot be divided by 0", op);
    TD_CHECK(td_op_check_size(a->items, a->columns, 1, op));
    TD_CHECK(td_op_check_span(a->x, n, op, "x"));
    TD_CHECK(td_op_check_span(a->ranges, 2 * (uint64_t)a->items, op, "ranges"));
    TD_CHECK(td_op_check_span(a->y, n, op, "y"));
    return record(list, TD_K_sequence_hide, &params, (td_span[]){a->x, a->ranges, a->y}, n);
}
