/* See row_hear.h. What is heard of a row is judged at once and forgotten, so that memory does not grow with the dataset;
 * texts of others are letters that were read before. */
#include "tools/row_hear.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "align/align.h"
#include "audio/decode.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/aligner_lesson.h"

enum {
    OTHERS = 200,      /* texts that each sound is compared with, evenly spread over the rows */
    BY_CHANCE = 20,    /* one in so many may fit better by chance: words are few, or nearly the same */
    TRIED = 400,       /* rows that are heard before it learns, evenly spread */
    LEAST_TO_JUDGE = 8 /* fewer other texts say nothing */
};

static const double USABLE =
    0.1; /* where one row in five has more better texts, the aligner knows nothing of it */

/* How a row fits: how many other texts fit better, and its score. */
typedef struct fit {
    double better, score;
} fit;

typedef struct judging {
    const td_hearing *h;
    td_aligner *aligner;
    td_letters others; /* of OTHERS texts, one behind the other */
    size_t firsts[OTHERS + 1], row_of[OTHERS], n_others;
} judging;

static const char *text_of(const td_hearing *h, size_t i)
{
    return td_dataset_text(h->dataset, h->rows[i].row);
}

/* ---------------------------------------------------------------- one row */

static td_status read_others(judging *j)
{
    const size_t n = j->h->n_rows;
    td_letters_free(&j->others);
    j->n_others = n < OTHERS ? n : OTHERS;
    for (size_t k = 0; k < j->n_others; k++) {
        const size_t i = j->row_of[k] = k * n / j->n_others;
        const char *text = text_of(j->h, i);
        TD_CHECK(td_aligner_read(j->aligner, j->h->rows[i].told, text, strlen(text), &j->others));
        j->firsts[k + 1] = j->others.count;
    }
    return TD_OK;
}

/* *audio is empty where nothing can be decoded, of which the dataset's opening has told. */
static td_status decode(const judging *j, size_t i, td_audio *audio)
{
    char path[TD_FILE_PATH_BYTES];
    *audio = (td_audio){0};
    TD_CHECK(td_dataset_clip_path(j->h->dataset, j->h->rows[i].row, path));
    const td_decode_options options = {.rate = td_aligner_rate(j->aligner)};
    const td_status status = td_audio_decode(path, &options, audio);
    if (status == TD_OK || status == TD_ERR_HOST_MEMORY) return status;
    *audio = (td_audio){0};
    return TD_OK;
}

static td_status compare(const judging *j, size_t i, const td_heard *heard, double own, fit *out)
{
    const size_t classes = td_aligner_classes(j->aligner);
    size_t n_better = 0, n_others = 0;
    for (size_t k = 0; k < j->n_others; k++) {
        double total;
        if (strcmp(text_of(j->h, j->row_of[k]), text_of(j->h, i)) == 0) continue;
        TD_CHECK(td_align_total(heard->values, heard->steps, classes, j->others.classes + j->firsts[k],
                                j->firsts[k + 1] - j->firsts[k], &total));
        n_better += total > own;
        n_others++;
    }
    if (n_better <= n_others / BY_CHANCE) n_better = 0;
    if (n_others >= LEAST_TO_JUDGE) out->better = (double)n_better / (double)n_others;
    return TD_OK;
}

static td_status judge_row(const judging *j, size_t i, fit *out)
{
    const char *text = text_of(j->h, i);
    const size_t classes = td_aligner_classes(j->aligner);
    td_letters letters = {0};
    td_heard heard = {0};
    td_timing timing = {0};
    td_audio audio;
    double own;
    td_status status = TD_OK;
    *out = (fit){NAN, NAN};
    TD_CHECK(decode(j, i, &audio));
    if (audio.count == 0) return TD_OK;
    TD_TRY(td_aligner_read(j->aligner, j->h->rows[i].told, text, strlen(text), &letters));
    if (letters.count == 0) goto fail;
    TD_TRY(td_aligner_listen(j->aligner, audio.samples, audio.count, &heard));
    TD_TRY(td_align_letters(heard.values, heard.steps, classes, letters.classes, letters.count, &timing));
    TD_TRY(td_align_total(heard.values, heard.steps, classes, letters.classes, letters.count, &own));
    out->score = timing.score;
    TD_TRY(compare(j, i, &heard, own, out));
fail:
    td_timing_free(&timing);
    td_letters_free(&letters);
    free(heard.values);
    td_audio_free(&audio);
    return status;
}

/* `count` of the rows, evenly spread: fits[k] is of row k * n_rows / count. */
static td_status judge_rows(const judging *j, const char *stage, size_t count, fit *fits)
{
    for (size_t k = 0; k < count; k++) {
        TD_CHECK(judge_row(j, k * j->h->n_rows / count, &fits[k]));
        if (j->h->report) j->h->report(j->h->report_context, stage, k + 1, count);
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- learning */

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the values that are numbers, the one at a share of them; NAN: there is none. */
static td_status find_quantile(const fit *fits, size_t count, bool is_score, double share, double *out)
{
    double *values;
    size_t n = 0;
    TD_CHECK(TD_NEW_ARRAY(&values, count + 1));
    for (size_t i = 0; i < count; i++) {
        const double value = is_score ? fits[i].score : fits[i].better;
        if (!isnan(value)) values[n++] = value;
    }
    qsort(values, n, sizeof *values, compare_values);
    *out = n ? values[(size_t)(share * (double)(n - 1))] : (double)NAN;
    free(values);
    return TD_OK;
}

static td_status tell_lesson(void *context, uint64_t step, uint64_t steps)
{
    const td_hearing *h = context;
    if (h->report) h->report(h->report_context, "learning the voices", step, steps);
    return TD_OK;
}

static td_status add_rows(const judging *j, const fit *fits, size_t count, td_lesson *lesson)
{
    for (size_t k = 0; k < count; k++) {
        const size_t i = k * j->h->n_rows / count;
        td_audio audio;
        if (!(fits[k].better == 0)) continue;
        TD_CHECK(decode(j, i, &audio));
        const td_status status =
            td_lesson_add(lesson, audio.samples, audio.count, audio.rate, text_of(j->h, i));
        td_audio_free(&audio);
        TD_CHECK(status);
    }
    return TD_OK;
}

static td_status make_folder(char path[TD_FILE_PATH_BYTES])
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(path, TD_FILE_PATH_BYTES, "%s/tandem-doctor-XXXXXX", parent && *parent ? parent : "/tmp");
    TD_REFUSE_IF(!mkdtemp(path), TD_ERR_IO,
                 "%s: no folder could be made there; set TMPDIR to one that can be written", path);
    return TD_OK;
}

static td_status learn(judging *j, const fit *fits, size_t count)
{
    char folder[TD_FILE_PATH_BYTES], path[TD_FILE_PATH_BYTES];
    td_hearing hearing = *j->h;
    TD_CHECK(make_folder(folder));
    td_lesson lesson = {.aligner = j->aligner,
                        .memory = hearing.memory,
                        .lang = hearing.rows[0].told,
                        .folder = folder,
                        .tell = tell_lesson,
                        .context = &hearing};
    td_status status = TD_OK;
    TD_TRY(td_lesson_begin(&lesson));
    TD_TRY(add_rows(j, fits, count, &lesson));
    TD_TRY(td_lesson_learn(&lesson, path));
    td_aligner_close(j->aligner);
    j->aligner = NULL;
    TD_TRY(td_aligner_open(hearing.memory, path, &j->aligner));
fail:
    td_lesson_free(&lesson);
    if (td_lesson_remove(folder) != TD_OK) td_log_warn("%s could not be removed", folder);
    return status;
}

/* Hears some of the rows, and learns the voices if it does not know them and can. */
static td_status adapt(judging *j, td_hearing_result *out)
{
    const size_t count = j->h->n_rows < TRIED ? j->h->n_rows : TRIED;
    fit *fits = NULL;
    double score;
    size_t fitting = 0;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&fits, count + 1));
    TD_TRY(judge_rows(j, "hearing", count, fits));
    TD_TRY(find_quantile(fits, count, true, 0.5, &score));
    for (size_t k = 0; k < count; k++)
        fitting += fits[k].better == 0;
    if (score < TD_LESSON_WELL_HEARD && fitting >= TD_LESSON_LEAST_ROWS) {
        TD_TRY(learn(j, fits, count));
        TD_TRY(read_others(j));
        out->is_adapted = true;
    }
fail:
    free(fits);
    return status;
}

/* ---------------------------------------------------------------- all of it */

td_status td_hearing_run(const td_hearing *hearing, double *better, td_hearing_result *out)
{
    judging j = {.h = hearing};
    fit *fits = NULL;
    double worst;
    td_status status = TD_OK;
    *out = (td_hearing_result){0};
    TD_TRY(TD_NEW_ARRAY(&fits, hearing->n_rows + 1));
    TD_TRY(td_aligner_open(hearing->memory, hearing->aligner, &j.aligner));
    TD_TRY(read_others(&j));
    TD_TRY(adapt(&j, out));
    TD_TRY(judge_rows(&j, "comparing texts", hearing->n_rows, fits));
    TD_TRY(find_quantile(fits, hearing->n_rows, false, 0.8, &worst));
    out->is_usable = worst <= USABLE;
    for (size_t i = 0; i < hearing->n_rows; i++) {
        better[i] = fits[i].better;
        out->n_judged += isnan(better[i]) ? 0 : 1;
    }
fail:
    td_letters_free(&j.others);
    td_aligner_close(j.aligner);
    free(fits);
    return status;
}
