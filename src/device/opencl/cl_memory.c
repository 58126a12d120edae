/* Buffers: device memory, pinned host memory, host memory used in place.
 *
 *   kind      CPU driver                              any other
 *   DEVICE    clCreateBuffer                          clCreateBuffer, filled once so that it exists
 *   HOST      own block, CL_MEM_USE_HOST_PTR          CL_MEM_ALLOC_HOST_PTR, mapped for life
 *   imported  the caller's block, CL_MEM_USE_HOST_PTR (not offered)
 *
 * A CPU driver works in the host's bytes, so there a HOST buffer is both an address and an argument of
 * commands. Elsewhere a mapped buffer must not be touched by commands: they get its address instead.
 * Covered by tests/device/test_memory.c. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/opencl/opencl.h"

#define PAGE_BYTES ((uint64_t)4096)
#define LARGE_PAGE_BYTES ((uint64_t)2 << 20)
#define LET_GO_NS UINT64_C(2000000000) /* patience with a driver that still works on a caller's block */

static bool is_cpu(const td_device *device)
{
    return device->info.type == TD_DEVICE_CPU;
}

cl_mem td_cl_buffer_mem(const td_cl_device *device, const td_buffer *buffer)
{
    const td_cl_buffer *own = (const td_cl_buffer *)buffer;
    const bool in_place = buffer->host && !own->mapped;
    return own->mapped || (in_place && !is_cpu(&device->base)) ? NULL : own->mem;
}

/* Called by the driver when no command uses the buffer any more, perhaps after the device was closed. */
static void CL_CALLBACK free_block(cl_mem mem, void *block)
{
    (void)mem;
    free(block);
}

static void CL_CALLBACK tell_let_go(cl_mem mem, void *signal)
{
    (void)mem;
    td_cl_signal_fire(signal);
}

/* Makes `host` a buffer; `notify` gets `context` once the driver has let go of it. */
static td_status wrap_host(td_cl_device *device, td_cl_buffer *buffer, void *host,
                           void(CL_CALLBACK *notify)(cl_mem, void *), void *context)
{
    td_status status = TD_OK;
    TD_CL_MAKE(&buffer->mem, device, clCreateBuffer, device->share->context,
               CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, buffer->base.bytes, host);
    TD_CL_TRY(device, clSetMemObjectDestructorCallback, buffer->mem, notify, context);
    buffer->base.host = host;
    return TD_OK;
fail:
    if (buffer->mem) (void)device->api->clReleaseMemObject(buffer->mem);
    buffer->mem = NULL;
    return status;
}

static td_status create_in_place(td_cl_device *device, td_cl_buffer *buffer)
{
    const uint64_t bytes = buffer->base.bytes;
    void *block =
        bytes <= SIZE_MAX - PAGE_BYTES ? aligned_alloc(PAGE_BYTES, td_round_up(bytes, PAGE_BYTES)) : NULL;
    if (!block) {
        return TD_FAIL(TD_ERR_HOST_MEMORY,
                       "no host memory for a block of %llu bytes; close other programs or add swap",
                       (unsigned long long)bytes);
    }
    const td_status status = wrap_host(device, buffer, block, free_block, block);
    if (status != TD_OK) free(block);
    return status;
}

static td_status create_mapped(td_cl_device *device, td_cl_buffer *buffer)
{
    td_status status = TD_OK;
    TD_CL_MAKE(&buffer->mem, device, clCreateBuffer, device->share->context,
               CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, buffer->base.bytes, NULL);
    TD_CL_MAKE(&buffer->base.host, device, clEnqueueMapBuffer, device->service, buffer->mem, CL_TRUE,
               CL_MAP_READ | CL_MAP_WRITE, 0, buffer->base.bytes, 0, NULL, NULL);
    buffer->mapped = true;
fail:
    return status;
}

/* A CPU driver's large buffers in large pages where the system has them on request: a walk over many pages,
 * such as a slice of wide rows, then misses far fewer entries of the page table. Only advice, so failing is
 * no failure. */
static void ask_for_large_pages(td_cl_device *device, const td_cl_buffer *buffer)
{
    const td_cl_api *api = device->api;
    cl_int error = CL_SUCCESS;
    char *start, *first;
    if (buffer->base.bytes < 2 * LARGE_PAGE_BYTES) return;
    start = api->clEnqueueMapBuffer(device->service, buffer->mem, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                    buffer->base.bytes, 0, NULL, NULL, &error);
    if (!start || error != CL_SUCCESS) return;
    first = start + (LARGE_PAGE_BYTES - (uintptr_t)start % LARGE_PAGE_BYTES) % LARGE_PAGE_BYTES;
    (void)madvise(first, (size_t)(start + buffer->base.bytes - first) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES,
                  MADV_HUGEPAGE);
    (void)api->clEnqueueUnmapMemObject(device->service, buffer->mem, start, 0, NULL, NULL);
    (void)api->clFinish(device->service);
}

/* Most GPU drivers only promise memory until it is first used; using it here makes a lack of it show where it
 * can be handled. */
static td_status create_on_device(td_cl_device *device, td_cl_buffer *buffer)
{
    const uint64_t bytes = buffer->base.bytes;
    const cl_uint zero = 0;
    td_status status = TD_OK;
    TD_CL_MAKE(&buffer->mem, device, clCreateBuffer, device->share->context, CL_MEM_READ_WRITE, bytes, NULL);
    if (is_cpu(&device->base)) {
        ask_for_large_pages(device, buffer);
        return TD_OK;
    }
    TD_CL_TRY(device, clEnqueueFillBuffer, device->service, buffer->mem, &zero, bytes % 4 ? 1 : 4, 0, bytes,
              0, NULL, NULL);
    TD_CL_TRY(device, clFinish, device->service);
fail:
    return status;
}

td_status td_cl_buffer_create(td_device *base, td_memory_kind kind, uint64_t bytes, td_buffer **out)
{
    td_cl_device *device = td_cl_device_of(base);
    td_cl_buffer *buffer = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&buffer));
    buffer->base = (td_buffer){.device = base, .kind = kind, .bytes = bytes};
    if (kind == TD_MEMORY_DEVICE)
        TD_TRY(create_on_device(device, buffer));
    else if (is_cpu(base))
        TD_TRY(create_in_place(device, buffer));
    else
        TD_TRY(create_mapped(device, buffer));
    *out = &buffer->base;
    return TD_OK;
fail:
    if (buffer) (void)td_error_context("a buffer of %llu bytes", (unsigned long long)bytes);
    td_cl_buffer_destroy(buffer ? &buffer->base : NULL);
    return status;
}

td_status td_cl_buffer_import(td_device *base, void *host, uint64_t bytes, td_buffer **out)
{
    td_cl_device *device = td_cl_device_of(base);
    td_cl_buffer *buffer = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&buffer));
    buffer->base = (td_buffer){.device = base, .kind = TD_MEMORY_HOST, .imported = true, .bytes = bytes};
    TD_TRY(td_cl_signal_create(&buffer->let_go));
    td_cl_signal_retain(buffer->let_go); /* the callback's */
    status = wrap_host(device, buffer, host, tell_let_go, buffer->let_go);
    if (status != TD_OK) {
        td_cl_signal_release(buffer->let_go);
        goto fail;
    }
    *out = &buffer->base;
    return TD_OK;
fail:
    td_cl_buffer_destroy(buffer ? &buffer->base : NULL);
    return status;
}

/* The caller may free its block as soon as this returns, also when a failed wait left work running: so wait
 * for the driver to let go, not for the queues; but not forever, since the device may be lost. */
static void await_let_go(const td_cl_buffer *buffer)
{
    td_cl_signal_sleep(buffer->let_go, 0, td_clock_ns() + LET_GO_NS);
    if (td_cl_signal_count(buffer->let_go) == 0)
        td_log_warn("%s still uses host memory that was taken back from it", buffer->base.device->info.name);
}

void td_cl_buffer_destroy(td_buffer *base)
{
    if (!base) return;
    td_cl_buffer *buffer = (td_cl_buffer *)base;
    td_cl_device *device = td_cl_device_of(base->device);
    if (buffer->mapped) {
        td_cl_share_retire_mapping(device, buffer->mem, base->host);
    } else if (buffer->mem) {
        (void)device->api->clReleaseMemObject(buffer->mem);
        if (buffer->let_go) await_let_go(buffer);
    }
    td_cl_signal_release(buffer->let_go);
    free(buffer);
}
