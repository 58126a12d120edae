/* The HiFi-GAN of XTTS, and its speaker encoder: a residual network over spectrograms with squeeze-and-excitation
 * and attentive pooling. Convolutions have their axes as this program lays them out (load.h). See layers.h. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "families/xtts/layers.h"
#include "nn/hifigan.h"

#define NORM_EPS 1e-5f
#define LEAST_VARIANCE 1e-5f

/* ---------------------------------------------------------------- vocoder */

static td_hifigan describe_vocoder(const td_xtts *c)
{
    return (td_hifigan){.channels = c->decoder_channels,
                        .n_stages = TD_XTTS_DECODER_STAGES,
                        .rates = {8, 8, 2, 2},
                        .taps = {16, 16, 4, 4},
                        .n_kernels = TD_XTTS_DECODER_RESBLOCKS,
                        .kernels = {3, 7, 11},
                        .n_dilations = 3,
                        .dilations = {1, 3, 5},
                        .slope = 0.1f,
                        .last_slope = 0.01f};
}

td_tensor td_xtts_vocode(td_nn *nn, const td_xtts *c, td_tensor frames, td_tensor speaker)
{
    const td_hifigan h = describe_vocoder(c);
    td_nn_push(nn, "hifigan_decoder.waveform_decoder");
    const td_tensor wave = td_nn_hifigan(nn, &h, frames, speaker);
    td_nn_pop(nn);
    return wave;
}

td_tensor td_xtts_vocode_filed(td_nn *nn, const td_xtts *c, td_tensor frames, td_tensor speaker)
{
    td_hifigan h = describe_vocoder(c);
    h.weights = TD_HIFIGAN_TORCH;
    td_nn_push(nn, "hifigan_decoder.waveform_decoder");
    const td_tensor wave = td_nn_hifigan(nn, &h, frames, speaker);
    td_nn_pop(nn);
    return wave;
}

uint32_t td_xtts_vocoder_reach(const td_xtts *c)
{
    const td_hifigan h = describe_vocoder(c);
    return td_hifigan_reach(&h);
}

/* ---------------------------------------------------------------- layers of the speaker encoder */

static uint32_t count_channels(const td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

static td_tensor make_state(td_nn *nn, const char *name, uint32_t width)
{
    char whole[2 * TD_NN_NAME_BYTES];
    if (snprintf(whole, sizeof whole, "%s.%s", nn->prefix, name) >= TD_NN_NAME_BYTES)
        td_graph_mistake(nn->graph, "the name %s is longer than %d bytes", whole, TD_NN_NAME_BYTES - 1);
    const td_tensor known = td_graph_find(nn->graph, whole);
    return known.id ? known : td_graph_state(nn->graph, whole, td_dims(width), TD_STATE_KEPT);
}

/* With the statistics of training. */
static td_tensor normalise(td_nn *nn, const char *name, td_tensor x)
{
    const uint32_t width = count_channels(nn, x);
    const td_tensor scale = td_xtts_scale(nn, name, width), offset = td_xtts_offset(nn, name, width);
    td_nn_push(nn, "%s", name);
    const td_tensor mean = make_state(nn, "running_mean", width), var = make_state(nn, "running_var", width);
    td_nn_pop(nn);
    return td_graph_batch_norm(nn->graph, x, scale, offset, mean, var, false, 0, NORM_EPS);
}

/* Over bands and frames: x [1, bands, frames, C]. */
static td_tensor convolve(td_nn *nn, const char *name, td_tensor x, uint32_t taps, uint32_t stride,
                          uint32_t width, bool has_bias)
{
    const uint32_t in = count_channels(nn, x), pad = taps / 2;
    const td_conv conv = {.stride_height = stride,
                          .stride_width = stride,
                          .pad_top = pad,
                          .pad_bottom = pad,
                          .pad_left = pad,
                          .pad_right = pad};
    char part[TD_NN_NAME_BYTES];
    snprintf(part, sizeof part, "%s.weight", name);
    const td_tensor w =
        td_nn_param(nn, part, td_dims(taps, taps, in, width), TD_PARAM_DECAY,
                    (td_init){.rule = TD_INIT_UNIFORM, .scale = 1.0f / sqrtf((float)(taps * taps * in))});
    return td_graph_conv(nn->graph, x, w, has_bias ? td_xtts_offset(nn, name, width) : TD_NO_TENSOR, &conv);
}

/* Channels that matter in this recording get more weight. */
static td_tensor excite(td_nn *nn, td_tensor x)
{
    td_graph *g = nn->graph;
    const td_shape s = td_graph_shape(g, x);
    const uint32_t width = count_channels(nn, x);
    const td_tensor mean =
        td_graph_mean(g, td_graph_reshape(g, x, td_dims(s.dims[0], s.dims[1] * s.dims[2], width)), 1);
    td_nn_push(nn, "se.fc");
    td_tensor y = td_graph_relu(g, td_xtts_linear(nn, "0", mean, width / TD_XTTS_SPEAKER_SQUEEZE));
    y = td_graph_sigmoid(g, td_xtts_linear(nn, "2", y, width));
    td_nn_pop(nn);
    return td_graph_mul(g, x, td_graph_reshape(g, y, td_dims(s.dims[0], 1, 1, width)));
}

static td_tensor run_block(td_nn *nn, td_tensor x, uint32_t width, uint32_t stride, bool changes)
{
    td_graph *g = nn->graph;
    td_tensor residual = x;
    td_tensor y = td_graph_relu(g, convolve(nn, "conv1", x, 3, stride, width, false));
    y = convolve(nn, "conv2", normalise(nn, "bn1", y), 3, 1, width, false);
    y = excite(nn, normalise(nn, "bn2", y));
    if (changes)
        residual = normalise(nn, "downsample.1", convolve(nn, "downsample.0", x, 1, stride, width, false));
    return td_graph_relu(g, td_graph_add(g, y, residual));
}

/* Of each frame by itself: x [1, T, C]. */
static td_tensor project(td_nn *nn, const char *name, td_tensor x, uint32_t width)
{
    const uint32_t in = count_channels(nn, x);
    char part[TD_NN_NAME_BYTES];
    snprintf(part, sizeof part, "%s.weight", name);
    const td_tensor w = td_nn_param(nn, part, td_dims(1, in, width), TD_PARAM_DECAY,
                                    (td_init){.rule = TD_INIT_UNIFORM, .scale = 1.0f / sqrtf((float)in)});
    return td_graph_conv(nn->graph, x, w, td_xtts_offset(nn, name, width), &(td_conv){0});
}

/* ---------------------------------------------------------------- the speaker encoder */

/* Mean and deviation over frames, weighted by attention: x [1, T, C] to [1, 2 C]. */
static td_tensor pool(td_nn *nn, td_tensor x)
{
    static const uint32_t swap[] = {0, 2, 1};
    td_graph *g = nn->graph;
    const uint32_t items = td_graph_shape(g, x).dims[0], width = count_channels(nn, x);
    td_nn_push(nn, "attention");
    td_tensor w = td_graph_relu(g, project(nn, "0", x, TD_XTTS_SPEAKER_ATTENTION));
    w = project(nn, "3", normalise(nn, "2", w), width);
    td_nn_pop(nn);
    w = td_graph_softmax(g, td_graph_permute(g, w, swap), &(td_softmax_options){0});
    w = td_graph_permute(g, w, swap);
    const td_tensor mean = td_graph_sum(g, td_graph_mul(g, w, x), 1);
    /* the mean of squares less the square of the mean, without its rounding */
    const td_tensor centred = td_graph_sub(g, x, td_graph_reshape(g, mean, td_dims(items, 1, width)));
    const td_tensor variance = td_graph_sum(g, td_graph_mul(g, w, td_graph_mul(g, centred, centred)), 1);
    const td_tensor deviation = td_graph_sqrt(g, td_graph_clamp(g, variance, LEAST_VARIANCE, FLT_MAX));
    return td_graph_concat(g, (const td_tensor[]){mean, deviation}, 2, 1);
}

td_tensor td_xtts_speaker(td_nn *nn, const td_xtts *c, td_tensor mel)
{
    static const uint32_t frames_first[] = {0, 2, 3, 1};
    const uint32_t filters[] = {c->speaker_filters_1, c->speaker_filters_2, c->speaker_filters_3,
                                c->speaker_filters_4};
    const uint32_t blocks[] = {c->speaker_blocks_1, c->speaker_blocks_2, c->speaker_blocks_3,
                               c->speaker_blocks_4};
    td_graph *g = nn->graph;
    const td_shape s = td_graph_shape(g, mel);
    td_nn_push(nn, "hifigan_decoder.speaker_encoder");
    td_tensor x = td_graph_reshape(g, mel, td_dims(s.dims[0], s.dims[1], s.dims[2], 1));
    x = normalise(nn, "bn1", td_graph_relu(g, convolve(nn, "conv1", x, 3, 1, filters[0], true)));
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t b = 0; b < blocks[i]; b++) {
            const uint32_t stride = i > 0 && b == 0 ? 2 : 1;
            td_nn_push(nn, "layer%u.%u", i + 1, b);
            x = run_block(nn, x, filters[i], stride, stride != 1 || count_channels(nn, x) != filters[i]);
            td_nn_pop(nn);
        }
    }
    const td_shape end = td_graph_shape(g, x); /* [1, bands, frames, C] to [1, frames, C * bands] */
    x = td_graph_reshape(g, td_graph_permute(g, x, frames_first),
                         td_dims(end.dims[0], end.dims[2], end.dims[3] * end.dims[1]));
    x = td_xtts_linear(nn, "fc", pool(nn, x), c->d_vector_dim);
    td_nn_pop(nn);
    const td_tensor length = td_graph_sqrt(g, td_graph_sum_squares(g, x, 1));
    const td_tensor unit =
        td_graph_clamp(g, td_graph_reshape(g, length, td_dims(s.dims[0], 1)), 1e-12f, FLT_MAX);
    return td_graph_div(g, x, unit);
}
