/* Opening and closing OpenCL devices, and how this backend reports failed driver calls. Devices opened
 * together share one context, so they can wait for and copy to each other inside the driver.
 * Covered by tests/device/test_registry.c and tests/faults. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/dispatch.h"
#include "device/opencl/cl_error.h"
#include "device/opencl/opencl.h"

#define CACHE_FORMAT "opencl-2" /* change it when what is stored, or how it is built, changes */

/* ---------------------------------------------------------------- failure */

static const char *advise(td_status status)
{
    switch (status) {
    case TD_ERR_DEVICE_MEMORY:
        return "use a smaller batch, or close other programs on the device";
    case TD_ERR_HOST_MEMORY:
        return "close other programs or add swap";
    case TD_ERR_CANCELLED:
        return "see the failure of the queue it waited for";
    default:
        return "update the driver, or try another device";
    }
}

td_status td_cl_fail_at(td_cl_device *device, cl_int code, const char *call, const char *file, int line)
{
    const td_status status = td_cl_error_status(code);
    const char *native = td_cl_error_name(code);
    if (status == TD_ERR_DEVICE_LOST) return td_device_mark_lost(&device->base, native, call);
    return td_error_set(status, native, file, line, "%s failed on %s: %s (%d); %s", call,
                        device->base.info.name, native, code, advise(status));
}

/* ---------------------------------------------------------------- close */

/* Works on half-opened and on lost devices. Only a living device is waited for; what a lost one still holds
 * is freed by the driver when it lets go. */
static void close_device(td_device *base)
{
    td_cl_device *device = td_cl_device_of(base);
    const bool wait = !atomic_load(&base->lost);
    td_cl_share_leave(device);
    for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++) {
        td_cl_queue *queue = &device->queues[kind];
        if (wait && queue->queue) (void)device->api->clFinish(queue->queue);
        td_cl_queue_close(queue);
    }
    if (device->service) {
        if (wait) (void)device->api->clFinish(device->service);
        (void)device->api->clReleaseCommandQueue(device->service);
    }
    td_cl_clblast_close(device);
    td_cl_programs_release(device);
    pthread_mutex_destroy(&device->mutex);
    td_cl_share_release(device->share);
    free(device);
}

static const td_device_ops OPS = {
    .close = close_device,
    .buffer_create = td_cl_buffer_create,
    .buffer_import = td_cl_buffer_import,
    .buffer_destroy = td_cl_buffer_destroy,
    .list_compile = td_cl_list_compile,
    .list_discard = td_cl_list_discard,
    .submit = td_cl_submit,
    .wait = td_cl_wait,
    .can_wait = td_cl_can_wait,
    .times = td_cl_times_get,
    .calibrate = td_cl_calibrate,
};

/* ---------------------------------------------------------------- open */

static td_status check_info(const td_cl_state *state, const td_device_info *info)
{
    if (info->platform < state->n_platforms && info->ordinal < state->platforms[info->platform].n_devices)
        return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "OpenCL device %u.%u was not listed; run `tandem devices`",
                   info->platform, info->ordinal);
}

/* The kernel compiler's options: same for all kernels of a device, so they belong to its identity. */
static void choose_options(td_cl_device *device)
{
    const td_device_info *info = &device->base.info;
    device->base.kernel_class = info->gpu_kernels ? TD_CLASS_GPU : TD_CLASS_CPU;
    if (device->base.kernel_class == TD_CLASS_CPU) {
        snprintf(device->options, sizeof device->options, "-cl-std=CL1.2 -w -DTD_CLASS_CPU=1 -DVW=%u",
                 td_device_vector(&device->base));
    } else {
        snprintf(device->options, sizeof device->options, "-cl-std=CL1.2 -DTD_CLASS_GPU=1");
    }
}

static td_status identify(td_cl_device *device, cl_platform_id platform)
{
    const td_device_info *info = &device->base.info;
    char platform_version[256];
    char device_version[256];
    td_hasher hasher;
    cl_int code = td_cl_text_platform(device->api, platform, CL_PLATFORM_VERSION, platform_version,
                                      sizeof platform_version);
    if (code != CL_SUCCESS) return TD_CL_FAIL(device, code, "clGetPlatformInfo");
    code =
        td_cl_text_device(device->api, device->id, CL_DEVICE_VERSION, device_version, sizeof device_version);
    if (code != CL_SUCCESS) return TD_CL_FAIL(device, code, "clGetDeviceInfo");
    td_hasher_init(&hasher);
    td_hasher_string(&hasher, CACHE_FORMAT);
    td_hasher_string(&hasher, info->name);
    td_hasher_string(&hasher, info->driver);
    td_hasher_string(&hasher, info->platform_name);
    td_hasher_string(&hasher, platform_version);
    td_hasher_string(&hasher, device_version);
    td_hasher_string(&hasher, device->options);
    device->identity = td_hasher_digest(&hasher);
    return TD_OK;
}

/* A host timer whose resolution is 0 does not exist (OpenCL 3.0 makes it optional). */
static bool has_host_timer(const td_cl_device *device, cl_platform_id platform)
{
    cl_ulong resolution_ns = 0;
    return device->api->clGetDeviceAndHostTimer &&
           device->api->clGetPlatformInfo(platform, CL_PLATFORM_HOST_TIMER_RESOLUTION, sizeof resolution_ns,
                                          &resolution_ns, NULL) == CL_SUCCESS &&
           resolution_ns != 0;
}

static td_status create_device(const td_cl_state *state, const td_device_info *info, td_blob_cache *cache,
                               td_cl_device **out)
{
    td_cl_device *device = NULL;
    *out = NULL;
    TD_CHECK(check_info(state, info));
    TD_CHECK(TD_NEW(&device));
    device->base.ops = &OPS;
    device->base.info = *info;
    device->base.cache = cache;
    device->api = &state->api;
    device->opened_ns = td_clock_ns();
    device->stores_always = state->store_binaries;
    device->id = state->platforms[info->platform].devices[info->ordinal];
    pthread_mutex_init(&device->mutex, NULL);
    choose_options(device);
    if (device->base.kernel_class == TD_CLASS_CPU && td_cl_is_pocl(info)) device->helpers = state->helpers;
    if (device->helpers && !info->selftest_done) td_cl_helpers_wake(device->helpers);
    *out = device;
    return TD_OK;
}

/* The part that needs the context. */
static td_status start_device(td_cl_device *device, td_cl_share *share, cl_platform_id platform)
{
    const cl_command_queue_properties properties =
        device->base.info.caps.timestamps ? CL_QUEUE_PROFILING_ENABLE : 0;
    td_status status = TD_OK;
    td_cl_share_join(share, device);
    device->has_host_timer = has_host_timer(device, platform);
    TD_TRY(identify(device, platform));
    TD_CL_MAKE(&device->service, device, clCreateCommandQueue, share->context, device->id, properties);
    for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++)
        TD_TRY(td_cl_queue_open(device, (td_queue_kind)kind));
fail:
    return status;
}

static td_status open_devices(void *opaque, const td_device_info *const *infos, size_t count,
                              td_blob_cache *cache, td_device **out)
{
    const td_cl_state *state = opaque;
    td_cl_device **devices = NULL;
    td_cl_share *share = NULL;
    cl_device_id *ids = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&devices, count));
    TD_TRY(TD_NEW_ARRAY(&ids, count));
    for (size_t i = 0; i < count; i++) {
        TD_TRY(create_device(state, infos[i], cache, &devices[i]));
        ids[i] = devices[i]->id;
    }
    cl_platform_id platform = state->platforms[infos[0]->platform].id;
    TD_TRY(td_cl_share_create(devices[0], platform, ids, (cl_uint)count, &share));
    for (size_t i = 0; i < count; i++)
        TD_TRY(start_device(devices[i], share, platform));
    for (size_t i = 0; i < count; i++)
        out[i] = &devices[i]->base;
fail:
    for (size_t i = 0; status != TD_OK && devices && i < count; i++)
        if (devices[i]) close_device(&devices[i]->base);
    td_cl_share_release(share);
    free(ids);
    free(devices);
    return status;
}

const td_backend td_backend_opencl = {
    .api = TD_API_OPENCL,
    .name = "OpenCL",
    .probe = td_cl_probe,
    .unload = td_cl_unload,
    .open = open_devices,
};
