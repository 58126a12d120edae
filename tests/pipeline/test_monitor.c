/* Figures of a pipeline from times that are known, and the ring that keeps them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/monitor.h"

#define MS UINT64_C(1000000)

static td_interval between(uint64_t start_ms, uint64_t end_ms)
{
    return (td_interval){
        .start_ns = start_ms * MS, .end_ns = end_ms * MS, .busy_ns = (end_ms - start_ms) * MS};
}

static void near(double got, double want)
{
    if (!(got > want - 1e-9 && got < want + 1e-9)) {
        print_error("%.12g, should be %.12g\n", got, want);
        fail();
    }
}

static void test_spread(void **state)
{
    (void)state;
    double values[20];
    for (int i = 0; i < 20; ++i)
        values[i] = 20 - i;
    const td_spread s = td_spread_of(values, 20);
    near(s.mean, 10.5);
    near(s.min, 1);
    near(s.max, 20);
    near(s.p95, 19);
    near(s.std * s.std, 35);
    near(td_spread_of(values, 0).mean, 0);
}

/* Steps of 40 ms back to back; preparing the next batch takes 30 ms, all of it while training. */
static void test_overlapped_pair(void **state)
{
    (void)state;
    td_batch_times times[5] = {0};
    td_pipeline_figures f;
    for (uint64_t i = 0; i < 5; ++i) {
        times[i].number = i;
        times[i].stages[TD_STAGE_PREPARE] = between(100 + 40 * i, 130 + 40 * i);
        times[i].stages[TD_STAGE_TRANSFER] = between(130 + 40 * i, 135 + 40 * i);
        times[i].stages[TD_STAGE_TRAIN] = between(140 + 40 * i, 180 + 40 * i);
    }
    assert_true(td_pipeline_figures_of(times, 5, false, &f));
    near(f.step_ms.mean, 40);
    near(f.cv, 0);
    near(f.stage_ms[TD_STAGE_PREPARE].mean, 30);
    near(f.stage_ms[TD_STAGE_TRANSFER].mean, 5);
    near(f.idle_ms.mean, 0);
    near(f.model_utilisation, 1);
    near(f.data_utilisation, 90.0 / 160);
    near(f.overlap, 1);
    assert_int_equal(f.slowest, TD_STAGE_TRAIN);
}

/* One after the other: the model device waits for every batch. */
static void test_serial_pair(void **state)
{
    (void)state;
    td_batch_times times[4] = {0};
    td_pipeline_figures f;
    for (uint64_t i = 0; i < 4; ++i) {
        times[i].number = i;
        times[i].stages[TD_STAGE_PREPARE] = between(100 * i, 100 * i + 60);
        times[i].stages[TD_STAGE_TRAIN] = between(100 * i + 60, 100 * i + 100);
        times[i].waited_ns = 60 * MS;
    }
    assert_true(td_pipeline_figures_of(times, 4, false, &f));
    near(f.step_ms.mean, 100);
    near(f.idle_ms.mean, 60);
    near(f.model_utilisation, 0.4);
    near(f.overlap, 0);
    near(f.waited_share, 0.6);
    assert_int_equal(f.slowest, TD_STAGE_PREPARE);
    assert_true(td_pipeline_figures_of(times, 4, true, &f));
    near(f.model_utilisation, 1);
    assert_false(td_pipeline_figures_of(times, 1, false, &f));
}

static void test_keeps_the_last(void **state)
{
    (void)state;
    td_monitor *monitor;
    td_batch_times *times = calloc(10, sizeof *times);
    assert_int_equal(td_monitor_create(10, false, &monitor), TD_OK);
    for (uint64_t i = 0; i < 1000; ++i) {
        const td_point past = {0};
        td_monitor_note_host(monitor, TD_STAGE_LOAD, i, between(i, i + 1));
        td_monitor_note_wait(monitor, i, i);
        td_monitor_note(monitor, TD_STAGE_TRAIN, i, &past, 1);
        td_monitor_collect(monitor);
        td_monitor_note_host(monitor, TD_STAGE_TRAIN, i, between(10 * i, 10 * i + 9));
    }
    assert_int_equal(td_monitor_read(monitor, times), 10);
    for (uint64_t i = 0; i < 10; ++i) {
        assert_int_equal(times[i].number, 990 + i);
        assert_int_equal(times[i].waited_ns, 990 + i);
        assert_int_equal(times[i].stages[TD_STAGE_LOAD].start_ns, (990 + i) * MS);
    }
    td_monitor_note(NULL, TD_STAGE_TRAIN, 0, NULL, 0);
    td_monitor_collect(NULL);
    td_monitor_destroy(monitor);
    free(times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_overlapped_pair),
        cmocka_unit_test(test_serial_pair),
        cmocka_unit_test(test_keeps_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
