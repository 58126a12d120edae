/* Each allocation of our own code fails, once and from there on, in parts that test_faults_journey.c takes
 * only some points of: reading a configuration, preparing a dataset anew and from its cache. Speaking, too:
 * at some points, or from every place with TANDEM_FAULT_MOMENTS=places. Afterwards the same without a fault
 * gives what it gave before. */
#include "data/fixture.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "synth/fixture.h"
#include "synth/voice.h"
#include "walk.h"
#include "wrap.h"

enum { N_ROWS = 4, LEAST_POINTS = 5, N_SPOKEN = 60 };

/* A part that is tried: gives a number of what came out. */
typedef td_status (*part)(const void *context, uint64_t *out);

typedef struct trial {
    part run;
    const void *context;
    bool for_ever;
    uint64_t wanted; /* without a fault */
} trial;

static bool run_point(const void *context, uint64_t n, td_error *outcome)
{
    const trial *t = context;
    uint64_t got;
    wrap_open(true);
    walk_arm(n, t->for_ever);
    const td_status status = t->run(t->context, &got);
    const bool fired = walk_disarm();
    wrap_open(false);
    if (status != TD_OK) *outcome = *td_error_last();
    outcome->status = status;
    if (status == TD_OK) assert_int_equal(got, t->wanted);
    return fired;
}

/* count 0: all points. */
static void walk(const char *name, part run, const void *context, uint64_t count)
{
    char title[96];
    trial t = {.run = run, .context = context};
    if (run(context, &t.wanted) != TD_OK) fail_msg("%s, undisturbed: %s", name, td_error_last()->message);
    for (int i = 0; i < 2; ++i) {
        uint64_t got;
        t.for_ever = i == 1;
        snprintf(title, sizeof title, "%s, %s", name, t.for_ever ? "all from one on fail" : "one fails");
        if (count > 0)
            (void)walk_some_points(title, count, run_point, &t);
        else
            (void)walk_all_points(title, LEAST_POINTS, run_point, &t);
        if (run(context, &got) != TD_OK) fail_msg("%s, afterwards: %s", name, td_error_last()->message);
        assert_int_equal(got, t.wanted);
    }
}

/* ---------------------------------------------------------------- configuration */

/* As the program does it: the command line with a file and --set, and what --print-config tells. */
static td_status configure(const void *context, uint64_t *out)
{
    const char *const arguments[] = {"--config", context, "--set", "training.seed=9", "--batch-size", "4"};
    td_status status = TD_OK;
    td_cli_table table;
    td_options *options = NULL;
    char *text = NULL;
    TD_TRY(td_cli_make_table(&table));
    TD_TRY(td_options_create(&table.table, &options));
    TD_TRY(td_options_parse(options, TD_COMMAND_TRAIN, sizeof arguments / sizeof arguments[0], arguments));
    TD_TRY(td_options_read_file(options, context));
    TD_TRY(td_options_config(options, &text));
    *out = td_hash64(text, strlen(text));
fail:
    free(text);
    td_options_destroy(options);
    td_cli_free_table(&table);
    return status;
}

static void test_configuration(void **state)
{
    (void)state;
    write_text(temp_path("run.ini"), "[training]\nlr = 0.5\n[data]\nlanguage = en\n");
    char path[512];
    snprintf(path, sizeof path, "%s", temp_path("run.ini"));
    walk("allocations, configuration", configure, path, 0);
}

/* ---------------------------------------------------------------- preparing */

typedef struct preparation {
    td_dataset_settings settings;
    bool forgets; /* what the cache holds, before it begins */
} preparation;

static td_status prepare(const void *context, uint64_t *out)
{
    const preparation *given = context;
    td_status status = TD_OK;
    td_pool *pool = NULL;
    td_dataset *dataset = NULL;
    if (given->forgets)
        (void)nftw(given->settings.cache_dir, temp_dir_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    TD_TRY(td_pool_create(1, &pool));
    TD_TRY(td_dataset_open(&given->settings, pool, &dataset));
    *out = td_hash64(dataset->view.header, dataset->block.bytes) + dataset->n_train;
fail:
    td_dataset_close(dataset);
    td_pool_destroy(pool);
    return status;
}

static void test_preparing(void **state)
{
    (void)state;
    char set[512], cache[512], text[256] = "", path[64];
    make_folder("set");
    make_folder("set/wavs");
    for (size_t i = 0; i < N_ROWS; ++i) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "r%zu|Say %zu now.\n", i, i);
        snprintf(path, sizeof path, "set/wavs/r%zu.wav", i);
        write_wav(temp_path(path), 22050, 1, 8000);
    }
    write_text(temp_path("set/metadata.csv"), text);
    snprintf(set, sizeof set, "%s", temp_path("set"));
    snprintf(cache, sizeof cache, "%s", temp_path("cache"));
    preparation given = {.settings = {.dir = set, .language = "en", .val_fraction = 0.3}};
    walk("allocations, preparing", prepare, &given, 0);
    given.settings.cache_dir = cache;
    walk("allocations, preparing from a cache", prepare, &given, 0);
    given.forgets = true;
    walk("allocations, preparing into a cache", prepare, &given, 0);
}

/* ---------------------------------------------------------------- speaking */

static td_status speak(const void *context, uint64_t *out)
{
    static const char TEXT[] = "say b now";
    static const td_speak_options USUAL = {.size = sizeof USUAL, .seed = 1};
    const rig *r = context;
    td_status status = TD_OK;
    td_voice *voice = NULL;
    float *samples = NULL;
    size_t count;
    TD_TRY(td_voice_open_on(r->memory, temp_path("v.safetensors"), &voice));
    TD_TRY(td_voice_speak(voice, TEXT, &USUAL, &samples, &count));
    *out = td_hash64(samples, count * sizeof *samples);
fail:
    td_voice_free_samples(samples);
    td_voice_close(voice);
    return status;
}

static void test_speaking(void **state)
{
    (void)state;
    rig r;
    rig_open_on(&r, "cpu", false, 0);
    const td_checkpoint_info info = make_info("parallel");
    write_voice(&r, temp_path("v.safetensors"), &info);
    walk("allocations, speaking", speak, &r, N_SPOKEN);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_configuration, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_preparing, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_speaking, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
