/* The self-test of devices (src/device/selftest.c): run once per driver version, remembered, believed; a
 * damaged or foreign verdict is not. Drivers that compute wrongly or lack what they claim are made by a layer
 * over the function tables of OpenCL and Vulkan.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/blob_cache.h"
#include "base/file.h"
#include "device/backend.h"
#include "device/opencl/cl_api.h"
#include "device/vulkan/vk_api.h"
#include "support.h"
#include "support/listen.h"
#include "support/temp_dir.h"

/* As selftest.c writes it. */
typedef struct stored_verdict {
    uint32_t version, computes, host_import_fails, timestamps_fail;
    char reason[256];
} stored_verdict;

/* ---------------------------------------------------------------- log lines */

static char warnings[4096];
static unsigned tests_run;

static void listen(void *ctx, td_log_level level, const char *message)
{
    (void)ctx;
    const size_t used = strlen(warnings);
    if (level == TD_LOG_WARN) snprintf(warnings + used, sizeof warnings - used, "%s\n", message);
    tests_run += strstr(message, "for the first time") != NULL;
}

static int set_up(void **state)
{
    warnings[0] = '\0';
    tests_run = 0;
    listen_to(listen, NULL, TD_LOG_INFO);
    return temp_dir_make(state);
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    return temp_dir_remove(state);
}

/* ---------------------------------------------------------------- helpers */

static bool store_binaries; /* of drivers that keep their code themselves, too */

static td_registry *open_registry(const struct td_registry_hooks *hooks)
{
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    options.cache_dir = temp_dir;
    options.hooks = hooks;
    options.store_binaries = store_binaries;
    check(td_registry_open(&options, &registry));
    standard_devices_found(registry);
    return registry;
}

/* Opens and closes every usable device; all must pass. */
static void open_all_once(void)
{
    td_registry *registry = open_registry(NULL);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        td_device *device = NULL;
        check(td_device_open(registry, td_registry_info(registry, i), &device));
        td_device_close(device);
    }
    td_registry_close(registry);
}

/* Devices that a self-test tells apart: twins share name and driver, hence the verdict. */
static unsigned count_kinds(const td_registry *registry)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        bool twin = false;
        for (size_t j = 0; j < i; j++) {
            const td_device_info *other = td_registry_info(registry, j);
            twin |= strcmp(other->name, info->name) == 0 && other->api == info->api;
        }
        kinds += !twin;
    }
    return kinds;
}

/* Every remembered verdict, changed in place by `change` and written back as `bytes` bytes. */
static unsigned change_verdicts(void (*change)(stored_verdict *), size_t bytes)
{
    unsigned changed = 0;
    td_blob_cache *cache = NULL;
    check(td_blob_cache_open(temp_dir, &cache));
    DIR *dir = opendir(temp_dir);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        td_digest key;
        void *data = NULL;
        size_t had = 0;
        stored_verdict verdict[2] = {{0}};
        if (sscanf(entry->d_name, "selftest-%16" SCNx64 "%16" SCNx64 ".blob", &key.high, &key.low) != 2)
            continue;
        assert_true(td_blob_cache_load(cache, "selftest", key, &data, &had));
        assert_int_equal(had, sizeof *verdict);
        memcpy(verdict, data, sizeof *verdict);
        free(data);
        assert_int_equal(verdict->computes, 1);
        change(verdict);
        td_blob_cache_store(cache, "selftest", key, verdict, bytes);
        changed++;
    }
    closedir(dir);
    td_blob_cache_close(cache);
    return changed;
}

static td_point run_fill(td_device *device, td_memory *memory)
{
    td_list *list = new_list(device, TD_QUEUE_COMPUTE);
    record_fill_kernel(list, device, take(memory, TD_MEMORY_DEVICE, 4096), 7, 0);
    check(td_list_finish(list));
    const td_point done = submit(td_device_queue(device, TD_QUEUE_COMPUTE), list, NULL, 0);
    await(done);
    td_list_destroy(list);
    return done;
}

/* ---------------------------------------------------------------- remembered */

static void test_the_second_start_tests_and_builds_nothing(void **state)
{
    (void)state;
    td_registry *registry = open_registry(NULL);
    uint64_t builds[TD_API_COUNT] = {0};
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        td_device *device = NULL;
        td_memory *memory = NULL;
        assert_false(info->selftest_done);
        check(td_device_open(registry, info, &device));
        check(td_memory_create(device, "test", 0, &memory));
        run_fill(device, memory);
        td_memory_destroy(memory);
        assert_true(td_device_get_info(device)->selftest_done && td_device_get_info(device)->selftest_passed);
        assert_string_equal(td_device_get_info(device)->reason, "");
        builds[info->api] += td_device_kernel_builds(device);
        td_device_close(device);
    }
    assert_int_equal(tests_run, count_kinds(registry));
    for (int api = TD_API_OPENCL; api <= TD_API_VULKAN; api++)
        assert_true(!td_registry_report(registry, (td_api)api)->devices || builds[api] > 0);
    td_registry_close(registry);

    tests_run = 0;
    registry = open_registry(NULL);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        td_device *device = NULL;
        td_memory *memory = NULL;
        print_message("    on %s\n", info->selector);
        assert_true(info->selftest_done && info->selftest_passed && info->usable);
        check(td_device_open(registry, info, &device));
        assert_int_equal(atomic_load(&td_device_queue(device, TD_QUEUE_COMPUTE)->issued),
                         0); /* nothing ran */
        check(td_memory_create(device, "test", 0, &memory));
        run_fill(device, memory);
        assert_int_equal(td_device_kernel_builds(device), 0);
        td_memory_destroy(memory);
        td_device_close(device);
    }
    assert_int_equal(tests_run, 0);
    assert_string_equal(warnings, "");
    td_registry_close(registry);
}

static unsigned count_stored(const char *kind)
{
    unsigned found = 0;
    DIR *dir = opendir(temp_dir);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        found += strncmp(entry->d_name, kind, strlen(kind)) == 0;
    closedir(dir);
    return found;
}

static void test_so_it_is_with_binaries(void **state)
{
    store_binaries = true;
    test_the_second_start_tests_and_builds_nothing(state);
    store_binaries = false;
    assert_true(count_stored("opencl-") > 0);
}

static void test_reopening_in_one_registry_tests_once(void **state)
{
    (void)state;
    td_registry *registry = open_registry(NULL);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        for (int times = 0; times < 3; times++) {
            td_device *device = NULL;
            check(td_device_open(registry, td_registry_info(registry, i), &device));
            td_device_close(device);
        }
    }
    assert_int_equal(tests_run, count_kinds(registry));
    td_registry_close(registry);
}

/* ---------------------------------------------------------------- not believed */

static void leave(stored_verdict *verdict)
{
    (void)verdict;
}

static void make_foreign(stored_verdict *verdict)
{
    verdict->version++;
    verdict->computes = 0;
}

/* Nothing is known, so everything is tested again, and passes. */
static void expect_forgotten(void)
{
    tests_run = 0;
    td_registry *registry = open_registry(NULL);
    const unsigned kinds = count_kinds(registry);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        assert_false(td_registry_info(registry, i)->selftest_done);
        assert_true(td_registry_info(registry, i)->usable);
    }
    td_registry_close(registry);
    open_all_once();
    assert_int_equal(tests_run, kinds);
}

static void test_wrong_verdict_files_are_ignored(void **state)
{
    (void)state;
    open_all_once();
    change_verdicts(make_foreign, sizeof(stored_verdict)); /* another version */
    expect_forgotten();
    change_verdicts(leave, sizeof(stored_verdict) - 4);
    expect_forgotten();
    change_verdicts(leave, sizeof(stored_verdict) + 4);
    expect_forgotten();
    assert_string_equal(warnings, "");
}

static void test_damaged_verdict_files_are_ignored(void **state)
{
    (void)state;
    unsigned damaged = 0;
    open_all_once();
    DIR *dir = opendir(temp_dir);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char *data = NULL;
        size_t bytes = 0;
        if (strncmp(entry->d_name, "selftest-", 9) != 0) continue;
        check(td_file_read(temp_path(entry->d_name), 1 << 20, &data, &bytes));
        data[bytes - 1] ^= 1;
        check(td_file_write_atomic(temp_path(entry->d_name), data, bytes));
        free(data);
        damaged++;
    }
    closedir(dir);
    assert_true(damaged > 0);
    expect_forgotten();
    assert_non_null(strstr(warnings, "checksum"));
}

/* No place to remember anything: every opening tests, and works. */
static void test_without_a_cache(void **state)
{
    (void)state;
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    options.cache_dir = "/dev/null/no-folder";
    check(td_registry_open(&options, &registry));
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        td_device *device = NULL;
        check(td_device_open(registry, td_registry_info(registry, i), &device));
        assert_true(td_device_get_info(device)->selftest_passed);
        td_device_close(device);
    }
    assert_int_equal(tests_run, td_registry_count(registry));
    td_registry_close(registry);
    const char *first = strstr(warnings, "/dev/null/no-folder"); /* said once */
    assert_non_null(first);
    assert_null(strstr(first + 1, "/dev/null/no-folder"));
}

/* ---------------------------------------------------------------- believed */

static void condemn(stored_verdict *verdict)
{
    verdict->computes = 0;
    snprintf(verdict->reason, sizeof verdict->reason, "it cannot add; update the driver");
}

static void test_a_failing_verdict_is_believed(void **state)
{
    (void)state;
    open_all_once();
    assert_true(change_verdicts(condemn, sizeof(stored_verdict)) > 0);
    tests_run = 0;
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    options.cache_dir = temp_dir;
    check(td_registry_open(&options, &registry));
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        const td_device_info *selected = NULL;
        td_device *device = NULL;
        assert_true(info->selftest_done);
        assert_false(info->selftest_passed || info->usable);
        assert_string_equal(info->reason, "it cannot add; update the driver");
        refuse(TD_ERR_UNSUPPORTED, "it cannot add", td_registry_select(registry, info->selector, &selected));
        refuse(TD_ERR_UNSUPPORTED, "it cannot add", td_device_open(registry, info, &device));
        assert_null(device);
    }
    const td_device_info *any = NULL;
    refuse(TD_ERR_NOT_FOUND, "no usable device", td_registry_select(registry, "any", &any));
    assert_int_equal(tests_run, 0);
    td_registry_close(registry);
}

static void switch_off(stored_verdict *verdict)
{
    verdict->host_import_fails = 1;
    verdict->timestamps_fail = 1;
    snprintf(verdict->reason, sizeof verdict->reason, "two features switched off");
}

static void test_features_stay_switched_off(void **state)
{
    (void)state;
    open_all_once();
    change_verdicts(switch_off, sizeof(stored_verdict));
    td_registry *registry = open_registry(NULL);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        td_device *device = NULL;
        td_memory *memory = NULL;
        td_times times;
        td_span span;
        assert_true(info->usable && info->selftest_passed);
        assert_string_equal(info->reason, "two features switched off");
        check(td_device_open(registry, info, &device));
        check(td_memory_create(device, "test", 0, &memory));
        const td_device_caps *caps = &td_device_get_info(device)->caps;
        assert_false(caps->host_import || caps->timestamps);
        refuse(TD_ERR_UNSUPPORTED, "in place", td_memory_import(memory, &times, 4096, &span));
        refuse(TD_ERR_UNSUPPORTED, "timestamps", td_point_times(run_fill(device, memory), &times));
        td_memory_destroy(memory);
        td_device_close(device);
    }
    td_registry_close(registry);
}

/* ---------------------------------------------------------------- drivers that are wrong */

static td_cl_api cl_real;
static td_vk_api vk_real;

/* Runs one work-group of many: the elements past it stay as they were. */
static cl_int CL_API_CALL run_one_group(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                        const size_t *offset, const size_t *global, const size_t *local,
                                        cl_uint n_waits, const cl_event *waits, cl_event *event)
{
    (void)global;
    return cl_real.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, local, local, n_waits, waits,
                                          event);
}

static void break_opencl(void *cl_api)
{
    td_cl_api *api = cl_api;
    cl_real = *api;
    api->clEnqueueNDRangeKernel = run_one_group;
}

static void VKAPI_CALL dispatch_one_group(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    (void)x, (void)y, (void)z;
    vk_real.vkCmdDispatch(commands, 1, 1, 1);
}

static void break_vulkan(void *vk_api)
{
    td_vk_api *api = vk_api;
    if (!api->vkCmdDispatch) return;
    vk_real = *api;
    api->vkCmdDispatch = dispatch_one_group;
}

static void test_a_wrong_driver_is_found_out(void **state)
{
    (void)state;
    const struct td_registry_hooks hooks = {.wrap_opencl = break_opencl, .wrap_vulkan = break_vulkan};
    td_registry *registry = open_registry(&hooks);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        td_device *device = NULL;
        print_message("    on %s\n", td_registry_info(registry, i)->selector);
        refuse(TD_ERR_UNSUPPORTED, "cannot be used|self-test \"addition\"",
               td_device_open(registry, td_registry_info(registry, i), &device));
        assert_null(device);
    }
    td_registry_close(registry);
    tests_run = 0;
    td_registry_options options = options_of_environment();
    options.cache_dir = temp_dir;
    check(td_registry_open(&options, &registry)); /* remembered, although the layer is gone */
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        assert_false(info->usable);
        assert_non_null(strstr(info->reason, "addition"));
    }
    assert_int_equal(tests_run, 0);
    td_registry_close(registry);
}

/* Pinned chunks, which a driver may make of host memory too, are of megabytes; the self-test imports a page.
 */
static cl_mem CL_API_CALL refuse_host_memory(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                             cl_int *error)
{
    const bool imports = (flags & CL_MEM_USE_HOST_PTR) && bytes < MIB;
    if (!imports) return cl_real.clCreateBuffer(context, flags, bytes, host, error);
    *error = CL_INVALID_HOST_PTR;
    return NULL;
}

static void break_opencl_import(void *cl_api)
{
    td_cl_api *api = cl_api;
    cl_real = *api;
    api->clCreateBuffer = refuse_host_memory;
}

static VkResult VKAPI_CALL refuse_imports(VkDevice device, const VkMemoryAllocateInfo *info,
                                          const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory)
{
    for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT)
            return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    }
    return vk_real.vkAllocateMemory(device, info, callbacks, memory);
}

static void break_vulkan_import(void *vk_api)
{
    td_vk_api *api = vk_api;
    if (!api->vkAllocateMemory) return;
    vk_real = *api;
    api->vkAllocateMemory = refuse_imports;
}

/* A device whose optional feature fails is used without it, and a warning says so. */
static void test_a_failing_feature_is_switched_off(void **state)
{
    (void)state;
    const struct td_registry_hooks hooks = {.wrap_opencl = break_opencl_import,
                                            .wrap_vulkan = break_vulkan_import};
    td_registry *registry = open_registry(&hooks);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        const bool claimed = info->caps.host_import;
        td_device *device = NULL;
        td_memory *memory = NULL;
        print_message("    on %s\n", info->selector);
        check(td_device_open(registry, info, &device));
        const td_device_info *opened = td_device_get_info(device);
        assert_true(opened->selftest_passed && opened->caps.timestamps);
        assert_false(opened->caps.host_import);
        if (claimed) assert_non_null(strstr(opened->reason, "host memory in place switched off"));
        check(td_memory_create(device, "test", 0, &memory));
        run_fill(device, memory);
        td_memory_destroy(memory);
        td_device_close(device);
    }
    assert_non_null(strstr(warnings, "switched off"));
    td_registry_close(registry);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_the_second_start_tests_and_builds_nothing),
        WITH_FOLDER(test_so_it_is_with_binaries),
        WITH_FOLDER(test_reopening_in_one_registry_tests_once),
        WITH_FOLDER(test_wrong_verdict_files_are_ignored),
        WITH_FOLDER(test_damaged_verdict_files_are_ignored),
        WITH_FOLDER(test_without_a_cache),
        WITH_FOLDER(test_a_failing_verdict_is_believed),
        WITH_FOLDER(test_features_stay_switched_off),
        WITH_FOLDER(test_a_wrong_driver_is_found_out),
        WITH_FOLDER(test_a_failing_feature_is_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
