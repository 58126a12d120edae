/* Normalisations, softmax and attention as nodes: shapes and arguments of ops/norm.h and ops/attention.h,
 * which have the formulas of the gradients. Covered by tests/graph/test_random.c. */
#include "graph/internal.h"

static void check_vector(td_graph *graph, const td_node *node, size_t i, uint32_t size)
{
    const td_tensor_info *t = td_graph_at(graph, node->in[i]);
    if (node->in[i] && td_shape_size(t->shape) != size)
        td_graph_blame(graph, node, "%s does not have %u elements", t->name, size);
}

/* ---------------------------------------------------------------- layer and RMS norm */

static void shape_norm(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[NORM_X])->shape;
    uint32_t rows = 0, columns = 0;
    td_shape_rows(x, &rows, &columns);
    check_vector(graph, node, NORM_GAMMA, columns);
    check_vector(graph, node, NORM_BETA, columns);
    if (node->info.norm.kind == TD_NORM_LAYER && !node->in[NORM_BETA])
        td_graph_blame(graph, node, "layer norm needs beta");
    td_graph_make_output(graph, node, NORM_Y, x, TD_F32);
    td_graph_make_output(graph, node, NORM_STATS,
                         node->info.norm.kind == TD_NORM_LAYER ? td_dims(2, rows) : td_dims(rows), TD_F32);
}

static void back_norm(td_backprop *b, const td_node *node)
{
    const td_node back = {.kind = TD_OP_norm_back,
                          .in = {td_backprop_get(b, node->out[NORM_Y]), node->in[NORM_X],
                                 node->in[NORM_GAMMA], node->out[NORM_STATS]},
                          .info = node->info};
    td_backprop_append(b, back, node->in[NORM_X], node->in[NORM_GAMMA], node->in[NORM_BETA]);
}

static td_status record_norm(td_recorder *r, const td_node *node)
{
    td_norm_args args = {.kind = node->info.norm.kind,
                         .eps = node->info.norm.eps,
                         .x = td_recorder_span(r, node->in[NORM_X]),
                         .residual = td_recorder_span(r, node->in[NORM_RESIDUAL]),
                         .gamma = td_recorder_span(r, node->in[NORM_GAMMA]),
                         .beta = td_recorder_span(r, node->in[NORM_BETA]),
                         .y = td_recorder_span(r, node->out[NORM_Y]),
                         .sum = td_recorder_span(r, node->out[NORM_SUM]),
                         .stats = td_recorder_span(r, node->out[NORM_STATS])};
    td_shape_rows(td_recorder_shape(r, node->in[NORM_X]), &args.rows, &args.columns);
    return td_op_norm(r->list, &args);
}

const td_op_row td_op_row_norm = {
    .required = 2, .shape = shape_norm, .backward = back_norm, .record = record_norm, .in_place = 1};

/* dgamma and dbeta come together or not at all; where only one is asked for, the other is made as well. */
static void shape_norm_back(td_graph *graph, td_node *node)
{
    const td_shape gamma = td_graph_at(graph, node->in[NORM_BACK_GAMMA])->shape;
    const bool has_beta = node->info.norm.kind == TD_NORM_LAYER;
    td_graph_make_output(graph, node, 0, td_graph_at(graph, node->in[NORM_BACK_V])->shape, TD_F32);
    if (!node->out[1] && !node->out[2]) return;
    td_graph_make_output(graph, node, 1, gamma, TD_F32);
    if (has_beta) td_graph_make_output(graph, node, 2, gamma, TD_F32);
}

static td_status measure_norm_back(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    uint32_t rows = 0, columns = 0;
    td_shape_rows(td_recorder_shape(r, node->in[NORM_BACK_V]), &rows, &columns);
    *bytes =
        node->out[1] ? 4 * td_op_norm_back_partial(r->kernel_class, node->info.norm.kind, rows, columns) : 0;
    return TD_OK;
}

static td_status record_norm_back(td_recorder *r, const td_node *node)
{
    td_norm_back_args args = {.kind = node->info.norm.kind,
                              .accumulate = td_recorder_adds(node, 1) || td_recorder_adds(node, 2),
                              .dy = td_recorder_span(r, node->in[NORM_BACK_DY]),
                              .v = td_recorder_span(r, node->in[NORM_BACK_V]),
                              .gamma = td_recorder_span(r, node->in[NORM_BACK_GAMMA]),
                              .stats = td_recorder_span(r, node->in[NORM_BACK_STATS]),
                              .extra = td_recorder_span(r, node->in[NORM_BACK_EXTRA]),
                              .dx = td_recorder_span(r, node->out[0]),
                              .dgamma = td_recorder_span(r, node->out[1]),
                              .dbeta = td_recorder_span(r, node->out[2]),
                              .partial = r->workspace};
    td_shape_rows(td_recorder_shape(r, node->in[NORM_BACK_V]), &args.rows, &args.columns);
    return td_op_norm_back(r->list, &args);
}

const td_op_row td_op_row_norm_back = {.required = 4,
                                       .shape = shape_norm_back,
                                       .record = record_norm_back,
                                       .workspace = measure_norm_back,
                                       .in_place = 1 | 1 << NORM_BACK_EXTRA,
                                       .can_add = 6};

/* ---------------------------------------------------------------- batch and group norm */

enum { CN_X, CN_GAMMA, CN_BETA, CN_MEAN, CN_VAR };

static void read_channels(td_shape x, uint32_t *items, uint32_t *frames, uint32_t *channels)
{
    uint32_t rows = 0;
    td_shape_rows(x, &rows, channels);
    *items = x.dims[0];
    *frames = rows / x.dims[0];
}

static void shape_channel_norm(td_graph *graph, td_node *node)
{
    const td_channel_norm_info *info = &node->info.channel_norm;
    const td_shape x = td_graph_at(graph, node->in[CN_X])->shape;
    uint32_t items = 0, frames = 0, channels = 0;
    if (x.n_dims < 2) {
        td_graph_blame(graph, node, "x needs two axes or more");
        return;
    }
    read_channels(x, &items, &frames, &channels);
    for (size_t i = CN_GAMMA; i <= CN_VAR; i++)
        check_vector(graph, node, i, channels);
    if (info->kind == TD_NORM_GROUP && (info->groups == 0 || channels % info->groups))
        td_graph_blame(graph, node, "%u channels cannot be divided into %u groups", channels, info->groups);
    if (info->kind != TD_NORM_GROUP && (!node->in[CN_MEAN] || !node->in[CN_VAR]))
        td_graph_blame(graph, node, "batch norm needs running statistics");
    td_graph_make_output(graph, node, 0, x, TD_F32);
    td_graph_make_output(graph, node, 1,
                         info->kind == TD_NORM_GROUP ? td_dims(items, 2, channels) : td_dims(2, channels),
                         TD_F32);
}

static void back_channel_norm(td_backprop *b, const td_node *node)
{
    const td_node back = {
        .kind = TD_OP_channel_norm_back,
        .in = {td_backprop_get(b, node->out[0]), node->in[CN_X], node->in[CN_GAMMA], node->out[1]},
        .info = node->info};
    td_backprop_append(b, back, node->in[CN_X], node->in[CN_GAMMA], node->in[CN_BETA]);
}

/* Words of `partial`, rounded up so that what lies behind it is aligned. */
static uint64_t partial_words(const td_recorder *r, const td_node *node, td_shape x)
{
    uint32_t items = 0, frames = 0, channels = 0;
    read_channels(x, &items, &frames, &channels);
    const uint64_t words =
        td_op_channel_norm_partial(r->kernel_class, node->info.channel_norm.kind, items, frames, channels);
    return td_round_up(words, TD_STORAGE_ALIGN / 4);
}

static td_status measure_channel_norm(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    *bytes = 4 * partial_words(r, node, td_recorder_shape(r, node->in[CN_X]));
    return TD_OK;
}

static td_status record_channel_norm(td_recorder *r, const td_node *node)
{
    const td_channel_norm_info *info = &node->info.channel_norm;
    td_channel_norm_args args = {.kind = info->kind,
                                 .groups = info->groups,
                                 .eps = info->eps,
                                 .momentum = info->momentum,
                                 .x = td_recorder_span(r, node->in[CN_X]),
                                 .gamma = td_recorder_span(r, node->in[CN_GAMMA]),
                                 .beta = td_recorder_span(r, node->in[CN_BETA]),
                                 .running_mean = td_recorder_span(r, node->in[CN_MEAN]),
                                 .running_var = td_recorder_span(r, node->in[CN_VAR]),
                                 .y = td_recorder_span(r, node->out[0]),
                                 .table = td_recorder_span(r, node->out[1]),
                                 .partial = r->workspace};
    read_channels(td_recorder_shape(r, node->in[CN_X]), &args.items, &args.frames, &args.channels);
    return td_op_channel_norm(r->list, &args);
}

const td_op_row td_op_row_channel_norm = {.required = 3,
                                          .shape = shape_channel_norm,
                                          .backward = back_channel_norm,
                                          .record = record_channel_norm,
                                          .workspace = measure_channel_norm,
                                          .in_place = 1};

static void shape_channel_norm_back(td_graph *graph, td_node *node)
{
    const td_shape gamma = td_graph_at(graph, node->in[2])->shape;
    td_graph_make_output(graph, node, 0, td_graph_at(graph, node->in[1])->shape, TD_F32);
    td_graph_make_output(graph, node, 1, gamma, TD_F32);
    td_graph_make_output(graph, node, 2, gamma, TD_F32);
}

static td_status measure_channel_norm_back(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    *bytes = 4 * (partial_words(r, node, td_recorder_shape(r, node->in[1])) +
                  td_shape_size(td_recorder_shape(r, node->in[3])));
    return TD_OK;
}

static td_status record_channel_norm_back(td_recorder *r, const td_node *node)
{
    const td_channel_norm_info *info = &node->info.channel_norm;
    const td_shape x = td_recorder_shape(r, node->in[1]);
    const uint64_t partial = 4 * partial_words(r, node, x);
    td_channel_norm_back_args args = {
        .kind = info->kind,
        .groups = info->groups,
        .accumulate = td_recorder_adds(node, 1),
        .dy = td_recorder_span(r, node->in[0]),
        .x = td_recorder_span(r, node->in[1]),
        .gamma = td_recorder_span(r, node->in[2]),
        .table = td_recorder_span(r, node->in[3]),
        .dx = td_recorder_span(r, node->out[0]),
        .dgamma = td_recorder_span(r, node->out[1]),
        .dbeta = td_recorder_span(r, node->out[2]),
        .partial = partial ? td_span_part(r->workspace, 0, partial) : (td_span){0},
        .means = td_span_part(r->workspace, partial, r->workspace.bytes - partial)};
    read_channels(x, &args.items, &args.frames, &args.channels);
    return td_op_channel_norm_back(r->list, &args);
}

const td_op_row td_op_row_channel_norm_back = {.required = 4,
                                               .shape = shape_channel_norm_back,
                                               .record = record_channel_norm_back,
                                               .workspace = measure_channel_norm_back,
                                               .in_place = 1,
                                               .can_add = 6};

/* ---------------------------------------------------------------- softmax */

enum { SOFTMAX_X, SOFTMAX_MASK, SOFTMAX_LENGTHS };

/* A mask repeats along axes it lacks on the left and along axes of 1 on the right of its own rows: row r of x
 * has mask row (r / *repeat) % *rows. */
static bool read_mask(td_shape x, td_shape mask, uint32_t *rows, uint32_t *repeat)
{
    size_t d = 2; /* from the end; 1 is the columns */
    *rows = *repeat = 1;
    if (mask.n_dims > x.n_dims || mask.dims[mask.n_dims - 1] != x.dims[x.n_dims - 1]) return false;
    for (; d <= mask.n_dims && mask.dims[mask.n_dims - d] == 1; d++)
        *repeat *= x.dims[x.n_dims - d];
    for (; d <= mask.n_dims && mask.dims[mask.n_dims - d] == x.dims[x.n_dims - d]; d++)
        *rows *= x.dims[x.n_dims - d];
    for (; d <= mask.n_dims && mask.dims[mask.n_dims - d] == 1; d++)
        ;
    return d > mask.n_dims;
}

static void shape_softmax(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[SOFTMAX_X])->shape;
    uint32_t rows = 0, repeat = 0;
    if (node->in[SOFTMAX_MASK] &&
        !read_mask(x, td_graph_at(graph, node->in[SOFTMAX_MASK])->shape, &rows, &repeat))
        td_graph_blame(graph, node, "the mask does not fit");
    if (node->in[SOFTMAX_LENGTHS] && td_graph_at(graph, node->in[SOFTMAX_LENGTHS])->dtype != TD_U32)
        td_graph_blame(graph, node, "lengths are not uint");
    check_vector(graph, node, SOFTMAX_LENGTHS, x.dims[0]);
    if (node->info.softmax.causal && (x.n_dims < 2 || x.dims[x.n_dims - 2] > x.dims[x.n_dims - 1]))
        td_graph_blame(graph, node, "causal needs a column for each row");
    td_graph_make_output(graph, node, 0, x, TD_F32);
}

static td_status record_softmax(td_recorder *r, const td_node *node)
{
    const td_shape x = td_recorder_shape(r, node->in[SOFTMAX_X]);
    td_softmax_args args = {.scale = node->info.softmax.scale,
                            .queries = node->info.softmax.causal ? x.dims[x.n_dims - 2] : 0,
                            .x = td_recorder_span(r, node->in[SOFTMAX_X]),
                            .mask = td_recorder_span(r, node->in[SOFTMAX_MASK]),
                            .lengths = td_recorder_span(r, node->in[SOFTMAX_LENGTHS]),
                            .y = td_recorder_span(r, node->out[0])};
    td_shape_rows(x, &args.rows, &args.columns);
    args.item_rows = args.rows / (x.n_dims > 1 ? x.dims[0] : 1);
    if (node->in[SOFTMAX_MASK])
        read_mask(x, td_recorder_shape(r, node->in[SOFTMAX_MASK]), &args.mask_rows, &args.mask_repeat);
    return td_op_softmax(r->list, &args);
}

static void back_softmax(td_backprop *b, const td_node *node)
{
    const td_node back = {.kind = TD_OP_softmax_back,
                          .in = {td_backprop_get(b, node->out[0]), node->out[0]},
                          .info = node->info};
    td_backprop_append(b, back, node->in[SOFTMAX_X], 0, 0);
}

const td_op_row td_op_row_softmax = {
    .required = 1, .shape = shape_softmax, .backward = back_softmax, .record = record_softmax, .in_place = 1};

static void shape_softmax_back(td_graph *graph, td_node *node)
{
    td_graph_make_output(graph, node, 0, td_graph_at(graph, node->in[1])->shape, TD_F32);
}

static td_status record_softmax_back(td_recorder *r, const td_node *node)
{
    td_softmax_back_args args = {.scale = node->info.softmax.scale,
                                 .dy = td_recorder_span(r, node->in[0]),
                                 .y = td_recorder_span(r, node->in[1]),
                                 .dx = td_recorder_span(r, node->out[0])};
    td_shape_rows(td_recorder_shape(r, node->in[1]), &args.rows, &args.columns);
    return td_op_softmax_back(r->list, &args);
}

const td_op_row td_op_row_softmax_back = {
    .required = 2, .shape = shape_softmax_back, .record = record_softmax_back, .in_place = 1};

/* ---------------------------------------------------------------- attention */

enum { ATT_Q, ATT_K, ATT_V, ATT_LENGTHS, ATT_O, ATT_LSE, ATT_DO };

static void shape_attention(td_graph *graph, td_node *node)
{
    const td_attention_shape *s = &node->info.attention.shape;
    const uint32_t width = s->heads * s->head_size;
    if (s->head_size % 32 || s->head_size < 32 || s->head_size > 128 || !s->heads)
        td_graph_blame(graph, node, "%u heads of %u elements; a head has 32, 64, 96 or 128", s->heads,
                       s->head_size);
    if (s->causal && s->keys < s->queries) td_graph_blame(graph, node, "causal needs a key for each query");
    for (size_t i = ATT_Q; i <= ATT_V; i++) {
        const td_shape x = td_graph_at(graph, node->in[i])->shape;
        if (x.n_dims != 3 || x.dims[0] != s->batch || x.dims[1] != (i == ATT_Q ? s->queries : s->keys) ||
            x.dims[2] < node->info.attention.at[i] + width)
            td_graph_blame(graph, node, "q, k and v do not fit each other with %u heads", s->heads);
    }
    check_vector(graph, node, ATT_LENGTHS, s->batch);
    td_graph_make_output(graph, node, 0, td_dims(s->batch, s->queries, width), TD_F32);
    td_graph_make_output(graph, node, 1, td_dims(s->batch, s->heads, s->queries), TD_F32);
}

static size_t first_same(const td_node *node, size_t i)
{
    size_t j = 0;
    while (node->in[j] != node->in[i])
        j++;
    return j;
}

static void back_attention(td_backprop *b, const td_node *node)
{
    uint32_t targets[3];
    td_node back = {.kind = TD_OP_attention_back, .info = node->info};
    for (size_t i = 0; i < 3; i++)
        targets[i] = first_same(node, i) == i ? node->in[i] : 0;
    for (size_t i = 0; i <= ATT_LENGTHS; i++)
        back.in[i] = node->in[i];
    back.in[ATT_O] = node->out[0];
    back.in[ATT_LSE] = node->out[1];
    back.in[ATT_DO] = td_backprop_get(b, node->out[0]);
    td_backprop_append(b, back, targets[0], targets[1], targets[2]);
}

/* The part of a packed tensor that belongs to q, k or v. */
static td_span part_of(td_span span, const td_node *node, size_t i)
{
    const uint64_t at = 4 * (uint64_t)node->info.attention.at[i];
    return td_span_part(span, at, span.bytes - at);
}

static td_attention_args read_attention(const td_recorder *r, const td_node *node)
{
    td_attention_args args = {.shape = node->info.attention.shape,
                              .q = part_of(td_recorder_span(r, node->in[ATT_Q]), node, ATT_Q),
                              .k = part_of(td_recorder_span(r, node->in[ATT_K]), node, ATT_K),
                              .v = part_of(td_recorder_span(r, node->in[ATT_V]), node, ATT_V),
                              .lengths = td_recorder_span(r, node->in[ATT_LENGTHS])};
    args.shape.q_row = td_recorder_shape(r, node->in[ATT_Q]).dims[2];
    args.shape.k_row = td_recorder_shape(r, node->in[ATT_K]).dims[2];
    args.shape.v_row = td_recorder_shape(r, node->in[ATT_V]).dims[2];
    return args;
}

static td_status record_attention(td_recorder *r, const td_node *node)
{
    td_attention_args args = read_attention(r, node);
    args.o = td_recorder_span(r, node->out[0]);
    args.lse = td_recorder_span(r, node->out[1]);
    return td_op_attention(r->list, &args);
}

static double flops_of_attention(const td_recorder *r, const td_node *node)
{
    const td_attention_shape *s = &node->info.attention.shape;
    (void)r;
    return 4.0 * s->batch * s->heads * s->queries * s->keys * s->head_size * (s->causal ? 0.5 : 1) *
           (node->kind == TD_OP_attention_back ? 2.5 : 1);
}

const td_op_row td_op_row_attention = {.required = 3,
                                       .shape = shape_attention,
                                       .backward = back_attention,
                                       .record = record_attention,
                                       .flops = flops_of_attention};

static void shape_attention_back(td_graph *graph, td_node *node)
{
    for (size_t i = 0; i < 3; i++)
        if (first_same(node, i) == i)
            td_graph_make_output(graph, node, i, td_graph_at(graph, node->in[i])->shape, TD_F32);
}

static td_status measure_attention_back(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    (void)r;
    *bytes = 4 * td_op_attention_stats(&node->info.attention.shape);
    return TD_OK;
}

static td_status record_attention_back(td_recorder *r, const td_node *node)
{
    td_attention_back_args args = {.forward = read_attention(r, node),
                                   .d_o = td_recorder_span(r, node->in[ATT_DO]),
                                   .stats = r->workspace};
    td_span *parts[3] = {&args.d_q, &args.d_k, &args.d_v};
    args.forward.o = td_recorder_span(r, node->in[ATT_O]);
    args.forward.lse = td_recorder_span(r, node->in[ATT_LSE]);
    for (size_t i = 0; i < 3; i++)
        *parts[i] = part_of(td_recorder_span(r, node->out[first_same(node, i)]), node, i);
    return td_op_attention_back(r->list, &args);
}

const td_op_row td_op_row_attention_back = {.required = 3,
                                            .shape = shape_attention_back,
                                            .record = record_attention_back,
                                            .workspace = measure_attention_back,
                                            .flops = flops_of_attention};
