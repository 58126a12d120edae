/* The failing layer over Vulkan. See layer.h.
 *
 * A device that is lost has stopped: what it was doing is over, and its objects may be destroyed. The driver
 * below knows nothing of the loss, so the layer lets it become idle before it reports one. */
#include "layer.h"

#include <string.h>

#include "device/vulkan/vk_api.h"
#include "walk.h"

static td_vk_api real;
static VkDevice live_device;

static VkResult fail_call(void)
{
    if (!walk_lasts()) return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (live_device) real.vkDeviceWaitIdle(live_device);
    return VK_ERROR_DEVICE_LOST;
}

/* These give back what the device holds, so they are made even when they are to fail. */
static bool takes_effect(const char *call)
{
    return strcmp(call, "vkDeviceWaitIdle") == 0;
}

#define MAKE_RESULT(name, parameters, arguments)                                                             \
    static VkResult VKAPI_CALL layer_##name parameters                                                       \
    {                                                                                                        \
        const bool fails = walk_fails(#name);                                                                \
        const VkResult result = !fails || takes_effect(#name) ? real.name arguments : VK_SUCCESS;            \
        return fails ? fail_call() : result;                                                                 \
    }
#define MAKE_VOID(name, parameters, arguments)
#define TD_VK(kind, level, need, name, parameters, arguments) MAKE_##kind(name, parameters, arguments)
#include "device/vulkan/vk_api.def"
#undef TD_VK

static VkResult VKAPI_CALL note_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                               const VkAllocationCallbacks *allocator, VkDevice *device)
{
    const VkResult result = layer_vkCreateDevice(physical, info, allocator, device);
    if (result == VK_SUCCESS) live_device = *device;
    return result;
}

static void VKAPI_CALL note_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
    live_device = VK_NULL_HANDLE;
    real.vkDestroyDevice(device, allocator);
}

#define WRAP_RESULT(name)                                                                                    \
    if (table->name) {                                                                                       \
        real.name = table->name;                                                                             \
        table->name = layer_##name;                                                                          \
    }
#define WRAP_VOID(name)                                                                                      \
    if (table->name) real.name = table->name;

void layer_wrap_vulkan(void *vk_api)
{
    td_vk_api *table = vk_api;
#define TD_VK(kind, level, need, name, parameters, arguments) WRAP_##kind(name)
#include "device/vulkan/vk_api.def"
#undef TD_VK
    if (table->vkCreateDevice) table->vkCreateDevice = note_vkCreateDevice;
    if (table->vkDestroyDevice) table->vkDestroyDevice = note_vkDestroyDevice;
}
