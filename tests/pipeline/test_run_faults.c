/* Training on simulated devices whose script lets something fail somewhere: the run ends with the cause,
 * hangs nowhere (an alarm would end the test), and the same folder goes on to the end afterwards. One device
 * and two, faults from the first call to past the last.
 */
#include "data/fixture.h"

#include <unistd.h>

#include "base/error.h"
#include "pipeline/monitor.h"
#include "train/train.h"

enum { N_ROWS = 12, STEPS = 8, PATIENCE_S = 60 };

static int set_up(void **state)
{
    char text[1024] = "", path[64];
    if (temp_dir_make(state) != 0) return -1;
    make_folder("set");
    make_folder("set/wavs");
    for (int i = 0; i < N_ROWS; ++i) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "r%02d|abc%c de\n", i, 'a' + i % 5);
        snprintf(path, sizeof path, "set/wavs/r%02d.wav", i);
        write_wav(temp_path(path), 22050, 1, 9000 + 500 * i);
    }
    write_text(temp_path("set/metadata.csv"), text);
    listen_to(keep_log, NULL, TD_LOG_ERROR);
    return 0;
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    return temp_dir_remove(state);
}

static char warning[512];

/* Those of a voice that is trained for too short. */
static void keep_warning(void *context, td_log_level level, const char *message)
{
    (void)context;
    if (level == TD_LOG_WARN && strstr(message, "to be understood"))
        snprintf(warning, sizeof warning, "%s", message);
}

static bool has_warning(void *context)
{
    (void)context;
    return warning[0] != '\0';
}

typedef struct trial {
    const char *script; /* of both devices */
    const char *run;    /* folder to write to */
    bool is_single;
    size_t family;
    double minutes; /* ends by time, or when a warning was heard, instead of after STEPS */
    td_monitor *monitor;
    uint64_t data_limit_bytes, model_limit_bytes;
} trial;

/* *error: of a run that failed. */
static td_status train(const trial *t, td_error *error)
{
    char set[512], folder[512];
    const td_device_info *infos[2];
    td_device *devices[2] = {NULL, NULL};
    td_registry *registry = NULL;
    td_train_result result;
    const size_t n = t->is_single ? 1 : 2;
    const td_registry_options options = {
        .sim_model = t->script, .opencl_library = "/dev/null/none", .vulkan_library = "/dev/null/none"};
    snprintf(set, sizeof set, "%s", temp_path("set"));
    snprintf(folder, sizeof folder, "%s", temp_path(t->run));
    td_train_settings s = {.data = {.dataset = {.language = "en", .val_fraction = 0.2, .dir = set},
                                    .workers = 2,
                                    .batch_size = 2,
                                    .max_mel_frames = 128,
                                    .max_text_length = 64,
                                    .n_buckets = 1,
                                    .mel_cache = TD_MEL_CACHE_NONE},
                           .schedule = {.kind = TD_SCHEDULE_CONSTANT, .lr = 1e-3},
                           .optimizer = {.beta1 = 0.9F, .beta2 = 0.98F, .eps = 1e-9F},
                           .buffer_size = 3,
                           .prefetch_size = 2,
                           .max_steps = t->minutes > 0 ? 0 : STEPS,
                           .max_minutes = t->minutes,
                           .wants_end = t->minutes > 0 ? has_warning : NULL,
                           .save_every = 2,
                           .log_every = 1,
                           .keep = 2,
                           .monitor = t->monitor,
                           .data_limit_bytes = t->data_limit_bytes,
                           .model_limit_bytes = t->model_limit_bytes,
                           .run_dir = folder};
    assert_int_equal(td_model_preset(td_family_at(t->family), "pico", &s.model), TD_OK);
    alarm(PATIENCE_S);
    assert_int_equal(td_registry_open(&options, &registry), TD_OK);
    assert_int_equal(td_registry_select(registry, "sim:0", &infos[0]), TD_OK);
    assert_int_equal(td_registry_select(registry, "sim:1", &infos[1]), TD_OK);
    td_status status = td_devices_open(registry, infos, n, devices);
    if (status == TD_OK) status = td_train_run(devices[0], devices[n - 1], &s, &result);
    *error = *td_error_last();
    if (status == TD_OK && !(t->minutes > 0)) assert_int_equal(result.step, STEPS);
    for (size_t i = 0; i < n; ++i)
        td_device_close(devices[i]);
    td_registry_close(registry);
    alarm(0);
    return status;
}

/* Fails as it should, or not at all; what failed goes on in its folder once the fault is gone. */
static bool fails(trial t, const char *word)
{
    td_error error;
    if (train(&t, &error) == TD_OK) return false;
    if (!strstr(error.message, word)) fail_msg("%s: %s", t.script, error.message);
    char was[512];
    snprintf(was, sizeof was, "%s: %.400s", t.script, error.message);
    t.script = "latency_us=0";
    t.data_limit_bytes = t.model_limit_bytes = 0;
    if (train(&t, &error) != TD_OK) fail_msg("%s, then: %s", was, error.message);
    return true;
}

/* The fault at the first call, the third, the ninth and so on to past the last. */
static void walk(const char *key, const char *word, bool is_single)
{
    unsigned n_failed = 0;
    bool has_failed = true;
    for (unsigned at = 1; has_failed; at *= 3) {
        char script[64], run[64];
        snprintf(script, sizeof script, "latency_us=0,%s=%u", key, at);
        snprintf(run, sizeof run, "run-%s-%d-%u", key, is_single, at);
        has_failed = fails((trial){.script = script, .run = run, .is_single = is_single}, word);
        n_failed += has_failed;
    }
    assert_true(n_failed >= 3);
}

static void test_a_lost_device(void **state)
{
    (void)state;
    walk("lose_submit", "was lost in ", true);
    walk("lose_submit", "was lost in ", false);
}

static void test_a_failed_wait(void **state)
{
    (void)state;
    walk("fail_wait", "fail_wait", true);
    walk("fail_wait", "fail_wait", false);
}

/* The device has too little, or a role may take too little; either role. */
static void test_too_little_memory(void **state)
{
    (void)state;
    static const char PLENTY[] = "latency_us=0";
    assert_true(
        fails((trial){.script = "latency_us=0,memory_mb=1", .run = "one", .is_single = true}, "memory"));
    assert_true(fails((trial){.script = "latency_us=0,memory_mb=2", .run = "two"}, "memory"));
    assert_true(fails((trial){.script = PLENTY, .run = "data", .data_limit_bytes = 65536},
                      "raise pipeline.data_gpu_memory"));
    assert_true(fails((trial){.script = PLENTY, .run = "model", .model_limit_bytes = 65536},
                      "raise pipeline.model_gpu_memory"));
}

/* A device that is slow is no fault: training waits for it, and it is named. */
static void test_a_slow_model_device_sets_the_pace(void **state)
{
    (void)state;
    td_monitor *monitor;
    td_batch_times times[STEPS];
    td_pipeline_figures f;
    td_error error;
    assert_int_equal(td_monitor_create(STEPS, false, &monitor), TD_OK);
    assert_int_equal(train(&(trial){.script = "latency_us=200", .run = "run", .monitor = monitor}, &error),
                     TD_OK);
    const size_t n = td_monitor_read(monitor, times);
    assert_true(td_pipeline_figures_of(times, n, 2, false, &f));
    assert_int_equal(f.slowest, TD_STAGE_TRAIN);
    td_monitor_destroy(monitor);
}

/* Finding 25: every range that a kernel is given starts where the device with the widest alignment allows it, from
 * the batch to the update, whatever the family. */
static void test_finding_25_wide_alignment(void **state)
{
    (void)state;
    for (size_t family = 0; family < 2; ++family) {
        char run[16];
        td_error error;
        snprintf(run, sizeof run, "run-%zu", family);
        if (train(&(trial){.script = "latency_us=0,offset_align=512", .run = run, .family = family},
                  &error) != TD_OK)
            fail_msg("%s", error.message);
    }
}

/* Finding 26: a family that needs long says so, at once or as soon as the pace is known; others do not. Asked of the
 * family's table: whichever families there are. */
static void test_finding_26_too_short_a_run(void **state)
{
    (void)state;
    size_t n_slow = 0;
    for (size_t family = 0; family < td_family_count() && family < 2; ++family) {
        const uint64_t least = td_family_at(family)->least_steps;
        char run[16], number[24];
        td_error error;
        snprintf(run, sizeof run, "short-%zu", family);
        snprintf(number, sizeof number, "%llu", (unsigned long long)least);
        listen_to(keep_warning, NULL, TD_LOG_WARN);
        warning[0] = '\0';
        assert_int_equal(train(&(trial){.script = "latency_us=0", .run = run, .family = family}, &error),
                         TD_OK);
        assert_int_equal(has_warning(NULL), least > STEPS);
        if (least == 0) continue;
        ++n_slow;
        assert_non_null(strstr(warning, "training.max_steps"));
        assert_non_null(strstr(warning, number));
        warning[0] = '\0';
        snprintf(run, sizeof run, "time-%zu", family);
        assert_int_equal(
            train(&(trial){.script = "latency_us=100", .run = run, .family = family, .minutes = 0.4}, &error),
            TD_OK);
        assert_non_null(strstr(warning, "training.max_minutes"));
    }
    assert_int_equal(n_slow, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_lost_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_little_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_slow_model_device_sets_the_pace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_finding_25_wide_alignment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_finding_26_too_short_a_run, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
