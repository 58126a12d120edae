/* Devices too small for the kernels (src/device/limits.c, list.c, opencl/cl_list.c): named with their numbers when they
 * are listed or when work is recorded, never in the middle. Drivers that answer less than they have are made from the
 * real ones, by wrapping the calls that ask. Finding 25: the probes asked for groups of 128, kernels take 256. */
#include <stdio.h>
#include <string.h>

#include "device/backend.h"
#include "device/limits.h"
#include "device/opencl/cl_api.h"
#include "device/vulkan/vk_api.h"
#include "support.h"

/* ---------------------------------------------------------------- the judge */

/* As small as the kernels of class GPU allow. */
static td_device_info just_enough(td_api api)
{
    return (td_device_info){.api = api,
                            .type = TD_DEVICE_GPU,
                            .usable = true,
                            .gpu_kernels = true,
                            .caps = {.max_group_size = 256,
                                     .max_group_count = 65535,
                                     .local_memory_bytes = 16384,
                                     .max_params_bytes = 128,
                                     .max_buffers = 8,
                                     .offset_align = 512}};
}

static void judge_says(td_device_info info, const char *words)
{
    td_limits_judge(&info);
    if (!words && !info.usable) fail_msg("refused: %s", info.reason);
    if (!words) return;
    assert_false(info.usable);
    assert_non_null(strstr(info.reason, words));
}

static void test_finding_25_limits_are_judged(void **state)
{
    (void)state;
    for (int api = TD_API_OPENCL; api <= TD_API_VULKAN; api++) {
        td_device_info info = just_enough((td_api)api);
        judge_says(info, NULL);
        info.caps.max_group_size = 255;
        judge_says(info, "at most 255 items");
        info.gpu_kernels = false; /* kernels of class CPU have groups of 1 or 8 */
        judge_says(info, NULL);
        info = just_enough((td_api)api);
        info.caps.local_memory_bytes = 16383;
        judge_says(info, "16383 bytes of local memory");
        info = just_enough((td_api)api);
        info.caps.max_group_count = 65534;
        judge_says(info, "65534 work-groups");
        info = just_enough((td_api)api);
        info.caps.max_params_bytes = 124;
        judge_says(info, "124 bytes of parameters");
        info = just_enough((td_api)api);
        info.caps.max_buffers = 7;
        judge_says(info, "7 buffers");
        info = just_enough((td_api)api);
        info.caps.offset_align = 1024;
        judge_says(info, "multiples of 1024");
    }
}

/* What made a device unusable before stays the reason. */
static void test_first_reason_stays(void **state)
{
    (void)state;
    td_device_info info = just_enough(TD_API_VULKAN);
    info.usable = false;
    info.caps.max_group_size = 1;
    snprintf(info.reason, sizeof info.reason, "it has no compute queue");
    td_limits_judge(&info);
    assert_string_equal(info.reason, "it has no compute queue");
}

/* ---------------------------------------------------------------- drivers that answer 128 */

static td_cl_api real_cl;
static td_vk_api real_vk;
static size_t device_groups,
    kernel_groups; /* what devices, and kernels of OpenCL, are said to take; 0: the truth */

static cl_int CL_API_CALL ask_device(cl_device_id device, cl_device_info what, size_t room, void *value,
                                     size_t *bytes)
{
    const cl_int code = real_cl.clGetDeviceInfo(device, what, room, value, bytes);
    if (code == CL_SUCCESS && what == CL_DEVICE_MAX_WORK_GROUP_SIZE && device_groups)
        *(size_t *)value = device_groups;
    return code;
}

static cl_int CL_API_CALL ask_kernel(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                     size_t room, void *value, size_t *bytes)
{
    const cl_int code = real_cl.clGetKernelWorkGroupInfo(kernel, device, what, room, value, bytes);
    if (code == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE && kernel_groups)
        *(size_t *)value = kernel_groups;
    return code;
}

static void wrap_opencl(void *table)
{
    td_cl_api *api = table;
    real_cl = *api;
    api->clGetDeviceInfo = ask_device;
    api->clGetKernelWorkGroupInfo = ask_kernel;
}

static VkDriverId driver_id; /* what Vulkan's drivers say they are, with a UUID and as cards; 0: the truth */

static void pretend_card(VkPhysicalDeviceProperties2 *properties)
{
    properties->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    for (VkBaseOutStructure *link = properties->pNext; link; link = link->pNext) {
        if (link->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES)
            ((VkPhysicalDeviceVulkan12Properties *)(void *)link)->driverID = driver_id;
        if (link->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES)
            memset(((VkPhysicalDeviceVulkan11Properties *)(void *)link)->deviceUUID, 7, VK_UUID_SIZE);
    }
}

static void VKAPI_CALL ask_physical(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *properties)
{
    real_vk.vkGetPhysicalDeviceProperties2(device, properties);
    if (driver_id) pretend_card(properties);
    if (device_groups) properties->properties.limits.maxComputeWorkGroupInvocations = (uint32_t)device_groups;
}

static void VKAPI_CALL ask_basics(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties)
{
    real_vk.vkGetPhysicalDeviceProperties(device, properties);
    if (driver_id) properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static void wrap_vulkan(void *table)
{
    td_vk_api *api = table;
    real_vk = *api;
    api->vkGetPhysicalDeviceProperties = ask_basics;
    api->vkGetPhysicalDeviceProperties2 = ask_physical;
}

static const struct td_registry_hooks SMALL_DRIVERS = {wrap_opencl, wrap_vulkan};

static td_registry *open_wrapped(bool gpu_kernels, size_t groups)
{
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    options.gpu_kernels = gpu_kernels;
    options.hooks = &SMALL_DRIVERS;
    device_groups = groups;
    kernel_groups = 0;
    check(td_registry_open(&options, &registry));
    if (!missing_is_allowed()) assert_true(td_registry_count(registry) >= 2);
    return registry;
}

static void test_finding_25_drivers_with_groups_of_128(void **state)
{
    (void)state;
    for (int as_gpu = 0; as_gpu < 2; as_gpu++) {
        td_registry *registry = open_wrapped(as_gpu, 128);
        for (size_t i = 0; i < td_registry_count(registry); i++) {
            const td_device_info *info = td_registry_info(registry, i);
            print_message("    %s: %s\n", info->selector, info->reason);
            assert_int_equal(info->caps.max_group_size, 128);
            assert_int_equal(info->usable, !as_gpu);
            if (as_gpu) assert_non_null(strstr(info->reason, "at most 128 items, but kernel"));
        }
        td_registry_close(registry);
    }
}

/* MoltenVK gives two cards of a kind one UUID, so there it tells nothing; elsewhere it tells one card under two drivers. */
static void test_uuids_that_tell_nothing(void **state)
{
    (void)state;
    static const VkDriverId IDS[] = {VK_DRIVER_ID_MOLTENVK, VK_DRIVER_ID_MESA_RADV};
    for (size_t k = 0; k < 2; k++) {
        driver_id = IDS[k];
        td_registry *registry = open_wrapped(false, 0);
        for (size_t i = 0; i < td_registry_count(registry); i++) {
            const td_device_info *info = td_registry_info(registry, i);
            if (info->api == TD_API_VULKAN) assert_int_equal(info->has_uuid, k);
        }
        td_registry_close(registry);
    }
    driver_id = 0;
}

/* OpenCL: a kernel that the driver can only run in smaller groups is refused before the list can run. */
static void test_finding_25_kernel_with_smaller_groups(void **state)
{
    (void)state;
    td_registry *registry = open_wrapped(true, 0);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        td_device *device = NULL;
        td_memory *memory = NULL;
        td_span span;
        if (info->api != TD_API_OPENCL) continue;
        check(td_device_open(registry, info, &device));
        check(td_memory_create(device, "test", 0, &memory));
        check(td_memory_alloc(memory, TD_MEMORY_DEVICE, 64, &span));
        for (kernel_groups = 127; kernel_groups <= 128; kernel_groups++) {
            td_list *list = new_list(device, TD_QUEUE_COMPUTE);
            record_fill_kernel(list, device, span, 7, 0);
            if (kernel_groups < 128)
                refuse(TD_ERR_LIMIT, "kernel fill|work-groups of 128|at most 127", td_list_finish(list));
            else
                check(td_list_finish(list));
            td_list_destroy(list);
        }
        td_memory_destroy(memory);
        td_device_close(device);
    }
    td_registry_close(registry);
}

/* ---------------------------------------------------------------- recording */

/* Should a device be opened all the same, a list refuses what does not fit, with the numbers. */
static void test_finding_25_dispatch_checks_groups(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_device_caps *caps = &b.device[i]->info.caps;
        const uint32_t group = td_device_group_size(b.device[i], TD_K_fill);
        const td_span span = take(b.memory[i], TD_MEMORY_DEVICE, 64);
        const td_fill_params params = {.n = 16};
        td_list *list = new_list(b.device[i], TD_QUEUE_COMPUTE);
        const uint32_t own = caps->max_group_size;
        caps->max_group_size = group - 1;
        refuse(TD_ERR_LIMIT, "kernel fill has work-groups of|takes at most",
               td_list_dispatch(list, TD_K_fill, &span, &params, (td_grid){1, 1, 1}, (td_cost){0}));
        caps->max_group_size = group;
        check(td_list_dispatch(list, TD_K_fill, &span, &params, (td_grid){1, 1, 1}, (td_cost){0}));
        caps->max_group_size = own;
        run_once(b.device[i], TD_QUEUE_COMPUTE, list);
        td_list_destroy(list);
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- the simulated device */

static void test_finding_25_small_simulated_device(void **state)
{
    (void)state;
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    const td_device_info *info = NULL;
    options.sim_model = "group_size=128";
    check(td_registry_open(&options, &registry));
    refuse(TD_ERR_UNSUPPORTED, "at most 128 items", td_registry_select(registry, "sim:0", &info));
    td_registry_close(registry);
    options.sim_model = "group_size=256,offset_align=512";
    check(td_registry_open(&options, &registry));
    check(td_registry_select(registry, "sim:0", &info));
    assert_int_equal(info->caps.offset_align, 512);
    td_registry_close(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finding_25_limits_are_judged),
        cmocka_unit_test(test_first_reason_stays),
        cmocka_unit_test(test_finding_25_drivers_with_groups_of_128),
        cmocka_unit_test(test_uuids_that_tell_nothing),
        cmocka_unit_test(test_finding_25_kernel_with_smaller_groups),
        cmocka_unit_test(test_finding_25_dispatch_checks_groups),
        cmocka_unit_test(test_finding_25_small_simulated_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
