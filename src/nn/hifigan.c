/* See hifigan.h. */
#include "nn/hifigan.h"

#include <math.h>
#include <string.h>

#define PRE_TAPS 7u

/* What a layer has, besides its weight. */
enum { BIAS = 1, NORM = 2 };

static td_status fill_one_value(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values)
{
    for (size_t i = 0; i < td_shape_size(shape); i++)
        memcpy(values + i, words, sizeof *values);
    return TD_OK;
}

static td_init begin_with(float value)
{
    td_init init = {.rule = TD_INIT_MADE, .make = fill_one_value};
    memcpy(init.words, &value, sizeof value);
    return init;
}

/* g v / |v| of v [.., last]. g begins as what the norms of v are on average, so that weights begin as they do
 * without. */
static td_tensor make_normed(td_nn *nn, td_shape shape, float scale)
{
    td_graph *g = nn->graph;
    const uint32_t last = shape.dims[shape.n_dims - 1];
    const uint32_t rows = (uint32_t)(td_shape_size(shape) / last);
    const td_init init = begin_with(scale * sqrtf((float)rows / 3));
    const td_tensor v = td_nn_param(nn, "weight_v", shape, TD_PARAM_NO_DECAY,
                                    (td_init){.rule = TD_INIT_UNIFORM, .scale = scale});
    const td_tensor size = td_nn_param(nn, "weight_g", td_dims(last), TD_PARAM_NO_DECAY, init);
    const td_tensor squares = td_graph_sum_squares(g, td_graph_reshape(g, v, td_dims(rows, last)), 0);
    return td_graph_mul(g, v, td_graph_div(g, size, td_graph_sqrt(g, squares)));
}

/* The same of v [first, ..], whose axes are the other way round. */
static td_tensor make_torch_normed(td_nn *nn, td_shape shape, float scale)
{
    td_graph *g = nn->graph;
    const uint32_t first = shape.dims[0], rest = (uint32_t)(td_shape_size(shape) / first);
    const td_init init = begin_with(scale * sqrtf((float)rest / 3));
    td_nn_push(nn, "parametrizations.weight");
    const td_tensor size = td_nn_param(nn, "original0", td_dims(first, 1, 1), TD_PARAM_NO_DECAY, init);
    const td_tensor v = td_nn_param(nn, "original1", shape, TD_PARAM_NO_DECAY,
                                    (td_init){.rule = TD_INIT_UNIFORM, .scale = scale});
    td_nn_pop(nn);
    const td_tensor squares = td_graph_sum_squares(g, td_graph_reshape(g, v, td_dims(first, rest)), 1);
    const td_tensor norms = td_graph_reshape(g, td_graph_sqrt(g, squares), td_dims(first, 1, 1));
    return td_graph_mul(g, v, td_graph_div(g, size, norms));
}

/* [taps, in, out], or of ups [taps, out, in]. */
static td_tensor make_weight(td_nn *nn, const td_hifigan *h, td_shape shape, uint32_t fan_in, int has)
{
    static const uint32_t reversed[] = {2, 1, 0};
    const float scale = 1.0f / sqrtf((float)fan_in);
    const td_init init = {.rule = TD_INIT_UNIFORM, .scale = scale};
    if (h->weights == TD_HIFIGAN_NORMED) return make_normed(nn, shape, scale);
    if (h->weights == TD_HIFIGAN_PLAIN) return td_nn_param(nn, "weight", shape, TD_PARAM_DECAY, init);
    const td_shape torch = td_dims(shape.dims[2], shape.dims[1], shape.dims[0]);
    const td_tensor w = has & NORM ? make_torch_normed(nn, torch, scale)
                                   : td_nn_param(nn, "weight", torch, TD_PARAM_DECAY, init);
    return td_graph_permute(nn->graph, w, reversed);
}

static td_tensor make_bias(td_nn *nn, uint32_t width)
{
    return td_nn_param(nn, "bias", td_dims(width), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ZERO});
}

static uint32_t count_channels(const td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

/* Frames stay as many. */
static td_tensor convolve(td_nn *nn, const td_hifigan *h, td_tensor x, uint32_t taps, uint32_t dilation,
                          uint32_t width, int has)
{
    const uint32_t in = count_channels(nn, x), pad = (taps - 1) * dilation / 2;
    const td_conv conv = {.dilation_width = dilation, .pad_left = pad, .pad_right = pad};
    const td_tensor w = make_weight(nn, h, td_dims(taps, in, width), taps * in, has);
    return td_graph_conv(nn->graph, x, w, has & BIAS ? make_bias(nn, width) : TD_NO_TENSOR, &conv);
}

/* x plus a projection of the speaker's vector, the same for all frames. */
static td_tensor add_speaker(td_nn *nn, const td_hifigan *h, td_tensor x, td_tensor speaker)
{
    const td_shape s = td_graph_shape(nn->graph, speaker);
    if (!speaker.id) return x;
    const td_tensor one = td_graph_reshape(nn->graph, speaker, td_dims(s.dims[0], 1, s.dims[1]));
    return td_graph_add(nn->graph, x, convolve(nn, h, one, 1, 1, count_channels(nn, x), BIAS));
}

static td_tensor refine(td_nn *nn, const td_hifigan *h, td_tensor x, uint32_t taps)
{
    const uint32_t width = count_channels(nn, x);
    for (uint32_t i = 0; i < h->n_dilations; i++) {
        td_tensor y = td_graph_leaky_relu(nn->graph, x, h->slope);
        td_nn_push(nn, "convs1.%u", i);
        y = convolve(nn, h, y, taps, h->dilations[i], width, BIAS | NORM);
        td_nn_pop(nn);
        td_nn_push(nn, "convs2.%u", i);
        y = convolve(nn, h, td_graph_leaky_relu(nn->graph, y, h->slope), taps, 1, width, BIAS | NORM);
        td_nn_pop(nn);
        x = td_graph_add(nn->graph, x, y);
    }
    return x;
}

static td_tensor run_stage(td_nn *nn, const td_hifigan *h, uint32_t s, td_tensor x, td_tensor speaker)
{
    td_graph *g = nn->graph;
    const uint32_t in = count_channels(nn, x), width = in / 2, pad = (h->taps[s] - h->rates[s]) / 2;
    const td_conv conv = {.stride_width = h->rates[s], .pad_left = pad, .pad_right = pad, .transposed = true};
    td_tensor sum = TD_NO_TENSOR;
    td_nn_push(nn, "ups.%u", s);
    const td_tensor w = make_weight(nn, h, td_dims(h->taps[s], width, in), h->taps[s] * in, NORM);
    x = td_graph_conv(g, td_graph_leaky_relu(g, x, h->slope), w, make_bias(nn, width), &conv);
    td_nn_pop(nn);
    td_nn_push(nn, "conds.%u", s);
    x = add_speaker(nn, h, x, speaker);
    td_nn_pop(nn);
    for (uint32_t j = 0; j < h->n_kernels; j++) {
        td_nn_push(nn, "resblocks.%u", s * h->n_kernels + j);
        const td_tensor y = refine(nn, h, x, h->kernels[j]);
        td_nn_pop(nn);
        sum = j ? td_graph_add(g, sum, y) : y;
    }
    return td_graph_scale(g, sum, 1.0f / (float)h->n_kernels);
}

td_tensor td_nn_hifigan(td_nn *nn, const td_hifigan *h, td_tensor z, td_tensor speaker)
{
    td_graph *g = nn->graph;
    td_nn_push(nn, "conv_pre");
    td_tensor x = convolve(nn, h, z, PRE_TAPS, 1, h->channels, BIAS);
    td_nn_pop(nn);
    td_nn_push(nn, "cond_layer");
    x = add_speaker(nn, h, x, speaker);
    td_nn_pop(nn);
    for (uint32_t s = 0; s < h->n_stages; s++)
        x = run_stage(nn, h, s, x, speaker);
    td_nn_push(nn, "conv_post");
    x = convolve(nn, h, td_graph_leaky_relu(g, x, h->last_slope), PRE_TAPS, 1, 1, h->post_bias ? BIAS : 0);
    td_nn_pop(nn);
    const td_shape shape = td_graph_shape(g, x);
    return td_graph_reshape(g, td_graph_tanh(g, x), td_dims(shape.dims[0], shape.dims[1]));
}

/* From the samples back to the frames: what a step of the present rate sees on its far side. */
uint32_t td_hifigan_reach(const td_hifigan *h)
{
    uint32_t reach = PRE_TAPS / 2;
    for (uint32_t s = h->n_stages; s-- > 0;) {
        uint32_t widest = 0, dilated = 0;
        for (uint32_t j = 0; j < h->n_kernels; j++)
            if (h->kernels[j] > widest) widest = h->kernels[j];
        for (uint32_t i = 0; i < h->n_dilations; i++)
            dilated += h->dilations[i] + 1;
        reach += (widest - 1) / 2 * dilated;
        reach = (reach + h->taps[s] - 1) / h->rates[s] + 1;
    }
    return reach + PRE_TAPS / 2;
}
