/* The watch over a running pipeline: each warning comes once, and only for what lasts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "pipeline/watch.h"
#include "support/listen.h"
#include "tools/profile.h"

#define MIB (UINT64_C(1) << 20)
#define MS UINT64_C(1000000)

static unsigned n_warnings;
static char last[512];

static void hear(void *context, td_log_level level, const char *message)
{
    (void)context;
    if (level != TD_LOG_WARN) return;
    ++n_warnings;
    strncpy(last, message, sizeof last - 1);
}

static int begin(void **state)
{
    td_monitor *monitor;
    n_warnings = 0;
    last[0] = '\0';
    listen_to(hear, NULL, TD_LOG_WARN);
    if (td_monitor_create(TD_MONITOR_WINDOW, false, &monitor) != TD_OK) return -1;
    *state = monitor;
    return 0;
}

static int end(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    td_monitor_destroy(*state);
    return 0;
}

static td_watch new_watch(td_monitor *monitor)
{
    return (td_watch){.monitor = monitor, .capacity = TD_MONITOR_WINDOW};
}

static void test_growing_memory_is_told_once(void **state)
{
    td_watch watch = new_watch(*state);
    for (uint64_t step = 1; step <= 2000; ++step)
        td_watch_step(&watch, 10 * MIB, 100 * MIB + step * MIB);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last, "model role keeps growing"));
}

/* Plans for new shapes: it rises, then stays. */
static void test_memory_that_settles_is_fine(void **state)
{
    td_watch watch = new_watch(*state);
    for (uint64_t step = 1; step <= 2000; ++step)
        td_watch_step(&watch, 10 * MIB, 100 * MIB + (step < 400 ? step : 400) * MIB);
    assert_int_equal(n_warnings, 0);
}

static void test_little_growth_is_fine(void **state)
{
    td_watch watch = new_watch(*state);
    for (uint64_t step = 1; step <= 2000; ++step)
        td_watch_step(&watch, 10 * MIB, 100 * MIB + step);
    assert_int_equal(n_warnings, 0);
    assert_false(watch.is_known); /* no batch was noted */
    assert_string_equal(td_watch_waits_for(&watch), "train");
}

static void test_waits_for_the_slowest_stage(void **state)
{
    td_watch watch = new_watch(*state);
    watch.is_known = true;
    watch.figures.step_ms.mean = 10;
    watch.figures.model_utilisation = 0.6;
    watch.figures.stage_ms[TD_STAGE_LOAD].mean = 5;
    watch.figures.stage_ms[TD_STAGE_PREPARE].mean = 9;
    watch.figures.stage_ms[TD_STAGE_TRAIN].mean = 6;
    assert_string_equal(td_watch_waits_for(&watch), "preprocess");
    watch.figures.stage_ms[TD_STAGE_PREPARE].mean =
        4; /* no stage takes as long as a step: the host is slow */
    assert_string_equal(td_watch_waits_for(&watch), "train");
    watch.figures.stage_ms[TD_STAGE_LOAD].mean = 10;
    assert_string_equal(td_watch_waits_for(&watch), "load");
    watch.figures.model_utilisation = 0.95;
    assert_string_equal(td_watch_waits_for(&watch), "train");
    td_watch_pause(&watch, 7);
    assert_string_equal(td_watch_waits_for(&watch), "train");
    assert_int_equal(watch.from, 7);
}

/* Steps of batches from watch->from on, each of `work_ms` after a wait of `wait_ms`; what is uneven takes three
 * times as long for every third batch. */
static void run_steps(td_watch *watch, uint64_t work_ms, bool works_unevenly, uint64_t wait_ms,
                      bool waits_unevenly)
{
    uint64_t now_ns = (1 + watch->from) * 1000 * MS;
    for (uint64_t i = watch->from; i < watch->from + TD_MONITOR_WINDOW; ++i) {
        const td_point past = {0};
        const uint64_t times = i % 3 == 0 ? 3 : 1;
        const uint64_t work_ns = work_ms * (works_unevenly ? times : 1) * MS;
        now_ns += wait_ms * (waits_unevenly ? times : 1) * MS + work_ns;
        td_monitor_note(watch->monitor, TD_STAGE_TRAIN, i, &past, 1);
        td_monitor_collect(watch->monitor);
        td_monitor_note_host(watch->monitor, TD_STAGE_TRAIN, i,
                             (td_interval){now_ns - work_ns, now_ns, work_ns});
        td_watch_step(watch, 10 * MIB, 100 * MIB);
    }
}

/* Batches of different lengths, on a device that always has one to work on, or that idles as long for each. */
static void test_finding_24_lengths_are_no_starvation(void **state)
{
    td_watch watch = new_watch(*state);
    run_steps(&watch, 10, true, 0, false);
    assert_true(watch.is_known && watch.figures.cv > 0.3);
    assert_int_equal(n_warnings, 0);
    watch = new_watch(*state);
    watch.from = TD_MONITOR_WINDOW;
    run_steps(&watch, 10, true, 3, false);
    assert_true(watch.figures.cv > 0.3 && watch.figures.model_utilisation < 0.9);
    assert_int_equal(n_warnings, 0);
}

static void test_finding_24_uneven_waits_are_starvation(void **state)
{
    td_watch watch = new_watch(*state);
    watch.warned[TD_WATCH_STARVES] = true; /* which this is too */
    run_steps(&watch, 2, false, 10, true);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last, "steps vary"));
    assert_non_null(strstr(last, "pipeline.buffer_size"));
    watch = new_watch(*state);
    watch.is_single = true; /* there is no buffer on another device */
    watch.warned[TD_WATCH_STARVES] = true;
    watch.from = TD_MONITOR_WINDOW;
    run_steps(&watch, 2, false, 10, true);
    assert_int_equal(n_warnings, 2);
    assert_null(strstr(last, "pipeline.buffer_size"));
}

/* The same two, as `profile` judges them. */
static void profile_says(td_watch *watch, const char *code, const char *other)
{
    td_profile profile = {0};
    size_t n = 0;
    assert_int_equal(td_profile_read(watch->monitor, watch->capacity, 0, &profile), TD_OK);
    for (size_t i = 0; i < profile.n_verdicts; ++i) {
        n += strcmp(profile.verdicts[i].code, code) == 0;
        assert_string_not_equal(profile.verdicts[i].code, other);
    }
    assert_int_equal(n, 1);
    td_profile_free(&profile);
}

static void test_finding_24_profile_tells_lengths_from_starvation(void **state)
{
    td_watch watch = new_watch(*state);
    run_steps(&watch, 10, true, 3, false);
    profile_says(&watch, "lengths_vary", "steps_vary");
    watch.from = TD_MONITOR_WINDOW;
    run_steps(&watch, 2, false, 10, true);
    profile_says(&watch, "steps_vary", "lengths_vary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_growing_memory_is_told_once, begin, end),
        cmocka_unit_test_setup_teardown(test_memory_that_settles_is_fine, begin, end),
        cmocka_unit_test_setup_teardown(test_little_growth_is_fine, begin, end),
        cmocka_unit_test_setup_teardown(test_waits_for_the_slowest_stage, begin, end),
        cmocka_unit_test_setup_teardown(test_finding_24_lengths_are_no_starvation, begin, end),
        cmocka_unit_test_setup_teardown(test_finding_24_uneven_waits_are_starvation, begin, end),
        cmocka_unit_test_setup_teardown(test_finding_24_profile_tells_lengths_from_starvation, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
