/* Cases of src/ops/optim.h. Words of the control block that are counts are compared as the floats their bits
 * make. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half_geometry.h"
#include "kernels/optim_geometry.h"
#include "ops/optim.h"
#include "suite.h"

static float as_float(uint32_t word)
{
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static op_io *as_in_out(op_io *io, double atol, double rtol)
{
    io->kind = OP_IN_OUT;
    io->expected = calloc(io->count, sizeof *io->expected);
    if (!io->expected) abort();
    io->atol = atol;
    io->rtol = rtol;
    return io;
}

/* ---------------------------------------------------------------- norm and clipping */

typedef struct clip_case {
    uint32_t n;     /* elements of each of two blocks */
    uint32_t parts; /* of each */
    uint32_t steps; /* taken before */
    double max_norm, beta1, beta2;
    float spoiler; /* one element, unless 0 */
    double scale;  /* of the loss; 0: none */
    uint32_t good, growth_steps;
} clip_case;

static td_status launch_clip(const op_case *c, td_list *list, const td_span *s)
{
    const clip_case *n = c->args;
    td_status status = td_op_square_sum(list, n->n, s[0], s[2], 0);
    if (status == TD_OK) status = td_op_square_sum(list, n->n, s[1], s[2], n->parts);
    if (status != TD_OK) return status;
    return td_op_clip(list, &(td_clip_args){.parts = 2 * n->parts,
                                            .max_norm = (float)n->max_norm,
                                            .beta1 = (float)n->beta1,
                                            .beta2 = (float)n->beta2,
                                            .growth_steps = n->growth_steps,
                                            .partial = s[2],
                                            .control = s[3]});
}

static void expect_control(const clip_case *n, const op_case *c, double *expected)
{
    double square = 0;
    for (int block = 0; block < 2; block++)
        for (uint32_t i = 0; i < n->n; i++)
            square += (double)c->io[block].values[i] * (double)c->io[block].values[i];
    const double scale = n->scale > 0 ? n->scale : 1;
    const double norm = sqrt(square) / scale;
    const bool skips = !isfinite(norm);
    const uint32_t steps = n->steps + !skips;
    const double t = steps ? steps : 1;
    expected[TD_CONTROL_LR] = (double)0.001f;
    expected[TD_CONTROL_NORM] = norm;
    expected[TD_CONTROL_FACTOR] =
        n->max_norm > 0 && norm > n->max_norm ? n->max_norm / norm / scale : 1 / scale;
    expected[TD_CONTROL_BIAS1] = 1 / (1 - pow(n->beta1, t));
    expected[TD_CONTROL_BIAS2] = 1 / sqrt(1 - pow(n->beta2, t));
    expected[TD_CONTROL_SKIP] = skips;
    expected[TD_CONTROL_STEPS] = (double)as_float(steps);
    expected[TD_CONTROL_SKIPPED] = (double)as_float(3u + skips);
    expected[TD_CONTROL_SCALE] = n->scale;
    expected[TD_CONTROL_GOOD] = (double)as_float(n->good);
    if (!n->growth_steps) return;
    const bool grows = !skips && n->good + 1 >= n->growth_steps;
    expected[TD_CONTROL_SCALE] = skips ? fmax(scale / 2, 1) : grows ? fmin(scale * 2, 0x1p24) : scale;
    expected[TD_CONTROL_GOOD] = (double)as_float(skips || grows ? 0 : n->good + 1);
}

static void add_clip(op_suite *suite, td_kernel_class class, clip_case n)
{
    op_case c = {.op = "clip", .kernels = "square_sum clip_control", .launch = launch_clip};
    snprintf(c.label, sizeof c.label, "2 x %u, step %u, at most %g, with %g, scale %g, good %u of %u", n.n,
             n.steps, n.max_norm, (double)n.spoiler, n.scale, n.good, n.growth_steps);
    n.parts = td_op_square_sum_parts(class, n.n);
    *(clip_case *)op_args(&c, sizeof n) = n;
    op_io *x = op_random(&c, "x", n.n, -1, 1, 71);
    op_random(&c, "y", n.n, -1, 1, 72);
    if (n.spoiler != 0) x->values[n.n / 2] = n.spoiler;
    op_scratch(&c, "partial", 2 * (size_t)n.parts);
    op_io *control = as_in_out(op_input(&c, "control", TD_CONTROL_WORDS), 0, 1e-6);
    control->values[TD_CONTROL_LR] = 0.001f;
    control->values[TD_CONTROL_STEPS] = as_float(n.steps);
    control->values[TD_CONTROL_SKIPPED] = as_float(3u);
    control->values[TD_CONTROL_SCALE] = (float)n.scale;
    control->values[TD_CONTROL_GOOD] = as_float(n.good);
    expect_control(&n, &c, control->expected);
    op_suite_add(suite, &c);
}

static void make_clip(op_suite *suite, td_kernel_class class)
{
    static const uint32_t SIZES[] = {1, 7, 127, 128, 1025, 4097, 30011};
    static const uint32_t STEPS[] = {0, 1, 4, 60, 999, 20000, 3000000};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        clip_case n = {.n = SIZES[i], .steps = STEPS[i], .beta1 = (double)0.9f, .beta2 = (double)0.999f};
        add_clip(suite, class, n);
        n.max_norm = 0.25;
        add_clip(suite, class, n);
        n.max_norm = 1e6;
        n.beta1 = 0;
        add_clip(suite, class, n);
        n.spoiler = NAN;
        add_clip(suite, class, n);
        n.spoiler = -INFINITY;
        add_clip(suite, class, n);
    }
    /* The loss scale: stays, doubles, halves, and keeps to its bounds. */
    static const clip_case SCALES[] = {
        {.scale = 64},
        {.scale = 64, .growth_steps = 5, .good = 3},
        {.scale = 64, .growth_steps = 5, .good = 4},
        {.scale = 64, .growth_steps = 5, .good = 4, .spoiler = INFINITY},
        {.scale = 1, .growth_steps = 5, .good = 2, .spoiler = NAN},
        {.scale = 0x1p24, .growth_steps = 5, .good = 4},
        {.growth_steps = 5, .good = 4},
    };
    for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++) {
        clip_case n = SCALES[i];
        n.n = 1025;
        n.steps = 9;
        n.max_norm = i % 2 ? 0.01 : 0;
        n.beta1 = n.beta2 = 0.5;
        add_clip(suite, class, n);
    }
}

/* ---------------------------------------------------------------- AdamW */

typedef struct adamw_case {
    uint32_t n;
    double lr, factor;
    bool skips;
    uint32_t format; /* of a shadow; TD_FORMAT_FP32: it has none */
    td_decay_range ranges[3];
    size_t n_ranges;
} adamw_case;

enum { G, CONTROL, W, M, V, SHADOW };
static const double BETA1 = (double)0.9f, BETA2 = (double)0.98f, EPS = (double)1e-6f;

static td_status launch_adamw(const op_case *c, td_list *list, const td_span *s)
{
    const adamw_case *n = c->args;
    return td_op_adamw(list, &(td_adamw_args){.beta1 = (float)BETA1,
                                              .beta2 = (float)BETA2,
                                              .eps = (float)EPS,
                                              .ranges = n->ranges,
                                              .n_ranges = n->n_ranges,
                                              .g = s[G],
                                              .control = s[CONTROL],
                                              .w = s[W],
                                              .m = s[M],
                                              .v = s[V],
                                              .format = n->format,
                                              .shadow = n->format ? s[SHADOW] : (td_span){0}});
}

static void step_one(const adamw_case *n, op_case *c, uint32_t i, double decay)
{
    const float *control = c->io[CONTROL].values;
    const double g = (double)c->io[G].values[i] * n->factor, w = (double)c->io[W].values[i];
    const double m = BETA1 * (double)c->io[M].values[i] + (1 - BETA1) * g;
    const double v = BETA2 * (double)c->io[V].values[i] + (1 - BETA2) * g * g;
    const double m_hat = m * (double)control[TD_CONTROL_BIAS1];
    const double root = sqrt(v) * (double)control[TD_CONTROL_BIAS2];
    c->io[M].expected[i] = m;
    c->io[V].expected[i] = v;
    c->io[W].expected[i] = w - n->lr * decay * w - n->lr * m_hat / (root + EPS);
}

static void expect_adamw(const adamw_case *n, op_case *c)
{
    for (int k = W; k <= V; k++)
        for (uint32_t i = 0; i < n->n; i++)
            c->io[k].expected[i] = (double)c->io[k].values[i];
    for (size_t r = 0; !n->skips && r < n->n_ranges; r++)
        for (uint32_t i = n->ranges[r].first; i < n->ranges[r].first + n->ranges[r].count; i++)
            step_one(n, c, i, (double)n->ranges[r].decay);
    /* Only where w does not change are its bits known. */
    for (uint32_t i = 0; n->format && n->lr == 0 && i < n->n; i++)
        c->io[SHADOW].words[i / 2] |= op_to_half(c->io[W].values[i], n->format) << (16 * (i % 2));
}

static void add_adamw(op_suite *suite, adamw_case n)
{
    op_case c = {.op = "adamw", .kernels = "adamw", .launch = launch_adamw};
    snprintf(c.label, sizeof c.label, "%u in %zu ranges, rate %g%s%s", n.n, n.n_ranges, n.lr,
             n.format == TD_FORMAT_BF16 ? " bf16"
             : n.format                 ? " fp16"
                                        : "",
             n.skips ? " skipped" : "");
    *(adamw_case *)op_args(&c, sizeof n) = n;
    op_random(&c, "g", n.n, -2, 2, 81);
    float *control = op_input(&c, "control", TD_CONTROL_WORDS)->values;
    control[TD_CONTROL_LR] = (float)n.lr;
    control[TD_CONTROL_FACTOR] = (float)n.factor;
    control[TD_CONTROL_BIAS1] = 2.5f;
    control[TD_CONTROL_BIAS2] = 3.5f;
    control[TD_CONTROL_SKIP] = n.skips ? 1.0f : 0.0f;
    op_io *w = as_in_out(op_random(&c, "w", n.n, -1, 1, 82), 3e-7, 3e-7);
    as_in_out(op_random(&c, "m", n.n, -1, 1, 83), 3e-7, 3e-7);
    as_in_out(op_random(&c, "v", n.n, 0, 1, 84), 3e-7, 3e-7);
    for (uint32_t i = 0; i < n.n; i += 5)
        w->values[i] = as_float(0x3F808000u + (i << 16) % 0x20000u); /* halfway between two numbers of bf16 */
    if (n.format && n.lr == 0)
        op_output_words(&c, "shadow", (n.n + 1) / 2);
    else
        op_scratch(&c, "shadow", n.format ? (n.n + 1) / 2 : 1);
    expect_adamw(&n, &c);
    op_suite_add(suite, &c);
}

static void make_adamw(op_suite *suite)
{
    static const uint32_t SIZES[] = {1, 2, 15, 17, 127, 513, 4099, 9000};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const uint32_t size = SIZES[i];
        adamw_case n = {.n = size,
                        .lr = (double)0.01f,
                        .factor = (double)0.7f,
                        .ranges = {{0, size, 0.1f}},
                        .n_ranges = 1};
        add_adamw(suite, n);
        n.format = TD_FORMAT_BF16;
        add_adamw(suite, n);
        n.lr = 0;
        add_adamw(suite, n);
        n.format = TD_FORMAT_FP16;
        add_adamw(suite, n);
        n.lr = (double)0.01f;
        n.format = TD_FORMAT_FP32;
        n.skips = true;
        add_adamw(suite, n);
        n.skips = false;
        if (size < 9) continue;
        /* Three ranges with a gap, which stays as it is. */
        n.n_ranges = 3;
        n.ranges[0] = (td_decay_range){0, 4, 0.1f};
        n.ranges[1] = (td_decay_range){6, size / 2 * 2 - 8, 0};
        n.ranges[2] = (td_decay_range){size / 2 * 2 - 2, size - size / 2 * 2 + 2, 0.3f};
        add_adamw(suite, n);
    }
}

/* ---------------------------------------------------------------- AdamW with moments in fewer bits */

typedef struct packed_case {
    uint32_t n, bits;
    uint32_t format; /* of a shadow; TD_FORMAT_FP32: it has none */
    bool moves;      /* there are gradients, and moments begin with zeros; else the other way round */
} packed_case;

/* With these both moments are scaled by powers of two, and where they begin with zeros and gradients are powers of two,
 * moments are so, too: their bits are known. */
static const double PACKED_BETA1 = 0.5;

static double get_beta2(const packed_case *n)
{
    return n->moves ? 0 : 0.25;
}

static td_status launch_packed(const op_case *c, td_list *list, const td_span *s)
{
    const packed_case *n = c->args;
    return td_op_adamw_packed(list, &(td_adamw_packed_args){.bits = n->bits,
                                                            .n = n->n,
                                                            .beta1 = (float)PACKED_BETA1,
                                                            .beta2 = (float)get_beta2(n),
                                                            .eps = (float)EPS,
                                                            .decay = 0.1f,
                                                            .g = s[G],
                                                            .control = s[CONTROL],
                                                            .w = s[W],
                                                            .m = s[M],
                                                            .v = s[V],
                                                            .format = n->format,
                                                            .shadow = n->format ? s[SHADOW] : (td_span){0}});
}

/* What a byte stands for: 4 bits of exponent and `bits` of mantissa, or even steps below the least of those. */
static double byte_value(uint32_t code, int bits)
{
    const uint32_t exponent = code >> bits, mantissa = code & ((1u << bits) - 1);
    return exponent ? ldexp(1 + ldexp(mantissa, -bits), (int)exponent - 15) : ldexp(mantissa, -14 - bits);
}

/* All bytes that there are, the largest in every block, which is 1; as moments, and as they are after the step. */
static void fill_bytes(const packed_case *n, op_io *io, bool is_second, double *moments)
{
    uint32_t *words = (uint32_t *)(void *)io->values;
    const uint32_t blocks = n->n / TD_STATE_BLOCK;
    for (uint32_t i = 0; i < n->n; i++) {
        const uint32_t code = is_second ? 1 + i % 240 : i % 121, sign = !is_second && code && i / 121 % 2;
        const double value = byte_value(code, is_second ? 4 : 3);
        words[i / 4] |= (code | sign << 7) << (8 * (i % 4));
        io->words[i / 4] |= (code | sign << 7) << (8 * (i % 4));
        moments[i] = is_second ? value * value : sign ? -value : value;
    }
    for (uint32_t b = 0; b < blocks; b++) {
        words[n->n / 4 + b] = 0x3f800000; /* 1 */
        io->words[n->n / 4 + b] = 0x3f000000;
    }
}

static void fill_halves(const packed_case *n, op_io *io, bool is_second, double *moments)
{
    uint32_t *words = (uint32_t *)(void *)io->values;
    for (uint32_t i = 0; i < n->n; i++) {
        const float value = (is_second || i % 3 ? 1.0f : -1.0f) * (1 + (float)(i % 128) / 128);
        const float after = value * (float)(is_second ? get_beta2(n) : PACKED_BETA1);
        words[i / 2] |= op_to_half(value, TD_FORMAT_BF16) << (16 * (i % 2));
        io->words[i / 2] |= op_to_half(after, TD_FORMAT_BF16) << (16 * (i % 2));
        moments[i] = (double)value;
    }
}

/* 1 down to 2^-9, of both signs. */
static float power_of(uint32_t i)
{
    return ldexpf(i % 3 ? 1 : -1, -(int)(i % 10));
}

/* What zeros become: a quarter of the gradient, and a quarter of its square, whose root is half of it. */
static void expect_powers(const packed_case *n, op_io *io, bool is_second)
{
    const uint32_t scales = n->n / 4;
    for (uint32_t i = 0; i < n->n; i++) {
        const float g = power_of(i);
        if (n->bits == 16) {
            io->words[i / 2] |= op_to_half(is_second ? g * g / 4 : g / 4, TD_FORMAT_BF16) << (16 * (i % 2));
            continue;
        }
        const uint32_t exponent = 15 - i % 10, sign = !is_second && g < 0;
        io->words[i / 4] |= (exponent << (is_second ? 4 : 3) | sign << 7) << (8 * (i % 4));
        io->words[scales + i / TD_STATE_BLOCK] = is_second ? 0x3f000000 : 0x3e800000;
    }
}

static op_io *add_moment(op_case *c, const packed_case *n, const char *name, bool is_second, double *moments)
{
    const size_t words = n->bits == 16 ? (n->n + 1) / 2 : n->n / 4 + n->n / TD_STATE_BLOCK;
    op_io *io = op_input(c, name, words);
    io->kind = OP_IN_OUT;
    io->words = calloc(words, sizeof *io->words);
    if (!io->words) abort();
    if (n->moves)
        expect_powers(n, io, is_second);
    else
        (n->bits == 16 ? fill_halves : fill_bytes)(n, io, is_second, moments);
    return io;
}

static void add_packed(op_suite *suite, packed_case n)
{
    op_case c = {
        .op = "adamw packed", .kernels = n.bits == 16 ? "adamw_bf16" : "adamw_int8", .launch = launch_packed};
    double *moments = calloc(2 * (size_t)n.n, sizeof *moments), lr = (double)0.01f;
    if (!moments) abort();
    snprintf(c.label, sizeof c.label, "%u in %u bits%s%s", n.n, n.bits, n.moves ? ", moving" : "",
             n.format ? ", bf16" : "");
    *(packed_case *)op_args(&c, sizeof n) = n;
    float *gradients = op_input(&c, "g", n.n)->values;
    for (uint32_t i = 0; n.moves && i < n.n; i++)
        gradients[i] = power_of(i);
    float *control = op_input(&c, "control", TD_CONTROL_WORDS)->values;
    control[TD_CONTROL_LR] = (float)lr;
    control[TD_CONTROL_FACTOR] = 0.5f;
    control[TD_CONTROL_BIAS1] = 2.5f;
    control[TD_CONTROL_BIAS2] = 3.5f;
    op_io *w = as_in_out(op_random(&c, "w", n.n, -1, 1, 86), 3e-7, 1e-6);
    add_moment(&c, &n, "m", false, moments);
    add_moment(&c, &n, "v", true, moments + n.n);
    op_scratch(&c, "shadow", n.format ? (n.n + 1) / 2 : 1);
    for (uint32_t i = 0; i < n.n; i++) {
        const double g = 0.5 * (double)c.io[G].values[i];
        const double m = PACKED_BETA1 * moments[i] + (1 - PACKED_BETA1) * g;
        const double v = get_beta2(&n) * moments[n.n + i] + (1 - get_beta2(&n)) * g * g;
        const double old = (double)w->values[i];
        w->expected[i] = old - lr * (double)0.1f * old - lr * 2.5 * m / (sqrt(v) * 3.5 + EPS);
    }
    free(moments);
    op_suite_add(suite, &c);
}

static void make_packed(op_suite *suite)
{
    static const uint32_t SIZES[] = {256, 512, 768, 4096, 9216};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        for (uint32_t bits = 8; bits <= 16; bits += 8) {
            add_packed(suite, (packed_case){.n = SIZES[i], .bits = bits});
            add_packed(suite,
                       (packed_case){.n = SIZES[i], .bits = bits, .moves = true, .format = TD_FORMAT_BF16});
        }
        add_packed(suite, (packed_case){.n = SIZES[i] - 15, .bits = 16});
    }
}

/* ---------------------------------------------------------------- running average */

typedef struct ema_case {
    uint32_t n, steps;
    double decay;
    bool warm_up;
} ema_case;

static td_status launch_ema(const op_case *c, td_list *list, const td_span *s)
{
    const ema_case *n = c->args;
    return td_op_ema(list, &(td_ema_args){.n = n->n,
                                          .decay = (float)n->decay,
                                          .w = s[0],
                                          .average = s[1],
                                          .control = n->warm_up ? s[2] : (td_span){0}});
}

static void add_ema(op_suite *suite, ema_case n)
{
    op_case c = {.op = "ema", .kernels = "ema", .launch = launch_ema};
    snprintf(c.label, sizeof c.label, "%u%s, step %u", n.n, n.warm_up ? " warm up" : "", n.steps);
    *(ema_case *)op_args(&c, sizeof n) = n;
    const op_io *w = op_random(&c, "w", n.n, -1, 1, 91);
    op_io *average = as_in_out(op_random(&c, "average", n.n, -1, 1, 92), 2e-7, 2e-7);
    op_input(&c, "control", TD_CONTROL_WORDS)->values[TD_CONTROL_STEPS] = as_float(n.steps);
    const double d = n.warm_up ? fmin(n.decay, (1.0 + n.steps) / (10.0 + n.steps)) : n.decay;
    for (uint32_t i = 0; i < n.n; i++)
        average->expected[i] = d * (double)average->values[i] + (1 - d) * (double)w->values[i];
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- the family */

void cases_optim(op_suite *suite, td_device *device);
void cases_optim(op_suite *suite, td_device *device)
{
    const td_kernel_class class = td_device_class(device);
    make_clip(suite, class);
    make_adamw(suite);
    make_packed(suite);
    for (const uint32_t *n = (const uint32_t[]){1, 9, 513, 4099, 0}; *n; n++) {
        add_ema(suite, (ema_case){*n, 0, (double)0.9f, false});
        add_ema(suite, (ema_case){*n, 2 + *n, (double)0.9f, true});
    }
}
