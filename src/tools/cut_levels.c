/* Where there is speech, by loudness: what is quiet and what is loud is told for each second from the ten around it on both
 * sides, so that a hall, a hum or another distance to the microphone does not matter. Levels are of the signal with low
 * frequencies taken down (cut_listen.c), which hum has and speech does not need. See cut_internal.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/cut_internal.h"

enum {
    PER_SECOND = 100,
    AROUND_S = 10,
    QUIET_BEFORE = 5,  /* levels that make a pause before a sentence: closures of plosives are shorter */
    QUIET_BEHIND = 10, /* and behind one */
    REACH_BEFORE = 40, /* levels that a sentence begins before its first letter is heard, at most */
    REACH_BEHIND = 60,
    NEAR = 25,  /* a pause is near that is no further */
    PAUSE = 12, /* and so long */
    EARLY = 20  /* a letter may be heard so much before or behind its sound */
};

#define LEAST_DB -90.0f
#define MARGIN_DB 8.0f
#define SHARE 0.3f

td_status td_cut_levels_push(td_cut_levels *l, float db)
{
    TD_CHECK(td_alloc_grow(&l->db, &l->capacity, l->count + 1, sizeof *l->db));
    l->db[l->count++] = db > LEAST_DB ? db : LEAST_DB;
    return TD_OK;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

td_status td_cut_levels_judge(td_cut_levels *l)
{
    const size_t seconds = l->count / PER_SECOND + 1;
    float *sorted = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&l->noise, seconds));
    TD_TRY(TD_NEW_ARRAY(&l->speech, seconds));
    TD_TRY(TD_NEW_ARRAY(&sorted, (size_t)(2 * AROUND_S + 1) * PER_SECOND));
    for (size_t s = 0; s < seconds; s++) {
        const size_t first = (s < AROUND_S ? 0 : s - AROUND_S) * PER_SECOND;
        size_t end = (s + AROUND_S + 1) * PER_SECOND;
        if (end > l->count) end = l->count;
        if (first >= end) continue;
        memcpy(sorted, l->db + first, (end - first) * sizeof *sorted);
        qsort(sorted, end - first, sizeof *sorted, compare);
        l->noise[s] = sorted[(end - first) / 10];
        l->speech[s] = sorted[(end - first) * 19 / 20];
    }
fail:
    free(sorted);
    return status;
}

bool td_cut_is_speech(const td_cut_levels *l, size_t at)
{
    if (at >= l->count) return false;
    const float noise = l->noise[at / PER_SECOND], speech = l->speech[at / PER_SECOND];
    return l->db[at] > noise + fmaxf(MARGIN_DB, SHARE * (speech - noise));
}

bool td_cut_is_near_pause(const td_cut_levels *l, size_t at)
{
    size_t quiet = 0;
    for (size_t i = at > NEAR ? at - NEAR : 0; i < at + NEAR; i++) {
        quiet = td_cut_is_speech(l, i) ? 0 : quiet + 1;
        if (quiet == PAUSE) return true;
    }
    return false;
}

static size_t find_quietest(const td_cut_levels *l, size_t first, size_t last)
{
    size_t best = first;
    for (size_t i = first; i <= last && i < l->count; i++)
        if (l->db[i] < l->db[best]) best = i;
    return best;
}

size_t td_cut_find_start(const td_cut_levels *l, size_t at, size_t least, bool *is_tight)
{
    const size_t limit = at > least + REACH_BEFORE ? at - REACH_BEFORE : least;
    size_t quiet = 0, i = at;
    *is_tight = false;
    while (i < at + EARLY && !td_cut_is_speech(l, i))
        i++; /* it was heard before it sounded */
    if (i == at + EARLY) i = at;
    for (; i > limit; i--) {
        quiet = td_cut_is_speech(l, i - 1) ? 0 : quiet + 1;
        if (quiet == QUIET_BEFORE) return i - 1 + QUIET_BEFORE;
    }
    if (limit == 0 && i == 0) return quiet;
    *is_tight = true;
    return find_quietest(l, limit, at);
}

size_t td_cut_find_end(const td_cut_levels *l, size_t at, size_t most, bool *is_tight)
{
    const size_t limit = most > at + REACH_BEHIND ? at + REACH_BEHIND : most;
    size_t quiet = 0, i = at;
    *is_tight = false;
    while (i + EARLY > at && i > 0 && !td_cut_is_speech(l, i))
        i--;
    if (!td_cut_is_speech(l, i)) i = at;
    for (; i < limit; i++) {
        quiet = td_cut_is_speech(l, i) ? 0 : quiet + 1;
        if (quiet == QUIET_BEHIND) return i + 1 - QUIET_BEHIND;
    }
    if (limit >= l->count) return l->count - quiet;
    *is_tight = true;
    return find_quietest(l, at, limit);
}
