/* Kernels as Vulkan pipelines: made at first need, kept as long as the device, and remembered on disk in
 * one pipeline cache per driver version and kernel set, so that a second start compiles nothing.
 * Covered by tests/device/test_selftest.c (a second start builds nothing) and every test that dispatches. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

#define CACHE_KIND "vkpipelines"

/* ---------------------------------------------------------------- layouts */

static td_status create_layout(vk_device *device, uint32_t n_buffers, vk_layout *layout)
{
    VkDescriptorSetLayoutBinding bindings[TD_KERNEL_MAX_BUFFERS];
    for (uint32_t i = 0; i < n_buffers; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = n_buffers,
        .pBindings = bindings,
    };
    const VkPushConstantRange params = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                        .size = TD_KERNEL_MAX_PARAMS};
    const VkPipelineLayoutCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &layout->set,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &params,
    };
    td_status status = TD_OK;
    TD_VK_CREATE(device, vkCreateDescriptorSetLayout, &set, &layout->set);
    TD_VK_CREATE(device, vkCreatePipelineLayout, &pipeline, &layout->pipeline);
    return TD_OK;
fail:
    device->api.vkDestroyDescriptorSetLayout(device->handle, layout->set, NULL);
    *layout = (vk_layout){0};
    return status;
}

/* Mutex held. */
static td_status ensure_layout(vk_device *device, uint32_t n_buffers, vk_layout *out)
{
    vk_layout *layout = &device->layouts[n_buffers];
    if (!layout->pipeline) TD_CHECK(create_layout(device, n_buffers, layout));
    *out = *layout;
    return TD_OK;
}

td_status td_vk_layout_get(vk_device *device, uint32_t n_buffers, vk_layout *out)
{
    pthread_mutex_lock(&device->mutex);
    const td_status status = ensure_layout(device, n_buffers, out);
    pthread_mutex_unlock(&device->mutex);
    return status;
}

/* ---------------------------------------------------------------- pipelines */

/* Whether the driver had to compile, as far as can be known. A cache blob that is a bare header belongs to a
 * driver that keeps compiled code in a cache of its own; the second start then counts as cached. */
static bool was_built(const vk_device *device, VkPipelineCreationFeedbackFlags feedback)
{
    if (!device->cache.loaded) return true;
    if (!device->cache.holds_code) return false;
    return (feedback & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT) &&
           !(feedback & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT);
}

static td_status fail_build(const vk_device *device, const td_kernel *kernel)
{
    const td_error *cause = td_error_last();
    if (cause->status != TD_ERR_DRIVER && cause->status != TD_ERR_BUILD) return cause->status;
    return TD_FAIL_NATIVE(TD_ERR_BUILD, cause->native, "kernel %s (%s class) cannot be built for %s: %s",
                          kernel->name, device->base.kernel_class == TD_CLASS_CPU ? "cpu" : "gpu",
                          device->base.info.name, cause->message);
}

static td_status create_pipeline(vk_device *device, const td_kernel *kernel, VkPipeline *out)
{
    VkShaderModule shader = VK_NULL_HANDLE;
    vk_layout layout;
    td_status status = TD_OK;
    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = kernel->spirv_bytes[device->base.kernel_class],
        .pCode = kernel->spirv[device->base.kernel_class],
    };
    VkPipelineCreationFeedback whole = {0};
    VkPipelineCreationFeedback stage = {0};
    const VkPipelineCreationFeedbackCreateInfo feedback = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
        .pPipelineCreationFeedback = &whole,
        .pipelineStageCreationFeedbackCount = 1,
        .pPipelineStageCreationFeedbacks = &stage,
    };
    TD_TRY(ensure_layout(device, kernel->n_buffers, &layout));
    TD_VK_CREATE(device, vkCreateShaderModule, &code, &shader);
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .pNext = td_vk_has(device->physical, VK_HAS_FEEDBACK) ? &feedback : NULL,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = shader,
                  .pName = "main"},
        .layout = layout.pipeline,
    };
    TD_VK_TRY(device, vkCreateComputePipelines, device->handle, device->cache.handle, 1, &info, NULL, out);
    if (was_built(device, whole.flags)) atomic_fetch_add(&device->base.kernel_builds, 1);
fail:
    device->api.vkDestroyShaderModule(device->handle, shader, NULL);
    return status == TD_OK ? TD_OK : fail_build(device, kernel);
}

/* Mutex held. */
static td_status ensure_pipeline(vk_device *device, const td_kernel *kernel, VkPipeline *out)
{
    vk_pipeline *slot = NULL;
    for (size_t i = 0; i < device->n_pipelines; i++) {
        if (device->pipelines[i].kernel != kernel) continue;
        *out = device->pipelines[i].handle;
        return TD_OK;
    }
    TD_CHECK(td_alloc_grow(&device->pipelines, &device->pipelines_capacity, device->n_pipelines + 1,
                           sizeof *device->pipelines));
    slot = &device->pipelines[device->n_pipelines];
    TD_CHECK(create_pipeline(device, kernel, &slot->handle));
    slot->kernel = kernel;
    device->n_pipelines++;
    device->cache.grown = true;
    *out = slot->handle;
    return TD_OK;
}

td_status td_vk_pipeline_get(vk_device *device, const td_kernel *kernel, VkPipeline *out)
{
    pthread_mutex_lock(&device->mutex);
    const td_status status = ensure_pipeline(device, kernel, out);
    pthread_mutex_unlock(&device->mutex);
    return status;
}

/* ---------------------------------------------------------------- the cache on disk */

static td_digest hash_key(const vk_device *device)
{
    const td_kernel_class class = device->base.kernel_class;
    const uint32_t ids[] = {device->base.info.vendor_id, device->base.info.device_id,
                            device->physical->driver_version};
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, ids, sizeof ids);
    td_hasher_bytes(&hasher, device->physical->cache_uuid, VK_UUID_SIZE);
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *kernel = td_kernel_get((td_kernel_id)id);
        td_hasher_string(&hasher, kernel->name);
        td_hasher_bytes(&hasher, kernel->spirv[class], kernel->spirv_bytes[class]);
    }
    return td_hasher_digest(&hasher);
}

/* Drivers are known to crash on foreign data, so nothing but a header of this very device reaches them. */
static bool is_ours(const vk_device *device, const void *data, size_t bytes)
{
    VkPipelineCacheHeaderVersionOne header;
    if (bytes < sizeof header) return false;
    memcpy(&header, data, sizeof header);
    return header.headerSize >= sizeof header && header.headerSize <= bytes &&
           header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
           header.vendorID == device->base.info.vendor_id && header.deviceID == device->base.info.device_id &&
           memcmp(header.pipelineCacheUUID, device->physical->cache_uuid, VK_UUID_SIZE) == 0;
}

td_status td_vk_pipelines_open(vk_device *device)
{
    vk_pipeline_cache *cache = &device->cache;
    void *data = NULL;
    size_t bytes = 0;
    td_status status = TD_OK;
    cache->key = hash_key(device);
    if (td_blob_cache_load(device->base.cache, CACHE_KIND, cache->key, &data, &bytes)) {
        cache->loaded = is_ours(device, data, bytes);
        if (!cache->loaded) {
            td_log_warn("the pipeline cache of %s is not of this device; its kernels are rebuilt",
                        device->base.info.name);
        }
    }
    if (cache->loaded) {
        cache->holds_code = bytes > sizeof(VkPipelineCacheHeaderVersionOne);
        cache->on_disk = td_hash128(data, bytes);
    }
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = cache->loaded ? bytes : 0,
        .pInitialData = cache->loaded ? data : NULL,
    };
    TD_VK_CREATE(device, vkCreatePipelineCache, &info, &cache->handle);
fail:
    free(data);
    return status;
}

void td_vk_pipelines_close(vk_device *device)
{
    const td_vk_api *api = &device->api;
    for (size_t i = 0; i < device->n_pipelines; i++)
        api->vkDestroyPipeline(device->handle, device->pipelines[i].handle, NULL);
    free(device->pipelines);
    for (size_t i = 0; i <= TD_KERNEL_MAX_BUFFERS; i++) {
        if (!device->layouts[i].pipeline) continue;
        api->vkDestroyPipelineLayout(device->handle, device->layouts[i].pipeline, NULL);
        api->vkDestroyDescriptorSetLayout(device->handle, device->layouts[i].set, NULL);
    }
    if (device->cache.handle) api->vkDestroyPipelineCache(device->handle, device->cache.handle, NULL);
}

void td_vk_pipelines_save(vk_device *device)
{
    vk_pipeline_cache *cache = &device->cache;
    size_t bytes = 0;
    void *data = NULL;
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&device->mutex);
    if (cache->grown)
        result = device->api.vkGetPipelineCacheData(device->handle, cache->handle, &bytes, NULL);
    cache->grown = false;
    if (result == VK_SUCCESS && bytes > 0 && td_alloc_zeroed(1, bytes, &data) == TD_OK) {
        result = device->api.vkGetPipelineCacheData(device->handle, cache->handle, &bytes, data);
        const td_digest hash = td_hash128(data, bytes);
        if (result == VK_SUCCESS && is_ours(device, data, bytes) &&
            (hash.low != cache->on_disk.low || hash.high != cache->on_disk.high)) {
            td_blob_cache_store(device->base.cache, CACHE_KIND, cache->key, data, bytes);
            cache->on_disk = hash;
        }
    }
    pthread_mutex_unlock(&device->mutex);
    if (result < VK_SUCCESS) {
        td_log_warn("the kernels of %s cannot be cached: %s", device->base.info.name,
                    td_vk_result_name(result));
    }
    free(data);
}
