/* Predictions of steps on many ranks: against ranks that truly make the step on simulated devices over a simulated
 * network, and against what follows from the numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "tools/cluster_forecast.h"

enum { STEPS = 3, TRIES = 10 };

/* Proportions of a graphics card: a backward pass long enough to hide what travels at 10 Gbit/s. */
static const char DEVICE[] = "gflops=1000,gbps=100,copy_gbps=6,memory_mb=8192,latency_us=2";

static td_train_settings make_settings(void)
{
    td_train_settings s = {.bucket_bytes = 60000, .grad_accum = 1};
    check(td_model_preset(td_family_find("parallel"), "pico", &s.model));
    s.model.family->fit(
        &(td_data_facts){
            .n_symbols = 64, .n_mels = 80, .max_tokens = 64, .max_frames = 256, .tokens = 64, .frames = 256},
        NULL, &s.model.values);
    s.data.batch_size = 64;
    s.data.max_text_length = 64;
    s.data.max_mel_frames = 256;
    s.optimizer = (td_optimizer_options){.beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-8f, .max_norm = 1};
    return s;
}

static td_batch_shape shape_of(const td_train_settings *s)
{
    td_batch_shape shape = td_run_shape(s, (td_lengths){0});
    shape.items = s->data.batch_size;
    return shape;
}

/* Simulated and predicted, within 5 %. This computer may be busy, which makes a simulated step longer: it may try
 * again. */
static void compare(const td_train_settings *s, const td_rank_times *times, const char *network,
                    double least_efficiency)
{
    td_cluster_forecast f = {.times = *times};
    td_network_model model;
    double simulated = 0, off = INFINITY;
    check(td_network_parse(network, &model));
    td_cluster_forecast_make(&model, &f);
    const td_rehearsal_request request = {.device = DEVICE,
                                          .settings = s,
                                          .shape = shape_of(s),
                                          .network = model,
                                          .steps = STEPS,
                                          .pace = td_cluster_rehearsal_pace(&f)};
    assert_true(td_cluster_can_rehearse(&f, STEPS));
    for (int i = 0; i < TRIES && !(fabs(off) <= 0.05 && f.rows[0].step_ms / simulated >= least_efficiency);
         ++i) {
        check(td_cluster_rehearse(&request, &simulated));
        off = f.asked.step_ms / simulated - 1;
    }
    printf("%s: %zu buckets of %.2f MB; predicted %.3f ms, simulated %.3f ms (%+.1f %%); efficiency %.3f, of "
           "the "
           "reduction %.2f hidden\n",
           network, times->n_buckets, 1e-6 * (double)f.gradient_bytes, f.asked.step_ms, simulated, 100 * off,
           f.asked.efficiency, f.asked.overlap);
    if (!(fabs(off) <= 0.05)) fail_msg("%s: the prediction is off by %.1f %%", network, 100 * off);
    if (!(f.rows[0].step_ms / simulated >= least_efficiency))
        fail_msg("%s: %g ms instead of %g alone", network, simulated, f.rows[0].step_ms);
}

static void test_hidden(void **state)
{
    const td_train_settings s = make_settings();
    const td_batch_shape shape = shape_of(&s);
    td_rank_times times;
    (void)state;
    check(td_rank_times_simulate(DEVICE, &s, &shape, &times));
    compare(&s, &times, "ranks=2,gbps=1.25,latency_us=10", 0.95);
    compare(&s, &times, "ranks=4,gbps=1.25,latency_us=10", 0.95);
    compare(&s, &times, "ranks=8,gbps=1.25,latency_us=10", 0.95);
    td_rank_times_free(&times);
}

/* Where the network sets the pace: sums that are waited for, parameters that are gathered, half the bytes, and
 * micro-batches that make up for it. */
static void test_waited_for(void **state)
{
    td_train_settings s = make_settings();
    const td_batch_shape shape = shape_of(&s);
    td_rank_times times;
    (void)state;
    s.shard_optimizer = true;
    check(td_rank_times_simulate(DEVICE, &s, &shape, &times));
    compare(&s, &times, "ranks=4,gbps=0.05,latency_us=50", 0);
    td_rank_times_free(&times);
    s.shard_optimizer = false;
    s.reduce_format = TD_WIRE_BF16;
    s.grad_accum = 3;
    check(td_rank_times_simulate(DEVICE, &s, &shape, &times));
    compare(&s, &times, "ranks=2,gbps=0.01,latency_us=200", 0);
    td_rank_times_free(&times);
}

/* ---------------------------------------------------------------- numbers */

/* 10 ms of work in which two buckets of 4 MB are final after 4 and after 10 ms, and first read after 3 and at once; copies
 * of 1 ms. */
static td_rank_times make_times(struct td_rank_bucket buckets[2])
{
    buckets[0] = (struct td_rank_bucket){.ready_ms = 4, .read_ms = 3, .elements = 1000000};
    buckets[1] = (struct td_rank_bucket){.ready_ms = 10, .elements = 1000000};
    return (td_rank_times){.more_ms = 10,
                           .last_ms = 10,
                           .update_ms = 2,
                           .whole_update = 0.125,
                           .copy_gbps = 4,
                           .buckets = buckets,
                           .n_buckets = 2,
                           .grad_accum = 1};
}

static void expect(const char *what, double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%s is %.12g, not %.12g", what, value, expected);
}

/* At 4 GB/s half a bucket takes 0.5 ms each way, its sum 1 ms: 2 ms a bucket. The first one is back long before the
 * backward pass ends and goes up at 10 ms; the second is copied to 11, summed to 13, up at 14; the update ends at 16. */
static void test_two_ranks_by_hand(void **state)
{
    struct td_rank_bucket buckets[2];
    td_rank_times t = make_times(buckets);
    td_network_model network;
    (void)state;
    check(td_network_parse("gbps=4,latency_us=0,sum_gbps=4", &network));
    td_cluster_figures f = td_cluster_predict(&t, &network, 2);
    expect("step", f.step_ms, 16);
    expect("reduce", f.reduce_ms, 4);
    expect("wait", f.wait_ms, 2);
    expect("overlap", f.overlap, 0.5);
    expect("efficiency", f.efficiency, 12.0 / 16);
    t.format = TD_WIRE_BF16; /* 1 ms a bucket */
    expect("step with half the bytes", td_cluster_predict(&t, &network, 2).step_ms, 15);
    t.format = TD_WIRE_FP32;
    t.grad_accum = 3;
    t.first_ms = 10;
    expect("step of three micro-batches", td_cluster_predict(&t, &network, 2).step_ms, 36);
    t.grad_accum = 1;
    /* 16 - 2 + 2 x (1/8 + 7/16) of update, and what the pass before is longer: halves are copied by 0.5 and 1 ms, the
     * second bucket has come at 1, is up at 2; the first has come at 1.5, long before it is read at 5, and goes up */
    t.shards = true;
    f = td_cluster_predict(&t, &network, 2);
    expect("step with shards", f.step_ms, 16 - 2 + 1.125 + 3);
    expect("gathering", f.gather_ms, 1);
    expect("waited for parameters", f.gather_wait_ms, 0);
    /* 8 ms for each half: the second bucket comes at 8.5 and is up at 9.5, the first is wanted at 12.5, comes at 16.5, is
     * up at 17.5 instead of 3; then sums of 17 ms: the first is copied to 19.5 and back at 36.5, the second at 53.5 */
    network.gbps = 0.25;
    f = td_cluster_predict(&t, &network, 2);
    expect("slow gathering", f.gather_ms, 16);
    expect("waited for slow parameters", f.gather_wait_ms, 7.5 + 4);
    expect("step with slow shards", f.step_ms, 54.5 + 1.125);
    network.gbps = 4;
    t.shards = false;
    network.latency_us = 1000; /* 4 ms a bucket: the second is summed at 15, the step ends at 18 */
    expect("step with latency", td_cluster_predict(&t, &network, 2).step_ms, 18);
    network.drop = 0.5;
    network.latency_us = 0; /* each way takes twice as long: 3 ms a bucket */
    expect("step with losses", td_cluster_predict(&t, &network, 2).step_ms, 17);
    expect("step alone", td_cluster_predict(&t, &network, 1).step_ms, 12);
}

static void test_where_it_stops_paying(void **state)
{
    struct td_rank_bucket buckets[2];
    td_cluster_forecast f = {.times = make_times(buckets)};
    td_network_model network;
    (void)state;
    check(td_network_parse("ranks=16,gbps=4,latency_us=100,sum_gbps=1000", &network));
    td_cluster_forecast_make(&network, &f);
    assert_int_equal(f.gradient_bytes, 8000000);
    assert_int_equal(f.rows[4].ranks, 16);
    expect("the row of those asked for", f.rows[4].step_ms, f.asked.step_ms);
    /* a bucket takes 2 x (n - 1) x 0.1 ms, and twice 0.5 ms or up to 1: with 16 ranks 4.9 ms, with 32 8.1: the second
     * one is back, and the update made, after 20.8 or after 24.3 ms instead of 12 */
    assert_int_equal(f.pays_to, 16);
    assert_true(f.rows[4].efficiency >= 0.5 && f.rows[5].efficiency < 0.5);
    assert_int_equal(f.fastest, 4096);   /* ever more ranks are ever a little faster: 1 / n of latency each */
    assert_int_equal(f.enough_accum, 8); /* 82 ms of work and 8.8 of waiting */
    td_rank_times more = f.times;
    more.grad_accum = f.enough_accum;
    more.first_ms = more.last_ms;
    assert_true(td_cluster_predict(&more, &network, 16).efficiency >= TD_CLUSTER_GOOD);
    more.grad_accum /= 2;
    assert_true(td_cluster_predict(&more, &network, 16).efficiency < TD_CLUSTER_GOOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_by_hand),
        cmocka_unit_test(test_where_it_stops_paying),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
