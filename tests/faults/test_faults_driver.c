/* Every call that the backends make into the OpenCL and the Vulkan driver fails once as if memory were short,
 * and once for good as if the device were lost, from the first question to the loader to the last release.
 * First with warm caches, then with none, which adds the building of kernels and the self-test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/log.h"
#include "layer.h"
#include "scenario.h"
#include "walk.h"

#define NOWHERE "/dev/null/nowhere"

enum { LEAST_POINTS = 60 };

static bool run_once(const void *context, uint64_t n, td_error *outcome)
{
    walk_arm(n, false);
    scenario_run(context, outcome);
    return walk_disarm();
}

static bool run_for_ever(const void *context, uint64_t n, td_error *outcome)
{
    walk_arm(n, true);
    scenario_run(context, outcome);
    return walk_disarm();
}

/* Runs undisturbed first: to fill the caches, and because a scenario that fails anyway would prove nothing.
 */
static void walk_driver(const char *name, const scenario *run)
{
    char title[96];
    td_error outcome;
    scenario_run(run, &outcome);
    if (outcome.status != TD_OK) fail_msg("%s, undisturbed: %s", name, outcome.message);
    snprintf(title, sizeof title, "%s, one call fails", name);
    walk_all_points(title, LEAST_POINTS, run_once, run);
    snprintf(title, sizeof title, "%s, all calls from one on fail", name);
    walk_all_points(title, LEAST_POINTS, run_for_ever, run);
    scenario_run(run, &outcome);
    if (outcome.status != TD_OK) fail_msg("%s, after all faults: %s", name, outcome.message);
}

static const char *warm_cache(void)
{
    const char *given = getenv("TANDEM_CACHE_DIR");
    return given ? given : "/tmp/tandem-test-faults";
}

static void test_opencl(void **state)
{
    (void)state;
    const scenario run = {
        .options = {.hooks = &FAULT_LAYERS, .cache_dir = warm_cache(), .vulkan_library = NOWHERE},
        .selectors = {"cl:0.0", "cl:0.1"},
    };
    walk_driver("OpenCL to OpenCL", &run);
}

static void test_opencl_cold(void **state)
{
    (void)state;
    const scenario run = {
        .options = {.hooks = &FAULT_LAYERS, .cache_dir = NOWHERE, .vulkan_library = NOWHERE},
        .selectors = {"cl:0.0", "sim"},
    };
    walk_driver("OpenCL to sim, no caches", &run);
}

static void test_vulkan(void **state)
{
    (void)state;
    const scenario run = {
        .options = {.hooks = &FAULT_LAYERS, .cache_dir = warm_cache(), .opencl_library = NOWHERE},
        .selectors = {"sim", "vk:0"},
    };
    walk_driver("sim to Vulkan", &run);
}

static void test_vulkan_cold(void **state)
{
    (void)state;
    const scenario run = {
        .options = {.hooks = &FAULT_LAYERS, .cache_dir = NOWHERE, .opencl_library = NOWHERE},
        .selectors = {"vk:0", "sim"},
    };
    walk_driver("Vulkan to sim, no caches", &run);
}

static void test_both(void **state)
{
    (void)state;
    scenario run = {
        .options = {.hooks = &FAULT_LAYERS, .cache_dir = warm_cache()},
        .selectors = {"cl:0.0", "vk:0"},
    };
    walk_driver("OpenCL to Vulkan", &run);
    run.path = TD_PATH_RING;
    walk_driver("OpenCL to Vulkan, ring", &run);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* as in test_*_cold */
    setenv("POCL_DEVICES", "pthread pthread", 1);  /* two OpenCL devices on any computer */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opencl),      cmocka_unit_test(test_opencl_cold), cmocka_unit_test(test_vulkan),
        cmocka_unit_test(test_vulkan_cold), cmocka_unit_test(test_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
