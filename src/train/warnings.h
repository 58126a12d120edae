/* Warnings of a run, from whichever thread and level they come, kept until the loop tells them as events.
 * While one is open it receives what the thread that opened it logs, and the threads it starts (base/log.h).
 * Covered by tests/faults/test_events.py.
 */
#ifndef TD_TRAIN_WARNINGS_H
#define TD_TRAIN_WARNINGS_H

#include <stdbool.h>

#include "tandem/status.h"

enum { TD_WARNING_BYTES = 512 };

typedef struct td_warnings td_warnings;

/* *out: owned, td_warnings_close() on the same thread. */
td_status td_warnings_open(td_warnings **out);
void td_warnings_close(td_warnings *warnings);

/* The oldest that was not taken yet; false: none. Of a flood between two calls only the first are kept. */
bool td_warnings_take(td_warnings *warnings, char out[TD_WARNING_BYTES]);

#endif
