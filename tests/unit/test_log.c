/* Levels, contexts, once-flags, threads that inherit a context (src/base/log.c, src/base/thread.c). */
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
#include "base/thread.h"

typedef struct {
    int lines;
    int busy; /* not atomic on purpose: the sink is promised to run alone */
    int overlaps;
    char *name;  /* how lines begin; NULL: anyhow */
    int foreign; /* lines that begin otherwise */
    td_log_level level;
    char text[4096];
} collected;

static void collect(void *ctx, td_log_level level, const char *message)
{
    collected *c = ctx;
    c->overlaps += c->busy++;
    c->lines++;
    c->level = level;
    if (c->name && strcmp(message, "once") != 0 && strncmp(message, c->name, strlen(c->name)) != 0)
        c->foreign++;
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

static td_log_context *open_log(td_log_sink sink, void *ctx, td_log_level max_level, td_log_context *outer)
{
    td_log_context *log;
    assert_int_equal(td_log_open(sink, ctx, max_level, outer, &log), TD_OK);
    td_log_bind(log);
    return log;
}

static void test_silent_without_a_context(void **state)
{
    (void)state;
    collected c = {0};
    td_log_error("nobody listens");
    td_log_context *log = open_log(collect, &c, TD_LOG_DEBUG, NULL);
    td_log_error("one");
    assert_ptr_equal(td_log_bind(NULL), log);
    td_log_error("two");
    td_log_bind(log);
    td_log_close(log);
    assert_null(td_log_bound());
    td_log_error("three");
    assert_int_equal(c.lines, 1);
    assert_string_equal(c.text, "one");
}

static void test_levels_past_the_limit_are_dropped(void **state)
{
    (void)state;
    collected c = {0};
    td_log_context *log = open_log(collect, &c, TD_LOG_WARN, NULL);
    td_log_error("a %d", 1);
    assert_int_equal(c.level, TD_LOG_ERROR);
    td_log_warn("b %s", "two");
    assert_int_equal(c.level, TD_LOG_WARN);
    td_log_info("c");
    td_log_debug("d");
    td_log_close(log);
    assert_int_equal(c.lines, 2);
    assert_string_equal(c.text, "b two");
    assert_string_equal(td_log_level_name(TD_LOG_WARN), "warning");
    assert_string_equal(td_log_level_name((td_log_level)99), "unknown");
}

/* A run keeps warnings while the program shows everything; what comes after it reaches the program alone. */
static void test_an_inner_context_gets_lines_beside_the_outer_one(void **state)
{
    (void)state;
    collected shown = {0}, kept = {0};
    td_log_context *outer = open_log(collect, &shown, TD_LOG_INFO, NULL);
    td_log_context *inner = open_log(collect, &kept, TD_LOG_WARN, outer);
    td_log_info("shown");
    td_log_warn("kept %d", 1);
    td_log_close(inner);
    assert_ptr_equal(td_log_bound(), outer);
    td_log_warn("later");
    td_log_close(outer);
    assert_int_equal(shown.lines, 3);
    assert_int_equal(kept.lines, 1);
    assert_string_equal(kept.text, "kept 1");
}

static void test_once_is_said_once(void **state)
{
    (void)state;
    collected c = {0};
    td_log_once_flag flag = {0}, other = {0};
    td_log_once(&flag, TD_LOG_WARN, "unheard"); /* no sink: does not count */
    td_log_context *log = open_log(collect, &c, TD_LOG_WARN, NULL);
    td_log_once(&flag, TD_LOG_INFO, "too detailed"); /* nor does this */
    for (int i = 0; i < 3; ++i)
        td_log_once(&flag, TD_LOG_WARN, "heard %d", i);
    assert_int_equal(c.lines, 1);
    assert_string_equal(c.text, "heard 0");
    td_log_once(&other, TD_LOG_WARN, "another flag");
    assert_int_equal(c.lines, 2);
    td_log_close(log);
}

static void test_long_lines_are_cut(void **state)
{
    (void)state;
    collected c = {0};
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    td_log_context *log = open_log(collect, &c, TD_LOG_INFO, NULL);
    td_log_info("%s", text);
    td_log_close(log);
    assert_in_range(strlen(c.text), 1000, 3000);
}

enum { N_THREADS = 4, N_LINES = 500 };

static td_log_once_flag shared_flag;

static void *log_much(void *arg)
{
    for (int i = 0; i < N_LINES; ++i)
        td_log_info("%s line %d", (const char *)arg, i);
    td_log_once(&shared_flag, TD_LOG_INFO, "once");
    return NULL;
}

/* Each of two programs has its own context and starts threads of its own. */
static void *log_from_threads(void *arg)
{
    collected *c = arg;
    pthread_t threads[N_THREADS];
    td_log_context *log = open_log(collect, c, TD_LOG_INFO, NULL);
    for (int i = 0; i < N_THREADS; ++i)
        assert_int_equal(td_thread_start(&threads[i], "a test", log_much, c->name), TD_OK);
    for (int i = 0; i < N_THREADS; ++i)
        pthread_join(threads[i], NULL);
    td_log_close(log);
    return NULL;
}

static void test_threads_inherit_and_reach_the_sink_one_at_a_time(void **state)
{
    (void)state;
    char names[2][8] = {"first", "second"};
    collected programs[2] = {{.name = names[0]}, {.name = names[1]}};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, log_from_threads, &programs[i]), 0);
    for (int i = 0; i < 2; ++i)
        pthread_join(threads[i], NULL);
    int once = 0;
    for (int i = 0; i < 2; ++i) {
        once += programs[i].lines - N_THREADS * N_LINES;
        assert_int_equal(programs[i].overlaps, 0);
        assert_int_equal(programs[i].foreign, 0);
    }
    assert_int_equal(once, 1);
}

static void *log_until(void *arg)
{
    atomic_bool *stop = arg;
    while (!atomic_load(stop))
        td_log_info("line");
    td_log_info("the last");
    return NULL;
}

/* A thread may outlive the context it was started with: it then logs to the outer one. */
static void test_a_context_can_be_closed_while_threads_log(void **state)
{
    (void)state;
    for (int i = 0; i < 30; ++i) {
        collected left = {0}, c = {0};
        pthread_t threads[N_THREADS];
        atomic_bool stop = false;
        td_log_context *outer = open_log(collect, &left, TD_LOG_INFO, NULL);
        td_log_context *log = open_log(collect_slowly, &c, TD_LOG_INFO, outer);
        for (int t = 0; t < N_THREADS; ++t)
            assert_int_equal(td_thread_start(&threads[t], "a test", log_until, &stop), TD_OK);
        usleep(300);
        td_log_close(log);
        assert_int_equal(c.busy, 0);
        assert_int_equal(c.overlaps, 0);
        atomic_store(&stop, true);
        for (int t = 0; t < N_THREADS; ++t)
            pthread_join(threads[t], NULL);
        td_log_close(outer);
        assert_true(left.lines >= N_THREADS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_without_a_context),
        cmocka_unit_test(test_levels_past_the_limit_are_dropped),
        cmocka_unit_test(test_an_inner_context_gets_lines_beside_the_outer_one),
        cmocka_unit_test(test_once_is_said_once),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_threads_inherit_and_reach_the_sink_one_at_a_time),
        cmocka_unit_test(test_a_context_can_be_closed_while_threads_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
