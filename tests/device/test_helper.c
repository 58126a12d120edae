/* Processes that compile kernels beside this one (src/device/opencl/cl_helper.c): they take a part, what they made is
 * used, they end with the registry, and without them, or when they die, all goes on as before. Each case is a process of
 * its own with empty caches, since helpers begin before PoCL does. ThreadSanitizer has a thread of its own, so that there
 * are no helpers under it, and each case shows that this is no fault.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "support/listen.h"
#include "support/temp_dir.h"

#ifdef __SANITIZE_THREAD__
#define CAN_HELP false
#else
#define CAN_HELP true
#endif

static const td_kernel_id USED[] = {TD_K_chain,      TD_K_fill,        TD_K_copy,       TD_K_add,
                                    TD_K_reduce_sum, TD_K_gather_rows, TD_K_column_sum, TD_K_matmul};
enum { N_USED = sizeof USED / sizeof USED[0] };

static unsigned left_to_others;

static void listen(void *ctx, td_log_level level, const char *message)
{
    unsigned others = 0;
    (void)ctx, (void)level;
    if (sscanf(message, "%u of %*u kernels were left to", &others) == 1) left_to_others += others;
}

/* The children of this process. */
static size_t find_children(pid_t pids[8])
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int pid; count < 8 && fscanf(file, "%d", &pid) == 1;)
        pids[count++] = (pid_t)pid;
    fclose(file);
    return count;
}

/* All of the kernels in one list over small buffers, and one whose result is known. */
static void run_kernels(td_device *device)
{
    uint32_t ones[TD_KERNEL_MAX_PARAMS / 4];
    const td_copy_params whole = {.n = 1000};
    td_memory *memory = NULL;
    td_span spans[TD_KERNEL_MAX_BUFFERS];
    check(td_memory_create(device, "test", 0, &memory));
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        ones[i] = 1;
    for (size_t i = 0; i < TD_KERNEL_MAX_BUFFERS; i++)
        spans[i] = take(memory, TD_MEMORY_DEVICE, 4096);
    const td_span from = take(memory, TD_MEMORY_HOST, 4096);
    const td_span to = take(memory, TD_MEMORY_HOST, 4096);
    fill_words(td_span_host(from), 1024, 1);
    td_list *list = new_list(device, TD_QUEUE_COMPUTE);
    for (size_t i = 0; i < N_USED; i++)
        check(td_list_dispatch(list, USED[i], spans, ones, (td_grid){1, 1, 1}, (td_cost){0}));
    check(td_list_copy(list, spans[0], from));
    check(td_list_dispatch(list, TD_K_copy, spans, &whole, (td_grid){1, 1, 1}, (td_cost){0}));
    check(td_list_copy(list, to, spans[1]));
    run_once(device, TD_QUEUE_COMPUTE, list);
    assert_memory_equal(td_span_host(from), td_span_host(to), 4000);
    td_list_destroy(list);
    td_memory_destroy(memory);
}

/* Opens PoCL with `helpers` of them, which must be there; with `killed`, they die before they are needed. */
static void compile_with(uint32_t helpers, bool killed)
{
    td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    td_device *device = NULL;
    const td_device_info *info = NULL;
    pid_t pids[8];
    options.cache_dir = temp_dir;
    options.compile_helpers = helpers;
    left_to_others = 0;
    check(td_registry_open(&options, &registry));
    assert_int_equal(find_children(pids), CAN_HELP ? helpers : 0);
    for (size_t i = 0; killed && i < find_children(pids); i++)
        assert_int_equal(kill(pids[i], SIGKILL), 0);
    check(td_registry_select(registry, "cl:0.0", &info));
    check(td_device_open(registry, info, &device));
    run_kernels(device);
    td_device_close(device);
    td_registry_close(registry);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left, not even a dead one */
    assert_int_equal(errno, ECHILD);
}

static void helpers_take_a_part(void)
{
    compile_with(2, false);
    assert_true(!CAN_HELP || left_to_others > 0);
}

static void dead_helpers_cost_nothing(void)
{
    compile_with(2, true);
}

/* The second registry comes when PoCL has threads: fork() would copy what these hold. */
static void a_process_with_threads_has_none(void)
{
    td_registry_options options = options_of_environment();
    td_registry *first = NULL;
    td_registry *second = NULL;
    pid_t pids[8];
    td_device *device = NULL;
    options.cache_dir = temp_dir;
    check(td_registry_open(&options, &first));
    check(td_device_open(first, td_registry_info(first, 0), &device));
    options.compile_helpers = 2;
    check(td_registry_open(&options, &second));
    assert_int_equal(find_children(pids), 0);
    td_registry_close(second);
    td_device_close(device);
    td_registry_close(first);
}

/* As a process of its own, whose failed checks end it. */
static void run_alone(void (*test)(void))
{
    const pid_t pid = fork();
    int end = 0;
    if (pid == 0) {
        if (setenv("CMOCKA_TEST_ABORT", "1", 1) != 0 || setenv("POCL_CACHE_DIR", temp_path("pocl"), 1) != 0)
            _exit(1);
        listen_to(listen, NULL, TD_LOG_DEBUG);
        test();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
}

static void test_helpers_take_a_part(void **state)
{
    (void)state;
    run_alone(helpers_take_a_part);
}

static void test_dead_helpers_cost_nothing(void **state)
{
    (void)state;
    run_alone(dead_helpers_cost_nothing);
}

static void test_a_process_with_threads_has_none(void **state)
{
    (void)state;
    run_alone(a_process_with_threads_has_none);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, temp_dir_make, temp_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_helpers_take_a_part),
        WITH_FOLDER(test_dead_helpers_cost_nothing),
        WITH_FOLDER(test_a_process_with_threads_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
