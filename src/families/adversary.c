/* See adversary.h. */
#include "families/adversary.h"

#include <math.h>
#include <stdio.h>

#include "families/wave_loss.h"

#define SLOPE 0.1f       /* of the leaky ReLUs */
#define LEAST_SIZE 1e-3f /* of a bin, within its logarithm */
#define LOUDNESS 3.0f    /* of samples where they are read as they are */
#define LEAST_MEAN 1e-3f /* of the recorded values that a distance is a share of */
#define PERIOD_TAPS 5u
#define PERIOD_STRIDE 3u
#define RAMP_STEPS 100

/* What they say of samples: their answers, high for recorded ones, and the values of their layers. */
enum { JUDGES = 6, FEATURES = 24 };
typedef struct verdict {
    td_tensor answers[JUDGES], features[FEATURES];
    size_t n_answers, n_features;
} verdict;

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
static td_tensor keep(td_nn *nn, verdict *out, td_tensor x)
{
    return out->features[out->n_features++] = td_graph_leaky_relu(nn->graph, x, SLOPE);
}

/* ---------------------------------------------------------------- the six */

/* Frames are the picture's rows, bins its columns. */
static void judge_spectrum(td_nn *nn, uint32_t width, td_tensor wave, uint32_t n_fft, verdict *out)
{
    static const struct {
        uint32_t rows, columns, row_step, column_step, widths;
    } LAYERS[] = {{3, 9, 1, 2, 1}, {3, 5, 2, 2, 2}, {3, 5, 2, 2, 4}, {3, 3, 1, 2, 4}, {3, 3, 1, 1, 0}};
    enum { N_LAYERS = sizeof LAYERS / sizeof *LAYERS };
    td_graph *g = nn->graph;
    const td_tensor sizes = td_wave_sizes(g, wave, &(td_stft_options){.n_fft = n_fft, .hop = n_fft / 4});
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
static void judge_period(td_nn *nn, uint32_t width, td_tensor wave, uint32_t period, verdict *out)
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

static verdict judge(td_nn *nn, const td_adversary *a, td_tensor wave)
{
    static const uint32_t TRANSFORMS[] = {512, 1024, 2048}, PERIODS[] = {2, 3, 5};
    verdict out = {0};
    td_nn_push(nn, "discriminator");
    for (uint32_t i = 0; i < 3; i++) {
        td_nn_push(nn, "spectrum.%u", i);
        judge_spectrum(nn, a->width, wave, TRANSFORMS[i], &out);
        td_nn_pop(nn);
    }
    for (uint32_t i = 0; i < 3; i++) {
        td_nn_push(nn, "period.%u", i);
        judge_period(nn, a->width, wave, PERIODS[i], &out);
        td_nn_pop(nn);
    }
    td_nn_pop(nn);
    return out;
}

/* ---------------------------------------------------------------- losses */

static td_tensor mean_of(td_graph *g, const td_tensor *terms, size_t n)
{
    float weights[FEATURES];
    for (size_t i = 0; i < n; i++)
        weights[i] = 1.0f / (float)n;
    return td_graph_total(g, terms, weights, n);
}

/* How far answers are from being on the side of `wanted` (1: recorded, -1: made), a mean over all, [1]. */
static td_tensor find_hinge(td_graph *g, const verdict *v, float wanted)
{
    td_tensor terms[JUDGES];
    for (size_t i = 0; i < v->n_answers; i++) {
        const td_tensor lack = td_graph_shift(g, td_graph_scale(g, v->answers[i], -wanted), 1);
        terms[i] = td_wave_mean(g, td_graph_relu(g, lack));
    }
    return mean_of(g, terms, v->n_answers);
}

/* How far apart the layers' values are, as a share of the recorded ones, a mean over all, [1]. */
static td_tensor match(td_graph *g, const verdict *made, const verdict *recorded)
{
    td_tensor terms[FEATURES];
    for (size_t i = 0; i < made->n_features; i++) {
        const td_tensor a = made->features[i], b = recorded->features[i];
        const td_tensor size = td_wave_mean(g, td_wave_abs(g, b));
        terms[i] = td_graph_div(g, td_wave_mean(g, td_wave_abs(g, td_graph_sub(g, a, b))),
                                td_graph_shift(g, size, LEAST_MEAN));
    }
    return mean_of(g, terms, made->n_features);
}

td_tensor td_adversary_please(td_nn *nn, const td_adversary *a, td_tensor made, td_tensor recorded)
{
    td_graph *g = nn->graph;
    const verdict of_made = judge(nn, a, made), of_recorded = judge(nn, a, recorded);
    const td_tensor terms[] = {find_hinge(g, &of_made, 1), match(g, &of_made, &of_recorded)};
    const td_tensor sum = td_graph_total(g, terms, (const float[]){a->loss_adversarial, a->loss_features}, 2);
    td_graph_output(g, terms[0], "loss.adversarial");
    td_graph_output(g, terms[1], "loss.features");
    return td_graph_mul(g, sum, td_graph_input(g, "adversarial_ramp", td_dims(1), TD_F32));
}

td_tensor td_adversary_judge(td_nn *nn, const td_adversary *a, td_tensor made, td_tensor recorded)
{
    td_graph *g = nn->graph;
    const verdict of_recorded = judge(nn, a, recorded);
    const verdict of_made = judge(nn, a, td_graph_stop_gradient(g, made));
    const td_tensor terms[] = {find_hinge(g, &of_recorded, 1), find_hinge(g, &of_made, -1)};
    td_graph_output(g, terms[0], "loss.recorded");
    td_graph_output(g, terms[1], "loss.made");
    return td_graph_total(g, terms, (const float[]){1, 1}, 2);
}

/* ---------------------------------------------------------------- pace */

float td_adversary_ramp(const td_adversary *a, uint64_t step)
{
    const double into = (double)step + 1 - (double)a->start;
    return into <= 0 ? 0 : into >= RAMP_STEPS ? 1 : (float)(into / RAMP_STEPS);
}

void td_adversary_adjust_generator(td_pace *pace)
{
    pace->optimizer.beta1 = 0.8f;
    pace->optimizer.beta2 = 0.99f;
    if (pace->optimizer.max_norm > 0) pace->optimizer.max_norm = 5;
}

/* Norms of discriminators are larger. */
void td_adversary_adjust_discriminator(td_pace *pace)
{
    td_adversary_adjust_generator(pace);
    if (pace->optimizer.max_norm > 0) pace->optimizer.max_norm = 10;
}
