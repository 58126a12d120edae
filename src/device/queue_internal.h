/* What device.c and list.c need of queue.c beyond the public header. */
#ifndef TD_DEVICE_QUEUE_INTERNAL_H
#define TD_DEVICE_QUEUE_INTERNAL_H

#include "device/backend.h"

/* Readies the generic part of a queue whose backend part exists. Cannot fail. */
void td_queue_start(td_queue *queue);

/* For a queue that has failed: returns when nothing of it uses a list, a buffer or a host task any more. A
 * point fails as soon as its failure is known, while earlier work of the queue may still be running. */
void td_queue_drain(td_queue *queue);

/* Lets everything queued run or fail, then ends the queue's thread. NULL and never-started are fine. */
void td_queue_stop(td_queue *queue);

#endif
