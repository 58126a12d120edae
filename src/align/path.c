/* See path.h. A way is either between two sentences, where anything may be heard, or at a letter of a sentence or behind
 * one. States of sentence j: even ones are its letters, odd ones the quiet behind each but the last; of these, only those
 * from the first to the last that is near the best way are looked at. What a way has found is a chain of links, kept in
 * order of their making; those that no way needs any more are swept out now and then. */
#include "align/path.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

const td_path_prices TD_PATH_USUAL = {
    .pass_over = -1.2f, .skip_first = -14.0f, .skip_more = -0.7f, .beam = 160.0f};
const td_path_prices TD_PATH_LOOSE = {.pass_over = -2.0f,
                                      .skip_first = -14.0f,
                                      .skip_more = -0.7f,
                                      .nothing = -2.0f,
                                      .asks_hints = true,
                                      .beam = 300.0f};

enum { NO_LINK = 0, SWEEP_FROM = 1 << 14 };

typedef struct link {
    uint32_t before; /* NO_LINK: none */
    td_found found;
} link;

/* The best way to a state. */
typedef struct cell {
    float score;    /* -INFINITY: none is followed */
    uint32_t start; /* the step its sentence began with */
    uint32_t link;  /* what was found before */
} cell;

/* States of a sentence that ways are in: first <= state < end. */
typedef struct range {
    uint32_t first, end;
} range;

struct td_path {
    td_path_text text;
    const td_path_prices *prices;
    size_t classes;
    float *priced;  /* [classes]: a step's values with prices */
    size_t *at;     /* [sentences + 1]: the first state of each */
    cell *cells;    /* by state; outside of the ranges without a way */
    range *ranges;  /* [sentences] */
    float *best;    /* [sentences]: of its states; -INFINITY: none is followed */
    float *between; /* [sentences + 1]: scores of ways that wait for this sentence */
    uint32_t *between_links;
    size_t low, high; /* sentences that ways are in or wait for: low <= j < high */
    link *nodes;      /* the first stands for none */
    size_t n_nodes, capacity, sweep_at;
    float lead; /* the best score of the step before, which the next one begins from as 0 */
    uint32_t step;
    bool may_turn; /* a sentence may begin or end at this step */
};

td_status td_path_create(const td_path_text *text, size_t classes, const td_path_prices *prices,
                         td_path **out)
{
    td_path *p = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&p));
    *p = (td_path){
        .text = *text, .prices = prices, .classes = classes, .high = 1, .n_nodes = 1, .sweep_at = SWEEP_FROM};
    TD_TRY(TD_NEW_ARRAY(&p->priced, classes));
    TD_TRY(TD_NEW_ARRAY(&p->at, text->count + 1));
    for (size_t j = 0; j < text->count; j++) {
        const size_t letters = text->firsts[j + 1] - text->firsts[j];
        p->at[j + 1] = p->at[j] + (letters ? 2 * letters - 1 : 0);
    }
    const size_t states = p->at[text->count];
    TD_TRY(TD_NEW_ARRAY(&p->cells, states + 1));
    TD_TRY(TD_NEW_ARRAY(&p->ranges, text->count + 1));
    TD_TRY(TD_NEW_ARRAY(&p->best, text->count + 1));
    TD_TRY(TD_NEW_ARRAY(&p->between, text->count + 1));
    TD_TRY(TD_NEW_ARRAY(&p->between_links, text->count + 1));
    TD_TRY(td_alloc_grow(&p->nodes, &p->capacity, 1024, sizeof *p->nodes));
    for (size_t i = 0; i < states; i++)
        p->cells[i].score = -INFINITY;
    for (size_t j = 0; j <= text->count; j++)
        p->best[j] = p->between[j] = -INFINITY;
    p->between[0] = 0;
    *out = p;
    return TD_OK;
fail:
    td_path_destroy(p);
    return status;
}

void td_path_destroy(td_path *p)
{
    if (!p) return;
    free(p->at);
    free(p->priced);
    free(p->cells);
    free(p->ranges);
    free(p->best);
    free(p->between);
    free(p->between_links);
    free(p->nodes);
    free(p);
}

/* ---------------------------------------------------------------- links */

/* A place that holds a link, and the score of the way there. */
typedef struct holder {
    float score;
    uint32_t *link;
} holder;

/* Ways that wait come first, then those in sentences. */
static size_t count_holders(const td_path *p)
{
    const size_t behind = p->high <= p->text.count ? p->high : p->text.count;
    return p->at[behind] - p->at[p->low] + p->high - p->low;
}

static holder get_holder(td_path *p, size_t n)
{
    const size_t waiting = p->high - p->low;
    if (n < waiting) return (holder){p->between[p->low + n], &p->between_links[p->low + n]};
    cell *c = &p->cells[p->at[p->low] + n - waiting];
    return (holder){c->score, &c->link};
}

/* Keeps the links that ways have, in order. */
static td_status sweep(td_path *p)
{
    const size_t n_holders = count_holders(p);
    bool *used = NULL;
    uint32_t *to = NULL;
    size_t kept = 1;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&used, p->n_nodes));
    TD_TRY(TD_NEW_ARRAY(&to, p->n_nodes));
    for (size_t i = 0; i < n_holders; i++) {
        const holder h = get_holder(p, i);
        if (h.score == -INFINITY) *h.link = NO_LINK; /* nobody follows it any more */
        used[*h.link] = true;
    }
    for (size_t i = p->n_nodes; i-- > 1;)
        if (used[i]) used[p->nodes[i].before] = true;
    for (size_t i = 1; i < p->n_nodes; i++) {
        if (!used[i]) continue;
        p->nodes[kept] = p->nodes[i];
        p->nodes[kept].before = to[p->nodes[i].before];
        to[i] = (uint32_t)kept++;
    }
    for (size_t i = 0; i < n_holders; i++) {
        const holder h = get_holder(p, i);
        *h.link = to[*h.link];
    }
    p->n_nodes = kept;
    p->sweep_at = kept + SWEEP_FROM;
fail:
    free(used);
    free(to);
    return status;
}

/* The end of sentence j as a link. */
static td_status add_link(td_path *p, size_t j, uint32_t *out)
{
    const size_t state = p->at[j + 1] - 1;
    TD_CHECK(td_alloc_grow(&p->nodes, &p->capacity, p->n_nodes + 1, sizeof *p->nodes));
    p->nodes[p->n_nodes] = (link){p->cells[state].link, {(uint32_t)j, p->cells[state].start, p->step - 1}};
    *out = (uint32_t)p->n_nodes++;
    return TD_OK;
}

/* ---------------------------------------------------------------- a step */

/* Ends ways at both ends of a sentence's states that are far below the best. */
static void trim(const td_path *p, size_t j)
{
    cell *cells = p->cells + p->at[j];
    range *r = &p->ranges[j];
    const float least = p->lead - p->prices->beam;
    while (r->first < r->end && cells[r->end - 1].score < least)
        cells[--r->end].score = -INFINITY;
    while (r->first < r->end && cells[r->first].score < least)
        cells[r->first++].score = -INFINITY;
}

/* The states of sentence j from those of the step before, the last first. */
static void step_sentence(td_path *p, size_t j, const float *heard)
{
    const uint32_t n = (uint32_t)(p->at[j + 1] - p->at[j]);
    const uint16_t *letters = p->text.classes + p->text.firsts[j];
    cell *cells = p->cells + p->at[j];
    range *r = &p->ranges[j];
    float best = -INFINITY;
    if (n == 0) return;
    trim(p, j);
    if (r->first < r->end) r->end = r->end + 2 < n ? r->end + 2 : n;
    for (uint32_t i = r->end; i-- > r->first && i > 0;) {
        const cell *from = &cells[i];
        if (cells[i - 1].score > from->score) from = &cells[i - 1];
        if (i % 2 == 0 && cells[i - 2].score > from->score && letters[i / 2] != letters[i / 2 - 1])
            from = &cells[i - 2];
        cells[i] = *from;
        cells[i].score += heard[i % 2 ? 0 : letters[i / 2]];
        best = fmaxf(best, cells[i].score);
    }
    if (p->may_turn && p->between[j] > cells[0].score) {
        cells[0] = (cell){p->between[j], p->step, p->between_links[j]};
        r->end = r->first < r->end ? r->end : 1;
        r->first = 0;
    }
    cells[0].score += heard[letters[0]];
    p->best[j] = fmaxf(best, cells[0].score);
}

/* Ways that wait for sentence j: they go on waiting, or come from the end of the one before, whose states are still those
 * of the step before. */
static td_status step_between(td_path *p, size_t j, float price)
{
    if (p->may_turn && j > 0 && p->best[j - 1] > -INFINITY && p->at[j] > p->at[j - 1]) {
        const float score = p->cells[p->at[j] - 1].score;
        if (score > p->between[j]) {
            p->between[j] = score;
            TD_CHECK(add_link(p, j - 1, &p->between_links[j]));
        }
    }
    p->between[j] += price;
    return TD_OK;
}

/* Sentences that are skipped, and the best score of all. */
static float skip(td_path *p)
{
    float best = -INFINITY, gap = -INFINITY;
    uint32_t gap_link = NO_LINK;
    for (size_t j = p->low; j <= p->text.count; j++) {
        if (j == p->high) { /* nobody waits for it yet */
            if (gap <= best - p->prices->beam) break;
            p->high++;
        }
        if (gap > p->between[j]) {
            p->between[j] = gap;
            p->between_links[j] = gap_link;
        }
        best = fmaxf(best, p->between[j]);
        if (j < p->text.count) best = fmaxf(best, p->best[j]);
        if (p->between[j] + p->prices->skip_first > gap) {
            gap = p->between[j] + p->prices->skip_first;
            gap_link = p->between_links[j];
        }
        gap += p->prices->skip_more;
    }
    return best;
}

static void give_up(td_path *p, size_t j)
{
    cell *cells = p->cells + p->at[j];
    for (uint32_t i = p->ranges[j].first; i < p->ranges[j].end; i++)
        cells[i].score = -INFINITY;
    p->ranges[j] = (range){0};
    p->best[j] = -INFINITY;
}

/* Ways far below the best end. */
static void prune(td_path *p, float best)
{
    const float least = best - p->prices->beam;
    size_t low = p->high, high = p->low;
    for (size_t j = p->low; j < p->high; j++) {
        if (p->between[j] < least) p->between[j] = -INFINITY;
        if (j < p->text.count && p->best[j] < least && p->best[j] > -INFINITY) give_up(p, j);
        if (p->between[j] == -INFINITY && !(j < p->text.count && p->best[j] > -INFINITY)) continue;
        if (low == p->high) low = j;
        high = j + 1;
    }
    p->low = low < high ? low : p->low;
    p->high = high < p->text.count + 1 && p->best[high - 1] > -INFINITY ? high + 1 : high;
    p->lead = best;
}

/* Values of a step as ways pay them, less the lead. Hearing nothing has its price where somebody speaks, and then the best
 * of all is 0 again. */
static const float *price_step(td_path *p, const float *heard, bool is_speech)
{
    const float nothing = is_speech ? p->prices->nothing : 0;
    float best = heard[0] + nothing;
    for (size_t i = 1; i < p->classes; i++)
        best = fmaxf(best, heard[i]);
    const float less = (is_speech ? best : 0) + p->lead;
    for (size_t i = 0; i < p->classes; i++)
        p->priced[i] = heard[i] + (i == 0 ? nothing : 0) - less;
    return p->priced;
}

static td_status push_step(td_path *p, const float *heard, unsigned char hints)
{
    const bool is_speech = p->prices->asks_hints && (hints & TD_PATH_SPEECH);
    const float *priced = price_step(p, heard, is_speech);
    const float price = is_speech ? p->prices->pass_over : fmaxf(heard[0], p->prices->pass_over);
    p->may_turn = !p->prices->asks_hints || (hints & TD_PATH_NEAR_PAUSE);
    for (size_t j = p->high; j-- > p->low;) {
        if (j < p->text.count && (p->best[j] > -INFINITY || p->between[j] > -INFINITY))
            step_sentence(p, j, priced);
        TD_CHECK(step_between(p, j, price - p->lead));
    }
    prune(p, skip(p));
    p->step++;
    return p->n_nodes > p->sweep_at ? sweep(p) : TD_OK;
}

td_status td_path_push(td_path *p, const float *heard, const unsigned char *hints, size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        TD_CHECK(push_step(p, heard + i * p->classes, hints ? hints[i] : 0));
    return TD_OK;
}

/* ---------------------------------------------------------------- the end */

td_status td_path_finish(td_path *p, td_found **out, size_t *count)
{
    uint32_t last = NO_LINK;
    float best = -INFINITY;
    *out = NULL;
    *count = 0;
    p->may_turn = true;
    for (size_t j = p->high; j-- > p->low;) {
        TD_CHECK(step_between(p, j, 0));
        const size_t left = p->text.count - j;
        const float score =
            p->between[j] + (left ? p->prices->skip_first + p->prices->skip_more * (float)left : 0);
        if (score <= best) continue;
        best = score;
        last = p->between_links[j];
    }
    for (uint32_t i = last; i != NO_LINK; i = p->nodes[i].before)
        ++*count;
    TD_CHECK(TD_NEW_ARRAY(out, *count + 1));
    size_t at = *count;
    for (uint32_t i = last; i != NO_LINK; i = p->nodes[i].before)
        (*out)[--at] = p->nodes[i].found;
    return TD_OK;
}
