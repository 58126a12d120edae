/* See aligner_lesson.h: the rows as a dataset in the folder, and the training on them. */
#include "tools/aligner_lesson.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>

#include "audio/encode.h"
#include "base/error.h"
#include "base/file.h"
#include "families/checkpoint.h"
#include "tandem/train.h"

enum { STEPS = 300 };

/* ---------------------------------------------------------------- rows */

static td_status join_path(const char *folder, const char *name, char out[TD_FILE_PATH_BYTES])
{
    const int length = snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", folder, name);
    TD_REFUSE_IF(length < 0 || length >= TD_FILE_PATH_BYTES, TD_ERR_CONFIG, "the path '%s' is too long",
                 folder);
    return TD_OK;
}

td_status td_lesson_begin(const td_lesson *lesson)
{
    char path[TD_FILE_PATH_BYTES];
    TD_CHECK(join_path(lesson->folder, "wavs", path));
    return td_file_make_dirs(path);
}

td_status td_lesson_add(td_lesson *lesson, const float *samples, size_t count, uint32_t rate_hz,
                        const char *text)
{
    char path[TD_FILE_PATH_BYTES], name[32];
    (void)snprintf(name, sizeof name, "wavs/%05zu.wav", lesson->n_rows);
    TD_CHECK(join_path(lesson->folder, name, path));
    TD_CHECK(td_audio_encode(path, samples, count, rate_hz));
    (void)snprintf(name, sizeof name, "%05zu|", lesson->n_rows);
    const char *const parts[] = {name, text, "|", text, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        TD_CHECK(td_buffer_append(&lesson->table, parts[i], strlen(parts[i])));
    lesson->n_rows++;
    return TD_OK;
}

void td_lesson_free(td_lesson *lesson)
{
    td_buffer_free(&lesson->table);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about;
    (void)kind;
    (void)at;
    return remove(path);
}

td_status td_lesson_remove(const char *folder)
{
    TD_REFUSE_IF(td_file_exists(folder) && nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0, TD_ERR_IO,
                 "%s: cannot be removed", folder);
    return TD_OK;
}

/* ---------------------------------------------------------------- training */

typedef struct teacher {
    const td_lesson *lesson;
    td_training *training;
    td_status told; /* what the caller's `tell` said */
} teacher;

static void tell(void *context, const td_training_event *event)
{
    teacher *t = context;
    const td_lesson *l = t->lesson;
    if (event->kind != TD_TRAINING_STEP || t->told != TD_OK) return;
    t->told = l->tell(l->context, event->step, STEPS);
    if (t->told != TD_OK) td_training_stop(t->training);
}

/* The aligner's own shape; what is set from the data stays to be set. */
static td_status set_model(td_training *training, const td_checkpoint_info *info)
{
    const td_family *family = info->model.family;
    TD_CHECK(td_training_set(training, "model.family", family->name));
    for (size_t i = 0; i < family->n_keys; i++) {
        const td_model_key *key = &family->keys[i];
        char name[64], value[TD_MODEL_VALUE_BYTES];
        if (strcmp(key->section, "model") != 0 || strncmp(key->name, "n_", 2) == 0) continue;
        (void)snprintf(name, sizeof name, "model.%s", key->name);
        td_model_config_get(&info->model, i, value);
        TD_CHECK(td_training_set(training, name, value));
    }
    return TD_OK;
}

static td_status set_keys(td_training *training, const td_lesson *l, const char *run)
{
    const td_checkpoint_info *info = td_aligner_info(l->aligner);
    const char *device = td_device_get_info(td_memory_device(l->memory))->selector;
    char steps[16];
    (void)snprintf(steps, sizeof steps, "%d", STEPS);
    const char *const KEYS[][2] = {
        {"devices.model", device},
        {"devices.data", device},
        {"devices.allow_same_device", "true"},
        {"data.train_data", l->folder},
        {"data.phonemes", info->token_kind == TD_TOKENS_PHONEMES ? "true" : "false"},
        {"data.language", td_lang_code(l->lang)},
        {"data.val_fraction", "0.03"},
        {"data.max_text_length", "400"},
        {"data.max_mel_frames", "1400"},
        {"training.checkpoint_dir", run},
        {"training.init_from", td_aligner_path(l->aligner)},
        {"training.max_steps", steps},
        {"training.batch_size", "8"},
        {"training.lr", "0.001"},
        {"training.warmup_steps", "20"},
        {"training.scheduler", "cosine"},
        {"training.min_lr_share", "0.02"},
        {"training.weight_decay", "0.01"},
        {"training.val_every", "100000"},
        {"training.sample_every", "100000"},
        {"training.save_every", "100000"},
        {"training.keep_checkpoints", "1"},
    };
    TD_CHECK(set_model(training, info));
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        TD_CHECK(td_training_set(training, KEYS[i][0], KEYS[i][1]));
    return TD_OK;
}

td_status td_lesson_learn(const td_lesson *lesson, char out[TD_FILE_PATH_BYTES])
{
    teacher t = {.lesson = lesson};
    td_training_result result = {.size = sizeof result};
    char path[TD_FILE_PATH_BYTES];
    td_status status = TD_OK;
    TD_TRY(join_path(lesson->folder, "metadata.csv", path));
    TD_TRY(td_file_write_atomic(path, lesson->table.data, lesson->table.size));
    TD_TRY(join_path(lesson->folder, "run", path));
    TD_TRY(td_training_create(NULL, &t.training));
    status = set_keys(t.training, lesson, path);
    if (status == TD_OK) status = td_training_run(t.training, tell, &t);
    if (status == TD_OK) status = td_training_get_result(t.training, &result);
    TD_FAIL_IF(status != TD_OK, status, "the aligner cannot learn the voice: %s",
               td_training_error(t.training)->message);
    TD_TRY(t.told);
    (void)snprintf(out, TD_FILE_PATH_BYTES, "%s", result.checkpoint);
fail:
    td_training_free(t.training);
    return status;
}
