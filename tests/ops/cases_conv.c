/* Cases of convolutions: strides, dilations, groups, pads of every kind, two dimensions, transposed,
 * epilogues; and the gradients of all of them. The reference visits each pair of an input and an
 * output that a weight joins, in plain loops and double; tiny gradients are judged against differences. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "kernels/half_geometry.h"
#include "ops/conv.h"
#include "ops/suite.h"

typedef enum padding { PAD_GIVEN, PAD_SAME, PAD_CAUSAL } padding;
enum { BIAS = 1, PRE = 2, RESIDUAL = 4 };

typedef struct conv_case {
    td_conv conv;
    padding padding;
    int extras;          /* BIAS | PRE | RESIDUAL */
    uint32_t activation; /* LINEAR, RELU or SILU */
    bool add;            /* gradients */
} conv_case;

typedef struct sizes {
    uint32_t out_height, out_width;
    size_t x, w, y;
} sizes;

/* ---------------------------------------------------------------- the reference */

static uint32_t or_one(uint32_t n)
{
    return n ? n : 1;
}

static sizes measure(const td_conv *c)
{
    sizes s = {0};
    if (td_conv_output(c, &s.out_height, &s.out_width) != TD_OK) {
        fprintf(stderr, "cases_conv: %s\n", td_error_last()->message);
        exit(1);
    }
    s.x = (size_t)c->batch * or_one(c->in_height) * c->in_width * c->in_channels;
    s.y = (size_t)c->batch * s.out_height * s.out_width * c->out_channels;
    s.w = (size_t)or_one(c->kernel_height) * c->kernel_width * c->in_channels * c->out_channels /
          or_one(c->groups);
    return s;
}

/* Where tap `tap` of place `place` of y reads x (transposed: of x writes y); false outside. */
static bool reach_place(uint32_t place, uint32_t tap, uint32_t stride, uint32_t dilation, uint32_t pad,
                        uint32_t length, size_t *at)
{
    const long to = (long)place * or_one(stride) + (long)tap * or_one(dilation) - (long)pad;
    *at = (size_t)to;
    return to >= 0 && to < (long)length;
}

/* What a pair (x element, y element) joined by a weight does. */
typedef struct pairs {
    const double *x, *w, *y; /* y: the cotangent */
    double *sums;            /* of y, of x or of w */
    char of;                 /* 'y', 'x', 'w' */
} pairs;

/* All channels of one place of x and one of y that share a tap. */
static void join_places(const td_conv *c, const pairs *p, size_t x_place, size_t y_place, size_t tap)
{
    const size_t groups = or_one(c->groups), in = c->in_channels / groups, out = c->out_channels / groups;
    const size_t taps = (size_t)c->kernel_width * or_one(c->kernel_height);
    for (size_t g = 0; g < groups; g++)
        for (size_t i = 0; i < in; i++)
            for (size_t o = 0; o < out; o++) {
                const size_t x = x_place * c->in_channels + g * in + i;
                const size_t y = y_place * c->out_channels + g * out + o;
                const size_t channel = c->transposed ? o * in + i : i * out + o;
                const size_t w = (g * taps + tap) * in * out + channel;
                if (p->of == 'y') p->sums[y] += p->x[x] * p->w[w];
                if (p->of == 'x') p->sums[x] += p->y[y] * p->w[w];
                if (p->of == 'w') p->sums[w] += p->y[y] * p->x[x];
            }
}

/* A plain convolution walks over y and reaches into x, a transposed one walks over x and reaches into y. */
static void visit(const td_conv *c, const pairs *p)
{
    const sizes s = measure(c);
    const uint32_t in_height = or_one(c->in_height), kernel_height = or_one(c->kernel_height);
    const uint32_t from_h = c->transposed ? in_height : s.out_height;
    const uint32_t from_w = c->transposed ? c->in_width : s.out_width;
    const uint32_t to_h = c->transposed ? s.out_height : in_height;
    const uint32_t to_w = c->transposed ? s.out_width : c->in_width;
    for (uint32_t b = 0; b < c->batch; b++)
        for (uint32_t h = 0; h < from_h; h++)
            for (uint32_t v = 0; v < from_w; v++)
                for (uint32_t j = 0; j < c->kernel_width; j++)
                    for (uint32_t i = 0; i < kernel_height; i++) {
                        size_t line, column;
                        if (!reach_place(h, i, c->stride_height, c->dilation_height, c->pad_top, to_h,
                                         &line) ||
                            !reach_place(v, j, c->stride_width, c->dilation_width, c->pad_left, to_w,
                                         &column))
                            continue;
                        const size_t from = ((size_t)b * from_h + h) * from_w + v;
                        const size_t to = ((size_t)b * to_h + line) * to_w + column;
                        join_places(c, p, c->transposed ? from : to, c->transposed ? to : from,
                                    (size_t)j * kernel_height + i);
                    }
}

static double *make(size_t n)
{
    double *values = calloc(n ? n : 1, sizeof *values);
    if (!values) abort();
    return values;
}

static double *to_double(const op_io *io)
{
    double *values = make(io->count);
    for (size_t i = 0; i < io->count; i++)
        values[i] = (double)io->values[i];
    return values;
}

static double activate(double x, uint32_t activation)
{
    if (activation == TD_GEMM_RELU) return x > 0 ? x : 0;
    if (activation == TD_GEMM_SILU) return x / (1 + exp(-x));
    return x;
}

/* ---------------------------------------------------------------- launches */

enum { X, W, Y, BIAS_IO, PRE_IO, RESIDUAL_IO, D_X, D_W, D_Y, D_BIAS, WORKSPACE, ROLES };

typedef struct conv_args {
    conv_case a;
    int io[ROLES]; /* -1: none */
} conv_args;

static td_span span_of(const conv_args *r, const td_span *spans, int role)
{
    return r->io[role] < 0 ? (td_span){0} : spans[r->io[role]];
}

static td_status launch_forward(const op_case *c, td_list *list, const td_span *s)
{
    const conv_args *r = c->args;
    const td_conv_args args = {.conv = r->a.conv,
                               .x = span_of(r, s, X),
                               .w = span_of(r, s, W),
                               .y = span_of(r, s, Y),
                               .bias = span_of(r, s, BIAS_IO),
                               .activation = r->a.activation,
                               .pre = span_of(r, s, PRE_IO),
                               .residual = span_of(r, s, RESIDUAL_IO),
                               .workspace = span_of(r, s, WORKSPACE)};
    return td_op_conv(list, &args);
}

static td_status launch_data(const op_case *c, td_list *list, const td_span *s)
{
    const conv_args *r = c->args;
    const td_conv_back_data_args args = {.conv = r->a.conv,
                                         .dy = span_of(r, s, D_Y),
                                         .w = span_of(r, s, W),
                                         .dx = span_of(r, s, D_X),
                                         .add = r->a.add,
                                         .workspace = span_of(r, s, WORKSPACE)};
    return td_op_conv_back_data(list, &args);
}

static td_status launch_weights(const op_case *c, td_list *list, const td_span *s)
{
    const conv_args *r = c->args;
    const td_conv_back_weights_args args = {.conv = r->a.conv,
                                            .x = span_of(r, s, X),
                                            .dy = span_of(r, s, D_Y),
                                            .dw = span_of(r, s, D_W),
                                            .dbias = span_of(r, s, D_BIAS),
                                            .add = r->a.add,
                                            .workspace = span_of(r, s, WORKSPACE)};
    return td_op_conv_back_weights(list, &args);
}

/* ---------------------------------------------------------------- making */

static op_io *add_role(op_case *c, conv_args *r, int role, op_io *io)
{
    r->io[role] = (int)c->n_io - 1;
    return io;
}

static conv_args *start(op_case *c, conv_case a)
{
    conv_args *r = op_args(c, sizeof *r);
    td_conv *v = &a.conv;
    if (a.padding == PAD_SAME) td_conv_pad_same(v);
    if (a.padding == PAD_CAUSAL) td_conv_pad_causal(v);
    r->a = a;
    for (int role = 0; role < ROLES; role++)
        r->io[role] = -1;
    size_t used =
        (size_t)snprintf(c->label, sizeof c->label, "%s%u x %ux%u %u>%u k%ux%u", v->transposed ? "T " : "",
                         v->batch, or_one(v->in_height), v->in_width, v->in_channels, v->out_channels,
                         or_one(v->kernel_height), v->kernel_width);
    used += (size_t)snprintf(c->label + used, sizeof c->label - used, " s%ux%u d%ux%u p%u,%u,%u,%u",
                             or_one(v->stride_height), or_one(v->stride_width), or_one(v->dilation_height),
                             or_one(v->dilation_width), v->pad_top, v->pad_bottom, v->pad_left, v->pad_right);
    snprintf(c->label + used, sizeof c->label - used, " g%u e%d%s%s", or_one(v->groups), a.extras,
             a.add ? " +" : "", v->w_format ? " half" : "");
    return r;
}

static void add_workspace(op_case *c, conv_args *r, td_device *device, td_conv_pass first, td_conv_pass last)
{
    uint64_t most = 0;
    for (td_conv_pass pass = first; pass <= last; pass++) {
        uint64_t bytes = 0;
        if (td_conv_workspace(&r->a.conv, pass, device, &bytes) != TD_OK) {
            fprintf(stderr, "cases_conv: %s: %s\n", c->label, td_error_last()->message);
            exit(1);
        }
        if (bytes > most) most = bytes;
    }
    if (most) add_role(c, r, WORKSPACE, op_scratch(c, "workspace", most / sizeof(float)));
}

/* An output with tolerances for sums of so many products of at most 1; `add`: on top of what is there. */
static op_io *add_sums(op_case *c, const char *name, size_t count, size_t terms, bool add)
{
    op_io *io = op_output(c, name, count, 3e-6 + 3e-7 * (double)terms, 2e-6);
    if (add) {
        op_case other = {0};
        free(io->values);
        io->values = op_random(&other, name, count, -1, 1, 33)->values;
        io->kind = OP_IN_OUT;
    }
    return io;
}

static void expect(op_io *io, const double *sums, bool add)
{
    for (size_t i = 0; i < io->count; i++)
        io->expected[i] = sums[i] + (add ? (double)io->values[i] : 0);
}

/* The weights, of which it keeps what the reference is to take. */
static double *add_w(op_case *c, conv_args *r, size_t count)
{
    const uint32_t format = r->a.conv.w_format;
    op_io *io = add_role(c, r, W, op_random(c, "w", count, -1, 1, 2));
    if (format) op_round(io, format);
    double *values = to_double(io);
    if (format) op_pack(io, format);
    return values;
}

static size_t terms_of(const td_conv *c)
{
    return (size_t)or_one(c->kernel_height) * c->kernel_width * c->in_channels / or_one(c->groups);
}

static void fill_forward(op_case *c, const conv_args *r, const double *sums)
{
    const size_t channels = r->a.conv.out_channels;
    for (size_t e = 0; e < c->io[r->io[Y]].count; e++) {
        double value = sums[e];
        if (r->io[BIAS_IO] >= 0) value += (double)c->io[r->io[BIAS_IO]].values[e % channels];
        if (r->io[PRE_IO] >= 0) c->io[r->io[PRE_IO]].expected[e] = value;
        value = activate(value, r->a.activation);
        if (r->io[RESIDUAL_IO] >= 0) value += (double)c->io[r->io[RESIDUAL_IO]].values[e];
        c->io[r->io[Y]].expected[e] = value;
    }
}

static void add_forward(op_suite *suite, td_device *device, conv_case a)
{
    op_case c = {.op = "conv", .kernels = "unfold fold winograd_weights winograd", .launch = launch_forward};
    conv_args *r = start(&c, a);
    const sizes s = measure(&r->a.conv);
    const size_t terms = terms_of(&r->a.conv);
    double *x = to_double(add_role(&c, r, X, op_random(&c, "x", s.x, -1, 1, 1)));
    double *w = add_w(&c, r, s.w);
    double *y = make(s.y);
    visit(&r->a.conv, &(pairs){.x = x, .w = w, .sums = y, .of = 'y'});
    add_role(&c, r, Y, add_sums(&c, "y", s.y, terms, false));
    if (a.extras & BIAS) add_role(&c, r, BIAS_IO, op_random(&c, "bias", a.conv.out_channels, -1, 1, 3));
    if (a.extras & PRE) add_role(&c, r, PRE_IO, add_sums(&c, "pre", s.y, terms, false));
    if (a.extras & RESIDUAL) add_role(&c, r, RESIDUAL_IO, op_random(&c, "residual", s.y, -1, 1, 4));
    fill_forward(&c, r, y);
    add_workspace(&c, r, device, TD_CONV_FORWARD, TD_CONV_FORWARD);
    op_suite_add(suite, &c);
    free(x);
    free(w);
    free(y);
}

/* y of x with w fixed, or of w with x fixed. */
typedef struct linear {
    const td_conv *conv;
    const double *fixed;
    bool of_w;
} linear;

static void apply(const double *at, double *y, const void *context)
{
    const linear *l = context;
    memset(y, 0, measure(l->conv).y * sizeof *y);
    visit(l->conv,
          &(pairs){.x = l->of_w ? l->fixed : at, .w = l->of_w ? at : l->fixed, .sums = y, .of = 'y'});
}

static void fill_gradient(const td_conv *conv, bool numeric, bool of_w, const double *fixed, const double *dy,
                          double *sums)
{
    const sizes s = measure(conv);
    const size_t n = of_w ? s.w : s.x;
    if (numeric) {
        double *at = make(n); /* it is linear: any point will do */
        op_numeric_gradient(apply, &(linear){conv, fixed, of_w}, at, n, dy, s.y, sums);
        free(at);
    } else {
        visit(conv, &(pairs){.x = fixed, .w = fixed, .y = dy, .sums = sums, .of = of_w ? 'w' : 'x'});
    }
}

static void add_data(op_suite *suite, td_device *device, conv_case a, bool numeric)
{
    op_case c = {
        .op = "conv_back_data", .kernels = "unfold fold", .launch = launch_data, .is_gradient = true};
    conv_args *r = start(&c, a);
    const sizes s = measure(&r->a.conv);
    double *dy = to_double(add_role(&c, r, D_Y, op_random(&c, "dy", s.y, -1, 1, 5)));
    double *w = add_w(&c, r, s.w);
    double *dx = make(s.x);
    fill_gradient(&r->a.conv, numeric, false, w, dy, dx);
    const size_t terms = terms_of(&r->a.conv) * a.conv.out_channels / a.conv.in_channels;
    expect(add_role(&c, r, D_X, add_sums(&c, "dx", s.x, terms + 1, a.add)), dx, a.add);
    add_workspace(&c, r, device, TD_CONV_BACK_DATA, TD_CONV_BACK_DATA);
    op_suite_add(suite, &c);
    free(dy);
    free(w);
    free(dx);
}

static void add_weights(op_suite *suite, td_device *device, conv_case a, bool numeric)
{
    op_case c = {
        .op = "conv_back_weights", .kernels = "unfold fold", .launch = launch_weights, .is_gradient = true};
    conv_args *r = start(&c, a);
    const sizes s = measure(&r->a.conv);
    const size_t channels = a.conv.out_channels, rows = s.y / channels;
    double *x = to_double(add_role(&c, r, X, op_random(&c, "x", s.x, -1, 1, 1)));
    double *dy = to_double(add_role(&c, r, D_Y, op_random(&c, "dy", s.y, -1, 1, 5)));
    double *dw = make(s.w), *dbias = make(channels);
    fill_gradient(&r->a.conv, numeric, true, x, dy, dw);
    for (size_t e = 0; e < s.y; e++)
        dbias[e % channels] += dy[e];
    expect(add_role(&c, r, D_W, add_sums(&c, "dw", s.w, rows, a.add)), dw, a.add);
    if (a.extras & BIAS)
        expect(add_role(&c, r, D_BIAS, add_sums(&c, "dbias", channels, rows, a.add)), dbias, a.add);
    add_workspace(&c, r, device, TD_CONV_BACK_WEIGHTS, TD_CONV_BACK_WEIGHTS);
    op_suite_add(suite, &c);
    free(x);
    free(dy);
    free(dw);
    free(dbias);
}

/* ---------------------------------------------------------------- the list */

#define LINE(items, length, in, out, taps, ...)                                                              \
    {                                                                                                        \
        .batch = (items), .in_width = (length), .in_channels = (in), .out_channels = (out),                  \
        .kernel_width = (taps), __VA_ARGS__                                                                  \
    }
#define IMAGE(items, tall, wide, in, out, kernel, ...)                                                       \
    {                                                                                                        \
        .batch = (items), .in_height = (tall), .in_width = (wide), .in_channels = (in),                      \
        .out_channels = (out), .kernel_height = (kernel), .kernel_width = (kernel), __VA_ARGS__              \
    }

/* Gradients of these are judged against differences. */
static const conv_case TINY[] = {
    {.conv = LINE(2, 5, 2, 3, 3, .pad_left = 1, .pad_right = 1), .extras = BIAS},
    {.conv = LINE(2, 7, 4, 2, 2, .stride_width = 2, .dilation_width = 3, .groups = 2, .pad_right = 2)},
    {.conv = IMAGE(1, 4, 5, 2, 2, 3, .stride_height = 2, .stride_width = 2), .padding = PAD_SAME},
    {.conv = LINE(2, 3, 2, 3, 4, .stride_width = 2, .pad_left = 1, .pad_right = 1, .transposed = true)},
};

/* With fewer products; the suite's own vectors have 8 or 16 lanes, so channels are multiples of 16. */
#define WINOGRAD(items, length, in, out, taps, ...)                                                          \
    LINE(items, length, in, out, taps, .way = TD_CONV_WINOGRAD, __VA_ARGS__)

static const conv_case FEWER[] = {
    {.conv = WINOGRAD(1, 1, 16, 1, 1, .groups = 1), .extras = BIAS},
    {.conv = WINOGRAD(2, 13, 16, 12, 3, .groups = 1), .padding = PAD_SAME, .extras = BIAS},
    {.conv = WINOGRAD(1, 5, 16, 33, 3, .groups = 1)},
    {.conv = WINOGRAD(3, 101, 32, 32, 7, .dilation_width = 3),
     .padding = PAD_SAME,
     .extras = BIAS | PRE | RESIDUAL,
     .activation = TD_GEMM_SILU},
    {.conv = WINOGRAD(1, 411, 16, 16, 11, .dilation_width = 5), .padding = PAD_SAME, .extras = RESIDUAL},
    {.conv = WINOGRAD(1, 37, 48, 16, 8, .dilation_width = 2), .padding = PAD_CAUSAL, .extras = BIAS},
    {.conv = WINOGRAD(2, 6, 16, 16, 4, .pad_left = 9, .pad_right = 4), .extras = BIAS},
    {.conv = WINOGRAD(1, 60, 1040, 16, 5, .groups = 1), .extras = BIAS | PRE, .activation = TD_GEMM_RELU},
    /* where it is chosen by itself */
    {.conv = LINE(1, 300, 64, 64, 7, .dilation_width = 3), .padding = PAD_SAME, .extras = BIAS | RESIDUAL},
};

static const conv_case CASES[] = {
    {.conv = LINE(1, 1, 1, 1, 1, .groups = 1), .extras = BIAS},
    {.conv = LINE(3, 11, 5, 7, 1, .groups = 1), .extras = BIAS | PRE, .activation = TD_GEMM_SILU},
    {.conv = LINE(2, 13, 8, 12, 3, .groups = 1), .extras = BIAS, .add = true},
    {.conv = LINE(2, 13, 8, 12, 3, .groups = 1),
     .padding = PAD_SAME,
     .extras = BIAS | PRE | RESIDUAL,
     .activation = TD_GEMM_RELU},
    {.conv = LINE(3, 17, 5, 3, 4, .groups = 1), .padding = PAD_CAUSAL, .extras = RESIDUAL, .add = true},
    {.conv = LINE(2, 19, 3, 1, 5, .stride_width = 2), .padding = PAD_SAME, .extras = BIAS},
    {.conv = LINE(2, 18, 4, 6, 2, .stride_width = 3), .extras = BIAS, .add = true},
    {.conv = LINE(2, 23, 4, 5, 3, .dilation_width = 3), .padding = PAD_SAME, .extras = BIAS},
    {.conv = LINE(1, 29, 7, 4, 3, .dilation_width = 5), .padding = PAD_CAUSAL, .extras = BIAS, .add = true},
    {.conv = LINE(2, 31, 3, 4, 3, .stride_width = 2, .dilation_width = 2, .pad_left = 5, .pad_right = 1)},
    {.conv = LINE(2, 37, 2, 3, 4, .stride_width = 6, .dilation_width = 4, .pad_left = 3, .pad_right = 2),
     .add = true},
    {.conv = LINE(2, 13, 6, 9, 3, .groups = 3),
     .padding = PAD_SAME,
     .extras = BIAS | PRE | RESIDUAL,
     .activation = TD_GEMM_SILU},
    {.conv = LINE(2, 17, 10, 10, 7, .groups = 10), .padding = PAD_CAUSAL, .extras = BIAS, .add = true},
    {.conv = LINE(3, 20, 8, 4, 4, .groups = 2, .stride_width = 2, .pad_left = 1, .pad_right = 1)},
    {.conv = LINE(2, 5, 3, 4, 3, .pad_left = 4, .pad_right = 5), .extras = BIAS},
    {.conv = LINE(2, 40, 1, 24, 10, .stride_width = 5), .extras = BIAS, .activation = TD_GEMM_RELU},
    {.conv = IMAGE(2, 7, 11, 3, 5, 3, .groups = 1), .padding = PAD_SAME, .extras = BIAS},
    {.conv = IMAGE(2, 7, 11, 4, 8, 3, .stride_height = 2, .stride_width = 2),
     .padding = PAD_SAME,
     .extras = BIAS | PRE,
     .activation = TD_GEMM_RELU,
     .add = true},
    {.conv = IMAGE(1, 8, 6, 4, 4, 3, .stride_height = 1, .stride_width = 2, .groups = 2),
     .padding = PAD_SAME},
    {.conv = IMAGE(2, 9, 7, 2, 3, 3, .dilation_height = 2, .dilation_width = 1, .pad_top = 2, .pad_left = 1)},
    {.conv = IMAGE(1, 5, 13, 3, 2, 2, .dilation_height = 1, .dilation_width = 3, .pad_bottom = 1),
     .extras = BIAS},
    {.conv = {.batch = 2,
              .in_height = 5,
              .in_width = 33,
              .in_channels = 1,
              .out_channels = 6,
              .kernel_height = 3,
              .kernel_width = 9,
              .stride_width = 2,
              .pad_top = 1,
              .pad_bottom = 1,
              .pad_left = 4,
              .pad_right = 4},
     .extras = BIAS},
    {.conv = LINE(6, 41, 1, 8, 5, .stride_width = 3, .pad_left = 2, .pad_right = 2), .extras = BIAS},
    {.conv = LINE(2, 7, 4, 6, 3, .pad_left = 1, .pad_right = 1, .transposed = true), .extras = BIAS},
    {.conv = LINE(2, 7, 6, 4, 4, .stride_width = 2, .pad_left = 1, .pad_right = 1, .transposed = true),
     .extras = BIAS},
    {.conv = LINE(2, 5, 3, 5, 3, .stride_width = 3, .transposed = true), .extras = BIAS, .add = true},
    {.conv = LINE(1, 9, 5, 2, 5, .stride_width = 2, .pad_left = 2, .pad_right = 2, .extra_width = 1,
                  .transposed = true)},
    {.conv = LINE(2, 6, 4, 3, 2, .stride_width = 4, .extra_width = 3, .transposed = true), .extras = BIAS},
    {.conv = LINE(2, 5, 7, 3, 16, .stride_width = 8, .pad_left = 4, .pad_right = 4, .transposed = true),
     .extras = BIAS,
     .add = true},
    {.conv = LINE(1, 7, 6, 4, 3, .stride_width = 2, .dilation_width = 2, .groups = 2, .transposed = true),
     .extras = BIAS},
    {.conv = IMAGE(1, 4, 5, 3, 2, 3, .stride_height = 2, .stride_width = 2, .pad_top = 1, .pad_left = 1,
                   .extra_height = 1, .transposed = true),
     .extras = BIAS},
};

/* Weights in 16 bits: windows walked and written out, data gradients by transposed weights and by folding. */
static const conv_case HALF[] = {
    {.conv = LINE(2, 13, 8, 12, 3, .w_format = TD_FORMAT_BF16), .padding = PAD_SAME, .extras = BIAS},
    {.conv = LINE(2, 23, 4, 6, 3, .dilation_width = 3, .w_format = TD_FORMAT_FP16), .padding = PAD_SAME},
    {.conv = LINE(2, 19, 3, 2, 5, .stride_width = 2, .w_format = TD_FORMAT_FP16), .padding = PAD_SAME},
    {.conv = LINE(2, 17, 10, 20, 7, .groups = 10, .w_format = TD_FORMAT_BF16), .padding = PAD_CAUSAL},
    {.conv = LINE(2, 7, 6, 4, 4, .stride_width = 2, .transposed = true, .w_format = TD_FORMAT_BF16),
     .extras = BIAS},
};

static const conv_case LARGE[] = {
    {.conv = LINE(3, 131, 48, 67, 3, .groups = 1),
     .padding = PAD_SAME,
     .extras = BIAS | PRE | RESIDUAL,
     .activation = TD_GEMM_SILU},
    {.conv = LINE(2, 149, 64, 64, 7, .dilation_width = 3), .padding = PAD_SAME, .extras = BIAS, .add = true},
    {.conv = LINE(2, 97, 64, 32, 16, .stride_width = 8, .pad_left = 4, .pad_right = 4, .transposed = true),
     .extras = BIAS},
    {.conv = IMAGE(2, 23, 29, 16, 33, 3, .stride_height = 2, .stride_width = 2),
     .padding = PAD_SAME,
     .extras = BIAS},
    {.conv = IMAGE(2, 19, 31, 24, 20, 3, .groups = 1), .padding = PAD_SAME, .extras = BIAS, .add = true},
};

static void add_all(op_suite *suite, td_device *device, conv_case a, bool numeric)
{
    add_forward(suite, device, a);
    add_data(suite, device, a, numeric);
    add_weights(suite, device, a, numeric);
}

void cases_conv(op_suite *suite, td_device *device);
void cases_conv(op_suite *suite, td_device *device)
{
    for (size_t t = 0; t < sizeof TINY / sizeof *TINY; t++)
        add_all(suite, device, TINY[t], true);
    for (size_t t = 0; t < sizeof FEWER / sizeof *FEWER; t++)
        add_forward(suite, device, FEWER[t]);
    for (size_t t = 0; t < sizeof CASES / sizeof *CASES; t++)
        add_all(suite, device, CASES[t], false);
    for (size_t t = 0; t < sizeof HALF / sizeof *HALF; t++) {
        add_forward(suite, device, HALF[t]);
        add_data(suite, device, HALF[t], false);
    }
    for (size_t t = 0; t < sizeof LARGE / sizeof *LARGE && !op_device_is_slow(device); t++)
        add_all(suite, device, LARGE[t], false);
}
