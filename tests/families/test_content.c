/* A second front end and a frozen part in whole runs (content/content.c): what they make, where their
 * parameters come from and go, and the same on two devices. */
#include "run.h"
#include "table.h"

#define WEIGHT "content.numbers.weight"
#define BIAS "content.numbers.bias"

static void test_its_table_holds(void **state)
{
    (void)state;
    check_table(td_family_find("content"));
}

/* ---------------------------------------------------------------- runs */

static void test_it_learns_and_goes_on(void **state)
{
    (void)state;
    td_checkpoint *c;
    const td_safetensors_tensor *tensor;
    run_losses losses = {0};
    char other[512];
    run_make_set("other");
    snprintf(other, sizeof other, "%s", temp_path("other"));
    td_train_settings s = run_settings("content", "whole", 12);
    s.val_every = 6;
    s.val_dir = other; /* a second dataset has the front end and the part too */
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_true(losses.values[11] < 0.9 * losses.values[0]);
    assert_true(losses.validation > 0 && losses.validation < losses.values[0]);
    s.run_dir = temp_path("parts");
    s.max_steps = 6;
    const td_train_result first = run_train(&s);
    s.max_steps = 12;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "param.inside."), 2);
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "param.content."), 0);
    check(td_checkpoint_open(second.checkpoint, &c));
    check(td_checkpoint_verify(c));
    assert_non_null(strstr(td_checkpoint_text(c, "front_end.coarse"), "hop_samples=512"));
    assert_int_equal(td_checkpoint_get_info(c)->front_ends[0].n_mels, 20);
    check(td_checkpoint_tensor(c, "param.", WEIGHT, &tensor));
    refuse(TD_ERR_NOT_FOUND, WEIGHT, td_checkpoint_tensor(c, "moment1.", WEIGHT, &tensor));
    td_checkpoint_close(c);
}

static void test_where_its_values_come_from(void **state)
{
    (void)state;
    td_train_settings s = run_settings("content", "first", 1);
    const td_train_result first = run_train(&s);
    s = run_settings("content", "another seed", 1);
    s.seed = 6;
    const td_train_result other = run_train(&s);
    assert_int_equal(run_count_changed(first.checkpoint, other.checkpoint, "param.content."), 2);
    s = run_settings("content", "initialised", 1);
    s.seed = 6;
    s.init_from = first.checkpoint;
    const td_train_result initialised = run_train(&s);
    assert_int_equal(run_count_changed(first.checkpoint, initialised.checkpoint, "param.content."), 0);
    s = run_settings("content", "first", 2); /* going on with another seed keeps what was there */
    s.seed = 6;
    const td_train_result on = run_train(&s);
    assert_int_equal(run_count_changed(first.checkpoint, on.checkpoint, "param.content."), 0);
}

static void test_another_front_end_is_refused(void **state)
{
    (void)state;
    td_train_result result;
    td_train_settings s = run_settings("content", "run", 1);
    (void)run_train(&s);
    s.max_steps = 2;
    check(td_model_config_put(&s.model, "hop", "256"));
    refuse(TD_ERR_CONFIG, "front end coarse|hop_samples=512|hop_samples=256",
           td_train_run(run_rig.device, run_rig.device, &s, &result));
}

/* ---------------------------------------------------------------- what is made */

static const td_safetensors_tensor *find_tensor(const td_safetensors *file, const char *name)
{
    const td_safetensors_tensor *tensor = td_safetensors_find(file, name);
    if (tensor == NULL) fail_msg("there is no %s", name);
    return tensor;
}

/* One step, written to a file of the temporary folder. Closed by the caller. */
static td_safetensors *dump_step(td_device *data, td_device *model, const char *name)
{
    td_safetensors *file;
    td_train_result result;
    char path[512];
    td_train_settings s = run_settings("content", "dumped", 1);
    snprintf(path, sizeof path, "%s", temp_path(name));
    s.dump_step = path;
    s.verify_transfers = true;
    check(td_train_run(data, model, &s, &result));
    check(td_safetensors_open(path, &file));
    return file;
}

/* content = coarse times weight plus bias. */
static void test_the_part_makes_its_feature(void **state)
{
    (void)state;
    td_checkpoint *c;
    const td_safetensors_tensor *weight, *bias;
    const td_train_settings s = run_settings("content", "run", 1);
    const td_train_result result = run_train(&s);
    td_safetensors *file = dump_step(run_rig.device, run_rig.device, "step.safetensors");
    const td_safetensors_tensor *coarse = find_tensor(file, "batch.coarse"),
                                *made = find_tensor(file, "batch.content");
    check(td_checkpoint_open(result.checkpoint, &c));
    check(td_checkpoint_tensor(c, "param.", WEIGHT, &weight));
    check(td_checkpoint_tensor(c, "param.", BIAS, &bias));
    const size_t bands = weight->dims[0], numbers = weight->dims[1], rows = coarse->bytes / 4 / bands;
    assert_int_equal(made->bytes, 4 * rows * numbers);
    assert_true(rows > 20);
    const float *x = coarse->data, *w = weight->data, *b = bias->data, *y = made->data;
    for (size_t i = 0; i < rows * numbers; ++i) {
        double sum = (double)b[i % numbers];
        for (size_t k = 0; k < bands; ++k)
            sum += (double)x[i / numbers * bands + k] * (double)w[k * numbers + i % numbers];
        assert_true(fabs(sum - (double)y[i]) < 1e-4);
    }
    td_checkpoint_close(c);
    td_safetensors_close(file);
}

/* The data device makes the same for a second device, whose model takes a step from it. */
static void test_two_devices(void **state)
{
    (void)state;
    static const char *const SELECTORS[] = {POCL_SELECTOR, LAVAPIPE_SELECTOR};
    static const char *const NAMES[] = {"batch.coarse", "batch.coarse_counts", "batch.content"};
    td_registry *registry;
    td_registry_options options;
    const td_device_info *infos[2];
    td_device *devices[2];
    td_registry_options_from_env(&options);
    check(td_registry_open(&options, &registry));
    for (size_t i = 0; i < 2; ++i)
        check(td_registry_select(registry, SELECTORS[i], &infos[i]));
    check(td_devices_open(registry, infos, 2, devices));
    td_safetensors *one = dump_step(devices[0], devices[0], "one.safetensors");
    td_safetensors *two = dump_step(devices[0], devices[1], "two.safetensors");
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i) {
        const td_safetensors_tensor *a = find_tensor(one, NAMES[i]), *b = find_tensor(two, NAMES[i]);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    const float here = *(const float *)find_tensor(one, "loss.total")->data;
    const float there = *(const float *)find_tensor(two, "loss.total")->data;
    assert_true(here > 0 && fabsf(here - there) < 1e-4f * here);
    td_safetensors_close(one);
    td_safetensors_close(two);
    run_losses losses = {0};
    td_train_result result;
    td_train_settings s = run_settings("content", "pair", 4);
    s.val_every = 2;
    s.tell = run_keep_loss;
    s.context = &losses;
    check(td_train_run(devices[0], devices[1], &s, &result));
    assert_int_equal(losses.count, 4);
    assert_true(losses.validation > 0);
    for (size_t i = 2; i-- > 0;)
        td_device_close(devices[i]);
    td_registry_close(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_table_holds),
        cmocka_unit_test_setup_teardown(test_it_learns_and_goes_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_where_its_values_come_from, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_another_front_end_is_refused, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_the_part_makes_its_feature, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_two_devices, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
