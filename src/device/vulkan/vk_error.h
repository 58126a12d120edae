/* What a VkResult means to the rest of the program. Covered by tests/faults. */
#ifndef TD_DEVICE_VULKAN_VK_ERROR_H
#define TD_DEVICE_VULKAN_VK_ERROR_H

#include "device/vulkan/vk.h"

/* "VK_ERROR_DEVICE_LOST"; "VkResult" for a code this version does not know. */
const char *td_vk_result_name(VkResult result);
td_status td_vk_result_status(VkResult result);

/* Records that `call` failed on the device, and marks the device lost if that is what the result says. */
td_status td_vk_fail(vk_device *device, VkResult result, const char *call, const char *file, int line);

/* Makes a call of the device's own table; on failure records it and jumps to `fail`. */
#define TD_VK_TRY(device, call, ...)                                                                         \
    do {                                                                                                     \
        VkResult result_ = (device)->api.call(__VA_ARGS__);                                                  \
        if (result_ < VK_SUCCESS) {                                                                          \
            status = td_vk_fail((device), result_, #call, __FILE__, __LINE__);                               \
            goto fail;                                                                                       \
        }                                                                                                    \
    } while (0)

/* The same for calls of the form create(device, info, allocator, out). What a failed call leaves in *out is
 * undefined, so it is cleared for whoever cleans up. */
#define TD_VK_CREATE(device, call, info, out)                                                                \
    do {                                                                                                     \
        VkResult result_ = (device)->api.call((device)->handle, (info), NULL, (out));                        \
        if (result_ < VK_SUCCESS) {                                                                          \
            *(out) = VK_NULL_HANDLE;                                                                         \
            status = td_vk_fail((device), result_, #call, __FILE__, __LINE__);                               \
            goto fail;                                                                                       \
        }                                                                                                    \
    } while (0)

#endif
