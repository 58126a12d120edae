/* Whole runs with the smallest model on a few tones: going on to the same bits, any number of threads,
 * accumulation, divergence, damaged checkpoints, fine-tuning, the size of files, and what is left in the
 * folder. */
#include "data/fixture.h"

#include <math.h>

#include "base/error.h"
#include "families/checkpoint.h"
#include "train/train_internal.h"

enum { N_ROWS = 24, BATCH = 4 };

static td_registry *registry;
static const char *selectors[] = {"cl:0.0", "cl:0.1", "vk:0"}; /* PoCL #0 and #1, lavapipe */
static td_device *devices[3], *device;                         /* the first of them */
static size_t n_devices = 3;

static int open_device(void **state)
{
    (void)state;
    const td_device_info *infos[3];
    td_registry_options options;
    td_registry_options_from_env(&options);
    td_status status = td_registry_open(&options, &registry);
    for (size_t i = 0; i < n_devices && status == TD_OK; ++i)
        status = td_registry_select(registry, selectors[i], &infos[i]);
    if (status == TD_OK) status = td_devices_open(registry, infos, n_devices, devices);
    if (status != TD_OK) {
        print_message("%s\n", td_error_last()->message);
        return -1;
    }
    device = devices[0];
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    for (size_t i = n_devices; i-- > 0;)
        td_device_close(devices[i]);
    td_registry_close(registry);
    return 0;
}

/* Rows of `letters`, each with a tone; `equal`: all of one length. */
static void make_dataset(const char *name, size_t n, const char *letters, bool equal)
{
    char text[4096], path[64];
    size_t used = 0;
    make_folder(name);
    snprintf(path, sizeof path, "%s/wavs", name);
    make_folder(path);
    for (size_t i = 0; i < n; ++i) {
        const size_t length = equal ? 8 : 4 + i * 5 % 9;
        used += (size_t)snprintf(text + used, sizeof text - used, "r%02zu|", i);
        for (size_t k = 0; k < length; ++k)
            text[used++] = letters[(i * 3 + k) % strlen(letters)];
        text[used++] = '\n';
        text[used] = '\0';
        snprintf(path, sizeof path, "%s/wavs/r%02zu.wav", name, i);
        write_wav(temp_path(path), 22050, 1, (sf_count_t)(equal ? 12800 : 9000 + 700 * (i * 7 % n)));
    }
    snprintf(path, sizeof path, "%s/metadata.csv", name);
    write_text(temp_path(path), text);
}

static int set_up(void **state)
{
    if (temp_dir_make(state) != 0) return -1;
    make_dataset("set", N_ROWS, "abcde ", false);
    logged[0] = '\0';
    listen_to(keep_log, NULL, TD_LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    return temp_dir_remove(state);
}

/* ---------------------------------------------------------------- help */

static char set_path[512];

static void set_key(td_train_settings *s, const char *key, const char *value)
{
    assert_int_equal(td_model_config_put(&s->model, key, value), TD_OK);
}

static td_train_settings make_settings(const char *run, uint64_t steps)
{
    td_train_settings s = {
        .data = {.dataset = {.language = "en", .val_fraction = 0.2, .max_bad_fraction = 0},
                 .workers = 2,
                 .batch_size = BATCH,
                 .max_mel_frames = 256,
                 .max_text_length = 64,
                 .n_buckets = 2,
                 .mel_cache = TD_MEL_CACHE_NONE},
        .schedule =
            {.kind = TD_SCHEDULE_COSINE, .lr = 1e-3, .min_lr = 1e-5, .warmup_steps = 2, .decay_steps = 50},
        .optimizer = {.beta1 = 0.9F, .beta2 = 0.98F, .eps = 1e-9F, .decay = 0.01F, .max_norm = 1},
        .max_steps = steps,
        .save_every = 3,
        .log_every = 1,
        .seed = 5,
        .keep = 5};
    assert_int_equal(td_model_preset(td_family_at(0), "pico", &s.model), TD_OK);
    set_key(&s, "dropout", "0.1"); /* so that its masks must go on too */
    snprintf(set_path, sizeof set_path, "%s", temp_path("set"));
    s.data.dataset.dir = set_path;
    s.run_dir = temp_path(run);
    return s;
}

static td_train_result train_on(td_device *data, td_device *model, const td_train_settings *settings)
{
    td_train_result result;
    const td_status status = td_train_run(data, model, settings, &result);
    if (status != TD_OK) print_message("%s\n", td_error_last()->message);
    assert_int_equal(status, TD_OK);
    return result;
}

static td_train_result train(const td_train_settings *settings)
{
    return train_on(device, device, settings);
}

static td_checkpoint *open_checkpoint(const char *path)
{
    td_checkpoint *c;
    const td_status status = td_checkpoint_open(path, &c);
    if (status != TD_OK) print_message("%s\n", td_error_last()->message);
    assert_int_equal(status, TD_OK);
    return c;
}

/* Largest difference of two checkpoints' tensors, relative to the tensor's largest value; 0: the same bits.
 */
static double compare(const char *a_path, const char *b_path, const char *prefix)
{
    td_checkpoint *a = open_checkpoint(a_path), *b = open_checkpoint(b_path);
    const td_safetensors *file = td_checkpoint_file(a);
    double worst = 0;
    size_t n = 0;
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *x = td_safetensors_at(file, i);
        const td_safetensors_tensor *y = td_safetensors_find(td_checkpoint_file(b), x->name);
        if (strncmp(x->name, prefix, strlen(prefix)) != 0) continue;
        ++n;
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes) == 0) continue;
        double most = 1e-30, difference = 0;
        const float *p = x->data, *q = y->data;
        for (size_t k = 0; k < x->bytes / 4; ++k) {
            most = fmax(most, fabs((double)p[k]));
            difference = fmax(difference, fabs((double)p[k] - (double)q[k]));
        }
        worst = fmax(worst, fmax(difference / most, 1e-12));
    }
    assert_true(n > 0);
    td_checkpoint_close(a);
    td_checkpoint_close(b);
    return worst;
}

static void keep_distance(void *context, const td_train_event *event)
{
    if (event->kind == TD_TRAIN_VALIDATION) *(double *)context = event->distance;
}

/* ---------------------------------------------------------------- tests */

/* So many steps; in fp16 with a loss scale that doubles after every two. */
static td_train_result train_in(td_dtype narrow, const char *run, uint64_t steps)
{
    td_train_settings s = make_settings(run, steps);
    s.plan.half = narrow;
    s.optimizer.scale_growth_steps = narrow == TD_F16 ? 2 : 0;
    return train(&s);
}

static void judge_going_on(td_dtype narrow)
{
    const td_train_result whole = train_in(narrow, narrow ? "whole16" : "whole", 6);
    assert_int_equal(whole.step, 6);
    const td_train_result first = train_in(narrow, narrow ? "parts16" : "parts", 3);
    assert_int_equal(first.step, 3);
    const td_train_result second = train_in(narrow, narrow ? "parts16" : "parts", 6);
    assert_non_null(strstr(logged, "step 3"));
    assert_int_equal(second.step, 6);
    assert_true(compare(whole.checkpoint, second.checkpoint, "") ==
                0); /* parameters, moments, control words */
    assert_true(compare(whole.checkpoint, first.checkpoint, "param.") > 0);
    assert_true(whole.loss == second.loss);
}

static void test_going_on_gives_the_same_bits(void **state)
{
    (void)state;
    judge_going_on(TD_F32);
    judge_going_on(TD_F16);
    char *metrics = NULL;
    size_t bytes = 0;
    assert_int_equal(td_file_read(temp_path("whole16/metrics.jsonl"), 1 << 20, &metrics, &bytes), TD_OK);
    assert_non_null(strstr(metrics, "\"loss_scale\": 524288")); /* after six good steps */
    free(metrics);
}

static void test_any_number_of_workers(void **state)
{
    (void)state;
    td_train_settings s = make_settings("one", 4);
    s.data.workers = 1;
    const td_train_result one = train(&s);
    s = make_settings("eight", 4);
    s.data.workers = 8;
    s.data.mel_cache = TD_MEL_CACHE_RAM;
    const td_train_result eight = train(&s);
    assert_true(compare(one.checkpoint, eight.checkpoint, "") == 0);
}

typedef struct losses {
    double values[64]; /* by step */
    size_t count;
} losses;

static void keep_loss(void *context, const td_train_event *event)
{
    losses *kept = context;
    if (event->kind == TD_TRAIN_STEP) kept->values[kept->count++] = event->values[0];
}

/* Every batch arrives as it was sent, and overlapping changes no bit of any step. */
static void compare_with_serial(size_t data, size_t model, uint64_t steps)
{
    char run[32];
    losses overlapped_losses = {0}, serial_losses = {0};
    snprintf(run, sizeof run, "overlapped%zu%zu", data, model);
    td_train_settings s = make_settings(run, steps);
    s.val_every = steps / 2;
    s.save_every = steps;
    s.verify_transfers = true;
    s.tell = keep_loss;
    s.context = &overlapped_losses;
    const td_train_result overlapped = train_on(devices[data], devices[model], &s);
    snprintf(run, sizeof run, "serial%zu%zu", data, model);
    s.run_dir = temp_path(run);
    s.is_serial = true;
    s.context = &serial_losses;
    const td_train_result serial = train_on(devices[data], devices[model], &s);
    assert_int_equal(serial_losses.count, steps);
    assert_int_equal(overlapped_losses.count, steps);
    assert_memory_equal(overlapped_losses.values, serial_losses.values, steps * sizeof(double));
    assert_true(compare(overlapped.checkpoint, serial.checkpoint, "") == 0);
    assert_true(overlapped.data_peak_bytes > 0 && overlapped.model_peak_bytes > 0);
    print_message("%s to %s: %d steps overlapped and not, the same bits\n", selectors[data], selectors[model],
                  (int)steps);
}

static void test_overlap_changes_nothing(void **state)
{
    (void)state;
    if (n_devices < 3) { /* those that were named */
        compare_with_serial(0, n_devices - 1, 30);
        return;
    }
    compare_with_serial(0, 0, 30);
    compare_with_serial(0, 1, 30);
    compare_with_serial(2, 0, 30);
    compare_with_serial(0, 2, 4); /* lavapipe is slow with the model */
}

/* Letting the model speak by itself gives a distance, and leaves the training as it would be without. */
static void test_free_running_only_looks(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        bool refers;
    } CASES[] = {{"parallel", true}, {"autoregressive", false}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; ++i) {
        char run[32];
        double distance = NAN;
        snprintf(run, sizeof run, "blind%zu", i);
        td_train_settings s = make_settings(run, 3);
        assert_int_equal(td_model_preset(td_family_find(CASES[i].family), "pico", &s.model), TD_OK);
        set_key(&s, "speaker_encoder", CASES[i].refers ? "true" : "false");
        const td_train_result blind = train(&s);
        snprintf(run, sizeof run, "looking%zu", i);
        s.run_dir = temp_path(run);
        s.val_every = 1;
        s.tell = keep_distance;
        s.context = &distance;
        const td_train_result looking = train(&s);
        assert_true(isfinite(distance) && distance > 0);
        assert_true(compare(blind.checkpoint, looking.checkpoint, "param.") == 0);
    }
}

static void test_accumulation_is_a_larger_batch(void **state)
{
    (void)state;
    make_dataset("even", BATCH, "abcde ", true);
    td_train_settings s = make_settings("large", 3);
    snprintf(set_path, sizeof set_path, "%s", temp_path("even"));
    s.data.dataset.val_fraction = 0;
    set_key(&s, "dropout", "0");
    s.data.n_buckets = 1;
    td_train_result large = train(&s);
    td_train_settings twice = s;
    twice.run_dir = temp_path("twice");
    twice.data.batch_size = BATCH / 2;
    twice.grad_accum = 2;
    td_train_result parts = train(&twice);
    assert_true(fabs(large.loss - parts.loss) < 1e-5 * large.loss);
    assert_true(compare(large.checkpoint, parts.checkpoint, "moment1.") < 1e-3);
    assert_true(compare(large.checkpoint, parts.checkpoint, "param.") < 1e-3);
}

static void test_divergence_keeps_the_last_good_checkpoint(void **state)
{
    (void)state;
    td_train_result result;
    td_train_settings s = make_settings("wild", 3);
    (void)train(&s);
    s = make_settings("wild", 500);
    s.schedule.lr = 1e6;
    s.save_every = 1000;
    s.max_bad_steps = 3;
    assert_int_equal(td_train_run(device, device, &s, &result), TD_ERR_FORMAT);
    const char *message = td_error_last()->message;
    assert_non_null(strstr(message, "diverged: at step"));
    assert_non_null(strstr(message, "checkpoint-3.safetensors"));
    s = make_settings("wild", 5); /* goes on from it */
    assert_int_equal(train(&s).step, 5);
}

static void flip_bit(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -5000, SEEK_END), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -5000, SEEK_END), 0);
    fputc(byte ^ 4, file);
    fclose(file);
}

static void test_damaged_checkpoint_is_named(void **state)
{
    (void)state;
    td_train_result result;
    td_train_settings s = make_settings("run", 6);
    train(&s);
    char last[TD_FILE_PATH_BYTES];
    snprintf(last, sizeof last, "%s/checkpoint-6.safetensors", s.run_dir);
    flip_bit(last);
    s = make_settings("run", 7);
    s.resume = last;
    assert_int_equal(td_train_run(device, device, &s, &result), TD_ERR_INTEGRITY);
    assert_non_null(strstr(td_error_last()->message, "tensor "));
    assert_non_null(strstr(td_error_last()->message, "checkpoint-3.safetensors")); /* is offered */
    s.resume = NULL; /* by itself it takes the one before, and says so */
    assert_int_equal(train(&s).step, 7);
    assert_non_null(strstr(logged, "is damaged"));
    assert_non_null(strstr(logged, "going on from the one before it"));
}

/* Writes the checkpoint again, whole in every way, but with a parameter that is no number. */
static void spoil_number(const char *path)
{
    td_checkpoint *c = open_checkpoint(path);
    const td_safetensors *file = td_checkpoint_file(c);
    td_safetensors_pair pairs[64];
    td_checkpoint_tensor_data *tensors;
    size_t n_pairs = 0, n_tensors = 0;
    float *spoilt = NULL;
    assert_int_equal(TD_NEW_ARRAY(&tensors, td_safetensors_count(file)), TD_OK);
    for (size_t i = 0; i < td_safetensors_metadata_count(file); ++i) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(file, i);
        if (strncmp(pair->key, "train.", 6) == 0) pairs[n_pairs++] = *pair;
    }
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (strcmp(t->name, "header.hash") == 0) continue;
        td_checkpoint_tensor_data *to = &tensors[n_tensors++];
        *to = (td_checkpoint_tensor_data){.prefix = "",
                                          .name = t->name,
                                          .dtype = t->dtype,
                                          .rank = t->rank,
                                          .data = t->data,
                                          .bytes = t->bytes};
        memcpy(to->dims, t->dims, sizeof to->dims);
        if (strcmp(t->name, "param.text.embedding") != 0) continue;
        assert_int_equal(td_alloc_zeroed(1, t->bytes, &spoilt), TD_OK);
        memcpy(spoilt, t->data, t->bytes);
        spoilt[7] = NAN;
        to->data = spoilt;
    }
    assert_non_null(spoilt);
    assert_int_equal(td_checkpoint_write(path, td_checkpoint_get_info(c), pairs, n_pairs, tensors, n_tensors),
                     TD_OK);
    td_checkpoint_close(c);
    free(spoilt);
    free(tensors);
}

static void test_numbers_that_are_none_in_a_checkpoint(void **state)
{
    (void)state;
    static const char WORDS[] = "value 7 of tensor param.text.embedding is not finite";
    td_train_result result;
    td_train_settings s = make_settings("run", 4);
    train(&s);
    char last[TD_FILE_PATH_BYTES];
    snprintf(last, sizeof last, "%s/checkpoint-4.safetensors", s.run_dir);
    spoil_number(last);
    s = make_settings("other", 1);
    s.init_from = last;
    assert_int_equal(td_train_run(device, device, &s, &result), TD_ERR_INTEGRITY);
    assert_non_null(strstr(td_error_last()->message, WORDS));
    s = make_settings("run", 4);
    assert_int_equal(train(&s).step, 4);
    assert_non_null(strstr(logged, WORDS));
    assert_non_null(strstr(logged, "going on from the one before it"));
}

static void test_fine_tuning_keeps_rows(void **state)
{
    (void)state;
    td_train_settings s = make_settings("old", 3);
    const td_train_result old = train(&s);
    make_dataset("more", N_ROWS, "abcdez ", false);
    s = make_settings("new", 1);
    s.data.dataset.language = "de"; /* four letters more */
    snprintf(set_path, sizeof set_path, "%s", temp_path("more"));
    s.init_from = old.checkpoint;
    s.freeze = "text.*";
    logged[0] = '\0';
    const td_train_result new = train(&s);
    assert_non_null(strstr(logged, "tensors come from"));
    assert_non_null(strstr(logged, "0 tensors start from the seed"));
    td_checkpoint *a = open_checkpoint(old.checkpoint), *b = open_checkpoint(new.checkpoint);
    assert_int_equal(td_model_describe(&td_checkpoint_get_info(b)->model).n_symbols,
                     td_model_describe(&td_checkpoint_get_info(a)->model).n_symbols + 4);
    const td_safetensors_tensor *x, *y;
    assert_int_equal(td_checkpoint_tensor(a, "param.", "text.embedding", &x), TD_OK);
    assert_int_equal(td_checkpoint_tensor(b, "param.", "text.embedding", &y), TD_OK);
    assert_memory_equal(x->data, y->data,
                        x->bytes); /* they come last, so the old rows stay where they were */
    assert_string_equal(td_checkpoint_get_info(a)->unseen, "!\"'(),-.:;?fghijklmnopqrstuvwxyz");
    assert_string_equal(td_checkpoint_get_info(b)->unseen,
                        "!\"'(),-.:;?fghijklmnopqrstuvwxy\303\237\303\244\303\266\303\274");
    assert_int_equal(td_checkpoint_tensor(b, "moment1.", "text.embedding", &y),
                     TD_ERR_NOT_FOUND); /* frozen */
    td_checkpoint_close(a);
    td_checkpoint_close(b);
    assert_true(compare(old.checkpoint, new.checkpoint, "param.decoder.out") > 0);
    s = make_settings("old", 4);
    set_key(&s, "text_width", "64");
    td_train_result result;
    assert_int_equal(td_train_run(device, device, &s, &result), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "text_width"));
    s = make_settings("none", 1);
    s.freeze = "nothing.*";
    assert_int_equal(td_train_run(device, device, &s, &result), TD_ERR_CONFIG);
}

static void test_files(void **state)
{
    (void)state;
    td_train_settings s = make_settings("run", 6);
    s.val_every = 2;
    s.sample_every = 6;
    s.patience = 100;
    s.config_text = "[training]\n";
    const td_train_result result = train(&s);
    struct stat info;
    td_checkpoint *c = open_checkpoint(result.checkpoint);
    uint64_t parameters;
    assert_int_equal(td_family_parameters(&td_checkpoint_get_info(c)->model, &parameters), TD_OK);
    assert_int_equal(stat(result.checkpoint, &info), 0);
    assert_true((uint64_t)info.st_size <= 12 * parameters + (1 << 20));
    assert_int_equal(td_checkpoint_write_slim(c, temp_path("slim.safetensors")), TD_OK);
    assert_int_equal(stat(temp_path("slim.safetensors"), &info), 0);
    assert_true((uint64_t)info.st_size <= 4 * parameters + (1 << 18));
    td_checkpoint_close(c);
    assert_true(compare(temp_path("slim.safetensors"), result.checkpoint, "param.") == 0);
    td_train_result refused;
    s.resume = temp_path("slim.safetensors");
    assert_int_equal(td_train_run(device, device, &s, &refused), TD_ERR_FORMAT);
    assert_non_null(strstr(td_error_last()->message, "training.init_from"));
    static const char *const NAMES[] = {"best.safetensors",
                                        "latest",
                                        "config.ini",
                                        "metrics.jsonl",
                                        "samples/step-6-0.wav",
                                        "samples/step-6-0.txt",
                                        "samples/step-6-0-target.wav",
                                        "samples/step-6-0-alignment.png",
                                        "samples/step-6-1-target.png"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i) {
        char path[TD_FILE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/run/%s", temp_dir, NAMES[i]);
        if (!td_file_exists(path)) fail_msg("%s is missing", path);
    }
    assert_true(isfinite(result.best_loss));
    char *said = NULL;
    size_t bytes;
    assert_int_equal(td_file_read(temp_path("run/samples/step-6-0.txt"), 100, &said, &bytes), TD_OK);
    assert_true(bytes > 3 && strspn(said, "abcde ") == bytes); /* a sentence of the dataset */
    free(said);
}

static bool end_after_two(void *context)
{
    return ++*(int *)context > 2;
}

static bool end_at_once(void *context)
{
    (void)context;
    return true;
}

static void test_ends_when_asked(void **state)
{
    (void)state;
    int asked = 0;
    td_train_settings s = make_settings("run", 100);
    s.wants_end = end_after_two;
    s.context = &asked;
    const td_train_result result = train(&s);
    assert_int_equal(result.reason, TD_END_ASKED);
    assert_int_equal(result.step, 2);
    assert_true(td_file_exists(temp_path("run/checkpoint-2.safetensors")));
}

typedef struct ending {
    uint64_t most_asks, n_asks; /* most 0: it is not ended */
    size_t n_validations;
} ending;

static bool end_after_some(void *context)
{
    ending *e = context;
    return e->most_asks > 0 && ++e->n_asks > e->most_asks;
}

static void count_validations(void *context, const td_train_event *event)
{
    ((ending *)context)->n_validations += event->kind == TD_TRAIN_VALIDATION;
}

/* How often a run validates that would be due to only after 100 steps. */
static size_t validate_at_end(td_train_settings s, uint64_t most_asks, td_train_reason reason,
                              td_train_result *result)
{
    ending e = {.most_asks = most_asks};
    s.val_every = s.val_every > 0 ? s.val_every : 100;
    s.tell = count_validations;
    s.wants_end = end_after_some;
    s.context = &e;
    *result = train(&s);
    assert_int_equal(result->reason, reason);
    return e.n_validations;
}

static void test_finding_07_a_run_validates_where_it_ends(void **state)
{
    (void)state;
    td_train_result result;
    const td_train_settings whole = make_settings("whole", 6);
    const td_train_result plain = train(&whole);
    td_train_settings s = make_settings("parts", 6);
    assert_int_equal(validate_at_end(s, 2, TD_END_ASKED, &result), 1);
    assert_int_equal(result.step, 2);
    assert_true(isfinite(result.best_loss));
    assert_true(compare(temp_path("parts/best.safetensors"), result.checkpoint, "") == 0);
    const double first_loss = result.best_loss;
    assert_int_equal(validate_at_end(s, 0, TD_END_DONE, &result), 1); /* step 6 was saved before */
    assert_true(result.best_loss < first_loss);
    assert_true(compare(temp_path("parts/best.safetensors"), result.checkpoint, "") == 0);
    static const char *const KINDS[] = {"param.", "moment1.", "moment2.", "optimizer."};
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; ++i) /* only what it says about itself differs */
        assert_true(compare(plain.checkpoint, result.checkpoint, KINDS[i]) == 0);
    assert_int_equal(validate_at_end(s, 0, TD_END_DONE, &result), 0);     /* nothing is left to do */
    assert_int_equal(validate_at_end(whole, 0, TD_END_DONE, &result), 1); /* its end was never validated */
    s = make_settings("due", 4);
    s.val_every = 2;
    assert_int_equal(validate_at_end(s, 0, TD_END_DONE, &result), 2);
    s = make_settings("timed", 1000000);
    s.val_every = 1000000;
    s.max_minutes = 0.3 / 60;
    assert_int_equal(validate_at_end(s, 0, TD_END_TIME, &result), 1);
    s = make_settings("trial", 2);
    s.is_trial = true;
    assert_int_equal(validate_at_end(s, 0, TD_END_DONE, &result), 0);
    s = make_settings("none", 100);
    s.wants_end = end_at_once;
    s.val_every = 1;
    assert_int_equal(train(&s).step, 0);
    assert_false(td_file_exists(temp_path("none/best.safetensors")));
}

/* ---------------------------------------------------------------- which one is the best */

typedef struct judgement {
    double least; /* distance or loss so far */
    size_t n_validations, n_best;
    bool by_distance;
} judgement;

static void follow_best(void *context, const td_train_event *event)
{
    judgement *j = context;
    if (event->kind != TD_TRAIN_VALIDATION) return;
    const double figure = j->by_distance ? event->distance : event->values[0];
    j->n_validations++;
    j->n_best += event->is_best;
    assert_true(isfinite(figure));
    assert_int_equal(event->is_best, figure < j->least);
    if (figure < j->least) j->least = figure;
}

static void test_the_best_is_nearest_when_left_to_itself(void **state)
{
    (void)state;
    td_train_settings s = make_settings("nearest", 8);
    judgement j = {.least = INFINITY, .by_distance = true};
    s.val_every = 2;
    s.best_by_distance = true;
    s.schedule.lr = 0.02; /* too fast, so that not every validation is the best */
    s.tell = follow_best;
    s.context = &j;
    const td_train_result first = train(&s);
    assert_int_equal(j.n_validations, 4);
    assert_true(j.n_best >= 1);
    assert_true(first.best_loss == j.least);
    s.max_steps = 10; /* it goes on from what it knows */
    const td_train_result second = train(&s);
    assert_true(second.best_loss == j.least);
    j = (judgement){.least = INFINITY};
    s.max_steps = 12;
    s.best_by_distance = false;
    logged[0] = '\0';
    const td_train_result other = train(&s);
    assert_non_null(strstr(logged, "the best one so far is forgotten"));
    assert_true(other.best_loss == j.least);
}

/* Ends on request that validate do not use up the patience. */
static void test_finding_07_ends_leave_the_patience(void **state)
{
    (void)state;
    td_train_result result;
    td_train_settings s = make_settings("run", 3);
    s.schedule.lr = 1e-10; /* nothing gets better */
    s.schedule.min_lr = 1e-11;
    s.val_every = 2;
    s.patience = 1;
    set_key(&s, "dropout", "0");
    assert_int_equal(validate_at_end(s, 0, TD_END_DONE, &result), 2);
    td_checkpoint *c = open_checkpoint(result.checkpoint);
    assert_string_equal(td_checkpoint_text(c, "train.val_step"), "3");
    assert_string_equal(td_checkpoint_text(c, "train.stale"), "0");
    td_checkpoint_close(c);
}

static void test_patience(void **state)
{
    (void)state;
    td_train_settings s = make_settings("run", 100);
    s.schedule.lr = 1e-10; /* nothing gets better */
    s.schedule.min_lr = 1e-11;
    s.val_every = 1;
    s.patience = 2;
    set_key(&s, "dropout", "0");
    const td_train_result result = train(&s);
    assert_int_equal(result.reason, TD_END_PATIENCE);
    assert_true(result.step < 20);
}

static void test_batch_size_that_fits(void **state)
{
    (void)state;
    td_train_settings s = make_settings("run", 1);
    s.auto_batch = true;
    s.model_limit_bytes = 32 << 20;
    logged[0] = '\0';
    train(&s);
    unsigned size = 0;
    const char *at = strstr(logged, "batch size ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "batch size %u", &size), 1);
    assert_in_range(size, 1, N_ROWS);
    s = make_settings("small", 1);
    s.auto_batch = true;
    s.model_limit_bytes = 64 << 10;
    td_train_result result;
    assert_int_not_equal(td_train_run(device, device, &s, &result), TD_OK);
}

static void test_distance_after_alignment(void **state)
{
    (void)state;
    const float a[6] = {0, 0, 1, 1, 2, 4};          /* three frames of two bands */
    const float b[8] = {0, 0, 1, 1, 1, 1, 2, 4};    /* the same, one held for two */
    const float c[6] = {0.5F, 0, 1.5F, 1, 2.5F, 4}; /* each frame 0.25 away on average */
    double distance;
    assert_int_equal(td_mel_distance(a, 3, b, 4, 2, &distance), TD_OK);
    assert_true(distance == 0);
    assert_int_equal(td_mel_distance(a, 3, c, 3, 2, &distance), TD_OK);
    assert_true(fabs(distance - 0.25) < 1e-12);
    assert_int_equal(td_mel_distance(a, 0, c, 3, 2, &distance), TD_OK);
    assert_true(isnan(distance));
}

/* With a data and a model device as arguments: only the overlap, on these. With one: the tests it fits. */
int main(int argc, char **argv)
{
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    setenv("POCL_DEVICES", "pthread pthread", 1); /* two OpenCL devices on any computer */
    if (argc == 3) {
        cmocka_set_test_filter("test_overlap*");
        n_devices = strcmp(argv[1], argv[2]) == 0 ? 1 : 2;
        memcpy(selectors, argv + 1, n_devices * sizeof *selectors);
    }
#define RUN(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RUN(test_going_on_gives_the_same_bits),
        RUN(test_any_number_of_workers),
        RUN(test_overlap_changes_nothing),
        RUN(test_free_running_only_looks),
        RUN(test_accumulation_is_a_larger_batch),
        RUN(test_divergence_keeps_the_last_good_checkpoint),
        RUN(test_damaged_checkpoint_is_named),
        RUN(test_numbers_that_are_none_in_a_checkpoint),
        RUN(test_fine_tuning_keeps_rows),
        RUN(test_files),
        RUN(test_ends_when_asked),
        RUN(test_finding_07_a_run_validates_where_it_ends),
        RUN(test_the_best_is_nearest_when_left_to_itself),
        RUN(test_finding_07_ends_leave_the_patience),
        RUN(test_patience),
        RUN(test_batch_size_that_fits),
        cmocka_unit_test(test_distance_after_alignment),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
