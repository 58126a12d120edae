/* Threads of the library: each logs where the thread that started it does (base/log.h). All are started here.
 * Covered by tests/unit/test_log.c.
 */
#ifndef TD_BASE_THREAD_H
#define TD_BASE_THREAD_H

#include <pthread.h>

#include "tandem/status.h"

/* Starts `run(argument)`. `what` names it in the failure's message: "the loader". The caller joins *out. */
td_status td_thread_start(pthread_t *out, const char *what, void *(*run)(void *), void *argument);

#endif
