/* Who tells recorded samples from made ones; see vocoder.h and docs/vocoder.md. Three look at spectra of different
 * lengths as pictures, three at every second, third and fifth sample. Covered by tests/families/test_vocoder.c and
 * tests/model/test_model_golden.c. */
#include <math.h>

#include "families/vocoder/vocoder.h"

#define SLOPE 0.1f       /* of the leaky ReLUs */
#define LEAST_SIZE 1e-3f /* of a bin, within its logarithm */
#define LOUDNESS 3.0f    /* of samples where they are read as they are */
#define LEAST_MEAN 1e-3f /* of the recorded values that a distance is a share of */
#define PERIOD_TAPS 5u
#define PERIOD_STRIDE 3u

/* ---------------------------------------------------------------- layers */

/* Weights [taps_width, taps_height, in, out] or [taps, in, out], uniform as their number of inputs asks for. */
static td_tensor convolve(td_nn *nn, const char *name, td_tensor x, td_shape weight, const td_conv *conv)
{
    const uint32_t out = weight.dims[weight.n_dims - 1];
    const float fan = (float)td_shape_size(weight) / (float)out;
    const td_init init = {.rule = TD_INIT_UNIFORM, .scale = 1.0f / sqrtf(fan)};
    td_nn_push(nn, "%s", name);
    const td_tensor w = td_nn_param(nn, "weight", weight, TD_PARAM_DECAY, init);
    const td_tensor bias =
        td_nn_param(nn, "bias", td_dims(out), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ZERO});
    td_nn_pop(nn);
    return td_graph_conv(nn->graph, x, w, bias, conv);
}

/* A layer whose values are compared too. */
static td_tensor keep(td_nn *nn, td_vocoder_verdict *out, td_tensor x)
{
    return out->features[out->n_features++] = td_graph_leaky_relu(nn->graph, x, SLOPE);
}

/* ---------------------------------------------------------------- the six */

/* Frames are the picture's rows, bins its columns. */
static void judge_spectrum(td_nn *nn, uint32_t width, td_tensor wave, uint32_t n_fft, td_vocoder_verdict *out)
{
    static const struct {
        uint32_t rows, columns, row_step, column_step, widths;
    } LAYERS[] = {{3, 9, 1, 2, 1}, {3, 5, 2, 2, 2}, {3, 5, 2, 2, 4}, {3, 3, 1, 2, 4}, {3, 3, 1, 1, 0}};
    enum { N_LAYERS = sizeof LAYERS / sizeof *LAYERS };
    td_graph *g = nn->graph;
    const td_tensor sizes = td_vocoder_sizes(g, wave, &(td_stft_options){.n_fft = n_fft, .hop = n_fft / 4});
    const td_tensor logs = td_graph_log(g, td_graph_shift(g, sizes, LEAST_SIZE));
    const td_shape s = td_graph_shape(g, logs);
    td_tensor x = td_graph_scale(g, td_graph_shift(g, logs, 3), 0.5f);
    x = td_graph_reshape(g, x, td_dims(s.dims[0], s.dims[1], s.dims[2], 1));
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        char name[16];
        const uint32_t in = i ? width * LAYERS[i - 1].widths : 1, to = width * LAYERS[i].widths;
        const td_conv conv = {.stride_height = LAYERS[i].row_step,
                              .stride_width = LAYERS[i].column_step,
                              .pad_top = LAYERS[i].rows / 2,
                              .pad_bottom = LAYERS[i].rows / 2,
                              .pad_left = LAYERS[i].columns / 2,
                              .pad_right = LAYERS[i].columns / 2};
        snprintf(name, sizeof name, "conv.%u", i);
        x = convolve(nn, name, x, td_dims(LAYERS[i].columns, LAYERS[i].rows, in, to ? to : 1), &conv);
        if (i + 1 < N_LAYERS) x = keep(nn, out, x);
    }
    out->answers[out->n_answers++] = x;
}

/* Every `period`-th sample is an item of its own. */
static void judge_period(td_nn *nn, uint32_t width, td_tensor wave, uint32_t period, td_vocoder_verdict *out)
{
    enum { N_LAYERS = 5 };
    td_graph *g = nn->graph;
    const td_shape s = td_graph_shape(g, wave);
    const uint32_t items = s.dims[0], rows = s.dims[1] / period;
    td_tensor x = td_graph_scale(g, td_graph_slice(g, wave, 1, 0, rows * period), LOUDNESS);
    x = td_graph_permute(g, td_graph_reshape(g, x, td_dims(items, rows, period)),
                         (const uint32_t[]){0, 2, 1});
    x = td_graph_reshape(g, x, td_dims(items * period, rows, 1));
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        char name[16];
        const bool is_last = i + 1 == N_LAYERS;
        const uint32_t in = i ? width << (i - 1) : 1, taps = is_last ? 3 : PERIOD_TAPS;
        const td_conv conv = {
            .stride_width = is_last ? 1 : PERIOD_STRIDE, .pad_left = taps / 2, .pad_right = taps / 2};
        snprintf(name, sizeof name, "conv.%u", i);
        x = convolve(nn, name, x, td_dims(taps, in, is_last ? 1 : width << i), &conv);
        if (!is_last) x = keep(nn, out, x);
    }
    out->answers[out->n_answers++] = x;
}

td_vocoder_verdict td_vocoder_judge(td_nn *nn, const td_vocoder_values *c, td_tensor wave)
{
    static const uint32_t TRANSFORMS[] = {512, 1024, 2048}, PERIODS[] = {2, 3, 5};
    td_vocoder_verdict out = {0};
    td_nn_push(nn, "discriminator");
    for (uint32_t i = 0; i < 3; i++) {
        td_nn_push(nn, "spectrum.%u", i);
        judge_spectrum(nn, c->discriminator_width, wave, TRANSFORMS[i], &out);
        td_nn_pop(nn);
    }
    for (uint32_t i = 0; i < 3; i++) {
        td_nn_push(nn, "period.%u", i);
        judge_period(nn, c->discriminator_width, wave, PERIODS[i], &out);
        td_nn_pop(nn);
    }
    td_nn_pop(nn);
    return out;
}

/* ---------------------------------------------------------------- losses */

static td_tensor mean_of(td_graph *g, const td_tensor *terms, size_t n)
{
    float weights[TD_VOCODER_FEATURES];
    for (size_t i = 0; i < n; i++)
        weights[i] = 1.0f / (float)n;
    return td_graph_total(g, terms, weights, n);
}

td_tensor td_vocoder_hinge(td_graph *g, const td_vocoder_verdict *verdict, float wanted)
{
    td_tensor terms[TD_VOCODER_JUDGES];
    for (size_t i = 0; i < verdict->n_answers; i++) {
        const td_tensor lack = td_graph_shift(g, td_graph_scale(g, verdict->answers[i], -wanted), 1);
        terms[i] = td_vocoder_mean(g, td_graph_relu(g, lack));
    }
    return mean_of(g, terms, verdict->n_answers);
}

td_tensor td_vocoder_match(td_graph *g, const td_vocoder_verdict *made, const td_vocoder_verdict *recorded)
{
    td_tensor terms[TD_VOCODER_FEATURES];
    for (size_t i = 0; i < made->n_features; i++) {
        const td_tensor a = made->features[i], b = recorded->features[i];
        const td_tensor size = td_vocoder_mean(g, td_vocoder_abs(g, b));
        terms[i] = td_graph_div(g, td_vocoder_mean(g, td_vocoder_abs(g, td_graph_sub(g, a, b))),
                                td_graph_shift(g, size, LEAST_MEAN));
    }
    return mean_of(g, terms, made->n_features);
}
