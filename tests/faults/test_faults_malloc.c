/* Every allocation that the project's own code makes on the host fails once, in the device layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scenario.h"
#include "walk.h"
#include "wrap.h"

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

static void test_simulated(void **state)
{
    (void)state;
    scenario run = {
        .options = {.cache_dir = NOWHERE, .opencl_library = NOWHERE, .vulkan_library = NOWHERE},
        .selectors = {"sim", "sim:1"},
        .path = TD_PATH_DEVICE,
    };
    walk_all_points("malloc, sim to sim", LEAST_POINTS, run_once, &run);
    run.path = TD_PATH_RING;
    walk_all_points("malloc, sim to sim, ring", LEAST_POINTS, run_once, &run);
    walk_all_points("malloc and all after, sim to sim, ring", LEAST_POINTS, run_for_ever, &run);
}

static void walk_driver(const char *name, const scenario *run)
{
    td_error outcome;
    scenario_run(run, &outcome); /* undisturbed, so that the caches are warm */
    if (outcome.status != TD_OK) fail_msg("%s, undisturbed: %s", name, outcome.message);
    walk_all_points(name, LEAST_POINTS, run_once, run);
}

static void test_drivers(void **state)
{
    (void)state;
    scenario run = {
        .options = {.cache_dir = getenv("TANDEM_CACHE_DIR"), .vulkan_library = NOWHERE},
        .selectors = {"cl:0.0", "sim"},
    };
    walk_driver("malloc, OpenCL to sim", &run);
    run.options.vulkan_library = NULL;
    run.options.opencl_library = NOWHERE;
    run.selectors[0] = "vk:0";
    walk_driver("malloc, Vulkan to sim", &run);
}

int main(void)
{
    scenario_hold_drivers();
    wrap_open(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated),
        cmocka_unit_test(test_drivers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
