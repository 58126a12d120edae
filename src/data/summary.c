/* Statistics of datasets (summary.h). */
#include "data/summary.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

enum { MIN_CHARACTERS = 12 }; /* shorter texts say too little about the speed of speech */

static const double FAR_FROM_USUAL = 2;
static const float SILENT_PEAK = 0.01f, LARGE_OFFSET = 0.01f;

enum { MANY_CLIPPED = 3 }; /* one or two may just be loud */

typedef struct keyed_row {
    td_digest key;
    uint32_t row;
} keyed_row;

/* The rows that can be used, in the order of the table. */
static td_status list_usable(const td_dataset *d, uint32_t **out, size_t *count)
{
    const td_status status = TD_NEW_ARRAY(out, d->n_train + d->n_val + 1);
    if (status != TD_OK) return status;
    size_t t = 0, v = 0;
    *count = d->n_train + d->n_val;
    for (size_t i = 0; i < *count; ++i) {
        const bool from_train = v == d->n_val || (t < d->n_train && d->train[t] < d->val[v]);
        (*out)[i] = from_train ? d->train[t++] : d->val[v++];
    }
    return TD_OK;
}

static void add_row(td_summary_rows *rows, uint32_t row)
{
    if (rows->count < TD_SUMMARY_EXAMPLES) rows->first[rows->count] = row;
    ++rows->count;
}

/* Value at 99 % of sorted values. */
static double get_p99(const double *sorted, size_t count)
{
    return count > 0 ? sorted[(size_t)(0.99 * (double)(count - 1) + 0.5)] : 0;
}

static int compare_keys(const void *a, const void *b)
{
    const keyed_row *x = a, *y = b;
    if (x->key.high != y->key.high) return x->key.high < y->key.high ? -1 : 1;
    if (x->key.low != y->key.low) return x->key.low < y->key.low ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int compare_rows(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static td_status find_duplicates(const td_dataset *d, const uint32_t *rows, size_t count,
                                 td_summary_rows *out)
{
    td_status status = TD_OK;
    keyed_row *keyed = NULL;
    uint32_t *found = NULL;
    size_t n_found = 0;
    TD_TRY(TD_NEW_ARRAY(&keyed, count + 1));
    TD_TRY(TD_NEW_ARRAY(&found, count + 1));
    for (size_t i = 0; i < count; ++i) {
        const td_block_text text = d->view.rows[rows[i]].text;
        keyed[i] = (keyed_row){td_hash128(td_block_string(&d->view, text), text.bytes), rows[i]};
    }
    qsort(keyed, count, sizeof *keyed, compare_keys);
    for (size_t i = 1; i < count; ++i)
        if (keyed[i].key.low == keyed[i - 1].key.low && keyed[i].key.high == keyed[i - 1].key.high)
            found[n_found++] = keyed[i].row;
    qsort(found, n_found, sizeof *found, compare_rows);
    for (size_t i = 0; i < n_found; ++i)
        add_row(out, found[i]);
fail:
    free(found);
    free(keyed);
    return status;
}

static void count_rate(td_summary_rate rates[TD_SUMMARY_RATES], uint32_t rate_hz)
{
    for (size_t i = 0; i < TD_SUMMARY_RATES; ++i) {
        if (rates[i].n_rows > 0 && rates[i].rate_hz != rate_hz) continue;
        rates[i].rate_hz = rate_hz;
        ++rates[i].n_rows;
        for (; i > 0 && rates[i].n_rows > rates[i - 1].n_rows; --i) {
            const td_summary_rate kept = rates[i];
            rates[i] = rates[i - 1];
            rates[i - 1] = kept;
        }
        return;
    }
}

static double get_speed(const td_block_row *row)
{
    const double seconds = td_clip_seconds(&row->clip);
    return seconds > 0 && row->n_characters >= MIN_CHARACTERS ? row->n_characters / seconds : 0;
}

static void judge_speeds(const td_dataset *d, const uint32_t *rows, size_t count, td_summary *out)
{
    if (out->characters_per_second <= 0) return;
    for (size_t i = 0; i < count; ++i) {
        const double share = get_speed(&d->view.rows[rows[i]]) / out->characters_per_second;
        if (share > FAR_FROM_USUAL) add_row(&out->hurried, rows[i]);
        if (share > 0 && share < 1 / FAR_FROM_USUAL) add_row(&out->slow, rows[i]);
    }
}

static void count_flaws(const td_clip *clip, uint32_t row, td_summary *out)
{
    if (!clip->is_listened) return;
    ++out->n_heard;
    out->silence_s += clip->silence_s; /* the sum for now */
    if (clip->n_clipped >= MANY_CLIPPED) add_row(&out->clipped, row);
    if (clip->peak < SILENT_PEAK) add_row(&out->silent, row);
    if (fabsf(clip->offset) > LARGE_OFFSET) add_row(&out->off_centre, row);
}

static void count_row(const td_block_row *row, td_summary *out)
{
    const double seconds = td_clip_seconds(&row->clip);
    ++out->languages[row->lang];
    ++out->speakers[row->speaker];
    out->n_unknown += row->n_unknown;
    if (row->clip.state != TD_CLIP_GOOD) return;
    out->hours += seconds / 3600;
    ++out->bins[seconds < TD_SUMMARY_BINS - 1 ? (size_t)seconds : TD_SUMMARY_BINS - 1];
    out->n_not_mono += row->clip.channels != 1;
    count_rate(out->rates, row->clip.rate_hz);
}

static void measure(const td_dataset *d, const uint32_t *rows, size_t count, double *values, td_summary *out)
{
    size_t n_speeds = 0, n_seconds = 0;
    for (size_t i = 0; i < count; ++i) {
        const double seconds = td_clip_seconds(&d->view.rows[rows[i]].clip);
        if (seconds > 0) values[n_seconds++] = seconds;
    }
    out->seconds = td_stats_of(values, n_seconds);
    out->p99_seconds = get_p99(values, n_seconds);
    for (size_t i = 0; i < count; ++i)
        values[i] = d->view.rows[rows[i]].n_characters;
    out->characters = td_stats_of(values, count);
    for (size_t i = 0; i < count; ++i)
        values[i] = d->view.rows[rows[i]].n_tokens;
    out->tokens = td_stats_of(values, count);
    out->p99_tokens = get_p99(values, count);
    for (size_t i = 0; i < count; ++i) {
        const double speed = get_speed(&d->view.rows[rows[i]]);
        if (speed > 0) values[n_speeds++] = speed;
    }
    out->characters_per_second = td_stats_of(values, n_speeds).median;
}

td_status td_summary_make(const td_dataset *dataset, td_summary *out)
{
    td_status status = TD_OK;
    uint32_t *rows = NULL;
    double *values = NULL;
    size_t count = 0;
    *out = (td_summary){.n_train = dataset->n_train, .n_val = dataset->n_val};
    out->n_bad = dataset->problems.total;
    TD_TRY(list_usable(dataset, &rows, &count));
    out->n_rows = count;
    TD_TRY(TD_NEW_ARRAY(&values, count + 1));
    TD_TRY(TD_NEW_ARRAY(&out->speakers, dataset->view.n_speakers));
    for (size_t i = 0; i < count; ++i) {
        count_row(&dataset->view.rows[rows[i]], out);
        count_flaws(&dataset->view.rows[rows[i]].clip, rows[i], out);
    }
    if (out->n_heard > 0) out->silence_s /= (double)out->n_heard;
    measure(dataset, rows, count, values, out);
    judge_speeds(dataset, rows, count, out);
    TD_TRY(find_duplicates(dataset, rows, count, &out->duplicates));
fail:
    free(values);
    free(rows);
    if (status != TD_OK) td_summary_free(out);
    return status;
}

void td_summary_free(td_summary *summary)
{
    free(summary->speakers);
    summary->speakers = NULL;
}
