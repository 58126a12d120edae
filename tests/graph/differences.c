/* See differences.h. */
#include "differences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define STEPS_TO_TAKE                                                                                        \
    ((const double[]){1e-6, 1e-8}) /* the second where a kink lies within reach of the first */
#define DIRECTIONS 2

static double loss_of(model *m)
{
    interpreter_run(&m->truth);
    return m->truth.values[m->loss.id][0];
}

/* The slope of the loss along a direction of signs in one parameter, or along one element. */
static double slope(model *m, uint32_t id, const double *direction, size_t n, double step)
{
    double *w = m->truth.values[id];
    double *start = malloc(n * sizeof *start);
    double sides[2];
    memcpy(start, w, n * sizeof *start);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            w[i] = start[i] + (side ? -step : step) * direction[i];
        sides[side] = loss_of(m);
    }
    memcpy(w, start, n * sizeof *start);
    free(start);
    return (sides[0] - sides[1]) / (2 * step);
}

static void compare_slope(model *m, uint32_t id, const float *gradient, size_t n, uint64_t number)
{
    const char *name = m->graph->tensors[id].name;
    double *direction = calloc(n, sizeof *direction);
    double got = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const bool chosen = number < DIRECTIONS || i == td_rng_below(m->seed, 77, number, n);
        direction[i] = !chosen ? 0 : td_rng_u32(m->seed, 78 + number, i) & 1 ? 1 : -1;
        got += direction[i] * (double)gradient[i];
        norm += (double)gradient[i] * (double)gradient[i];
    }
    const double tolerance = 3e-4 * sqrt(norm) + 2e-5;
    double expected = slope(m, id, direction, n, STEPS_TO_TAKE[0]);
    if (!(fabs(got - expected) <= tolerance)) expected = slope(m, id, direction, n, STEPS_TO_TAKE[1]);
    free(direction);
    if (fabs(got - expected) <= tolerance) return;
    print_error("graph %llu, d %s: %g instead of %g, more than %g off\n", (unsigned long long)m->seed, name,
                got, expected, tolerance);
    fail();
}

void compare_gradients(model *m, const bench *b)
{
    for (uint32_t id = 1, entry = 0; id < m->graph->n_tensors; id++) {
        const td_tensor_info *t = &m->graph->tensors[id];
        if (t->role != TD_TENSOR_PARAMETER && t->role != TD_TENSOR_STATE) continue;
        const uint32_t i = entry++;
        if (t->role == TD_TENSOR_STATE) continue;
        const size_t n = (size_t)td_shape_size(t->shape);
        float *gradient = malloc(n * sizeof *gradient);
        check(td_store_read(b->store, i, TD_BLOCK_GRADIENT, gradient));
        for (uint64_t number = 0; number < DIRECTIONS + 2; number++)
            compare_slope(m, id, gradient, n, number);
        free(gradient);
    }
}

void compare_loss(model *m, const bench *b)
{
    td_scalars scalars;
    check(td_plan_scalars(b->plan, td_plan_runs(b->plan) - 1, &scalars));
    const double expected = loss_of(m);
    assert_int_equal(scalars.count, 1);
    if (fabs((double)scalars.values[0] - expected) <= 2e-5 * fmax(1, fabs(expected))) return;
    print_error("graph %llu: loss %g instead of %g\n", (unsigned long long)m->seed, (double)scalars.values[0],
                expected);
    fail();
}
