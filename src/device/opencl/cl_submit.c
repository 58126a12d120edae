/* Replays a compiled list: one driver call per step and nothing else in the loop, so that the host's cost is
 * the driver's. Only the first and the last command get an event. Covered by tests/device/test_queue.c;
 * `tandem bench submit` compares it with a bare loop. */
#include "device/opencl/cl_error.h"
#include "device/opencl/opencl.h"

/* How far a submission came. */
typedef struct progress {
    cl_event first, last; /* owned; NULL where not made */
    bool started;         /* the driver has some of it, and will run that */
    const char *call;     /* the last one made */
} progress;

static const char *const CALLS[] = {
    [TD_CL_KERNEL] = "clEnqueueNDRangeKernel", [TD_CL_COPY] = "clEnqueueCopyBuffer",
    [TD_CL_READ] = "clEnqueueReadBuffer",      [TD_CL_WRITE] = "clEnqueueWriteBuffer",
    [TD_CL_FILL] = "clEnqueueFillBuffer",      [TD_CL_NATIVE] = "a library's call",
};

static cl_int enqueue(const td_cl_api *api, cl_command_queue queue, const td_cl_step *step, cl_uint n_waits,
                      const cl_event *waits, cl_event *event)
{
    switch (step->kind) {
    case TD_CL_KERNEL:
        return api->clEnqueueNDRangeKernel(queue, step->kernel, 3, NULL, step->global, step->local, n_waits,
                                           waits, event);
    case TD_CL_COPY:
        return api->clEnqueueCopyBuffer(queue, step->source, step->destination, step->source_offset,
                                        step->destination_offset, step->bytes, n_waits, waits, event);
    case TD_CL_READ:
        return api->clEnqueueReadBuffer(queue, step->source, CL_FALSE, step->source_offset, step->bytes,
                                        step->host, n_waits, waits, event);
    case TD_CL_WRITE:
        return api->clEnqueueWriteBuffer(queue, step->destination, CL_FALSE, step->destination_offset,
                                         step->bytes, step->host, n_waits, waits, event);
    case TD_CL_FILL:
        return api->clEnqueueFillBuffer(queue, step->destination, &step->word, sizeof step->word,
                                        step->destination_offset, step->bytes, n_waits, waits, event);
    case TD_CL_NATIVE:
        break;
    }
    return CL_INVALID_VALUE;
}

/* Such a call takes no wait list and gives no event of its own: barriers before and after it do. */
static cl_int enqueue_native(const td_cl_device *device, cl_command_queue queue, const td_cl_call *call,
                             cl_uint n_waits, const cl_event *waits, cl_event *first, cl_event *last)
{
    cl_int code = CL_SUCCESS;
    if (n_waits || first) code = device->api->clEnqueueBarrierWithWaitList(queue, n_waits, waits, first);
    if (code == CL_SUCCESS) code = call->native->enqueue(device, queue, call->mems, call->params);
    if (code == CL_SUCCESS && last) code = device->api->clEnqueueBarrierWithWaitList(queue, 0, NULL, last);
    return code;
}

static cl_int replay(const td_cl_device *device, cl_command_queue queue, const td_cl_list *list,
                     cl_uint n_waits, const cl_event *waits, progress *at)
{
    const td_cl_api *api = device->api;
    const td_cl_step *const end = list->steps + list->n_steps;
    cl_event *event = list->n_steps > 1 && device->base.info.caps.timestamps ? &at->first : NULL;
    for (const td_cl_step *step = list->steps; step < end; step++) {
        if (step->starts_segment) {
            at->call = "clFlush";
            const cl_int code = api->clFlush(queue);
            if (code != CL_SUCCESS) return code;
        }
        at->call = CALLS[step->kind];
        cl_event *last = step + 1 == end ? &at->last : NULL;
        const cl_int code = step->kind == TD_CL_NATIVE
                                ? enqueue_native(device, queue, step->call, n_waits, waits, event, last)
                                : enqueue(api, queue, step, n_waits, waits, last ? last : event);
        if (code != CL_SUCCESS) return code;
        at->started = true;
        n_waits = 0;
        waits = NULL;
        event = NULL;
    }
    return CL_SUCCESS;
}

static cl_int run(const td_cl_device *device, cl_command_queue queue, const td_cl_list *list, cl_uint n_waits,
                  const cl_event *waits, progress *at)
{
    cl_int code;
    if (list && list->n_steps) {
        code = replay(device, queue, list, n_waits, waits, at);
    } else {
        at->call = "clEnqueueBarrierWithWaitList";
        code = device->api->clEnqueueBarrierWithWaitList(queue, n_waits, waits, &at->last);
        at->started = code == CL_SUCCESS;
    }
    if (code != CL_SUCCESS) return code;
    at->call = "clFlush";
    return device->api->clFlush(queue);
}

static td_status collect_waits(const td_queue *queue, const td_native_submission *submission,
                               cl_event *events, cl_uint *n_events)
{
    TD_REFUSE_IF(submission->n_waits > TD_MAX_NATIVE_WAITS, TD_ERR_ARGUMENT,
                 "a submission waits for %zu points; %d is the most", submission->n_waits,
                 TD_MAX_NATIVE_WAITS);
    for (size_t i = 0; i < submission->n_waits; i++) {
        const td_point point = submission->waits[i];
        if (point.queue == queue) continue; /* in order anyway */
        TD_CHECK(td_cl_flight_event(td_cl_queue_of(point.queue), point.value, &events[*n_events]));
        if (events[*n_events]) (*n_events)++;
    }
    return TD_OK;
}

static void release_events(const td_cl_api *api, const cl_event *events, cl_uint n_events)
{
    for (cl_uint i = 0; i < n_events; i++)
        if (events[i]) (void)api->clReleaseEvent(events[i]);
}

td_status td_cl_submit(td_queue *base, const td_native_submission *submission)
{
    td_cl_queue *queue = td_cl_queue_of(base);
    td_cl_device *device = td_cl_device_of(base->device);
    td_cl_list *list = submission->list ? submission->list->native : NULL;
    cl_event waits[TD_MAX_NATIVE_WAITS];
    cl_uint n_waits = 0;
    progress at = {0};
    td_status status = TD_OK;
    TD_TRY(td_cl_flight_reserve(queue));
    TD_TRY(collect_waits(base, submission, waits, &n_waits));
    const cl_int code = run(device, queue->queue, list, n_waits, n_waits ? waits : NULL, &at);
    if (code == CL_SUCCESS) {
        td_cl_flight_add(queue, submission->value, at.first, at.last);
    } else {
        /* Half a list cannot be taken back, and its results are not to be trusted. */
        if (at.started) td_cl_queue_tear(queue);
        status = at.started ? td_device_mark_lost(&device->base, td_cl_error_name(code), at.call)
                            : TD_CL_FAIL(device, code, at.call);
        const cl_event made[] = {at.first, at.last};
        release_events(device->api, made, 2);
    }
fail:
    release_events(device->api, waits, n_waits);
    return status;
}
