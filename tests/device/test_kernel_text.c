/* The table of kernels and their grids, without a device: what the build embedded is complete and consistent.
 * What the kernels compute is tested in test_kernels.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/geometry.h"
#include "kernels/grid.h"
#include "kernels/kernel.h"

#define SPIRV_MAGIC 0x07230203u

static void test_rows_are_complete(void **state)
{
    (void)state;
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *k = td_kernel_get((td_kernel_id)id);
        assert_non_null(k->name);
        assert_non_null(k->cl_source);
        assert_in_range(k->params_bytes, 4, TD_KERNEL_MAX_PARAMS);
        assert_int_equal(k->params_bytes % 4, 0);
        assert_in_range(k->n_buffers, 1, TD_KERNEL_MAX_BUFFERS);
    }
}

static void test_names_are_unique(void **state)
{
    (void)state;
    for (int id = 0; id < TD_KERNEL_COUNT; id++)
        for (int other = 0; other < id; other++)
            assert_string_not_equal(td_kernel_get((td_kernel_id)id)->name,
                                    td_kernel_get((td_kernel_id)other)->name);
}

/* Every kernel writes something, and access beyond its buffers is unset. */
static void test_access_is_consistent(void **state)
{
    (void)state;
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *k = td_kernel_get((td_kernel_id)id);
        unsigned all = 0;
        for (uint32_t i = 0; i < TD_KERNEL_MAX_BUFFERS; i++) {
            if (i < k->n_buffers)
                assert_in_range(k->access[i], TD_ACCESS_READ, TD_ACCESS_READ_WRITE);
            else
                assert_int_equal(k->access[i], 0);
            all |= k->access[i];
        }
        assert_true(all & TD_ACCESS_WRITE);
    }
    const td_kernel *add = td_kernel_get(TD_K_add);
    assert_int_equal(add->n_buffers, 3);
    assert_int_equal(add->access[1], TD_ACCESS_READ);
    assert_int_equal(add->access[2], TD_ACCESS_WRITE);
}

/* The prelude and the body are in, and no include is left for a driver to look for. */
static void test_cl_source_is_flat(void **state)
{
    (void)state;
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *k = td_kernel_get((td_kernel_id)id);
        char body[128], head[128];
        snprintf(body, sizeof body, "#line 1 \"kernels/%s.kh\"\n", k->entry);
        snprintf(head, sizeof head, "\nKERNEL(%s,", k->entry);
        assert_null(strstr(k->cl_source, "#include"));
        assert_non_null(strstr(k->cl_source, "#define KERNEL("));
        assert_non_null(strstr(k->cl_source, body));
        assert_non_null(strstr(k->cl_source, head));
    }
    assert_non_null(strstr(td_kernel_get(TD_K_random)->cl_source, "#define PHILOX_4X32_10("));
}

static void test_spirv_is_whole(void **state)
{
    (void)state;
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *k = td_kernel_get((td_kernel_id)id);
        for (int c = 0; c < TD_CLASS_COUNT; c++) {
            assert_int_equal(k->spirv_bytes[c] % 4, 0);
            assert_true(k->spirv_bytes[c] > 5 * sizeof(uint32_t));
            assert_int_equal(k->spirv[c][0], SPIRV_MAGIC);
        }
    }
}

/* Operand words of the first instruction `opcode` whose operand `index` is `value`; NULL when there is none.
 */
static const uint32_t *find_instruction(const td_kernel *k, td_kernel_class c, uint32_t opcode, size_t index,
                                        uint32_t value)
{
    const size_t n_words = k->spirv_bytes[c] / 4;
    for (size_t i = 5; i < n_words; i += k->spirv[c][i] >> 16)
        if ((k->spirv[c][i] & 0xffff) == opcode && k->spirv[c][i + 1 + index] == value)
            return &k->spirv[c][i + 1];
    return NULL;
}

/* The work-group size in each module is the one the table tells. */
static void test_group_size_matches_spirv(void **state)
{
    (void)state;
    const uint32_t op_execution_mode = 16, local_size = 17;
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *k = td_kernel_get((td_kernel_id)id);
        for (int c = 0; c < TD_CLASS_COUNT; c++) {
            const uint32_t *mode = find_instruction(k, (td_kernel_class)c, op_execution_mode, 1, local_size);
            assert_non_null(mode);
            assert_int_equal(mode[2], k->group_size[TD_DIALECT_GLSL][c]);
            assert_int_equal(mode[3], 1);
            assert_int_equal(mode[4], 1);
            assert_in_range(k->group_size[TD_DIALECT_CL][c], 1, 256);
        }
    }
}

static uint64_t count_groups(td_grid grid)
{
    assert_in_range(grid.x, 1, TD_GRID_MAX_X);
    assert_in_range(grid.y, 1, TD_GRID_MAX_X);
    assert_int_equal(grid.z, 1);
    return (uint64_t)grid.x * grid.y;
}

static void test_grids_cover_the_data(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 511, 512, 513, 4095, 4096, 4097, 33553921, 0x7fffffff};
    static const uint32_t block[TD_CLASS_COUNT] = {TD_BLOCK_CPU, TD_BLOCK_GPU};
    for (int c = 0; c < TD_CLASS_COUNT; c++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const uint64_t need = (sizes[i] + (uint64_t)block[c] - 1) / block[c];
            const td_grid grid = td_grid_elements((td_kernel_class)c, sizes[i]);
            const uint64_t groups = count_groups(grid);
            assert_true(groups >= need && groups < need + grid.y + (need == 0));
        }
    assert_int_equal(count_groups(td_grid_elements(TD_CLASS_GPU, 512)), 1);
    assert_int_equal(count_groups(td_grid_elements(TD_CLASS_GPU, 513)), 2);
    assert_int_equal(count_groups(td_grid_matmul(TD_CLASS_CPU, 9, 65)), 4);
    assert_int_equal(count_groups(td_grid_matmul(TD_CLASS_GPU, 16, 33)), 3);
    assert_true(count_groups(td_grid_matmul(TD_CLASS_GPU, 1u << 20, 1u << 10)) >= 1u << 22);
}

static void test_reduction_plan(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 4096, 4097, 1u << 22, (1u << 22) + 1, 0x7fffffff};
    for (int c = 0; c < TD_CLASS_COUNT; c++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const td_reduce_sum_params first = td_reduce_sum_first((td_kernel_class)c, sizes[i]);
            const td_reduce_sum_params last = td_reduce_sum_last(&first);
            assert_int_equal(first.n, sizes[i]);
            assert_in_range(first.blocks, 1, TD_REDUCE_MAX_BLOCKS);
            assert_true((uint64_t)first.blocks * first.block >= sizes[i]);
            assert_true(sizes[i] == 0 || (uint64_t)(first.blocks - 1) * first.block < sizes[i]);
            assert_true(count_groups(td_grid_reduce_sum(&first)) >= first.blocks);
            assert_int_equal(last.n, first.blocks);
            assert_int_equal(last.block, first.blocks);
            assert_int_equal(last.blocks, 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_complete),    cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_access_is_consistent), cmocka_unit_test(test_cl_source_is_flat),
        cmocka_unit_test(test_spirv_is_whole),       cmocka_unit_test(test_group_size_matches_spirv),
        cmocka_unit_test(test_grids_cover_the_data), cmocka_unit_test(test_reduction_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
