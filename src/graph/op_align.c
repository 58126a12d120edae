/* Nodes around alignments: the search, what is measured from lengths and alignments, and rows put into a
 * state. None has a gradient. B L T are items, tokens and frames. Covered by tests/model. */
#include "graph/internal.h"

/* ---------------------------------------------------------------- the search */

enum { ALIGN_X, ALIGN_LENGTHS };
enum { ALIGN_DURATIONS, ALIGN_INDEX };

static bool is_counts(const td_graph *graph, uint32_t id, uint32_t items)
{
    const td_tensor_info *t = td_graph_at(graph, id);
    return t->dtype == TD_U32 && td_shape_size(t->shape) == items;
}

static void shape_align(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[ALIGN_X])->shape;
    if (x.n_dims != 3 || !is_counts(graph, node->in[ALIGN_LENGTHS], 2 * x.dims[0]))
        td_graph_blame(graph, node, "x must be [B, L, T] and the counts uint [B]");
    td_graph_make_output(graph, node, ALIGN_DURATIONS, td_dims(x.dims[0], x.dims[1]), TD_U32);
    td_graph_make_output(graph, node, ALIGN_INDEX, td_dims(x.dims[0], x.dims[2]), TD_U32);
}

static uint64_t edge_bytes(td_shape x)
{
    return td_round_up(UINT64_C(4) * x.dims[0] * x.dims[2], TD_STORAGE_ALIGN);
}

static td_status measure_align(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_shape x = td_recorder_shape(r, node->in[ALIGN_X]);
    *bytes = edge_bytes(x) + 4 * td_op_align_bits(x.dims[0], x.dims[1], x.dims[2]);
    return TD_OK;
}

static td_status record_align(td_recorder *r, const td_node *node)
{
    const td_shape x = td_recorder_shape(r, node->in[ALIGN_X]);
    const uint64_t edge = edge_bytes(x);
    return td_op_align(r->list,
                       &(td_align_args){.items = x.dims[0],
                                        .tokens = x.dims[1],
                                        .frames = x.dims[2],
                                        .x = td_recorder_span(r, node->in[ALIGN_X]),
                                        .lengths = td_recorder_span(r, node->in[ALIGN_LENGTHS]),
                                        .edge = td_span_part(r->workspace, 0, edge),
                                        .bits = td_span_part(r->workspace, edge, r->workspace.bytes - edge),
                                        .durations = td_recorder_span(r, node->out[ALIGN_DURATIONS]),
                                        .index = td_recorder_span(r, node->out[ALIGN_INDEX])});
}

const td_op_row td_op_row_align = {
    .required = 2, .shape = shape_align, .record = record_align, .workspace = measure_align};

td_alignment td_graph_align(td_graph *graph, td_tensor x, td_tensor token_counts, td_tensor frame_counts)
{
    const td_shape row = td_dims(1, td_graph_shape(graph, x).dims[0]);
    const td_tensor counts[] = {td_graph_reshape(graph, token_counts, row),
                                td_graph_reshape(graph, frame_counts, row)};
    const td_tensor lengths = td_graph_concat(graph, counts, 2, 0);
    const td_tensor durations =
        td_graph_append(graph, (td_node){.kind = TD_OP_align, .in = {x.id, lengths.id}});
    if (!durations.id) return (td_alignment){0};
    return (td_alignment){durations, {graph->nodes[graph->n_nodes - 1].out[ALIGN_INDEX]}};
}

/* ---------------------------------------------------------------- measures */

enum { M_LENGTHS, M_DURATIONS, M_INDEX, M_X }; /* of a diagonal: row counts, column counts */

static void shape_lengths(td_graph *graph, td_node *node)
{
    const td_length_info *m = &node->info.lengths;
    const uint32_t items = td_graph_at(graph, node->in[M_LENGTHS])->shape.dims[0];
    const td_tensor_info *x = td_graph_at(graph, node->in[M_X]);
    if (td_graph_at(graph, node->in[M_LENGTHS])->dtype != TD_U32)
        td_graph_blame(graph, node, "lengths are uint [B]");
    if (m->what == TD_LENGTH_COUNTS) {
        td_graph_make_output(graph, node, 0, td_dims(items), TD_U32);
        return;
    }
    if (node->in[M_X] &&
        td_shape_size(x->shape) != td_shape_size(td_graph_at(graph, node->in[M_INDEX])->shape))
        td_graph_blame(graph, node, "x must be [B, T]");
    td_graph_make_output(graph, node, 0,
                         m->columns ? td_dims(items, m->rows, m->columns) : td_dims(items, m->rows), TD_F32);
}

static td_status record_lengths(td_recorder *r, const td_node *node)
{
    const td_length_info *m = &node->info.lengths;
    const td_span lengths = td_recorder_span(r, node->in[M_LENGTHS]);
    const td_span y = td_recorder_span(r, node->out[0]);
    const uint32_t items = td_recorder_shape(r, node->out[0]).dims[0];
    const td_aligned_args aligned = {
        .items = items,
        .tokens = node->in[M_DURATIONS] ? td_recorder_shape(r, node->in[M_DURATIONS]).dims[1] : 0,
        .frames = node->in[M_INDEX] ? td_recorder_shape(r, node->in[M_INDEX]).dims[1] : 0,
        .durations = td_recorder_span(r, node->in[M_DURATIONS]),
        .index = td_recorder_span(r, node->in[M_INDEX]),
        .lengths = lengths,
        .x = td_recorder_span(r, node->in[M_X]),
        .y = y};
    switch (m->what) {
    case TD_LENGTH_MASK:
        return td_op_align_mask(r->list, items, m->rows, m->kind, lengths, y);
    case TD_LENGTH_COUNTS:
        return td_op_align_counts(r->list, items, m->kind, lengths, y);
    case TD_LENGTH_FEATURES:
        return td_op_align_features(r->list, &aligned);
    case TD_LENGTH_TOKENS:
        return td_op_align_tokens(r->list, (td_align_kind)m->kind, &aligned);
    case TD_LENGTH_STEPS:
        return td_op_align_steps(r->list, m->kind, &aligned);
    case TD_LENGTH_DIAGONAL:
        break;
    }
    return td_op_align_diagonal(r->list, &(td_diagonal_args){.items = items,
                                                             .rows = m->rows,
                                                             .columns = m->columns,
                                                             .row_counts = lengths,
                                                             .column_counts = aligned.durations,
                                                             .y = y});
}

const td_op_row td_op_row_lengths = {.required = 1, .shape = shape_lengths, .record = record_lengths};

static td_tensor from_lengths(td_graph *graph, td_length_info info, td_tensor lengths, td_alignment a,
                              td_tensor x)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_lengths,
                                            .in = {lengths.id, a.durations.id, a.index.id, x.id},
                                            .info = {.lengths = info}});
}

td_tensor td_graph_mask(td_graph *graph, td_tensor lengths, uint32_t frames, uint32_t kind)
{
    return from_lengths(graph, (td_length_info){.what = TD_LENGTH_MASK, .kind = kind, .rows = frames},
                        lengths, (td_alignment){0}, TD_NO_TENSOR);
}

td_tensor td_graph_counts(td_graph *graph, td_tensor lengths, uint32_t divisor)
{
    return from_lengths(graph, (td_length_info){.what = TD_LENGTH_COUNTS, .kind = divisor}, lengths,
                        (td_alignment){0}, TD_NO_TENSOR);
}

static uint32_t tokens_of(const td_graph *graph, td_alignment a)
{
    return td_graph_shape(graph, a.durations).dims[1];
}

static uint32_t frames_of(const td_graph *graph, td_alignment a)
{
    return td_graph_shape(graph, a.index).dims[1];
}

td_tensor td_graph_align_features(td_graph *graph, td_alignment a, td_tensor frame_counts)
{
    return from_lengths(
        graph, (td_length_info){.what = TD_LENGTH_FEATURES, .rows = frames_of(graph, a), .columns = 3},
        frame_counts, a, TD_NO_TENSOR);
}

td_tensor td_graph_align_log(td_graph *graph, td_alignment a)
{
    return from_lengths(
        graph, (td_length_info){.what = TD_LENGTH_TOKENS, .kind = TD_ALIGN_LOG, .rows = tokens_of(graph, a)},
        a.durations, a, TD_NO_TENSOR);
}

td_tensor td_graph_align_mean(td_graph *graph, td_alignment a, td_tensor frame_counts, td_tensor x,
                              bool positive)
{
    return from_lengths(graph,
                        (td_length_info){.what = TD_LENGTH_TOKENS,
                                         .kind = positive ? TD_ALIGN_MEAN_POSITIVE : TD_ALIGN_MEAN,
                                         .rows = tokens_of(graph, a)},
                        frame_counts, a, x);
}

td_tensor td_graph_align_steps(td_graph *graph, td_alignment a, td_tensor frame_counts, uint32_t reduction)
{
    return from_lengths(graph,
                        (td_length_info){.what = TD_LENGTH_STEPS,
                                         .kind = reduction,
                                         .rows = td_divide_up(frames_of(graph, a), reduction ? reduction : 1),
                                         .columns = tokens_of(graph, a)},
                        frame_counts, a, TD_NO_TENSOR);
}

td_tensor td_graph_diagonal(td_graph *graph, td_tensor row_counts, uint32_t rows, td_tensor column_counts,
                            uint32_t columns)
{
    return from_lengths(graph, (td_length_info){.what = TD_LENGTH_DIAGONAL, .rows = rows, .columns = columns},
                        row_counts, (td_alignment){column_counts, TD_NO_TENSOR}, TD_NO_TENSOR);
}

/* ---------------------------------------------------------------- rows into a state */

enum { PUT_STATE, PUT_X, PUT_AT };

/* The output is the state's own storage, so that who reads it comes after the writing. */
static void shape_put(td_graph *graph, td_node *node)
{
    const td_shape state = td_graph_at(graph, node->in[PUT_STATE])->shape;
    const td_tensor_role role = td_graph_at(graph, node->in[PUT_STATE])->role;
    if (role != TD_TENSOR_STATE || state.n_dims != 3 ||
        td_shape_size(td_graph_at(graph, node->in[PUT_X])->shape) !=
            (uint64_t)state.dims[0] * state.dims[2] ||
        !is_counts(graph, node->in[PUT_AT], state.dims[0]))
        td_graph_blame(graph, node, "a state [B, rows, C] takes x [B, C] at uint [B]");
    td_graph_make_output(graph, node, 0, state, TD_F32);
    if (node->out[0]) td_graph_at(graph, node->out[0])->root = node->in[PUT_STATE];
}

static td_status record_put(td_recorder *r, const td_node *node)
{
    const td_shape state = td_recorder_shape(r, node->in[PUT_STATE]);
    return td_op_align_put(r->list, &(td_put_args){.items = state.dims[0],
                                                   .rows = state.dims[1],
                                                   .columns = state.dims[2],
                                                   .x = td_recorder_span(r, node->in[PUT_X]),
                                                   .at = td_recorder_span(r, node->in[PUT_AT]),
                                                   .y = td_recorder_span(r, node->in[PUT_STATE])});
}

const td_op_row td_op_row_put = {.required = 3, .shape = shape_put, .record = record_put};

/* ---------------------------------------------------------------- a whole state */

static void shape_assign(td_graph *graph, td_node *node)
{
    const td_tensor_info *state = td_graph_at(graph, node->in[PUT_STATE]);
    if (state->role != TD_TENSOR_STATE ||
        !td_shape_equal(state->shape, td_graph_at(graph, node->in[PUT_X])->shape))
        td_graph_blame(graph, node, "a state takes values of its own shape");
    td_graph_make_output(graph, node, 0, state->shape, TD_F32);
    if (node->out[0]) td_graph_at(graph, node->out[0])->root = node->in[PUT_STATE];
}

static td_status record_assign(td_recorder *r, const td_node *node)
{
    return td_list_copy(r->list, td_recorder_span(r, node->in[PUT_STATE]),
                        td_recorder_span(r, node->in[PUT_X]));
}

const td_op_row td_op_row_assign = {.required = 2, .shape = shape_assign, .record = record_assign};

void td_graph_assign(td_graph *graph, td_tensor state, td_tensor x)
{
    td_graph_append(graph, (td_node){.kind = TD_OP_assign, .in = {state.id, x.id}});
}

td_tensor td_graph_put(td_graph *graph, td_tensor state, td_tensor x, td_tensor at)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_put, .in = {state.id, x.id, at.id}});
}
