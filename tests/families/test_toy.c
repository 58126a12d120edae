/* A family of under a hundred lines (toy/toy.c), which no file but its own knows: it trains, goes on, is
 * planned, dumped and looked at as the others are. */
#include "run.h"
#include "table.h"

#include "tandem/train.h"
#include "tandem/voice.h"
#include "train/need.h"

static void test_its_table_holds(void **state)
{
    (void)state;
    check_table(td_family_find("toy"));
}

static void test_it_learns_and_goes_on(void **state)
{
    (void)state;
    run_losses losses = {0};
    td_train_settings s = run_settings("toy", "whole", 12);
    check(td_model_config_put(&s.model, "dropout", "0.1")); /* its masks must go on too */
    s.val_every = 6;
    s.sample_every = 12; /* nothing speaks: pictures of what it predicts */
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_int_equal(losses.count, 12);
    assert_true(losses.values[11] < 0.8 * losses.values[0]);
    assert_true(losses.validation > 0 && losses.validation < losses.values[0]);
    assert_true(td_file_exists(temp_path("whole/samples/step-12-0-spectrogram.png")));
    char metrics[1 << 14];
    run_read("whole/metrics.jsonl", metrics, sizeof metrics);
    assert_non_null(strstr(metrics, "\"validation\""));
    assert_null(strstr(metrics, "free_running_distance"));
    s.run_dir = temp_path("parts");
    s.max_steps = 6;
    const td_train_result first = run_train(&s);
    s.max_steps = 12;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
    assert_int_equal(run_count_changed(whole.checkpoint, first.checkpoint, "param."), 4);
}

static void test_a_checkpoint_names_it(void **state)
{
    (void)state;
    td_checkpoint *c;
    td_train_settings s = run_settings("toy", "run", 1);
    check(td_model_config_put(&s.model, "width", "24"));
    const td_train_result result = run_train(&s);
    check(td_checkpoint_open(result.checkpoint, &c));
    check(td_checkpoint_verify(c));
    assert_ptr_equal(td_checkpoint_get_info(c)->model.family, td_family_find("toy"));
    assert_string_equal(td_checkpoint_text(c, "model.width"), "24");
    assert_string_equal(td_checkpoint_text(c, "model.n_mels"), "80");
    td_checkpoint_close(c);
    s.max_steps = 2;
    check(td_model_config_put(&s.model, "width", "16"));
    td_train_result other;
    refuse(TD_ERR_CONFIG, "width is 24, here it is 16",
           td_train_run(run_rig.device, run_rig.device, &s, &other));
    s.model.family = td_family_at(0);
    check(td_model_preset(td_family_at(0), "pico", &s.model));
    refuse(TD_ERR_CONFIG, "family is toy", td_train_run(run_rig.device, run_rig.device, &s, &other));
    td_voice *voice;
    td_error error = {0};
    const td_voice_options options = {
        .size = sizeof options, .path = result.checkpoint, .device = POCL_SELECTOR};
    assert_int_equal(td_voice_open(&options, &voice, &error), TD_ERR_CONFIG);
    assert_non_null(strstr(error.message, "toy does not speak"));
}

static void test_a_step_is_dumped(void **state)
{
    (void)state;
    td_safetensors *file;
    td_train_settings s = run_settings("toy", "run", 5);
    char path[512];
    snprintf(path, sizeof path, "%s", temp_path("step.safetensors"));
    s.dump_step = path;
    assert_int_equal(run_train(&s).reason, TD_END_DUMPED);
    check(td_safetensors_open(path, &file));
    static const char *const NAMES[] = {"batch.mel",        "batch.frame_counts", "param.inside.weight",
                                        "grad.inside.bias", "grad.frame.weight",  "updated.frame.bias",
                                        "loss.total"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        if (td_safetensors_find(file, NAMES[i]) == NULL) fail_msg("there is no %s", NAMES[i]);
    assert_null(td_safetensors_find(file, "batch.token_ids")); /* what it does not read is not made */
    td_safetensors_close(file);
}

static void test_it_is_planned(void **state)
{
    (void)state;
    td_need need;
    td_ready_step step;
    double batch_bytes = 0;
    td_train_settings s = run_settings("toy", "run", 1);
    td_batch_shape shape = td_run_shape(&s, (td_lengths){.frames = 40, .tokens = 9});
    assert_int_equal(shape.frames, 64);
    assert_int_equal(shape.reference_frames, 0);
    shape.items = 3;
    check(td_run_batch_bytes(&s, &shape, &batch_bytes));
    assert_true(batch_bytes == 4.0 * 3 * (64 * 80 + 1));
    check(td_run_need(run_rig.memory, &s, shape, &need));
    assert_true(need.item_bytes >= 4 * 64 * 80);
    assert_int_equal(td_need_largest(&need, td_need_bytes(&need, 40) + 4096), 40);
    check(td_ready_open(run_rig.memory, &s, &shape, &step));
    assert_int_equal(step.n_learners, 1);
    assert_true(td_ready_bytes(&step) > 0);
    td_ready_close(&step);
}

/* By keys and values, as users do. */
static void test_the_public_library_trains_it(void **state)
{
    (void)state;
    const struct {
        const char *key, *value;
    } settings[] = {{"devices.model", POCL_SELECTOR}, {"model.family", "toy"},
                    {"model.model_size", "pico"},     {"model.width", "20"},
                    {"data.train_data", run_set},     {"data.language", "en"},
                    {"training.batch_size", "2"},     {"training.max_steps", "3"},
                    {"training.val_every", "2"},      {"training.checkpoint_dir", temp_path("public")}};
    const td_training_options options = {.size = sizeof options};
    td_training_result result = {.size = sizeof result};
    td_training *training;
    check(td_training_create(&options, &training));
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; ++i)
        check(td_training_set(training, settings[i].key, settings[i].value));
    if (td_training_run(training, NULL, NULL) != TD_OK) fail_msg("%s", td_training_error(training)->message);
    check(td_training_get_result(training, &result));
    assert_int_equal(result.step, 3);
    assert_true(td_file_exists(result.checkpoint));
    td_checkpoint *c;
    check(td_checkpoint_open(result.checkpoint, &c));
    assert_string_equal(td_checkpoint_text(c, "family"), "toy");
    assert_string_equal(td_checkpoint_text(c, "model.width"), "20");
    td_checkpoint_close(c);
    td_training_free(training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_table_holds),
        cmocka_unit_test_setup_teardown(test_it_learns_and_goes_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_checkpoint_names_it, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_step_is_dumped, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_it_is_planned, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_the_public_library_trains_it, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
