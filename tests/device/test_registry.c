/* The registry and selectors (src/device/registry.c, select.c, device.c): every form of selector on the
 * devices present and on an invented computer with several GPUs, hiding and renumbering, loaders and drivers
 * that are missing, and opening. Drivers read their environment once per process, so what depends on it runs
 * in a child: this program again, with the name of a probe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/registry_internal.h"
#include "support.h"

static td_registry *open_with(const td_registry_options *options)
{
    td_registry *registry = NULL;
    check(td_registry_open(options, &registry));
    return registry;
}

static const td_device_info *find(const td_registry *registry, const char *selector)
{
    const td_device_info *info = NULL;
    check(td_registry_select(registry, selector, &info));
    return info;
}

static void refuse_selector(const td_registry *registry, const char *selector, const char *words)
{
    const td_device_info *info = (const td_device_info *)(uintptr_t)1;
    refuse(TD_ERR_NOT_FOUND, words, td_registry_select(registry, selector, &info));
    assert_null(info);
}

/* ---------------------------------------------------------------- the devices of this computer */

static void test_identity(void **state)
{
    (void)state;
    const td_registry_options options = options_of_environment();
    td_registry *registry = open_with(&options);
    standard_devices_found(registry);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        print_message("    %s: %s, %s\n", info->selector, info->name, info->driver);
        assert_int_equal(info->index, i);
        assert_int_equal(info->given_index, i);
        assert_true(info->name[0] && info->platform_name[0] && info->driver[0] && info->api_version[0]);
        assert_true(info->usable || info->reason[0]);
        const td_device_caps *caps = &info->caps;
        assert_true(caps->memory_bytes >= caps->max_alloc_bytes && caps->max_alloc_bytes >= 64 * MIB);
        assert_true(caps->max_binding_bytes >= 64 * MIB);
        assert_true(caps->offset_align && !(caps->offset_align & (caps->offset_align - 1)));
        assert_true(!caps->host_import || caps->host_import_align);
        assert_true(caps->max_group_size >= 128 && caps->max_group_count >= 65535);
        assert_true(caps->max_params_bytes >= 128 && caps->max_buffers >= 8 && caps->compute_units);
        for (size_t j = 0; j < i; j++) {
            const td_device_info *other = td_registry_info(registry, j);
            assert_string_not_equal(info->selector, other->selector);
            /* CPU drivers all compute on the same cores. */
            if (info->type == TD_DEVICE_CPU && other->type == TD_DEVICE_CPU)
                assert_int_equal(info->phys_group, other->phys_group);
        }
    }
    assert_null(td_registry_info(registry, td_registry_count(registry)));
    assert_true(find(registry, "sim:0")->phys_group != find(registry, "sim:1")->phys_group);
    td_registry_close(registry);
    td_registry_close(NULL);
}

/* Every name of a device that must lead back to it. */
static void select_in_every_form(const td_registry *registry, const td_device_info *info)
{
    char text[160];
    assert_ptr_equal(find(registry, info->selector), info);
    snprintf(text, sizeof text, "%d", info->index);
    assert_ptr_equal(find(registry, text), info);
    if (info->api == TD_API_OPENCL) {
        snprintf(text, sizeof text, "cl:%u.%u", info->platform, info->ordinal);
        assert_ptr_equal(find(registry, text), info);
    } else {
        snprintf(text, sizeof text, "vk:%u", info->ordinal);
        assert_ptr_equal(find(registry, text), info);
    }
    if (info->has_uuid) {
        char uuid[33];
        for (size_t i = 0; i < sizeof info->uuid; i++)
            snprintf(uuid + 2 * i, 3, "%02x", info->uuid[i]);
        snprintf(text, sizeof text, "uuid:%s", uuid);
        assert_int_equal(find(registry, text)->phys_group, info->phys_group);
    }
}

static void test_selectors_lead_back(void **state)
{
    (void)state;
    const td_registry_options options = options_of_environment();
    td_registry *registry = open_with(&options);
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        if (info->usable) select_in_every_form(registry, info);
    }
    assert_string_equal(find(registry, "sim")->selector, "sim:0");
    assert_string_equal(find(registry, "sim:1")->selector, "sim:1");
    if (td_registry_count(registry)) {
        assert_int_not_equal(find(registry, "any")->type, TD_DEVICE_SIM); /* never chosen by itself */
        assert_int_equal(find(registry, "cpu")->type, TD_DEVICE_CPU);
        assert_int_equal(find(registry, "cpu")->api, TD_API_OPENCL);
        assert_int_equal(find(registry, "name:LLVMPIPE")->api, TD_API_VULKAN);
    }
    td_registry_close(registry);
}

static const struct {
    const char *selector, *says;
} WRONG[] = {
    {"", "not a device selector|tandem devices"},
    {"foo", "\"foo\" is not a device selector|tandem devices"},
    {"gpuu", "did you mean \"gpu\"?"},
    {"vkk:0", "did you mean \"vk:\"?"},
    {"pic:0000:03:00.0", "did you mean \"pci:\"?"},
    {"99", "no device 99|tandem devices"},
    {"18446744073709551616", "18446744073709551616|tandem devices"},
    {"1x", "\"1x\" is not a device selector"},
    {"0.0", "\"0.0\" is not a device selector"},
    {"-1", "\"-1\" is not a device selector"},
    {" 0", "not a device selector"},
    {"cl:", "\"cl:\"|tandem devices"},
    {"cl:0", "\"cl:0\""},
    {"cl:9.9", "\"cl:9.9\""},
    {"cl:0.x", "\"cl:0.x\""},
    {"cl:no-such-platform.0", "no-such-platform"},
    {"vk:", "\"vk:\""},
    {"vk:9", "\"vk:9\""},
    {"vk:x", "\"vk:x\""},
    {"pci:", "\"pci:\""},
    {"pci:ffff:ff:1f.7", "\"pci:ffff:ff:1f.7\""},
    {"uuid:00", "\"uuid:00\""},
    {"name:", "\"name:\""},
    {"name:no such name", "no such name"},
    {"sim:2", "\"sim:2\""},
    {"sim:x", "\"sim:x\""},
    {"name:simulated", "both|sim:0|sim:1"},
};

static void test_wrong_selectors(void **state)
{
    (void)state;
    const td_registry_options options = options_of_environment();
    td_registry *registry = open_with(&options);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        refuse_selector(registry, WRONG[i].selector, WRONG[i].says);
    td_registry_close(registry);
}

/* ---------------------------------------------------------------- an invented computer */

enum { VISIBLE = 7, HIDDEN = 1, SIMULATED = 2, ALL = VISIBLE + HIDDEN + SIMULATED };

static td_device_info invented[ALL] = {
    {.api = TD_API_VULKAN,
     .type = TD_DEVICE_GPU,
     .ordinal = 0,
     .phys_group = 0,
     .has_pci = true,
     .pci = {0, 3, 0, 0},
     .usable = true,
     .name = "Radeon RX 7900",
     .platform_name = "radv",
     .selector = "pci:0000:03:00.0/vk"},
    {.api = TD_API_OPENCL,
     .type = TD_DEVICE_GPU,
     .platform = 1,
     .phys_group = 0,
     .has_pci = true,
     .pci = {0, 3, 0, 0},
     .usable = true,
     .name = "Radeon RX 7900 (navi31)",
     .platform_name = "rusticl",
     .selector = "pci:0000:03:00.0/cl"},
    {.api = TD_API_VULKAN,
     .type = TD_DEVICE_GPU,
     .ordinal = 1,
     .phys_group = 1,
     .has_pci = true,
     .pci = {0, 0x1a, 0, 0},
     .usable = true,
     .name = "Radeon RX 7600",
     .platform_name = "radv",
     .selector = "pci:0000:1a:00.0/vk"},
    {.api = TD_API_OPENCL,
     .type = TD_DEVICE_CPU,
     .platform = 0,
     .ordinal = 0,
     .phys_group = 2,
     .usable = true,
     .name = "pthread-EPYC",
     .platform_name = "Portable Computing Language",
     .selector = "cl:portable-computing-language.0"},
    {.api = TD_API_OPENCL,
     .type = TD_DEVICE_CPU,
     .platform = 0,
     .ordinal = 1,
     .phys_group = 2,
     .usable = true,
     .name = "pthread-EPYC",
     .platform_name = "Portable Computing Language",
     .selector = "cl:portable-computing-language.1"},
    {.api = TD_API_VULKAN,
     .type = TD_DEVICE_IGPU,
     .ordinal = 2,
     .phys_group = 3,
     .has_uuid = true,
     .uuid = {0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
     .usable = true,
     .name = "Arc Graphics",
     .platform_name = "anv",
     .selector = "vk:anv.0"},
    {.api = TD_API_VULKAN,
     .type = TD_DEVICE_GPU,
     .ordinal = 3,
     .phys_group = 4,
     .name = "Ancient GPU",
     .platform_name = "old",
     .reason = "it has no compute queue",
     .selector = "vk:old.0"},
    {.api = TD_API_OPENCL,
     .type = TD_DEVICE_GPU,
     .platform = 2,
     .phys_group = 5,
     .has_pci = true,
     .pci = {0, 5, 0, 0},
     .usable = true,
     .name = "Secret GPU",
     .platform_name = "hidden platform",
     .selector = "pci:0000:05:00.0/cl"},
    {.api = TD_API_SIM, .type = TD_DEVICE_SIM, .phys_group = 6, .usable = true, .name = "simulated device 0"},
    {.api = TD_API_SIM,
     .type = TD_DEVICE_SIM,
     .ordinal = 1,
     .phys_group = 7,
     .usable = true,
     .name = "simulated device 1"},
};

static td_registry invent(void)
{
    for (int i = 0; i < ALL; i++) {
        invented[i].index = i < VISIBLE ? i : -1;
        invented[i].given_index = i < VISIBLE + HIDDEN ? i : -1;
    }
    return (td_registry){.infos = {.items = invented, .count = ALL, .capacity = ALL},
                         .n_visible = VISIBLE,
                         .n_real = VISIBLE + HIDDEN};
}

static const struct {
    const char *selector;
    int position;
} LEADS[] = {
    {"gpu", 1}, /* OpenCL before Vulkan on one card */
    {"any", 1},
    {"cpu", 3},
    {"0", 0},
    {"5", 5},
    {"pci:0000:03:00.0", 1},
    {"pci:0:3:0.0", 1},
    {"pci:0000:03:00.0/vk", 0},
    {"pci:0000:03:00.0/cl", 1},
    {"pci:0000:1a:00.0", 2},
    {"pci:0000:1A:00.0/vk", 2},
    {"name:7900", 1}, /* two handles of one card are one card */
    {"name:rx 7600", 2},
    {"name:arc", 5},
    {"uuid:deadbeef0102030405060708090a0b0c", 5},
    {"uuid:DEADBEEF0102030405060708090A0B0C", 5},
    {"cl:0.0", 3},
    {"cl:0.1", 4},
    {"cl:1.0", 1},
    {"cl:portable-computing-language.1", 4},
    {"cl:portable.0", 3},
    {"cl:rusticl.0", 1},
    {"vk:0", 0},
    {"vk:1", 2},
    {"vk:2", 5},
    {"vk:anv.0", 5},
    {"sim", 8},
    {"sim:1", 9},
};

static void test_choosing_among_many(void **state)
{
    (void)state;
    td_registry registry = invent();
    for (size_t i = 0; i < sizeof LEADS / sizeof *LEADS; i++) {
        const td_device_info *info = find(&registry, LEADS[i].selector);
        if (info != &invented[LEADS[i].position]) fail_msg("%s leads to %s", LEADS[i].selector, info->name);
    }
    const td_device_info *info = NULL;
    refuse_selector(&registry, "name:radeon", "both|Radeon RX 7900|Radeon RX 7600|pci:0000:1a:00.0/vk");
    refuse_selector(&registry, "name:pthread",
                    "both|cl:portable-computing-language.0|cl:portable-computing-language.1");
    refuse_selector(&registry, "pci:0000:03:00.0/xx", "pci:0000:03:00.0/xx");
    refuse_selector(&registry, "pci:0000:03:00.0/vkx", "pci:0000:03:00.0/vkx");
    refuse_selector(&registry, "pci:0000:03:00.1", "pci:0000:03:00.1");
    refuse_selector(&registry, "pci:0000:05:00.0", "Secret GPU|hidden|TANDEM_VISIBLE_DEVICES|name 7");
    refuse_selector(&registry, "name:secret", "hidden");
    refuse_selector(&registry, "cl:2.0", "hidden");
    refuse_selector(&registry, "7", "no device 7|TANDEM_VISIBLE_DEVICES|0 to 6");
    refuse_selector(&registry, "8", "no device 8|0 to 6");
    refuse(TD_ERR_UNSUPPORTED, "Ancient GPU|it has no compute queue",
           td_registry_select(&registry, "6", &info));
    refuse(TD_ERR_UNSUPPORTED, "it has no compute queue",
           td_registry_select(&registry, "name:ancient", &info));
    refuse(TD_ERR_UNSUPPORTED, "it has no compute queue", td_registry_select(&registry, "vk:3", &info));
    assert_null(info);
}

static void test_choosing_among_none(void **state)
{
    (void)state;
    td_registry registry = invent();
    registry.n_visible = 0; /* all hidden */
    refuse_selector(&registry, "0", "no device 0|TANDEM_VISIBLE_DEVICES");
    refuse_selector(&registry, "any", "no usable device|TANDEM_VISIBLE_DEVICES"); /* finding 19 */
    registry.n_real = 0;
    registry.infos.items = &invented[VISIBLE + HIDDEN];
    registry.infos.count = SIMULATED;
    refuse_selector(&registry, "0", "no device 0|none was found");
    refuse_selector(&registry, "any", "no usable device|what to install");
    refuse_selector(&registry, "gpu", "no usable gpu");
    refuse_selector(&registry, "cpu", "no usable cpu");
    refuse_selector(&registry, "cl:0.0", "cl:0.0");
    assert_ptr_equal(find(&registry, "sim"), &invented[VISIBLE + HIDDEN]);
}

/* ---------------------------------------------------------------- hiding */

/* Needs two real devices. */
static void test_hiding_renumbers(void **state)
{
    (void)state;
    td_registry_options options = options_of_environment();
    td_registry *all = open_with(&options);
    const size_t count = td_registry_count(all);
    if (count < 2) {
        td_registry_close(all);
        skip();
    }
    const td_device_info *first = td_registry_info(all, 0);
    const td_device_info *second = td_registry_info(all, 1);

    options.visible = "1";
    td_registry *one = open_with(&options);
    assert_int_equal(td_registry_count(one), 1);
    const td_device_info *only = td_registry_info(one, 0);
    assert_string_equal(only->selector, second->selector);
    assert_int_equal(only->index, 0);
    assert_int_equal(only->given_index, 1);
    assert_ptr_equal(find(one, "0"), only);
    assert_ptr_equal(find(one, second->selector), only);
    assert_ptr_equal(find(one, "any"), only);
    refuse_selector(one, first->selector, "hidden|TANDEM_VISIBLE_DEVICES|name 0");
    refuse_selector(one, "1", "no device 1|TANDEM_VISIBLE_DEVICES");
    refuse_selector(one, "99", "no device 99");
    find(one, "sim:1");
    td_registry_close(one);

    options.visible = "1,0";
    td_registry *swapped = open_with(&options);
    assert_int_equal(td_registry_count(swapped), 2);
    assert_string_equal(td_registry_info(swapped, 0)->selector, second->selector);
    assert_string_equal(td_registry_info(swapped, 1)->selector, first->selector);
    assert_int_equal(find(swapped, first->selector)->index, 1);
    td_registry_close(swapped);

    options.visible = "";
    td_registry *none = open_with(&options);
    assert_int_equal(td_registry_count(none), 0);
    refuse_selector(none, "0", "no device 0|TANDEM_VISIBLE_DEVICES");
    refuse_selector(none, "any", "no usable device");
    find(none, "sim");
    td_registry_close(none);
    td_registry_close(all);
}

static void test_wrong_visibility(void **state)
{
    (void)state;
    static const struct {
        const char *visible, *says;
    } CASES[] = {
        {"x", "TANDEM_VISIBLE_DEVICES=x|\"x\" is not a device number"},
        {"0,", "\"\" is not a device number"},
        {",", "not a device number"},
        {"-1", "\"-1\" is not a device number"},
        {"0 1", "\"0 1\" is not a device number"},
        {" 0", "not a device number"},
        {"0,0", "names device 0 twice"},
        {"99", "no device 99|tandem devices"},
        {"0,18446744073709551616", "18446744073709551616"},
        {"all", "\"all\" is not a device number"},
    };
    td_registry_options options = options_of_environment();
    char long_text[1000];
    td_registry *registry = (td_registry *)(uintptr_t)1;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        options.visible = CASES[i].visible;
        refuse(TD_ERR_CONFIG, CASES[i].says, td_registry_open(&options, &registry));
        assert_null(registry);
    }
    memset(long_text, '0', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    options.visible = long_text;
    refuse(TD_ERR_CONFIG, "TANDEM_VISIBLE_DEVICES|longer", td_registry_open(&options, &registry));
}

/* ---------------------------------------------------------------- loaders and drivers that are missing */

static void check_no_loader(const char *library, const char *says)
{
    td_registry_options options = options_of_environment();
    options.opencl_library = library;
    options.vulkan_library = library;
    td_registry *registry = open_with(&options);
    assert_int_equal(td_registry_count(registry), 0);
    for (int api = TD_API_OPENCL; api <= TD_API_VULKAN; api++) {
        const td_api_report *report = td_registry_report(registry, (td_api)api);
        assert_false(report->loaded);
        assert_int_equal(report->devices, 0);
        assert_non_null(strstr(report->library, library));
        assert_non_null(strstr(report->message, says));
        assert_non_null(strstr(report->message, "install"));
        assert_null(strchr(report->message, '\n'));
    }
    refuse_selector(registry, "any", "what to install");
    refuse_selector(registry, "0", "none was found");
    td_device *sim = NULL;
    check(td_device_open(registry, find(registry, "sim"), &sim));
    td_device_close(sim);
    td_registry_close(registry);
}

static void test_missing_loaders(void **state)
{
    (void)state;
    check_no_loader("/nonexistent/libnone.so.1", "No such file");
    check_no_loader("libm.so.6", "libm.so.6");
    check_no_loader("/dev/null", "/dev/null");
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    options.opencl_library = "/nonexistent/libnone.so.1";
    registry = open_with(&options); /* one missing does not hide the other */
    assert_int_equal(td_registry_count(registry), td_registry_report(registry, TD_API_VULKAN)->devices);
    td_registry_close(registry);
    options.vulkan_library = "/nonexistent/libnone.so.1";
    options.visible = "0";
    refuse(TD_ERR_CONFIG, "no device 0", td_registry_open(&options, &registry));
    options.visible = "";
    registry = open_with(&options);
    td_registry_close(registry);
}

/* Runs this program again as a probe with one more variable in its environment; its exit code. */
static int run_probe(const char *probe, const char *variable, const char *value)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_registry", probe, (char *)NULL);
        _exit(99);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

/* In the child: an API whose loader is there and whose drivers are not. Exit code 0 if that is told well. */
static int probe_no_drivers(td_api api)
{
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    if (td_registry_open(&options, &registry) != TD_OK) return 1;
    const td_api_report *report = td_registry_report(registry, api);
    const bool right = report->loaded && report->devices == 0 && strstr(report->message, "install") &&
                       !strchr(report->message, '\n');
    if (!right)
        fprintf(stderr, "loaded %d, %u devices: %s\n", report->loaded, report->devices, report->message);
    td_registry_close(registry);
    return right ? 0 : 2;
}

static void test_missing_drivers(void **state)
{
    (void)state;
    assert_int_equal(run_probe("no-opencl-drivers", "OCL_ICD_VENDORS", "/nonexistent"), 0);
    assert_int_equal(run_probe("no-opencl-drivers", "POCL_DEVICES", ""), 0);
    assert_int_equal(run_probe("no-vulkan-drivers", "VK_ICD_FILENAMES", "/nonexistent"), 0);
}

static void test_wrong_sim_model(void **state)
{
    (void)state;
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    options.sim_model = "gflop=1";
    refuse(TD_ERR_CONFIG, "gflops", td_registry_open(&options, &registry));
    assert_null(registry);
}

/* ---------------------------------------------------------------- opening */

static void test_opening_one_by_one_and_twice(void **state)
{
    (void)state;
    const td_registry_options options = options_of_environment();
    td_registry *registry = open_with(&options);
    const td_device_info *infos[BED_MAX];
    size_t n_real = 0;
    const size_t count = list_devices(registry, infos, &n_real);
    for (size_t i = 0; i < count; i++) {
        const td_device_info *twice[] = {infos[i], infos[i]};
        td_device *devices[2] = {NULL, NULL};
        td_device *alone = NULL;
        check(td_device_open(registry, infos[i], &alone));
        assert_string_equal(td_device_get_info(alone)->selector, infos[i]->selector);
        check(td_devices_open(registry, twice, 2, devices)); /* two handles of one device, beside a third */
        assert_ptr_not_equal(devices[0], devices[1]);
        const td_point points[] = {submit(td_device_queue(alone, TD_QUEUE_COMPUTE), NULL, NULL, 0),
                                   submit(td_device_queue(devices[0], TD_QUEUE_COMPUTE), NULL, NULL, 0)};
        await(submit(td_device_queue(devices[1], TD_QUEUE_COPY), NULL, points, 2));
        td_device_close(devices[0]);
        td_device_close(alone);
        td_device_close(devices[1]);
    }
    td_device_close(NULL);
    td_registry_close(registry);
}

static void test_opening_what_cannot_be_used(void **state)
{
    (void)state;
    const td_registry_options options = options_of_environment();
    td_registry *registry = open_with(&options);
    td_device_info broken = *find(registry, "sim:1");
    broken.usable = false;
    snprintf(broken.reason, sizeof broken.reason, "it is broken");
    const td_device_info *infos[] = {find(registry, "sim:0"), &broken};
    td_device *devices[2] = {(td_device *)(uintptr_t)1, (td_device *)(uintptr_t)1};
    refuse(TD_ERR_UNSUPPORTED, "simulated device 1|it is broken",
           td_devices_open(registry, infos, 2, devices));
    assert_true(!devices[0] && !devices[1]);
    td_registry_close(registry);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "no-opencl-drivers") == 0) return probe_no_drivers(TD_API_OPENCL);
    if (argc > 1 && strcmp(argv[1], "no-vulkan-drivers") == 0) return probe_no_drivers(TD_API_VULKAN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_selectors_lead_back),
        cmocka_unit_test(test_wrong_selectors),
        cmocka_unit_test(test_choosing_among_many),
        cmocka_unit_test(test_choosing_among_none),
        cmocka_unit_test(test_hiding_renumbers),
        cmocka_unit_test(test_wrong_visibility),
        cmocka_unit_test(test_missing_loaders),
        cmocka_unit_test(test_missing_drivers),
        cmocka_unit_test(test_wrong_sim_model),
        cmocka_unit_test(test_opening_one_by_one_and_twice),
        cmocka_unit_test(test_opening_what_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
