/* Every call that the backends make into the OpenCL and the Vulkan driver fails once as if memory were short,
 * and once for good as if the device were lost, from the first question to the loader to the last release.
 * With warm caches; with kernels that have to be built again; and with nothing known, which adds the
 * self-test. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "layer.h"
#include "scenario.h"
#include "walk.h"

#define NOWHERE "/dev/null/nowhere"

enum { LEAST_POINTS = 60 };

typedef struct trip {
    scenario scenario;
    bool rebuild; /* forget all built kernels before each run */
} trip;

/* A cache of our own: other tests must not lose theirs. */
static const char *cache_dir(void)
{
    static char path[TD_FILE_PATH_BYTES];
    const char *base = getenv("TANDEM_CACHE_DIR");
    snprintf(path, sizeof path, "%s/faults", base ? base : "/tmp/tandem-test");
    return path;
}

static void forget_kernels(void)
{
    DIR *dir = opendir(cache_dir());
    if (!dir) return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (strncmp(entry->d_name, "opencl-", 7) == 0) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static bool run_trip(const trip *given, uint64_t n, bool for_ever, td_error *outcome)
{
    if (given->rebuild) forget_kernels();
    walk_arm(n, for_ever);
    scenario_run(&given->scenario, outcome);
    return walk_disarm();
}

static bool run_once(const void *context, uint64_t n, td_error *outcome)
{
    return run_trip(context, n, false, outcome);
}

static bool run_for_ever(const void *context, uint64_t n, td_error *outcome)
{
    return run_trip(context, n, true, outcome);
}

/* Runs undisturbed first: to fill the caches, and because a scenario that fails anyway would prove nothing.
 */
static void walk_driver(const char *name, const trip *given)
{
    char title[96];
    td_error outcome;
    scenario_run(&given->scenario, &outcome);
    if (outcome.status != TD_OK) fail_msg("%s, undisturbed: %s", name, outcome.message);
    snprintf(title, sizeof title, "%s, one call fails", name);
    walk_all_points(title, LEAST_POINTS, run_once, given);
    snprintf(title, sizeof title, "%s, all calls from one on fail", name);
    walk_all_points(title, LEAST_POINTS, run_for_ever, given);
    scenario_run(&given->scenario, &outcome);
    if (outcome.status != TD_OK) fail_msg("%s, after all faults: %s", name, outcome.message);
}

static trip make_trip(const char *source, const char *destination)
{
    return (trip){
        .scenario = {.options = {.hooks = &FAULT_LAYERS, .cache_dir = cache_dir(), .store_binaries = true},
                     .selectors = {source, destination}},
    };
}

static void test_opencl(void **state)
{
    (void)state;
    trip given = make_trip("cl:0.0", "cl:0.1");
    given.scenario.options.vulkan_library = NOWHERE;
    walk_driver("OpenCL to OpenCL", &given);
}

static void test_opencl_build(void **state)
{
    (void)state;
    trip given = make_trip("cl:0.0", "sim");
    given.scenario.options.vulkan_library = NOWHERE;
    given.rebuild = true;
    given.scenario.options.store_binaries = false;
    walk_driver("OpenCL to sim, kernels built again", &given);
}

static void test_vulkan(void **state)
{
    (void)state;
    trip given = make_trip("sim", "vk:0");
    given.scenario.options.opencl_library = NOWHERE;
    walk_driver("sim to Vulkan", &given);
}

static void test_vulkan_first_start(void **state)
{
    (void)state;
    trip given = make_trip("vk:0", "sim");
    given.scenario.options.opencl_library = NOWHERE;
    given.scenario.options.cache_dir = NOWHERE;
    walk_driver("Vulkan to sim, no caches", &given);
}

static void test_both(void **state)
{
    (void)state;
    trip given = make_trip("cl:0.0", "vk:0");
    given.scenario.path = TD_PATH_RING;
    walk_driver("OpenCL to Vulkan, ring", &given);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* as in test_vulkan* */
    setenv("POCL_DEVICES", "pthread pthread", 1);  /* two OpenCL devices on any computer */
    scenario_hold_drivers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opencl), cmocka_unit_test(test_opencl_build),
        cmocka_unit_test(test_vulkan), cmocka_unit_test(test_vulkan_first_start),
        cmocka_unit_test(test_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
