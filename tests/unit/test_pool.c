/* Thread pool: all work done once, order, determinism over thread counts, failures, nesting
 * (src/base/pool.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/rng.h"

static const size_t THREAD_COUNTS[] = {1, 2, 3, 8};
enum { N_COUNTS = sizeof THREAD_COUNTS / sizeof *THREAD_COUNTS };

static td_pool *make_pool(size_t n_threads)
{
    td_pool *pool = NULL;
    assert_int_equal(td_pool_create(n_threads, &pool), TD_OK);
    return pool;
}

/* Uneven work, so that tasks end out of order. */
static void idle_unevenly(size_t index)
{
    td_clock_sleep_until(td_clock_ns() + td_rng_below(1, 0, index, 300) * 1000);
}

typedef struct {
    td_pool *pool;
    size_t count;
    atomic_int *runs;
    const char *fails; /* one character per index: 'x' fails */
    atomic_size_t started;
} map_work;

static td_status run_item(void *ctx, size_t index)
{
    map_work *work = ctx;
    atomic_fetch_add(&work->started, 1);
    atomic_fetch_add(&work->runs[index], 1);
    idle_unevenly(index);
    if (work->fails && work->fails[index] == 'x')
        return TD_FAIL_NATIVE(TD_ERR_FORMAT, "EITEM", "item %zu", index);
    return TD_OK;
}

static void test_map_runs_each_index_once(void **state)
{
    (void)state;
    for (int c = 0; c < N_COUNTS; ++c) {
        td_pool *pool = make_pool(THREAD_COUNTS[c]);
        assert_int_equal(td_pool_threads(pool), THREAD_COUNTS[c]);
        for (size_t count = 0; count < 200; count = count * 3 + 1) {
            atomic_int runs[200] = {0};
            map_work work = {.runs = runs};
            assert_int_equal(td_pool_map(pool, count, run_item, &work), TD_OK);
            for (size_t i = 0; i < 200; ++i)
                assert_int_equal(runs[i], i < count);
        }
        td_pool_destroy(pool);
    }
}

static void test_map_reports_the_lowest_failure(void **state)
{
    (void)state;
    char fails[101];
    memset(fails, '.', 100);
    fails[100] = '\0';
    fails[17] = fails[18] = fails[40] = fails[99] = 'x';
    for (int c = 0; c < N_COUNTS; ++c) {
        td_pool *pool = make_pool(THREAD_COUNTS[c]);
        for (int round = 0; round < 20; ++round) {
            atomic_int runs[100] = {0};
            map_work work = {.runs = runs, .fails = fails};
            TD_FAIL(TD_ERR_IO, "from before");
            assert_int_equal(td_pool_map(pool, 100, run_item, &work), TD_ERR_FORMAT);
            assert_string_equal(td_error_last()->message, "item 17");
            assert_string_equal(td_error_last()->native, "EITEM");
            for (int i = 0; i < 17; ++i)
                assert_int_equal(runs[i], 1);
            /* Given up early: at most the failing one and what ran beside it. */
            assert_true(work.started <= 18 + 3 * THREAD_COUNTS[c]);
        }
        td_pool_destroy(pool);
    }
}

static td_status fail_silently(void *ctx, size_t index)
{
    (void)ctx;
    return index == 3 ? TD_ERR_TIMEOUT : TD_OK;
}

static void test_a_failure_without_a_record_gets_one(void **state)
{
    (void)state;
    td_pool *pool = make_pool(2);
    TD_FAIL(TD_ERR_IO, "from before");
    assert_int_equal(td_pool_map(pool, 10, fail_silently, NULL), TD_ERR_TIMEOUT);
    assert_int_equal(td_error_last()->status, TD_ERR_TIMEOUT);
    assert_non_null(strstr(td_error_last()->message, "task 3"));
    td_pool_destroy(pool);
}

enum { LOOK_AHEAD = 5, N_ITEMS = 150 };

typedef struct {
    uint64_t slots[LOOK_AHEAD];
    atomic_size_t n_produced, n_consumed;
    atomic_int too_early;
    uint64_t digest;
    size_t next;
    int out_of_order;
    size_t produce_fails, consume_fails; /* index or SIZE_MAX */
    pthread_t caller;
    int foreign;
} stream_work;

static td_status produce_item(void *ctx, size_t index)
{
    stream_work *work = ctx;
    if (index >= work->n_consumed + LOOK_AHEAD) work->too_early++;
    work->n_produced++;
    idle_unevenly(index);
    if (index == work->produce_fails) return TD_FAIL(TD_ERR_FORMAT, "produce %zu", index);
    work->slots[index % LOOK_AHEAD] = index * index;
    return TD_OK;
}

static td_status consume_item(void *ctx, size_t index)
{
    stream_work *work = ctx;
    if (index == work->consume_fails) return TD_FAIL(TD_ERR_IO, "consume %zu", index);
    work->out_of_order += index != work->next++;
    work->foreign += !pthread_equal(pthread_self(), work->caller);
    work->digest = work->digest * 31 + work->slots[index % LOOK_AHEAD];
    work->n_consumed++;
    return TD_OK;
}

static stream_work make_stream_work(size_t produce_fails, size_t consume_fails)
{
    return (stream_work){
        .produce_fails = produce_fails, .consume_fails = consume_fails, .caller = pthread_self()};
}

static void test_stream_is_ordered_and_the_same_for_any_threads(void **state)
{
    (void)state;
    uint64_t expected = 0;
    for (uint64_t i = 0; i < N_ITEMS; ++i)
        expected = expected * 31 + i * i;
    for (int c = 0; c < N_COUNTS; ++c) {
        td_pool *pool = make_pool(THREAD_COUNTS[c]);
        stream_work work = make_stream_work(SIZE_MAX, SIZE_MAX);
        assert_int_equal(td_pool_stream(pool, N_ITEMS, LOOK_AHEAD, produce_item, consume_item, &work), TD_OK);
        assert_int_equal(work.digest, expected);
        assert_int_equal(work.out_of_order, 0);
        assert_int_equal(work.foreign, 0);
        assert_int_equal(work.too_early, 0);
        assert_int_equal(work.n_produced, N_ITEMS);
        assert_int_equal(work.n_consumed, N_ITEMS);
        assert_int_equal(td_pool_stream(pool, 0, 1, produce_item, consume_item, &work), TD_OK);
        td_pool_destroy(pool);
    }
}

static void test_stream_stops_at_the_first_failure_in_order(void **state)
{
    (void)state;
    const struct {
        size_t produce_fails, consume_fails, consumed;
        const char *message;
    } cases[] = {{20, SIZE_MAX, 20, "produce 20"},
                 {SIZE_MAX, 20, 20, "consume 20"},
                 {22, 20, 20, "consume 20"},
                 {20, 20, 20, "produce 20"},
                 {0, SIZE_MAX, 0, "produce 0"}};
    for (int c = 0; c < N_COUNTS; ++c) {
        td_pool *pool = make_pool(THREAD_COUNTS[c]);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
            stream_work work = make_stream_work(cases[k].produce_fails, cases[k].consume_fails);
            assert_int_not_equal(td_pool_stream(pool, N_ITEMS, LOOK_AHEAD, produce_item, consume_item, &work),
                                 TD_OK);
            assert_string_equal(td_error_last()->message, cases[k].message);
            assert_int_equal(work.n_consumed, cases[k].consumed);
            assert_true(work.n_produced <= cases[k].consumed + LOOK_AHEAD);
        }
        td_pool_destroy(pool);
    }
}

typedef struct {
    td_pool *pool;
    atomic_int inner;
} nested_work;

static td_status run_inner(void *ctx, size_t index)
{
    nested_work *work = ctx;
    idle_unevenly(index);
    work->inner++;
    return TD_OK;
}

static td_status run_outer(void *ctx, size_t index)
{
    nested_work *work = ctx;
    (void)index;
    return td_pool_map(work->pool, 8, run_inner, work);
}

static void test_tasks_may_use_the_same_pool(void **state)
{
    (void)state;
    for (int c = 0; c < N_COUNTS; ++c) {
        nested_work work = {.pool = make_pool(THREAD_COUNTS[c])};
        assert_int_equal(td_pool_map(work.pool, 16, run_outer, &work), TD_OK);
        assert_int_equal(work.inner, 16 * 8);
        td_pool_destroy(work.pool);
    }
}

static void *use_pool(void *arg)
{
    nested_work *work = arg;
    for (int i = 0; i < 10; ++i) {
        stream_work stream = make_stream_work(SIZE_MAX, SIZE_MAX);
        if (td_pool_stream(work->pool, 30, LOOK_AHEAD, produce_item, consume_item, &stream) == TD_OK &&
            stream.n_consumed == 30 && !stream.out_of_order)
            work->inner++;
    }
    return NULL;
}

static void test_several_threads_share_a_pool(void **state)
{
    (void)state;
    nested_work work = {.pool = make_pool(3)};
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, use_pool, &work), 0);
    for (int i = 0; i < 3; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(work.inner, 30);
    td_pool_destroy(work.pool);
}

/* Each task waits for the other to have started: only possible if two run at once. */
static td_status meet(void *ctx, size_t index)
{
    atomic_int *arrived = ctx;
    (void)index;
    atomic_fetch_add(arrived, 1);
    uint64_t deadline = td_clock_ns() + 10000000000u;
    while (atomic_load(arrived) < 2) {
        if (td_clock_ns() > deadline) return TD_FAIL(TD_ERR_TIMEOUT, "alone");
        sched_yield();
    }
    return TD_OK;
}

static void test_tasks_run_at_the_same_time(void **state)
{
    (void)state;
    td_pool *pool = make_pool(2);
    atomic_int arrived = 0;
    assert_int_equal(td_pool_map(pool, 2, meet, &arrived), TD_OK);
    td_pool_destroy(pool);
}

static void test_waiting_burns_no_core(void **state)
{
    (void)state;
    td_pool *pool = make_pool(4);
    uint64_t cpu = td_clock_cpu_ns();
    td_clock_sleep_until(td_clock_ns() + 200000000);
    assert_true(td_clock_cpu_ns() - cpu < 50000000);
    td_pool_destroy(pool);
}

static void test_zero_threads_means_the_cores(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    td_pool *pool = make_pool(0);
    assert_int_equal(td_pool_threads(pool), CPU_COUNT(&set));
    td_pool_destroy(pool);
    td_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_runs_each_index_once),
        cmocka_unit_test(test_map_reports_the_lowest_failure),
        cmocka_unit_test(test_a_failure_without_a_record_gets_one),
        cmocka_unit_test(test_stream_is_ordered_and_the_same_for_any_threads),
        cmocka_unit_test(test_stream_stops_at_the_first_failure_in_order),
        cmocka_unit_test(test_tasks_may_use_the_same_pool),
        cmocka_unit_test(test_several_threads_share_a_pool),
        cmocka_unit_test(test_tasks_run_at_the_same_time),
        cmocka_unit_test(test_waiting_burns_no_core),
        cmocka_unit_test(test_zero_threads_means_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
