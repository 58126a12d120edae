/* Host clocks over clock_gettime(). Covered by tests/unit/test_clock.c. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t td_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t td_clock_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t td_clock_thread_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void td_clock_sleep_until(uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                             .tv_nsec = (long)(deadline_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}
