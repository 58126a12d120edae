/* A sentence that is longer than a row may be is cut in two where it pauses between two words, and its parts once more while
 * they are too long. Where words end is known from the letters' timing; a place without a pause is never taken. See
 * cut_internal.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/cut_internal.h"

enum { MOST_DEPTH = 4 };

#define LONGEST_PAUSE_S 0.4 /* a longer one is not better */
#define OFF_MIDDLE 0.1      /* a second off the middle costs so many of pause */

/* A row whose sentence is to be cut. */
typedef struct splitting {
    td_cut *cut;
    const td_cut_row *row;
    const char *text;
    td_timing timing; /* of all its letters */
    size_t first_step;
} splitting;

/* Where it is cut: before byte `at` of the text. */
typedef struct place {
    size_t at;
    double end_s, start_s;  /* of the sound around the pause */
    double last_s, first_s; /* the letters around it */
    double worth;
} place;

static void free_part(td_cut_sentence *part)
{
    free(part->text);
    free(part->normal);
    *part = (td_cut_sentence){0};
}

static td_status make_part(const td_cut *cut, const char *text, size_t bytes, td_cut_sentence *out)
{
    const char *normal;
    td_status status = TD_OK;
    *out = (td_cut_sentence){0};
    TD_TRY(TD_NEW_ARRAY(&out->text, bytes + 1));
    memcpy(out->text, text, bytes);
    TD_TRY(td_normalizer_run(cut->normalizer, out->text, bytes, &normal));
    TD_TRY(TD_NEW_ARRAY(&out->normal, strlen(normal) + 1));
    memcpy(out->normal, normal, strlen(normal));
    return TD_OK;
fail:
    free_part(out);
    return status;
}

static td_status count_letters(const td_cut *cut, const char *text, size_t bytes, size_t *out)
{
    td_cut_sentence part;
    td_letters letters = {0};
    TD_CHECK(make_part(cut, text, bytes, &part));
    const td_status status =
        td_aligner_read(cut->aligner, cut->lang, part.normal, strlen(part.normal), &letters);
    *out = letters.count;
    td_letters_free(&letters);
    free_part(&part);
    return status;
}

/* The pause between letters `letter` - 1 and `letter`; worth 0: there is none, or a part would be too short. */
static void judge_place(const splitting *s, size_t letter, place *p)
{
    const td_cut_recording *r = &s->cut->recordings[s->row->recording];
    const td_cut_levels *levels = &s->cut->levels;
    bool is_tight[2];
    p->worth = 0;
    p->last_s = td_cut_time_of(s->cut, r, s->first_step + s->timing.last[letter - 1]);
    p->first_s = td_cut_time_of(s->cut, r, s->first_step + s->timing.first[letter]);
    const size_t before = td_cut_level_of(r, p->last_s), behind = td_cut_level_of(r, p->first_s);
    const size_t end = td_cut_find_end(levels, before, behind, &is_tight[0]);
    const size_t start = td_cut_find_start(levels, behind, before, &is_tight[1]);
    if (is_tight[0] || is_tight[1] || start <= end) return;
    p->end_s = (double)(end - r->first_level) * TD_CUT_LEVEL_S;
    p->start_s = (double)(start - r->first_level) * TD_CUT_LEVEL_S;
    if (p->end_s - s->row->start_s < TD_CUT_LEAST_S || s->row->end_s - p->start_s < TD_CUT_LEAST_S) return;
    const double middle = (s->row->start_s + s->row->end_s) / 2;
    p->worth = fmin(p->start_s - p->end_s, LONGEST_PAUSE_S) - OFF_MIDDLE * fabs(p->end_s - middle) + 100;
}

/* The best of the spaces; worth 0: none. A place is one only if its two sides are read as the whole is. */
static td_status find_place(const splitting *s, place *best)
{
    *best = (place){0};
    for (const char *space = strchr(s->text, ' '); space; space = strchr(space + 1, ' ')) {
        place p = {.at = (size_t)(space - s->text) + 1};
        size_t before, behind;
        TD_CHECK(count_letters(s->cut, s->text, p.at - 1, &before));
        TD_CHECK(count_letters(s->cut, space + 1, strlen(space + 1), &behind));
        if (before == 0 || behind == 0 || before + behind != s->timing.count) continue;
        judge_place(s, before, &p);
        if (p.worth > best->worth) *best = p;
    }
    return TD_OK;
}

static td_status add_parts(td_cut *cut, const td_cut_row *row, const td_cut_sentence *sentence, int depth);

static td_status add_both(const splitting *s, const place *p, int depth)
{
    td_cut_sentence parts[2] = {{0}};
    td_cut_row rows[2] = {*s->row, *s->row};
    td_status status = TD_OK;
    TD_TRY(make_part(s->cut, s->text, p->at - 1, &parts[0]));
    TD_TRY(make_part(s->cut, s->text + p->at, strlen(s->text + p->at), &parts[1]));
    rows[0].end_s = p->end_s;
    rows[0].last_s = p->last_s;
    rows[1].start_s = p->start_s;
    rows[1].first_s = p->first_s;
    rows[1].n_sentences = 0; /* a sentence counts once */
    for (int i = 0; i < 2; i++)
        TD_TRY(add_parts(s->cut, &rows[i], &parts[i], depth + 1));
fail:
    free_part(&parts[0]);
    free_part(&parts[1]);
    return status;
}

static td_status add_parts(td_cut *cut, const td_cut_row *row, const td_cut_sentence *sentence, int depth)
{
    splitting s = {.cut = cut, .row = row, .text = sentence->text};
    place best = {0};
    td_cut_row whole = *row;
    td_status status = TD_OK;
    if (depth == MOST_DEPTH || row->end_s - row->start_s <= TD_CUT_MOST_S - 2 * TD_CUT_MARGIN_S)
        return td_cut_add_row(cut, row, sentence);
    whole.text = sentence->text;
    whole.normal = sentence->normal;
    TD_TRY(td_cut_measure_fit(cut, &whole, &s.timing, &s.first_step));
    if (s.timing.score > -INFINITY) TD_TRY(find_place(&s, &best));
    if (best.worth > 0)
        TD_TRY(add_both(&s, &best, depth));
    else
        TD_TRY(td_cut_add_row(cut, row, sentence));
fail:
    td_timing_free(&s.timing);
    return status;
}

td_status td_cut_add_parts(td_cut *cut, const td_cut_row *row, const td_cut_sentence *sentence)
{
    return add_parts(cut, row, sentence, 0);
}
