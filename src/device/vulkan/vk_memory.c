/* Buffers: one VkBuffer with one VkDeviceMemory each. Ranges are cut from them by the generic layer, so
 * there are few and large ones. Covered by tests/device/test_memory.c. */
#include <stdlib.h>

#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

#define COHERENT (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

/* Memory with these properties needs features that are not switched on, or is not there for buffers. */
#define UNUSABLE                                                                                             \
    (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |                            \
     VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD)

/* Which memory a buffer wants: `needed` properties, and one more that is liked or disliked. */
typedef struct vk_memory_wish {
    VkMemoryPropertyFlags needed;
    VkMemoryPropertyFlags liked;
    VkMemoryPropertyFlags disliked;
} vk_memory_wish;

static const vk_memory_wish WISHES[TD_MEMORY_KIND_COUNT] = {
    [TD_MEMORY_DEVICE] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT},
    [TD_MEMORY_HOST] = {COHERENT, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
};

/* The best of the allowed types, the first of equals (drivers list the faster ones first). */
static td_status find_type(const vk_device *device, uint32_t allowed, vk_memory_wish wish, uint32_t *out)
{
    const VkPhysicalDeviceMemoryProperties *memory = &device->physical->memory;
    int best = -1;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        const VkMemoryPropertyFlags flags = memory->memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1u) || (flags & wish.needed) != wish.needed || (flags & UNUSABLE)) continue;
        const int score = 2 * (wish.liked && (flags & wish.liked)) + !(flags & wish.disliked);
        if (score <= best) continue;
        best = score;
        *out = i;
    }
    if (best >= 0) return TD_OK;
    return TD_FAIL(TD_ERR_UNSUPPORTED,
                   "%s offers no memory of the needed kind (types 0x%x, properties 0x%x); update the driver",
                   device->base.info.name, allowed, wish.needed);
}

static td_status create_handle(vk_device *device, uint64_t bytes, const void *next, VkBuffer *out)
{
    const uint32_t families[] = {device->physical->queues[TD_QUEUE_COMPUTE].family,
                                 device->physical->queues[TD_QUEUE_COPY].family};
    const bool shared = families[0] != families[1];
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = next,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = shared ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    td_status status = TD_OK;
    TD_VK_CREATE(device, vkCreateBuffer, &info, out);
fail:
    return status;
}

/* Allocates memory of one of the `allowed` types and binds the buffer to it. */
static td_status back_buffer(vk_device *device, vk_buffer *buffer, uint32_t allowed, vk_memory_wish wish,
                             const void *next)
{
    VkMemoryRequirements need;
    td_status status = TD_OK;
    device->api.vkGetBufferMemoryRequirements(device->handle, buffer->handle, &need);
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = next,
        .allocationSize = next ? buffer->base.bytes : need.size, /* an import is as large as its block */
    };
    TD_TRY(find_type(device, need.memoryTypeBits & allowed, wish, &info.memoryTypeIndex));
    TD_VK_CREATE(device, vkAllocateMemory, &info, &buffer->memory);
    TD_VK_TRY(device, vkBindBufferMemory, device->handle, buffer->handle, buffer->memory, 0);
fail:
    return status;
}

static td_status new_buffer(vk_device *device, td_memory_kind kind, uint64_t bytes, vk_buffer **out)
{
    const td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    (*out)->base = (td_buffer){.device = &device->base, .kind = kind, .bytes = bytes};
    return TD_OK;
}

td_status td_vk_buffer_create(td_device *base, td_memory_kind kind, uint64_t bytes, td_buffer **out)
{
    vk_device *device = (vk_device *)base;
    vk_buffer *buffer = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(new_buffer(device, kind, bytes, &buffer));
    TD_TRY(create_handle(device, bytes, NULL, &buffer->handle));
    TD_TRY(back_buffer(device, buffer, UINT32_MAX, WISHES[kind], NULL));
    if (kind == TD_MEMORY_HOST) {
        TD_VK_TRY(device, vkMapMemory, device->handle, buffer->memory, 0, VK_WHOLE_SIZE, 0,
                  &buffer->base.host);
    }
    *out = &buffer->base;
    return TD_OK;
fail:
    if (buffer) td_vk_buffer_destroy(&buffer->base);
    return status;
}

td_status td_vk_buffer_import(td_device *base, void *host, uint64_t bytes, td_buffer **out)
{
    static const VkExternalMemoryHandleTypeFlagBits TYPE =
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    static const vk_memory_wish WISH = {COHERENT, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0};
    vk_device *device = (vk_device *)base;
    vk_buffer *buffer = NULL;
    td_status status = TD_OK;
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = TYPE,
    };
    const VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = TYPE,
        .pHostPointer = host,
    };
    VkMemoryHostPointerPropertiesEXT types = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    *out = NULL;
    TD_FAIL_IF(!device->api.vkGetMemoryHostPointerPropertiesEXT, TD_ERR_UNSUPPORTED,
               "%s cannot use host memory in place; copy it instead", base->info.name);
    TD_TRY(new_buffer(device, TD_MEMORY_HOST, bytes, &buffer));
    buffer->base.imported = true;
    buffer->base.host = host;
    TD_VK_TRY(device, vkGetMemoryHostPointerPropertiesEXT, device->handle, TYPE, host, &types);
    TD_TRY(create_handle(device, bytes, &external, &buffer->handle));
    TD_TRY(back_buffer(device, buffer, types.memoryTypeBits, WISH, &import));
    *out = &buffer->base;
    return TD_OK;
fail:
    if (buffer) td_vk_buffer_destroy(&buffer->base);
    return status;
}

void td_vk_buffer_destroy(td_buffer *base)
{
    if (!base) return;
    vk_buffer *buffer = (vk_buffer *)base;
    vk_device *device = (vk_device *)base->device;
    /* After a failed call the caller's waiting may have been cut short; memory must outlive the work. */
    if (atomic_load(&device->troubled)) td_vk_device_settle(device);
    device->api.vkDestroyBuffer(device->handle, buffer->handle, NULL);
    device->api.vkFreeMemory(device->handle, buffer->memory, NULL); /* also ends the mapping */
    free(buffer);
}
