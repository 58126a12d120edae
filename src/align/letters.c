/* The best way of a short text along what is heard; see align.h. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "align/align.h"
#include "base/error.h"

/* States as of CTC: even ones hear nothing, odd ones are letters. From where a state was reached: */
enum { STAY, NEXT, JUMP };

typedef struct search {
    const float *heard;
    size_t steps, classes;
    const uint16_t *letters;
    size_t count, states;
    float *scores;       /* [2, states] */
    unsigned char *from; /* [steps, states]; with the total alone: [states] */
    bool is_total;
} search;

static size_t class_of(const search *s, size_t state)
{
    return state % 2 ? s->letters[state / 2] : 0;
}

static bool can_jump(const search *s, size_t state)
{
    return state % 2 && state > 1 && s->letters[state / 2] != s->letters[state / 2 - 1];
}

static void walk(search *s)
{
    for (size_t i = 0; i < s->states; i++)
        s->scores[i] = i < 2 ? s->heard[class_of(s, i)] : -INFINITY;
    for (size_t t = 1; t < s->steps; t++) {
        const float *before = s->scores + (t - 1) % 2 * s->states, *row = s->heard + t * s->classes;
        float *now = s->scores + t % 2 * s->states;
        unsigned char *from = s->from + (s->is_total ? 0 : t * s->states);
        for (size_t i = 0; i < s->states; i++) {
            float best = before[i];
            from[i] = STAY;
            if (i > 0 && before[i - 1] > best) {
                best = before[i - 1];
                from[i] = NEXT;
            }
            if (can_jump(s, i) && before[i - 2] > best) {
                best = before[i - 2];
                from[i] = JUMP;
            }
            now[i] = best + row[class_of(s, i)];
        }
    }
}

/* Of the whole way, to the last letter or what is behind it. */
static float find_total(const search *s)
{
    const float *last = s->scores + (s->steps - 1) % 2 * s->states;
    return fmaxf(last[s->states - 1], last[s->states - 2]);
}

static void walk_back(const search *s, td_timing *out)
{
    const float *last = s->scores + (s->steps - 1) % 2 * s->states;
    size_t state = last[s->states - 2] > last[s->states - 1] ? s->states - 2 : s->states - 1;
    double sum = 0;
    if (!(last[state] > -INFINITY)) return;
    for (size_t t = s->steps; t-- > 0;) {
        if (state % 2) {
            const size_t letter = state / 2;
            if (state == s->states - 2 && out->last[letter] == 0)
                sum = 0; /* what came behind does not count */
            if (out->last[letter] == 0) out->last[letter] = (uint32_t)t;
            out->first[letter] = (uint32_t)t;
        }
        if (state > 0) sum += (double)s->heard[t * s->classes + class_of(s, state)];
        state -= s->from[t * s->states + state];
    }
    out->score = sum / (double)(out->last[s->count - 1] - out->first[0] + 1);
}

td_status td_align_letters(const float *heard, size_t steps, size_t classes, const uint16_t *letters,
                           size_t count, td_timing *out)
{
    search s = {heard, steps, classes, letters, count, .states = 2 * count + 1};
    td_status status = TD_OK;
    *out = (td_timing){.count = count, .score = -INFINITY};
    if (count == 0 || steps == 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&out->first, count));
    TD_TRY(TD_NEW_ARRAY(&out->last, count));
    TD_TRY(TD_NEW_ARRAY(&s.scores, 2 * s.states));
    TD_TRY(TD_NEW_ARRAY(&s.from, steps * s.states));
    walk(&s);
    walk_back(&s, out);
fail:
    free(s.scores);
    free(s.from);
    if (status != TD_OK) td_timing_free(out);
    return status;
}

td_status td_align_total(const float *heard, size_t steps, size_t classes, const uint16_t *letters,
                         size_t count, double *out)
{
    search s = {heard, steps, classes, letters, count, .states = 2 * count + 1, .is_total = true};
    td_status status = TD_OK;
    *out = -INFINITY;
    if (count == 0 || steps == 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&s.scores, 2 * s.states));
    TD_TRY(TD_NEW_ARRAY(&s.from, s.states));
    walk(&s);
    *out = (double)find_total(&s);
fail:
    free(s.scores);
    free(s.from);
    return status;
}

void td_timing_free(td_timing *timing)
{
    free(timing->first);
    free(timing->last);
    *timing = (td_timing){0};
}
