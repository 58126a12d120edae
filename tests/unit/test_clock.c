/* Host clocks (src/base/clock.c). Only lower bounds are exact; upper ones are generous, for busy computers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"

enum { MS = 1000000 };

static void test_time_never_goes_back(void **state)
{
    (void)state;
    uint64_t first = td_clock_ns(), before = first;
    for (int i = 0; i < 10000; ++i) {
        uint64_t now = td_clock_ns();
        assert_true(now >= before);
        before = now;
    }
    assert_true(before > first);
    /* In nanoseconds: the same as the system's clock. */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t system_ns = (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
    assert_true(system_ns >= before && system_ns - before < 1000ull * MS);
}

static void test_sleep_reaches_the_deadline_without_work(void **state)
{
    (void)state;
    uint64_t cpu = td_clock_cpu_ns();
    uint64_t deadline = td_clock_ns() + 60 * MS;
    td_clock_sleep_until(deadline);
    uint64_t woke = td_clock_ns();
    assert_true(woke >= deadline);
    assert_true(woke - deadline < 2000ull * MS);
    assert_true(td_clock_cpu_ns() - cpu < 20 * MS);
    td_clock_sleep_until(deadline); /* in the past: returns */
    td_clock_sleep_until(0);
    assert_true(td_clock_ns() - woke < 2000ull * MS);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

static void test_sleep_goes_on_after_a_signal(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}, former;
    sigaction(SIGALRM, &action, &former);
    struct itimerval every = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 5000}};
    setitimer(ITIMER_REAL, &every, NULL);
    uint64_t deadline = td_clock_ns() + 60 * MS;
    td_clock_sleep_until(deadline);
    uint64_t woke = td_clock_ns();
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    sigaction(SIGALRM, &former, NULL);
    assert_true(woke >= deadline);
}

static void test_cpu_time_counts_work(void **state)
{
    (void)state;
    uint64_t cpu = td_clock_cpu_ns();
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < 20 * MS; ++i)
        sum = sum + i;
    assert_true(sum > 0);
    assert_true(td_clock_cpu_ns() - cpu > 1 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_never_goes_back),
        cmocka_unit_test(test_sleep_reaches_the_deadline_without_work),
        cmocka_unit_test(test_sleep_goes_on_after_a_signal),
        cmocka_unit_test(test_cpu_time_counts_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
