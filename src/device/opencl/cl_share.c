/* The context that devices opened together share, and what concerns them all: taking back mapped memory that
 * any of their queues may still be using. Covered by tests/device/test_memory.c and tests/faults. */
#include <stdlib.h>

#include "base/log.h"
#include "device/opencl/opencl.h"

static void CL_CALLBACK log_notice(const char *text, const void *detail, size_t detail_bytes, void *context)
{
    (void)detail;
    (void)detail_bytes;
    (void)context;
    td_log_debug("OpenCL driver: %s", text);
}

td_status td_cl_share_create(td_cl_device *first, cl_platform_id platform, const cl_device_id *ids,
                             cl_uint count, td_cl_share **out)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    td_cl_share *share = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&share));
    share->api = first->api;
    atomic_init(&share->references, 1);
    pthread_mutex_init(&share->mutex, NULL);
    TD_TRY(TD_NEW_ARRAY(&share->events, (size_t)count * TD_QUEUE_KIND_COUNT));
    TD_CL_MAKE(&share->context, first, clCreateContext, properties, count, ids, log_notice, NULL);
    *out = share;
    return TD_OK;
fail:
    td_cl_share_release(share);
    return status;
}

void td_cl_share_release(td_cl_share *share)
{
    if (!share || atomic_fetch_sub(&share->references, 1) != 1) return;
    if (share->context) (void)share->api->clReleaseContext(share->context);
    pthread_mutex_destroy(&share->mutex);
    free(share->events);
    free(share);
}

void td_cl_share_join(td_cl_share *share, td_cl_device *device)
{
    atomic_fetch_add(&share->references, 1);
    device->share = share;
    device->base.share_group = share;
    pthread_mutex_lock(&share->mutex);
    device->next = share->devices;
    share->devices = device;
    pthread_mutex_unlock(&share->mutex);
}

void td_cl_share_leave(td_cl_device *device)
{
    td_cl_share *share = device->share;
    if (!share) return;
    pthread_mutex_lock(&share->mutex);
    td_cl_device **link = &share->devices;
    while (*link != device)
        link = &(*link)->next;
    *link = device->next;
    pthread_mutex_unlock(&share->mutex);
}

/* Puts a barrier on every busy queue of the share; their events go to share->events. CL_SUCCESS, or the
 * failure that leaves some queue's work unknown. Mutex held. */
static cl_int fence_queues(td_cl_share *share, cl_uint *n_events)
{
    for (td_cl_device *device = share->devices; device; device = device->next) {
        for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++) {
            if (td_cl_queue_is_idle(&device->queues[kind])) continue;
            cl_command_queue queue = device->queues[kind].queue;
            cl_int code = share->api->clEnqueueBarrierWithWaitList(queue, 0, NULL, &share->events[*n_events]);
            if (code != CL_SUCCESS) return code;
            (*n_events)++;
            code = share->api->clFlush(queue);
            if (code != CL_SUCCESS) return code;
        }
    }
    return CL_SUCCESS;
}

void td_cl_share_retire_mapping(td_cl_device *device, cl_mem mem, void *mapped)
{
    td_cl_share *share = device->share;
    const td_cl_api *api = share->api;
    cl_uint n_events = 0;
    pthread_mutex_lock(&share->mutex);
    cl_int code = fence_queues(share, &n_events);
    if (code == CL_SUCCESS) {
        const cl_event *events = n_events ? share->events : NULL;
        code = api->clEnqueueUnmapMemObject(device->service, mem, mapped, n_events, events, NULL);
        (void)api->clFlush(device->service);
        if (n_events == 0) code = CL_SUCCESS; /* nobody uses it, unmapped or not */
    }
    for (cl_uint i = 0; i < n_events; i++)
        (void)api->clReleaseEvent(share->events[i]);
    pthread_mutex_unlock(&share->mutex);
    if (code == CL_SUCCESS) {
        (void)api->clReleaseMemObject(mem);
    } else {
        td_log_debug("pinned memory of %s is left to the driver: a queue with work in it does not answer",
                     device->base.info.name);
    }
}
