/* The nets of the vocoder family; see vocoder.h. Covered by tests/families/test_vocoder.c (golden files). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/vocoder/vocoder.h"
#include "families/wave_loss.h"

#define WEIGHT_DEVIATION 0.02f
#define NORM_EPS 1e-6f
#define NOISE_SHARE 0.1f /* of noise in what excites, beside pulses of size 1 */
#define LEAST_SIZE 1e-5f /* of a bin that is brought to size 1 */
#define LEAST_PRIOR 1e-5f
#define LOUDEST 4.60517019f /* ln of the largest size of a bin */
#define LEAST_HZ 50.0f
#define MIDDLE_LN_HZ 5.0f
#define PITCH_TAPS 5u

/* ---------------------------------------------------------------- layers */

static td_tensor make_weight(td_nn *nn, const char *name, td_shape shape, float deviation)
{
    return td_nn_param(nn, name, shape, TD_PARAM_DECAY,
                       (td_init){.rule = TD_INIT_NORMAL, .scale = deviation});
}

static td_tensor make_bias(td_nn *nn, uint32_t width)
{
    return td_nn_param(nn, "bias", td_dims(width), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ZERO});
}

static uint32_t channels_of(const td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

static td_tensor linear(td_nn *nn, const char *name, td_tensor x, uint32_t width, float deviation)
{
    td_nn_push(nn, "%s", name);
    const td_tensor w = make_weight(nn, "weight", td_dims(channels_of(nn, x), width), deviation);
    const td_tensor y = td_graph_add(nn->graph, td_graph_matmul(nn->graph, x, w), make_bias(nn, width));
    td_nn_pop(nn);
    return y;
}

static td_tensor convolve(td_nn *nn, const char *name, td_tensor x, uint32_t taps, uint32_t width)
{
    td_nn_push(nn, "%s", name);
    const td_tensor w = make_weight(nn, "weight", td_dims(taps, channels_of(nn, x), width), WEIGHT_DEVIATION);
    const td_tensor y =
        td_graph_conv_padded(nn->graph, x, w, make_bias(nn, width), &(td_conv){0}, TD_PADS_SAME);
    td_nn_pop(nn);
    return y;
}

static td_tensor norm(td_nn *nn, const char *name, td_tensor x)
{
    return td_nn_norm_eps(nn, name, x, NORM_EPS);
}

/* x + scale / blocks * two layers of the norm of a depthwise convolution. */
static td_tensor add_block(td_nn *nn, const td_vocoder_values *c, td_tensor x, uint32_t number)
{
    td_graph *g = nn->graph;
    td_nn_push(nn, "block.%u", number);
    td_nn_push(nn, "depthwise");
    const td_tensor taps = make_weight(nn, "weight", td_dims(c->kernel, c->width), WEIGHT_DEVIATION);
    td_tensor y = td_graph_add(g, td_graph_depthwise(g, x, taps), make_bias(nn, c->width));
    td_nn_pop(nn);
    y = td_graph_gelu_erf(g, linear(nn, "inside", norm(nn, "norm", y), c->inside, WEIGHT_DEVIATION));
    y = linear(nn, "out", y, c->width, WEIGHT_DEVIATION);
    const td_tensor scale =
        td_nn_param(nn, "scale", td_dims(c->width), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ONE});
    td_nn_pop(nn);
    return td_graph_add_scaled(g, x, td_graph_mul(g, y, scale), 1.0f / (float)c->blocks);
}

/* ---------------------------------------------------------------- what goes in */

/* Frames `margin` to F - margin of x [B, F, ..]. */
static td_tensor cut_margins(td_graph *g, const td_vocoder_values *c, td_tensor x)
{
    const uint32_t margin = td_vocoder_margin(c), frames = td_graph_shape(g, x).dims[1];
    return td_graph_slice(g, x, 1, margin, frames > 2 * margin ? frames - 2 * margin : 1);
}

/* 1 where there is a pitch, else 0; any pitch is above 1 Hz. */
static td_tensor voicing(td_graph *g, td_tensor pitch)
{
    return td_graph_clamp(g, pitch, 0, 1);
}

static td_tensor log_pitch(td_graph *g, td_tensor pitch)
{
    return td_graph_shift(g, td_graph_log(g, td_graph_clamp(g, pitch, LEAST_HZ, 1e5f)), -MIDDLE_LN_HZ);
}

/* ln of the sizes that the spectrogram tells, [B, T, bins]. */
static td_tensor prior(td_graph *g, const td_vocoder_values *c, td_tensor mel)
{
    const td_tensor bands = td_graph_exp(g, td_graph_shift(g, td_graph_scale(g, mel, c->scale), c->mean));
    const td_mel_config front_end = td_vocoder_mel(c);
    const td_tensor spread = td_graph_matmul(g, bands, td_wave_bands(g, &front_end, true));
    const td_tensor logs = td_graph_log(g, td_graph_clamp(g, spread, LEAST_PRIOR, 1e30f));
    return c->power ? td_graph_scale(g, logs, 0.5f) : logs;
}

static td_tensor see(td_nn *nn, const td_vocoder_values *c, td_tensor mel, td_tensor pitch, td_tensor pulses)
{
    td_graph *g = nn->graph;
    const td_shape shape = td_graph_shape(g, mel);
    const td_shape column = td_dims(shape.dims[0], shape.dims[1], 1);
    const td_tensor voiced = voicing(g, pitch);
    const td_tensor parts[] = {mel, td_graph_reshape(g, td_graph_mul(g, log_pitch(g, pitch), voiced), column),
                               td_graph_reshape(g, voiced, column)};
    const td_tensor seen = convolve(nn, "input", td_graph_concat(g, parts, 3, 2), c->kernel, c->width);
    const td_tensor loud = td_graph_log(g, td_graph_shift(g, td_wave_sizes_of(g, pulses, 0), 0.01f));
    return norm(nn, "input_norm",
                td_graph_add(g, seen, linear(nn, "pulses", loud, c->width, WEIGHT_DEVIATION)));
}

/* ---------------------------------------------------------------- the nets */

/* Part `i` of two along the third axis. */
static td_tensor half(td_graph *g, td_tensor x, uint32_t i)
{
    return td_graph_slice(g, x, 2, i, 1);
}

td_tensor td_vocoder_generate(td_nn *nn, const td_vocoder_values *c, td_tensor mel, td_tensor pitch,
                              const td_vocoder_source *source)
{
    td_graph *g = nn->graph;
    const td_stft_options way = {.n_fft = c->n_fft, .hop = c->hop};
    const td_tensor inner = cut_margins(g, c, mel);
    const td_shape shape = td_graph_shape(g, inner);
    const uint32_t bins = c->n_fft / 2 + 1;
    const td_shape two = td_dims(shape.dims[0], shape.dims[1], 2, bins);
    const td_shape one = td_dims(shape.dims[0], shape.dims[1], 1, bins);
    const td_tensor pulses = td_graph_stft(g, source->pulses, &way);
    const td_tensor both = td_graph_add_scaled(g, pulses, td_graph_stft(g, source->noise, &way), NOISE_SHARE);
    const td_tensor unit = td_graph_div(
        g, both, td_graph_reshape(g, td_graph_shift(g, td_wave_sizes_of(g, both, 0), LEAST_SIZE), one));
    td_nn_push(nn, "net");
    td_tensor x = see(nn, c, inner, cut_margins(g, c, pitch), pulses);
    for (uint32_t i = 0; i < c->blocks; i++)
        x = add_block(nn, c, x, i);
    const td_tensor head =
        td_graph_reshape(g, linear(nn, "head", norm(nn, "norm", x), 2 * bins, 0.5f * WEIGHT_DEVIATION), two);
    td_nn_pop(nn);
    const td_tensor logs = td_graph_add(g, half(g, head, 0), td_graph_reshape(g, prior(g, c, inner), one));
    const td_tensor size = td_graph_exp(g, td_graph_clamp(g, logs, -30, LOUDEST));
    const td_tensor cosine = td_graph_cos(g, half(g, head, 1)), sine = td_graph_sin(g, half(g, head, 1));
    const td_tensor re = half(g, unit, 0), im = half(g, unit, 1);
    const td_tensor turned[] = {
        td_graph_mul(g, size, td_graph_sub(g, td_graph_mul(g, re, cosine), td_graph_mul(g, im, sine))),
        td_graph_mul(g, size, td_graph_add(g, td_graph_mul(g, re, sine), td_graph_mul(g, im, cosine)))};
    return td_graph_istft(g, td_graph_concat(g, turned, 2, 2), &way);
}

/* Two stages of 8 where that is possible, then the primes that are left, large ones first. 0: too many. */
static uint32_t split_hop(uint32_t hop, uint32_t rates[TD_HIFIGAN_STAGES])
{
    uint32_t n = 0;
    for (; n < 2 && hop % 8 == 0; hop /= 8)
        rates[n++] = 8;
    for (uint32_t prime = hop; prime > 1; prime--) {
        bool is_prime = true;
        for (uint32_t k = 2; k * k <= prime; k++)
            is_prime = is_prime && prime % k != 0;
        for (; is_prime && hop % prime == 0; hop /= prime) {
            if (n == TD_HIFIGAN_STAGES) return 0;
            rates[n++] = prime;
        }
    }
    return n;
}

td_hifigan td_vocoder_hifigan(const td_vocoder_values *c)
{
    td_hifigan h = {.channels = c->width,
                    .n_kernels = 3,
                    .kernels = {3, 7, 11},
                    .n_dilations = 3,
                    .dilations = {1, 3, 5},
                    .slope = 0.1f,
                    .last_slope = 0.01f,
                    .post_bias = true,
                    .weights = TD_HIFIGAN_NORMED};
    h.n_stages = split_hop(c->hop, h.rates);
    for (uint32_t i = 0; i < h.n_stages; i++)
        h.taps[i] = 2 * h.rates[i] + h.rates[i] % 2;
    return h;
}

td_tensor td_vocoder_upsample(td_nn *nn, const td_vocoder_values *c, td_tensor mel)
{
    const td_hifigan h = td_vocoder_hifigan(c);
    td_nn_push(nn, "net");
    const td_tensor made = td_nn_hifigan(nn, &h, mel, TD_NO_TENSOR);
    td_nn_pop(nn);
    return td_graph_slice(nn->graph, made, 1, 0, (td_graph_shape(nn->graph, mel).dims[1] - 1) * c->hop);
}

td_tensor td_vocoder_pitch(td_nn *nn, const td_vocoder_values *c, td_tensor mel)
{
    td_graph *g = nn->graph;
    td_tensor x = mel;
    td_nn_push(nn, "pitch");
    for (uint32_t i = 0; i < c->pitch_layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "conv.%u", i);
        td_nn_push(nn, "%s", name);
        const uint32_t in = channels_of(nn, x);
        const float scale = 1.0f / sqrtf((float)(in > 0 ? in * PITCH_TAPS : 1));
        const td_tensor w = make_weight(nn, "weight", td_dims(PITCH_TAPS, in, c->pitch_width), scale);
        x = td_graph_gelu_erf(
            g, td_graph_conv_padded(g, x, w, make_bias(nn, c->pitch_width), &(td_conv){0}, TD_PADS_SAME));
        td_nn_pop(nn);
        x = norm(nn, i ? "norm.1" : "norm.0", x);
    }
    x = linear(nn, "out", x, 2, WEIGHT_DEVIATION);
    td_nn_pop(nn);
    return x;
}

uint32_t td_vocoder_margin(const td_vocoder_values *c)
{
    return c->n_fft / 2 / c->hop;
}

uint32_t td_vocoder_reach(const td_vocoder_values *c)
{
    const td_hifigan h = td_vocoder_hifigan(c);
    if (c->generator == TD_VOCODER_HIFIGAN) return td_hifigan_reach(&h);
    return c->kernel / 2 * (c->blocks + 1);
}

uint32_t td_vocoder_pitch_reach(const td_vocoder_values *c)
{
    return PITCH_TAPS / 2 * c->pitch_layers;
}

/* ---------------------------------------------------------------- losses */

td_tensor td_vocoder_trim(td_graph *g, const td_vocoder_values *c, td_tensor x)
{
    const uint32_t samples = td_graph_shape(g, x).dims[1], edge = c->n_fft - c->hop;
    return td_graph_slice(g, x, 1, edge, samples > 2 * edge ? samples - 2 * edge : 1);
}

/* In natural logarithms: the front end's own scale is taken out. */
td_tensor td_vocoder_mel_loss(td_nn *nn, const td_vocoder_values *c, td_tensor made, td_tensor mel)
{
    td_graph *g = nn->graph;
    const td_mel_config front_end = td_vocoder_mel(c);
    const td_tensor logs = td_wave_mel(g, &front_end, made);
    const uint32_t first = (c->n_fft - c->hop) / c->hop + td_vocoder_margin(c);
    const td_tensor target = td_graph_slice(g, mel, 1, first, td_graph_shape(g, logs).dims[1]);
    const td_tensor wanted = td_graph_shift(g, td_graph_scale(g, target, c->scale), c->mean);
    return td_wave_mean(g, td_wave_abs(g, td_graph_sub(g, logs, wanted)));
}

/* Cross-entropy of voicing, ln(1 + e^x) - x y, and the squared error of ln pitch where there is one. */
td_tensor td_vocoder_pitch_loss(td_graph *g, td_tensor told, td_tensor pitch)
{
    const td_shape shape = td_graph_shape(g, pitch);
    const td_tensor hertz = td_graph_reshape(g, half(g, told, 0), shape);
    const td_tensor logit = td_graph_reshape(g, half(g, told, 1), shape);
    const td_tensor voiced = voicing(g, pitch);
    const td_tensor away = td_graph_mul(g, td_graph_sub(g, hertz, log_pitch(g, pitch)), voiced);
    const td_tensor doubt = td_graph_sub(g, td_graph_softplus(g, logit), td_graph_mul(g, logit, voiced));
    return td_wave_mean(g, td_graph_add_scaled(g, doubt, td_graph_mul(g, away, away), 10));
}
