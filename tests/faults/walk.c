/* See walk.h. Leaks are looked for after each walk where the address sanitizer is there to do it. */
#include "walk.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

enum { HANG_SECONDS = 180 }; /* drivers compile in some of them, maybe on a busy computer */

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* ---------------------------------------------------------------- the fault itself */

static struct {
    atomic_bool armed, fired;
    atomic_uint_fast64_t calls;
    uint64_t n;
    bool for_ever;
    _Atomic(const char *) where;
} fault;

void walk_arm(uint64_t n, bool for_ever)
{
    fault.n = n;
    fault.for_ever = for_ever;
    atomic_store(&fault.calls, 0);
    atomic_store(&fault.fired, false);
    atomic_store(&fault.where, "");
    atomic_store(&fault.armed, true);
}

bool walk_disarm(void)
{
    atomic_store(&fault.armed, false);
    return atomic_load(&fault.fired);
}

bool walk_lasts(void)
{
    return fault.for_ever;
}

bool walk_fails(const char *call)
{
    if (!atomic_load(&fault.armed)) return false;
    const uint64_t number = atomic_fetch_add(&fault.calls, 1) + 1;
    if (number == fault.n) atomic_store(&fault.where, call);
    if (number != fault.n && !(fault.for_ever && number > fault.n)) return false;
    atomic_store(&fault.fired, true);
    return true;
}

/* ---------------------------------------------------------------- walking */

static char hang_message[160];

static volatile sig_atomic_t seconds_left;

/* Once a second; a process that was stopped gets one of them for all the time it was. */
static void report_hang(int signal_number)
{
    (void)signal_number;
    if (--seconds_left > 0) {
        alarm(1);
        return;
    }
    (void)!write(STDERR_FILENO, hang_message, strlen(hang_message));
    _exit(1);
}

static void check_outcome(const char *name, uint64_t n, bool fired, const td_error *outcome)
{
    const char *where = atomic_load(&fault.where);
    if (outcome->status == TD_OK) return;
    if (!fired) {
        fail_msg("%s: point %llu did not fire, but the run failed with %s: %s", name, (unsigned long long)n,
                 td_status_name(outcome->status), outcome->message);
    }
    if ((unsigned)outcome->status >= TD_STATUS_COUNT || !outcome->message[0] ||
        strchr(outcome->message, '\n')) {
        fail_msg("%s: point %llu (%s) gave %s with the message \"%s\"", name, (unsigned long long)n, where,
                 td_status_name(outcome->status), outcome->message);
    }
}

static bool try_point(const char *name, uint64_t n, walk_run run, const void *context, td_error *outcome)
{
    *outcome = (td_error){0};
    signal(SIGALRM, report_hang);
    snprintf(hang_message, sizeof hang_message, "%s: point %llu hangs\n", name, (unsigned long long)n);
    seconds_left = HANG_SECONDS;
    alarm(1);
    const bool fired = run(context, n, outcome);
    alarm(0);
    check_outcome(name, n, fired, outcome);
    return fired;
}

static void look_for_leaks(const char *name)
{
    if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) fail_msg("%s: leaks", name);
}

uint64_t walk_some_points(const char *name, uint64_t count, walk_run run, const void *context)
{
    const char *wish = getenv("TANDEM_FAULT_MOMENTS");
    const uint64_t begin_ns = td_clock_ns();
    td_error outcome;
    uint64_t failed = 0, tried = 0;
    (void)try_point(name, UINT64_MAX, run, context, &outcome);
    if (outcome.status != TD_OK) fail_msg("%s, undisturbed: %s", name, outcome.message);
    const uint64_t total = atomic_load(&fault.calls);
    if (wish) count = strtoull(wish, NULL, 10);
    if (count > total) count = total;
    assert_true(count > 0);
    const char *at = getenv("TANDEM_FAULT_AT");
    for (uint64_t i = 0; i < (at ? 1 : count); ++i) {
        const uint64_t n = at ? strtoull(at, NULL, 10) : total * i / count + total / count / 2 + 1;
        (void)try_point(name, n, run, context, &outcome);
        failed += outcome.status != TD_OK;
        ++tried;
    }
    print_message("%s: %llu of %llu points tried in %.1f s, %llu failed cleanly, %llu made no difference\n",
                  name, (unsigned long long)tried, (unsigned long long)total,
                  (double)(td_clock_ns() - begin_ns) * 1e-9, (unsigned long long)failed,
                  (unsigned long long)(tried - failed));
    look_for_leaks(name);
    return tried;
}

uint64_t walk_all_points(const char *name, uint64_t least, walk_run run, const void *context)
{
    const uint64_t begin_ns = td_clock_ns();
    uint64_t failed = 0, n = 0;
    bool fired = true;
    while (fired) {
        ++n;
        td_error outcome;
        fired = try_point(name, n, run, context, &outcome);
        failed += outcome.status != TD_OK;
    }
    print_message("%s: %llu points tried in %.1f s, %llu failed cleanly, %llu made no difference\n", name,
                  (unsigned long long)(n - 1), (double)(td_clock_ns() - begin_ns) * 1e-9,
                  (unsigned long long)failed, (unsigned long long)(n - 1 - failed));
    assert_true(n - 1 >= least);
    look_for_leaks(name);
    return n - 1;
}
