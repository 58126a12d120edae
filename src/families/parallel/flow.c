/* The flow decoder: a regression gives the mean of all readings of a text, which is smoother than any of
 * them; a flow carries noise to what the mean lacks (flow matching, Lipman et al. 2023). On the straight line
 * x = (1 - t) noise + t target, a net learns the velocity target - noise from x, t and what the mean was made
 * of; synthesis follows it in a few steps of Euler. B T M are items, frames and bands. See docs/model.md.
 * Covered by tests/model/test_model_golden.c and test_model_synthesis.c. */
#include <math.h>

#include "families/parallel/parallel.h"

#define RESIDUAL 4.0f /* makes the difference from the mean about as large as the noise */
#define SIGNS 12u     /* terms of a noise value */
#define SIGN_RATIO 0.85f
#define TIME_BITS 8u

/* ---------------------------------------------------------------- random numbers */

/* 0 or 2 with equal chance, in the shape of `ones`. */
static td_tensor toss(td_graph *g, td_tensor ones)
{
    return td_graph_dropout(g, ones, 0.5f);
}

/* Noise in the shape of x, of mean 0 and deviation 1: signs of falling weights, added. Signs are bits of
 * Philox, so every device makes the same noise, which logarithms and sines would not give. */
static td_tensor make_noise(td_graph *g, td_tensor x)
{
    const td_tensor ones = td_graph_shift(g, td_graph_scale(g, td_graph_stop_gradient(g, x), 0), 1);
    td_tensor sum = TD_NO_TENSOR;
    double weight = 1, weights = 0, squares = 0;
    for (uint32_t i = 0; i < SIGNS; i++) {
        const td_tensor tossed = toss(g, ones);
        sum = i == 0 ? tossed : td_graph_add_scaled(g, sum, tossed, (float)weight);
        weights += weight;
        squares += weight * weight;
        weight *= SIGN_RATIO;
    }
    const double deviation = sqrt(squares);
    return td_graph_shift(g, td_graph_scale(g, sum, (float)(1 / deviation)), (float)(-weights / deviation));
}

/* [B, 1, 1] of ones. */
static td_tensor make_ones(td_acoustic_builder *b, td_tensor frame_counts)
{
    td_graph *g = b->nn->graph;
    return td_graph_reshape(g, td_graph_mask(g, frame_counts, 1, TD_MASK_ONE), td_dims(b->shape.items, 1, 1));
}

/* A place between noise and target for each item, [B, 1, 1]: uniform from 0 to 1. */
static td_tensor make_times(td_acoustic_builder *b, td_tensor frame_counts)
{
    td_graph *g = b->nn->graph;
    const td_tensor ones = make_ones(b, frame_counts);
    td_tensor t = td_graph_scale(g, ones, 1.0f / (float)(2u << TIME_BITS));
    for (uint32_t i = 1; i <= TIME_BITS; i++)
        t = td_graph_add_scaled(g, t, toss(g, ones), 1.0f / (float)(2u << i));
    return t;
}

/* ---------------------------------------------------------------- the net */

/* What is the same at every place of the way. */
static td_tensor condition(td_acoustic_builder *b, const td_flow *in)
{
    td_graph *g = b->nn->graph;
    const td_tensor parts[] = {td_graph_stop_gradient(g, in->mean), td_graph_stop_gradient(g, in->hidden)};
    return td_nn_linear(b->nn, "flow.condition", td_graph_concat(g, parts, 2, 2), b->c.decoder_width);
}

/* [B, T, M]; t [B, 1, 1] */
static td_tensor find_velocity(td_acoustic_builder *b, const td_flow *in, td_tensor condition, td_tensor x,
                               td_tensor t)
{
    td_graph *g = b->nn->graph;
    const td_acoustic *c = &b->c;
    const td_tensor mask = td_nn_mask(b->nn, in->frame_counts, b->shape.frames);
    const td_tensor time = td_graph_gelu(g, td_nn_linear(b->nn, "flow.time1", t, c->decoder_width));
    td_tensor y = td_graph_add(g, td_nn_linear(b->nn, "flow.state", x, c->decoder_width), condition);
    y = td_graph_add(g, y, td_nn_linear(b->nn, "flow.time2", time, c->decoder_width));
    y = td_acoustic_stack(b, "flow", y, c->decoder_layers, c->decoder_heads, c->decoder_kernel, mask,
                          in->frame_counts);
    return td_nn_linear(b->nn, "flow.out", y, c->n_mels);
}

/* ---------------------------------------------------------------- training and synthesis */

td_tensor td_flow_learn(td_acoustic_builder *b, const td_flow *in, td_tensor mel)
{
    td_graph *g = b->nn->graph;
    const td_tensor mean = td_graph_stop_gradient(g, in->mean);
    const td_tensor target = td_graph_scale(g, td_graph_sub(g, mel, mean), RESIDUAL);
    const td_tensor noise = make_noise(g, mel), t = make_times(b, in->frame_counts);
    const td_tensor way = td_graph_sub(g, target, noise);
    const td_tensor x = td_graph_add(g, noise, td_graph_mul(g, way, t));
    const td_tensor velocity = find_velocity(b, in, condition(b, in), x, t);
    return td_graph_loss(g, TD_LOSS_MSE, velocity, way, in->frame_counts, 1);
}

td_tensor td_flow_make(td_acoustic_builder *b, const td_flow *in)
{
    td_graph *g = b->nn->graph;
    const uint32_t steps = b->c.flow_steps;
    const td_tensor given = condition(b, in), ones = make_ones(b, in->frame_counts);
    td_tensor x = td_graph_scale(g, make_noise(g, in->mean), b->c.flow_temperature);
    for (uint32_t i = 0; i < steps; i++) {
        const td_tensor t = td_graph_scale(g, ones, (float)i / (float)steps);
        x = td_graph_add_scaled(g, x, find_velocity(b, in, given, x, t), 1 / (float)steps);
    }
    return td_graph_add_scaled(g, in->mean, x, 1 / RESIDUAL);
}
