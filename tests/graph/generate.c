/* See generate.h. A composition takes [B, T, C] and gives [B, T', C']; what it needs beside its operand it
 * takes from what there is already or makes as a parameter. */
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

#define POOL 32

typedef struct maker {
    td_graph *g;
    uint64_t seed, drawn;
    uint32_t named;
    td_tensor pool[POOL];
    size_t n_pool;
    td_tensor square; /* a parameter [C, C] that several products share, and its C */
    uint32_t square_c;
} maker;

static uint32_t pick(maker *k, uint32_t bound)
{
    return (uint32_t)td_rng_below(k->seed, 1, k->drawn++, bound);
}

static td_tensor parameter(maker *k, const char *what, td_shape shape)
{
    char name[64];
    snprintf(name, sizeof name, "%s%u", what, k->named++);
    return td_graph_param(k->g, name, shape, pick(k, 2) ? TD_PARAM_DECAY : TD_PARAM_NO_DECAY);
}

static uint32_t dim(const maker *k, td_tensor x, size_t d)
{
    return td_graph_shape(k->g, x).dims[d];
}

static td_tensor weight(maker *k, uint32_t rows, uint32_t columns)
{
    return td_graph_scale(k->g, parameter(k, "w", td_dims(rows, columns)), 0.5f);
}

/* ---------------------------------------------------------------- compositions */

static td_tensor make_unary(maker *k, td_tensor x)
{
    td_graph *g = k->g;
    switch (pick(k, 16)) {
    case 0:
        return td_graph_exp(g, td_graph_tanh(g, x));
    case 1:
        return td_graph_log(g, td_graph_shift(g, td_graph_softplus(g, x), 0.5f));
    case 2:
        return td_graph_sqrt(g, td_graph_shift(g, td_graph_sigmoid(g, x), 0.1f));
    case 3:
        return td_graph_tanh(g, x);
    case 4:
        return td_graph_sigmoid(g, x);
    case 5:
        return td_graph_softplus(g, x);
    case 6:
        return td_graph_erf(g, x);
    case 7:
        return td_graph_silu(g, x);
    case 8:
        return td_graph_gelu(g, x);
    case 9:
        return td_graph_gelu_erf(g, x);
    case 10:
        return td_graph_relu(g, x);
    case 11:
        return td_graph_leaky_relu(g, x, 0.1f);
    case 12:
        return td_graph_clamp(g, x, -0.7f, 0.8f);
    case 13:
        return td_graph_sin(g, x);
    case 14:
        return td_graph_cos(g, td_graph_scale(g, x, 3));
    default:
        return td_graph_scale(g, td_graph_shift(g, x, 0.3f), -0.7f);
    }
}

static td_tensor combine(maker *k, td_tensor a, td_tensor b)
{
    td_graph *g = k->g;
    switch (pick(k, 7)) {
    case 0:
        return td_graph_sub(g, a, b);
    case 1:
        return td_graph_mul(g, a, b);
    case 2:
        return td_graph_div(g, a, td_graph_shift(g, td_graph_softplus(g, b), 0.5f));
    case 3:
        return td_graph_min(g, a, b);
    case 4:
        return td_graph_max(g, a, b);
    case 5:
        return td_graph_add_scaled(g, a, b, 0.3f);
    default:
        return td_graph_add(g, a, b);
    }
}

static td_tensor make_binary(maker *k, td_tensor x)
{
    for (size_t i = 0; i < k->n_pool; i++) {
        const td_tensor other = k->pool[(i + pick(k, POOL)) % k->n_pool];
        if (other.id != x.id && td_shape_equal(td_graph_shape(k->g, x), td_graph_shape(k->g, other)))
            return combine(k, x, other);
    }
    return combine(k, x, x);
}

static td_tensor make_broadcast(maker *k, td_tensor x)
{
    const uint32_t b = dim(k, x, 0), t = dim(k, x, 1), c = dim(k, x, 2);
    const td_shape shapes[] = {td_dims(c),       td_dims(t, c),    td_dims(t, 1),
                               td_dims(b, 1, c), td_dims(b, t, 1), td_dims(1)};
    const td_tensor p = parameter(k, "p", shapes[pick(k, 6)]);
    return pick(k, 3) ? combine(k, x, p) : combine(k, p, x);
}

static td_tensor make_linear(maker *k, td_tensor x)
{
    const uint32_t c = dim(k, x, 2), n = 3 + pick(k, 16);
    td_graph *g = k->g;
    td_tensor y = pick(k, 2) ? td_graph_matmul(g, x, parameter(k, "w", td_dims(c, n)))
                             : td_graph_matmul_nt(g, x, parameter(k, "w", td_dims(n, c)));
    if (pick(k, 3)) y = td_graph_add(g, y, parameter(k, "b", td_dims(n)));
    switch (pick(k, 6)) {
    case 0:
        return td_graph_gelu(g, y);
    case 1:
        return td_graph_relu(g, y);
    case 2:
        return td_graph_tanh(g, y);
    case 3:
        return td_graph_silu(g, y);
    default:
        return td_graph_scale(g, y, 0.5f);
    }
}

/* x + f(norm(x) W + b), the shape of a residual block; W is shared where it fits. Norms have a large eps, as
 * few channels can be nearly equal, and then magnify rounding. */
static td_tensor make_residual(maker *k, td_tensor x)
{
    const uint32_t c = dim(k, x, 2);
    td_graph *g = k->g;
    if (!k->square.id || k->square_c != c) {
        k->square = parameter(k, "shared", td_dims(c, c));
        k->square_c = c;
    }
    const td_tensor normed =
        td_graph_layer_norm(g, x, parameter(k, "gamma", td_dims(c)), parameter(k, "beta", td_dims(c)), 1e-2f);
    td_tensor y = td_graph_matmul(g, normed, k->square);
    y = td_graph_add(g, y, parameter(k, "b", td_dims(c)));
    if (pick(k, 2)) y = td_graph_gelu(g, y);
    if (pick(k, 3) == 0) y = td_graph_dropout(g, y, 0.2f);
    return td_graph_add(g, x, y);
}

/* softmax(x y^T) y by batched products. */
static td_tensor make_scores(maker *k, td_tensor x)
{
    td_graph *g = k->g;
    const td_tensor y = td_graph_tanh(g, x);
    td_softmax_options options = {.scale = 0.7f, .causal = pick(k, 2)};
    if (pick(k, 2)) options.lengths = model_lengths(g, dim(k, x, 0), dim(k, x, 1));
    if (pick(k, 2)) options.mask = td_graph_input(g, "mask", td_dims(dim(k, x, 1), dim(k, x, 1)), TD_F32);
    return td_graph_matmul(g, td_graph_softmax(g, td_graph_matmul_nt(g, x, y), &options), y);
}

static td_tensor make_cross(maker *k, td_tensor x)
{
    return td_graph_scale(k->g, td_graph_matmul_tn(k->g, x, td_graph_sigmoid(k->g, x)), 0.5f);
}

static td_tensor make_conv(maker *k, td_tensor x)
{
    const uint32_t c = dim(k, x, 2), taps = 1 + pick(k, 3), n = 2 * (1 + pick(k, 4));
    const uint32_t groups = c % 2 == 0 && pick(k, 3) == 0 ? 2 : 1;
    td_conv conv = {.groups = groups, .stride_width = 1 + pick(k, 2), .dilation_width = 1 + pick(k, 2)};
    const td_shape shape = groups > 1 ? td_dims(groups, taps, c / groups, n / groups) : td_dims(taps, c, n);
    const td_tensor bias = pick(k, 2) ? parameter(k, "b", td_dims(n)) : TD_NO_TENSOR;
    td_tensor y = td_graph_conv_padded(k->g, x, parameter(k, "w", shape), bias, &conv,
                                       pick(k, 2) ? TD_PADS_SAME : TD_PADS_CAUSAL);
    return pick(k, 2) ? td_graph_relu(k->g, y) : td_graph_scale(k->g, y, 0.5f);
}

static td_tensor make_conv_transposed(maker *k, td_tensor x)
{
    const uint32_t c = dim(k, x, 2), n = 2 + pick(k, 4);
    td_conv conv = {.transposed = true, .stride_width = 2, .pad_left = 1, .pad_right = 1};
    const td_tensor w = parameter(k, "w", td_dims(4, n, c));
    return td_graph_tanh(k->g, td_graph_conv(k->g, x, w, parameter(k, "b", td_dims(n)), &conv));
}

static td_tensor make_conv_2d(maker *k, td_tensor x)
{
    const uint32_t b = dim(k, x, 0), t = dim(k, x, 1), c = dim(k, x, 2);
    const td_conv conv = {.stride_height = 1 + pick(k, 2), .stride_width = 1 + pick(k, 2)};
    const td_tensor plane = td_graph_reshape(k->g, x, td_dims(b, t, c, 1));
    const td_tensor w = parameter(k, "w", td_dims(3, 2, 1, 2));
    const td_tensor y = td_graph_conv_padded(k->g, plane, w, TD_NO_TENSOR, &conv, TD_PADS_SAME);
    const td_shape s = td_graph_shape(k->g, y);
    return td_graph_reshape(k->g, y, td_dims(s.dims[0], s.dims[1], s.dims[2] * s.dims[3]));
}

static td_tensor make_norm(maker *k, td_tensor x)
{
    const uint32_t c = dim(k, x, 2);
    td_graph *g = k->g;
    const td_tensor gamma = parameter(k, "gamma", td_dims(c)), beta = parameter(k, "beta", td_dims(c));
    char name[2][48];
    switch (pick(k, 4)) {
    case 0:
        return td_graph_layer_norm(g, x, gamma, beta, 1e-2f);
    case 1:
        return td_graph_rms_norm(g, x, gamma, 1e-2f);
    case 2:
        return td_graph_group_norm(g, x, gamma, beta, c % 2 ? 1 : 2, 1e-3f);
    default:
        snprintf(name[0], sizeof name[0], "running_mean%u", k->named++);
        snprintf(name[1], sizeof name[1], "running_var%u", k->named++);
        return td_graph_batch_norm(g, x, gamma, beta, td_graph_state(g, name[0], td_dims(c), TD_STATE_KEPT),
                                   td_graph_state(g, name[1], td_dims(c), TD_STATE_KEPT), pick(k, 2), 0.1f,
                                   1e-3f);
    }
}

static td_tensor make_attention(maker *k, td_tensor x)
{
    const uint32_t c = dim(k, x, 2), heads = 1 + pick(k, 2), width = 32 * heads;
    td_graph *g = k->g;
    td_attention_options options = {.heads = heads, .causal = pick(k, 2)};
    if (pick(k, 2)) options.lengths = model_lengths(g, dim(k, x, 0), dim(k, x, 1));
    if (pick(k, 2)) {
        const td_tensor kv = td_graph_matmul(g, td_graph_tanh(g, x), weight(k, c, 2 * width));
        return td_graph_attention_kv(g, td_graph_matmul(g, x, weight(k, c, width)), kv, &options);
    }
    return td_graph_attention_qkv(g, td_graph_matmul(g, x, weight(k, c, 3 * width)), &options);
}

static td_tensor make_move(maker *k, td_tensor x)
{
    td_graph *g = k->g;
    const uint32_t t = dim(k, x, 1), c = dim(k, x, 2);
    static const uint32_t turned[] = {0, 2, 1}, rolled[] = {1, 0, 2};
    td_tensor y;
    switch (pick(k, 6)) {
    case 0:
        return td_graph_permute(g, td_graph_tanh(g, td_graph_permute(g, x, turned)), turned);
    case 1:
        return td_graph_permute(g, td_graph_scale(g, td_graph_permute(g, x, rolled), 0.9f), rolled);
    case 2:
        return td_graph_concat(g, (td_tensor[]){x, td_graph_sigmoid(g, x)}, 2, 1 + pick(k, 2));
    case 3:
        return td_graph_pad(g, x, pick(k, 3), 1, 0, 0.25f);
    case 4:
        y = td_graph_slice(g, x, 1 + pick(k, 2), 1, (t < c ? t : c) - 1);
        break;
    default: /* the first item by a view or a copy, beside a copy of the second */
        y = td_graph_slice(g, x, 0, 0, 1);
        return td_graph_concat(g, (td_tensor[]){y, td_graph_slice(g, x, 0, 1, 1), td_graph_tanh(g, y)}, 3, 0);
    }
    return y;
}

static td_tensor make_gather(maker *k, td_tensor x)
{
    td_graph *g = k->g;
    const uint32_t b = dim(k, x, 0), t = dim(k, x, 1), c = dim(k, x, 2);
    if (pick(k, 2)) return td_graph_gather(g, x, model_index(g, td_dims(b, t + 1), t + 1));
    const td_tensor table = parameter(k, "table", td_dims(5, c));
    return td_graph_add(g, x, td_graph_embedding(g, table, model_index(g, td_dims(b, t), 5)));
}

/* x times something reduced over one of its axes. */
static td_tensor make_reduce(maker *k, td_tensor x)
{
    td_graph *g = k->g;
    const uint32_t axis = pick(k, 3);
    td_shape kept = td_graph_shape(g, x);
    kept.dims[axis] = 1;
    td_tensor r;
    switch (pick(k, 4)) {
    case 0:
        r = td_graph_sum(g, x, axis);
        break;
    case 1:
        r = td_graph_mean(g, x, axis);
        break;
    case 2:
        r = td_graph_scale(g, td_graph_sum_squares(g, x, axis), 0.2f);
        break;
    default:
        r = td_graph_largest(g, x, axis);
        break;
    }
    return td_graph_mul(g, x, td_graph_sigmoid(g, td_graph_reshape(g, r, kept)));
}

static td_tensor make_dropout(maker *k, td_tensor x)
{
    return td_graph_dropout(k->g, x, 0.25f);
}

static td_tensor make_stopped(maker *k, td_tensor x)
{
    return td_graph_mul(k->g, x, td_graph_stop_gradient(k->g, td_graph_sigmoid(k->g, x)));
}

static const struct {
    const char *name;
    td_tensor (*make)(maker *k, td_tensor x);
} compositions[] = {
    {"unary", make_unary},     {"binary", make_binary},     {"broadcast", make_broadcast},
    {"linear", make_linear},   {"residual", make_residual}, {"scores", make_scores},
    {"cross", make_cross},     {"conv", make_conv},         {"conv_transposed", make_conv_transposed},
    {"conv_2d", make_conv_2d}, {"norm", make_norm},         {"attention", make_attention},
    {"move", make_move},       {"gather", make_gather},     {"reduce", make_reduce},
    {"dropout", make_dropout}, {"stopped", make_stopped},
};
#define COMPOSITIONS (sizeof compositions / sizeof *compositions)
size_t generate_counts[COMPOSITIONS];

const char *generate_name(size_t kind)
{
    return kind < COMPOSITIONS ? compositions[kind].name : NULL;
}

/* ---------------------------------------------------------------- losses */

static td_tensor make_loss(maker *k, td_tensor x)
{
    td_graph *g = k->g;
    const td_shape s = td_graph_shape(g, x);
    switch (pick(k, 6)) {
    case 0:
        return td_graph_cross_entropy(g, x, model_index(g, td_dims(s.dims[0], s.dims[1]), s.dims[2] + 1),
                                      pick(k, 2) ? 1 : UINT32_MAX, pick(k, 2) ? 0.1f : 0);
    case 1: /* without a loss node: a weighted sum */
        return td_graph_sum(
            g,
            td_graph_mean(g, td_graph_mean(g, td_graph_mul(g, x, td_graph_input(g, "r", s, TD_F32)), 2), 1),
            0);
    default: {
        const td_loss_kind kinds[] = {TD_LOSS_L1, TD_LOSS_MSE, TD_LOSS_HUBER, TD_LOSS_BCE};
        const td_loss_kind kind = kinds[pick(k, 4)];
        return td_graph_loss(g, kind, x, td_graph_input(g, "target", s, TD_F32),
                             model_lengths(g, s.dims[0], s.dims[1]), 0.8f);
    }
    }
}

static bool is_fit(const maker *k, td_tensor x)
{
    const td_shape s = td_graph_shape(k->g, x);
    return s.n_dims == 3 && s.dims[0] > 1 && s.dims[1] > 1 && s.dims[2] > 1 && td_shape_size(s) < 1500;
}

void generate(model *out, uint64_t seed, uint32_t steps, uint32_t micro)
{
    *out = (model){.seed = seed};
    check(td_graph_create(seed, &out->graph));
    maker k = {.g = out->graph, .seed = seed};
    const td_shape start = td_dims(2, 3 + pick(&k, 4), 4 + 2 * pick(&k, 4));
    const td_tensor x = td_graph_input(k.g, "x", start, TD_F32);
    k.pool[k.n_pool++] = td_graph_add(k.g, x, parameter(&k, "first", start));
    for (uint32_t i = 0; i < steps && k.n_pool < POOL; i++) {
        const uint32_t kind = pick(&k, COMPOSITIONS);
        const td_tensor from = k.pool[pick(&k, 3) ? k.n_pool - 1 : pick(&k, (uint32_t)k.n_pool)];
        if (i % 2 == 0) td_graph_block_begin(k.g);
        const td_tensor to = compositions[kind].make(&k, from);
        if (i % 2 == 1) td_graph_block_end(k.g);
        check(td_graph_status(k.g));
        generate_counts[kind]++;
        if (is_fit(&k, to)) k.pool[k.n_pool++] = to;
    }
    td_graph_block_end(k.g);
    const td_tensor losses[] = {make_loss(&k, k.pool[k.n_pool - 1]), make_loss(&k, k.pool[k.n_pool / 2])};
    out->loss = td_graph_total(k.g, losses, (float[]){1.0f, 0.6f}, 2);
    td_graph_output(k.g, out->loss, "loss");
    check(td_graph_backward(k.g, out->loss, 1.0f / (float)micro));
    model_fill(out);
}
