/* The simulated device from inside: what its files share. Nothing outside device/sim includes this.
 *
 *   sim_backend.c  what the registry sees: probe, open, close
 *   sim_memory.c   buffers that truly hold their bytes
 *   sim_queue.c    one worker per queue that copies truly and takes modelled time
 *   sim_model.c    the numbers and the fault script
 *
 * Devices opened together form a group, which stands for a driver context: one lock, one condition, the
 * counts of the fault script, and the queues. Queues stay in memory until the group's last device is closed,
 * so that work which waits for a point of a device closed too early is cancelled instead of reading freed
 * memory. Covered by tests/device/test_sim.c and tests/faults/test_faults_sim.c.
 */
#ifndef TD_DEVICE_SIM_SIM_H
#define TD_DEVICE_SIM_SIM_H

#include "device/backend.h"
#include "device/sim/sim_model.h"

typedef struct sim_queue sim_queue;

typedef struct sim_group {
    sim_model model;
    pthread_mutex_t mutex;  /* guards all below, and every queue's state */
    pthread_cond_t changed; /* CLOCK_MONOTONIC; signalled on new work, reached values, failures and stops */
    size_t holders;         /* open devices, and whoever is opening them */
    sim_queue **queues;     /* owned, and so are they */
    size_t n_queues, queue_capacity;
    struct {
        uint64_t fail_alloc, lose_submit, fail_wait, fail_compile;
    } calls; /* so far, of each kind that the model can fail */
} sim_group;

typedef struct sim_device {
    td_device base;
    sim_group *group;    /* shared; freed by its last device */
    uint64_t used_bytes; /* DEVICE memory handed out; guarded by the group's mutex */
} sim_device;

typedef struct sim_buffer {
    td_buffer base;
    unsigned char *storage; /* owned, unless imported */
} sim_buffer;

/* sim_queue.c. Starts a worker; *out belongs to the group. */
td_status td_sim_queue_start(sim_device *device, td_queue_kind kind, td_queue **out);

/* Ends the worker; work not yet done is given up, and the points it would have reached have failed. */
void td_sim_queue_stop(td_queue *queue);

td_status td_sim_submit(td_queue *queue, const td_native_submission *submission);
td_status td_sim_wait(td_queue *queue, uint64_t value, uint64_t timeout_ns);
bool td_sim_can_wait(const td_queue *waiter, const td_queue *signaller);
td_status td_sim_times(td_queue *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);

/* sim_memory.c */
td_status td_sim_buffer_create(td_device *device, td_memory_kind kind, uint64_t bytes, td_buffer **out);
td_status td_sim_buffer_import(td_device *device, void *host, uint64_t bytes, td_buffer **out);
void td_sim_buffer_destroy(td_buffer *buffer);

/* Counts one call of a kind; true, and a line in the log, when the model fails this one. Mutex held. */
#define SIM_FAULT_FIRES(group, fault) td_sim_fault_fires(&(group)->calls.fault, (group)->model.fault, #fault)
bool td_sim_fault_fires(uint64_t *calls, uint64_t fatal, const char *fault);

#endif
