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
    assert_true(td_pipeline_figures_of(times, 5, 0, false, &f));
    near(f.step_ms.mean, 40);
    near(f.cv, 0);
    near(f.stage_ms[TD_STAGE_PREPARE].mean, 30);
    near(f.stage_ms[TD_STAGE_TRANSFER].mean, 5);
    near(f.idle_ms.mean, 0);
    near(f.model_utilisation, 1);
    near(f.data_utilisation, 0.75);
    near(f.overlap, 0.8); /* the first batch has no training to hide behind */
    assert_true(td_pipeline_figures_of(times, 5, 1, false, &f));
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
    assert_true(td_pipeline_figures_of(times, 4, 0, false, &f));
    near(f.step_ms.mean, 100);
    near(f.idle_ms.mean, 60);
    near(f.model_utilisation, 0.4);
    near(f.overlap, 0);
    near(f.waited_share, 0.6);
    assert_int_equal(f.slowest, TD_STAGE_PREPARE);
    assert_true(td_pipeline_figures_of(times, 4, 0, true, &f));
    near(f.model_utilisation, 1);
    assert_false(td_pipeline_figures_of(times, 4, 3, false, &f));
}

/* Four threads load each batch in 10 ms of the clock: 40 ms of work, but not what holds a step of 20 up. */
static void test_threads_load_side_by_side(void **state)
{
    (void)state;
    td_batch_times times[6] = {0};
    td_pipeline_figures f;
    for (uint64_t i = 0; i < 6; ++i) {
        times[i].stages[TD_STAGE_LOAD] = between(20 * i, 20 * i + 10);
        times[i].stages[TD_STAGE_LOAD].busy_ns *= 4;
        times[i].stages[TD_STAGE_TRAIN] = between(100 + 20 * i, 100 + 20 * i + 20);
    }
    assert_true(td_pipeline_figures_of(times, 6, 0, false, &f));
    near(f.stage_ms[TD_STAGE_LOAD].mean, 10);
    assert_int_equal(f.slowest, TD_STAGE_TRAIN);
    for (uint64_t i = 0; i < 6; ++i) { /* two batches at a time, each in 40 ms */
        times[i].stages[TD_STAGE_LOAD] = between(20 * i, 20 * i + 40);
        times[i].stages[TD_STAGE_LOAD].busy_ns *= 2;
    }
    assert_true(td_pipeline_figures_of(times, 6, 0, false, &f));
    near(f.stage_ms[TD_STAGE_LOAD].mean, 140.0 / 6);
}

/* All was prepared before the first step that counts: the device still worked for each of them. */
static void test_prepared_long_ahead(void **state)
{
    (void)state;
    td_batch_times times[5] = {0};
    td_pipeline_figures f;
    for (uint64_t i = 0; i < 5; ++i) {
        times[i].stages[TD_STAGE_PREPARE] = between(10 * i, 10 * i + 10);
        times[i].stages[TD_STAGE_TRAIN] = between(100 + 40 * i, 100 + 40 * i + 40);
    }
    assert_true(td_pipeline_figures_of(times, 5, 0, false, &f));
    near(f.data_utilisation, 0.25);
    near(f.overlap, 0);
    assert_true(td_pipeline_figures_of(times, 5, 0, true, &f));
    near(f.model_utilisation, 1);
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

/* What comes while it is paused is not known afterwards; what comes before and after is. */
static void test_paused(void **state)
{
    (void)state;
    td_monitor *monitor;
    td_batch_times times[4];
    const td_point past = {0};
    assert_int_equal(td_monitor_create(4, true, &monitor), TD_OK);
    for (uint64_t i = 0; i < 4; ++i) {
        td_monitor_pause(monitor, i == 1 || i == 2);
        td_monitor_note(monitor, TD_STAGE_TRAIN, i, &past, 1);
        td_monitor_collect(monitor);
        td_monitor_note_host(monitor, TD_STAGE_TRAIN, i, between(10 * i, 10 * i + 9));
        td_monitor_note_wait(monitor, i, i);
    }
    assert_int_equal(td_monitor_read(monitor, times), 2);
    assert_int_equal(times[0].number, 0);
    assert_int_equal(times[1].number, 3);
    td_monitor_destroy(monitor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_load_side_by_side),
        cmocka_unit_test(test_prepared_long_ahead),
        cmocka_unit_test(test_overlapped_pair),
        cmocka_unit_test(test_serial_pair),
        cmocka_unit_test(test_keeps_the_last),
        cmocka_unit_test(test_paused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
