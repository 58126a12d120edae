/* A wake-up that driver callbacks can fire at any time, even after the object that slept on it is gone: every
 * party holds a reference, the last one frees it. Callbacks do nothing but fire, so they may run under the
 * driver's own locks. Covered by tests/device/test_queue.c (waits) and tests/faults.
 */
#ifndef TD_OPENCL_CL_SIGNAL_H
#define TD_OPENCL_CL_SIGNAL_H

#include <stdint.h>

#include "tandem/status.h"

typedef struct td_cl_signal td_cl_signal;

/* *out: one reference, td_cl_signal_release(). */
td_status td_cl_signal_create(td_cl_signal **out);
td_cl_signal *td_cl_signal_retain(td_cl_signal *signal);
void td_cl_signal_release(td_cl_signal *signal); /* NULL is fine */

/* How often it has fired. Read it before looking at what the signal is about, then sleep on that count. */
uint64_t td_cl_signal_count(td_cl_signal *signal);

/* Wakes all sleepers and gives up one reference. */
void td_cl_signal_fire(td_cl_signal *signal);

/* Sleeps until it has fired more than `count` times, or until td_clock_ns() reaches deadline_ns. */
void td_cl_signal_sleep(td_cl_signal *signal, uint64_t count, uint64_t deadline_ns);

#endif
