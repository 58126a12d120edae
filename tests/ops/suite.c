/* See suite.h: the list of families, the makers of cases, and gradients by differences. Running a case is
 * run.c's, the program test_ops.c's. */
#include "suite_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/half_geometry.h"

/* ---------------------------------------------------------------- families */

#define FAMILIES(X)                                                                                          \
    X(basic)                                                                                                 \
    X(chain)                                                                                                 \
    X(move)                                                                                                  \
    X(reduce)                                                                                                \
    X(norm)                                                                                                  \
    X(loss) X(ctc) X(optim) X(align) X(sequence) X(attention) X(gemm) X(decode) X(conv) X(audio) X(spectral)

#define DECLARE(family) void cases_##family(op_suite *suite, td_device *device);
FAMILIES(DECLARE)

#define ROW(family) {#family, cases_##family},
const op_family OP_FAMILIES[] = {FAMILIES(ROW)};
const size_t OP_FAMILY_COUNT = sizeof OP_FAMILIES / sizeof *OP_FAMILIES;

/* ---------------------------------------------------------------- the suite */

static void *allocate(size_t count, size_t size)
{
    void *block = calloc(count ? count : 1, size);
    if (!block) {
        fprintf(stderr, "test_ops: no memory for %zu bytes\n", count * size);
        exit(1);
    }
    return block;
}

void op_case_free(op_case *c)
{
    for (size_t i = 0; i < c->n_io; i++) {
        free(c->io[i].values);
        free(c->io[i].expected);
        free(c->io[i].words);
    }
    free(c->args);
    *c = (op_case){0};
}

size_t op_case_words(const op_case *c)
{
    size_t words = 0;
    for (size_t i = 0; i < c->n_io; i++)
        words += c->io[i].count;
    return words;
}

bool op_suite_wants(const op_suite *suite, const char *op)
{
    if (!suite->op) return true;
    return suite->op[0] == '=' ? strcmp(op, suite->op + 1) == 0 : strstr(op, suite->op) != NULL;
}

static bool is_wanted(const op_suite *suite, const op_case *c)
{
    if (suite->most_words && op_case_words(c) > suite->most_words) return false;
    if (!op_suite_wants(suite, c->op)) return false;
    return c->is_gradient || !suite->gradients_only;
}

void op_suite_add(op_suite *suite, const op_case *c)
{
    if (!is_wanted(suite, c)) {
        op_case unwanted = *c;
        op_case_free(&unwanted);
        return;
    }
    if (suite->count == suite->capacity) {
        op_case *grown = allocate(2 * suite->capacity + 16, sizeof *grown);
        if (suite->count) memcpy(grown, suite->cases, suite->count * sizeof *grown);
        free(suite->cases);
        suite->cases = grown;
        suite->capacity = 2 * suite->capacity + 16;
    }
    suite->cases[suite->count++] = *c;
}

void op_suite_clear(op_suite *suite)
{
    for (size_t i = 0; i < suite->count; i++)
        op_case_free(&suite->cases[i]);
    free(suite->cases);
    suite->cases = NULL;
    suite->count = suite->capacity = 0;
}

bool op_device_is_slow(td_device *device)
{
    const td_device_info *info = td_device_get_info(device);
    return info->api == TD_API_VULKAN && info->type == TD_DEVICE_CPU;
}

/* ---------------------------------------------------------------- buffers of a case */

static op_io *add_io(op_case *c, const char *name, op_io_kind kind, size_t count)
{
    if (c->n_io == OP_MAX_IO) {
        fprintf(stderr, "test_ops: %s %s has more than %d buffers\n", c->op, c->label, OP_MAX_IO);
        exit(1);
    }
    op_io *io = &c->io[c->n_io++];
    *io = (op_io){.name = name, .kind = kind, .count = count};
    return io;
}

op_io *op_input(op_case *c, const char *name, size_t count)
{
    op_io *io = add_io(c, name, OP_IN, count);
    io->values = allocate(count, sizeof *io->values);
    return io;
}

op_io *op_random(op_case *c, const char *name, size_t count, float low, float high, uint64_t seed)
{
    op_io *io = op_input(c, name, count);
    uint32_t block[4] = {0};
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0) td_rng_block(seed, 1, i / 4, block);
        io->values[i] = low + (high - low) * ((float)(block[i % 4] >> 8) * 0x1p-24f);
    }
    return io;
}

op_io *op_output(op_case *c, const char *name, size_t count, double atol, double rtol)
{
    op_io *io = add_io(c, name, OP_OUT, count);
    io->expected = allocate(count, sizeof *io->expected);
    io->atol = atol;
    io->rtol = rtol;
    return io;
}

op_io *op_output_words(op_case *c, const char *name, size_t count)
{
    op_io *io = add_io(c, name, OP_OUT, count);
    io->words = allocate(count, sizeof *io->words);
    return io;
}

op_io *op_scratch(op_case *c, const char *name, size_t count)
{
    return add_io(c, name, OP_SCRATCH, count);
}

void *op_args(op_case *c, size_t bytes)
{
    c->args = allocate(1, bytes);
    return c->args;
}

/* ---------------------------------------------------------------- 16 bits */

/* Bits of the mantissa, the smallest normal exponent, the largest. */
typedef struct half_format {
    int mantissa, least, most;
} half_format;

static const half_format HALF[] = {
    [TD_FORMAT_BF16] = {7, -126, 127},
    [TD_FORMAT_FP16] = {10, -14, 15},
};

uint32_t op_to_half(float value, uint32_t format)
{
    const half_format *f = &HALF[format];
    const uint32_t sign = signbit(value) ? 0x8000u : 0, infinity = (uint32_t)(2 * f->most + 1) << f->mantissa;
    uint32_t bits;
    int exponent;
    memcpy(&bits, &value, 4);
    if (isnan(value)) return format == TD_FORMAT_BF16 ? bits >> 16 | 0x40u : sign | 0x7e00u;
    if (value == 0) return sign;
    if (isinf(value)) return sign | infinity;
    (void)frexp(fabs((double)value), &exponent);
    if (--exponent < f->least) exponent = f->least;
    const double size =
        nearbyint(ldexp(fabs((double)value), f->mantissa - exponent)); /* in units of the last bit */
    if (!(ldexp(size, exponent - f->mantissa) < ldexp(1, f->most + 1))) return sign | infinity;
    /* A carry into the exponent is just that; below the smallest normal number there is none to begin with.
     */
    return sign | (((uint32_t)(exponent - f->least) << f->mantissa) + (uint32_t)size);
}

float op_from_half(uint32_t half, uint32_t format)
{
    const half_format *f = &HALF[format];
    const uint32_t rest = half & ((1u << f->mantissa) - 1), field = (half & 0x7fffu) >> f->mantissa;
    float value;
    if (field == (uint32_t)(2 * f->most + 1)) {
        const uint32_t bits = (half & 0x8000u) << 16 | 0x7f800000u | rest << (23 - f->mantissa);
        memcpy(&value, &bits, 4);
        return value;
    }
    const double size = field ? (double)(rest + (1u << f->mantissa)) : (double)rest;
    value = (float)ldexp(size, (field ? (int)field - 1 : 0) + f->least - f->mantissa);
    return half & 0x8000u ? -value : value;
}

void op_round(op_io *io, uint32_t format)
{
    for (size_t i = 0; i < io->count; i++)
        io->values[i] = op_from_half(op_to_half(io->values[i], format), format);
}

void op_pack(op_io *io, uint32_t format)
{
    const size_t words = (io->count + 1) / 2;
    for (size_t w = 0; w < words; w++) {
        const uint32_t low = op_to_half(io->values[2 * w], format);
        const uint32_t high = 2 * w + 1 < io->count ? op_to_half(io->values[2 * w + 1], format) : 0;
        const uint32_t word = low | high << 16;
        memcpy(&io->values[w], &word, 4);
    }
    io->count = words;
}

/* ---------------------------------------------------------------- gradients by differences */

static double weigh(op_forward forward, const void *context, const double *x, const double *cotangent,
                    size_t n_y, double *y)
{
    double sum = 0;
    forward(x, y, context);
    for (size_t i = 0; i < n_y; i++)
        sum += cotangent[i] * y[i];
    return sum;
}

void op_numeric_gradient(op_forward forward, const void *context, const double *x, size_t n_x,
                         const double *cotangent, size_t n_y, double *dx)
{
    double *moved = allocate(n_x, sizeof *moved);
    double *y = allocate(n_y, sizeof *y);
    if (n_x) memcpy(moved, x, n_x * sizeof *x);
    for (size_t i = 0; i < n_x; i++) {
        const double step = 1e-5 * fmax(1.0, fabs(x[i])); /* about the cube root of the rounding of double */
        moved[i] = x[i] + step;
        const double above = weigh(forward, context, moved, cotangent, n_y, y);
        moved[i] = x[i] - step;
        const double below = weigh(forward, context, moved, cotangent, n_y, y);
        moved[i] = x[i];
        dx[i] = (above - below) / (2 * step);
    }
    free(moved);
    free(y);
}
