/* Ranks of one process on a modelled network: sums as on any other cluster, times as the model says, and a rank that
 * fails takes the others with it. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "cluster/sim.h"
#include "support/expect.h"

enum { RANKS = 3, ELEMENTS = 100000, BUCKETS = 4 };

typedef struct rank_work {
    td_network *network;
    uint32_t rank;
    td_wire_format format;
    float *values;
    void *scratch;
    uint64_t ready_ns;
    bool fails;
    double ms; /* that the buckets took */
    char message[sizeof(td_error)];
} rank_work;

static float value_of(uint32_t rank, uint64_t i)
{
    return (float)td_rng_below(3, rank + 1, i, 1 << 20) * (i % 5 == 0 ? 1e-5f : 1.5f) - 3e5f;
}

static td_status sum_bucket(td_cluster *cluster, void *context)
{
    const rank_work *w = context;
    if (w->ready_ns > 0) td_cluster_do_note_ready(cluster, w->ready_ns);
    TD_CHECK(td_cluster_do_reduce_scatter(cluster, w->format, ELEMENTS, w->values, w->scratch));
    return td_cluster_do_all_gather(cluster, w->format, ELEMENTS, w->values, w->scratch);
}

static td_status run_rank(rank_work *w, td_cluster *cluster)
{
    uint64_t number = 0;
    uint32_t told = w->rank + 1, all[RANKS];
    TD_REFUSE_IF(w->fails, TD_ERR_ARGUMENT, "this rank fails");
    TD_CHECK(td_cluster_all_gather(cluster, &told, sizeof told, all));
    for (uint32_t r = 0; r < RANKS; ++r)
        TD_REFUSE_IF(all[r] != r + 1, TD_ERR_INTEGRITY, "rank %u told %u", r, all[r]);
    told = w->rank == 1 ? 77 : 0;
    TD_CHECK(td_cluster_broadcast(cluster, &told, sizeof told, 1));
    TD_REFUSE_IF(told != 77, TD_ERR_INTEGRITY, "a broadcast of %u", told);
    TD_CHECK(td_cluster_barrier(cluster));
    const uint64_t start_ns = td_clock_ns();
    w->ready_ns = start_ns;
    for (int i = 0; i < BUCKETS; ++i) {
        if (i == BUCKETS - 1)
            for (uint64_t k = 0; k < ELEMENTS; ++k)
                w->values[k] = value_of(w->rank, k);
        TD_CHECK(td_cluster_give(cluster, &(td_cluster_job){sum_bucket, w}, &number));
        TD_CHECK(td_cluster_wait(cluster, number));
    }
    w->ms = 1e-6 * (double)(td_clock_ns() - start_ns);
    return TD_OK;
}

static void *run(void *context)
{
    rank_work *w = context;
    td_cluster *cluster = NULL;
    td_status status = td_network_join(w->network, w->rank, &cluster);
    w->values = calloc(ELEMENTS, sizeof *w->values);
    if (status == TD_OK) {
        w->scratch = malloc(td_cluster_scratch_bytes(cluster, ELEMENTS));
        status = run_rank(w, cluster);
    }
    if (status != TD_OK) snprintf(w->message, sizeof w->message, "%s", td_error_last()->message);
    if (status != TD_OK) td_network_fail(w->network);
    td_network_leave(cluster);
    return NULL;
}

static void run_ranks(const char *model, td_wire_format format, int failing, rank_work works[RANKS])
{
    td_network_model m;
    td_network *network;
    pthread_t threads[RANKS];
    assert_int_equal(td_network_parse(model, &m), TD_OK);
    assert_int_equal(td_network_create(&m, &network), TD_OK);
    for (uint32_t r = 0; r < RANKS; ++r) {
        works[r] = (rank_work){.network = network, .rank = r, .format = format, .fails = (int)r == failing};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &works[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; ++r)
        pthread_join(threads[r], NULL);
    td_network_destroy(network);
}

static void free_ranks(rank_work works[RANKS])
{
    for (uint32_t r = 0; r < RANKS; ++r) {
        free(works[r].values);
        free(works[r].scratch);
    }
}

static void expect_sums(const rank_work works[RANKS])
{
    for (uint32_t r = 0; r < RANKS; ++r) {
        assert_string_equal(works[r].message, "");
        for (uint64_t i = 0; i < ELEMENTS; ++i) {
            float sum = value_of(0, i);
            for (uint32_t k = 1; k < RANKS; ++k)
                sum += value_of(k, i);
            if (works[r].values[i] != sum) fail_msg("rank %u, element %llu", r, (unsigned long long)i);
        }
    }
}

/* 400 kB at 40 MB/s: a bucket sends 2/3 of them twice, 13.3 ms, and each call has two messages of 1 ms. Nothing ends
 * before its time; it may end later, where this computer is busy. */
static void test_sums_and_times(void **state)
{
    rank_work works[RANKS];
    (void)state;
    run_ranks("ranks=3,gbps=0.04,latency_us=1000,sum_gbps=1", TD_WIRE_FP32, -1, works);
    expect_sums(works);
    const double expected =
        BUCKETS * (13.333 + 4 + 0.4) - 0.4; /* nothing follows the last sum but its gathering */
    for (uint32_t r = 0; r < RANKS; ++r)
        if (!(works[r].ms >= expected && works[r].ms < 5 * expected))
            fail_msg("rank %u took %g ms instead of %g", r, works[r].ms, expected);
    free_ranks(works);
}

static void test_half_travels_in_half_the_time(void **state)
{
    rank_work works[RANKS];
    (void)state;
    run_ranks("ranks=3,gbps=0.02,latency_us=0,sum_gbps=1000", TD_WIRE_BF16, -1, works);
    const double expected = BUCKETS * 13.333;
    for (uint32_t r = 0; r < RANKS; ++r)
        if (!(works[r].ms >= expected - 0.1 && works[r].ms < 5 * expected))
            fail_msg("rank %u took %g ms instead of %g", r, works[r].ms, expected);
    free_ranks(works);
}

/* Half of the packets are lost: as many are sent again, a little more on the unluckiest rank. */
static void test_losses_take_time(void **state)
{
    rank_work works[RANKS];
    (void)state;
    run_ranks("ranks=3,gbps=0.08,latency_us=0,drop=0.5,seed=4,sum_gbps=1000", TD_WIRE_FP32, -1, works);
    expect_sums(works);
    for (uint32_t r = 0; r < RANKS; ++r)
        if (!(works[r].ms >= BUCKETS * 10 && works[r].ms < BUCKETS * 60)) fail_msg("%g ms", works[r].ms);
    free_ranks(works);
}

static void test_one_that_fails_ends_all(void **state)
{
    rank_work works[RANKS];
    (void)state;
    run_ranks("ranks=3,gbps=1,latency_us=10", TD_WIRE_FP32, 1, works);
    assert_string_equal(works[1].message, "this rank fails");
    assert_non_null(strstr(works[0].message, "another simulated rank has failed"));
    assert_non_null(strstr(works[2].message, "another simulated rank has failed"));
    free_ranks(works);
}

static void test_model(void **state)
{
    static const char *const WRONG[] = {"rank=2", "ranks=0",     "ranks=2.5",     "ranks=5000",
                                        "gbps=0", "gbps=fast",   "drop=1",        "drop=-1",
                                        "gbps",   "latency_us=", "ranks=2;gbps=1"};
    td_network_model m;
    (void)state;
    assert_int_equal(td_network_parse("ranks=64,gbps=1.25,latency_us=20,drop=0.01", &m), TD_OK);
    assert_int_equal(m.ranks, 64);
    assert_true(m.gbps == 1.25 && m.latency_us == 20 && m.drop == 0.01);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; ++i)
        if (td_network_parse(WRONG[i], &m) != TD_ERR_CONFIG) fail_msg("'%s' was taken", WRONG[i]);
    assert_int_equal(td_network_parse("ranks=1000", &m), TD_OK);
    td_network *network;
    assert_int_equal(td_network_create(&m, &network), TD_ERR_ARGUMENT);
    assert_true(fabs(td_network_exchange_ns(&m, 11, 1.25e6) - (10 * 20e3 + 1e6)) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_sums_and_times),
        cmocka_unit_test(test_half_travels_in_half_the_time),
        cmocka_unit_test(test_losses_take_time),
        cmocka_unit_test(test_one_that_fails_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
