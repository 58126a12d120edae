/* Places of devices in made-up computers: trees as sysfs has them, in a temporary folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "pipeline/topology.h"
#include "support/temp_dir.h"

static void put(const char *folder, const char *name, const char *value)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s/%s", temp_dir, folder, name);
    assert_int_equal(td_file_write_atomic(path, value, strlen(value)), TD_OK);
}

/* A folder of a bridge or device. NULL: the file is not there. */
static void put_link(const char *folder, const char *now, const char *now_width, const char *most,
                     const char *most_width)
{
    assert_int_equal(td_file_make_dirs(temp_path(folder)), TD_OK);
    if (now) put(folder, "current_link_speed", now);
    if (now_width) put(folder, "current_link_width", now_width);
    if (most) put(folder, "max_link_speed", most);
    if (most_width) put(folder, "max_link_width", most_width);
}

static void put_device(const char *folder, const char *address, const char *node)
{
    char target[600], link[600];
    assert_int_equal(td_file_make_dirs(temp_path("sys/bus/pci/devices")), TD_OK);
    snprintf(target, sizeof target, "%s/%s", temp_dir, folder);
    snprintf(link, sizeof link, "%s/sys/bus/pci/devices/%s", temp_dir, address);
    assert_int_equal(symlink(target, link), 0);
    if (node) put(folder, "numa_node", node);
}

/* Two processors: an x16 card behind a switch of its own on the first, and one in a slot of four lanes on the
 * second. */
static void make_computer(void)
{
    put_link("sys/devices/pci0000:00/0000:00:01.0", "16.0 GT/s PCIe\n", "16\n", "32.0 GT/s PCIe\n", "16\n");
    put_link("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "2.5 GT/s PCIe\n", "16\n",
             "16.0 GT/s PCIe\n", "16\n");
    put_link("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "Unknown\n", "0\n",
             "16.0 GT/s PCIe\n", "16\n");
    put_device("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "0000:02:00.0", "0\n");
    put_link("sys/devices/pci0000:80/0000:80:03.1", "8.0 GT/s PCIe\n", "4\n", "8.0 GT/s PCIe\n", "4\n");
    put_link("sys/devices/pci0000:80/0000:80:03.1/0000:81:00.0", "8.0 GT/s PCIe\n", "4\n", "16.0 GT/s PCIe\n",
             "16\n");
    put_device("sys/devices/pci0000:80/0000:80:03.1/0000:81:00.0", "0000:81:00.0", "1\n");
    put_link("sys/devices/pci0000:00/0000:00:02.0", NULL, NULL, NULL, NULL); /* in the processor */
    put_device("sys/devices/pci0000:00/0000:00:02.0", "0000:00:02.0", "-1\n");
}

static td_device_info card(const char *name, uint32_t bus, uint32_t slot, double gflops, uint64_t gib)
{
    td_device_info info = {.type = TD_DEVICE_GPU, .has_pci = true};
    info.pci.bus = bus;
    info.pci.device = slot;
    info.caps.estimated_gflops = gflops;
    info.caps.memory_bytes = gib << 30;
    snprintf(info.name, sizeof info.name, "%s", name);
    snprintf(info.selector, sizeof info.selector, "pci:%s", name);
    return info;
}

static void test_places_are_read(void **state)
{
    (void)state;
    td_topology t;
    char text[TD_TOPOLOGY_TEXT_BYTES];
    make_computer();
    td_device_info info = card("wide", 2, 0, 1, 1);
    td_topology_read(temp_dir, &info, &t);
    assert_true(t.is_known);
    assert_string_equal(t.root, "pci0000:00");
    assert_string_equal(t.port, "0000:00:01.0");
    assert_int_equal(t.numa_node, 0);
    td_topology_describe(&t, text); /* the card sleeps */
    assert_string_equal(text, "PCIe 4.0 x16, 31.5 GB/s (now 2.5 GT/s x16); root pci0000:00; NUMA node 0");
    info = card("narrow", 0x81, 0, 1, 1);
    td_topology_read(temp_dir, &info, &t);
    td_topology_describe(&t, text); /* what the slot has, not what the card could */
    assert_string_equal(text, "PCIe 3.0 x4, 3.94 GB/s; root pci0000:80; NUMA node 1");
    info = card("inside", 0, 2, 1, 1);
    td_topology_read(temp_dir, &info, &t);
    assert_true(t.is_known);
    assert_string_equal(t.port, "");
    td_topology_describe(&t, text);
    assert_string_equal(text, "link not known; root pci0000:00");
}

static void test_nothing_is_known(void **state)
{
    (void)state;
    td_topology t;
    char text[TD_TOPOLOGY_TEXT_BYTES] = "x";
    td_device_info info = card("gone", 9, 0, 1, 1);
    td_topology_read(temp_dir, &info, &t);
    assert_false(t.is_known);
    td_topology_describe(&t, text);
    assert_string_equal(text, "");
    info.has_pci = false;
    td_topology_read("", &info, &t);
    assert_false(t.is_known);
}

static void judge(const td_device_info *data, const td_device_info *model, char out[TD_TOPOLOGY_PAIR_BYTES])
{
    td_topology places[2];
    td_topology_read(temp_dir, data, &places[0]);
    td_topology_read(temp_dir, model, &places[1]);
    td_topology_judge(data, &places[0], model, &places[1], out);
}

static void test_pairs_are_judged(void **state)
{
    (void)state;
    char text[TD_TOPOLOGY_PAIR_BYTES];
    make_computer();
    const td_device_info wide = card("wide", 2, 0, 20000, 24), narrow = card("narrow", 0x81, 0, 5000, 8);
    const td_device_info inside = card("inside", 0, 2, 500, 8);
    judge(&narrow, &wide, text);
    assert_non_null(strstr(text, "NUMA nodes 1 and 0"));
    assert_non_null(strstr(text, "the data device's link is the slower one (PCIe 3.0 x4"));
    assert_null(strstr(text, "stronger"));
    judge(&wide, &narrow, text);
    assert_non_null(strstr(text, "wide is the stronger one"));
    assert_non_null(strstr(text, "devices.data = pci:narrow, devices.model = pci:wide"));
    judge(&inside, &wide, text);
    assert_string_equal(text, "");
    judge(&narrow, &inside, text);
    assert_non_null(strstr(text, "different PCIe roots (pci0000:80 and pci0000:00)"));
    assert_non_null(strstr(text, "narrow is the stronger one"));
    judge(&wide, &wide, text);
    assert_string_equal(text, "");
}

static void test_the_stronger_one(void **state)
{
    (void)state;
    const td_device_info fast = card("fast", 1, 0, 9000, 8), large = card("large", 2, 0, 8900, 24),
                         same = card("same", 3, 0, 9000, 8);
    assert_ptr_equal(td_topology_stronger(&fast, &large), &large); /* as fast, more memory */
    assert_null(td_topology_stronger(&fast, &same));
    const td_device_info slow = card("slow", 4, 0, 900, 64);
    assert_ptr_equal(td_topology_stronger(&slow, &fast), &fast);
    td_device_info inner = card("inner", 0, 2, 90000, 64), other = slow;
    inner.type = TD_DEVICE_IGPU;
    assert_ptr_equal(td_topology_stronger(&inner, &fast), &fast);
    other.api = TD_API_VULKAN; /* its estimate is another kind of guess */
    assert_ptr_equal(td_topology_stronger(&other, &fast), &other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places_are_read, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_nothing_is_known, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_pairs_are_judged, temp_dir_make, temp_dir_remove),
        cmocka_unit_test(test_the_stronger_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
