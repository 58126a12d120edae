/* Timeline points over OpenCL events: which submissions are under way, waiting for one, when it ran.
 *
 * Nobody calls clWaitForEvents: drivers spin in it and it knows no time-out. A waiter has the driver call
 * back when the event completes and sleeps on the queue's signal. Some drivers do not call back for a command
 * that failed (PoCL 3.1), so a sleeper also looks for itself a few times a second. Covered by
 * tests/device/test_queue.c. */
#include <stdlib.h>

#include "base/clock.h"
#include "device/opencl/cl_error.h"
#include "device/opencl/opencl.h"

#define LOOK_AGAIN_NS UINT64_C(50000000)
#define FIRST_CAPACITY 16 /* a power of two, as all capacities are */

/* What PoCL gives commands that failed; as an error of a call the number means CL_DEVICE_NOT_FOUND. */
#define POCL_FAILED (-1)

/* ---------------------------------------------------------------- life */

td_status td_cl_queue_open(td_cl_device *device, td_queue_kind kind)
{
    td_cl_queue *queue = &device->queues[kind];
    td_status status = TD_OK;
    queue->base.device = &device->base;
    queue->base.kind = kind;
    TD_TRY(td_cl_signal_create(&queue->signal));
    pthread_mutex_init(&queue->mutex, NULL);
    TD_TRY(TD_NEW_ARRAY(&queue->flights, FIRST_CAPACITY));
    queue->capacity = FIRST_CAPACITY;
    TD_CL_MAKE(&queue->queue, device, clCreateCommandQueue, device->share->context, device->id,
               device->base.info.caps.timestamps ? CL_QUEUE_PROFILING_ENABLE : 0);
    device->base.queues[kind] = &queue->base;
fail:
    return status;
}

static td_cl_flight *flight_of(const td_cl_queue *queue, uint64_t value)
{
    return &queue->flights[value & (queue->capacity - 1)];
}

static void land(td_cl_queue *queue, uint64_t value)
{
    const td_cl_api *api = td_cl_device_of(queue->base.device)->api;
    td_cl_flight *flight = flight_of(queue, value);
    if (flight->first) (void)api->clReleaseEvent(flight->first);
    (void)api->clReleaseEvent(flight->last);
    *flight = (td_cl_flight){0};
}

void td_cl_queue_close(td_cl_queue *queue)
{
    if (!queue->signal) return; /* never opened */
    for (uint64_t value = queue->reached + 1; value <= queue->entered; value++)
        land(queue, value);
    if (queue->queue) (void)td_cl_device_of(queue->base.device)->api->clReleaseCommandQueue(queue->queue);
    free(queue->flights);
    pthread_mutex_destroy(&queue->mutex);
    td_cl_signal_release(queue->signal);
}

/* ---------------------------------------------------------------- flights */

static void note_times(td_cl_queue *queue, uint64_t value)
{
    const td_cl_api *api = td_cl_device_of(queue->base.device)->api;
    const td_cl_flight *flight = flight_of(queue, value);
    cl_ulong start = 0;
    cl_ulong end = 0;
    cl_int code = api->clGetEventProfilingInfo(flight->first ? flight->first : flight->last,
                                               CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
    if (code == CL_SUCCESS)
        code = api->clGetEventProfilingInfo(flight->last, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    queue->times[value % TD_TIMES_KEPT] =
        (td_cl_times){.value = value, .start_ns = start, .end_ns = end, .error = code};
}

/* Lets go of every submission that has finished. Mutex held. */
static td_status retire(td_cl_queue *queue)
{
    td_cl_device *device = td_cl_device_of(queue->base.device);
    while (queue->reached < queue->entered && queue->failure == CL_SUCCESS) {
        const uint64_t value = queue->reached + 1;
        cl_int state = CL_QUEUED;
        const cl_int code = device->api->clGetEventInfo(
            flight_of(queue, value)->last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (code != CL_SUCCESS) return TD_CL_FAIL(device, code, "clGetEventInfo");
        if (state > CL_COMPLETE) break;
        if (state < CL_COMPLETE) {
            queue->failure = state;
            break;
        }
        if (device->base.info.caps.timestamps) note_times(queue, value);
        land(queue, value);
        queue->reached = value;
    }
    return TD_OK;
}

/* What became of the queue's work. Mutex held, failure set. */
static td_status tell_failure(td_cl_queue *queue)
{
    td_device *device = queue->base.device;
    const cl_int code = queue->failure;
    const char *native = code == POCL_FAILED ? "CL_FAILED" : td_cl_error_name(code);
    if (td_cl_error_is_loss(code)) return td_device_mark_lost(device, native, "a submission");
    td_status status = td_cl_error_status(code);
    if (status != TD_ERR_CANCELLED && status != TD_ERR_DEVICE_MEMORY) status = TD_ERR_DRIVER;
    return TD_FAIL_NATIVE(
        status, native, "submission %llu of the %s queue of %s failed while running: %s (%d)",
        (unsigned long long)queue->reached + 1, queue->base.kind == TD_QUEUE_COMPUTE ? "compute" : "copy",
        device->info.name, native, code);
}

td_status td_cl_flight_reserve(td_cl_queue *queue)
{
    td_cl_flight *grown = NULL;
    td_status status = TD_OK;
    pthread_mutex_lock(&queue->mutex);
    TD_TRY(retire(queue));
    if (queue->failure != CL_SUCCESS) TD_TRY(tell_failure(queue));
    if (queue->entered - queue->reached == queue->capacity) {
        TD_TRY(TD_NEW_ARRAY(&grown, 2 * queue->capacity));
        for (uint64_t value = queue->reached + 1; value <= queue->entered; value++)
            grown[value & (2 * queue->capacity - 1)] = *flight_of(queue, value);
        free(queue->flights);
        queue->flights = grown;
        queue->capacity *= 2;
    }
fail:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

void td_cl_flight_add(td_cl_queue *queue, uint64_t value, cl_event first, cl_event last)
{
    pthread_mutex_lock(&queue->mutex);
    queue->entered = value;
    *flight_of(queue, value) = (td_cl_flight){.first = first, .last = last};
    pthread_mutex_unlock(&queue->mutex);
}

void td_cl_queue_tear(td_cl_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->torn = true;
    pthread_mutex_unlock(&queue->mutex);
}

bool td_cl_queue_is_idle(td_cl_queue *queue)
{
    if (!queue->queue) return true;
    pthread_mutex_lock(&queue->mutex);
    const bool idle = queue->reached == queue->entered && !queue->torn;
    pthread_mutex_unlock(&queue->mutex);
    return idle;
}

td_status td_cl_flight_event(td_cl_queue *queue, uint64_t value, cl_event *event)
{
    td_cl_device *device = td_cl_device_of(queue->base.device);
    td_status status = TD_OK;
    *event = NULL;
    pthread_mutex_lock(&queue->mutex);
    if (queue->reached < value) {
        TD_CL_TRY(device, clRetainEvent, flight_of(queue, value)->last);
        *event = flight_of(queue, value)->last;
    }
fail:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

/* ---------------------------------------------------------------- waiting */

static void CL_CALLBACK wake(cl_event event, cl_int state, void *signal)
{
    (void)event;
    (void)state;
    td_cl_signal_fire(signal);
}

/* Has the signal fire when the submission is done. The driver may call back at once, from here. Mutex held.
 */
static td_status watch(td_cl_queue *queue, td_cl_flight *flight)
{
    td_cl_device *device = td_cl_device_of(queue->base.device);
    if (flight->watched) return TD_OK;
    const cl_int code =
        device->api->clSetEventCallback(flight->last, CL_COMPLETE, wake, td_cl_signal_retain(queue->signal));
    if (code != CL_SUCCESS) {
        td_cl_signal_release(queue->signal);
        return TD_CL_FAIL(device, code, "clSetEventCallback");
    }
    flight->watched = true;
    return TD_OK;
}

/* TD_OK when the value is reached, TD_ERR_TIMEOUT when not yet, else its failure. */
static td_status look(td_cl_queue *queue, uint64_t value, bool will_sleep)
{
    td_status status = TD_OK;
    pthread_mutex_lock(&queue->mutex);
    if (queue->reached < value) {
        TD_TRY(retire(queue));
        if (queue->reached < value) {
            if (queue->failure != CL_SUCCESS) TD_TRY(tell_failure(queue));
            if (will_sleep) TD_TRY(watch(queue, flight_of(queue, value)));
            status = TD_ERR_TIMEOUT;
        }
    }
fail:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

td_status td_cl_wait(td_queue *base, uint64_t value, uint64_t timeout_ns)
{
    td_cl_queue *queue = td_cl_queue_of(base);
    const uint64_t start_ns = td_clock_ns();
    const uint64_t deadline_ns = timeout_ns < UINT64_MAX - start_ns ? start_ns + timeout_ns : UINT64_MAX;
    for (;;) {
        const bool lost = atomic_load(&base->device->lost);
        const uint64_t count = td_cl_signal_count(queue->signal);
        const td_status status = look(queue, value, timeout_ns > 0);
        if (status != TD_ERR_TIMEOUT) return status;
        const uint64_t now_ns = td_clock_ns();
        if (now_ns >= deadline_ns) return TD_ERR_TIMEOUT;
        const uint64_t until_ns = now_ns + LOOK_AGAIN_NS;
        td_cl_signal_sleep(queue->signal, count, until_ns < deadline_ns ? until_ns : deadline_ns);
        /* A lost device had one more nap's time to finish what it was given. */
        if (lost) return td_device_tell_lost(base->device);
    }
}

bool td_cl_can_wait(const td_queue *waiter, const td_queue *signaller)
{
    return waiter->device->share_group && waiter->device->share_group == signaller->device->share_group;
}

/* ---------------------------------------------------------------- times */

td_status td_cl_times_get(td_queue *base, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    td_cl_queue *queue = td_cl_queue_of(base);
    td_cl_times times;
    td_status status = TD_OK;
    pthread_mutex_lock(&queue->mutex);
    status = retire(queue);
    times = queue->times[value % TD_TIMES_KEPT];
    pthread_mutex_unlock(&queue->mutex);
    if (status != TD_OK) return status;
    if (times.value != value || times.error == CL_PROFILING_INFO_NOT_AVAILABLE) {
        return TD_FAIL(TD_ERR_NOT_FOUND, "the times of submission %llu on %s are not known",
                       (unsigned long long)value, base->device->info.name);
    }
    if (times.error != CL_SUCCESS)
        return TD_CL_FAIL(td_cl_device_of(base->device), times.error, "clGetEventProfilingInfo");
    *start_ns = times.start_ns;
    *end_ns = times.end_ns;
    return TD_OK;
}
