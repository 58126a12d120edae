/* See walk.h. Leaks are looked for where the address sanitizer is there to do it. */
#include "walk.h"

#include <inttypes.h>
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
#include "places.h"
#include "support/share.h"

enum {
    HANG_SECONDS = 180, /* drivers compile in some of them, maybe on a busy computer */
    PROGRESS_SECONDS = 60,
    MISSES = 4, /* of a place's last call, before it counts as not met */
};

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* ---------------------------------------------------------------- the fault itself */

static struct {
    atomic_bool armed, fired;
    atomic_uint_fast64_t calls;
    uint64_t n;
    bool for_ever;
    bool by_place;  /* n counts the calls from `place` alone */
    uint64_t place; /* 0: none, all are counted and none fails */
    const char *place_call;
    _Atomic(const char *) where;
} fault;

void walk_arm(uint64_t n, bool for_ever)
{
    fault.n = n;
    fault.for_ever = for_ever;
    if (fault.by_place) places_restart();
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

/* Finding out the place takes longer than most calls: only for those that it matters for. */
static bool is_chosen(const char *call, const void *layer)
{
    uint64_t number = atomic_fetch_add(&fault.calls, 1) + 1;
    if (fault.by_place) {
        if (fault.place && (strcmp(call, fault.place_call) != 0 || atomic_load(&fault.fired))) return false;
        if (places_note(call, layer, &number) != fault.place) return false;
    }
    return number == fault.n;
}

bool walk_fails(const char *call)
{
    if (!atomic_load(&fault.armed)) return false;
    if (!is_chosen(call, __builtin_return_address(0))) return fault.for_ever && atomic_load(&fault.fired);
    atomic_store(&fault.where, call);
    atomic_store(&fault.fired, true);
    return true;
}

/* ---------------------------------------------------------------- one point */

/* The point that is being tried, as a line; "" between two of them. */
static char trying[2048];

static void tell_point(void)
{
    (void)!write(STDERR_FILENO, trying, strlen(trying));
    trying[0] = '\0';
}

static volatile sig_atomic_t seconds_left;

/* Once a second; a process that was stopped gets one of them for all the time it was. */
static void report_hang(int signal_number)
{
    static const char HANGS[] = "hangs: ";
    (void)signal_number;
    if (--seconds_left > 0) {
        alarm(1);
        return;
    }
    (void)!write(STDERR_FILENO, HANGS, strlen(HANGS));
    tell_point();
    _exit(1);
}

static void report_abort(int signal_number)
{
    tell_point();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* However a test ends in the middle of a point, the point is told: a failed assertion and a crash come back
 * to cmocka, which lets the program go on to its end or to the next walk. */
static void watch(void)
{
    static bool watching;
    if (!watching) atexit(tell_point);
    if (!watching && __sanitizer_set_death_callback) __sanitizer_set_death_callback(tell_point);
    watching = true;
    tell_point();
    signal(SIGABRT, report_abort);
    signal(SIGALRM, report_hang);
    seconds_left = HANG_SECONDS;
    alarm(1);
}

static void name_point(const char *name, uint64_t n)
{
    if (!fault.by_place || !fault.place) {
        snprintf(trying, sizeof trying, "%s: TANDEM_FAULT_AT=%" PRIu64 "\n", name, n);
        return;
    }
    char lines[1536];
    const place at = places_get(places_find(fault.place));
    places_describe(&at, lines, sizeof lines);
    snprintf(trying, sizeof trying, "%s: %s, TANDEM_FAULT_AT=%" PRIx64 ":%" PRIu64 "; its place:\n%s\n", name,
             at.call, at.id, n, lines);
}

static void check_outcome(const char *name, bool fired, const td_error *outcome)
{
    const char *where = atomic_load(&fault.where);
    if (outcome->status == TD_OK) return;
    if (!fired) {
        fail_msg("%s: the fault was not met, but the run failed with %s: %s", name,
                 td_status_name(outcome->status), outcome->message);
    }
    if ((unsigned)outcome->status >= TD_STATUS_COUNT || !outcome->message[0] ||
        strchr(outcome->message, '\n')) {
        fail_msg("%s: a failure of %s gave %s with the message \"%s\"", name, where,
                 td_status_name(outcome->status), outcome->message);
    }
}

static void look_for_leaks(const char *name)
{
    if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) fail_msg("%s: leaks", name);
}

static bool try_point(const char *name, uint64_t n, walk_run run, const void *context, td_error *outcome)
{
    *outcome = (td_error){0};
    watch();
    name_point(name, n);
    places_begin();
    const bool fired = run(context, n, outcome);
    alarm(0);
    check_outcome(name, fired, outcome);
    if (fault.by_place) look_for_leaks(name);
    trying[0] = '\0';
    return fired;
}

static void run_undisturbed(const char *name, walk_run run, const void *context)
{
    td_error outcome;
    (void)try_point(name, UINT64_MAX, run, context, &outcome);
    if (outcome.status != TD_OK) fail_msg("%s, undisturbed: %s", name, outcome.message);
}

/* ---------------------------------------------------------------- walking */

/* What a walk has found so far. */
typedef struct tally {
    uint64_t begin_ns;
    uint64_t tried, failed, missed;
} tally;

static void count_outcome(tally *t, bool fired, const td_error *outcome)
{
    ++t->tried;
    t->failed += outcome->status != TD_OK;
    t->missed += !fired;
}

static void print_tally(const char *name, const char *of_what, const tally *t)
{
    print_message("%s: %s%" PRIu64 " points tried in %.1f s, %" PRIu64 " failed cleanly, %" PRIu64
                  " made no difference, %" PRIu64 " not met\n",
                  name, of_what, t->tried, (double)(td_clock_ns() - t->begin_ns) * 1e-9, t->failed,
                  t->tried - t->failed - t->missed, t->missed);
}

uint64_t walk_all_points(const char *name, uint64_t least, walk_run run, const void *context)
{
    tally t = {.begin_ns = td_clock_ns()};
    const uint64_t share = test_share();
    td_error outcome;
    fault.by_place = false;
    while (try_point(name, share * t.tried + 1, run, context, &outcome))
        count_outcome(&t, true, &outcome);
    print_tally(name, "", &t);
    assert_true(t.tried >= least / share);
    look_for_leaks(name);
    return t.tried;
}

uint64_t walk_some_points(const char *name, uint64_t count, walk_run run, const void *context)
{
    const char *wish = getenv("TANDEM_FAULT_MOMENTS"), *at = getenv("TANDEM_FAULT_AT");
    if ((wish && strcmp(wish, "places") == 0) || (at && strchr(at, ':')))
        return walk_places(name, run, context);
    tally t = {.begin_ns = td_clock_ns()};
    char of_what[64];
    fault.by_place = false;
    run_undisturbed(name, run, context);
    const uint64_t total = atomic_load(&fault.calls);
    if (wish) count = strtoull(wish, NULL, 10);
    if (count > total) count = total;
    assert_true(count > 0);
    for (uint64_t i = 0; i < (at ? 1 : count); ++i) {
        const uint64_t n = at ? strtoull(at, NULL, 10) : total * i / count + total / count / 2 + 1;
        td_error outcome;
        const bool fired = try_point(name, n, run, context, &outcome);
        count_outcome(&t, fired, &outcome);
    }
    snprintf(of_what, sizeof of_what, "%" PRIu64 " calls, ", total);
    print_tally(name, of_what, &t);
    look_for_leaks(name);
    return t.tried;
}

/* ---------------------------------------------------------------- walking from place to place */

typedef struct point {
    uint64_t place, n;
} point;

/* The first and the last call from each place of the run that was just counted; owned. */
static point *list_points(size_t *n_places, size_t *count)
{
    point *points = calloc(2 * places_count() + 1, sizeof *points);
    assert_non_null(points);
    *n_places = *count = 0;
    for (size_t i = 0; i < places_count(); ++i) {
        const place at = places_get(i);
        *n_places += at.calls > 0;
        if (at.calls > 0) points[(*count)++] = (point){at.id, 1};
        if (at.calls > 1) points[(*count)++] = (point){at.id, at.calls};
    }
    return points;
}

static point parse_point(const char *text)
{
    char *end;
    const uint64_t id = strtoull(text, &end, 16);
    assert_int_equal(*end, ':');
    return (point){id, strtoull(end + 1, NULL, 10)};
}

/* A run in which fewer calls come from the place than before has its last call earlier: once more, with that
 * one. */
static void try_call(const char *name, point at, walk_run run, const void *context, tally *t)
{
    td_error outcome;
    bool fired = false;
    const size_t index = places_find(at.place);
    if (index == places_count()) fail_msg("%s: no call comes from place %" PRIx64, name, at.place);
    fault.place = at.place;
    fault.place_call = places_get(index).call;
    for (int i = 0; i < MISSES && !fired; ++i) {
        fired = try_point(name, at.n, run, context, &outcome);
        if (!fired) at.n = places_get(index).calls > 0 ? places_get(index).calls : 1;
    }
    count_outcome(t, fired, &outcome);
}

static void tell_progress(const char *name, const tally *t, size_t count)
{
    static uint64_t last_s;
    const uint64_t now_s = (td_clock_ns() - t->begin_ns) / 1000000000;
    if (t->tried > 1 && now_s / PROGRESS_SECONDS == last_s / PROGRESS_SECONDS) return;
    last_s = now_s;
    print_message("%s: %" PRIu64 " of %zu points after %" PRIu64 " s\n", name, t->tried, count, now_s);
}

uint64_t walk_places(const char *name, walk_run run, const void *context)
{
    const char *only = getenv("TANDEM_FAULT_AT"), *from = getenv("TANDEM_FAULT_FROM");
    tally t = {.begin_ns = td_clock_ns()};
    char of_what[96];
    size_t n_places, count;
    fault.by_place = true;
    fault.place = 0;
    run_undisturbed(name, run, context);
    const uint64_t total = atomic_load(&fault.calls);
    point *points = list_points(&n_places, &count);
    assert_true(count > 0);
    if (only) {
        points[0] = parse_point(only);
        count = 1;
    }
    for (size_t i = from ? strtoull(from, NULL, 10) : 0; i < count; ++i) {
        try_call(name, points[i], run, context, &t);
        tell_progress(name, &t, count);
    }
    free(points);
    snprintf(of_what, sizeof of_what, "%zu places, %" PRIu64 " calls, ", n_places, total);
    print_tally(name, of_what, &t);
    assert_true(t.missed <= t.tried / 10); /* threads may take another way, but not often */
    return t.tried;
}
