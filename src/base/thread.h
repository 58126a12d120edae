/* Threads of the library: each logs where the thread that started it does (base/log.h). All are started here; and
 * conditions they wait for.
 * Covered by tests/unit/test_log.c.
 */
#ifndef TD_BASE_THREAD_H
#define TD_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tandem/status.h"

/* Starts `run(argument)`. `what` names it in the failure's message: "the loader". The caller joins *out. */
td_status td_thread_start(pthread_t *out, const char *what, void *(*run)(void *), void *argument);

/* A condition whose waits end by td_clock_ns(). Closed by pthread_cond_destroy(). */
void td_condition_open(pthread_cond_t *out);

/* As pthread_cond_timedwait(); false once the time has passed. */
bool td_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns);

#endif
