/* See sampling.h. */
#include "families/xtts/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

td_status td_xtts_chooser_open(size_t n, td_xtts_chooser *out)
{
    td_status status = TD_OK;
    *out = (td_xtts_chooser){.n = n};
    TD_TRY(TD_NEW_ARRAY(&out->spoken, n));
    TD_TRY(TD_NEW_ARRAY(&out->scores, n));
    TD_TRY(TD_NEW_ARRAY(&out->order, n));
    return TD_OK;
fail:
    td_xtts_chooser_close(out);
    return status;
}

void td_xtts_chooser_close(td_xtts_chooser *chooser)
{
    free(chooser->spoken);
    free(chooser->scores);
    free(chooser->order);
    *chooser = (td_xtts_chooser){0};
}

static void penalise(td_xtts_chooser *c, double penalty, const float *logits)
{
    const float r = (float)penalty;
    for (size_t i = 0; i < c->n; i++)
        c->scores[i] = !c->spoken[i] ? logits[i] : logits[i] < 0 ? logits[i] * r : logits[i] / r;
}

/* Codes by score, the lowest first; of equals the first. */
static int compare(const void *a, const void *b, void *scores)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const float x = ((const float *)scores)[i], y = ((const float *)scores)[j];
    return x < y ? -1 : x > y ? 1 : i < j ? -1 : i > j;
}

static void sort(td_xtts_chooser *c)
{
    for (size_t i = 0; i < c->n; i++)
        c->order[i] = (uint32_t)i;
    qsort_r(c->order, c->n, sizeof *c->order, compare, c->scores);
}

/* Scores to probabilities. */
static void normalise(td_xtts_chooser *c)
{
    float most = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < c->n; i++)
        most = fmaxf(most, c->scores[i]);
    for (size_t i = 0; i < c->n; i++)
        sum += exp((double)c->scores[i] - (double)most);
    for (size_t i = 0; i < c->n; i++)
        c->scores[i] = (float)(exp((double)c->scores[i] - (double)most) / sum);
}

/* What is below the k-th goes; what equals it stays. */
static void keep_top_k(td_xtts_chooser *c, size_t k)
{
    if (k == 0 || k >= c->n) return;
    const float least = c->scores[c->order[c->n - k]];
    for (size_t i = 0; i < c->n; i++)
        if (c->scores[i] < least) c->scores[i] = -INFINITY;
}

/* From the least likely on, what together has no more than 1 - p goes; the likeliest stays. Order is still right, since
 * what went before was the lowest. */
static void keep_top_p(td_xtts_chooser *c, double p)
{
    double sum = 0, below = 0;
    const double most = (double)c->scores[c->order[c->n - 1]];
    for (size_t i = 0; i < c->n; i++)
        sum += exp((double)c->scores[i] - most);
    for (size_t i = 0; i + 1 < c->n; i++) {
        float *score = &c->scores[c->order[i]];
        below += exp((double)*score - most) / sum;
        if (below > 1 - p) break;
        *score = -INFINITY;
    }
}

void td_xtts_weigh(td_xtts_chooser *chooser, const td_xtts_sampling *s, const float *logits)
{
    penalise(chooser, s->repetition_penalty, logits);
    for (size_t i = 0; i < chooser->n; i++)
        chooser->scores[i] /= (float)s->temperature;
    sort(chooser);
    keep_top_k(chooser, s->top_k);
    if (s->top_p < 1) keep_top_p(chooser, s->top_p);
    normalise(chooser);
}

static uint32_t find_best(const td_xtts_chooser *c)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->n; i++)
        if (c->scores[i] > c->scores[best]) best = i;
    return best;
}

uint32_t td_xtts_choose(td_xtts_chooser *chooser, const td_xtts_sampling *s, const float *logits,
                        uint64_t stream, uint64_t index)
{
    if (s->greedy) {
        penalise(chooser, s->repetition_penalty, logits);
        return find_best(chooser);
    }
    td_xtts_weigh(chooser, s, logits);
    const double drawn = td_rng_double(s->seed, stream, index);
    double sum = 0;
    for (uint32_t i = 0; i < chooser->n; i++) {
        sum += (double)chooser->scores[i];
        if (chooser->scores[i] > 0 && drawn < sum) return i;
    }
    return find_best(chooser); /* rounding left the sum below 1 */
}
