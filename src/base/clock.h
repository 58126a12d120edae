/* Host clocks in nanoseconds. Device timestamps are mapped onto td_clock_ns() by the device layer.
 * Covered by tests/unit/test_clock.c.
 */
#ifndef TD_BASE_CLOCK_H
#define TD_BASE_CLOCK_H

#include <stdint.h>

/* Monotonic time; the zero point is arbitrary but the same for all threads of the process. */
uint64_t td_clock_ns(void);

/* CPU time used so far by all threads of the process. */
uint64_t td_clock_cpu_ns(void);

/* CPU time used so far by the calling thread. */
uint64_t td_clock_thread_ns(void);

/* Sleeps until td_clock_ns() has reached `deadline_ns`, through signals; returns at once if it has passed. */
void td_clock_sleep_until(uint64_t deadline_ns);

#endif
