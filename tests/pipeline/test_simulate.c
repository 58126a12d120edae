/* The pipeline on simulated devices overlaps what it should and nothing else. Times are checked loosely from
 * above, because the computer may be busy; `tandem profile --simulate` states the exact figures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "pipeline/simulate.h"

#define BUSY 1.35 /* how much later a busy computer may be */

static td_pipeline_figures run(const char *stages, bool is_single, bool is_serial)
{
    td_simulation s = {.is_single = is_single,
                       .is_serial = is_serial,
                       .buffer_size = 4,
                       .prefetch_size = 3,
                       .depth = 2,
                       .steps = 40,
                       .seed = 1};
    td_monitor *monitor;
    td_batch_times *times = calloc(s.steps, sizeof *times);
    td_pipeline_figures f;
    assert_int_equal(td_simulation_parse(stages, &s), TD_OK);
    assert_int_equal(td_monitor_create(s.steps, is_single, &monitor), TD_OK);
    const td_status status = td_simulate(&s, monitor);
    if (status != TD_OK) print_error("%s\n", td_error_last()->message);
    assert_int_equal(status, TD_OK);
    const size_t n = td_monitor_read(monitor, times);
    assert_int_equal(n, s.steps);
    /* Without the batches that were prepared before the first step. */
    assert_true(td_pipeline_figures_of(times, n, 8, is_single, &f));
    td_monitor_destroy(monitor);
    free(times);
    return f;
}

static void between(double value, double least, double most)
{
    if (!(value >= least && value <= most)) {
        print_error("%g is not between %g and %g\n", value, least, most);
        fail();
    }
}

static void test_two_devices_hide_the_data(void **state)
{
    (void)state;
    const td_pipeline_figures overlapped = run("data=30,transfer=5,train=40", false, false);
    between(overlapped.step_ms.mean, 39.5, 40 * BUSY);
    between(overlapped.model_utilisation, 0.75, 1);
    between(overlapped.stage_ms[TD_STAGE_PREPARE].mean, 29, 30 * BUSY);
    between(overlapped.stage_ms[TD_STAGE_TRANSFER].mean, 4.9, 15);
    assert_int_equal(overlapped.slowest, TD_STAGE_TRAIN);
}

static void test_serial_hides_nothing(void **state)
{
    (void)state;
    const td_pipeline_figures serial = run("data=30,transfer=5,train=40", false, true);
    between(serial.step_ms.mean, 75, 75 * BUSY);
    between(serial.overlap, 0, 0.01);
}

static void test_slow_data_sets_the_pace(void **state)
{
    (void)state;
    const td_pipeline_figures f = run("data=60,transfer=5,train=40", false, false);
    between(f.step_ms.mean, 59, 60 * BUSY);
    assert_int_equal(f.slowest, TD_STAGE_PREPARE);
}

static void test_one_device_does_both(void **state)
{
    (void)state;
    const td_pipeline_figures f = run("data=30,transfer=5,train=40", true, false);
    between(f.step_ms.mean, 69, 70 * BUSY);
    between(run("data=0,train=40", true, false).step_ms.mean, 39.5, 40 * BUSY);
}

static void test_bad_requests(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",          "data=30",           "train=0",       "train=-1",
                                      "train=1e9", "train=4,data=x",    "train=4,dat=3", "train",
                                      "train=",    "train=4,jitter=1.5"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; ++i) {
        td_simulation s = {0};
        assert_int_equal(td_simulation_parse(BAD[i], &s), TD_ERR_CONFIG);
        assert_non_null(strstr(td_error_last()->message, "profile.simulate"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_devices_hide_the_data),
        cmocka_unit_test(test_serial_hides_nothing),
        cmocka_unit_test(test_slow_data_sets_the_pace),
        cmocka_unit_test(test_one_device_does_both),
        cmocka_unit_test(test_bad_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
