/* An aligner learns the voice, the microphone and the room of the recording that is to be cut. What it hears of a voice that
 * it does not know is poor, but the text is known: a search that pays for silence where somebody speaks, and begins
 * sentences at pauses, still finds most of them. Those that fit best are trained with for some seconds, by the same
 * engine as `tandem train`, and the recordings are heard again. See cut_internal.h.
 *
 *   DIR/cut.own/KEY/   while it works: rows, and the run whose last checkpoint is the aligner
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audio/stream.h"
#include "base/error.h"
#include "base/hash.h"
#include "tools/aligner_lesson.h"
#include "tools/cut_internal.h"

#define MOST_UNHEARD_S 0.8
#define LEAST_S 1.0 /* of a row to learn from */
#define MOST_S 14.0
#define RATE_SHARE 1.5 /* letters a second, to the median or from it: others have words too many or too few */

enum {
    WORST_SHARE = 5, /* one in so many, those that fit worst, is not learnt from */
    ROUNDS = 2,      /* the second learns from what the first made audible */
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

static td_status add_row(const td_cut *cut, const td_cut_row *row, td_lesson *lesson)
{
    const td_cut_recording *r = &cut->recordings[row->recording];
    const uint64_t first = (uint64_t)(row->start_s * r->rate), end = (uint64_t)(row->end_s * r->rate);
    td_audio_stream *stream = NULL;
    float *samples = NULL;
    size_t count;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&samples, (size_t)(end - first) + 1));
    TD_TRY(td_audio_stream_open(r->path, 0, &stream));
    TD_TRY(td_audio_stream_seek(stream, first));
    TD_TRY(td_audio_stream_read(stream, samples, (size_t)(end - first), &count));
    TD_TRY(td_lesson_add(lesson, samples, count, r->rate, row->normal));
fail:
    td_audio_stream_close(stream);
    free(samples);
    return status;
}

/* The rows that fit, at most TD_LESSON_MOST_ROWS and from all parts of the recordings. */
static td_status add_rows(const td_cut *cut, const usual *u, size_t fitting, td_lesson *lesson)
{
    const size_t stride = (fitting + TD_LESSON_MOST_ROWS - 1) / TD_LESSON_MOST_ROWS;
    size_t seen = 0;
    for (size_t i = 0; i < cut->n_rows; i++)
        if (teaches(&cut->rows[i], u) && seen++ % stride == 0) TD_CHECK(add_row(cut, &cut->rows[i], lesson));
    return TD_OK;
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

static td_status tell(void *context, uint64_t step, uint64_t steps)
{
    const td_cut_settings *s = context;
    return s->tell(s->context, TD_CUT_ADAPTING, step, steps);
}

static td_status learn(td_cut *cut, const usual *u, size_t fitting)
{
    char folder[TD_FILE_PATH_BYTES], path[TD_FILE_PATH_BYTES];
    td_cut_settings settings = *cut->settings;
    td_lesson lesson = {.aligner = cut->aligner,
                        .memory = settings.memory,
                        .lang = cut->lang,
                        .folder = folder,
                        .tell = tell,
                        .context = &settings};
    TD_CHECK(name_folder(cut, folder));
    TD_CHECK(td_lesson_begin(&lesson));
    td_status status = add_rows(cut, u, fitting, &lesson);
    if (status == TD_OK) status = td_lesson_learn(&lesson, path);
    td_lesson_free(&lesson);
    TD_CHECK(status);
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
    if (cut->n_rows < TD_LESSON_LEAST_ROWS) goto fail;
    TD_TRY(find_usual(cut, &u));
    for (size_t i = 0; i < cut->n_rows; i++)
        fitting += teaches(&cut->rows[i], &u);
    if (fitting < TD_LESSON_LEAST_ROWS || u.score >= TD_LESSON_WELL_HEARD) goto fail;
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

td_status td_cut_remove_work(const td_cut *cut)
{
    static const char *const FILES[] = {"cut.heard", "cut.heard.own"};
    char path[TD_FILE_PATH_BYTES];
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        TD_CHECK(td_cut_path(cut->settings->output, FILES[i], path));
        TD_REFUSE_IF(unlink(path) != 0 && errno != ENOENT, TD_ERR_IO, "%s: cannot be removed", path);
    }
    TD_CHECK(td_cut_path(cut->settings->output, "cut.own", path));
    return td_lesson_remove(path);
}
