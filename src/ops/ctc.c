/* Launches of the CTC loss; see ctc.h. The walks along the frames are cut into launches of so many frames that one
 * work-item's loops stay within what lavapipe runs. Covered by tests/ops/cases_ctc.c. */
#include "ops/ctc.h"

#include "ops/loss.h"
#include "ops/rows.h"

enum { MOST_TURNS = 1 << 15, BIND_BYTES = 256 }; /* the largest alignment a device asks for */

static uint32_t count_states(uint32_t tokens)
{
    return 2 * tokens + 1;
}

typedef struct workspace {
    td_span norms, scores, behind;
} workspace;

static uint64_t words_of(uint64_t count)
{
    return td_round_up(4 * count, BIND_BYTES) / 4;
}

static uint64_t divide(uint32_t items, uint32_t frames, uint32_t tokens, td_span room, workspace *out)
{
    const uint64_t rows = (uint64_t)items * frames, states = count_states(tokens);
    const uint64_t norms = words_of(rows), scores = words_of(rows * states),
                   behind = words_of(2 * states * items);
    if (out)
        *out = (workspace){td_span_part(room, 0, 4 * rows), td_span_part(room, 4 * norms, 4 * rows * states),
                           td_span_part(room, 4 * (norms + scores), 8 * states * items)};
    return norms + scores + behind;
}

uint64_t td_op_ctc_workspace(uint32_t items, uint32_t frames, uint32_t tokens)
{
    return divide(items, frames, tokens, (td_span){0}, NULL);
}

static td_status check_ctc(const td_ctc_args *a)
{
    const uint64_t n = (uint64_t)a->items * a->frames * a->classes;
    TD_CHECK(td_op_check_size(a->items, a->frames, a->classes, "ctc"));
    TD_CHECK(td_op_check_size(a->items, a->frames, count_states(a->tokens), "ctc"));
    TD_CHECK(td_op_check_span(a->x, n, "ctc", "x"));
    TD_CHECK(td_op_check_span(a->token_ids, (uint64_t)a->items * a->tokens, "ctc", "token_ids"));
    TD_CHECK(td_op_check_span(a->lengths, 2 * (uint64_t)a->items, "ctc", "lengths"));
    TD_CHECK(td_op_check_span(a->workspace, td_op_ctc_workspace(a->items, a->frames, a->tokens), "ctc",
                              "workspace"));
    TD_CHECK(td_op_check_span(a->per_item, a->items, "ctc", "per_item"));
    TD_CHECK(td_op_check_span(a->scale, 1, "ctc", "scale"));
    TD_CHECK(td_op_check_span(a->loss, 1, "ctc", "loss"));
    if (td_op_given(a->dx)) TD_CHECK(td_op_check_span(a->dx, n, "ctc", "dx"));
    return TD_OK;
}

/* Frames of a launch: all of them where a group shares the states. */
static uint32_t frames_of_walk(const td_list *list, const td_ctc_args *a)
{
    const uint32_t frames = MOST_TURNS / count_states(a->tokens);
    if (td_list_class(list) == TD_CLASS_GPU) return a->frames;
    return frames == 0 ? 1 : frames < a->frames ? frames : a->frames;
}

static td_status walk_forward(td_list *list, const td_ctc_args *a, const workspace *w)
{
    const uint32_t count = frames_of_walk(list, a);
    const td_span spans[] = {a->x, w->norms, a->token_ids, a->lengths, w->scores, a->per_item};
    for (uint32_t first = 0; first < a->frames; first += count) {
        const td_ctc_forward_params params = {a->items, a->frames, a->classes, a->tokens,
                                              a->edge,  first,     count};
        const double states = (double)a->items * count * count_states(a->tokens);
        TD_CHECK(td_list_dispatch(list, TD_K_ctc_forward, spans, &params, td_grid_groups(a->items),
                                  (td_cost){.flops = 100 * states, .bytes = 12 * states}));
    }
    return TD_OK;
}

static td_status walk_backward(td_list *list, const td_ctc_args *a, const workspace *w)
{
    const uint32_t count = frames_of_walk(list, a);
    const td_span spans[] = {a->x, w->norms, a->token_ids, a->lengths, w->scores, a->per_item, w->behind};
    for (uint32_t left = td_divide_up(a->frames, count); left > 0; left--) {
        const td_ctc_backward_params params = {a->items, a->frames,          a->classes, a->tokens,
                                               a->edge,  (left - 1) * count, count};
        const double states = (double)a->items * count * count_states(a->tokens);
        TD_CHECK(td_list_dispatch(list, TD_K_ctc_backward, spans, &params, td_grid_groups(a->items),
                                  (td_cost){.flops = 130 * states, .bytes = 20 * states}));
    }
    return TD_OK;
}

td_status td_op_ctc(td_list *list, const td_ctc_args *a)
{
    const uint32_t rows = a->items * a->frames;
    const double n = (double)rows * a->classes;
    workspace w;
    TD_CHECK(check_ctc(a));
    divide(a->items, a->frames, a->tokens, a->workspace, &w);
    TD_CHECK(td_op_loss_count(list, a->items, a->tokens, a->lengths, a->scale));
    TD_CHECK(td_list_dispatch(list, TD_K_ctc_norms, (td_span[]){a->x, w.norms},
                              &(td_ctc_norms_params){.rows = rows, .columns = a->classes},
                              td_grid_groups(rows), (td_cost){.flops = 12 * n, .bytes = 4 * n}));
    TD_CHECK(walk_forward(list, a, &w));
    TD_CHECK(td_op_loss_total(list, a->items, a->per_item, a->scale, a->loss));
    if (!td_op_given(a->dx)) return TD_OK;
    TD_CHECK(walk_backward(list, a, &w));
    const td_span spans[] = {a->x, w.norms, a->token_ids, a->lengths, w.scores, a->scale, a->dx};
    const td_ctc_gradient_params params = {.items = a->items,
                                           .frames = a->frames,
                                           .classes = a->classes,
                                           .tokens = a->tokens,
                                           .edge = a->edge,
                                           .weight = a->weight};
    return td_list_dispatch(list, TD_K_ctc_gradient, spans, &params, td_grid_groups(rows),
                            (td_cost){.flops = 12 * n, .bytes = 8 * n});
}
