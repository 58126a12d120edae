/* The public interface of training (include/tandem/train.h) with the smallest model on a few tones: what is
 * refused and how, events and results, stopping, a second thread, and two trainings at once. */
#include "data/fixture.h"

#include <math.h>

#include "base/file.h"
#include "tandem/train.h"

enum { N_ROWS = 8, N_STEPS = 3, MOST_LOSSES = 64 };

static int set_up(void **state)
{
    char text[1024] = "", path[64];
    if (temp_dir_make(state) != 0) return -1;
    make_folder("set");
    make_folder("set/wavs");
    for (int i = 0; i < N_ROWS; ++i) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "r%d|say %c now\n", i, "abcd"[i % 4]);
        snprintf(path, sizeof path, "set/wavs/r%d.wav", i);
        write_wav(temp_path(path), 22050, 1, 9000 + 700 * i);
    }
    write_text(temp_path("set/metadata.csv"), text);
    return 0;
}

/* ---------------------------------------------------------------- help */

/* A training with what it told. */
typedef struct trial {
    td_training *training;
    const char *run; /* name of its folder */
    char log[8192], kinds[256];
    double losses[MOST_LOSSES];
    size_t n_losses;
    uint64_t stop_at; /* step after which the callback stops it; 0: never */
    td_status status;
} trial;

static void keep_line(void *context, td_log_level level, const char *message)
{
    trial *t = context;
    const size_t used = strlen(t->log);
    snprintf(t->log + used, sizeof t->log - used, "%d %s\n", (int)level, message);
}

static void keep_event(void *context, const td_training_event *event)
{
    trial *t = context;
    const size_t used = strlen(t->kinds);
    assert_int_equal(event->size, sizeof *event);
    assert_true(event->json != NULL || event->is_progress);
    if (!event->is_progress && used + 1 < sizeof t->kinds) t->kinds[used] = "(svkm!w)"[event->kind];
    if (event->kind == TD_TRAINING_STEP && t->n_losses < MOST_LOSSES && !event->is_progress) {
        assert_string_equal(event->values[0].name, "loss");
        assert_true(event->n_losses > 1 && td_training_event_value(event, "lr") > 0);
        assert_true(isnan(td_training_event_value(event, "no such value")));
        t->losses[t->n_losses++] = td_training_event_value(event, "loss");
    }
    if (event->kind == TD_TRAINING_START || event->kind == TD_TRAINING_SAVED) assert_non_null(event->path);
    if (t->stop_at > 0 && event->step >= t->stop_at) {
        assert_int_equal(td_training_set(t->training, "training.lr", "1"), TD_ERR_ARGUMENT);
        assert_int_equal(td_training_run(t->training, NULL, NULL), TD_ERR_ARGUMENT);
        td_training_stop(t->training);
    }
}

static void set(const trial *t, const char *key, const char *value)
{
    if (td_training_set(t->training, key, value) != TD_OK)
        fail_msg("%s", td_training_error(t->training)->message);
}

static void create(trial *t)
{
    const td_training_options options = {
        .size = sizeof options, .log_level = TD_LOG_INFO, .log = keep_line, .log_context = t};
    assert_int_equal(td_training_create(&options, &t->training), TD_OK);
}

static void configure(trial *t, const char *run)
{
    t->run = run;
    create(t);
    set(t, "devices.model", "cpu");
    set(t, "model.model_size", "pico");
    set(t, "data.train_data", temp_path("set"));
    set(t, "data.language", "en");
    set(t, "training.batch_size", "2");
    set(t, "training.max_steps", "3");
    set(t, "training.val_every", "0");
    set(t, "training.sample_every", "0");
    set(t, "logging.log_every", "1");
    set(t, "training.checkpoint_dir", temp_path(run));
}

static void *run(void *context)
{
    trial *t = context;
    t->status = td_training_run(t->training, keep_event, t);
    return NULL;
}

static void expect_success(const trial *t)
{
    if (t->status != TD_OK) fail_msg("%s", td_training_error(t->training)->message);
}

static void refuse(const trial *t, td_status status, const char *words)
{
    const td_error *error = td_training_error(t->training);
    assert_int_not_equal(status, TD_OK);
    assert_int_equal(error->status, status);
    if (strstr(error->message, words) == NULL) fail_msg("'%s' is not in '%s'", words, error->message);
}

/* ---------------------------------------------------------------- tests */

static void test_wrong_keys_and_values_are_refused(void **state)
{
    (void)state;
    trial t = {0}, other = {0};
    const char *text;
    create(&t);
    create(&other);
    assert_int_equal(td_training_error(t.training)->status, TD_OK);
    refuse(&t, td_training_set(t.training, "training.lrr", "1"), "did you mean 'lr'?");
    refuse(&t, td_training_set(t.training, "model.text_widt", "64"), "did you mean 'text_width'?");
    refuse(&t, td_training_set(t.training, "trainin.lr", "1"), "did you mean [training]?");
    refuse(&t, td_training_set(t.training, "training.grad_accum", "0"), "from 1 to 4096");
    refuse(&t, td_training_set(t.training, "bench.rounds", "3"), "unknown section [bench]");
    refuse(&t, td_training_get(t.training, "training.lrr", &text), "training.lrr");
    assert_int_equal(td_training_error(other.training)->status, TD_OK); /* each has its own */
    set(&t, "training.lr", "0.5");
    assert_int_equal(td_training_error(t.training)->status, TD_OK); /* of the last call */
    assert_int_equal(td_training_get(t.training, "training.lr", &text), TD_OK);
    assert_string_equal(text, "0.5");
    assert_int_equal(td_training_get(t.training, "training.resume", &text), TD_OK);
    assert_null(text);
    td_training_free(t.training);
    td_training_free(other.training);
}

static void test_files_are_told_all_their_mistakes(void **state)
{
    (void)state;
    trial t = {0};
    const char *text;
    create(&t);
    write_text(temp_path("a.ini"), "[training]\nlr = 0.25\nseeed = 3\nepochs = many\n");
    set(&t, "training.seed", "4");
    const td_status status = td_training_load(t.training, temp_path("a.ini"));
    refuse(&t, status, "a.ini:3: unknown key 'seeed' in [training]; did you mean 'seed'?");
    refuse(&t, status, "a.ini:4: ");
    assert_int_equal(td_training_get(t.training, "training.lr", &text), TD_OK);
    assert_string_equal(text, "0.25");
    write_text(temp_path("b.ini"), "[training]\nseed = 5\nlr = 0.125\n");
    assert_int_equal(td_training_load(t.training, temp_path("b.ini")), TD_OK);
    assert_int_equal(td_training_get(t.training, "training.seed", &text), TD_OK);
    assert_string_equal(text, "4"); /* what was set wins over files */
    assert_int_equal(td_training_get(t.training, "training.lr", &text), TD_OK);
    assert_string_equal(text, "0.125");
    refuse(&t, td_training_load(t.training, temp_path("none.ini")), "none.ini");
    td_training_free(t.training);
}

static void test_what_cannot_run_is_refused_by_key(void **state)
{
    (void)state;
    trial t = {0};
    configure(&t, "run");
    set(&t, "data.train_data", "");
    refuse(&t, td_training_run(t.training, NULL, NULL), "set data.train_data");
    set(&t, "data.train_data", temp_path("set"));
    set(&t, "training.max_steps", "0");
    refuse(&t, td_training_run(t.training, NULL, NULL), "set training.max_steps, training.epochs or");
    set(&t, "devices.model", "sim");
    refuse(&t, td_training_run(t.training, NULL, NULL), "computes nothing");
    td_training_result result = {.size = sizeof result};
    refuse(&t, td_training_get_result(t.training, &result), "succeeded");
    td_training_free(t.training);
    assert_int_equal(td_training_create(&(td_training_options){.size = 0}, &t.training), TD_ERR_ARGUMENT);
    assert_null(t.training);
}

static void test_two_at_once_and_one_after_the_other_are_the_same(void **state)
{
    (void)state;
    trial trials[3] = {0};
    static const char *const RUNS[] = {"first", "second", "third"};
    pthread_t threads[2];
    for (int i = 0; i < 3; ++i)
        configure(&trials[i], RUNS[i]);
    for (int i = 0; i < 2; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &trials[i]), 0);
    for (int i = 0; i < 2; ++i)
        pthread_join(threads[i], NULL);
    (void)run(&trials[2]);
    for (int i = 0; i < 3; ++i) {
        const trial *t = &trials[i];
        td_training_result result = {.size = sizeof result};
        expect_success(t);
        assert_int_equal(t->n_losses, N_STEPS);
        assert_memory_equal(t->losses, trials[0].losses, N_STEPS * sizeof t->losses[0]);
        assert_true(t->kinds[0] == '(' && t->kinds[strlen(t->kinds) - 1] == ')');
        assert_non_null(strchr(t->kinds, 'k'));
        assert_non_null(strstr(t->log, "model role: "));
        assert_ptr_equal(strstr(strstr(t->log, "model role: ") + 1, "model role: "),
                         NULL); /* its own alone */
        assert_int_equal(td_training_get_result(t->training, &result), TD_OK);
        assert_int_equal(result.reason, TD_TRAINING_DONE);
        assert_int_equal(result.step, N_STEPS);
        assert_true(isfinite(result.loss) && result.n_saved > 0);
        assert_non_null(strstr(result.checkpoint, t->run));
        assert_true(td_file_exists(result.checkpoint));
    }
    for (int i = 0; i < 3; ++i)
        td_training_free(trials[i].training);
}

/* The callback stops it; the next run goes on from there. A caller of an older library has a shorter result.
 */
static void test_stopping_and_going_on(void **state)
{
    (void)state;
    trial t = {.stop_at = 1};
    struct {
        td_training_result result;
        char guard[8];
    } old = {.guard = "guard"};
    configure(&t, "run");
    set(&t, "training.max_steps", "1000");
    (void)run(&t);
    expect_success(&t);
    memset(&old.result, 7, sizeof old.result);
    old.result.size = offsetof(td_training_result, n_skipped);
    assert_int_equal(td_training_get_result(t.training, &old.result), TD_OK);
    assert_int_equal(old.result.reason, TD_TRAINING_STOPPED);
    assert_true(old.result.step >= 1 && old.result.step < 1000);
    assert_int_equal(old.result.n_skipped, UINT64_C(0x0707070707070707));
    assert_string_equal(old.guard, "guard");
    const uint64_t stopped_at = old.result.step;
    char goal[32];
    snprintf(goal, sizeof goal, "%d", (int)stopped_at + 2);
    t.stop_at = 0;
    set(&t, "training.max_steps", goal);
    (void)run(&t);
    expect_success(&t);
    td_training_result result = {.size = sizeof result};
    assert_int_equal(td_training_get_result(t.training, &result), TD_OK);
    assert_int_equal(result.step, stopped_at + 2);
    td_training_free(t.training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wrong_keys_and_values_are_refused, set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_files_are_told_all_their_mistakes, set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_what_cannot_run_is_refused_by_key, set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_two_at_once_and_one_after_the_other_are_the_same, set_up,
                                        temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_stopping_and_going_on, set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
