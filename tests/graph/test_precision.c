/* Numbers of 16 bits in a step: products read rounded weights and nothing else is rounded, the copies follow
 * every change of the masters, training comes out as in fp32, the loss scale moves as it should, and a state
 * that was written and read goes on with the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/store.h"
#include "rig.h"

typedef struct network {
    model m;
    td_tensor x, target;
} network;

static const td_optimizer_options adam = {
    .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .decay = 0.01f, .max_norm = 1};

/* Every kind of product that has weights: nn, nt, a convolution, and their gradients. With few frames no
 * activation is large enough to be kept in 16 bits. */
static void build(network *n, uint32_t frames, float dropout, bool is_scaled)
{
    *n = (network){.m = {.seed = 11}};
    check(td_graph_create(11, &n->m.graph));
    td_graph *g = n->m.graph;
    n->x = td_graph_input(g, "x", td_dims(1, frames, 32), TD_F32);
    n->target = td_graph_input(g, "target", td_dims(1, frames, 40), TD_F32);
    const td_tensor lengths = model_lengths(g, 1, frames);
    const td_tensor w0 = td_graph_param(g, "w0", td_dims(32, 64), TD_PARAM_DECAY);
    const td_tensor w1 = td_graph_param(g, "w1", td_dims(3, 64, 64), TD_PARAM_DECAY);
    const td_tensor w2 = td_graph_param(g, "w2", td_dims(48, 64), TD_PARAM_FROZEN);
    const td_tensor w3 = td_graph_param(g, "w3", td_dims(48, 40), TD_PARAM_DECAY);
    const td_tensor bias = td_graph_param(g, "bias", td_dims(64), TD_PARAM_NO_DECAY);
    const td_tensor gamma = td_graph_param(g, "gamma", td_dims(64), TD_PARAM_NO_DECAY);
    td_tensor h = td_graph_gelu(g, td_graph_matmul(g, n->x, w0));
    h = td_graph_conv_padded(g, h, w1, bias, &(td_conv){0}, TD_PADS_SAME);
    h = td_graph_rms_norm(g, h, gamma, 1e-5f);
    h = td_graph_dropout(g, td_graph_tanh(g, td_graph_matmul_nt(g, h, w2)), dropout);
    n->m.loss = td_graph_loss(g, TD_LOSS_MSE, td_graph_matmul(g, h, w3), n->target, lengths, 1);
    td_graph_output(g, n->m.loss, "loss");
    check(is_scaled ? td_graph_backward_scaled(g, n->m.loss, 1) : td_graph_backward(g, n->m.loss, 1));
    model_fill(&n->m);
    for (uint32_t id = 1; id < g->n_tensors; id++) {
        const td_tensor_info *t = &g->tensors[id];
        for (size_t i = 0; t->role == TD_TENSOR_PARAMETER && i < td_shape_size(t->shape); i++)
            n->m.truth.values[id][i] *= 0.2;
    }
}

/* To so many bits, the first one included; small numbers to multiples of `unit`. */
static double round_to(double x, int bits, double unit)
{
    int exponent;
    (void)frexp(x, &exponent);
    const double step = fmax(ldexp(1, exponent - bits), unit);
    return nearbyint(x / step) * step;
}

static double round_as(double x, td_dtype dtype)
{
    return dtype == TD_BF16 ? round_to(x, 8, 0) : round_to(x, 11, 0x1p-24);
}

/* What products read becomes what 16 bits can hold. */
static void round_weights(network *n, td_dtype dtype)
{
    const td_graph *g = n->m.graph;
    for (uint32_t id = 1; id < g->n_tensors; id++) {
        const td_tensor_info *t = &g->tensors[id];
        if (t->role != TD_TENSOR_PARAMETER || t->group == TD_PARAM_NO_DECAY) continue;
        for (size_t i = 0; i < td_shape_size(t->shape); i++)
            n->m.truth.values[id][i] = round_as((double)(float)n->m.truth.values[id][i], dtype);
    }
}

static float run_once(bench *b)
{
    td_scalars scalars;
    bench_run(b, 1);
    check(td_plan_scalars(b->plan, td_plan_runs(b->plan) - 1, &scalars));
    return scalars.values[0];
}

/* The masters of one bench, rounded, become the weights of another. */
static void hand_over(const bench *from, const bench *to, td_dtype dtype)
{
    float values[3 * 64 * 64];
    for (size_t i = 0; i < td_store_count(from->store); i++) {
        const td_store_entry e = td_store_get(from->store, i);
        check(td_store_read(from->store, i, TD_BLOCK_WEIGHT, values));
        for (size_t k = 0; e.group != TD_PARAM_NO_DECAY && k < td_shape_size(e.shape); k++)
            values[k] = (float)round_as((double)values[k], dtype);
        check(td_store_write(to->store, i, TD_BLOCK_WEIGHT, values));
    }
}

static void compare(bench *narrow, bench *rounded)
{
    size_t n = 0;
    const double a = (double)run_once(narrow), b = (double)run_once(rounded);
    float *got = read_gradients(narrow->store, &n), *expected = read_gradients(rounded->store, &n);
    assert_true(fabs(a / b - 1) < 2e-6);
    assert_true(relative_error(got, expected, n) < 5e-6);
    free(got);
    free(expected);
}

static void judge_weights(const rig *r, td_dtype dtype)
{
    const td_plan_options options = {.half = dtype};
    const bool is_scaled = dtype == TD_F16;
    network n, plain;
    bench narrow, rounded, exact;
    td_optimizer *optimizer = NULL;
    build(&n, 3, 0, is_scaled);
    build(&plain, 3, 0, false);
    bench_open(&exact, r, &plain.m, &(td_plan_options){0});
    round_weights(&plain, dtype);
    bench_open(&rounded, r, &plain.m, &(td_plan_options){0});
    bench_open_half(&narrow, r, &n.m, &options, dtype);
    compare(&narrow, &rounded);
    assert_true(run_once(&exact) != run_once(&rounded)); /* it matters */
    check(td_optimizer_create(narrow.store, &adam, &optimizer));
    for (uint32_t i = 0; i < 3; i++)
        check(td_plan_run(narrow.plan, &(td_run){.optimizer = optimizer, .learning_rate = 0.01f, .step = i},
                          NULL));
    hand_over(&narrow, &rounded, dtype);
    compare(&narrow, &rounded);
    td_optimizer_destroy(optimizer);
    bench_close(&narrow);
    bench_close(&rounded);
    bench_close(&exact);
    model_close(&n.m);
    model_close(&plain.m);
}

static void test_weights(void **state)
{
    (void)state;
    for (rig_kind kind = 0; kind < RIG_KINDS; kind++) {
        rig r;
        if (!rig_open(&r, kind, 0)) continue;
        judge_weights(&r, TD_BF16);
        judge_weights(&r, TD_F16);
        rig_close(&r);
    }
}

/* The copies are 2 bytes for each element of their groups, in the figures of a plan too. */
static void test_bytes(void **state)
{
    (void)state;
    td_plan_stats stats[2];
    rig r;
    network n;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 3, 0, false);
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open_half(&b, &r, &n.m, &(td_plan_options){.half = TD_BF16}, i ? TD_BF16 : TD_F32);
        td_plan_get_stats(b.plan, &stats[i]);
        bench_close(&b);
    }
    const uint64_t weights = 32 * 64 + 3 * 64 * 64 + 48 * 64 + 48 * 40;
    const uint64_t more = stats[1].store_bytes - stats[0].store_bytes;
    assert_true(more >= 2 * weights && more < 2 * weights + 8192); /* and room to start where bindings may */
    model_close(&n.m);
    rig_close(&r);
}

/* ---------------------------------------------------------------- training */

static void train(bench *b, td_optimizer *optimizer, uint32_t first, uint32_t steps, float *losses)
{
    td_scalars scalars;
    for (uint32_t i = 0; i < steps; i++) {
        const td_run run = {.slot = i % 2, .step = first + i, .optimizer = optimizer, .learning_rate = 3e-3f};
        check(td_plan_run(b->plan, &run, NULL));
        if (i == 0 || !losses) continue;
        check(td_plan_scalars(b->plan, td_plan_runs(b->plan) - 2, &scalars));
        losses[i - 1] = scalars.values[0];
    }
}

#define LONG_RUN 300

static void test_training(void **state)
{
    (void)state;
    static const td_dtype dtypes[] = {TD_F32, TD_BF16, TD_F16};
    float losses[3][LONG_RUN];
    double last[3] = {0};
    rig r;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    for (int i = 0; i < 3; i++) {
        const td_plan_options options = {.half = dtypes[i]};
        network n;
        bench b;
        td_optimizer *optimizer = NULL;
        build(&n, 96, 0.05f, dtypes[i] == TD_F16);
        bench_open_half(&b, &r, &n.m, &options, dtypes[i]);
        check(td_optimizer_create(b.store, &adam, &optimizer));
        train(&b, optimizer, 0, LONG_RUN, losses[i]);
        for (int k = LONG_RUN - 21; k < LONG_RUN - 1; k++)
            last[i] += (double)losses[i][k] / 20;
        td_optimizer_destroy(optimizer);
        bench_close(&b);
        model_close(&n.m);
    }
    print_message("    loss %g; fp32 %g, bf16 %g, fp16 %g\n", (double)losses[0][0], last[0], last[1],
                  last[2]);
    assert_true(last[0] < 0.3 * (double)losses[0][0]);
    assert_true(fabs(last[1] / last[0] - 1) < 0.02);
    assert_true(fabs(last[2] / last[0] - 1) < 0.02);
    rig_close(&r);
}

/* What a checkpoint holds. */
static void copy_state(const bench *from, const bench *to)
{
    static const td_block blocks[] = {TD_BLOCK_WEIGHT, TD_BLOCK_MOMENT1, TD_BLOCK_MOMENT2};
    float values[3 * 64 * 64];
    uint32_t words[TD_CONTROL_WORDS];
    for (size_t i = 0; i < td_store_count(to->store); i++) {
        for (size_t k = 0; k < 3; k++) {
            if (!td_store_span(to->store, i, blocks[k]).buffer) continue;
            check(td_store_read(from->store, i, blocks[k], values));
            check(td_store_write(to->store, i, blocks[k], values));
        }
    }
    check(td_store_read_control(from->store, words));
    check(td_store_write_control(to->store, words));
}

/* A run that stops and goes on from what it wrote gives the bits of one that does not stop. */
static void test_resume(void **state)
{
    (void)state;
    enum { WHOLE, STOPPED, RESUMED, RUNS };
    td_optimizer_options growing = adam;
    float got[3 * 64 * 64], expected[3 * 64 * 64];
    uint32_t words[2][TD_CONTROL_WORDS];
    rig r;
    network n;
    bench b[RUNS];
    td_optimizer *optimizers[RUNS];
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    growing.scale_growth_steps = 3;
    build(&n, 24, 0.05f, true);
    for (int i = 0; i < RUNS; i++) {
        bench_open_half(&b[i], &r, &n.m, &(td_plan_options){.half = TD_F16}, TD_F16);
        check(td_optimizer_create(b[i].store, &growing, &optimizers[i]));
    }
    train(&b[WHOLE], optimizers[WHOLE], 0, 10, NULL);
    train(&b[STOPPED], optimizers[STOPPED], 0, 5, NULL);
    copy_state(&b[STOPPED], &b[RESUMED]);
    train(&b[RESUMED], optimizers[RESUMED], 5, 5, NULL);
    for (size_t i = 0; i < td_store_count(b[WHOLE].store); i++) {
        check(td_store_read(b[WHOLE].store, i, TD_BLOCK_WEIGHT, expected));
        check(td_store_read(b[RESUMED].store, i, TD_BLOCK_WEIGHT, got));
        assert_memory_equal(got, expected, 4 * (size_t)td_shape_size(td_store_get(b[WHOLE].store, i).shape));
    }
    check(td_store_read_control(b[WHOLE].store, words[0]));
    check(td_store_read_control(b[RESUMED].store, words[1]));
    assert_memory_equal(words[0], words[1], sizeof words[0]);
    for (int i = 0; i < RUNS; i++) {
        td_optimizer_destroy(optimizers[i]);
        bench_close(&b[i]);
    }
    model_close(&n.m);
    rig_close(&r);
}

/* ---------------------------------------------------------------- the loss scale */

static td_scalars step_once(bench *b, td_optimizer *optimizer)
{
    td_scalars scalars;
    check(td_plan_run(b->plan, &(td_run){.optimizer = optimizer, .learning_rate = 1e-3f}, NULL));
    check(td_plan_scalars(b->plan, td_plan_runs(b->plan) - 1, &scalars));
    return scalars;
}

/* Doubled after three good steps; an overflow of the scaled gradient alone halves it and changes nothing
 * else. */
static void test_loss_scale(void **state)
{
    (void)state;
    enum { FRAMES = 3, SIZE = FRAMES * 40 };
    td_optimizer_options growing = adam;
    float target[SIZE], before[32 * 64], after[32 * 64];
    rig r;
    network n;
    bench b;
    td_optimizer *optimizer = NULL;
    growing.scale_growth_steps = 3;
    for (rig_kind kind = 0; kind < RIG_KINDS; kind++) {
        if (!rig_open(&r, kind, 0)) continue;
        build(&n, FRAMES, 0, true);
        bench_open_half(&b, &r, &n.m, &(td_plan_options){.half = TD_F16}, TD_F16);
        check(td_optimizer_create(b.store, &growing, &optimizer));
        td_scalars s = step_once(&b, optimizer);
        assert_float_equal(s.loss_scale, 65536, 0);
        assert_true(s.norm > 1e-3f && s.norm < 1e3f); /* without the scale */
        (void)step_once(&b, optimizer);
        s = step_once(&b, optimizer);
        assert_float_equal(s.loss_scale, 131072, 0);
        for (size_t i = 0; i < SIZE; i++)
            target[i] = 1e17f;
        check(td_plan_fill(b.plan, 0, n.target, target));
        check(td_store_read(b.store, 0, TD_BLOCK_WEIGHT, before));
        s = step_once(&b, optimizer);
        assert_true(isfinite(s.values[0]));
        assert_float_equal(s.loss_scale, 65536, 0);
        assert_int_equal(s.steps, 3);
        assert_int_equal(s.skipped, 1);
        check(td_store_read(b.store, 0, TD_BLOCK_WEIGHT, after));
        assert_memory_equal(before, after, sizeof before);
        for (int i = 0; i < 20; i++)
            s = step_once(&b, optimizer);
        assert_int_equal(s.steps + s.skipped, 24);
        assert_true(s.loss_scale >= 1 && s.loss_scale < 65536);
        td_optimizer_destroy(optimizer);
        bench_close(&b);
        model_close(&n.m);
        rig_close(&r);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights), cmocka_unit_test(test_bytes),      cmocka_unit_test(test_training),
        cmocka_unit_test(test_resume),  cmocka_unit_test(test_loss_scale),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
