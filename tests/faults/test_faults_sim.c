/* Every allocation, submission, wait and list of the scenario fails once, by the simulated device's own fault
 * script, on the driver's path between the two devices and on the ring of pinned memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scenario.h"
#include "support/listen.h"
#include "walk.h"

typedef struct script {
    const char *fault;
    td_path path;
    td_status expected; /* of a run that fails; TD_OK: any */
} script;

static void notice_fault(void *context, td_log_level level, const char *message)
{
    (void)level;
    if (strstr(message, "simulated fault")) atomic_store((atomic_bool *)context, true);
}

static bool run_script(const void *context, uint64_t n, td_error *outcome)
{
    const script *given = context;
    atomic_bool fired = false;
    char model[64];
    snprintf(model, sizeof model, "latency_us=50,%s=%llu", given->fault, (unsigned long long)n);
    const scenario run = {
        .options = {.sim_model = model,
                    .cache_dir = "/dev/null/nowhere",
                    .opencl_library = "/dev/null/nowhere",
                    .vulkan_library = "/dev/null/nowhere"},
        .selectors = {"sim", "sim:1"},
        .path = given->path,
    };
    listen_to(notice_fault, &fired, TD_LOG_INFO);
    scenario_run(&run, outcome);
    listen_to(NULL, NULL, TD_LOG_ERROR);
    if (given->expected != TD_OK && outcome->status != TD_OK)
        assert_int_equal(outcome->status, given->expected);
    return atomic_load(&fired);
}

static void walk_both_paths(const char *fault, uint64_t least, td_status expected)
{
    const td_path paths[] = {TD_PATH_DEVICE, TD_PATH_RING};
    for (int i = 0; i < 2; ++i) {
        const script given = {.fault = fault, .path = paths[i], .expected = expected};
        char name[64];
        snprintf(name, sizeof name, "sim %s, %s", fault, td_path_name(paths[i]));
        walk_all_points(name, least, run_script, &given);
    }
}

static void test_allocations(void **state)
{
    (void)state;
    walk_both_paths("fail_alloc", 4, TD_ERR_DEVICE_MEMORY);
}

static void test_lists(void **state)
{
    (void)state;
    walk_both_paths("fail_compile", 6, TD_ERR_BUILD);
}

/* The first to see a lost device is told so; what waits for it is cancelled. */
static void test_submissions(void **state)
{
    (void)state;
    walk_both_paths("lose_submit", 9, TD_OK);
}

static void test_waits(void **state)
{
    (void)state;
    walk_both_paths("fail_wait", 5, TD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
