/* Blocking calls: submit and wait. For loading, saving, inspecting and measuring; steps must not wait.
 * Covered by tests/device/test_queue.c.
 */
#ifndef TD_DEVICE_BLOCKING_H
#define TD_DEVICE_BLOCKING_H

#include "tandem/queue.h"

/* Runs a list on its device's queue, and finishes it first if that is still to be done. *seconds (may be
 * NULL): from submitting to done. */
td_status td_blocking_run(td_list *list, double *seconds);

/* Copies between two spans of a device and its pinned host memory, of equal size. */
td_status td_blocking_copy(td_device *device, td_span to, td_span from);

/* to.bytes from host memory into a span; a span into host memory once `ready` is reached. Both go through
 * pinned memory that `memory` lends. */
td_status td_blocking_write(td_memory *memory, td_span to, const void *from);
td_status td_blocking_read(td_memory *memory, td_span from, td_point ready, void *to);

#endif
