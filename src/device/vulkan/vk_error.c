/* Names and statuses of VkResult codes, and the one way in which a failed device call is recorded. Only the
 * codes that compute can meet are listed. Covered by tests/faults. */
#include "device/vulkan/vk_error.h"

/* clang-format off */
#define RESULTS(X)                                                                                           \
    X(VK_SUCCESS, TD_OK)                                                                                     \
    X(VK_NOT_READY, TD_ERR_TIMEOUT)                                                                          \
    X(VK_TIMEOUT, TD_ERR_TIMEOUT)                                                                            \
    X(VK_INCOMPLETE, TD_ERR_DRIVER)                                                                          \
    X(VK_ERROR_OUT_OF_HOST_MEMORY, TD_ERR_HOST_MEMORY)                                                       \
    X(VK_ERROR_OUT_OF_DEVICE_MEMORY, TD_ERR_DEVICE_MEMORY)                                                   \
    X(VK_ERROR_INITIALIZATION_FAILED, TD_ERR_DRIVER)                                                         \
    X(VK_ERROR_DEVICE_LOST, TD_ERR_DEVICE_LOST)                                                              \
    X(VK_ERROR_MEMORY_MAP_FAILED, TD_ERR_DEVICE_MEMORY)                                                      \
    X(VK_ERROR_LAYER_NOT_PRESENT, TD_ERR_UNSUPPORTED)                                                        \
    X(VK_ERROR_EXTENSION_NOT_PRESENT, TD_ERR_UNSUPPORTED)                                                    \
    X(VK_ERROR_FEATURE_NOT_PRESENT, TD_ERR_UNSUPPORTED)                                                      \
    X(VK_ERROR_INCOMPATIBLE_DRIVER, TD_ERR_UNSUPPORTED)                                                      \
    X(VK_ERROR_TOO_MANY_OBJECTS, TD_ERR_DEVICE_MEMORY)                                                       \
    X(VK_ERROR_FRAGMENTED_POOL, TD_ERR_DEVICE_MEMORY)                                                        \
    X(VK_ERROR_UNKNOWN, TD_ERR_DRIVER)                                                                       \
    X(VK_ERROR_OUT_OF_POOL_MEMORY, TD_ERR_DEVICE_MEMORY)                                                     \
    X(VK_ERROR_INVALID_EXTERNAL_HANDLE, TD_ERR_UNSUPPORTED)                                                  \
    X(VK_ERROR_FRAGMENTATION, TD_ERR_DEVICE_MEMORY)                                                          \
    X(VK_ERROR_VALIDATION_FAILED_EXT, TD_ERR_DRIVER)                                                         \
    X(VK_ERROR_INVALID_SHADER_NV, TD_ERR_BUILD)                                                              \
    X(VK_PIPELINE_COMPILE_REQUIRED, TD_ERR_BUILD)
/* clang-format on */

static const td_native_code TABLE[] = {
#define ROW(result, status) {result, status, #result},
    RESULTS(ROW)
#undef ROW
        {TD_CODE_END, TD_ERR_DRIVER, "VkResult"}};

const char *td_vk_result_name(VkResult result)
{
    return td_native_code_find(TABLE, result)->name;
}

td_status td_vk_result_status(VkResult result)
{
    return td_native_code_find(TABLE, result)->status;
}

static const char *next_step(td_status status)
{
    switch (status) {
    case TD_ERR_DEVICE_MEMORY:
        return "free device memory or make the batch smaller";
    case TD_ERR_HOST_MEMORY:
        return "close other programs or add swap";
    default:
        return "look into the system log and update the driver";
    }
}

td_status td_vk_fail(vk_device *device, VkResult result, const char *call, const char *file, int line)
{
    td_status status = td_vk_result_status(result);
    const char *name = td_vk_result_name(result);
    atomic_store(&device->troubled, true);
    if (status == TD_ERR_DEVICE_LOST) return td_device_mark_lost(&device->base, name, call);
    return td_error_set(status, name, file, line, "%s failed on %s with %s (%d); %s", call,
                        device->base.info.name, name, (int)result, next_step(status));
}
