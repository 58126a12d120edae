/* Cases of src/ops/reduce.h over the first, a middle and the last axis, short and long. References add in
 * double; gradients are differences of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ops/reduce.h"
#include "suite.h"

typedef struct shape {
    uint32_t outer, axis, inner;
} shape;

typedef struct reduce_args {
    td_reduce_kind kind;
    shape s;
    bool add;
} reduce_args;

static const char *const NAMES[] = {"reduce_sum_axis", "reduce_mean", "reduce_squares"};

static size_t n_x(const shape *s)
{
    return (size_t)s->outer * s->axis * s->inner;
}

static size_t n_y(const shape *s)
{
    return (size_t)s->outer * s->inner;
}

static op_case start(const char *op, const char *kernels, const reduce_args *args)
{
    op_case c = {.op = op, .kernels = kernels};
    *(reduce_args *)op_args(&c, sizeof *args) = *args;
    snprintf(c.label, sizeof c.label, "[%u, %u, %u]%s", args->s.outer, args->s.axis, args->s.inner,
             args->add ? ", added" : "");
    return c;
}

/* ---------------------------------------------------------------- sums */

static td_status launch_reduce(const op_case *c, td_list *list, const td_span *spans)
{
    const reduce_args *r = c->args;
    const td_reduce_args a = {.kind = r->kind,
                              .outer = r->s.outer,
                              .axis = r->s.axis,
                              .inner = r->s.inner,
                              .x = spans[0],
                              .y = spans[1],
                              .workspace = spans[2],
                              .add = r->add};
    return td_op_reduce(list, &a);
}

static void reduce(const double *x, double *y, const void *context)
{
    const reduce_args *r = context;
    memset(y, 0, n_y(&r->s) * sizeof *y);
    for (size_t o = 0; o < r->s.outer; o++)
        for (size_t a = 0; a < r->s.axis; a++)
            for (size_t i = 0; i < r->s.inner; i++) {
                const double v = x[(o * r->s.axis + a) * r->s.inner + i];
                y[o * r->s.inner + i] += r->kind == TD_REDUCE_SQUARES ? v * v
                                         : r->kind == TD_REDUCE_MEAN  ? v / r->s.axis
                                                                      : v;
            }
}

static double *to_double(const op_io *io)
{
    double *wide = calloc(io->count ? io->count : 1, sizeof *wide);
    if (!wide) abort();
    for (size_t i = 0; i < io->count; i++)
        wide[i] = (double)io->values[i];
    return wide;
}

static void add_reduce(op_suite *suite, td_device *device, const reduce_args *r)
{
    op_case c = start(NAMES[r->kind], "row_sum column_sum", r);
    const double sum_of_sizes = r->kind == TD_REDUCE_MEAN ? 1 : r->s.axis;
    c.launch = launch_reduce;
    const op_io *x = op_random(&c, "x", n_x(&r->s), -1, 3, 1);
    op_io *y = op_output(&c, "y", n_y(&r->s), 4e-7 * sum_of_sizes, 1e-6);
    (void)op_scratch(&c, "workspace",
                     td_op_reduce_workspace(td_device_class(device), r->s.outer, r->s.axis, r->s.inner));
    double *wide = to_double(x);
    reduce(wide, y->expected, r);
    free(wide);
    if (r->add) {
        y->kind = OP_IN_OUT;
        y->values = calloc(y->count, sizeof *y->values);
        for (size_t i = 0; i < y->count; i++)
            y->expected[i] += (double)(y->values[i] = (float)(i % 7) - 2.5f);
    }
    op_suite_add(suite, &c);
}

static td_status launch_reduce_back(const op_case *c, td_list *list, const td_span *spans)
{
    const reduce_args *r = c->args;
    const td_reduce_back_args a = {.kind = r->kind,
                                   .outer = r->s.outer,
                                   .axis = r->s.axis,
                                   .inner = r->s.inner,
                                   .dy = spans[0],
                                   .x = spans[1],
                                   .dx = spans[2]};
    return td_op_reduce_back(list, &a);
}

static void add_reduce_back(op_suite *suite, const reduce_args *r)
{
    op_case c = start(NAMES[r->kind], "chain", r);
    c.launch = launch_reduce_back;
    c.is_gradient = true;
    const op_io *dy = op_random(&c, "dy", n_y(&r->s), -1, 1, 2);
    const op_io *x = op_random(&c, "x", n_x(&r->s), -1, 3, 3);
    op_io *dx = op_output(&c, "dx", n_x(&r->s), 1e-6, 1e-6);
    double *dy_wide = to_double(dy);
    double *x_wide = to_double(x);
    op_numeric_gradient(reduce, r, x_wide, n_x(&r->s), dy_wide, n_y(&r->s), dx->expected);
    free(dy_wide);
    free(x_wide);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- largest */

static td_status launch_max(const op_case *c, td_list *list, const td_span *spans)
{
    const shape *s = &((const reduce_args *)c->args)->s;
    const td_max_args a = {s->outer, s->axis, s->inner, spans[0], spans[1], spans[2]};
    return td_op_max(list, &a);
}

/* Whole numbers from a few, so that the largest stands in several places; one column has a NaN. */
static void add_max(op_suite *suite, const shape *s)
{
    op_case c = start("reduce_max", "row_max column_max", &(reduce_args){.s = *s});
    c.launch = launch_max;
    op_io *x = op_input(&c, "x", n_x(s));
    op_io *y = op_output_words(&c, "y", n_y(s));
    op_io *arg = op_output_words(&c, "arg", n_y(s));
    for (size_t i = 0; i < x->count; i++)
        x->values[i] = (float)(td_rng_u32(7, 7, i) % (s->axis + 3)) - (float)s->axis;
    if (s->axis > 3) x->values[s->inner] = NAN;
    for (size_t i = 0; i < n_y(s); i++) {
        float best = -INFINITY;
        for (uint32_t a = 0; a < s->axis; a++) {
            const float v = x->values[(i / s->inner * s->axis + a) * s->inner + i % s->inner];
            if (!(v > best)) continue;
            best = v;
            arg->words[i] = a;
        }
        memcpy(&y->words[i], &best, 4);
    }
    op_suite_add(suite, &c);
}

static td_status launch_max_back(const op_case *c, td_list *list, const td_span *spans)
{
    const shape *s = &((const reduce_args *)c->args)->s;
    const td_max_back_args a = {s->outer, s->axis, s->inner, spans[0], spans[1], spans[2]};
    return td_op_max_back(list, &a);
}

static void find_max(const double *x, double *y, const void *context)
{
    const shape *s = context;
    for (size_t i = 0; i < n_y(s); i++) {
        y[i] = -INFINITY;
        for (size_t a = 0; a < s->axis; a++)
            y[i] = fmax(y[i], x[(i / s->inner * s->axis + a) * s->inner + i % s->inner]);
    }
}

/* All values differ by more than the step of the differences. */
static void add_max_back(op_suite *suite, const shape *s)
{
    op_case c = start("reduce_max", "max_back", &(reduce_args){.s = *s});
    c.launch = launch_max_back;
    c.is_gradient = true;
    const op_io *dy = op_random(&c, "dy", n_y(s), -1, 1, 4);
    op_io *arg = op_input(&c, "arg", n_y(s));
    op_io *dx = op_output(&c, "dx", n_x(s), 1e-6, 1e-6);
    double *dy_wide = to_double(dy);
    double *x = calloc(n_x(s), sizeof *x);
    if (!x) abort();
    for (size_t i = 0; i < n_x(s); i++)
        x[i] = (double)(i * 7919 % n_x(s)) / (double)n_x(s);
    for (size_t i = 0; i < n_y(s); i++) {
        uint32_t best = 0;
        for (uint32_t a = 1; a < s->axis; a++)
            if (x[(i / s->inner * s->axis + a) * s->inner + i % s->inner] >
                x[(i / s->inner * s->axis + best) * s->inner + i % s->inner])
                best = a;
        memcpy(&arg->values[i], &best, 4);
    }
    op_numeric_gradient(find_max, s, x, n_x(s), dy_wide, n_y(s), dx->expected);
    free(dy_wide);
    free(x);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- all */

void cases_reduce(op_suite *suite, td_device *device);
void cases_reduce(op_suite *suite, td_device *device)
{
    static const shape SHAPES[] = {{1, 1, 1},     {1, 9973, 1},  {7, 300, 1},  {129, 5, 1},  {3, 127, 1},
                                   {2, 20000, 1}, {1, 301, 77},  {5, 13, 33},  {1, 5000, 3}, {2, 3, 600},
                                   {40, 1, 9},    {1, 130, 192}, {3, 64, 130}, {1, 2, 4097}, {2, 5, 9}};
    static const shape SMALL[] = {{1, 23, 1}, {5, 7, 1}, {1, 9, 11}, {3, 4, 5}};
    const bool slow = op_device_is_slow(device);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        for (td_reduce_kind kind = TD_REDUCE_SUM; kind <= TD_REDUCE_SQUARES; kind++)
            add_reduce(suite, device, &(reduce_args){kind, SHAPES[i], false});
        add_reduce(suite, device, &(reduce_args){TD_REDUCE_SUM, SHAPES[i], true});
        add_max(suite, &SHAPES[i]);
    }
    if (!slow) add_reduce(suite, device, &(reduce_args){TD_REDUCE_SUM, {1, 400000, 1}, false});
    for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++) {
        for (td_reduce_kind kind = TD_REDUCE_SUM; kind <= TD_REDUCE_SQUARES; kind++)
            add_reduce_back(suite, &(reduce_args){kind, SMALL[i], false});
        add_max_back(suite, &SMALL[i]);
    }
}
