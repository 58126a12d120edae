/* Plans as users meet them: training that comes out right, the same bits twice, scalars late, slots, the
 * cache, limits that say what to do, bf16, explanations. On a small encoder of the kind that is trained. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/store.h"
#include "rig.h"

#define ITEMS 2u
#define FRAMES 12u
#define WIDTH 64u
#define OUT 8u

typedef struct network {
    model m;
    td_tensor x, target, lengths, y;
} network;

static td_tensor named(td_graph *g, const char *what, uint32_t layer, td_shape shape, td_param_group group)
{
    char name[96];
    snprintf(name, sizeof name, "%s%u", what, layer);
    return td_graph_param(g, name, shape, group);
}

static td_tensor linear(td_graph *g, td_tensor x, const char *what, uint32_t layer, uint32_t in, uint32_t out)
{
    char bias[64];
    snprintf(bias, sizeof bias, "%s_bias", what);
    const td_tensor w = td_graph_scale(g, named(g, what, layer, td_dims(in, out), TD_PARAM_DECAY), 0.1f);
    return td_graph_add(g, td_graph_matmul(g, x, w), named(g, bias, layer, td_dims(out), TD_PARAM_NO_DECAY));
}

static td_tensor normed(td_graph *g, td_tensor x, const char *what, uint32_t layer)
{
    char gamma[64], beta[64];
    snprintf(gamma, sizeof gamma, "%s_gamma", what);
    snprintf(beta, sizeof beta, "%s_beta", what);
    return td_graph_layer_norm(g, x, named(g, gamma, layer, td_dims(WIDTH), TD_PARAM_NO_DECAY),
                               named(g, beta, layer, td_dims(WIDTH), TD_PARAM_NO_DECAY), 1e-5f);
}

/* A pre-norm encoder with attention and a feed-forward part in each layer. */
static void build(network *n, uint32_t layers, uint32_t frames, float dropout)
{
    *n = (network){.m = {.seed = 5}};
    check(td_graph_create(5, &n->m.graph));
    td_graph *g = n->m.graph;
    n->x = td_graph_input(g, "x", td_dims(ITEMS, frames, OUT), TD_F32);
    n->target = td_graph_input(g, "target", td_dims(ITEMS, frames, OUT), TD_F32);
    n->lengths = model_lengths(g, ITEMS, frames);
    td_tensor h = linear(g, n->x, "in", 0, OUT, WIDTH);
    for (uint32_t i = 0; i < layers; i++) {
        td_graph_block_begin(g);
        const td_tensor qkv = linear(g, normed(g, h, "n1", i), "qkv", i, WIDTH, 3 * WIDTH);
        const td_tensor a =
            td_graph_attention_qkv(g, qkv, &(td_attention_options){.heads = 2, .lengths = n->lengths});
        h = td_graph_add(g, h, td_graph_dropout(g, linear(g, a, "proj", i, WIDTH, WIDTH), dropout));
        const td_tensor f = td_graph_gelu(g, linear(g, normed(g, h, "n2", i), "ff1", i, WIDTH, 4 * WIDTH));
        h = td_graph_add(g, h, td_graph_dropout(g, linear(g, f, "ff2", i, 4 * WIDTH, WIDTH), dropout));
        td_graph_block_end(g);
    }
    td_graph_param(g, "unused", td_dims(OUT), TD_PARAM_DECAY);
    n->y = linear(g, normed(g, h, "n", 9), "out", 0, WIDTH, OUT);
    n->m.loss = td_graph_loss(g, TD_LOSS_MSE, n->y, n->target, n->lengths, 1);
    td_graph_output(g, n->m.loss, "loss");
    td_graph_output(g, n->y, "y");
    check(td_graph_backward(g, n->m.loss, 1));
    model_fill(&n->m);
}

static const td_optimizer_options adam = {
    .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .decay = 0.01f, .max_norm = 1, .average_decay = 0.9f};

/* Trains for some steps; the loss of each is read one step late. */
static void train(const rig *r, const network *n, const td_plan_options *options, uint32_t steps,
                  float *losses, float **weights, size_t *n_weights)
{
    bench b;
    td_optimizer *optimizer = NULL;
    td_scalars scalars;
    td_update update;
    bench_open(&b, r, &n->m, options);
    check(td_optimizer_create(b.store, 0, &adam, &optimizer));
    for (uint32_t i = 0; i <= steps; i++) {
        if (i < steps) {
            check(td_plan_run(b.plan, &(td_run){.slot = i % 2, .step = i}, NULL));
            check(td_optimizer_step(optimizer, 2e-3f, NULL));
        }
        if (i == 0) continue;
        check(td_plan_scalars(b.plan, i - 1, &scalars));
        assert_string_equal(scalars.names[0], "loss");
        losses[i - 1] = scalars.values[0];
        check(td_optimizer_result(optimizer, i - 1, &update));
        assert_int_equal(update.steps, i);
        assert_int_equal(update.skipped, 0);
    }
    size_t total = 0;
    for (size_t i = 0; i < td_store_count(b.store); i++)
        total += (size_t)td_shape_size(td_store_get(b.store, i).shape);
    *weights = malloc(total * sizeof **weights);
    *n_weights = 0;
    for (size_t i = 0; i < td_store_count(b.store); i++) {
        check(td_store_read(b.store, i, TD_BLOCK_WEIGHT, *weights + *n_weights));
        *n_weights += (size_t)td_shape_size(td_store_get(b.store, i).shape);
    }
    td_optimizer_destroy(optimizer);
    bench_close(&b);
}

#define STEPS 50

static void test_training(void **state)
{
    (void)state;
    float losses[2][STEPS], *weights[2];
    size_t n_weights = 0;
    for (rig_kind kind = 0; kind < RIG_KINDS; kind++) {
        rig r;
        network n;
        const uint32_t steps = kind == RIG_VK ? 10 : STEPS;
        if (!rig_open(&r, kind, 0)) continue;
        build(&n, 2, FRAMES, 0.1f);
        for (int i = 0; i < 2; i++)
            train(&r, &n, &(td_plan_options){0}, steps, losses[i], &weights[i], &n_weights);
        assert_memory_equal(weights[0], weights[1], n_weights * sizeof(float)); /* bit for bit */
        assert_memory_equal(losses[0], losses[1], steps * sizeof(float));
        if (kind != RIG_VK) assert_true(losses[0][steps - 1] < 0.6f * losses[0][0]);
        for (int i = 0; i < 2; i++)
            free(weights[i]);
        model_close(&n.m);
        rig_close(&r);
    }
}

#define LONG_RUN 300

/* bf16 keeps half of what the backward pass needs, and training hardly notices. */
static void test_bf16(void **state)
{
    (void)state;
    float losses[2][LONG_RUN], *weights;
    size_t n_weights = 0;
    td_plan_stats stats[2];
    double last[2] = {0};
    rig r;
    network n;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 6, 96, 0);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        bench b;
        bench_open(&b, &r, &n.m, &(td_plan_options){.half = bf16 ? TD_BF16 : TD_F32, .remake_cheap = true});
        td_plan_get_stats(b.plan, &stats[bf16]);
        bench_close(&b);
    }
    model_close(&n.m);
    build(&n, 2, FRAMES, 0.05f);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        train(&r, &n, &(td_plan_options){.half = bf16 ? TD_BF16 : TD_F32}, LONG_RUN, losses[bf16], &weights,
              &n_weights);
        free(weights);
        for (int i = LONG_RUN - 20; i < LONG_RUN; i++) /* dropout makes single steps jump */
            last[bf16] += (double)losses[bf16][i] / 20;
    }
    print_message("    kept %llu bytes, as bf16 %llu; arena %llu, %llu; loss %g, %g from %g\n",
                  (unsigned long long)stats[0].kept_bytes, (unsigned long long)stats[1].kept_bytes,
                  (unsigned long long)stats[0].arena_bytes, (unsigned long long)stats[1].arena_bytes, last[0],
                  last[1], (double)losses[0][0]);
    assert_memory_not_equal(losses[0], losses[1], sizeof losses[0]);
    const double share = (double)stats[1].kept_bytes / (double)stats[0].kept_bytes;
    assert_true(share > 0.475 && share < 0.525);
    assert_true((double)stats[1].arena_bytes < 0.8 * (double)stats[0].arena_bytes);
    assert_true(last[0] < 0.3 * (double)losses[0][0]);
    assert_true(fabs(last[1] / last[0] - 1) < 0.02);
    model_close(&n.m);
    rig_close(&r);
}

/* Long steps go to the driver in pieces, by estimates first and by measurement from the third run on; results
 * are the same bits. */
static void test_submissions(void **state)
{
    (void)state;
    td_plan_stats before, after;
    td_scalars scalars[2];
    size_t n_gradients = 0;
    rig r;
    network n;
    bench b;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 2, 1536, 0);
    bench_open(&b, &r, &n.m, &(td_plan_options){0});
    b.store->time_scale = 100; /* as if the device were slow */
    td_plan_destroy(b.plan);
    check(td_plan_create(b.store, n.m.graph, &(td_plan_options){0}, &b.plan));
    td_plan_get_stats(b.plan, &before);
    bench_run(&b, 1);
    float *once = read_gradients(b.store, &n_gradients);
    bench_run(&b, 1);
    check(td_plan_scalars(b.plan, 1, &scalars[0]));
    td_plan_get_stats(b.plan, &after);
    bench_run(&b, 1);
    float *twice = read_gradients(b.store, &n_gradients);
    check(td_plan_scalars(b.plan, 2, &scalars[1]));
    print_message("    %zu submissions became %zu\n", before.submissions, after.submissions);
    assert_true(before.submissions > 4);
    assert_true(after.submissions < before.submissions / 2);
    assert_memory_equal(once, twice, n_gradients * sizeof *once);
    assert_memory_equal(&scalars[0].values, &scalars[1].values, sizeof(float));
    free(once);
    free(twice);
    bench_close(&b);
    model_close(&n.m);
    rig_close(&r);
}

/* Memory: sharing places saves, computing again saves more. */
static void test_memory(void **state)
{
    (void)state;
    const td_plan_options options[] = {{.no_reuse = true, .no_fusion = true},
                                       {.no_fusion = true},
                                       {.remake_cheap = true},
                                       {.checkpoint = true}};
    td_plan_stats stats[4];
    rig r;
    network n;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 6, 96, 0.1f);
    for (size_t i = 0; i < 4; i++) {
        bench b;
        bench_open(&b, &r, &n.m, &options[i]);
        td_plan_get_stats(b.plan, &stats[i]);
        print_message("    %zu launches, arena %llu of %llu bytes\n", stats[i].launches,
                      (unsigned long long)stats[i].arena_bytes, (unsigned long long)stats[i].sum_bytes);
        bench_close(&b);
    }
    assert_true((double)stats[1].arena_bytes < 0.7 * (double)stats[0].arena_bytes);
    assert_true(stats[2].launches < stats[1].launches);
    assert_true((double)stats[3].arena_bytes < 0.6 * (double)stats[2].arena_bytes);
    model_close(&n.m);
    rig_close(&r);
}

/* What is kept of two layers of this width with these options. */
static uint64_t keep_of(const rig *r, uint32_t width, const td_plan_options *options)
{
    model m = {.seed = 3};
    bench b;
    td_plan_stats stats;
    check(td_graph_create(3, &m.graph));
    td_graph *g = m.graph;
    td_tensor h = td_graph_input(g, "x", td_dims(1, 4, width), TD_F32);
    const td_tensor target = td_graph_input(g, "target", td_dims(1, 4, width), TD_F32);
    for (uint32_t i = 0; i < 2; i++) {
        const td_tensor gamma = named(g, "gamma", i, td_dims(width), TD_PARAM_NO_DECAY);
        h = td_graph_matmul(g, h, named(g, "w", i, td_dims(width, width), TD_PARAM_DECAY));
        h = td_graph_gelu(g, td_graph_rms_norm(g, h, gamma, 1e-5f));
    }
    m.loss = td_graph_loss(g, TD_LOSS_MSE, h, target, model_lengths(g, 1, 4), 1);
    td_graph_output(g, m.loss, "loss");
    check(td_graph_backward(g, m.loss, 1));
    model_fill(&m);
    bench_open(&b, r, &m, options);
    td_plan_get_stats(b.plan, &stats);
    bench_close(&b);
    model_close(&m);
    return stats.kept_bytes;
}

/* Without being asked, wide layers keep no more than if they were; narrow ones keep what is cheap to make. */
static void test_cheap(void **state)
{
    (void)state;
    const td_plan_options asked = {.remake_cheap = true}, plain = {0};
    rig r;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    assert_true(keep_of(&r, 64, &plain) > keep_of(&r, 64, &asked));
    assert_int_equal(keep_of(&r, 1024, &plain), keep_of(&r, 1024, &asked));
    rig_close(&r);
}

/* A plan that does not fit says so before it takes anything. */
static void test_limit(void **state)
{
    (void)state;
    td_plan *plan = NULL;
    td_store *store = NULL;
    td_memory_stats before, after;
    rig r;
    network n;
    if (!rig_open(&r, RIG_CL_CPU, UINT64_C(96) << 20)) return;
    build(&n, 2, 40000, 0);
    check(td_store_create(r.memory, n.m.graph, &(td_store_options){.training = true}, &store));
    td_memory_get_stats(r.memory, &before);
    refuse(TD_ERR_LIMIT, "largest are", td_plan_create(store, n.m.graph, &(td_plan_options){0}, &plan));
    print_message("    %s\n", td_error_last()->message);
    refuse(TD_ERR_LIMIT, "checkpointing",
           td_plan_create(store, n.m.graph, &(td_plan_options){.half = TD_BF16}, &plan));
    refuse(TD_ERR_LIMIT, "or bf16",
           td_plan_create(store, n.m.graph, &(td_plan_options){.checkpoint = true}, &plan));
    td_memory_get_stats(r.memory, &after);
    assert_int_equal(before.used_bytes, after.used_bytes);
    assert_null(plan);
    td_store_destroy(store);
    model_close(&n.m);
    rig_close(&r);
}

/* On lavapipe, whose limits are the lowest there are, a network for so many steps is refused with these
 * words. */
static void refuse_on_lavapipe(uint32_t steps, const char *words)
{
    td_plan *plan = NULL;
    td_store *store = NULL;
    rig r;
    network n;
    if (!rig_open(&r, RIG_VK, 0)) return;
    build(&n, 1, steps, 0);
    check(td_store_create(r.memory, n.m.graph, &(td_store_options){.training = true}, &store));
    refuse(TD_ERR_LIMIT, words, td_plan_create(store, n.m.graph, &(td_plan_options){0}, &plan));
    print_message("    %s\n", td_error_last()->message);
    td_store_destroy(store);
    model_close(&n.m);
    rig_close(&r);
}

/* Nor may a tensor be larger than what a kernel can be given. */
static void test_binding(void **state)
{
    (void)state;
    refuse_on_lavapipe(70000, "at a time");
}

/* Loops that lavapipe would leave early are refused, not run. */
static void test_turns(void **state)
{
    (void)state;
    refuse_on_lavapipe(2000, "shorter items");
}

/* Two shapes on one store: each gives what it gives alone. */
static void test_buckets(void **state)
{
    (void)state;
    network n[2];
    td_plan *plans[2] = {0};
    td_store *store = NULL;
    rig r;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    for (uint32_t i = 0; i < 2; i++)
        build(&n[i], 2, 8 + 16 * i, 0);
    check(td_store_create(r.memory, n[0].m.graph, &(td_store_options){.training = true}, &store));
    for (uint32_t i = 0; i < 2; i++)
        check(td_plan_create(store, n[i].m.graph, &(td_plan_options){0}, &plans[i]));
    for (uint32_t i = 0; i < 2; i++) {
        td_plan *plan = plans[i];
        const size_t size = (size_t)ITEMS * (8 + 16 * i) * OUT;
        float *y = malloc(size * sizeof *y), *zeros = calloc(size, sizeof *zeros);
        td_scalars scalars;
        check(td_plan_fill(plan, 0, n[i].x, zeros));
        for (size_t k = 0; k < size; k++)
            y[k] = 2;
        check(td_plan_fill(plan, 0, n[i].target, y));
        check(td_plan_fill(plan, 0, n[i].lengths, (uint32_t[]){4, 4}));
        check(td_plan_run(plan, &(td_run){0}, NULL));
        check(td_plan_scalars(plan, 0, &scalars));
        assert_float_equal(scalars.values[0], 4, 1e-6); /* weights are zeros: y = 0, the target 2 */
        check(td_plan_read(plan, n[i].y, y));
        assert_memory_equal(y, zeros, size * sizeof *y);
        refuse(TD_ERR_NOT_FOUND, "last 4 runs", td_plan_scalars(plan, 1, &scalars));
        free(y);
        free(zeros);
    }
    for (uint32_t i = 0; i < 2; i++)
        td_plan_destroy(plans[i]);
    td_store_destroy(store);
    for (uint32_t i = 0; i < 2; i++)
        model_close(&n[i].m);
    rig_close(&r);
}

static size_t find_entry(const td_store *store, const char *name)
{
    size_t i = 0;
    while (strcmp(td_store_get(store, i).name, name) != 0)
        i++;
    return i;
}

/* Inputs may come from where another queue leaves them; the average follows the weights. */
static void test_sources(void **state)
{
    (void)state;
    const size_t size = (size_t)ITEMS * FRAMES * OUT;
    td_optimizer *optimizer = NULL;
    td_store *store = NULL;
    td_plan *plan = NULL;
    td_span source = {0};
    td_scalars scalars;
    rig r;
    network n;
    float weight = 0, average = 0;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 1, FRAMES, 0);
    check(
        td_store_create(r.memory, n.m.graph, &(td_store_options){.training = true, .average = true}, &store));
    check(td_plan_create(store, n.m.graph, &(td_plan_options){0}, &plan));
    check(td_optimizer_create(store, 0, &adam, &optimizer));
    check(td_memory_alloc(r.memory, TD_MEMORY_HOST, 4 * size, &source));
    for (size_t i = 0; i < size; i++)
        ((float *)td_span_host(source))[i] = 3;
    check(td_plan_bind(plan, 1, n.target, source));
    refuse(TD_ERR_ARGUMENT, "its source 4", td_plan_bind(plan, 1, n.target, td_span_part(source, 0, 4)));
    check(td_plan_fill(plan, 1, n.lengths, (uint32_t[]){3, 4}));
    const size_t unused = find_entry(store, "unused"), last = find_entry(store, "out_bias0");
    check(
        td_store_write(store, unused, TD_BLOCK_GRADIENT, (float[OUT]){5, 5})); /* left by another plan, say */
    check(td_plan_run(plan, &(td_run){.slot = 1}, NULL));
    check(td_optimizer_step(optimizer, 0.1f, NULL));
    check(td_plan_scalars(plan, 0, &scalars));
    assert_float_equal(scalars.values[0], 9, 1e-5);
    float got[2][OUT];
    check(td_store_read(store, unused, TD_BLOCK_GRADIENT, got[0]));
    assert_memory_equal(got[0], ((float[OUT]){0}), sizeof got[0]);
    check(td_store_read(store, last, TD_BLOCK_WEIGHT, got[0]));
    check(td_store_read(store, last, TD_BLOCK_AVERAGE, got[1]));
    weight = got[0][0];
    average = got[1][0];
    assert_float_equal(weight, 0.1f, 1e-5); /* a first step of Adam is the learning rate */
    assert_float_equal(average, weight * (1 - 2.0f / 11.0f), 1e-5); /* decay (1 + t) / (10 + t), t = 1 */
    check(td_point_wait(td_plan_taken(plan, 1), 0));
    td_optimizer_destroy(optimizer);
    td_plan_destroy(plan);
    td_store_destroy(store);
    td_memory_free(r.memory, source);
    model_close(&n.m);
    rig_close(&r);
}

/* An input that is zero, but for one number that is not finite. */
static void fill_broken(const bench *b, const network *n, size_t at)
{
    float x[ITEMS * FRAMES * OUT] = {0};
    x[at] = INFINITY;
    check(td_plan_fill(b->plan, 0, n->x, x));
}

/* A step that changes no weight. */
static void run_skipped(const bench *b, td_optimizer *optimizer, bool in_backward, td_update *out)
{
    float before[OUT * WIDTH], after[OUT * WIDTH];
    check(td_store_read(b->store, 0, TD_BLOCK_WEIGHT, before));
    if (in_backward) check(td_optimizer_begin(optimizer, 1));
    check(td_plan_run(b->plan, &(td_run){0}, NULL));
    check(td_optimizer_step(optimizer, 1, NULL));
    check(td_optimizer_result(optimizer, 0, out));
    assert_int_equal(out->skipped, 1);
    assert_int_equal(out->steps, 0);
    check(td_store_read(b->store, 0, TD_BLOCK_WEIGHT, after));
    assert_memory_equal(before, after, sizeof before);
}

/* A gradient that is not finite skips the update, counts it, and can be traced to its tensor. */
static void test_broken(void **state)
{
    (void)state;
    rig r;
    network n;
    bench b;
    td_optimizer *optimizer = NULL;
    td_update update;
    size_t broken = 0;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 2, FRAMES, 0);
    bench_open(&b, &r, &n.m, &(td_plan_options){0});
    check(td_optimizer_create(b.store, 0, &adam, &optimizer));
    fill_broken(&b, &n, 0);
    run_skipped(&b, optimizer, false, &update);
    refuse(TD_ERR_NOT_FOUND, "last 4 updates", td_optimizer_result(optimizer, 1, &update));
    check(td_store_find_broken(b.store, TD_BLOCK_GRADIENT, &broken));
    assert_int_equal(broken, 0); /* "in0", which x meets first */
    check(td_store_find_broken(b.store, TD_BLOCK_WEIGHT, &broken));
    assert_int_equal(broken, td_store_count(b.store));
    td_optimizer_destroy(optimizer);
    bench_close(&b);
    model_close(&n.m);
    rig_close(&r);
}

/* ---------------------------------------------------------------- updates in the backward pass */

/* What is left after some steps: parameters, both moments and averages of all entries, one after the other. */
typedef struct outcome {
    float *values;
    size_t n;
    td_update update;
    uint64_t bytes; /* of the device */
} outcome;

static outcome update_steps(const rig *r, const network *n, td_store_options store, td_plan_options plan)
{
    const td_block blocks[] = {TD_BLOCK_WEIGHT, TD_BLOCK_MOMENT1, TD_BLOCK_MOMENT2, TD_BLOCK_AVERAGE};
    td_optimizer_options options = adam;
    td_optimizer *optimizer = NULL;
    td_plan_stats stats;
    outcome out = {0};
    bench b;
    options.max_norm = 0;
    options.in_backward = store.no_gradients;
    store.training = store.average = true;
    bench_store(&b, r, &n->m, &store);
    check(td_optimizer_create(b.store, 0, &options, &optimizer));
    if (store.no_gradients) plan.updates = optimizer;
    bench_plan(&b, &n->m, &plan);
    for (uint32_t i = 0; i < 4; i++) {
        const float rate = 1e-3f * (float)(i + 1);
        check(td_optimizer_begin(optimizer, rate));
        check(td_plan_run(b.plan, &(td_run){.slot = i % 2, .step = i}, NULL));
        check(td_optimizer_step(optimizer, rate, NULL));
    }
    check(td_optimizer_result(optimizer, 3, &out.update));
    td_plan_get_stats(b.plan, &stats);
    out.bytes = stats.arena_bytes + stats.store_bytes;
    for (size_t i = 0; i < td_store_count(b.store); i++)
        out.n += 4 * (size_t)td_shape_size(td_store_get(b.store, i).shape);
    out.values = calloc(out.n, sizeof *out.values);
    float *at = out.values;
    for (size_t i = 0; i < td_store_count(b.store); i++)
        for (size_t k = 0; k < 4; k++) {
            if (!td_store_has(b.store, i, blocks[k])) continue;
            check(td_store_read(b.store, i, blocks[k], at));
            at += td_shape_size(td_store_get(b.store, i).shape);
        }
    td_plan_destroy(b.plan);
    b.plan = NULL;
    td_optimizer_destroy(optimizer);
    bench_close(&b);
    return out;
}

/* Parameters that are updated as soon as their gradients are final, with moments on the device or the host's, are
 * those of an update behind the run, to the bit; and gradients, or moments, take no memory of the device. */
static void test_updates_in_the_backward_pass(void **state)
{
    (void)state;
    const struct {
        td_dtype half;
        td_state_format format;
        bool checkpoint;
    } rows[] = {{TD_F32, TD_STATE_FP32, false},
                {TD_F32, TD_STATE_BF16, true},
                {TD_BF16, TD_STATE_INT8, true},
                {TD_BF16, TD_STATE_FP32, false}};
    for (rig_kind kind = 0; kind < RIG_KINDS; kind++) {
        rig r;
        network n;
        if (!rig_open(&r, kind, 0)) continue;
        build(&n, 2, 5, 0.1f);
        for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
            const td_store_options usual = {.half = rows[row].half, .state = rows[row].format};
            const td_plan_options plan = {.half = rows[row].half, .checkpoint = rows[row].checkpoint};
            const outcome truth = update_steps(&r, &n, usual, plan);
            for (int way = 1; way < 4; way++) {
                td_store_options store = usual;
                store.no_gradients = way & 1;
                store.host_moments = way & 2;
                const outcome got = update_steps(&r, &n, store, plan);
                assert_memory_equal(got.values, truth.values, truth.n * sizeof *truth.values);
                assert_float_equal(got.update.norm, truth.update.norm, 1e-4f * truth.update.norm);
                assert_int_equal(got.update.steps, 4);
                assert_false(got.update.is_broken);
                if (way == 1) assert_true(got.bytes < truth.bytes);
                free(got.values);
            }
            free(truth.values);
        }
        model_close(&n.m);
        rig_close(&r);
    }
}

/* Gradients that a plan adds up itself, one by one, are those that are put aside and added whole; in less memory. */
static void test_sums_one_by_one(void **state)
{
    (void)state;
    rig r;
    network n;
    bench b;
    float *gradients[2] = {0};
    size_t count[2] = {0};
    uint64_t bytes[2];
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 2, FRAMES, 0.1f);
    for (int sums = 0; sums < 2; sums++) {
        td_plan_stats stats;
        bench_open(&b, &r, &n.m, &(td_plan_options){.sums_gradients = sums});
        for (int step = 0; step < 2; step++) /* the second does not see the first */
            bench_run(&b, 3);
        gradients[sums] = read_gradients(b.store, &count[sums]);
        td_plan_get_stats(b.plan, &stats);
        bytes[sums] = stats.arena_bytes + stats.store_bytes;
        bench_close(&b);
    }
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(gradients[0], gradients[1], count[0] * sizeof(float));
    assert_true(bytes[1] < bytes[0]);
    free(gradients[0]);
    free(gradients[1]);
    model_close(&n.m);
    rig_close(&r);
}

/* A loss that is not finite is seen before the first update; gradients that are not are only seen at the end. */
static void test_broken_in_the_backward_pass(void **state)
{
    (void)state;
    rig r;
    network n;
    bench b;
    td_optimizer *optimizer = NULL;
    td_update update;
    td_optimizer_options options = adam;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 2, FRAMES, 0);
    bench_store(&b, &r, &n.m, &(td_store_options){.training = true, .no_gradients = true});
    options.in_backward = true;
    refuse(TD_ERR_UNSUPPORTED, "gradients are cut", td_optimizer_create(b.store, 0, &options, &optimizer));
    options.max_norm = 0;
    check(td_optimizer_create(b.store, 0, &options, &optimizer));
    bench_plan(&b, &n.m, &(td_plan_options){.updates = optimizer});
    fill_broken(&b, &n, 0);
    run_skipped(&b, optimizer, true, &update);
    assert_false(update.is_broken);
    /* Behind the end of an item: no loss hears of it, but the gradient of "in" is a sum over all rows. */
    fill_broken(&b, &n, ITEMS * FRAMES * OUT - 1);
    check(td_plan_fill(b.plan, 0, n.lengths, (uint32_t[]){FRAMES, FRAMES - 1}));
    check(td_optimizer_begin(optimizer, 1));
    check(td_plan_run(b.plan, &(td_run){0}, NULL));
    check(td_optimizer_step(optimizer, 1, NULL));
    check(td_optimizer_result(optimizer, 1, &update));
    assert_true(update.is_broken);
    td_plan_destroy(b.plan);
    b.plan = NULL;
    td_optimizer_destroy(optimizer);
    bench_close(&b);
    model_close(&n.m);
    rig_close(&r);
}

static void test_explain(void **state)
{
    (void)state;
    char *table = NULL, *dot = NULL;
    size_t bytes = 0;
    rig r;
    network n;
    bench b;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&n, 2, FRAMES, 0);
    bench_open(&b, &r, &n.m, &(td_plan_options){0});
    FILE *file = open_memstream(&table, &bytes);
    check(td_plan_explain(b.plan, file));
    fclose(file);
    assert_non_null(strstr(table, "+ bias + gelu"));
    assert_non_null(strstr(table, "+ bias + residual"));
    assert_non_null(strstr(table, "norm_back + gradient"));
    assert_non_null(strstr(table, "attention_back"));
    file = open_memstream(&dot, &bytes);
    check(td_plan_explain_dot(b.plan, file));
    fclose(file);
    assert_memory_equal(dot, "digraph", 7);
    assert_non_null(strstr(dot, "n0 -> n"));
    if (getenv("TANDEM_TEST_VERBOSE")) print_message("%s", table);
    free(table);
    free(dot);
    bench_close(&b);
    model_close(&n.m);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_updates_in_the_backward_pass),
        cmocka_unit_test(test_broken_in_the_backward_pass),
        cmocka_unit_test(test_sums_one_by_one),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_cheap),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
