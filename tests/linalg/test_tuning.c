/* Tuning of matrix products: shapes as typed, which variant a shape gets with and without measurements, what
 * survives a restart, and that the tuner sets wrong variants aside. Also what td_gemm() refuses. Runs on the
 * first usable device of a CPU driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "linalg/tuner.h"
#include "linalg/tuning.h"
#include "support/temp_dir.h"
#include "tools/gemm_shapes.h"

typedef struct fixture {
    td_registry *registry;
    td_device *device;
} fixture;

static void open_device(fixture *f, const char *selector)
{
    const td_device_info *info;
    td_registry_options options;
    td_registry_options_from_env(&options);
    options.cache_dir = temp_dir;
    assert_int_equal(td_registry_open(&options, &f->registry), TD_OK);
    assert_int_equal(td_registry_select(f->registry, selector, &info), TD_OK);
    assert_int_equal(td_device_open(f->registry, info, &f->device), TD_OK);
}

static void close_device(fixture *f)
{
    td_device_close(f->device);
    td_registry_close(f->registry);
    f->device = NULL;
    f->registry = NULL;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f) return -1;
    *state = f;
    open_device(f, "cl:0.0");
    return 0;
}

static void find_tuning(glob_t *found)
{
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/tuning-*.blob", temp_dir);
    (void)glob(pattern, 0, NULL, found);
}

/* Measurements go, compiled kernels stay for the next test. */
static int tear_down(void **state)
{
    fixture *f = *state;
    glob_t found;
    close_device(f);
    free(f);
    find_tuning(&found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        (void)remove(found.gl_pathv[i]);
    globfree(&found);
    return 0;
}

static td_gemm_problem problem_of(const fixture *f, td_gemm_layout layout, uint32_t m, uint32_t n, uint32_t k)
{
    const td_gemm_desc desc = {.layout = layout, .m = m, .n = n, .k = k};
    td_gemm_problem problem;
    assert_int_equal(td_gemm_problem_make(&desc, f->device, &problem), TD_OK);
    return problem;
}

static td_gemm_variant chosen(const fixture *f, td_gemm_layout layout, uint32_t m, uint32_t n, uint32_t k)
{
    const td_gemm_problem problem = problem_of(f, layout, m, n, k);
    return td_gemm_choose(&problem).variant;
}

static void put(const fixture *f, td_gemm_layout layout, uint32_t m, uint32_t n, uint32_t k,
                td_gemm_variant variant, uint16_t splits)
{
    const td_gemm_problem problem = problem_of(f, layout, m, n, k);
    const td_tuning_entry entry = {
        .shape = td_tuning_class_of(&problem), .variant = (uint8_t)variant, .splits = splits};
    assert_int_equal(td_tuning_put(f->device, &entry, 1), TD_OK);
}

/* ---------------------------------------------------------------- shapes */

static void shapes_are_read_as_typed(void **state)
{
    td_gemm_shape *shapes;
    size_t count;
    (void)state;
    assert_int_equal(td_gemm_shapes_parse("1024x77x333,64x400x64x400", &shapes, &count), TD_OK);
    assert_int_equal(count, 2);
    assert_int_equal(shapes[0].batch, 1);
    assert_int_equal(shapes[0].n, 77);
    assert_int_equal(shapes[1].batch, 64);
    assert_int_equal(shapes[1].k, 400);
    free(shapes);
    static const char *const WRONG[] = {"",       "12x13", "1x2x3x4x5", "0x1x1",
                                        "1x2x3,", "axbxc", "1x2x-3",    "99999999x1x1"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        assert_int_equal(td_gemm_shapes_parse(WRONG[i], &shapes, &count), TD_ERR_CONFIG);
        assert_null(shapes);
    }
}

/* ---------------------------------------------------------------- the choice */

static void defaults_suit_shapes(void **state)
{
    const fixture *f = *state;
    assert_int_equal(chosen(f, TD_GEMM_NN, 1024, 1024, 1024), TD_GEMM_V_REGISTER_ROWS);
    assert_int_equal(chosen(f, TD_GEMM_NT, 1024, 1024, 1024), TD_GEMM_V_REGISTER_ROWS);
    assert_int_equal(chosen(f, TD_GEMM_TN, 1024, 1024, 1024), TD_GEMM_V_REGISTER_COLUMNS);
    assert_int_equal(chosen(f, TD_GEMM_NN, 3, 1024, 1024), TD_GEMM_V_GEMV);
    assert_int_equal(chosen(f, TD_GEMM_NN, 32, 32, 32), TD_GEMM_V_REGISTER_DIRECT);
}

/* docs/gpu_portability.md: the GPU gate does not judge them there. */
static void large_tiles_are_kept_from_intel_gpus(void **state)
{
    td_gemm_problem problem = problem_of(*state, TD_GEMM_NN, 1024, 1024, 1024);
    td_device_info info = *problem.info;
    problem.info = &info;
    info.type = TD_DEVICE_GPU;
    info.vendor_id = 0x8086;
    assert_non_null(td_gemm_variant_get(TD_GEMM_V_TILE_128X64)->refuse(&problem));
    assert_non_null(td_gemm_variant_get(TD_GEMM_V_TILE_128X128)->refuse(&problem));
    assert_null(td_gemm_variant_get(TD_GEMM_V_TILE_64X64)->refuse(&problem));
    info.vendor_id = 0x10de;
    assert_null(td_gemm_variant_get(TD_GEMM_V_TILE_128X64)->refuse(&problem));
    assert_null(td_gemm_variant_get(TD_GEMM_V_TILE_128X128)->refuse(&problem));
}

static void k_is_split_where_little_else_can_be(void **state)
{
    const fixture *f = *state;
    td_gemm_problem problem = problem_of(f, TD_GEMM_NN, 6, 16, 100000);
    problem.desc.provider = TD_GEMM_REGISTER;
    assert_true(td_tuning_default(&problem).splits > 1);
    problem = problem_of(f, TD_GEMM_NN, 600, 1600, 1000);
    assert_int_equal(td_tuning_default(&problem).splits, 1);
}

static void measurements_reach_near_shapes(void **state)
{
    const fixture *f = *state;
    put(f, TD_GEMM_NN, 512, 512, 512, TD_GEMM_V_REGISTER_DIRECT, 3);
    assert_int_equal(td_tuning_count(f->device), 1);
    const td_gemm_problem same = problem_of(f, TD_GEMM_NN, 512, 512, 512);
    assert_int_equal(td_gemm_choose(&same).variant, TD_GEMM_V_REGISTER_DIRECT);
    assert_int_equal(td_gemm_choose(&same).splits, 3);
    assert_int_equal(chosen(f, TD_GEMM_NN, 800, 500, 1000), TD_GEMM_V_REGISTER_DIRECT);
    assert_int_equal(chosen(f, TD_GEMM_NN, 4096, 4096, 512), TD_GEMM_V_REGISTER_ROWS);
    assert_int_equal(chosen(f, TD_GEMM_NT, 512, 512, 512), TD_GEMM_V_REGISTER_ROWS);
}

static void the_nearest_measurement_wins_and_the_last_holds(void **state)
{
    const fixture *f = *state;
    put(f, TD_GEMM_NN, 512, 512, 512, TD_GEMM_V_REGISTER_DIRECT, 1);
    put(f, TD_GEMM_NN, 1024, 512, 512, TD_GEMM_V_TILE_ANY, 1);
    assert_int_equal(chosen(f, TD_GEMM_NN, 1024, 512, 512), TD_GEMM_V_TILE_ANY);
    assert_int_equal(chosen(f, TD_GEMM_NN, 512, 512, 512), TD_GEMM_V_REGISTER_DIRECT);
    put(f, TD_GEMM_NN, 512, 512, 512, TD_GEMM_V_PLAIN, 1);
    assert_int_equal(chosen(f, TD_GEMM_NN, 512, 512, 512), TD_GEMM_V_PLAIN);
    assert_int_equal(td_tuning_count(f->device), 2);
}

static void what_does_not_suit_is_passed_over(void **state)
{
    const fixture *f = *state;
    put(f, TD_GEMM_TN, 512, 512, 512, TD_GEMM_V_REGISTER_ROWS, 1);
    assert_int_equal(chosen(f, TD_GEMM_TN, 512, 512, 512), TD_GEMM_V_REGISTER_COLUMNS);
    put(f, TD_GEMM_NN, 512, 512, 512, TD_GEMM_V_TILE_64X64, 1); /* in vec4 */
    assert_int_equal(chosen(f, TD_GEMM_NN, 512, 512, 512), TD_GEMM_V_TILE_64X64);
    assert_int_equal(chosen(f, TD_GEMM_NN, 511, 511, 511), TD_GEMM_V_REGISTER_ROWS);
}

static void measurements_survive_a_restart(void **state)
{
    fixture *f = *state;
    put(f, TD_GEMM_NN, 512, 512, 512, TD_GEMM_V_REGISTER_DIRECT, 1);
    close_device(f);
    open_device(f, "cl:0.0");
    assert_int_equal(td_tuning_count(f->device), 1);
    assert_int_equal(chosen(f, TD_GEMM_NN, 512, 512, 512), TD_GEMM_V_REGISTER_DIRECT);
}

static void a_damaged_file_means_defaults(void **state)
{
    fixture *f = *state;
    glob_t found;
    put(f, TD_GEMM_NN, 512, 512, 512, TD_GEMM_V_REGISTER_DIRECT, 1);
    close_device(f);
    find_tuning(&found);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(truncate(found.gl_pathv[0], 20), 0);
    globfree(&found);
    open_device(f, "cl:0.0");
    assert_int_equal(td_tuning_count(f->device), 0);
    assert_int_equal(chosen(f, TD_GEMM_NN, 512, 512, 512), TD_GEMM_V_REGISTER_ROWS);
}

/* ---------------------------------------------------------------- the tuner */

static void spoil_rows(const char *name, float *result, size_t count)
{
    if (strcmp(name, "register-rows") == 0) result[count / 2] += 0.01f;
}

static void spoil_all(const char *name, float *result, size_t count)
{
    (void)name;
    result[count - 1] = 0.0f / 0.0f;
}

static void the_winner_is_kept(void **state)
{
    const fixture *f = *state;
    const td_gemm_desc desc = {.layout = TD_GEMM_NT, .m = 40, .n = 48, .k = 56};
    td_tuner_result result;
    assert_int_equal(td_tuner_run(f->device, &desc, &(td_tuner_options){.rounds = 1, .keep = true}, &result),
                     TD_OK);
    assert_true(result.n_candidates > 2);
    assert_true(result.candidates[result.best].gflops > 0);
    assert_int_equal(td_tuning_count(f->device), 1);
    assert_string_equal(td_gemm_variant_get(chosen(f, TD_GEMM_NT, 40, 48, 56))->name,
                        result.candidates[result.best].name);
}

static void a_wrong_variant_is_named_and_never_wins(void **state)
{
    const fixture *f = *state;
    const td_gemm_desc desc = {.layout = TD_GEMM_NN, .m = 100, .n = 96, .k = 80};
    td_tuner_result result;
    bool named = false;
    assert_int_equal(
        td_tuner_run(f->device, &desc, &(td_tuner_options){.rounds = 1, .spoil = spoil_rows}, &result),
        TD_OK);
    for (size_t i = 0; i < result.n_candidates; i++) {
        const bool is_rows = strcmp(result.candidates[i].name, "register-rows") == 0;
        assert_int_equal(is_rows, result.candidates[i].reason[0] != '\0');
        if (is_rows) assert_true(result.candidates[i].gflops == 0);
        named = named || is_rows;
    }
    assert_true(named);
    assert_string_not_equal(result.candidates[result.best].name, "register-rows");
    assert_int_equal(td_tuning_count(f->device), 0); /* not asked to keep */
}

static void a_device_that_computes_nothing_right_is_an_error(void **state)
{
    const fixture *f = *state;
    const td_gemm_desc desc = {.layout = TD_GEMM_NN, .m = 9, .n = 8, .k = 7};
    td_tuner_result result;
    assert_int_equal(
        td_tuner_run(f->device, &desc, &(td_tuner_options){.rounds = 1, .spoil = spoil_all}, &result),
        TD_ERR_UNSUPPORTED);
}

static void the_simulated_device_is_not_tuned(void **state)
{
    fixture *f = *state;
    const td_gemm_desc desc = {.layout = TD_GEMM_NN, .m = 9, .n = 8, .k = 7};
    td_tuner_result result;
    close_device(f);
    open_device(f, "sim");
    assert_int_equal(td_tuner_run(f->device, &desc, &(td_tuner_options){.rounds = 1}, &result),
                     TD_ERR_UNSUPPORTED);
}

/* ---------------------------------------------------------------- what td_gemm() refuses */

static td_status try_gemm(const fixture *f, const td_gemm_desc *desc)
{
    td_list *list;
    assert_int_equal(td_list_create(f->device, TD_QUEUE_COMPUTE, &list), TD_OK);
    const td_status status = td_gemm(list, desc);
    td_list_destroy(list);
    return status;
}

static void wrong_products_are_refused(void **state)
{
    const fixture *f = *state;
    td_memory *memory;
    td_span span;
    uint64_t bytes;
    assert_int_equal(td_memory_create(f->device, "test", 0, &memory), TD_OK);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_DEVICE, 4 * 64 * 64, &span), TD_OK);
    const td_span matrix = td_span_part(span, 0, UINT64_C(4) * 64 * 64);
    const td_gemm_desc good = {.m = 64, .n = 64, .k = 64, .a = matrix, .b = matrix, .c = matrix};
    td_gemm_desc d = good;
    d.m = 0;
    assert_int_equal(try_gemm(f, &d), TD_ERR_ARGUMENT);
    d = good;
    d.ldb = 63;
    assert_int_equal(try_gemm(f, &d), TD_ERR_ARGUMENT);
    d = good;
    d.m = 65; /* A and C are too small */
    assert_int_equal(try_gemm(f, &d), TD_ERR_ARGUMENT);
    d = good;
    d.activation = 99;
    assert_int_equal(try_gemm(f, &d), TD_ERR_ARGUMENT);
    d = good;
    d.batch = 2;
    d.stride_c = 64; /* results overlap */
    assert_int_equal(try_gemm(f, &d), TD_ERR_ARGUMENT);
    d = good;
    d.provider = TD_GEMM_GEMV;
    assert_int_equal(try_gemm(f, &d), TD_ERR_UNSUPPORTED);
    assert_int_equal(td_gemm_workspace(&d, f->device, &bytes), TD_ERR_UNSUPPORTED);
    d = good;
    d.layout = TD_GEMM_NT; /* packs B, but has nowhere to */
    assert_int_equal(td_gemm_workspace(&d, f->device, &bytes), TD_OK);
    assert_true(bytes >= 4 * 64 * 64);
    assert_int_equal(try_gemm(f, &d), TD_ERR_ARGUMENT);
    d = good;
    d.provider = TD_GEMM_PLAIN;
    assert_int_equal(try_gemm(f, &d), TD_OK);
    td_memory_destroy(memory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_read_as_typed),    TEST(defaults_suit_shapes),
        TEST(large_tiles_are_kept_from_intel_gpus),    TEST(k_is_split_where_little_else_can_be),
        TEST(measurements_reach_near_shapes),          TEST(the_nearest_measurement_wins_and_the_last_holds),
        TEST(what_does_not_suit_is_passed_over),       TEST(measurements_survive_a_restart),
        TEST(a_damaged_file_means_defaults),           TEST(the_winner_is_kept),
        TEST(a_wrong_variant_is_named_and_never_wins), TEST(a_device_that_computes_nothing_right_is_an_error),
        TEST(the_simulated_device_is_not_tuned),       TEST(wrong_products_are_refused),
    };
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
