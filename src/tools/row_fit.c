/* The fit of sounds to letters (row_fit.h): least squares with a small ridge, three times, each time without the rows
 * that fitted badly before.
 */
#include "tools/row_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum {
    ROUNDS = 3,
    LEAST_ROWS = 40,  /* to fit at all */
    OTHERS = 400,     /* texts that each sound is compared with, evenly spread over the rows */
    FEW_OTHERS = 200, /* of fewer, one or two are more than a per cent, */
    BY_CHANCE = 2,    /* and may fit better by chance */
    N_SOUNDS = TD_FIT_PARTS * TD_FIT_SOUNDS,
    SYMBOL_REST = TD_FIT_SYMBOLS - 2,
    SYMBOL_CONSTANT = TD_FIT_SYMBOLS - 1,
};

static const double RIDGE = 1, FITS = 0.1; /* the share of better texts up to which a row is learnt from */
static const double FEW_FRAMES = 50;       /* of a row: fewer do not make it surer */
static const double LEAST_VARIANCE = 0.05;
static const double USABLE = 0.1; /* where one row in five has more better texts, nothing was learnt */

typedef struct symbol {
    uint32_t codepoint;
    size_t count;
} symbol;

typedef double features[TD_FIT_PARTS][TD_FIT_SYMBOLS];

/* The rows of a speaker, or of all speakers who have few. */
typedef struct group {
    td_fit_row **rows;
    size_t count;
    symbol symbols[SYMBOL_REST];
    features *texts;              /* [count] */
    double (*expected)[N_SOUNDS]; /* [count] sounds as the texts predict them */
    double *leverage;             /* [count, parts] how far a row decides its own prediction */
    double normal[TD_FIT_SYMBOLS][TD_FIT_SYMBOLS]; /* its Cholesky factor, from its own time on */
    double weights[TD_FIT_SYMBOLS][TD_FIT_SOUNDS]; /* right sides before */
    double variance[TD_FIT_SOUNDS];
    double *weight; /* [count]: long rows vary more; 1 on average */
    bool *is_used;  /* [count] */
} group;

/* ---------------------------------------------------------------- letters */

static int compare_counts(const void *a, const void *b)
{
    const symbol *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return (x->codepoint > y->codepoint) - (x->codepoint < y->codepoint);
}

static td_status count_symbols(group *g)
{
    symbol *found = NULL;
    size_t n = 0, capacity = 0;
    td_status status = TD_OK;
    for (size_t i = 0; i < g->count; ++i) {
        const char *text = g->rows[i]->text;
        for (size_t at = 0, bytes = strlen(text); at < bytes;) {
            uint32_t codepoint;
            size_t s = 0;
            at += td_text_utf8_next(text + at, bytes - at, &codepoint);
            while (s < n && found[s].codepoint != codepoint)
                ++s;
            if (s == n) {
                TD_TRY(td_alloc_grow(&found, &capacity, ++n, sizeof *found));
                found[s].codepoint = codepoint;
            }
            ++found[s].count;
        }
    }
    if (n > 0) qsort(found, n, sizeof *found, compare_counts);
    memcpy(g->symbols, found, (n < SYMBOL_REST ? n : SYMBOL_REST) * sizeof *found);
fail:
    free(found);
    return status;
}

static size_t find_symbol(const group *g, uint32_t codepoint)
{
    for (size_t s = 0; s < SYMBOL_REST && g->symbols[s].count > 0; ++s)
        if (g->symbols[s].codepoint == codepoint) return s;
    return SYMBOL_REST;
}

static void count_text(const group *g, const char *text, features out)
{
    size_t n = 0, i = 0;
    uint32_t codepoint;
    const size_t bytes = strlen(text);
    memset(out, 0, sizeof(features));
    for (size_t at = 0; at < bytes; ++n)
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
    for (size_t at = 0; at < bytes; ++i) {
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        const size_t s = find_symbol(g, codepoint);
        for (size_t p = 0; p < TD_FIT_PARTS; ++p)
            out[p][s] += td_fit_weight(p, ((double)i + 0.5) / (double)n);
    }
    for (size_t p = 0; p < TD_FIT_PARTS; ++p)
        out[p][SYMBOL_CONSTANT] = 0.5;
}

/* ---------------------------------------------------------------- least squares */

static void sum_products(group *g)
{
    memset(g->normal, 0, sizeof g->normal);
    memset(g->weights, 0, sizeof g->weights);
    for (size_t a = 0; a < TD_FIT_SYMBOLS; ++a)
        g->normal[a][a] = RIDGE;
    for (size_t i = 0; i < g->count * TD_FIT_PARTS; ++i) {
        const double *x = g->texts[i / TD_FIT_PARTS][i % TD_FIT_PARTS];
        const float *y = g->rows[i / TD_FIT_PARTS]->bag.counts[i % TD_FIT_PARTS];
        if (!g->is_used[i / TD_FIT_PARTS]) continue;
        for (size_t a = 0; a < TD_FIT_SYMBOLS; ++a) {
            const double weighted = x[a] * g->weight[i / TD_FIT_PARTS];
            if (x[a] == 0) continue;
            for (size_t b = 0; b <= a; ++b)
                g->normal[a][b] += weighted * x[b];
            for (size_t k = 0; k < TD_FIT_SOUNDS; ++k)
                g->weights[a][k] += weighted * y[k];
        }
    }
}

/* The lower factor, in place; the ridge keeps it positive. */
static void factorise(group *g)
{
    for (size_t a = 0; a < TD_FIT_SYMBOLS; ++a)
        for (size_t b = 0; b <= a; ++b) {
            double sum = g->normal[a][b];
            for (size_t c = 0; c < b; ++c)
                sum -= g->normal[a][c] * g->normal[b][c];
            g->normal[a][b] = a == b ? sqrt(sum) : sum / g->normal[b][b];
        }
}

static void solve(group *g)
{
    for (size_t k = 0; k < TD_FIT_SOUNDS; ++k) {
        for (size_t a = 0; a < TD_FIT_SYMBOLS; ++a) {
            for (size_t b = 0; b < a; ++b)
                g->weights[a][k] -= g->normal[a][b] * g->weights[b][k];
            g->weights[a][k] /= g->normal[a][a];
        }
        for (size_t a = TD_FIT_SYMBOLS; a-- > 0;) {
            for (size_t b = a + 1; b < TD_FIT_SYMBOLS; ++b)
                g->weights[a][k] -= g->normal[b][a] * g->weights[b][k];
            g->weights[a][k] /= g->normal[a][a];
        }
    }
}

/* x' N^-1 x: the squares of what the factor makes of x. */
static double find_leverage(const group *g, const double x[TD_FIT_SYMBOLS])
{
    double z[TD_FIT_SYMBOLS], sum = 0;
    for (size_t a = 0; a < TD_FIT_SYMBOLS; ++a) {
        z[a] = x[a];
        for (size_t b = 0; b < a; ++b)
            z[a] -= g->normal[a][b] * z[b];
        z[a] /= g->normal[a][a];
        sum += z[a] * z[a];
    }
    return sum;
}

static void predict(group *g)
{
    for (size_t i = 0; i < g->count * TD_FIT_PARTS; ++i) {
        const size_t row = i / TD_FIT_PARTS, part = i % TD_FIT_PARTS;
        const double *x = g->texts[row][part];
        double *y = g->expected[row] + part * TD_FIT_SOUNDS;
        memset(y, 0, TD_FIT_SOUNDS * sizeof *y);
        for (size_t a = 0; a < TD_FIT_SYMBOLS; ++a)
            for (size_t k = 0; k < TD_FIT_SOUNDS && x[a] != 0; ++k)
                y[k] += x[a] * g->weights[a][k];
        g->leverage[i] = g->is_used[row] ? g->weight[row] * find_leverage(g, x) : 0;
    }
}

/* What is left of a row's sounds, as if the row itself had not been learnt from. */
static double get_residual(const group *g, size_t row, size_t part, size_t sound)
{
    return (g->rows[row]->bag.counts[part][sound] - g->expected[row][part * TD_FIT_SOUNDS + sound]) /
           (1 - g->leverage[row * TD_FIT_PARTS + part]);
}

static void find_variances(group *g)
{
    size_t n = 0;
    memset(g->variance, 0, sizeof g->variance);
    for (size_t i = 0; i < g->count; ++i) {
        if (!g->is_used[i]) continue;
        n += TD_FIT_PARTS;
        for (size_t j = 0; j < N_SOUNDS; ++j) {
            const double r = get_residual(g, i, j / TD_FIT_SOUNDS, j % TD_FIT_SOUNDS);
            g->variance[j % TD_FIT_SOUNDS] += g->weight[i] * r * r;
        }
    }
    for (size_t k = 0; k < TD_FIT_SOUNDS; ++k)
        g->variance[k] = g->variance[k] / (double)n + LEAST_VARIANCE;
}

/* ---------------------------------------------------------------- judging */

/* A pool's task: how many other texts fit the row's sound better than its own. */
static td_status compare_row(void *context, size_t row)
{
    const group *g = context;
    const float *heard = &g->rows[row]->bag.counts[0][0];
    const size_t step = g->count > OTHERS ? g->count / OTHERS : 1;
    double own = 0;
    size_t n_better = 0, n_others = 0;
    for (size_t j = 0; j < N_SOUNDS; ++j) {
        const double r = get_residual(g, row, j / TD_FIT_SOUNDS, j % TD_FIT_SOUNDS);
        own += r * r / g->variance[j % TD_FIT_SOUNDS];
    }
    for (size_t other = row % step; other < g->count; other += step) {
        if (strcmp(g->rows[other]->text, g->rows[row]->text) == 0) continue;
        double sum = 0;
        for (size_t j = 0; j < N_SOUNDS && sum < own; ++j) {
            const double d = heard[j] - g->expected[other][j];
            sum += d * d / g->variance[j % TD_FIT_SOUNDS];
        }
        n_better += sum < own;
        ++n_others;
    }
    if (n_others < FEW_OTHERS && n_better <= BY_CHANCE) n_better = 0;
    g->rows[row]->better = n_others > 0 ? (double)n_better / (double)n_others : NAN;
    return TD_OK;
}

static td_status allocate(group *g)
{
    TD_CHECK(TD_NEW_ARRAY(&g->texts, g->count));
    TD_CHECK(TD_NEW_ARRAY(&g->expected, g->count));
    TD_CHECK(TD_NEW_ARRAY(&g->leverage, g->count * TD_FIT_PARTS));
    TD_CHECK(TD_NEW_ARRAY(&g->weight, g->count));
    return TD_NEW_ARRAY(&g->is_used, g->count);
}

static void set_weights(group *g)
{
    double sum = 0;
    for (size_t i = 0; i < g->count; ++i) {
        double frames = 0;
        for (size_t j = 0; j < N_SOUNDS; ++j)
            frames += (&g->rows[i]->bag.counts[0][0])[j];
        g->weight[i] = 1 / (frames + FEW_FRAMES);
        sum += g->weight[i];
    }
    for (size_t i = 0; i < g->count; ++i)
        g->weight[i] *= (double)g->count / sum;
}

static int compare_better(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Whether four of five rows find their own text; where not, letters tell nothing of sounds here. */
static void check_use(group *g, double *sorted)
{
    for (size_t i = 0; i < g->count; ++i)
        sorted[i] = g->rows[i]->better;
    qsort(sorted, g->count, sizeof *sorted, compare_better);
    if (sorted[g->count * 4 / 5] <= USABLE) return;
    for (size_t i = 0; i < g->count; ++i)
        g->rows[i]->better = NAN;
}

static td_status fit_group(group *g, td_pool *pool)
{
    td_status status = TD_OK;
    TD_TRY(allocate(g));
    TD_TRY(count_symbols(g));
    for (size_t i = 0; i < g->count; ++i) {
        count_text(g, g->rows[i]->text, g->texts[i]);
        g->is_used[i] = true;
    }
    set_weights(g);
    for (size_t round = 0; round < ROUNDS; ++round) {
        size_t n_used = 0;
        sum_products(g);
        factorise(g);
        solve(g);
        predict(g);
        find_variances(g);
        TD_TRY(td_pool_map(pool, g->count, compare_row, g));
        for (size_t i = 0; i < g->count; ++i) {
            g->is_used[i] = g->rows[i]->better <= FITS;
            n_used += g->is_used[i];
        }
        if (n_used < LEAST_ROWS / 2) break;
    }
    check_use(g, g->leverage);
fail:
    free(g->texts);
    free((void *)g->expected);
    free(g->leverage);
    free(g->weight);
    free(g->is_used);
    return status;
}

/* ---------------------------------------------------------------- speakers */

static bool is_known(const td_fit_row *row)
{
    for (size_t k = 0; k < N_SOUNDS; ++k)
        if ((&row->bag.counts[0][0])[k] > 0) return true;
    return false;
}

static int compare_speakers(const void *a, const void *b)
{
    const td_fit_row *x = *(td_fit_row *const *)a, *y = *(td_fit_row *const *)b;
    if (x->speaker != y->speaker) return x->speaker < y->speaker ? -1 : 1;
    return (x > y) - (x < y);
}

/* Rows of few-worded speakers are moved to the front, where they are fitted together; returns how many. */
static size_t gather_few(td_fit_row **sorted, size_t count, td_fit_row **scratch)
{
    size_t n_few = 0, n_many = 0;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && sorted[end]->speaker == sorted[first]->speaker;)
            ++end;
        const bool is_few = end - first < TD_FIT_LEAST_ROWS;
        for (size_t i = first; i < end; ++i) {
            if (is_few)
                sorted[n_few++] = sorted[i];
            else
                scratch[n_many++] = sorted[i];
        }
    }
    memcpy((void *)(sorted + n_few), (void *)scratch, n_many * sizeof *scratch);
    return n_few;
}

td_status td_fit_run(td_fit_row *rows, size_t count, td_pool *pool)
{
    td_status status = TD_OK;
    td_fit_row **sorted = NULL, **scratch = NULL;
    group *g = NULL;
    size_t n = 0;
    TD_TRY(TD_NEW_ARRAY(&sorted, count + 1));
    TD_TRY(TD_NEW_ARRAY(&scratch, count + 1));
    TD_TRY(TD_NEW(&g));
    for (size_t i = 0; i < count; ++i) {
        rows[i].better = NAN;
        if (is_known(&rows[i])) sorted[n++] = &rows[i];
    }
    qsort((void *)sorted, n, sizeof *sorted, compare_speakers);
    const size_t n_few = gather_few(sorted, n, scratch);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first < n_few ? n_few : first;
             end < n && sorted[end]->speaker == sorted[first]->speaker && first >= n_few;)
            ++end;
        if (end - first < LEAST_ROWS) continue;
        *g = (group){.rows = sorted + first, .count = end - first};
        TD_TRY(fit_group(g, pool));
    }
fail:
    free(g);
    free((void *)scratch);
    free((void *)sorted);
    return status;
}
