/* Moments in fewer bits (graph/packed.h): the codec against what its formats say, the same bytes after a round trip, and
 * runs of a small model beside one whose moments are fp32, on each kind of device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/optimizer.h"
#include "graph/packed.h"
#include "graph/plan.h"
#include "support/rig.h"

enum { N = 3 * (int)TD_STATE_BLOCK + 17, STEPS = 12, ROWS = 24, WIDTH = 40 };

/* From 1 down to 2^-20, of both signs; a block of zeros in between. */
static void make_values(float *values, bool is_second)
{
    for (int i = 0; i < N; i++) {
        const float size = ldexpf(1 + (float)(i % 7) / 9, -(i % 20));
        values[i] = i / (int)TD_STATE_BLOCK == 1 ? 0 : is_second ? size * size : i % 3 ? size : -size;
    }
}

static void test_bytes_are_near_and_come_back(void **state)
{
    (void)state;
    for (int second = 0; second < 2; second++) {
        float values[N], back[N], again_scales[4], scales[4];
        uint8_t bytes[N], again[N];
        make_values(values, second);
        td_packed_encode(values, N, second, bytes, scales);
        td_packed_decode(bytes, scales, N, second, back);
        for (int i = 0; i < N; i++) {
            const double kept = second ? sqrt((double)values[i]) : (double)values[i];
            const double got = second ? sqrt((double)back[i]) : (double)back[i];
            const double most = (double)scales[i / (int)TD_STATE_BLOCK];
            const double step = second ? 1.0 / 32 : 1.0 / 16; /* half a unit of the mantissa */
            const double least = most * ldexp(1, second ? -18 : -17);
            if (!(fabs(got - kept) <= 1.001 * fmax(step * fabs(kept), second ? 2 * least : least)))
                fail_msg("element %d of moment %d is %g instead of %g", i, 1 + second, got, kept);
            assert_true(second == 0 || values[i] == 0 || back[i] > 0);
        }
        td_packed_encode(back, N, second, again, again_scales);
        assert_memory_equal(again, bytes, sizeof bytes);
        assert_memory_equal(again_scales, scales, sizeof scales);
    }
}

/* ---------------------------------------------------------------- runs */

typedef struct model {
    td_graph *graph;
    td_store *store;
    td_plan *plan;
    td_optimizer *optimizer;
} model;

static void open_model(model *m, rig *r, td_state_format format)
{
    td_tensor x, y, w;
    float values[ROWS * WIDTH];
    check(td_graph_create(1, &m->graph));
    x = td_graph_input(m->graph, "x", td_dims(1, ROWS, WIDTH), TD_F32);
    y = td_graph_input(m->graph, "y", td_dims(1, ROWS, 8), TD_F32);
    w = td_graph_param(m->graph, "w", td_dims(WIDTH, 8), TD_PARAM_DECAY);
    const td_tensor off = td_graph_sub(m->graph, td_graph_matmul(m->graph, x, w), y);
    const td_tensor flat = td_graph_reshape(m->graph, off, td_dims(ROWS * 8));
    const td_tensor loss = td_graph_sum_squares(m->graph, flat, 0);
    td_graph_output(m->graph, loss, "loss");
    check(td_graph_backward(m->graph, loss, 1));
    check(td_store_create(r->memory, m->graph, &(td_store_options){.training = true, .state = format},
                          &m->store));
    check(td_plan_create(m->store, m->graph, &(td_plan_options){0}, &m->plan));
    check(td_optimizer_create(
        m->store, 0, &(td_optimizer_options){.beta1 = 0.9F, .beta2 = 0.96F, .eps = 1e-8F, .decay = 0.01F},
        &m->optimizer));
    for (int i = 0; i < ROWS * WIDTH; i++)
        values[i] = (float)sin(i * 0.7) * (1 + (float)(i % WIDTH) / 8);
    check(td_plan_fill(m->plan, 0, x, values));
    check(td_plan_fill(m->plan, 0, y, values));
}

static void close_model(model *m)
{
    td_optimizer_destroy(m->optimizer);
    td_plan_destroy(m->plan);
    td_store_destroy(m->store);
    td_graph_destroy(m->graph);
}

static float run_steps(model *m, uint32_t first, uint32_t end)
{
    td_scalars scalars = {0};
    for (uint32_t i = first; i < end; i++) {
        td_update result;
        check(td_plan_run(m->plan, &(td_run){.step = i}, NULL));
        check(td_optimizer_step(m->optimizer, 0.01F, NULL));
        check(td_optimizer_result(m->optimizer, td_optimizer_steps(m->optimizer) - 1, &result));
        check(td_plan_scalars(m->plan, td_plan_runs(m->plan) - 1, &scalars));
    }
    return scalars.values[0];
}

/* The first update is the same, since it is made before moments are rounded; later ones are near. */
static void check_format(rig *r, td_state_format format, double tolerance)
{
    model exact, packed;
    float w[2][WIDTH * 8], m[2][WIDTH * 8];
    open_model(&exact, r, TD_STATE_FP32);
    open_model(&packed, r, format);
    run_steps(&exact, 0, 1);
    run_steps(&packed, 0, 1);
    check(td_store_read(exact.store, 0, TD_BLOCK_WEIGHT, w[0]));
    check(td_store_read(packed.store, 0, TD_BLOCK_WEIGHT, w[1]));
    assert_true(relative_error(w[1], w[0], WIDTH * 8) <= 1e-6);
    for (int k = 0; k < 2; k++) {
        check(td_store_read(exact.store, 0, k ? TD_BLOCK_MOMENT2 : TD_BLOCK_MOMENT1, m[0]));
        check(td_store_read(packed.store, 0, k ? TD_BLOCK_MOMENT2 : TD_BLOCK_MOMENT1, m[1]));
        const double error = relative_error(m[1], m[0], WIDTH * 8);
        if (!(error > 0 && error <= tolerance)) fail_msg("moment %d is wrong by %g", 1 + k, error);
    }
    const double loss = (double)run_steps(&exact, 1, STEPS), near = (double)run_steps(&packed, 1, STEPS);
    if (!(fabs(near - loss) <= tolerance * loss)) fail_msg("the loss is %g instead of %g", near, loss);
    close_model(&packed);
    close_model(&exact);
}

/* Read and written back in another store, a run goes on to the same bits. */
static void check_return(rig *r, td_state_format format)
{
    model whole, parts;
    float values[3][WIDTH * 8], w[2][WIDTH * 8];
    uint32_t control[TD_CONTROL_WORDS];
    open_model(&whole, r, format);
    run_steps(&whole, 0, 3);
    for (int b = 0; b < 3; b++)
        check(td_store_read(whole.store, 0,
                            (td_block[]){TD_BLOCK_WEIGHT, TD_BLOCK_MOMENT1, TD_BLOCK_MOMENT2}[b], values[b]));
    check(td_store_read_control(whole.store, 0, control));
    open_model(&parts, r, format);
    for (int b = 0; b < 3; b++)
        check(td_store_write(
            parts.store, 0, (td_block[]){TD_BLOCK_WEIGHT, TD_BLOCK_MOMENT1, TD_BLOCK_MOMENT2}[b], values[b]));
    check(td_store_write_control(parts.store, 0, control));
    run_steps(&whole, 3, 6);
    run_steps(&parts, 3, 6);
    check(td_store_read(whole.store, 0, TD_BLOCK_WEIGHT, w[0]));
    check(td_store_read(parts.store, 0, TD_BLOCK_WEIGHT, w[1]));
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    close_model(&parts);
    close_model(&whole);
}

static void test_runs_are_near_those_in_fp32(void **state)
{
    (void)state;
    for (int kind = RIG_CL_CPU; kind < RIG_KINDS; kind++) {
        rig r;
        if (!rig_open(&r, (rig_kind)kind, 0)) skip();
        check_format(&r, TD_STATE_BF16, 4e-3);
        check_format(&r, TD_STATE_INT8, 6e-2);
        check_return(&r, TD_STATE_BF16);
        check_return(&r, TD_STATE_INT8);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_near_and_come_back),
        cmocka_unit_test(test_runs_are_near_those_in_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
