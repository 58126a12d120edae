/* Buckets of gradients: every parameter is in one, in the order of the backward pass, and the point that a run
 * gives for each is not too early: what is copied from there on is what the run leaves in the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/bucket.h"
#include "graph/store.h"
#include "rig.h"

enum { LAYERS = 5, WIDTH = 128, ITEMS = 64 };

static void build(model *m)
{
    *m = (model){.seed = 5};
    check(td_graph_create(5, &m->graph));
    td_graph *g = m->graph;
    td_tensor h = td_graph_input(g, "x", td_dims(1, ITEMS, WIDTH), TD_F32);
    const td_tensor target = td_graph_input(g, "target", td_dims(1, ITEMS, WIDTH), TD_F32);
    const td_tensor shared = td_graph_param(g, "shared", td_dims(WIDTH, WIDTH), TD_PARAM_DECAY);
    for (int i = 0; i < LAYERS; ++i) {
        char name[32];
        snprintf(name, sizeof name, "w%d", i);
        const td_tensor w = td_graph_param(g, name, td_dims(WIDTH, WIDTH), TD_PARAM_DECAY);
        snprintf(name, sizeof name, "b%d", i);
        const td_tensor b = td_graph_param(g, name, td_dims(WIDTH), TD_PARAM_NO_DECAY);
        h = td_graph_gelu(g, td_graph_add(g, td_graph_matmul(g, td_graph_scale(g, h, 0.05f), w), b));
        if (i % 2 == 0) h = td_graph_matmul(g, h, shared);
    }
    td_graph_param(g, "unused", td_dims(WIDTH), TD_PARAM_DECAY);
    m->loss = td_graph_loss(g, TD_LOSS_MSE, h, target, model_lengths(g, 1, ITEMS), 1);
    td_graph_output(g, m->loss, "loss");
    check(td_graph_backward(g, m->loss, 1));
    model_fill(m);
}

static void expect_order(const td_buckets *buckets, const td_store *store)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < td_store_count(store); ++i)
        assert_true(td_buckets_find(buckets, i) < td_buckets_count(buckets));
    for (size_t i = 0; i < td_buckets_count(buckets); ++i) {
        elements += td_buckets_at(buckets, i)->count;
        if (i > 0)
            assert_true(td_buckets_at(buckets, i)->first_entry < td_buckets_at(buckets, i - 1)->first_entry);
    }
    assert_int_equal(elements, td_buckets_elements(buckets));
}

/* Gradients of a run, each bucket copied as soon as it may be, in `early`, and all when it is over, in `late`. */
static void run_and_copy(const rig *r, bench *b, const td_buckets *buckets, bool adds, td_span early,
                         td_span late)
{
    td_point done = {0};
    td_queue *queue = td_device_queue(r->device, TD_QUEUE_COPY);
    const size_t n = td_buckets_count(buckets);
    td_list **lists = calloc(2 * n, sizeof *lists);
    assert_non_null(lists);
    uint64_t at = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint64_t count = td_buckets_at(buckets, i)->count;
        for (size_t k = 0; k < 2; ++k) {
            check(td_list_create(r->device, TD_QUEUE_COPY, &lists[2 * i + k]));
            check(td_list_copy(lists[2 * i + k], td_span_part(k == 0 ? early : late, at, 4 * count),
                               td_buckets_span(buckets, i, TD_BLOCK_GRADIENT, 0, count)));
            check(td_list_finish(lists[2 * i + k]));
        }
        at += 4 * count;
    }
    check(td_plan_run(b->plan, &(td_run){.step = 7, .adds = adds}, &done));
    const td_point *ready = td_plan_ready(b->plan);
    for (size_t k = 0; k < 2; ++k) {
        for (size_t i = 0; i < n; ++i)
            check(td_queue_submit(
                queue,
                &(td_submission){.list = lists[2 * i + k], .waits = k == 0 ? &ready[i] : &done, .n_waits = 1},
                NULL));
    }
    check(td_queue_finish(queue));
    for (size_t i = 0; i < 2 * n; ++i)
        td_list_destroy(lists[i]);
    free(lists);
}

/* Each layer is read when the one before is done, the last one before any gradient is final; what nobody reads, at the
 * end. */
static void expect_reads(const bench *b, const td_buckets *buckets)
{
    const td_point *reads = td_plan_reads(b->plan), *ready = td_plan_ready(b->plan);
    td_point last = {0};
    for (size_t i = 0; i < td_store_count(b->store); ++i) {
        const char *name = td_store_get(b->store, i).name;
        const td_point at = reads[td_buckets_find(buckets, i)];
        if (strcmp(name, "unused") == 0) assert_true(at.value >= ready[0].value);
        if (name[0] != 'w') continue;
        assert_non_null(at.queue);
        assert_true(at.value > last.value && at.value < ready[0].value);
        last = at;
    }
}

static void test_points(void **state)
{
    (void)state;
    rig r;
    model m;
    bench b, whole;
    td_buckets *buckets;
    td_span early, late;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    build(&m);
    bench_open(&whole, &r, &m, &(td_plan_options){0});
    bench_open(&b, &r, &m, &(td_plan_options){0});
    check(td_buckets_create(b.store, 0, 4, &buckets));
    check(td_buckets_want_sums(buckets));
    expect_order(buckets, b.store);
    bench_plan(&b, &m, &(td_plan_options){.buckets = buckets, .cuts_reads = true});
    const uint64_t bytes = 4 * td_buckets_elements(buckets);
    check(td_memory_alloc(r.memory, TD_MEMORY_HOST, bytes, &early));
    check(td_memory_alloc(r.memory, TD_MEMORY_HOST, bytes, &late));
    for (uint32_t micro = 1; micro <= 2; ++micro) {
        memset(td_span_host(early), 0xff, bytes);
        run_and_copy(&r, &b, buckets, micro > 1, early, late);
        assert_memory_equal(td_span_host(early), td_span_host(late), bytes);
        bench_run(&whole, micro);
        for (size_t i = 0; i < td_store_count(b.store); ++i) {
            const uint64_t n = td_shape_size(td_store_get(b.store, i).shape);
            float *one = calloc(n, sizeof *one), *other = calloc(n, sizeof *other);
            assert_true(one != NULL && other != NULL);
            check(td_store_read(b.store, i, TD_BLOCK_GRADIENT, one));
            check(td_store_read(whole.store, i, TD_BLOCK_GRADIENT, other));
            assert_memory_equal(one, other, n * sizeof *one);
            free(one);
            free(other);
        }
    }
    td_plan_stats cut, uncut;
    td_plan_get_stats(b.plan, &cut);
    td_plan_get_stats(whole.plan, &uncut);
    assert_true(cut.submissions >= uncut.submissions + 2 * LAYERS - 1);
    expect_reads(&b, buckets);
    td_memory_free(r.memory, early);
    td_memory_free(r.memory, late);
    bench_close(&whole);
    td_plan_destroy(b.plan);
    b.plan = NULL;
    td_buckets_destroy(buckets);
    bench_close(&b);
    model_close(&m);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
