/* The table of Vulkan functions and its loader. The rows are in vk_api.def; nothing here links to a Vulkan
 * library, so the program starts where there is none. One struct type serves all levels: the instance's
 * table holds the GLOBAL and INSTANCE entries, each device's table the DEVICE entries of its own driver;
 * entries of other levels are NULL. Covered by tests/device on every Vulkan device present.
 */
#ifndef TD_DEVICE_VULKAN_VK_API_H
#define TD_DEVICE_VULKAN_VK_API_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "tandem/status.h"

typedef struct td_vk_api {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr vkGetDeviceProcAddr;
#define TD_VK(kind, level, need, name, parameters, arguments) PFN_##name name;
#include "device/vulkan/vk_api.def"
#undef TD_VK
} td_vk_api;

/* A test layer: called once for each level loaded, with a table in which only that level's entries are set,
 * to replace entries by wrappers of its own. NULL: none. */
typedef void (*td_vk_wrap)(void *vk_api);

/* Opens the loader library and loads the GLOBAL entries. The library stays open forever: drivers leave
 * threads and thread-exit handlers behind that must not lose their code. TD_ERR_NOT_FOUND when it cannot be
 * opened. */
td_status td_vk_api_open(td_vk_api *api, const char *library, td_vk_wrap wrap);

/* Loads the INSTANCE entries of `instance`. */
td_status td_vk_api_load_instance(td_vk_api *api, VkInstance instance, td_vk_wrap wrap);

/* Fills *api with the DEVICE entries of `device`, through the instance's table. */
td_status td_vk_api_load_device(td_vk_api *api, const td_vk_api *instance_api, VkDevice device,
                                td_vk_wrap wrap);

#endif
