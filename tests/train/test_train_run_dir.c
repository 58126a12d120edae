/* The folder of a run: one trainer at a time, the order of checkpoints, which ones are kept. */
#include "data/fixture.h"

#include <sys/wait.h>

#include "base/error.h"
#include "train/run_dir.h"

static void touch(const td_run_dir *run, uint64_t step)
{
    char path[TD_FILE_PATH_BYTES];
    assert_int_equal(td_run_dir_checkpoint(run, step, path), TD_OK);
    write_text(path, "x");
}

static void check_steps(const td_run_dir *run, size_t n, const uint64_t *expected)
{
    uint64_t *steps;
    size_t count;
    assert_int_equal(td_run_dir_list(run, &steps, &count), TD_OK);
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; ++i)
        assert_int_equal(steps[i], expected[i]);
    free(steps);
}

static void test_second_trainer_is_refused(void **state)
{
    (void)state;
    td_run_dir *run, *second;
    assert_int_equal(td_run_dir_open(temp_path("a/b"), &run), TD_OK);
    const pid_t child = fork();
    if (child == 0) _exit(td_run_dir_open(temp_path("a/b"), &second) == TD_ERR_CONFIG ? 0 : 1);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_int_equal(td_run_dir_open(temp_path("a/b"), &second), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "another trainer"));
    td_run_dir_close(run);
    assert_int_equal(td_run_dir_open(temp_path("a/b"), &run), TD_OK); /* freed with its holder */
    td_run_dir_close(run);
}

static void test_order_and_retention(void **state)
{
    (void)state;
    td_run_dir *run;
    char path[TD_FILE_PATH_BYTES];
    assert_int_equal(td_run_dir_open(temp_path("run"), &run), TD_OK);
    check_steps(run, 0, NULL);
    write_text(temp_path("run/checkpoint-x.safetensors"), "x");
    write_text(temp_path("run/checkpoint-5.safetensors.tmp-1-0"), "x");
    for (uint64_t step = 2; step <= 10; step += 2)
        touch(run, step);
    check_steps(run, 5, (const uint64_t[]){10, 8, 6, 4, 2});
    assert_int_equal(td_run_dir_path(run, "latest", path), TD_OK);
    write_text(path, "checkpoint-6.safetensors\n");
    check_steps(run, 5, (const uint64_t[]){6, 10, 8, 4, 2});
    touch(run, 7); /* set back to 6 and gone on: what is past 7 is of another past */
    assert_int_equal(td_run_dir_finish(run, 7, 3), TD_OK);
    check_steps(run, 3, (const uint64_t[]){7, 6, 4});
    td_run_dir_close(run);
    assert_int_equal(td_run_dir_open(temp_path("run"), &run), TD_OK); /* removes what a killed writer left */
    assert_false(td_file_exists(temp_path("run/checkpoint-5.safetensors.tmp-1-0")));
    assert_true(td_file_exists(temp_path("run/checkpoint-x.safetensors")));
    td_run_dir_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_second_trainer_is_refused, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_order_and_retention, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
