/* A reference-counted condition variable with a counter. See cl_signal.h. */
#include "device/opencl/cl_signal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/thread.h"

struct td_cl_signal {
    atomic_uint references;
    pthread_mutex_t mutex;
    pthread_cond_t fired;
    uint64_t count;
};

td_status td_cl_signal_create(td_cl_signal **out)
{
    const td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    td_condition_open(&(*out)->fired);
    pthread_mutex_init(&(*out)->mutex, NULL);
    atomic_init(&(*out)->references, 1);
    return TD_OK;
}

td_cl_signal *td_cl_signal_retain(td_cl_signal *signal)
{
    atomic_fetch_add(&signal->references, 1);
    return signal;
}

void td_cl_signal_release(td_cl_signal *signal)
{
    if (!signal || atomic_fetch_sub(&signal->references, 1) != 1) return;
    pthread_cond_destroy(&signal->fired);
    pthread_mutex_destroy(&signal->mutex);
    free(signal);
}

uint64_t td_cl_signal_count(td_cl_signal *signal)
{
    pthread_mutex_lock(&signal->mutex);
    const uint64_t count = signal->count;
    pthread_mutex_unlock(&signal->mutex);
    return count;
}

void td_cl_signal_fire(td_cl_signal *signal)
{
    pthread_mutex_lock(&signal->mutex);
    signal->count++;
    pthread_cond_broadcast(&signal->fired);
    pthread_mutex_unlock(&signal->mutex);
    td_cl_signal_release(signal);
}

void td_cl_signal_sleep(td_cl_signal *signal, uint64_t count, uint64_t deadline_ns)
{
    pthread_mutex_lock(&signal->mutex);
    while (signal->count <= count)
        if (!td_condition_wait(&signal->fired, &signal->mutex, deadline_ns)) break;
    pthread_mutex_unlock(&signal->mutex);
}
