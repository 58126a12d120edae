/* Levels, the sink and its replacement, once-flags, threads (src/base/log.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "base/log.h"

typedef struct {
    int lines;
    int busy; /* not atomic on purpose: the sink is promised to run alone */
    int overlaps;
    td_log_level level;
    char text[4096];
} collected;

static void collect(void *ctx, td_log_level level, const char *message)
{
    collected *c = ctx;
    c->overlaps += c->busy++;
    c->lines++;
    c->level = level;
    snprintf(c->text, sizeof c->text, "%s", message);
    c->busy--;
}

static void collect_slowly(void *ctx, td_log_level level, const char *message)
{
    collected *c = ctx;
    c->overlaps += c->busy;
    c->busy = 1;
    usleep(200);
    snprintf(c->text, sizeof c->text, "%d %s", (int)level, message);
    c->busy = 0;
}

static int remove_sink(void **state)
{
    (void)state;
    td_log_set_sink(NULL, NULL, TD_LOG_DEBUG);
    return 0;
}

static void test_silent_without_a_sink(void **state)
{
    (void)state;
    collected c = {0};
    td_log_error("nobody listens");
    td_log_set_sink(collect, &c, TD_LOG_DEBUG);
    td_log_error("one");
    td_log_set_sink(NULL, NULL, TD_LOG_DEBUG);
    td_log_error("two");
    assert_int_equal(c.lines, 1);
    assert_string_equal(c.text, "one");
}

static void test_levels_past_the_limit_are_dropped(void **state)
{
    (void)state;
    collected c = {0};
    td_log_set_sink(collect, &c, TD_LOG_WARN);
    td_log_error("a %d", 1);
    assert_int_equal(c.level, TD_LOG_ERROR);
    td_log_warn("b %s", "two");
    assert_int_equal(c.level, TD_LOG_WARN);
    td_log_info("c");
    td_log_debug("d");
    assert_int_equal(c.lines, 2);
    assert_string_equal(c.text, "b two");
    assert_string_equal(td_log_level_name(TD_LOG_WARN), "warning");
    assert_string_equal(td_log_level_name((td_log_level)99), "unknown");
}

static void test_witness_gets_warnings_without_a_sink(void **state)
{
    (void)state;
    collected c = {0};
    td_log_set_sink(NULL, NULL, TD_LOG_ERROR);
    td_log_set_witness(collect, &c);
    td_log_info("nothing");
    td_log_warn("kept %d", 1);
    assert_int_equal(c.lines, 1);
    assert_string_equal(c.text, "kept 1");
    td_log_set_witness(NULL, NULL);
    td_log_warn("gone");
    assert_int_equal(c.lines, 1);
}

static void test_once_is_said_once(void **state)
{
    (void)state;
    collected c = {0};
    td_log_once_flag flag = {0}, other = {0};
    td_log_once(&flag, TD_LOG_WARN, "unheard"); /* no sink: does not count */
    td_log_set_sink(collect, &c, TD_LOG_WARN);
    td_log_once(&flag, TD_LOG_INFO, "too detailed"); /* nor does this */
    for (int i = 0; i < 3; ++i)
        td_log_once(&flag, TD_LOG_WARN, "heard %d", i);
    assert_int_equal(c.lines, 1);
    assert_string_equal(c.text, "heard 0");
    td_log_once(&other, TD_LOG_WARN, "another flag");
    assert_int_equal(c.lines, 2);
}

static void test_long_lines_are_cut(void **state)
{
    (void)state;
    collected c = {0};
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    td_log_set_sink(collect, &c, TD_LOG_INFO);
    td_log_info("%s", text);
    assert_in_range(strlen(c.text), 1000, 3000);
}

enum { N_THREADS = 4, N_LINES = 500 };

static td_log_once_flag shared_flag;
static char name[] = "thread";

static void *log_much(void *arg)
{
    for (int i = 0; i < N_LINES; ++i)
        td_log_info("%s line %d", (const char *)arg, i);
    td_log_once(&shared_flag, TD_LOG_INFO, "once");
    return NULL;
}

static void test_threads_reach_the_sink_one_at_a_time(void **state)
{
    (void)state;
    collected c = {0};
    pthread_t threads[N_THREADS];
    td_log_set_sink(collect, &c, TD_LOG_INFO);
    for (int i = 0; i < N_THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, name), 0);
    for (int i = 0; i < N_THREADS; ++i)
        pthread_join(threads[i], NULL);
    td_log_set_sink(NULL, NULL, TD_LOG_INFO);
    assert_int_equal(c.lines, N_THREADS * N_LINES + 1);
    assert_int_equal(c.overlaps, 0);
}

static void test_sink_can_be_replaced_while_others_log(void **state)
{
    (void)state;
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, name), 0);
    for (int i = 0; i < 100; ++i) {
        collected c = {0}; /* leaves the scope right after its sink is taken away */
        td_log_set_sink(collect_slowly, &c, TD_LOG_INFO);
        usleep(300);
        td_log_set_sink(NULL, NULL, TD_LOG_INFO);
        assert_int_equal(c.busy, 0);
        assert_int_equal(c.overlaps, 0);
    }
    for (int i = 0; i < N_THREADS; ++i)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_silent_without_a_sink, remove_sink),
        cmocka_unit_test_teardown(test_levels_past_the_limit_are_dropped, remove_sink),
        cmocka_unit_test_teardown(test_witness_gets_warnings_without_a_sink, remove_sink),
        cmocka_unit_test_teardown(test_once_is_said_once, remove_sink),
        cmocka_unit_test_teardown(test_long_lines_are_cut, remove_sink),
        cmocka_unit_test_teardown(test_threads_reach_the_sink_one_at_a_time, remove_sink),
        cmocka_unit_test_teardown(test_sink_can_be_replaced_while_others_log, remove_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
