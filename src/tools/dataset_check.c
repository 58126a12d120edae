/* Measuring and judging the rows of a dataset. See dataset_check.h. */
#include "tools/dataset_check.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "base/error.h"
#include "base/log.h"
#include "text/language.h"
#include "tools/row_fit.h"
#include "tools/row_hear.h"

enum {
    MAX_RATE_HZ = 48000,
    BOOK_ROWS = 300,         /* that the clusters of sounds are made of, evenly spread */
    BOOK_EACH = 5,           /* of their frames one in so many */
    MIN_LANGUAGE_BYTES = 25, /* shorter texts may look like any language */
};

typedef struct measuring {
    td_dataset_check *check;
    const td_dataset_settings *settings;
    td_detector *detector; /* NULL: languages cannot be told */
    td_fit_book book;
    td_fit_row *fits;         /* [n_rows] */
    td_sound_frames *samples; /* [BOOK_ROWS] */
    size_t n_samples;
    pthread_mutex_t lock;
    size_t n_done; /* guarded by it */
} measuring;

/* ---------------------------------------------------------------- rows */

/* The rows that can be used, with their texts from the table, which has them in the same order. */
static td_status list_rows(td_dataset_check *c)
{
    const td_dataset *d = c->dataset;
    size_t t = 0;
    TD_CHECK(TD_NEW_ARRAY(&c->rows, d->view.n_rows + 1));
    for (size_t i = 0; i < d->view.n_rows; ++i) {
        const td_block_row *row = &d->view.rows[i];
        if (row->clip.state != TD_CLIP_GOOD) continue;
        while (t < c->table->n_rows && c->table->rows[t].line < row->line)
            ++t;
        const bool is_there = t < c->table->n_rows && c->table->rows[t].line == row->line;
        c->rows[c->n_rows++] = (td_checked_row){.row = (uint32_t)i,
                                                .text = is_there ? c->table->rows[t].text : "",
                                                .characters = row->n_characters,
                                                .better = NAN,
                                                .told = (td_lang)row->lang,
                                                .found = (td_lang)row->lang,
                                                .same_sound = UINT32_MAX,
                                                .same_text = UINT32_MAX};
    }
    return TD_OK;
}

/* The table once more: the dataset keeps what is spoken, not what is written. */
static td_status read_table(const td_dataset_settings *settings, td_dataset_check *c)
{
    td_status status = TD_OK;
    td_source source = {0};
    char *text = NULL;
    size_t bytes;
    td_metadata_settings form = settings->table;
    const td_source_request request = {.path = settings->dir,
                                       .table = settings->metadata,
                                       .layout = settings->layout,
                                       .validates = settings->validates};
    TD_TRY(td_source_find(&request, &source));
    TD_TRY(td_source_read(&source, &form, &text, &bytes));
    TD_TRY(td_metadata_parse(text, bytes, source.path, &form, &c->table));
fail:
    td_source_free(&source);
    return status;
}

/* ---------------------------------------------------------------- sounds */

/* A recording that cannot be decoded now leaves *sound as it is; opening the dataset has told of it, unless it has just
 * changed. */
static td_status hear(const measuring *m, size_t at, td_checked_row *row, td_sound_frames *frames)
{
    char path[TD_FILE_PATH_BYTES];
    td_audio audio;
    const td_dataset *d = m->check->dataset;
    const uint32_t rate_hz = d->view.rows[m->check->rows[at].row].clip.rate_hz;
    *frames = (td_sound_frames){0};
    TD_CHECK(td_dataset_clip_path(d, m->check->rows[at].row, path));
    const td_decode_options options = {.rate = rate_hz > MAX_RATE_HZ ? MAX_RATE_HZ : rate_hz};
    const td_status decoded = td_audio_decode(path, &options, &audio);
    if (decoded == TD_ERR_HOST_MEMORY) return decoded;
    if (decoded != TD_OK) return TD_OK;
    const td_status status = td_row_sound_look(audio.samples, audio.count, audio.rate, &row->sound, frames);
    const td_audio_report *report = &audio.report;
    row->is_heard = status == TD_OK;
    row->clipped_share =
        (double)report->clipped_samples / ((double)report->source_frames * (double)report->channels);
    td_audio_free(&audio);
    return status;
}

/* A pool's task. */
static td_status hear_sample(void *context, size_t i)
{
    measuring *m = context;
    td_checked_row ignored = {0};
    return hear(m, i * m->check->n_rows / m->n_samples, &ignored, &m->samples[i]);
}

/* The clusters of sounds, of a share of the rows. */
static td_status make_book(measuring *m, td_pool *pool)
{
    td_status status = TD_OK;
    float(*cepstra)[TD_SOUND_CEPSTRA] = NULL;
    size_t n = 0, total = 0;
    m->n_samples = m->check->n_rows < BOOK_ROWS ? m->check->n_rows : BOOK_ROWS;
    TD_TRY(TD_NEW_ARRAY(&m->samples, m->n_samples + 1));
    TD_TRY(td_pool_map(pool, m->n_samples, hear_sample, m));
    for (size_t i = 0; i < m->n_samples; ++i)
        total += m->samples[i].count / BOOK_EACH + 1;
    TD_TRY(TD_NEW_ARRAY(&cepstra, total + 1));
    for (size_t i = 0; i < m->n_samples; ++i)
        for (size_t f = 0; f < m->samples[i].count; f += BOOK_EACH)
            memcpy(cepstra[n++], m->samples[i].cepstra[f], sizeof *cepstra);
    if (n > 0) TD_TRY(td_fit_book_make(cepstra, n, &m->book));
fail:
    for (size_t i = 0; m->samples != NULL && i < m->n_samples; ++i)
        free((void *)m->samples[i].cepstra);
    free(m->samples);
    free((void *)cepstra);
    return status;
}

static td_status judge_language(const measuring *m, td_checked_row *row)
{
    const size_t bytes = strlen(row->text);
    if (m->detector == NULL || bytes < MIN_LANGUAGE_BYTES) return TD_OK;
    return td_detector_compare(m->detector, row->text, bytes, row->told, &row->found, &row->lead);
}

/* A pool's task: all that one row tells by itself. */
static td_status measure_row(void *context, size_t at)
{
    measuring *m = context;
    td_checked_row *row = &m->check->rows[at];
    td_sound_frames frames = {0};
    TD_CHECK(judge_language(m, row));
    if (m->settings->listen) {
        const td_status status = hear(m, at, row, &frames);
        if (status == TD_OK && frames.count > 0) td_fit_bag_fill(&m->book, &frames, &m->fits[at].bag);
        free((void *)frames.cepstra);
        TD_CHECK(status);
    }
    pthread_mutex_lock(&m->lock);
    ++m->n_done;
    if (m->settings->report != NULL)
        m->settings->report(m->settings->report_context, "checks", m->n_done, m->check->n_rows);
    pthread_mutex_unlock(&m->lock);
    return TD_OK;
}

/* Texts and sounds by the aligner; *is_done: it knows the language, so that this is what counts. */
static td_status compare_by_aligner(const td_dataset_settings *settings, const td_dataset_aligner *aligner,
                                    td_dataset_check *c, bool *is_done)
{
    const td_hearing hearing = {.dataset = c->dataset,
                                .rows = c->rows,
                                .n_rows = c->n_rows,
                                .memory = aligner->memory,
                                .aligner = aligner->path,
                                .report = settings->report,
                                .report_context = settings->report_context};
    td_hearing_result result;
    double *better = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&better, c->n_rows + 1));
    TD_TRY(td_hearing_run(&hearing, better, &result));
    *is_done = result.is_usable;
    if (!result.is_usable) {
        td_log_warn(
            "the aligner does not understand these recordings; texts and sounds are compared letter by "
            "letter");
        goto fail;
    }
    c->is_by_aligner = true;
    c->is_adapted = result.is_adapted;
    c->n_fitted = result.n_judged;
    for (size_t i = 0; i < c->n_rows; ++i)
        c->rows[i].better = better[i];
fail:
    free(better);
    return status;
}

/* And without one. */
static td_status compare_by_letters(measuring *m, td_pool *pool)
{
    td_dataset_check *c = m->check;
    for (size_t i = 0; i < c->n_rows; ++i) {
        m->fits[i].text = td_dataset_text(c->dataset, c->rows[i].row);
        m->fits[i].speaker = c->dataset->view.rows[c->rows[i].row].speaker;
    }
    TD_CHECK(td_fit_run(m->fits, c->n_rows, pool));
    for (size_t i = 0; i < c->n_rows; ++i) {
        c->rows[i].better = m->fits[i].better;
        c->n_fitted += isnan(m->fits[i].better) ? 0 : 1;
    }
    return TD_OK;
}

static td_status measure(const td_dataset_settings *settings, const td_dataset_aligner *aligner,
                         td_pool *pool, td_dataset_check *c)
{
    td_status status = TD_OK;
    measuring m = {.check = c, .settings = settings};
    bool is_compared = false;
    pthread_mutex_init(&m.lock, NULL);
    TD_TRY(TD_NEW_ARRAY(&m.fits, c->n_rows + 1));
    if (td_detector_create(NULL, &m.detector) != TD_OK)
        m.detector = NULL; /* the dataset's opening told why */
    if (settings->listen) TD_TRY(make_book(&m, pool));
    TD_TRY(td_pool_map(pool, c->n_rows, measure_row, &m));
    for (size_t i = 0; i < c->n_rows; ++i)
        c->n_heard += c->rows[i].is_heard;
    if (aligner->path != NULL && c->n_heard > 0)
        TD_TRY(compare_by_aligner(settings, aligner, c, &is_compared));
    if (!is_compared) TD_TRY(compare_by_letters(&m, pool));
fail:
    td_detector_destroy(m.detector);
    free(m.fits);
    pthread_mutex_destroy(&m.lock);
    return status;
}

/* ---------------------------------------------------------------- judging */

static int compare_findings(const void *a, const void *b)
{
    const td_finding *x = a, *y = b;
    const bool x_out = td_row_check_at(x->check)->leaves_out, y_out = td_row_check_at(y->check)->leaves_out;
    if (x_out != y_out) return x_out ? -1 : 1;
    if (x->excess != y->excess) return x->excess > y->excess ? -1 : 1;
    if (x->check != y->check) return x->check < y->check ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static td_status judge(td_dataset_check *c)
{
    td_status status = TD_OK;
    double *values = NULL;
    size_t capacity = 0;
    bool *is_accused = NULL;
    TD_TRY(TD_NEW_ARRAY(&values, c->n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&is_accused, c->n_rows + 1));
    for (uint32_t k = 0; k < td_row_check_count(); ++k) {
        const td_row_check *check = td_row_check_at(k);
        size_t n = 0;
        for (size_t i = 0; i < c->n_rows; ++i) {
            const double value = check->measure(&c->rows[i]);
            if (!isnan(value)) values[n++] = value;
        }
        c->limits[k] = td_row_check_limits(check, values, n);
        for (uint32_t i = 0; i < c->n_rows; ++i) {
            const double value = check->measure(&c->rows[i]);
            const double excess = td_row_check_excess(&c->limits[k], value);
            if (!(excess > 0)) continue;
            TD_TRY(td_alloc_grow(&c->findings, &capacity, c->n_findings + 1, sizeof *c->findings));
            c->findings[c->n_findings++] = (td_finding){i, k, value, excess};
            ++c->counts[k];
            is_accused[i] = true;
            c->is_out[i] |= check->leaves_out;
        }
    }
    for (size_t i = 0; i < c->n_rows; ++i) {
        c->n_accused += is_accused[i];
        c->n_out += c->is_out[i];
    }
    if (c->n_findings > 0) qsort(c->findings, c->n_findings, sizeof *c->findings, compare_findings);
fail:
    free(is_accused);
    free(values);
    return status;
}

td_status td_dataset_check_run(const td_dataset_settings *settings, const td_dataset *dataset,
                               const td_dataset_aligner *aligner, td_pool *pool, td_dataset_check **out)
{
    td_status status = TD_OK;
    td_dataset_check *c = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&c));
    c->dataset = dataset;
    TD_TRY(read_table(settings, c));
    TD_TRY(list_rows(c));
    TD_TRY(TD_NEW_ARRAY(&c->is_out, c->n_rows + 1));
    TD_TRY(measure(settings, aligner, pool, c));
    TD_TRY(td_dataset_check_find_same(c));
    TD_TRY(judge(c));
    *out = c;
    return TD_OK;
fail:
    td_dataset_check_free(c);
    return status;
}

void td_dataset_check_free(td_dataset_check *check)
{
    if (check == NULL) return;
    td_metadata_destroy(check->table);
    free(check->rows);
    free(check->findings);
    free(check->is_out);
    free(check);
}

/* ---------------------------------------------------------------- telling */

bool td_dataset_check_is_poor(const td_dataset_check *check, size_t i)
{
    const td_row_check *row = td_row_check_at(i);
    const double usual = check->limits[i].usual;
    if (row->remark == NULL || isnan(usual)) return false;
    return row->side == TD_CHECK_LOW ? usual < row->poor : usual > row->poor;
}

void td_dataset_check_describe(const td_dataset_check *check, const td_finding *finding,
                               char out[TD_FINDING_BYTES])
{
    const td_row_check *kind = td_row_check_at(finding->check);
    const td_checked_row *row = &check->rows[finding->at];
    const td_check_limits *limits = &check->limits[finding->check];
    switch (kind->tells) {
    case TD_TELLS_VALUE:
        snprintf(out, TD_FINDING_BYTES, "%s: %.3g %s; usual %.3g, limit %.3g", kind->what, finding->value,
                 kind->unit, limits->usual, finding->value > limits->high ? limits->high : limits->low);
        return;
    case TD_TELLS_LANGUAGE:
        snprintf(out, TD_FINDING_BYTES, "%s: %s, not %s", kind->what, td_lang_code(row->found),
                 td_lang_code(row->told));
        return;
    case TD_TELLS_SAME_SOUND:
    case TD_TELLS_SAME_TEXT:
        break;
    }
    const uint32_t same = kind->tells == TD_TELLS_SAME_SOUND ? row->same_sound : row->same_text;
    snprintf(out, TD_FINDING_BYTES, "%s: %s", kind->what,
             td_dataset_id(check->dataset, check->rows[same].row));
}
