/* Cases of src/ops/chain.h: every operation forward and backward, the elementary functions over their whole
 * range, broadcasts over every set of axes, layouts, and dropout. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ops/chain.h"
#include "suite.h"

#define MOST_STEPS 8
#define MOST_AXES 6

/* A chain as a table row: io 0 .. n_inputs-1 are inputs, the rest outputs in order. */
typedef struct step {
    uint32_t operation;
    char operand; /* '0'..'3' an input, 'c' a constant, 't' 'u' a temporary, 'a' the accumulator, ' ' none */
    float c;
} step;

typedef struct chain_args {
    uint32_t dims[MOST_AXES];
    size_t n_dims, n_inputs;
    bool has_axis[TD_CHAIN_INPUTS][MOST_AXES];
    uint32_t steps_of_0[MOST_AXES]; /* of input 0 where is_strided */
    bool is_strided, in_place;
    step steps[MOST_STEPS + 1];
    size_t n_steps;
} chain_args;

static uint32_t find_operand(td_chain *chain, const step *s)
{
    switch (s->operand) {
    case 'c':
        return td_chain_constant(chain, s->c);
    case 't':
        return td_chain_temporary(0);
    case 'u':
        return td_chain_temporary(1);
    case 'a':
        return TD_CHAIN_ACCUMULATOR;
    case ' ':
        return 0;
    default:
        return (uint32_t)(s->operand - '0');
    }
}

static bool has_constant(uint32_t operation)
{
    return operation == TD_CHAIN_LEAKY_RELU || operation == TD_CHAIN_ADD_SCALED ||
           operation == TD_CHAIN_PASS_ABOVE || operation == TD_CHAIN_PASS_BELOW ||
           operation == TD_CHAIN_LEAKY_RELU_BACK;
}

static td_status launch_chain(const op_case *c, td_list *list, const td_span *spans)
{
    const chain_args *a = c->args;
    size_t output = a->in_place ? 0 : a->n_inputs;
    td_chain chain;
    td_chain_begin(&chain, a->dims, a->n_dims);
    for (size_t k = 0; k < a->n_inputs; k++) {
        if (k == 0 && a->is_strided)
            (void)td_chain_strided(&chain, spans[k], a->steps_of_0);
        else
            (void)td_chain_broadcast(&chain, spans[k], a->has_axis[k]);
    }
    for (const step *s = a->steps; s < a->steps + a->n_steps; s++) {
        if (s->operation == TD_CHAIN_STORE)
            td_chain_store(&chain, spans[output++]);
        else if (has_constant(s->operation))
            td_chain_add_with(&chain, s->operation, find_operand(&chain, s), s->c);
        else
            td_chain_add(&chain, s->operation, find_operand(&chain, s));
    }
    return td_chain_launch(&chain, list);
}

/* Steps up to one that stores; a last STORE is added where there is none. */
static chain_args *start(op_case *c, const char *op, const uint32_t *dims, size_t n_dims, size_t n_inputs,
                         const step *steps, size_t n_steps)
{
    *c = (op_case){.op = op, .kernels = "chain", .launch = launch_chain};
    chain_args *a = op_args(c, sizeof *a);
    memcpy(a->dims, dims, n_dims * sizeof *dims);
    a->n_dims = n_dims;
    a->n_inputs = n_inputs;
    memset(a->has_axis, true, sizeof a->has_axis);
    memcpy(a->steps, steps, n_steps * sizeof *steps);
    if (steps[n_steps - 1].operation != TD_CHAIN_STORE) a->steps[n_steps++] = (step){TD_CHAIN_STORE, ' ', 0};
    a->n_steps = n_steps;
    return a;
}

/* ---------------------------------------------------------------- functions of one value */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x)
{
    return x / 2 * (1 + erf(x / M_SQRT2));
}

static double sine(double x)
{
    return isnan(x) ? x : sin(fmin(fmax(x, -1000), 1000));
}

static double cosine(double x)
{
    return isnan(x) ? x : cos(fmin(fmax(x, -1000), 1000));
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double leaky(double x)
{
    return x > 0 ? x : (double)0.1f * x;
}

static double clamp(double x)
{
    return fmin(fmax(x, -0.5), (double)0.8f);
}

#define ULP 5.97e-8 /* half a unit in the last place, at most, as a share */

/* `back` makes dx of inputs 0 (dy), 1 (x) and 2 (y). */
static const struct function {
    const char *op;
    double (*f)(double);
    step steps[3];
    float low, high; /* where its precision is judged */
    double atol, rtol;
    step back[MOST_STEPS];
} FUNCTIONS[] = {
    {"exp", exp, {{TD_CHAIN_EXP, ' ', 0}}, -88, 89, 2e-38, 2.2 * ULP, {{TD_CHAIN_MUL, '2', 0}}},
    {"log", log, {{TD_CHAIN_LOG, ' ', 0}}, 1e-30f, 20, 0, 2.2 * ULP, {{TD_CHAIN_DIV, '1', 0}}},
    {"sqrt",
     sqrt,
     {{TD_CHAIN_SQRT, ' ', 0}},
     0,
     100,
     0,
     6 * ULP,
     {{TD_CHAIN_DIV, '2', 0}, {TD_CHAIN_MUL, 'c', 0.5f}}},
    {"tanh", tanh, {{TD_CHAIN_TANH, ' ', 0}}, -12, 12, 0, 6 * ULP, {{TD_CHAIN_TANH_BACK, '2', 0}}},
    {"sigmoid",
     sigmoid,
     {{TD_CHAIN_SIGMOID, ' ', 0}},
     -88,
     40,
     2e-38,
     6 * ULP,
     {{TD_CHAIN_SIGMOID_BACK, '2', 0}}},
    {"softplus",
     softplus,
     {{TD_CHAIN_SOFTPLUS, ' ', 0}},
     -88,
     40,
     2e-38,
     6 * ULP,
     {{TD_CHAIN_SOFTPLUS_BACK, '1', 0}}},
    {"erf",
     erf,
     {{TD_CHAIN_ERF, ' ', 0}},
     -5,
     5,
     0,
     6 * ULP,
     {{TD_CHAIN_LOAD, '1', 0},
      {TD_CHAIN_MUL, 'a', 0},
      {TD_CHAIN_MUL, 'c', -1},
      {TD_CHAIN_EXP, ' ', 0},
      {TD_CHAIN_MUL, 'c', 1.12837917f},
      {TD_CHAIN_MUL, '0', 0}}},
    {"sin",
     sine,
     {{TD_CHAIN_SIN, ' ', 0}},
     -900,
     900,
     3 * ULP,
     0,
     {{TD_CHAIN_LOAD, '1', 0}, {TD_CHAIN_COS, ' ', 0}, {TD_CHAIN_MUL, '0', 0}}},
    {"cos",
     cosine,
     {{TD_CHAIN_COS, ' ', 0}},
     -900,
     900,
     3 * ULP,
     0,
     {{TD_CHAIN_LOAD, '1', 0}, {TD_CHAIN_SIN, ' ', 0}, {TD_CHAIN_MUL, 'c', -1}, {TD_CHAIN_MUL, '0', 0}}},
    {"silu", silu, {{TD_CHAIN_SILU, ' ', 0}}, -30, 30, 1e-7, 8 * ULP, {{TD_CHAIN_SILU_BACK, '1', 0}}},
    {"gelu_tanh",
     gelu_tanh,
     {{TD_CHAIN_GELU_TANH, ' ', 0}},
     -20,
     20,
     4e-7,
     8 * ULP,
     {{TD_CHAIN_GELU_TANH_BACK, '1', 0}}},
    {"gelu_erf",
     gelu_erf,
     {{TD_CHAIN_GELU_ERF, ' ', 0}},
     -20,
     20,
     4e-7,
     8 * ULP,
     {{TD_CHAIN_GELU_ERF_BACK, '1', 0}}},
    {"relu", relu, {{TD_CHAIN_MAX, 'c', 0}}, -2, 2, 0, 0, {{TD_CHAIN_PASS_ABOVE, '1', 0}}},
    {"leaky_relu",
     leaky,
     {{TD_CHAIN_LEAKY_RELU, ' ', 0.1f}},
     -2,
     2,
     0,
     2 * ULP,
     {{TD_CHAIN_LEAKY_RELU_BACK, '1', 0.1f}}},
    {"clamp",
     clamp,
     {{TD_CHAIN_MAX, 'c', -0.5f}, {TD_CHAIN_MIN, 'c', 0.8f}},
     -2,
     2,
     0,
     0,
     {{TD_CHAIN_PASS_ABOVE, '1', -0.5f}, {TD_CHAIN_PASS_BELOW, '1', 0.8f}}},
};
#define FUNCTION_COUNT (sizeof FUNCTIONS / sizeof *FUNCTIONS)

static size_t count_steps(const step *steps, size_t most)
{
    size_t n = 0;
    while (n < most && (steps[n].operation || steps[n].operand))
        n++;
    return n;
}

static const step LOAD_0 = {TD_CHAIN_LOAD, '0', 0};

static op_case begin_function(const struct function *f, uint32_t n)
{
    step steps[MOST_STEPS] = {LOAD_0};
    const size_t n_steps = count_steps(f->steps, 3);
    op_case c;
    memcpy(steps + 1, f->steps, n_steps * sizeof *steps);
    (void)start(&c, f->op, &n, 1, 1, steps, n_steps + 1);
    return c;
}

/* Its whole range in even steps. */
static void add_function(op_suite *suite, const struct function *f, uint32_t n)
{
    op_case c = begin_function(f, n);
    snprintf(c.label, sizeof c.label, "%u values from %g to %g", n, (double)f->low, (double)f->high);
    op_io *x = op_input(&c, "x", n);
    op_io *y = op_output(&c, "y", n, f->atol, f->rtol);
    for (uint32_t i = 0; i < n; i++) {
        x->values[i] = f->low + (f->high - f->low) * ((float)i / (float)(n > 1 ? n - 1 : 1));
        y->expected[i] = (double)(float)f->f((double)x->values[i]);
    }
    op_suite_add(suite, &c);
}

/* Small and large sizes of both signs, where they are allowed: 2^-30 to 2^30. */
static void add_magnitudes(op_suite *suite, const struct function *f)
{
    const uint32_t n = 244;
    op_case c = begin_function(f, n);
    snprintf(c.label, sizeof c.label, "magnitudes 2^-30 to 2^30");
    op_io *x = op_input(&c, "x", n);
    op_io *y = op_output(&c, "y", n, f->atol, f->rtol);
    for (uint32_t i = 0; i < n; i++) {
        const float size = ldexpf(1.37f, (int)(i / 4) - 30) * (i % 4 < 2 ? 1.0f : 0.75f);
        x->values[i] = i % 2 && f->f != log && f->f != sqrt ? -size : size;
        y->expected[i] = (double)(float)f->f((double)x->values[i]);
    }
    op_suite_add(suite, &c);
}

/* NaN, both infinities, both zeros. */
static void add_specials(op_suite *suite, const struct function *f)
{
    static const float VALUES[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    const uint32_t n = sizeof VALUES / sizeof *VALUES;
    op_case c = begin_function(f, n);
    snprintf(c.label, sizeof c.label, "NaN, infinities, zeros");
    op_io *x = op_input(&c, "x", n);
    op_io *y = op_output(&c, "y", n, f->atol, f->rtol);
    for (uint32_t i = 0; i < n; i++) {
        x->values[i] = VALUES[i];
        y->expected[i] = f->f((double)VALUES[i]);
    }
    op_suite_add(suite, &c);
}

static void apply(const double *x, double *y, const void *context)
{
    const struct function *f = context;
    for (size_t i = 0; i < 97; i++)
        y[i] = f->f(x[i]);
}

static void add_function_back(op_suite *suite, const struct function *f)
{
    const uint32_t n = 97;
    const size_t n_steps = count_steps(f->back, MOST_STEPS);
    const bool loads = f->back[0].operation == TD_CHAIN_LOAD;
    step steps[MOST_STEPS + 1] = {LOAD_0};
    double x_wide[97], dy_wide[97];
    op_case c;
    memcpy(steps + !loads, f->back, n_steps * sizeof *steps);
    (void)start(&c, f->op, &n, 1, 3, steps, n_steps + !loads);
    snprintf(c.label, sizeof c.label, "%u values", n);
    c.is_gradient = true;
    const op_io *dy = op_random(&c, "dy", n, -1, 1, 1);
    op_io *x = op_random(&c, "x", n, f->low < 0 ? -3 : 0.2f, 3, 2);
    op_io *y = op_input(&c, "y", n);
    op_io *dx = op_output(&c, "dx", n, 2e-6, 2e-6);
    for (uint32_t i = 0; i < n; i++) {
        const float kinks[] = {0, -0.5f, 0.8f};
        for (size_t k = 0; k < 3; k++)
            if (fabsf(x->values[i] - kinks[k]) < 0.01f) x->values[i] += 0.03f;
        x_wide[i] = (double)x->values[i];
        dy_wide[i] = (double)dy->values[i];
        y->values[i] = (float)f->f(x_wide[i]);
    }
    op_numeric_gradient(apply, f, x_wide, n, dy_wide, n, dx->expected);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- two values */

static const struct pair {
    const char *op;
    step steps[4];
    double (*f)(double, double);
} PAIRS[] = {
    {"add", {{TD_CHAIN_ADD, '1', 0}}, NULL},
    {"sub", {{TD_CHAIN_SUB, '1', 0}}, NULL},
    {"sub_from", {{TD_CHAIN_SUB_FROM, '1', 0}}, NULL},
    {"mul", {{TD_CHAIN_MUL, '1', 0}}, NULL},
    {"div", {{TD_CHAIN_DIV, '1', 0}}, NULL},
    {"div_into", {{TD_CHAIN_DIV_INTO, '1', 0}}, NULL},
    {"add_scaled", {{TD_CHAIN_ADD_SCALED, '1', 0.3f}}, NULL},
    {"min", {{TD_CHAIN_MIN, '1', 0}}, NULL},
    {"max", {{TD_CHAIN_MAX, '1', 0}}, NULL},
    {"bias_scale", {{TD_CHAIN_ADD, 'c', 1.5f}, {TD_CHAIN_MUL, 'c', -2.5f}, {TD_CHAIN_ADD, '1', 0}}, NULL},
    {"temporaries",
     {{TD_CHAIN_SAVE, 't', 0}, {TD_CHAIN_MUL, '1', 0}, {TD_CHAIN_SAVE, 'u', 0}, {TD_CHAIN_ADD, 't', 0}},
     NULL},
};

static double apply_pair(const char *op, double a, double b)
{
    if (strcmp(op, "add") == 0) return a + b;
    if (strcmp(op, "sub") == 0) return a - b;
    if (strcmp(op, "sub_from") == 0) return b - a;
    if (strcmp(op, "mul") == 0) return a * b;
    if (strcmp(op, "div") == 0) return a / b;
    if (strcmp(op, "div_into") == 0) return b / a;
    if (strcmp(op, "add_scaled") == 0) return a + (double)0.3f * b;
    if (strcmp(op, "min") == 0) return fmin(a, b);
    if (strcmp(op, "max") == 0) return fmax(a, b);
    if (strcmp(op, "bias_scale") == 0) return (a + 1.5) * -2.5 + b;
    return a * b + a;
}

static void add_pair(op_suite *suite, const struct pair *pair, uint32_t n, bool in_place)
{
    step steps[MOST_STEPS] = {LOAD_0};
    const size_t n_steps = count_steps(pair->steps, 4);
    op_case c;
    memcpy(steps + 1, pair->steps, n_steps * sizeof *steps);
    chain_args *args = start(&c, pair->op, &n, 1, 2, steps, n_steps + 1);
    snprintf(c.label, sizeof c.label, "%u elements%s", n, in_place ? ", in place" : "");
    op_io *a = op_random(&c, "a", n, 0.5f, 2, 3);
    const op_io *b = op_random(&c, "b", n, 0.5f, 2, 4);
    if (in_place) {
        args->in_place = true;
        a->kind = OP_IN_OUT;
        a->expected = calloc(n, sizeof *a->expected);
        a->atol = 1e-6;
        a->rtol = 3e-7;
    }
    op_io *y = in_place ? a : op_output(&c, "y", n, 1e-6, 3e-7);
    for (uint32_t i = 0; i < n; i++)
        y->expected[i] = apply_pair(pair->op, (double)a->values[i], (double)b->values[i]);
    op_suite_add(suite, &c);
}

#define PAIR_N 53

static void multiply(const double *x, double *y, const void *context)
{
    (void)context;
    for (size_t i = 0; i < PAIR_N; i++)
        y[i] = x[i] * x[PAIR_N + i];
}

static void divide(const double *x, double *y, const void *context)
{
    (void)context;
    for (size_t i = 0; i < PAIR_N; i++)
        y[i] = x[i] / x[PAIR_N + i];
}

/* Both cotangents of a product or quotient in one chain of two outputs: da = dy b, db = dy a; da = dy / b,
 * db = -da y. Input 3 is y. */
static void add_pair_back(op_suite *suite, const char *op, op_forward forward, const step *steps,
                          size_t n_steps)
{
    const uint32_t n = PAIR_N;
    double x[2 * PAIR_N], y[PAIR_N], dy_wide[PAIR_N], dx[2 * PAIR_N];
    op_case c;
    (void)start(&c, op, &n, 1, 4, steps, n_steps);
    snprintf(c.label, sizeof c.label, "%u elements, both sides", n);
    c.is_gradient = true;
    const op_io *dy = op_random(&c, "dy", n, -1, 1, 5);
    const op_io *a = op_random(&c, "a", n, 0.5f, 2, 6);
    const op_io *b = op_random(&c, "b", n, 0.5f, 2, 7);
    op_io *y_io = op_input(&c, "y", n);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = (double)a->values[i];
        x[n + i] = (double)b->values[i];
        dy_wide[i] = (double)dy->values[i];
    }
    forward(x, y, NULL);
    for (uint32_t i = 0; i < n; i++)
        y_io->values[i] = (float)y[i];
    op_numeric_gradient(forward, NULL, x, 2 * (size_t)n, dy_wide, n, dx);
    memcpy(op_output(&c, "da", n, 2e-6, 2e-6)->expected, dx, n * sizeof *dx);
    memcpy(op_output(&c, "db", n, 2e-6, 2e-6)->expected, dx + n, n * sizeof *dx);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- layouts */

/* y = x + b, b having the axes of `mask` alone. */
static void add_broadcast(op_suite *suite, const uint32_t *dims, size_t n_dims, unsigned mask)
{
    static const step STEPS[] = {{TD_CHAIN_LOAD, '0', 0}, {TD_CHAIN_SUB, '1', 0}};
    size_t n = 1, n_b = 1;
    op_case c;
    chain_args *a = start(&c, "broadcast", dims, n_dims, 2, STEPS, 2);
    int at = snprintf(c.label, sizeof c.label, "b has axes");
    for (size_t d = 0; d < n_dims; d++) {
        a->has_axis[1][d] = mask >> d & 1u;
        n *= dims[d];
        if (a->has_axis[1][d]) n_b *= dims[d];
        at += snprintf(c.label + at, sizeof c.label - (size_t)at, " %u%s", dims[d],
                       a->has_axis[1][d] ? "" : "(no)");
    }
    const op_io *x = op_random(&c, "x", n, -2, 2, 8);
    const op_io *b = op_random(&c, "b", n_b, -2, 2, 9);
    op_io *y = op_output(&c, "y", n, 1e-6, 0);
    for (size_t i = 0; i < n; i++) {
        size_t rest = i, place = 0, step_of_b = 1;
        for (size_t d = n_dims; d-- > 0; rest /= dims[d]) {
            if (!a->has_axis[1][d]) continue;
            place += rest % dims[d] * step_of_b;
            step_of_b *= dims[d];
        }
        y->expected[i] = (double)x->values[i] - (double)b->values[place];
    }
    op_suite_add(suite, &c);
}

/* The gated half of a row: x [rows, 2 columns], y = x[:, :columns] * sigmoid(x[:, columns:]). */
static void add_gated(op_suite *suite, uint32_t rows, uint32_t columns)
{
    static const step STEPS[] = {{TD_CHAIN_LOAD, '0', 0}, {TD_CHAIN_SIGMOID, ' ', 0}, {TD_CHAIN_MUL, '1', 0}};
    const uint32_t dims[] = {rows, columns};
    op_case c;
    chain_args *a = start(&c, "strided", dims, 2, 2, STEPS, 3);
    snprintf(c.label, sizeof c.label, "half of rows, %u x %u", rows, columns);
    a->is_strided = true;
    a->steps_of_0[0] = 2 * columns;
    a->steps_of_0[1] = 1;
    const op_io *x = op_random(&c, "x", 2 * (size_t)rows * columns, -2, 2, 10);
    const op_io *b = op_random(&c, "b", (size_t)rows * columns, -2, 2, 11);
    op_io *y = op_output(&c, "y", (size_t)rows * columns, 1e-6, 0);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < columns; j++)
            y->expected[r * columns + j] =
                sigmoid((double)x->values[r * 2 * columns + j]) * (double)b->values[r * columns + j];
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- dropout */

static td_status launch_dropout(const op_case *c, td_list *list, const td_span *spans)
{
    td_dropout_args a = *(const td_dropout_args *)c->args;
    a.x = spans[0];
    a.step = spans[1];
    a.y = spans[2];
    return td_op_dropout(list, &a);
}

/* 16 random bits per element, as kernels/dropout.kh describes them. */
static bool is_kept(const td_dropout_args *a, uint32_t step_number, uint32_t i)
{
    uint32_t words[4];
    td_rng_block(a->seed, a->stream, (uint64_t)step_number << 32 | (i / 128 * 16 + i % 16), words);
    const uint32_t half = i / 16 % 8;
    return (words[half / 2] >> (half % 2 * 16) & 0xffff) < (uint32_t)lround((1 - (double)a->p) * 65536);
}

/* Backward is the same launch on dy, so one maker serves both. */
static void add_dropout(op_suite *suite, uint32_t n, float p, bool is_gradient)
{
    op_case c = {.op = "dropout", .kernels = "dropout", .launch = launch_dropout};
    td_dropout_args *a = op_args(&c, sizeof *a);
    *a = (td_dropout_args){.n = n, .p = p, .seed = 0x123456789abcdef0u, .stream = 0x900000007u};
    snprintf(c.label, sizeof c.label, "%u elements, p %g", n, (double)p);
    c.is_gradient = is_gradient;
    const op_io *x = op_random(&c, is_gradient ? "dy" : "x", n, -2, 2, 12);
    const uint32_t step_number = 41;
    memcpy(op_input(&c, "step", 1)->values, &step_number, 4);
    op_io *y = op_output(&c, is_gradient ? "dx" : "y", n, 0, 2 * ULP);
    for (uint32_t i = 0; i < n; i++)
        y->expected[i] = is_kept(a, step_number, i) ? (double)x->values[i] / (1 - (double)p) : 0;
    for (uint32_t i = 0; i < n; i++) /* p in steps of 2^-16 */
        y->expected[i] *= (1 - (double)p) * 65536 / (double)lround((1 - (double)p) * 65536);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- all */

static void add_gradients(op_suite *suite)
{
    static const step MUL[] = {{TD_CHAIN_LOAD, '0', 0}, {TD_CHAIN_MUL, '2', 0}, {TD_CHAIN_STORE, ' ', 0},
                               {TD_CHAIN_LOAD, '0', 0}, {TD_CHAIN_MUL, '1', 0}, {TD_CHAIN_STORE, ' ', 0}};
    static const step DIV[] = {{TD_CHAIN_LOAD, '0', 0}, {TD_CHAIN_DIV, '2', 0},  {TD_CHAIN_STORE, ' ', 0},
                               {TD_CHAIN_MUL, '3', 0},  {TD_CHAIN_MUL, 'c', -1}, {TD_CHAIN_STORE, ' ', 0}};
    for (size_t f = 0; f < FUNCTION_COUNT; f++)
        add_function_back(suite, &FUNCTIONS[f]);
    add_pair_back(suite, "mul", multiply, MUL, 6);
    add_pair_back(suite, "div", divide, DIV, 6);
    add_dropout(suite, 1021, 0.25f, true);
}

static void add_layouts(op_suite *suite)
{
    static const uint32_t DIMS[] = {3, 5, 7, 11};
    static const uint32_t MANY[] = {2, 1, 3, 1, 4, 67};
    for (unsigned mask = 0; mask < 16; mask++)
        add_broadcast(suite, DIMS, 4, mask);
    for (unsigned mask = 0; mask < 8; mask++)
        add_broadcast(suite, (const uint32_t[]){3, 2, 600}, 3, mask);
    add_broadcast(suite, MANY, 6, 0x35);
    add_broadcast(suite, (const uint32_t[]){5000, 3}, 2, 2);
    add_broadcast(suite, (const uint32_t[]){3, 5000}, 2, 1);
    add_broadcast(suite, (const uint32_t[]){3, 2, 5}, 3, 5);
    add_gated(suite, 13, 77);
    add_gated(suite, 3, 9);
}

void cases_chain(op_suite *suite, td_device *device);
void cases_chain(op_suite *suite, td_device *device)
{
    static const uint32_t SIZES[] = {1,   2,   7,   8,    9,    127,  128,  129,
                                     511, 512, 513, 1021, 4095, 4096, 4097, 9973};
    const bool slow = op_device_is_slow(device);
    for (size_t f = 0; f < FUNCTION_COUNT; f++) {
        add_function(suite, &FUNCTIONS[f], slow ? 4001 : 400009);
        add_magnitudes(suite, &FUNCTIONS[f]);
        if (strcmp(FUNCTIONS[f].op, "silu") != 0 && strncmp(FUNCTIONS[f].op, "gelu", 4) != 0)
            add_specials(suite, &FUNCTIONS[f]);
    }
    for (size_t k = 0; k < sizeof PAIRS / sizeof *PAIRS; k++) {
        add_pair(suite, &PAIRS[k], 301, false);
        add_pair(suite, &PAIRS[k], 4099, true);
    }
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        add_pair(suite, &PAIRS[1], SIZES[k], false);
        add_dropout(suite, SIZES[k], 0.1f, false);
    }
    add_dropout(suite, 1000, 0, false);
    add_layouts(suite);
    add_gradients(suite);
}
