/* An aligner learns the voice, the microphone and the room of the recording that is to be cut. What it hears of a voice that
 * it does not know is poor, but the text is known: a search that pays for silence where somebody speaks, and begins
 * sentences at pauses, still finds most of them. Those that fit best are trained with for some seconds, by the same
 * engine as `tandem train`, and the recordings are heard again. See cut_internal.h.
 *
 *   DIR/cut.own/KEY/   while it works: rows, and the run whose last checkpoint is the aligner
 */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audio/encode.h"
#include "audio/stream.h"
#include "base/error.h"
#include "base/hash.h"
#include "families/checkpoint.h"
#include "tandem/train.h"
#include "tools/cut_internal.h"

#define WELL_HEARD -0.1 /* the median score of an aligner that knows the voice */
#define MOST_UNHEARD_S 0.8
#define LEAST_S 1.0 /* of a row to learn from */
#define MOST_S 14.0
#define RATE_SHARE 1.5 /* letters a second, to the median or from it: others have words too many or too few */

enum {
    LEAST_ROWS = 24, /* fewer teach nothing */
    MOST_ROWS = 400, /* more take longer, and teach little more */
    WORST_SHARE = 5, /* one in so many, those that fit worst, is not learnt from */
    ROUNDS = 2,      /* the second learns from what the first made audible */
    STEPS = 300,     /* of each */
    KEY_BYTES = 33
};

/* ---------------------------------------------------------------- rows to learn from */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct usual {
    double rate, score, least_score;
} usual;

static td_status find_usual(const td_cut *cut, usual *out)
{
    const size_t n = cut->n_rows;
    double *values;
    TD_CHECK(TD_NEW_ARRAY(&values, n));
    for (size_t i = 0; i < n; i++)
        values[i] = cut->rows[i].letters_per_s;
    qsort(values, n, sizeof *values, compare);
    out->rate = values[n / 2];
    for (size_t i = 0; i < n; i++)
        values[i] = cut->rows[i].score;
    qsort(values, n, sizeof *values, compare);
    out->score = values[n / 2];
    out->least_score = values[n / WORST_SHARE];
    free(values);
    return TD_OK;
}

static bool teaches(const td_cut_row *row, const usual *u)
{
    const double seconds = row->end_s - row->start_s, rate = row->letters_per_s / u->rate;
    return seconds >= LEAST_S && seconds <= MOST_S && rate < RATE_SHARE && rate * RATE_SHARE > 1 &&
           row->score >= u->least_score && row->unheard_s <= MOST_UNHEARD_S;
}

static td_status write_row(const td_cut *cut, const td_cut_row *row, const char *folder, size_t number,
                           td_buffer *table)
{
    const td_cut_recording *r = &cut->recordings[row->recording];
    const uint64_t first = (uint64_t)(row->start_s * r->rate), end = (uint64_t)(row->end_s * r->rate);
    char path[TD_FILE_PATH_BYTES], name[32];
    td_audio_stream *stream = NULL;
    float *samples = NULL;
    size_t count;
    td_status status = TD_OK;
    (void)snprintf(name, sizeof name, "wavs/%05zu.wav", number);
    TD_TRY(td_cut_path(folder, name, path));
    TD_TRY(TD_NEW_ARRAY(&samples, (size_t)(end - first) + 1));
    TD_TRY(td_audio_stream_open(r->path, 0, &stream));
    TD_TRY(td_audio_stream_seek(stream, first));
    TD_TRY(td_audio_stream_read(stream, samples, (size_t)(end - first), &count));
    TD_TRY(td_audio_encode(path, samples, count, r->rate));
    (void)snprintf(name, sizeof name, "%05zu|", number);
    const char *const parts[] = {name, row->text, "|", row->normal, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        TD_TRY(td_buffer_append(table, parts[i], strlen(parts[i])));
fail:
    td_audio_stream_close(stream);
    free(samples);
    return status;
}

/* The rows that fit, at most MOST_ROWS and from all parts of the recordings, as a dataset. */
static td_status write_rows(const td_cut *cut, const usual *u, size_t fitting, const char *folder)
{
    const size_t stride = (fitting + MOST_ROWS - 1) / MOST_ROWS;
    char path[TD_FILE_PATH_BYTES];
    td_buffer table = {0};
    size_t seen = 0;
    td_status status = TD_OK;
    TD_TRY(td_cut_path(folder, "wavs", path));
    TD_TRY(td_file_make_dirs(path));
    for (size_t i = 0; i < cut->n_rows; i++)
        if (teaches(&cut->rows[i], u) && seen++ % stride == 0)
            TD_TRY(write_row(cut, &cut->rows[i], folder, i, &table));
    TD_TRY(td_cut_path(folder, "metadata.csv", path));
    TD_TRY(td_file_write_atomic(path, table.data, table.size));
fail:
    td_buffer_free(&table);
    return status;
}

/* ---------------------------------------------------------------- training */

typedef struct teacher {
    const td_cut *cut;
    td_training *training;
    td_status told; /* what the caller's `tell` said */
} teacher;

static void tell(void *context, const td_training_event *event)
{
    teacher *t = context;
    const td_cut_settings *s = t->cut->settings;
    if (event->kind != TD_TRAINING_STEP || t->told != TD_OK) return;
    t->told = s->tell(s->context, TD_CUT_ADAPTING, event->step, STEPS);
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

static td_status set_keys(td_training *training, const td_cut *cut, const char *folder, const char *run)
{
    const td_checkpoint_info *info = td_aligner_info(cut->aligner);
    const char *device = td_device_get_info(td_memory_device(cut->settings->memory))->selector;
    char steps[16];
    (void)snprintf(steps, sizeof steps, "%d", STEPS);
    const char *const KEYS[][2] = {
        {"devices.model", device},
        {"devices.data", device},
        {"devices.allow_same_device", "true"},
        {"data.train_data", folder},
        {"data.phonemes", info->token_kind == TD_TOKENS_PHONEMES ? "true" : "false"},
        {"data.language", td_lang_code(cut->lang)},
        {"data.val_fraction", "0.03"},
        {"data.max_text_length", "400"},
        {"data.max_mel_frames", "1400"},
        {"training.checkpoint_dir", run},
        {"training.init_from", td_aligner_path(cut->aligner)},
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

/* Trains, and tells the path of the last checkpoint. */
static td_status train(const td_cut *cut, const char *folder, char out[TD_FILE_PATH_BYTES])
{
    teacher t = {.cut = cut};
    td_training_result result = {.size = sizeof result};
    char run[TD_FILE_PATH_BYTES];
    td_status status = TD_OK;
    TD_TRY(td_cut_path(folder, "run", run));
    TD_TRY(td_training_create(NULL, &t.training));
    status = set_keys(t.training, cut, folder, run);
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

/* ---------------------------------------------------------------- all of it */

/* A folder for this aligner, this text and these recordings. */
static td_status name_folder(const td_cut *cut, char out[TD_FILE_PATH_BYTES])
{
    char name[16 + KEY_BYTES];
    td_hasher key;
    td_hasher_init(&key);
    td_hasher_string(&key, td_aligner_path(cut->aligner));
    for (size_t i = 0; i < cut->settings->n_recordings; i++) {
        td_hasher_string(&key, cut->recordings[i].path);
        td_hasher_bytes(&key, &cut->recordings[i].frames, sizeof cut->recordings[i].frames);
    }
    for (size_t i = 0; i < cut->n_sentences; i++)
        td_hasher_string(&key, cut->sentences[i].text);
    const td_digest digest = td_hasher_digest(&key);
    (void)snprintf(name, sizeof name, "cut.own/%016llx%016llx", (unsigned long long)digest.high,
                   (unsigned long long)digest.low);
    return td_cut_path(cut->settings->output, name, out);
}

static td_status learn(td_cut *cut, const usual *u, size_t fitting)
{
    char folder[TD_FILE_PATH_BYTES], path[TD_FILE_PATH_BYTES];
    TD_CHECK(name_folder(cut, folder));
    TD_CHECK(write_rows(cut, u, fitting, folder));
    TD_CHECK(train(cut, folder, path));
    td_aligner_close(cut->aligner);
    cut->aligner = NULL;
    TD_CHECK(td_aligner_open(cut->settings->memory, path, &cut->aligner));
    TD_CHECK(td_cut_read_letters(cut));
    return td_cut_listen_again(cut);
}

/* Once; *is_done: there is nothing to learn, or too little to learn it from. */
static td_status adapt_once(td_cut *cut, bool *is_done)
{
    td_found *found = NULL;
    usual u;
    size_t n_found = 0, fitting = 0;
    td_status status = TD_OK;
    *is_done = true;
    TD_TRY(td_cut_search(cut, &TD_PATH_LOOSE, &found, &n_found));
    TD_TRY(td_cut_make_rows(cut, found, n_found));
    if (cut->n_rows < LEAST_ROWS) goto fail;
    TD_TRY(find_usual(cut, &u));
    for (size_t i = 0; i < cut->n_rows; i++)
        fitting += teaches(&cut->rows[i], &u);
    if (fitting < LEAST_ROWS || u.score >= WELL_HEARD) goto fail;
    TD_TRY(learn(cut, &u, fitting));
    cut->result->is_adapted = true;
    *is_done = false;
fail:
    td_cut_clear_rows(cut);
    free(found);
    return status;
}

td_status td_cut_adapt(td_cut *cut)
{
    bool is_done = false;
    for (int i = 0; i < ROUNDS && !is_done; i++)
        TD_CHECK(adapt_once(cut, &is_done));
    return TD_OK;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about;
    (void)kind;
    (void)at;
    return remove(path);
}

td_status td_cut_remove_work(const td_cut *cut)
{
    static const char *const FILES[] = {"cut.heard", "cut.heard.own"};
    char path[TD_FILE_PATH_BYTES];
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        TD_CHECK(td_cut_path(cut->settings->output, FILES[i], path));
        TD_REFUSE_IF(unlink(path) != 0 && errno != ENOENT, TD_ERR_IO, "%s: cannot be removed", path);
    }
    TD_CHECK(td_cut_path(cut->settings->output, "cut.own", path));
    TD_REFUSE_IF(td_file_exists(path) && nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0, TD_ERR_IO,
                 "%s: cannot be removed", path);
    return TD_OK;
}
