/* Rows that are there twice (dataset_check.h): recordings by fingerprints among those of nearly equal length, texts by
 * speaker.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/dataset_check.h"

/* Of 512 bits, copies at another gain or through MP3 differ in up to 10, shifted ones in up to 30; sentences that share
 * most of their words in 80 and more, others in about 250. */
enum { MAX_DIFFERENT_BITS = 50 };

static const double LENGTH_STEP_S = 0.06;

typedef struct timed_row {
    double seconds;
    uint32_t at;
} timed_row;

static double get_span(const td_row_sound *sound)
{
    return sound->seconds - sound->start_s - sound->end_s;
}

static int compare_spans(const void *a, const void *b)
{
    const timed_row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int count_different(const td_row_sound *a, const td_row_sound *b)
{
    int n = 0;
    for (size_t w = 0; w < TD_SOUND_PRINT_WORDS; ++w)
        n += __builtin_popcountll(a->print[w] ^ b->print[w]);
    return n;
}

static void mark(td_dataset_check *c, uint32_t a, uint32_t b)
{
    const uint32_t early = a < b ? a : b, late = a < b ? b : a;
    if (early < c->rows[late].same_sound) c->rows[late].same_sound = early;
}

static td_status find_recordings(td_dataset_check *c)
{
    timed_row *sorted;
    size_t n = 0;
    TD_CHECK(TD_NEW_ARRAY(&sorted, c->n_rows + 1));
    for (uint32_t i = 0; i < c->n_rows; ++i)
        if (c->rows[i].is_heard && c->rows[i].sound.speech_s > 0)
            sorted[n++] = (timed_row){get_span(&c->rows[i].sound), i};
    qsort(sorted, n, sizeof *sorted, compare_spans);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = i + 1; j < n && sorted[j].seconds - sorted[i].seconds <= LENGTH_STEP_S; ++j)
            if (count_different(&c->rows[sorted[i].at].sound, &c->rows[sorted[j].at].sound) <=
                MAX_DIFFERENT_BITS)
                mark(c, sorted[i].at, sorted[j].at);
    free(sorted);
    return TD_OK;
}

typedef struct said_row {
    const char *text;
    uint32_t speaker, at;
} said_row;

static int compare_texts(const said_row *x, const said_row *y)
{
    if (x->speaker != y->speaker) return x->speaker < y->speaker ? -1 : 1;
    return strcmp(x->text, y->text);
}

static int compare_said(const void *a, const void *b)
{
    const said_row *x = a, *y = b;
    const int order = compare_texts(x, y);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static td_status find_texts(td_dataset_check *c)
{
    said_row *sorted;
    TD_CHECK(TD_NEW_ARRAY(&sorted, c->n_rows + 1));
    for (uint32_t i = 0; i < c->n_rows; ++i)
        sorted[i] = (said_row){td_dataset_text(c->dataset, c->rows[i].row),
                               c->dataset->view.rows[c->rows[i].row].speaker, i};
    qsort(sorted, c->n_rows, sizeof *sorted, compare_said);
    for (size_t i = 1, first = 0; i < c->n_rows; ++i) {
        if (compare_texts(&sorted[i], &sorted[first]) != 0)
            first = i;
        else
            c->rows[sorted[i].at].same_text = sorted[first].at;
    }
    free(sorted);
    return TD_OK;
}

td_status td_dataset_check_find_same(td_dataset_check *check)
{
    TD_CHECK(find_recordings(check));
    return find_texts(check);
}
