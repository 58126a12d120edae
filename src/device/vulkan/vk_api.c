/* Loads the table of Vulkan functions from the rows of vk_api.def. See vk_api.h. Does not create anything
 * in Vulkan. Covered by tests/device/test_registry.c (library missing or not a Vulkan loader). */
#include "device/vulkan/vk_api.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

typedef enum vk_level { LEVEL_GLOBAL, LEVEL_INSTANCE, LEVEL_DEVICE } vk_level;
typedef enum vk_need { NEED_CORE, NEED_EXTENSION } vk_need;

static const struct vk_entry {
    const char *name;
    size_t offset; /* of the pointer in td_vk_api */
    vk_level level;
    vk_need need;
} ENTRIES[] = {
#define TD_VK(kind, level, need, name, parameters, arguments)                                                \
    {#name, offsetof(td_vk_api, name), LEVEL_##level, NEED_##need},
#include "device/vulkan/vk_api.def"
#undef TD_VK
};

enum { N_ENTRIES = sizeof ENTRIES / sizeof *ENTRIES };

static PFN_vkVoidFunction resolve(const td_vk_api *loader, VkInstance instance, VkDevice device,
                                  const char *name)
{
    return device ? loader->vkGetDeviceProcAddr(device, name) : loader->vkGetInstanceProcAddr(instance, name);
}

/* The level is loaded into a table of its own first, so that the test layer sees each entry exactly once.
 * What was found stays usable when something is missing: the caller still has to destroy what it made. */
static td_status load_level(td_vk_api *api, const td_vk_api *loader, vk_level level, VkInstance instance,
                            VkDevice device, td_vk_wrap wrap)
{
    td_vk_api loaded = {0};
    const char *missing = NULL;
    for (size_t i = 0; i < N_ENTRIES; i++) {
        if (ENTRIES[i].level != level) continue;
        PFN_vkVoidFunction function = resolve(loader, instance, device, ENTRIES[i].name);
        if (!function && ENTRIES[i].need == NEED_CORE) missing = ENTRIES[i].name;
        memcpy((char *)&loaded + ENTRIES[i].offset, &function, sizeof function);
    }
    if (wrap) wrap(&loaded);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        if (ENTRIES[i].level != level) continue;
        memcpy((char *)api + ENTRIES[i].offset, (char *)&loaded + ENTRIES[i].offset,
               sizeof(PFN_vkVoidFunction));
    }
    if (!missing) return TD_OK;
    return TD_FAIL(TD_ERR_UNSUPPORTED,
                   "Vulkan has no %s here; install a loader and driver of Vulkan 1.2 or newer", missing);
}

td_status td_vk_api_open(td_vk_api *api, const char *library, td_vk_wrap wrap)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return TD_FAIL(TD_ERR_NOT_FOUND, "%s", dlerror());
    void *symbol = dlsym(handle, "vkGetInstanceProcAddr");
    if (!symbol)
        return TD_FAIL(TD_ERR_NOT_FOUND, "%s is not a Vulkan loader: it has no vkGetInstanceProcAddr",
                       library);
    memcpy(&api->vkGetInstanceProcAddr, &symbol, sizeof symbol);
    return load_level(api, api, LEVEL_GLOBAL, VK_NULL_HANDLE, VK_NULL_HANDLE, wrap);
}

td_status td_vk_api_load_instance(td_vk_api *api, VkInstance instance, td_vk_wrap wrap)
{
    PFN_vkVoidFunction get = api->vkGetInstanceProcAddr(instance, "vkGetDeviceProcAddr");
    if (!get)
        return TD_FAIL(TD_ERR_UNSUPPORTED,
                       "the Vulkan library has no vkGetDeviceProcAddr; reinstall libvulkan1");
    memcpy(&api->vkGetDeviceProcAddr, &get, sizeof get);
    return load_level(api, api, LEVEL_INSTANCE, instance, VK_NULL_HANDLE, wrap);
}

td_status td_vk_api_load_device(td_vk_api *api, const td_vk_api *instance_api, VkDevice device,
                                td_vk_wrap wrap)
{
    return load_level(api, instance_api, LEVEL_DEVICE, VK_NULL_HANDLE, device, wrap);
}
