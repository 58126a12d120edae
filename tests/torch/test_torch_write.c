/* What is written is read back to the bit, lies where PyTorch maps it from, and is whole or not there. What PyTorch makes
 * of it is tests/peers/coqui.py's to see. */
#include "support/expect.h"
#include "support/temp_dir.h"

#include <string.h>

#include "torch/torch_file.h"
#include "torch/torch_write.h"

static const float VALUES[6] = {1, -2, 3.5F, 1e-30F, 0, -0.0F};

/* {"model": {"a": [2, 3], "n": 7}} */
static td_torch_writer *describe(const char *path)
{
    td_torch_writer *w;
    check(td_torch_writer_open(path, "model", &w));
    check(td_torch_writer_begin_dict(w));
    check(td_torch_writer_key(w, "model"));
    check(td_torch_writer_begin_dict(w));
    check(td_torch_writer_key(w, "a"));
    check(td_torch_writer_tensor(w, TD_SAFETENSORS_F32, 2, (uint64_t[]){2, 3}));
    check(td_torch_writer_key(w, "n"));
    check(td_torch_writer_tensor(w, TD_SAFETENSORS_I64, 0, NULL));
    check(td_torch_writer_end_dict(w));
    check(td_torch_writer_end_dict(w));
    return w;
}

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    const int64_t seven = 7;
    const char *path = temp_path("model.pth");
    td_torch_writer *w = describe(path);
    check(td_torch_writer_write(w, VALUES, sizeof VALUES));
    check(td_torch_writer_write(w, &seven, sizeof seven));
    check(td_torch_writer_commit(w));
    td_torch_writer_close(w);

    td_torch_file *file;
    td_torch_tensor *tensors;
    size_t n;
    float got[6];
    int64_t number = 0;
    check(td_torch_open(path, &file));
    const td_pickle *p = td_torch_pickle(file);
    check(td_torch_list(file, td_pickle_find(p, td_pickle_root(p), "model"), 1, &tensors, &n));
    assert_int_equal(n, 2);
    assert_int_equal((uintptr_t)tensors[0].data % 64, 0); /* the mapping begins at a page */
    check(td_torch_read(file, &tensors[0], TD_SAFETENSORS_F32, got));
    check(td_torch_read(file, &tensors[1], TD_SAFETENSORS_I64, &number));
    assert_memory_equal(got, VALUES, sizeof got);
    assert_int_equal(number, 7);
    assert_true(tensors[0].rank == 2 && tensors[0].dims[1] == 3 && tensors[1].rank == 0);
    free(tensors);
    td_torch_close(file);
}

static void test_halves_are_not_written(void **state)
{
    (void)state;
    td_torch_writer *w = describe(temp_path("model.pth"));
    refuse(TD_ERR_ARGUMENT, "tensor 0", td_torch_writer_write(w, VALUES, 4));
    check(td_torch_writer_write(w, VALUES, sizeof VALUES));
    refuse(TD_ERR_ARGUMENT, "tensor 1 lacks data", td_torch_writer_commit(w));
    refuse(TD_ERR_ARGUMENT, "no place", td_torch_writer_begin_dict(w));
    td_torch_writer_close(w);
    assert_int_equal(temp_dir_count(temp_dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_written_is_read, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_halves_are_not_written, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
