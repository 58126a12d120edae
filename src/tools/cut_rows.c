/* Rows of what was found: where each sentence begins and ends by its pauses, short neighbours joined, and each judged. See
 * cut_internal.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/cut_internal.h"

#define JOIN_GAP_S 1.5     /* between sentences that may share a row */
#define LEAST_SCORE -0.6   /* below: the text is not what is said */
#define MOST_UNHEARD_S 0.6 /* of speech between two letters of a text */
#define LEAST_SNR_DB 10.0
#define TIGHT_DB 12.0  /* a cut without a pause must be so far below speech */
#define RATE_SHARE 2.0 /* letters a second, to the median or from it */

enum { MARGIN_STEPS = 12 };

size_t td_cut_level_of(const td_cut_recording *r, double seconds)
{
    const double at = seconds / TD_CUT_LEVEL_S;
    return r->first_level + (at > 0 ? (size_t)at : 0);
}

static double seconds_of(const td_cut_recording *r, size_t level)
{
    return (double)(level - r->first_level) * TD_CUT_LEVEL_S;
}

double td_cut_time_of(const td_cut *cut, const td_cut_recording *r, size_t step)
{
    return ((double)(step - r->first_step) + 0.5) * cut->step_s;
}

/* ---------------------------------------------------------------- edges */

/* Speech of a row from its first to its last letter, and where it may be cut: not into what is found around it. */
static void find_edges(const td_cut *cut, td_cut_row *row, double least_s, double most_s)
{
    const td_cut_recording *r = &cut->recordings[row->recording];
    bool is_tight[2];
    const size_t start = td_cut_find_start(&cut->levels, td_cut_level_of(r, row->first_s),
                                           td_cut_level_of(r, least_s), &is_tight[0]);
    const size_t end = td_cut_find_end(&cut->levels, td_cut_level_of(r, row->last_s),
                                       td_cut_level_of(r, most_s), &is_tight[1]);
    row->start_s = seconds_of(r, start);
    row->end_s = seconds_of(r, end);
    /* Where a recording begins or ends, nothing is cut into. */
    if (row->start_s < TD_CUT_MARGIN_S) is_tight[0] = false;
    if (row->end_s > (double)r->levels * TD_CUT_LEVEL_S - TD_CUT_MARGIN_S) is_tight[1] = false;
    row->is_tight = is_tight[0] || is_tight[1];
}

/* Adds the margins, at most half of a pause each. */
static void add_margins(td_cut *cut)
{
    for (size_t i = 0; i < cut->n_rows; i++) {
        td_cut_row *row = &cut->rows[i];
        const td_cut_recording *r = &cut->recordings[row->recording];
        const td_cut_row *next = i + 1 < cut->n_rows && row[1].recording == row->recording ? row + 1 : NULL;
        double behind = next ? (next->start_s - row->end_s) / 2 : (double)r->frames / r->rate - row->end_s;
        if (behind > TD_CUT_MARGIN_S) behind = TD_CUT_MARGIN_S;
        if (behind < 0) behind = 0;
        row->end_s += behind;
        if (i == 0 || row[-1].recording != row->recording)
            row->start_s = row->start_s > TD_CUT_MARGIN_S ? row->start_s - TD_CUT_MARGIN_S : 0;
        if (!next) continue;
        const double pause = row[1].start_s - (row->end_s - behind);
        row[1].start_s -= pause / 2 < TD_CUT_MARGIN_S ? (pause > 0 ? pause / 2 : 0) : TD_CUT_MARGIN_S;
    }
}

/* ---------------------------------------------------------------- joining and splitting */

static td_status join_texts(char **text, const char *more)
{
    const size_t first = strlen(*text), second = strlen(more);
    char *joined;
    TD_CHECK(TD_NEW_ARRAY(&joined, first + second + 2));
    (void)snprintf(joined, first + second + 2, "%s %s", *text, more);
    free(*text);
    *text = joined;
    return TD_OK;
}

/* Whether something is said between two times. */
static bool is_spoken(const td_cut *cut, uint32_t recording, double from_s, double to_s)
{
    const td_cut_recording *r = &cut->recordings[recording];
    size_t speech = 0;
    for (size_t i = td_cut_level_of(r, from_s); i < td_cut_level_of(r, to_s); i++)
        speech += td_cut_is_speech(&cut->levels, i);
    return (double)speech * TD_CUT_LEVEL_S > 0.15;
}

static bool should_join(const td_cut *cut, const td_cut_row *a, const td_cut_row *b)
{
    const double a_s = a->end_s - a->start_s, b_s = b->end_s - b->start_s, gap = b->start_s - a->end_s;
    if (a->recording != b->recording || gap > JOIN_GAP_S ||
        b->end_s - a->start_s > TD_CUT_MOST_S - 2 * TD_CUT_MARGIN_S)
        return false;
    const bool is_tight = (a->is_tight || b->is_tight) && gap < 2 * TD_CUT_LEVEL_S;
    if (a_s >= TD_CUT_LEAST_S && b_s >= TD_CUT_LEAST_S && !is_tight) return false;
    return !is_spoken(cut, a->recording, a->end_s, b->start_s);
}

static td_status append_row(td_cut *cut, const td_cut_row *row, const char *text, const char *normal)
{
    td_cut_row *to;
    TD_CHECK(td_alloc_grow(&cut->rows, &cut->row_capacity, cut->n_rows + 1, sizeof *cut->rows));
    to = &cut->rows[cut->n_rows];
    *to = *row;
    to->text = to->normal = NULL;
    TD_CHECK(TD_NEW_ARRAY(&to->text, strlen(text) + 1));
    cut->n_rows++;
    memcpy(to->text, text, strlen(text));
    TD_CHECK(TD_NEW_ARRAY(&to->normal, strlen(normal) + 1));
    memcpy(to->normal, normal, strlen(normal));
    return TD_OK;
}

td_status td_cut_add_row(td_cut *cut, const td_cut_row *b, const td_cut_sentence *s)
{
    td_cut_row *a = cut->n_rows ? &cut->rows[cut->n_rows - 1] : NULL;
    if (!a || !should_join(cut, a, b)) return append_row(cut, b, s->text, s->normal);
    TD_CHECK(join_texts(&a->text, s->text));
    TD_CHECK(join_texts(&a->normal, s->normal));
    a->end_s = b->end_s;
    a->last_s = b->last_s;
    a->n_sentences += b->n_sentences;
    a->is_tight = false; /* judged by what is left of it, below */
    return TD_OK;
}

/* ---------------------------------------------------------------- judging */

/* The longest time between two letters in which somebody speaks: what is said there is not in the text. */
static double find_unheard(const td_cut *cut, const td_cut_recording *r, const td_timing *timing,
                           size_t first_step)
{
    double most = 0;
    for (size_t i = 1; i < timing->count && timing->score > -INFINITY; i++) {
        const size_t end = td_cut_level_of(r, td_cut_time_of(cut, r, first_step + timing->first[i]));
        size_t speech = 0;
        for (size_t k = td_cut_level_of(r, td_cut_time_of(cut, r, first_step + timing->last[i - 1])); k < end;
             k++)
            speech += td_cut_is_speech(&cut->levels, k);
        most = fmax(most, (double)speech * TD_CUT_LEVEL_S);
    }
    return most;
}

td_status td_cut_measure_fit(const td_cut *cut, td_cut_row *row, td_timing *timing, size_t *first_step)
{
    const td_cut_recording *r = &cut->recordings[row->recording];
    const size_t classes = td_aligner_classes(cut->aligner);
    size_t first = (size_t)(row->first_s / cut->step_s),
           end = (size_t)(row->last_s / cut->step_s) + MARGIN_STEPS;
    td_letters letters = {0};
    float *heard = NULL;
    td_status status = TD_OK;
    first = first > MARGIN_STEPS ? first - MARGIN_STEPS : 0;
    if (end > r->steps) end = r->steps;
    *first_step = r->first_step + first;
    TD_TRY(td_aligner_read(cut->aligner, cut->lang, row->normal, strlen(row->normal), &letters));
    TD_TRY(TD_NEW_ARRAY(&heard, (end - first) * classes + 1));
    td_cut_get_heard(cut, *first_step, end - first, heard);
    TD_TRY(td_align_letters(heard, end - first, classes, letters.classes, letters.count, timing));
    row->score = timing->score;
    row->unheard_s = find_unheard(cut, r, timing, *first_step);
    row->n_letters = letters.count;
fail:
    td_letters_free(&letters);
    free(heard);
    return status;
}

static double mean_speech_db(const td_cut *cut, const td_cut_row *row)
{
    const td_cut_recording *r = &cut->recordings[row->recording];
    double sum = 0, count = 0;
    for (size_t i = td_cut_level_of(r, row->start_s);
         i < td_cut_level_of(r, row->end_s) && i < cut->levels.count; i++) {
        if (!td_cut_is_speech(&cut->levels, i)) continue;
        sum += (double)cut->levels.db[i];
        count++;
    }
    return count > 0 ? sum / count : -90;
}

static void measure(const td_cut *cut, td_cut_row *row)
{
    const td_cut_recording *r = &cut->recordings[row->recording];
    const size_t middle = td_cut_level_of(r, (row->start_s + row->end_s) / 2);
    const double speech = mean_speech_db(cut, row);
    row->snr_db = speech - (double)cut->levels.noise[middle / 100];
    row->letters_per_s = (double)row->n_letters / fmax(row->last_s - row->first_s, 0.1);
    const size_t edges[] = {td_cut_level_of(r, row->start_s), td_cut_level_of(r, row->end_s)};
    for (size_t i = 0; i < 2; i++)
        if (edges[i] < cut->levels.count && (double)cut->levels.db[edges[i]] > speech - TIGHT_DB &&
            td_cut_is_speech(&cut->levels, edges[i]))
            row->is_tight = true;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static td_status find_medians(td_cut *cut, double *rate)
{
    double *values;
    const size_t n = cut->n_rows;
    *rate = 0;
    cut->result->median_score = 0;
    if (n == 0) return TD_OK;
    TD_CHECK(TD_NEW_ARRAY(&values, n));
    for (size_t i = 0; i < n; i++)
        values[i] = cut->rows[i].letters_per_s;
    qsort(values, n, sizeof *values, compare);
    *rate = values[n / 2];
    for (size_t i = 0; i < n; i++)
        values[i] = cut->rows[i].score;
    qsort(values, n, sizeof *values, compare);
    cut->result->median_score = values[n / 2];
    free(values);
    return TD_OK;
}

static td_cut_reason judge(const td_cut_row *row, double rate)
{
    const double seconds = row->end_s - row->start_s;
    if (!(row->score >= LEAST_SCORE) || row->unheard_s > MOST_UNHEARD_S) return TD_CUT_SCORE;
    if (seconds < TD_CUT_LEAST_S) return TD_CUT_SHORT;
    if (seconds > TD_CUT_MOST_S) return TD_CUT_LONG;
    if (row->is_tight) return TD_CUT_PAUSE;
    if (row->letters_per_s > RATE_SHARE * rate || row->letters_per_s * RATE_SHARE < rate) return TD_CUT_RATE;
    return row->snr_db < LEAST_SNR_DB ? TD_CUT_NOISE : TD_CUT_KEPT;
}

/* ---------------------------------------------------------------- all of them */

static uint32_t find_recording(const td_cut *cut, size_t step)
{
    uint32_t r = 0;
    while (r + 1 < cut->settings->n_recordings && step >= cut->recordings[r + 1].first_step)
        r++;
    return r;
}

/* What is found before and behind a sentence, in its recording: it is not cut into that. */
static void find_bounds(const td_cut *cut, const td_found *found, size_t count, size_t i, double *least,
                        double *most)
{
    const td_cut_recording *r = &cut->recordings[find_recording(cut, found[i].first)];
    *least = 0;
    *most = (double)r->steps * cut->step_s;
    if (i > 0 && found[i - 1].last >= r->first_step) *least = td_cut_time_of(cut, r, found[i - 1].last);
    if (i + 1 < count && found[i + 1].first < r->first_step + r->steps)
        *most = td_cut_time_of(cut, r, found[i + 1].first);
}

void td_cut_clear_rows(td_cut *cut)
{
    for (size_t i = 0; i < cut->n_rows; i++) {
        free(cut->rows[i].text);
        free(cut->rows[i].normal);
    }
    cut->n_rows = 0;
}

td_status td_cut_make_rows(td_cut *cut, const td_found *found, size_t count)
{
    double rate;
    for (size_t i = 0; i < count; i++) {
        const td_found *f = &found[i];
        td_cut_row row = {.recording = find_recording(cut, f->first), .n_sentences = 1};
        const td_cut_recording *r = &cut->recordings[row.recording];
        double least, most;
        if (f->last >= r->first_step + r->steps) continue; /* one recording ends in it */
        row.first_s = td_cut_time_of(cut, r, f->first);
        row.last_s = td_cut_time_of(cut, r, f->last);
        find_bounds(cut, found, count, i, &least, &most);
        find_edges(cut, &row, least, most);
        TD_CHECK(td_cut_add_parts(cut, &row, &cut->sentences[f->sentence]));
    }
    add_margins(cut);
    for (size_t i = 0; i < cut->n_rows; i++) {
        td_timing timing = {0};
        size_t first_step;
        TD_CHECK(td_cut_measure_fit(cut, &cut->rows[i], &timing, &first_step));
        td_timing_free(&timing);
        measure(cut, &cut->rows[i]);
    }
    TD_CHECK(find_medians(cut, &rate));
    for (size_t i = 0; i < cut->n_rows; i++)
        cut->rows[i].reason = judge(&cut->rows[i], rate);
    return TD_OK;
}
