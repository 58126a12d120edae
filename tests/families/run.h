/* Whole runs of the tests' own families: a few tones, the smallest settings, and checkpoints side by side. */
#ifndef TD_TESTS_FAMILIES_RUN_H
#define TD_TESTS_FAMILIES_RUN_H

#include "data/fixture.h"

#include <math.h>

#include "base/file.h"
#include "families/checkpoint.h"
#include "support/rig.h"
#include "train/train.h"

enum { RUN_ROWS = 10 };

static rig run_rig;
static char run_set[512];

static inline int run_open(void **state)
{
    (void)state;
    return rig_open(&run_rig, RIG_CL_CPU, 0) ? 0 : -1;
}

static inline int run_close(void **state)
{
    (void)state;
    rig_close(&run_rig);
    return 0;
}

/* A dataset in the temporary folder. */
static inline void run_make_set(const char *name)
{
    char text[512] = "", path[64];
    make_folder(name);
    snprintf(path, sizeof path, "%s/wavs", name);
    make_folder(path);
    for (int i = 0; i < RUN_ROWS; ++i) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%c%d|say %c\n", *name, i, "abcd"[i % 4]);
        snprintf(path, sizeof path, "%s/wavs/%c%d.wav", name, *name, i);
        write_wav(temp_path(path), 22050, 1, 6000 + 500 * i);
    }
    snprintf(path, sizeof path, "%s/metadata.csv", name);
    write_text(temp_path(path), text);
}

static inline int run_set_up(void **state)
{
    if (temp_dir_make(state) != 0) return -1;
    run_make_set("set");
    snprintf(run_set, sizeof run_set, "%s", temp_path("set"));
    return 0;
}

static inline td_train_settings run_settings(const char *family, const char *run, uint64_t steps)
{
    td_train_settings s = {
        .data = {.dataset = {.dir = run_set, .language = "en", .val_fraction = 0.2, .seed = 3},
                 .workers = 2,
                 .batch_size = 2,
                 .max_mel_frames = 128,
                 .max_text_length = 32,
                 .n_buckets = 2,
                 .mel_cache = TD_MEL_CACHE_NONE},
        .schedule = {.kind = TD_SCHEDULE_CONSTANT, .lr = 5e-3},
        .optimizer = {.beta1 = 0.9F, .beta2 = 0.98F, .eps = 1e-9F, .decay = 0.01F, .max_norm = 1},
        .max_steps = steps,
        .save_every = 3,
        .log_every = 1,
        .seed = 5,
        .keep = 5};
    assert_non_null(td_family_find(family));
    check(td_model_preset(td_family_find(family), "pico", &s.model));
    s.run_dir = temp_path(run);
    return s;
}

/* The smallest vocoder that is one, on short crops. */
static inline td_train_settings run_small_vocoder(const char *run, uint64_t steps)
{
    static const char *const VALUES[][2] = {{"width", "16"}, {"inside", "24"},     {"blocks", "1"},
                                            {"kernel", "3"}, {"pitch_width", "8"}, {"pitch_layers", "1"},
                                            {"crop", "12"}};
    td_train_settings s = run_settings("vocoder", run, steps);
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++)
        check(td_model_config_put(&s.model, VALUES[i][0], VALUES[i][1]));
    return s;
}

static inline td_train_result run_train(const td_train_settings *settings)
{
    td_train_result result;
    check(td_train_run(run_rig.device, run_rig.device, settings, &result));
    return result;
}

/* Byte for byte. */
static inline bool run_is_same(const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    size_t n_x = 0, n_y = 0;
    check(td_file_read(a, 1 << 26, &x, &n_x));
    check(td_file_read(b, 1 << 26, &y, &n_y));
    const bool same = n_x == n_y && memcmp(x, y, n_x) == 0;
    free(x);
    free(y);
    return same;
}

/* How many tensors whose names begin with the prefix are other ones in the second file. */
static inline size_t run_count_changed(const char *a_path, const char *b_path, const char *prefix)
{
    td_checkpoint *a, *b;
    size_t n = 0, changed = 0;
    check(td_checkpoint_open(a_path, &a));
    check(td_checkpoint_open(b_path, &b));
    for (size_t i = 0; i < td_safetensors_count(td_checkpoint_file(a)); ++i) {
        const td_safetensors_tensor *x = td_safetensors_at(td_checkpoint_file(a), i);
        const td_safetensors_tensor *y = td_safetensors_find(td_checkpoint_file(b), x->name);
        if (strncmp(x->name, prefix, strlen(prefix)) != 0) continue;
        ++n;
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        changed += memcmp(x->data, y->data, x->bytes) != 0;
    }
    assert_true(n > 0);
    td_checkpoint_close(a);
    td_checkpoint_close(b);
    return changed;
}

/* The text of a file of the temporary folder, as far as there is room. */
static inline void run_read(const char *name, char *out, size_t capacity)
{
    char *text = NULL;
    size_t bytes = 0;
    check(td_file_read(temp_path(name), 1 << 20, &text, &bytes));
    snprintf(out, capacity, "%.*s", (int)bytes, text);
    free(text);
}

/* Losses that a run told, by step; and of its last validation. */
typedef struct run_losses {
    double values[64], validation;
    size_t count;
} run_losses;

static inline void run_keep_loss(void *context, const td_train_event *event)
{
    run_losses *kept = context;
    if (event->kind == TD_TRAIN_STEP && kept->count < 64) kept->values[kept->count++] = event->values[0];
    if (event->kind == TD_TRAIN_VALIDATION) kept->validation = event->values[0];
}

#endif
