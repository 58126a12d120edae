/* The Vulkan backend's front door: opens the loader, makes the instance, listens to the validation layer
 * when asked to. What each device can do is found by vk_probe.c. Without Vulkan it does not fail: the report
 * says what to install. Covered by tests/device/test_registry.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"
#define INSTALL_HINT                                                                                         \
    "install mesa-vulkan-drivers (AMD, Intel, and the CPU through lavapipe) or the NVIDIA driver"

/* ---------------------------------------------------------------- validation */

static VKAPI_ATTR VkBool32 VKAPI_CALL count_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                    VkDebugUtilsMessageTypeFlagsEXT types,
                                                    const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                    void *user)
{
    (void)severity;
    (void)types;
    vk_state *state = user;
    atomic_fetch_add(&state->messages, 1);
    char line[2048];
    snprintf(line, sizeof line, "Vulkan validation: %s", data->pMessage);
    for (char *c = line; *c; c++)
        if (*c == '\n') *c = ' ';
    td_log_error("%s", line);
    return VK_FALSE;
}

static VkDebugUtilsMessengerCreateInfoEXT describe_messenger(vk_state *state)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = count_message,
        .pUserData = state,
    };
}

static bool has_layer(const td_vk_api *api, const char *name)
{
    VkLayerProperties *layers = NULL;
    uint32_t count = 0;
    bool found = false;
    if (api->vkEnumerateInstanceLayerProperties(&count, NULL) < VK_SUCCESS) return false;
    if (TD_NEW_ARRAY(&layers, count) != TD_OK) return false;
    if (api->vkEnumerateInstanceLayerProperties(&count, layers) < VK_SUCCESS) count = 0;
    for (uint32_t i = 0; i < count; i++)
        found |= strcmp(layers[i].layerName, name) == 0;
    free(layers);
    return found;
}

/* ---------------------------------------------------------------- instance */

static VkResult create_instance(vk_state *state, bool validation)
{
    static const char *const LAYERS[] = {VALIDATION_LAYER};
    static const char *const EXTENSIONS[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                             VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    static const VkValidationFeatureEnableEXT CHECKS[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const VkDebugUtilsMessengerCreateInfoEXT messenger = describe_messenger(state);
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &messenger, /* messages about the instance itself */
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = CHECKS,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "tandem",
        .apiVersion = VK_API_VERSION_1_2,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validation ? &features : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = validation ? 1 : 0,
        .ppEnabledLayerNames = LAYERS,
        .enabledExtensionCount = validation ? 2 : 0,
        .ppEnabledExtensionNames = EXTENSIONS,
    };
    return state->api.vkCreateInstance(&info, NULL, &state->instance);
}

static void say_missing(td_api_report *report, VkResult result)
{
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER || result == VK_SUCCESS) {
        snprintf(report->message, sizeof report->message, "no Vulkan driver was found; %s", INSTALL_HINT);
    } else {
        snprintf(report->message, sizeof report->message,
                 "vkCreateInstance failed with %s; reinstall libvulkan1, or %s", td_vk_result_name(result),
                 INSTALL_HINT);
    }
}

/* Makes the instance and everything that hangs on it. False, with the reason in the report, when the computer
 * cannot do that. */
static bool start_instance(vk_state *state, const td_registry_options *options, td_api_report *report)
{
    uint32_t version = VK_API_VERSION_1_0;
    if (state->api.vkEnumerateInstanceVersion) (void)state->api.vkEnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2) {
        snprintf(report->message, sizeof report->message,
                 "the Vulkan loader answers for version %u.%u, but 1.2 is needed; install a newer libvulkan1",
                 VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
        return false;
    }
    bool validation = options->validation;
    if (validation && !has_layer(&state->api, VALIDATION_LAYER)) {
        snprintf(report->message, sizeof report->message,
                 "Vulkan validation was asked for but %s is not installed; install vulkan-validationlayers",
                 VALIDATION_LAYER);
        td_log_warn("%s", report->message);
        validation = false;
    }
    const VkResult result = create_instance(state, validation);
    if (result < VK_SUCCESS) {
        state->instance = VK_NULL_HANDLE;
        say_missing(report, result);
        return false;
    }
    if (td_vk_api_load_instance(&state->api, state->instance, state->wrap) != TD_OK) {
        snprintf(report->message, sizeof report->message, "%.383s", td_error_last()->message);
        return false;
    }
    if (validation) {
        const VkDebugUtilsMessengerCreateInfoEXT info = describe_messenger(state);
        if (!state->api.vkCreateDebugUtilsMessengerEXT ||
            state->api.vkCreateDebugUtilsMessengerEXT(state->instance, &info, NULL, &state->messenger) <
                VK_SUCCESS) {
            state->messenger = VK_NULL_HANDLE;
            snprintf(report->message, sizeof report->message,
                     "Vulkan validation runs, but its messages cannot be received; reinstall "
                     "vulkan-validationlayers");
            td_log_warn("%s", report->message);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- the backend */

static void unload(void *opaque)
{
    vk_state *state = opaque;
    if (!state) return;
    if (state->messenger) state->api.vkDestroyDebugUtilsMessengerEXT(state->instance, state->messenger, NULL);
    if (state->instance && state->api.vkDestroyInstance) state->api.vkDestroyInstance(state->instance, NULL);
    free(state->physicals);
    free(state);
}

static td_status probe(const td_registry_options *options, td_info_list *infos, td_api_report *report,
                       void **out)
{
    const char *library = options->vulkan_library ? options->vulkan_library : "libvulkan.so.1";
    vk_state *state = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&state));
    state->wrap = options->hooks ? options->hooks->wrap_vulkan : NULL;
    state->no_timestamps = options->no_timestamps;
    snprintf(report->library, sizeof report->library, "%s", library);
    *out = state;
    if (td_vk_api_open(&state->api, library, state->wrap) != TD_OK) {
        snprintf(report->message, sizeof report->message,
                 "%.250s; install libvulkan1 and a driver (mesa-vulkan-drivers)", td_error_last()->message);
        return TD_OK;
    }
    report->loaded = true;
    if (!start_instance(state, options, report)) return TD_OK;
    const size_t before = infos->count;
    TD_TRY(td_vk_probe_devices(state, infos, report));
    if (infos->count == before && !report->message[0]) say_missing(report, VK_SUCCESS);
    return TD_OK;
fail:
    unload(state);
    *out = NULL;
    return status;
}

static uint64_t validation_messages(void *opaque)
{
    vk_state *state = opaque;
    return state ? atomic_load(&state->messages) : 0;
}

const td_backend td_backend_vulkan = {
    .api = TD_API_VULKAN,
    .name = "vulkan",
    .probe = probe,
    .unload = unload,
    .open = td_vk_open,
    .validation_messages = validation_messages,
};
