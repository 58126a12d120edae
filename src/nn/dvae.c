/* See dvae.h. */
#include "nn/dvae.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HALVINGS = 2, TAPS = 3 };

#define LEAST_SIZE 1e-5f /* keeps empty clusters from being divided by */

/* ---------------------------------------------------------------- layers */

/* Along the frames of x [B, T, C]: NAME.weight [width, C, taps], NAME.bias. */
static td_tensor convolve(td_nn *nn, const char *name, td_tensor x, uint32_t taps, uint32_t stride,
                          uint32_t width)
{
    static const uint32_t REVERSED[] = {2, 1, 0};
    td_graph *g = nn->graph;
    const uint32_t in = td_graph_shape(g, x).dims[2];
    const td_init init = {.rule = TD_INIT_UNIFORM, .scale = 1 / sqrtf((float)(in ? in * taps : 1))};
    const td_conv conv = {.stride_width = stride, .pad_left = taps / 2, .pad_right = taps / 2};
    td_nn_push(nn, "%s", name);
    const td_tensor w = td_nn_param(nn, "weight", td_dims(width, in, taps), TD_PARAM_DECAY, init);
    const td_tensor bias = td_nn_param(nn, "bias", td_dims(width), TD_PARAM_NO_DECAY, init);
    td_nn_pop(nn);
    return td_graph_conv(g, x, td_graph_permute(g, w, REVERSED), bias, &conv);
}

/* x + conv1(relu(conv3(relu(conv3 x)))); zeros stand behind the frames of each item, as at the end of a recording. */
static td_tensor run_block(td_nn *nn, td_tensor x, td_tensor mask)
{
    td_graph *g = nn->graph;
    const uint32_t width = td_graph_shape(g, x).dims[2];
    td_tensor y = td_graph_relu(g, convolve(nn, "0", td_graph_mul(g, x, mask), TAPS, 1, width));
    y = td_graph_relu(g, convolve(nn, "2", td_graph_mul(g, y, mask), TAPS, 1, width));
    return td_graph_add(g, x, convolve(nn, "4", y, 1, 1, width));
}

static td_tensor run_blocks(td_nn *nn, const td_dvae *d, uint32_t first, td_tensor x, td_tensor mask)
{
    for (uint32_t i = 0; i < d->blocks; i++) {
        td_nn_push(nn, "%u.net", first + i);
        x = run_block(nn, x, mask);
        td_nn_pop(nn);
    }
    return x;
}

/* A layer whose name is a number. */
static td_tensor apply(td_nn *nn, uint32_t number, td_tensor x, uint32_t width)
{
    char name[16];
    snprintf(name, sizeof name, "%u", number);
    return convolve(nn, name, x, 1, 1, width);
}

/* ---------------------------------------------------------------- encoder */

uint32_t td_dvae_frames(uint32_t frames)
{
    for (int i = 0; i < HALVINGS; i++)
        frames = (frames + 1) / 2;
    return frames;
}

td_tensor td_nn_dvae_encode(td_nn *nn, const td_dvae *d, td_tensor x, td_tensor counts, td_tensor *rest)
{
    td_graph *g = nn->graph;
    td_nn_push(nn, "encoder");
    for (uint32_t i = 0; i < HALVINGS; i++) {
        x = td_graph_mul(g, x, td_nn_mask(nn, counts, td_graph_shape(g, x).dims[1]));
        td_nn_push(nn, "%u", i);
        x = td_graph_relu(g, convolve(nn, "0", x, TAPS, 2, d->hidden << i));
        td_nn_pop(nn);
        counts = td_graph_counts(g, counts, 2);
    }
    x = run_blocks(nn, d, HALVINGS, x, td_nn_mask(nn, counts, td_graph_shape(g, x).dims[1]));
    x = apply(nn, HALVINGS + d->blocks, x, d->dim);
    td_nn_pop(nn);
    *rest = counts;
    return x;
}

/* ---------------------------------------------------------------- codes */

static td_tensor find_state(td_nn *nn, const char *name, td_shape shape)
{
    char whole[2 * TD_NN_NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%scodebook.%s", nn->prefix, nn->prefix[0] ? "." : "", name);
    const td_tensor known = td_graph_find(nn->graph, whole);
    return known.id ? known : td_graph_state(nn->graph, whole, shape, TD_STATE_KEPT);
}

static td_tensor find_vectors(td_nn *nn, const td_dvae *d)
{
    return find_state(nn, "embed", td_dims(d->dim, d->codes));
}

/* The nearest vector has the greatest 2 z.e - |e|^2. Behind an item's frames all are alike, so the first one is found. */
td_tensor td_nn_dvae_search(td_nn *nn, const td_dvae *d, td_tensor z, td_tensor rest)
{
    td_graph *g = nn->graph;
    const td_tensor vectors = find_vectors(nn, d);
    const td_tensor products =
        td_graph_matmul(g, td_graph_scale(g, td_graph_stop_gradient(g, z), 2), vectors);
    const td_tensor nearness = td_graph_sub(g, products, td_graph_sum_squares(g, vectors, 0));
    const td_tensor mask = td_nn_mask(nn, rest, td_graph_shape(g, z).dims[1]);
    return td_graph_largest_index(g, td_graph_mul(g, nearness, mask), 2);
}

td_tensor td_nn_dvae_look_up(td_nn *nn, const td_dvae *d, td_tensor codes)
{
    static const uint32_t TRANSPOSED[] = {1, 0};
    td_graph *g = nn->graph;
    return td_graph_embedding(g, td_graph_permute(g, find_vectors(nn, d), TRANSPOSED), codes);
}

/* ---------------------------------------------------------------- moving averages */

/* [codes, codes]: row i is 1 at i, so that a look-up of codes marks them. */
static td_status make_identity(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values)
{
    (void)words;
    memset(values, 0, sizeof *values * td_shape_size(shape));
    for (size_t i = 0; i < shape.dims[0]; i++)
        values[i * (shape.dims[1] + (size_t)1)] = 1;
    return TD_OK;
}

/* [F, codes]: 1 at the code of each of all frames, 0 in rows that do not count. */
static td_tensor mark_codes(td_nn *nn, const td_dvae *d, td_tensor codes, td_tensor mask)
{
    td_graph *g = nn->graph;
    const char *name = "constant.identity";
    td_tensor identity = td_graph_find(g, name);
    if (!identity.id) {
        identity = td_graph_state(g, name, td_dims(d->codes, d->codes), TD_STATE_CONSTANT);
        td_graph_set_init(g, identity, (td_init){.rule = TD_INIT_MADE, .make = make_identity});
    }
    const td_shape shape = td_graph_shape(g, codes);
    const td_tensor marks = td_graph_mul(g, td_graph_embedding(g, identity, codes), mask);
    return td_graph_reshape(g, marks, td_dims(shape.dims[0] * shape.dims[1], d->codes));
}

/* old + rate (now - old) */
static td_tensor average(td_graph *g, td_tensor old, td_tensor now, float rate)
{
    return td_graph_add_scaled(g, td_graph_scale(g, old, 1 - rate), now, rate);
}

/* For each code one of the batch's z [F, dim], drawn at random among those that count: [dim, codes]. */
static td_tensor draw(td_graph *g, const td_dvae *d, td_tensor z, td_tensor mask)
{
    static const uint32_t TRANSPOSED[] = {1, 0};
    const uint32_t frames = td_graph_shape(g, z).dims[0];
    const float far = 100; /* beyond all noise */
    const td_tensor counted =
        td_graph_scale(g, td_graph_shift(g, td_graph_reshape(g, mask, td_dims(frames)), -1), far);
    const td_tensor lots = td_graph_add(g, td_graph_noise(g, td_dims(d->codes, frames)), counted);
    return td_graph_permute(g, td_graph_embedding(g, z, td_graph_largest_index(g, lots, 1)), TRANSPOSED);
}

void td_nn_dvae_move(td_nn *nn, const td_dvae *d, td_tensor z, td_tensor codes, td_tensor rest,
                     td_dvae_pace pace)
{
    td_graph *g = nn->graph;
    const td_shape shape = td_graph_shape(g, z);
    const td_tensor mask = td_nn_mask(nn, rest, shape.dims[1]);
    const td_tensor all =
        td_graph_reshape(g, td_graph_stop_gradient(g, z), td_dims(shape.dims[0] * shape.dims[1], d->dim));
    const td_tensor marks = mark_codes(nn, d, codes, mask);
    const td_tensor sizes_state = find_state(nn, "cluster_size", td_dims(d->codes));
    const td_tensor sums_state = find_state(nn, "embed_avg", td_dims(d->dim, d->codes));
    td_tensor sizes = average(g, sizes_state, td_graph_sum(g, marks, 0), pace.rate);
    td_tensor sums = average(g, sums_state, td_graph_matmul_tn(g, all, marks), pace.rate);
    if (pace.least > 0) {
        /* 1 where a cluster is too small, else 0 */
        const td_tensor weak =
            td_graph_clamp(g, td_graph_scale(g, td_graph_shift(g, sizes, -pace.least), -1e30f), 0, 1);
        const td_tensor drawn = td_graph_sub(g, draw(g, d, all, mask), sums);
        sums = td_graph_add(g, sums, td_graph_mul(g, drawn, weak));
        sizes =
            td_graph_add(g, sizes, td_graph_mul(g, td_graph_shift(g, td_graph_scale(g, sizes, -1), 1), weak));
    }
    /* n (size + e) / (n + codes e) */
    const td_tensor n = td_graph_sum(g, sizes, 0);
    const td_tensor smooth = td_graph_div(g, n, td_graph_shift(g, n, (float)d->codes * LEAST_SIZE));
    const td_tensor divisors = td_graph_mul(g, td_graph_shift(g, sizes, LEAST_SIZE), smooth);
    if (pace.rate == 0) return;
    td_graph_assign(g, find_vectors(nn, d), td_graph_div(g, sums, divisors));
    td_graph_assign(g, sums_state, sums);
    td_graph_assign(g, sizes_state, sizes);
}

/* ---------------------------------------------------------------- decoder */

/* Each frame twice. */
static td_tensor repeat(td_graph *g, td_tensor x)
{
    const td_shape s = td_graph_shape(g, x);
    const td_tensor one = td_graph_reshape(g, x, td_dims(s.dims[0], s.dims[1], 1, s.dims[2]));
    const td_tensor two = td_graph_concat(g, (const td_tensor[]){one, one}, 2, 2);
    return td_graph_reshape(g, two, td_dims(s.dims[0], 2 * s.dims[1], s.dims[2]));
}

td_tensor td_nn_dvae_decode(td_nn *nn, const td_dvae *d, td_tensor x, td_tensor rest)
{
    td_graph *g = nn->graph;
    td_tensor mask = td_nn_mask(nn, rest, td_graph_shape(g, x).dims[1]);
    td_nn_push(nn, "decoder");
    x = apply(nn, 0, x, d->hidden << (HALVINGS - 1));
    x = run_blocks(nn, d, 1, x, mask);
    for (uint32_t i = 0; i < HALVINGS; i++) {
        mask = repeat(g, mask);
        td_nn_push(nn, "%u.0", d->blocks + 1 + i);
        x = td_graph_mul(g, repeat(g, x), mask);
        x = td_graph_relu(g, convolve(nn, "conv", x, TAPS, 1, d->hidden << (HALVINGS - 1 - i)));
        td_nn_pop(nn);
    }
    x = apply(nn, d->blocks + 1 + HALVINGS, x, d->bands);
    td_nn_pop(nn);
    return x;
}
