/* Opening a physical device as one VkDevice with its queues, and closing it, also when half made or lost.
 * Covered by every program of tests/device and by tests/faults. */
#include <stdlib.h>

#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

/* ---------------------------------------------------------------- closing */

static void close_device(td_device *base)
{
    vk_device *device = (vk_device *)base;
    if (!device) return;
    if (device->handle) {
        td_vk_device_settle(device);
        (void)device->api.vkDeviceWaitIdle(device->handle); /* markers; a lost device answers at once */
        if (base->queues[TD_QUEUE_COPY] != base->queues[TD_QUEUE_COMPUTE])
            td_vk_queue_destroy((vk_queue *)base->queues[TD_QUEUE_COPY]);
        td_vk_queue_destroy((vk_queue *)base->queues[TD_QUEUE_COMPUTE]);
        td_vk_pipelines_close(device);
        device->api.vkDestroyDevice(device->handle, NULL);
    }
    if (device->mutex_ready) pthread_mutex_destroy(&device->mutex);
    free(device);
}

static const td_device_ops OPS = {
    .close = close_device,
    .buffer_create = td_vk_buffer_create,
    .buffer_import = td_vk_buffer_import,
    .buffer_destroy = td_vk_buffer_destroy,
    .list_compile = td_vk_list_compile,
    .list_discard = td_vk_list_discard,
    .submit = td_vk_queue_submit,
    .wait = td_vk_queue_wait,
    .can_wait = td_vk_queue_can_wait,
    .times = td_vk_queue_times,
    .calibrate = td_vk_calibrate,
};

/* ---------------------------------------------------------------- opening */

static uint32_t name_extensions(const vk_physical *physical, const char *names[VK_EXTENSION_COUNT])
{
    uint32_t count = 0;
#define VK_EXTENSION_NAME(id, name, enabled)                                                                 \
    if ((enabled) && td_vk_has(physical, id)) names[count++] = name;
    VK_EXTENSION_LIST(VK_EXTENSION_NAME)
#undef VK_EXTENSION_NAME
    return count;
}

/* One create info per family; two queues of one family share one. */
static uint32_t describe_queues(const vk_physical *physical, bool copy_queue, const float priorities[2],
                                VkDeviceQueueCreateInfo infos[2])
{
    const vk_queue_choice *compute = &physical->queues[TD_QUEUE_COMPUTE];
    const vk_queue_choice *copy = &physical->queues[TD_QUEUE_COPY];
    const bool one_family = compute->family == copy->family;
    infos[0] = (VkDeviceQueueCreateInfo){
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = compute->family,
        .queueCount = copy_queue && one_family ? 2 : 1,
        .pQueuePriorities = priorities,
    };
    infos[1] = infos[0];
    infos[1].queueFamilyIndex = copy->family;
    infos[1].queueCount = 1;
    return one_family ? 1 : 2;
}

/* Features are switched on for exactly what the device's abilities promise. */
static td_status create_native(vk_device *device)
{
    static const float PRIORITIES[2] = {1.0f, 1.0f};
    const td_device_caps *caps = &device->base.info.caps;
    const char *extensions[VK_EXTENSION_COUNT];
    VkDeviceQueueCreateInfo queues[2];
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
        .shaderBufferFloat32AtomicAdd = VK_TRUE,
    };
    VkPhysicalDeviceVulkan11Features features11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = caps->float_atomics ? &atomic_float : NULL,
        .storageBuffer16BitAccess = caps->fp16_storage,
    };
    VkPhysicalDeviceVulkan12Features features12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .pNext = &features11,
        .shaderFloat16 = caps->fp16_math,
        .timelineSemaphore = VK_TRUE,
        .hostQueryReset = device->physical->host_query_reset,
    };
    const VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = &features12,
        .features = {.shaderFloat64 = caps->fp64, .shaderInt64 = caps->int64},
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = describe_queues(device->physical, caps->copy_queue, PRIORITIES, queues),
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = name_extensions(device->physical, extensions),
        .ppEnabledExtensionNames = extensions,
    };
    const td_vk_api *api = &device->state->api;
    VkDevice handle = VK_NULL_HANDLE;
    td_status status = TD_OK;
    const VkResult result = api->vkCreateDevice(device->physical->handle, &info, NULL, &handle);
    if (result < VK_SUCCESS) return td_vk_fail(device, result, "vkCreateDevice", __FILE__, __LINE__);
    TD_TRY(td_vk_api_load_device(&device->api, api, handle, device->state->wrap));
    device->handle = handle;
    return TD_OK;
fail:
    if (device->api.vkDestroyDevice) device->api.vkDestroyDevice(handle, NULL);
    return status;
}

static td_status open_one(const vk_state *state, const td_device_info *info, td_blob_cache *cache,
                          td_device **out)
{
    vk_device *device = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW(&device));
    device->base.ops = &OPS;
    device->base.info = *info;
    device->base.cache = cache;
    device->base.kernel_class = info->gpu_kernels ? TD_CLASS_GPU : TD_CLASS_CPU;
    device->state = state;
    device->physical = &state->physicals[info->ordinal];
    TD_FAIL_IF(pthread_mutex_init(&device->mutex, NULL), TD_ERR_HOST_MEMORY, "no lock could be made for %s",
               info->name);
    device->mutex_ready = true;

    TD_TRY(create_native(device));
    for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++) {
        vk_queue *queue = (vk_queue *)device->base.queues[TD_QUEUE_COMPUTE];
        if (kind == TD_QUEUE_COMPUTE || info->caps.copy_queue)
            TD_TRY(td_vk_queue_create(device, (td_queue_kind)kind, &queue));
        device->base.queues[kind] = &queue->base;
    }
    TD_TRY(td_vk_pipelines_open(device));
    *out = &device->base;
    return TD_OK;
fail:
    if (device) close_device(&device->base);
    return status;
}

td_status td_vk_open(void *state, const td_device_info *const *infos, size_t count, td_blob_cache *cache,
                     td_device **out)
{
    td_status status = TD_OK;
    size_t opened = 0;
    for (; opened < count; opened++)
        TD_TRY(open_one(state, infos[opened], cache, &out[opened]));
    return TD_OK;
fail:
    while (opened > 0) {
        close_device(out[--opened]);
        out[opened] = NULL;
    }
    return status;
}
