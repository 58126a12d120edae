/* What each physical device is and can do: fills td_device_info and vk_physical from Vulkan's own answers.
 * A device that cannot be used is listed all the same, with the reason. Measures nothing; the self-test does
 * that. Covered by tests/device/test_registry.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

/* Everything asked of one device, in one place because the answers chain to each other. */
typedef struct vk_answers {
    VkPhysicalDeviceProperties2 properties;
    VkPhysicalDeviceVulkan11Properties properties11;
    VkPhysicalDeviceVulkan12Properties properties12;
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host_import;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes;
    VkPhysicalDeviceShaderCorePropertiesAMD amd_cores;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv_cores;
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceVulkan11Features features11;
    VkPhysicalDeviceVulkan12Features features12;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float;
} vk_answers;

/* ---------------------------------------------------------------- questions */

static VkResult list_extensions(const td_vk_api *api, vk_physical *physical)
{
    static const char *const NAMES[] = {
#define VK_EXTENSION_NAME(id, name, enabled) [id] = name,
        VK_EXTENSION_LIST(VK_EXTENSION_NAME)
#undef VK_EXTENSION_NAME
    };
    VkExtensionProperties *found = NULL;
    uint32_t count = 0;
    VkResult result = api->vkEnumerateDeviceExtensionProperties(physical->handle, NULL, &count, NULL);
    if (result < VK_SUCCESS) return result;
    if (TD_NEW_ARRAY(&found, count) != TD_OK) return VK_ERROR_OUT_OF_HOST_MEMORY;
    result = api->vkEnumerateDeviceExtensionProperties(physical->handle, NULL, &count, found);
    for (uint32_t i = 0; result >= VK_SUCCESS && i < count; i++) {
        for (uint32_t id = 0; id < VK_EXTENSION_COUNT; id++)
            if (strcmp(found[i].extensionName, NAMES[id]) == 0) physical->extensions |= 1u << id;
    }
    free(found);
    return result;
}

/* Puts `link` at the head of a pNext chain. All Vulkan structs begin with sType and pNext. */
static void chain(VkBaseOutStructure *head, void *link, VkStructureType type)
{
    VkBaseOutStructure *base = link;
    base->sType = type;
    base->pNext = head->pNext;
    head->pNext = base;
}

static void ask(const td_vk_api *api, const vk_physical *physical, vk_answers *a)
{
    VkBaseOutStructure *properties = (VkBaseOutStructure *)&a->properties;
    VkBaseOutStructure *features = (VkBaseOutStructure *)&a->features;
    a->properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    a->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    chain(properties, &a->properties11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    chain(properties, &a->properties12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    chain(features, &a->features11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    chain(features, &a->features12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);

    const struct {
        VkBaseOutStructure *head;
        void *link;
        VkStructureType type;
        vk_extension extension;
    } optional[] = {
        {properties, &a->pci, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT, VK_HAS_PCI},
        {properties, &a->maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
         VK_HAS_MAINTENANCE4},
        {properties, &a->host_import, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT,
         VK_HAS_HOST_IMPORT},
        {properties, &a->subgroup_sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
         VK_HAS_SUBGROUP_SIZES},
        {properties, &a->amd_cores, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD,
         VK_HAS_AMD_CORES},
        {properties, &a->nv_cores, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV,
         VK_HAS_NV_CORES},
        {features, &a->atomic_float, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
         VK_HAS_ATOMIC_FLOAT},
    };
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (td_vk_has(physical, optional[i].extension))
            chain(optional[i].head, optional[i].link, optional[i].type);
    api->vkGetPhysicalDeviceProperties2(physical->handle, &a->properties);
    api->vkGetPhysicalDeviceFeatures2(physical->handle, &a->features);
}

/* ---------------------------------------------------------------- queues */

/* The first family that has all of `wanted` and none of `unwanted`, apart from `skip`; count when none. */
static uint32_t find_family(const VkQueueFamilyProperties *families, uint32_t count, VkQueueFlags wanted,
                            VkQueueFlags unwanted, uint32_t skip)
{
    uint32_t i = 0;
    while (i < count && (i == skip || !families[i].queueCount ||
                         (families[i].queueFlags & wanted) != wanted || (families[i].queueFlags & unwanted)))
        i++;
    return i;
}

static vk_queue_choice choose(const VkQueueFamilyProperties *families, uint32_t family, uint32_t index)
{
    return (vk_queue_choice){
        .family = family,
        .index = index,
        .computes = families[family].queueFlags & VK_QUEUE_COMPUTE_BIT,
        .timestamp_bits = families[family].timestampValidBits,
    };
}

/* COMPUTE: a family of its own for compute if there is one (it does not share the desktop's graphics queue).
 * COPY: a family of its own for transfers, else a second queue of the compute family, else any other compute
 * family, else the same queue. False when the device has no compute queue. */
static bool choose_queues(const td_vk_api *api, vk_physical *physical, td_device_caps *caps)
{
    enum { MAX_FAMILIES = 32 };
    VkQueueFamilyProperties families[MAX_FAMILIES];
    uint32_t count = MAX_FAMILIES;
    api->vkGetPhysicalDeviceQueueFamilyProperties(physical->handle, &count, families);

    uint32_t compute = find_family(families, count, VK_QUEUE_COMPUTE_BIT, VK_QUEUE_GRAPHICS_BIT, count);
    if (compute == count) compute = find_family(families, count, VK_QUEUE_COMPUTE_BIT, 0, count);
    if (compute == count) return false;
    physical->queues[TD_QUEUE_COMPUTE] = choose(families, compute, 0);
    physical->queues[TD_QUEUE_COPY] = choose(families, compute, 0);

    const uint32_t transfer = find_family(families, count, VK_QUEUE_TRANSFER_BIT,
                                          VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT, compute);
    const uint32_t other = find_family(families, count, VK_QUEUE_COMPUTE_BIT, 0, compute);
    caps->copy_queue = true;
    if (transfer < count)
        physical->queues[TD_QUEUE_COPY] = choose(families, transfer, 0);
    else if (families[compute].queueCount > 1)
        physical->queues[TD_QUEUE_COPY] = choose(families, compute, 1);
    else if (other < count)
        physical->queues[TD_QUEUE_COPY] = choose(families, other, 0);
    else
        caps->copy_queue = false;
    return true;
}

/* ---------------------------------------------------------------- answers */

static td_device_type to_type(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return TD_DEVICE_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return TD_DEVICE_IGPU;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return TD_DEVICE_CPU;
    default:
        return TD_DEVICE_OTHER;
    }
}

static void name_vendor(td_device_info *info)
{
    static const struct {
        uint32_t id;
        const char *name;
    } VENDORS[] = {
        {0x1002, "AMD"},      {0x10de, "NVIDIA"}, {0x8086, "Intel"},       {0x13b5, "Arm"},
        {0x5143, "Qualcomm"}, {0x106b, "Apple"},  {0x1010, "Imagination"}, {VK_VENDOR_ID_MESA, "Mesa"},
    };
    snprintf(info->vendor, sizeof info->vendor, "0x%04x", info->vendor_id);
    for (size_t i = 0; i < sizeof VENDORS / sizeof *VENDORS; i++)
        if (VENDORS[i].id == info->vendor_id)
            snprintf(info->vendor, sizeof info->vendor, "%s", VENDORS[i].name);
}

/* What every device answers, however old. */
static void fill_basics(td_device_info *info, const VkPhysicalDeviceProperties *p)
{
    info->type = to_type(p->deviceType);
    info->vendor_id = p->vendorID;
    info->device_id = p->deviceID;
    snprintf(info->name, sizeof info->name, "%.127s", p->deviceName);
    name_vendor(info);
    snprintf(info->driver, sizeof info->driver, "%u.%u.%u", VK_API_VERSION_MAJOR(p->driverVersion),
             VK_API_VERSION_MINOR(p->driverVersion), VK_API_VERSION_PATCH(p->driverVersion));
    snprintf(info->api_version, sizeof info->api_version, "%u.%u.%u", VK_API_VERSION_MAJOR(p->apiVersion),
             VK_API_VERSION_MINOR(p->apiVersion), VK_API_VERSION_PATCH(p->apiVersion));
}

static void fill_identity(td_device_info *info, const vk_physical *physical, const vk_answers *a)
{
    static const uint8_t NO_UUID[VK_UUID_SIZE] = {0};
    snprintf(info->platform_name, sizeof info->platform_name, "%.95s", a->properties12.driverName);
    if (a->properties12.driverInfo[0])
        snprintf(info->driver, sizeof info->driver, "%.127s", a->properties12.driverInfo);
    const VkConformanceVersion c = a->properties12.conformanceVersion;
    if (c.major) {
        const size_t used = strlen(info->api_version);
        snprintf(info->api_version + used, sizeof info->api_version - used, " (CTS %u.%u.%u.%u)", c.major,
                 c.minor, c.subminor, c.patch);
    }
    /* CPU drivers make up a UUID that is the same on every computer, MoltenVK one for all cards of a kind. */
    info->has_uuid = info->type != TD_DEVICE_CPU && a->properties12.driverID != VK_DRIVER_ID_MOLTENVK &&
                     memcmp(a->properties11.deviceUUID, NO_UUID, VK_UUID_SIZE) != 0;
    if (info->has_uuid) memcpy(info->uuid, a->properties11.deviceUUID, VK_UUID_SIZE);
    info->has_pci = td_vk_has(physical, VK_HAS_PCI);
    info->pci.domain = a->pci.pciDomain;
    info->pci.bus = a->pci.pciBus;
    info->pci.device = a->pci.pciDevice;
    info->pci.function = a->pci.pciFunction;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fill_memory(td_device_caps *caps, const vk_physical *physical, const vk_answers *a,
                        td_device_type type)
{
    const VkPhysicalDeviceLimits *limits = &a->properties.properties.limits;
    uint64_t largest_heap = 0;
    for (uint32_t i = 0; i < physical->memory.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &physical->memory.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
        caps->memory_bytes += heap->size;
        if (heap->size > largest_heap) largest_heap = heap->size;
    }
    /* Some drivers promise allocations larger than their heap. */
    caps->max_alloc_bytes = least(a->properties11.maxMemoryAllocationSize, largest_heap);
    if (td_vk_has(physical, VK_HAS_MAINTENANCE4))
        caps->max_alloc_bytes = least(caps->max_alloc_bytes, a->maintenance4.maxBufferSize);
    caps->max_binding_bytes = limits->maxStorageBufferRange;
    caps->offset_align = (uint32_t)limits->minStorageBufferOffsetAlignment;
    caps->unified_memory = type == TD_DEVICE_CPU || type == TD_DEVICE_IGPU;
    caps->host_import = td_vk_has(physical, VK_HAS_HOST_IMPORT);
    caps->host_import_align = caps->host_import ? a->host_import.minImportedHostPointerAlignment : 0;
}

static uint32_t count_units(const vk_physical *physical, const vk_answers *a, td_device_type type)
{
    if (type == TD_DEVICE_CPU) {
        const long cores = sysconf(_SC_NPROCESSORS_ONLN);
        return cores > 0 ? (uint32_t)cores : 1;
    }
    if (td_vk_has(physical, VK_HAS_NV_CORES)) return a->nv_cores.shaderSMCount;
    if (td_vk_has(physical, VK_HAS_AMD_CORES)) {
        return a->amd_cores.shaderEngineCount * a->amd_cores.shaderArraysPerEngineCount *
               a->amd_cores.computeUnitsPerShaderArray;
    }
    return 0;
}

/* Low guesses, so that long work is split rather too finely than too coarsely. */
static void estimate_speed(td_device_caps *caps, td_device_type type)
{
    caps->estimated_gflops = type == TD_DEVICE_CPU ? 1 : type == TD_DEVICE_IGPU ? 200 : 1000;
    caps->estimated_gbps = type == TD_DEVICE_CPU ? 1 : type == TD_DEVICE_IGPU ? 20 : 100;
}

static void fill_compute(td_device_caps *caps, const vk_physical *physical, const vk_answers *a,
                         td_device_type type)
{
    const VkPhysicalDeviceLimits *limits = &a->properties.properties.limits;
    const uint32_t *counts = limits->maxComputeWorkGroupCount;
    caps->max_group_size =
        (uint32_t)least(limits->maxComputeWorkGroupInvocations, limits->maxComputeWorkGroupSize[0]);
    caps->max_group_count = (uint32_t)least(counts[0], least(counts[1], counts[2]));
    caps->local_memory_bytes = limits->maxComputeSharedMemorySize;
    caps->local_memory_real = type != TD_DEVICE_CPU;
    caps->compute_units = count_units(physical, a, type);
    caps->vector_width = type == TD_DEVICE_CPU ? a->properties11.subgroupSize : 1;
    caps->subgroup_min = caps->subgroup_max = a->properties11.subgroupSize;
    if (td_vk_has(physical, VK_HAS_SUBGROUP_SIZES)) {
        caps->subgroup_min = a->subgroup_sizes.minSubgroupSize;
        caps->subgroup_max = a->subgroup_sizes.maxSubgroupSize;
    }
    if (!(a->properties11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
        caps->subgroup_min = caps->subgroup_max = 0;
    caps->max_params_bytes = limits->maxPushConstantsSize;
    caps->max_buffers =
        (uint32_t)least(limits->maxPerStageDescriptorStorageBuffers, limits->maxDescriptorSetStorageBuffers);
    caps->fp16_storage = a->features11.storageBuffer16BitAccess;
    caps->fp16_math = a->features12.shaderFloat16;
    caps->fp64 = a->features.features.shaderFloat64;
    caps->int64 = a->features.features.shaderInt64;
    caps->float_atomics = a->atomic_float.shaderBufferFloat32AtomicAdd;
    estimate_speed(caps, type);
}

/* Everything about a device of Vulkan 1.2 or newer; returns why it cannot be used, NULL when it can. */
static const char *fill_details(const vk_state *state, vk_physical *physical, td_device_info *info)
{
    vk_answers a = {0};
    const VkResult result = list_extensions(&state->api, physical);
    if (result < VK_SUCCESS) return "the driver does not list its extensions; reinstall the driver";
    ask(&state->api, physical, &a);
    state->api.vkGetPhysicalDeviceMemoryProperties(physical->handle, &physical->memory);
    physical->host_query_reset = a.features12.hostQueryReset;
    physical->timestamp_period_ns = (double)a.properties.properties.limits.timestampPeriod;
    physical->driver_version = a.properties.properties.driverVersion;
    memcpy(physical->cache_uuid, a.properties.properties.pipelineCacheUUID, VK_UUID_SIZE);
    fill_identity(info, physical, &a);
    fill_memory(&info->caps, physical, &a, info->type);
    fill_compute(&info->caps, physical, &a, info->type);
    if (!choose_queues(&state->api, physical, &info->caps)) return "it has no compute queue";
    info->caps.timestamps = !state->no_timestamps && physical->queues[TD_QUEUE_COMPUTE].timestamp_bits > 0;
    if (!a.features12.timelineSemaphore) return "its driver has no timeline semaphores; update the driver";
    return NULL;
}

static void probe_device(const vk_state *state, vk_physical *physical, td_device_info *info)
{
    VkPhysicalDeviceProperties properties;
    state->api.vkGetPhysicalDeviceProperties(physical->handle, &properties);
    fill_basics(info, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_2) {
        snprintf(info->reason, sizeof info->reason,
                 "its driver speaks Vulkan %s, but 1.2 is needed; update the driver", info->api_version);
        return;
    }
    const char *reason = fill_details(state, physical, info);
    snprintf(info->reason, sizeof info->reason, "%s", reason ? reason : "");
    info->usable = !reason;
}

td_status td_vk_probe_devices(vk_state *state, td_info_list *infos, td_api_report *report)
{
    VkPhysicalDevice *handles = NULL;
    uint32_t count = 0;
    td_status status = TD_OK;
    VkResult result = state->api.vkEnumeratePhysicalDevices(state->instance, &count, NULL);
    if (result >= VK_SUCCESS) {
        TD_TRY(TD_NEW_ARRAY(&handles, count));
        TD_TRY(TD_NEW_ARRAY(&state->physicals, count));
        result = state->api.vkEnumeratePhysicalDevices(state->instance, &count, handles);
    }
    if (result < VK_SUCCESS) {
        snprintf(report->message, sizeof report->message,
                 "vkEnumeratePhysicalDevices failed with %s; reinstall the Vulkan driver",
                 td_vk_result_name(result));
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        td_device_info *info = NULL;
        TD_TRY(td_info_list_add(infos, &info));
        info->api = TD_API_VULKAN;
        info->ordinal = i;
        state->physicals[i].handle = handles[i];
        probe_device(state, &state->physicals[i], info);
    }
fail:
    free(handles);
    return status;
}
