/* vkstat: what a Vulkan driver says of its compiled compute shaders.
 * Reads lines "NAME BUFFERS FILE.spv", makes each pipeline on the first device the way the library does,
 * and prints per shader "shader=NAME" and one "key=value" line per statistic
 * (VK_KHR_pipeline_executable_properties), or "error=...". It never submits work, so the device may be one
 * without hardware (RADV's null device, a drm shim). Ends with 3 if there is no such device. Covered by
 * gate.py, whose planted kernels go through it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum { MAX_BUFFERS = 16, MAX_EXECUTABLES = 4, MAX_STATISTICS = 64, MAX_PARAM_BYTES = 128, NO_DEVICE = 3 };

/* Too much stack for one function. */
static VkPipelineExecutablePropertiesKHR executables[MAX_EXECUTABLES];
static VkPipelineExecutableStatisticKHR statistics[MAX_STATISTICS];

typedef struct vk_driver {
    VkDevice device;
    PFN_vkGetPipelineExecutablePropertiesKHR get_executables;
    PFN_vkGetPipelineExecutableStatisticsKHR get_statistics;
} vk_driver;

static void end_without_device(const char *why, VkResult result)
{
    fprintf(stderr, "no device: %s (%d)\n", why, (int)result);
    exit(NO_DEVICE);
}

static vk_driver open_driver(void)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                                .pApplicationInfo = &application};
    VkInstance instance;
    VkResult result = vkCreateInstance(&instance_info, NULL, &instance);
    if (result != VK_SUCCESS) end_without_device("vkCreateInstance", result);
    uint32_t count = 1;
    VkPhysicalDevice physical;
    result = vkEnumeratePhysicalDevices(instance, &count, &physical);
    if (result < 0 || count == 0) end_without_device("the driver offers none", result);
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(physical, &properties);

    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE};
    const char *extension = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    const VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                            .pNext = &feature,
                                            .queueCreateInfoCount = 1,
                                            .pQueueCreateInfos = &queue,
                                            .enabledExtensionCount = 1,
                                            .ppEnabledExtensionNames = &extension};
    vk_driver driver;
    result = vkCreateDevice(physical, &device_info, NULL, &driver.device);
    if (result != VK_SUCCESS) end_without_device("vkCreateDevice", result);
    driver.get_executables = (PFN_vkGetPipelineExecutablePropertiesKHR)vkGetDeviceProcAddr(
        driver.device, "vkGetPipelineExecutablePropertiesKHR");
    driver.get_statistics = (PFN_vkGetPipelineExecutableStatisticsKHR)vkGetDeviceProcAddr(
        driver.device, "vkGetPipelineExecutableStatisticsKHR");
    printf("device=%s\n", properties.deviceName);
    return driver;
}

static VkResult make_layout(VkDevice device, uint32_t n_buffers, VkPipelineLayout *layout)
{
    VkDescriptorSetLayoutBinding bindings[MAX_BUFFERS];
    for (uint32_t i = 0; i < n_buffers; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo set_info = {.sType =
                                                          VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                      .bindingCount = n_buffers,
                                                      .pBindings = bindings};
    VkDescriptorSetLayout set;
    const VkResult result = vkCreateDescriptorSetLayout(device, &set_info, NULL, &set);
    if (result != VK_SUCCESS) return result;
    const VkPushConstantRange params = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = MAX_PARAM_BYTES};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = 1,
                                             .pSetLayouts = &set,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &params};
    return vkCreatePipelineLayout(device, &info, NULL, layout);
}

static VkResult make_pipeline(VkDevice device, const char *path, uint32_t n_buffers, VkPipeline *pipeline)
{
    static uint32_t code[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) return VK_ERROR_INITIALIZATION_FAILED;
    const size_t bytes = fread(code, 1, sizeof code, file);
    fclose(file);
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
    VkShaderModule module;
    VkResult result = vkCreateShaderModule(device, &module_info, NULL, &module);
    VkPipelineLayout layout;
    if (result == VK_SUCCESS) result = make_layout(device, n_buffers, &layout);
    if (result != VK_SUCCESS) return result;
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = layout};
    return vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, pipeline);
}

static void print_statistic(const VkPipelineExecutableStatisticKHR *statistic)
{
    switch (statistic->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        printf("%s=%llu\n", statistic->name, (unsigned long long)statistic->value.u64);
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        printf("%s=%lld\n", statistic->name, (long long)statistic->value.i64);
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
        printf("%s=%g\n", statistic->name, statistic->value.f64);
        break;
    default:
        printf("%s=%u\n", statistic->name, statistic->value.b32);
        break;
    }
}

static void print_statistics(const vk_driver *driver, VkPipeline pipeline)
{
    const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    for (uint32_t i = 0; i < MAX_EXECUTABLES; i++)
        executables[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    uint32_t n_executables = MAX_EXECUTABLES;
    driver->get_executables(driver->device, &info, &n_executables, executables);
    for (uint32_t e = 0; e < n_executables; e++) {
        printf("subgroup=%u\n", executables[e].subgroupSize);
        const VkPipelineExecutableInfoKHR executable = {.sType =
                                                            VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                                        .pipeline = pipeline,
                                                        .executableIndex = e};
        for (uint32_t i = 0; i < MAX_STATISTICS; i++)
            statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
        uint32_t n_statistics = MAX_STATISTICS;
        driver->get_statistics(driver->device, &executable, &n_statistics, statistics);
        for (uint32_t i = 0; i < n_statistics; i++)
            print_statistic(&statistics[i]);
    }
}

int main(void)
{
    const vk_driver driver = open_driver();
    char name[128], path[1024];
    uint32_t n_buffers;
    while (scanf("%127s %u %1023s", name, &n_buffers, path) == 3) {
        printf("shader=%s\n", name);
        VkPipeline pipeline;
        if (n_buffers > MAX_BUFFERS) {
            printf("error=%u buffers, at most %d\n", n_buffers, MAX_BUFFERS);
            continue;
        }
        const VkResult result = make_pipeline(driver.device, path, n_buffers, &pipeline);
        if (result == VK_SUCCESS) {
            print_statistics(&driver, pipeline);
        } else {
            printf("error=the driver refuses %s (VkResult %d)\n", path, (int)result);
        }
        fflush(stdout); /* if the driver crashes, the shader it died of is the last one named */
    }
    return 0;
}
