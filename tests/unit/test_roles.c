/* Roles (src/pipeline/roles.c) over a made-up list of devices: this file stands in for the registry, so that
 * GPUs, broken devices and hidden ones can be tried on any computer. Selectors themselves are tested with the
 * real registry in tests/device/test_registry.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pipeline/roles.h"
#include "support/listen.h"

/* ---------------------------------------------------------------- the registry of this test */

enum { GPU_CL, GPU_VK, IGPU, POCL, LAVAPIPE, BROKEN, SIM0, SIM1, N_DEVICES };

struct td_registry {
    td_device_info infos[N_DEVICES];
    size_t best; /* what "any" selects; N_DEVICES: nothing is usable */
};

static td_device_info make_info(td_api api, td_device_type type, int index, uint32_t group,
                                const char *selector)
{
    td_device_info info = {
        .api = api, .type = type, .index = index, .given_index = index + 2, .usable = true};
    info.phys_group = group;
    snprintf(info.selector, sizeof info.selector, "%s", selector);
    snprintf(info.name, sizeof info.name, "Device %s", selector);
    return info;
}

static struct td_registry make_registry(void)
{
    struct td_registry registry = {.best = IGPU};
    registry.infos[GPU_CL] = make_info(TD_API_OPENCL, TD_DEVICE_GPU, 0, 1, "cl:0.0");
    registry.infos[GPU_VK] = make_info(TD_API_VULKAN, TD_DEVICE_GPU, 1, 1, "vk:0");
    registry.infos[IGPU] = make_info(TD_API_VULKAN, TD_DEVICE_IGPU, 2, 2, "vk:1");
    registry.infos[POCL] = make_info(TD_API_OPENCL, TD_DEVICE_CPU, 3, 3, "cl:1.0");
    registry.infos[LAVAPIPE] = make_info(TD_API_VULKAN, TD_DEVICE_CPU, 4, 3, "vk:2");
    registry.infos[BROKEN] = make_info(TD_API_VULKAN, TD_DEVICE_GPU, 5, 4, "vk:3");
    registry.infos[BROKEN].usable = false;
    snprintf(registry.infos[BROKEN].reason, sizeof registry.infos[BROKEN].reason, "no timeline semaphores");
    registry.infos[SIM0] = make_info(TD_API_SIM, TD_DEVICE_SIM, -1, 5, "sim");
    registry.infos[SIM1] = make_info(TD_API_SIM, TD_DEVICE_SIM, -1, 5, "sim:1");
    return registry;
}

td_status td_registry_select(const td_registry *registry, const char *selector, const td_device_info **out)
{
    *out = NULL;
    if (strcmp(selector, "any") == 0 && registry->best == N_DEVICES) {
        return TD_FAIL(TD_ERR_NOT_FOUND, "there is no usable device");
    }
    for (size_t i = 0; i < N_DEVICES; i++) {
        const td_device_info *info = &registry->infos[i];
        char index[16];
        snprintf(index, sizeof index, "%d", info->index);
        const bool is_any = strcmp(selector, "any") == 0 && registry->best == i;
        if (!is_any && strcmp(selector, info->selector) != 0 && strcmp(selector, index) != 0) continue;
        if (!info->usable)
            return TD_FAIL(TD_ERR_UNSUPPORTED, "'%s' cannot be used: %s", selector, info->reason);
        *out = info;
        return TD_OK;
    }
    return TD_FAIL(TD_ERR_NOT_FOUND, "no device fits '%s'", selector);
}

size_t td_registry_count(const td_registry *registry)
{
    (void)registry;
    return SIM0;
}

const td_device_info *td_registry_info(const td_registry *registry, size_t position)
{
    return &registry->infos[position];
}

/* ---------------------------------------------------------------- tests */

static td_status resolve(const td_registry *registry, const char *data, const char *model, bool allow_same,
                         td_roles *out)
{
    const td_roles_request request = {.data_device = data, .model_device = model, .allow_same = allow_same};
    memset(out, 0, sizeof *out);
    return td_roles_resolve(registry, &request, out);
}

static void expect_error(const char *words)
{
    if (!strstr(td_error_last()->message, words))
        fail_msg("'%s' is not in '%s'", words, td_error_last()->message);
}

static void test_two_devices(void **state)
{
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, "2", "cl:0.0", false, &roles), TD_OK);
    assert_int_equal(roles.mode, TD_ROLES_TWO_DEVICE);
    assert_ptr_equal(roles.data, &registry.infos[IGPU]);
    assert_ptr_equal(roles.model, &registry.infos[GPU_CL]);
    assert_string_equal(td_roles_mode_name(roles.mode), "two-device");
}

static void test_only_a_model_device(void **state)
{
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, "", "sim", false, &roles), TD_OK);
    assert_int_equal(roles.mode, TD_ROLES_SINGLE);
    assert_ptr_equal(roles.model, &registry.infos[SIM0]);
    assert_ptr_equal(roles.data, roles.model);
}

static void test_no_device_given(void **state)
{
    td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, NULL, "", false, &roles), TD_OK);
    assert_int_equal(roles.mode, TD_ROLES_SINGLE);
    assert_ptr_equal(roles.model, &registry.infos[IGPU]);
    assert_ptr_equal(roles.data, roles.model);
    registry.best = N_DEVICES;
    assert_int_equal(resolve(&registry, NULL, NULL, false, &roles), TD_ERR_NOT_FOUND);
}

/* Processes of one computer take its devices in turn, as often as need be; drivers of the same silicon count once,
 * and whoever names a device gets it. */
static void test_several_processes(void **state)
{
    static const size_t TURNS[] = {GPU_CL, IGPU, GPU_CL, IGPU};
    td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    registry.infos[IGPU].type = TD_DEVICE_GPU; /* a second card, under the Vulkan driver alone */
    registry.best = GPU_CL;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(td_roles_resolve(&registry, &(td_roles_request){.local_rank = i}, &roles), TD_OK);
        assert_ptr_equal(roles.model, &registry.infos[TURNS[i]]);
    }
    registry.best = POCL;
    assert_int_equal(td_roles_resolve(&registry, &(td_roles_request){.local_rank = 1}, &roles), TD_OK);
    assert_ptr_equal(roles.model, &registry.infos[POCL]);
    const td_roles_request named = {.model_device = "2", .local_rank = 3};
    assert_int_equal(td_roles_resolve(&registry, &named, &roles), TD_OK);
    assert_ptr_equal(roles.model, &registry.infos[IGPU]);
}

static void test_only_a_data_device(void **state)
{
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, "2", NULL, false, &roles), TD_ERR_CONFIG);
    expect_error("'2'");
    expect_error("devices.model");
}

static void test_same_device_twice(void **state)
{
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, "3", "cl:1.0", false, &roles), TD_ERR_CONFIG);
    expect_error("same device cl:1.0");
    expect_error("devices.allow_same_device");
    assert_int_equal(resolve(&registry, "3", "cl:1.0", true, &roles), TD_OK);
    assert_int_equal(roles.mode, TD_ROLES_TWO_DEVICE);
    assert_ptr_equal(roles.data, roles.model);
}

static void test_two_handles_of_one_gpu(void **state)
{
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, "0", "1", false, &roles), TD_ERR_CONFIG);
    expect_error("two handles of one physical device");
    assert_int_equal(resolve(&registry, "0", "1", true, &roles), TD_OK);
    assert_int_equal(roles.mode, TD_ROLES_TWO_DEVICE);
}

static void test_drivers_that_pair_freely(void **state)
{
    static const char *const PAIRS[][2] = {
        {"3", "4"}, {"4", "3"}, {"sim", "sim:1"}, {"sim", "3"}, {"0", "2"}};
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++) {
        assert_int_equal(resolve(&registry, PAIRS[i][0], PAIRS[i][1], false, &roles), TD_OK);
        assert_int_equal(roles.mode, TD_ROLES_TWO_DEVICE);
    }
}

static void test_unknown_and_unusable(void **state)
{
    const td_registry registry = make_registry();
    td_roles roles;
    (void)state;
    assert_int_equal(resolve(&registry, NULL, "vk:77", false, &roles), TD_ERR_CONFIG);
    expect_error("model device: no device fits 'vk:77'");
    assert_int_equal(resolve(&registry, "vk:77", "0", false, &roles), TD_ERR_CONFIG);
    expect_error("data device: no device fits 'vk:77'");
    assert_int_equal(resolve(&registry, "5", "0", false, &roles), TD_ERR_CONFIG);
    expect_error("no timeline semaphores");
    assert_null(roles.data);
}

static void collect_lines(void *context, td_log_level level, const char *message)
{
    char *lines = context;
    const size_t used = strlen(lines);
    (void)level;
    snprintf(lines + used, 512 - used, "%s\n", message);
}

static void test_mapping_is_logged(void **state)
{
    const td_registry registry = make_registry();
    char lines[512] = "";
    td_roles roles;
    (void)state;
    listen_to(collect_lines, lines, TD_LOG_INFO);
    assert_int_equal(resolve(&registry, "2", "0", false, &roles), TD_OK);
    assert_int_equal(resolve(&registry, NULL, "sim", false, &roles), TD_OK);
    listen_to(NULL, NULL, TD_LOG_ERROR);
    assert_non_null(strstr(lines, "data role: device 2 (given index 4), vk:1"));
    assert_non_null(strstr(lines, "model role: device 0 (given index 2), cl:0.0"));
    assert_non_null(strstr(lines, "model role: simulated device, sim"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_only_a_model_device),
        cmocka_unit_test(test_no_device_given),
        cmocka_unit_test(test_several_processes),
        cmocka_unit_test(test_only_a_data_device),
        cmocka_unit_test(test_same_device_twice),
        cmocka_unit_test(test_two_handles_of_one_gpu),
        cmocka_unit_test(test_drivers_that_pair_freely),
        cmocka_unit_test(test_unknown_and_unusable),
        cmocka_unit_test(test_mapping_is_logged),
    };
    return cmocka_run_group_tests_name("roles", tests, NULL, NULL);
}
