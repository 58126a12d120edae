/* A voice's whole way with faults in it: data opened, three steps, saved, loaded, a fourth step, spoken with.
 * Allocations of our own code fail, calls into the OpenCL and the Vulkan driver fail, once and for good.
 * Afterwards the same way without a fault ends with the parameters that it would have had. Bounded by
 * default; TANDEM_FAULT_MOMENTS says how many points are tried, or `places`: from every place (walk.h). */
#include "data/fixture.h"

#include "base/error.h"
#include "base/file.h"
#include "layer.h"
#include "synth/voice.h"
#include "train/train.h"
#include "walk.h"
#include "wrap.h"

#define NOWHERE "/dev/null/nowhere"

enum { N_ROWS = 6, FIRST_STEPS = 3, ALL_STEPS = 4, MAX_BYTES = 1 << 26, N_MOMENTS = 1 };

typedef struct journey {
    td_registry_options options;
    const char *selector;
    bool allocations; /* are what fails; else the driver's calls */
    bool for_ever;
} journey;

/* Of the way without a fault. */
static char *wanted;
static size_t wanted_bytes;

/* ---------------------------------------------------------------- the way */

static int make_dataset(void **state)
{
    char text[512] = "", path[64];
    if (temp_dir_make(state) != 0) return -1;
    make_folder("set");
    make_folder("set/wavs");
    for (size_t i = 0; i < N_ROWS; ++i) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "r%zu|say %c now\n", i, (int)('a' + i));
        snprintf(path, sizeof path, "set/wavs/r%zu.wav", i);
        write_wav(temp_path(path), 22050, 1, 8000);
    }
    write_text(temp_path("set/metadata.csv"), text);
    return 0;
}

static td_status train(td_device *device, uint64_t steps)
{
    char set[512], run[512];
    td_train_result result;
    td_train_settings s = {
        .data = {.dataset = {.language = "en", .dir = set},
                 .workers = 1,
                 .batch_size = 1,
                 .max_mel_frames = 32,
                 .max_text_length = 16,
                 .n_buckets = 1,
                 .mel_cache = TD_MEL_CACHE_NONE},
        .schedule = {.kind = TD_SCHEDULE_CONSTANT, .lr = 1e-3, .min_lr = 1e-5, .decay_steps = 50},
        .optimizer = {.beta1 = 0.9F, .beta2 = 0.98F, .eps = 1e-9F, .max_norm = 1},
        .max_steps = steps,
        .save_every = 2,
        .val_every = 2,
        .log_every = 1,
        .seed = 5,
        .run_dir = run};
    snprintf(set, sizeof set, "%s", temp_path("set"));
    snprintf(run, sizeof run, "%s", temp_path("run"));
    const td_status status = td_model_preset(td_family_at(0), "pico", &s.model);
    return status == TD_OK ? td_train_run(device, device, &s, &result) : status;
}

static td_status speak(td_device *device)
{
    static const char TEXT[] = "say b now";
    static const td_speak_options USUAL = {.size = sizeof USUAL, .seed = 1};
    td_status status = TD_OK;
    td_memory *memory = NULL;
    td_voice *voice = NULL;
    float *samples = NULL;
    size_t count;
    TD_TRY(td_memory_create(device, "model", 0, &memory));
    TD_TRY(td_voice_open_on(memory, temp_path("run/checkpoint-4.safetensors"), &voice));
    TD_TRY(td_voice_speak(voice, TEXT, &USUAL, &samples, &count));
    TD_FAIL_IF(count == 0, TD_ERR_FORMAT, "nothing was said");
fail:
    td_voice_free_samples(samples);
    td_voice_close(voice);
    td_memory_destroy(memory);
    return status;
}

/* The whole way, or what is left of the training. */
static td_status go(const journey *given, bool whole)
{
    td_status status = TD_OK;
    td_registry *registry = NULL;
    td_device *device = NULL;
    const td_device_info *info;
    TD_TRY(td_registry_open(&given->options, &registry));
    TD_TRY(td_registry_select(registry, given->selector, &info));
    TD_TRY(td_devices_open(registry, &info, 1, &device));
    if (whole) TD_TRY(train(device, FIRST_STEPS));
    TD_TRY(train(device, ALL_STEPS));
    if (whole) TD_TRY(speak(device));
fail:
    td_device_close(device);
    td_registry_close(registry);
    return status;
}

/* ---------------------------------------------------------------- walking */

static void forget_run(void)
{
    if (td_file_exists(temp_path("run")))
        assert_int_equal(nftw(temp_path("run"), temp_dir_remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* What has come out must be what the first way without a fault gave. */
static void compare(void)
{
    char *got;
    size_t bytes;
    assert_int_equal(td_file_read(temp_path("run/checkpoint-4.safetensors"), MAX_BYTES, &got, &bytes), TD_OK);
    if (wanted == NULL) {
        wanted = got;
        wanted_bytes = bytes;
        return;
    }
    assert_int_equal(bytes, wanted_bytes);
    if (memcmp(got, wanted, bytes) != 0) fail_msg("afterwards: other parameters than without a fault");
    free(got);
}

/* What was begun goes on to its end. Where nothing was, the next way sets out from the same state anyway. */
static void recover(const journey *given)
{
    if (!td_file_exists(temp_path("run"))) return;
    if (go(given, false) != TD_OK) fail_msg("afterwards: %s", td_error_last()->message);
    compare();
}

static bool run_point(const void *context, uint64_t n, td_error *outcome)
{
    const journey *given = context;
    forget_run();
    wrap_open(given->allocations);
    walk_arm(n, given->for_ever);
    const td_status status = go(given, true);
    const bool fired = walk_disarm();
    if (status != TD_OK) *outcome = *td_error_last();
    outcome->status = status;
    wrap_open(false);
    if (status == TD_OK)
        compare();
    else
        recover(given);
    return fired;
}

static void walk(const char *name, journey given, bool for_ever)
{
    char title[96];
    given.for_ever = for_ever;
    snprintf(title, sizeof title, "%s, %s", name, for_ever ? "all from one on fail" : "one fails");
    walk_some_points(title, N_MOMENTS, run_point, &given);
    forget_run();
    if (go(&given, true) != TD_OK) fail_msg("%s, afterwards: %s", title, td_error_last()->message);
    compare();
    free(wanted);
    wanted = NULL;
}

/* Not among the short tests. */
static void walk_on_demand(const char *name, journey given, bool for_ever)
{
    if (getenv("TANDEM_FAULT_MOMENTS"))
        walk(name, given, for_ever);
    else
        print_message("%s: only with TANDEM_FAULT_MOMENTS\n", name);
}

static journey choose_allocations(void)
{
    return (journey){.options = {.cache_dir = getenv("TANDEM_CACHE_DIR"),
                                 .store_binaries = true,
                                 .vulkan_library = NOWHERE},
                     .selector = "cl:0.0",
                     .allocations = true};
}

static journey choose_opencl(void)
{
    return (journey){.options = {.hooks = &FAULT_LAYERS,
                                 .cache_dir = getenv("TANDEM_CACHE_DIR"),
                                 .store_binaries = true,
                                 .vulkan_library = NOWHERE},
                     .selector = "cl:0.0"};
}

static journey choose_vulkan(void)
{
    return (journey){.options = {.hooks = &FAULT_LAYERS,
                                 .cache_dir = getenv("TANDEM_CACHE_DIR"),
                                 .opencl_library = NOWHERE},
                     .selector = "vk:0"};
}

static void test_allocations_once(void **state)
{
    (void)state;
    walk("journey, allocations", choose_allocations(), false);
}

static void test_allocations_for_ever(void **state)
{
    (void)state;
    walk_on_demand("journey, allocations", choose_allocations(), true);
}

static void test_opencl_once(void **state)
{
    (void)state;
    walk_on_demand("journey, OpenCL calls", choose_opencl(), false);
}

static void test_opencl_for_ever(void **state)
{
    (void)state;
    walk("journey, OpenCL calls", choose_opencl(), true);
}

/* The driver here makes every pipeline anew for each device, which takes a second, and minutes before Mesa's
 * own cache is filled: on demand. */
static void test_vulkan_once(void **state)
{
    (void)state;
    walk_on_demand("journey, Vulkan calls", choose_vulkan(), false);
}

static void test_vulkan_for_ever(void **state)
{
    (void)state;
    walk_on_demand("journey, Vulkan calls", choose_vulkan(), true);
}

#define WALK(test) cmocka_unit_test_setup_teardown(test, make_dataset, temp_dir_remove)

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* as in test_opencl* */
    const struct CMUnitTest tests[] = {
        WALK(test_allocations_once), WALK(test_allocations_for_ever), WALK(test_opencl_once),
        WALK(test_opencl_for_ever),  WALK(test_vulkan_once),          WALK(test_vulkan_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
