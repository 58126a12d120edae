/* See guard.h. Which heads follow the text is not known beforehand: each is asked whether it went through the text in
 * order, and those that did are believed. */
#include "families/xtts/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/xtts/engine_internal.h"

#define LOOP_CODES 24u     /* that a loop has at least: more than a second */
#define CODES_AT_LEAST 60u /* that any text may take, and */
#define CODES_PER_TOKEN 12u
#define DOUBTFUL_AT_LEAST 20u /* as above, where doubts begin: speech has three or four codes a token */
#define DOUBTFUL_PER_TOKEN 5u
#define FADE_CODES 16u /* that the last token may sound: three quarters of a second */
#define LEAST_CODES 8u /* on the way through a text */
#define LAST_KEYS 3u   /* that are its end: the last two tokens and the stop */

/* ---------------------------------------------------------------- loops and lengths */

size_t td_xtts_find_loop(const uint32_t *codes, size_t n)
{
    for (size_t period = 1; period <= TD_XTTS_LOOP_PERIOD; period++) {
        size_t length = 0;
        while (length + period < n && codes[n - 1 - length] == codes[n - 1 - length - period])
            length++;
        if (length + period >= LOOP_CODES && length >= (TD_XTTS_LOOP_TIMES - 1) * period) return length;
    }
    return 0;
}

size_t td_xtts_most_usual_codes(size_t n_tokens)
{
    return CODES_AT_LEAST + CODES_PER_TOKEN * n_tokens;
}

size_t td_xtts_doubtful_codes(size_t n_tokens)
{
    return DOUBTFUL_AT_LEAST + DOUBTFUL_PER_TOKEN * n_tokens;
}

/* ---------------------------------------------------------------- one head */

static size_t find_largest(const float *row, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

bool td_xtts_follow(const float *weights, size_t n, size_t keys, size_t *end)
{
    size_t before = 0, steady = 0, at_end = 0;
    if (keys <= (size_t)2 * LAST_KEYS) return false; /* too short to tell a way from a leap */
    for (size_t i = 0; i < n; i++) {
        const size_t at = find_largest(weights + i * keys, keys);
        if (i == 0 && at > keys / 4) return false;
        steady += at + 1 >= before && at <= before + 4;
        before = at;
        at_end = at >= keys - LAST_KEYS ? at_end + 1 : 0;
        if (at_end < LAST_KEYS) continue;
        *end = i + 1 - at_end;
        return *end >= LEAST_CODES && 2 * *end >= keys && 100 * steady >= 85 * (i + 1);
    }
    return false;
}

/* ---------------------------------------------------------------- all heads */

typedef struct look {
    const td_xtts *c;
    size_t first_code, first_key, n, keys; /* rows of the passage */
    float *qkv, *weights;                  /* [3 heads, rows, head], [n, keys] */
    size_t *ends, n_ends;                  /* of heads that follow */
} look;

/* Of the softmax among the text's keys, which has the same largest. */
static void weigh_keys(const look *l, uint32_t head, size_t rows)
{
    const size_t heads = l->c->gpt_n_heads, size = l->c->gpt_n_model_channels / heads;
    const float *queries = l->qkv + (head * rows + l->first_code) * size;
    const float *keys = l->qkv + ((heads + head) * rows + l->first_key) * size;
    for (size_t i = 0; i < l->n; i++)
        for (size_t j = 0; j < l->keys; j++) {
            float sum = 0;
            for (size_t d = 0; d < size; d++)
                sum += queries[i * size + d] * keys[j * size + d];
            l->weights[i * l->keys + j] = sum;
        }
}

/* Heads follow the text in layers of the middle. */
static uint32_t first_looked(const td_xtts *c)
{
    return c->gpt_layers / 4;
}

static uint32_t end_looked(const td_xtts *c)
{
    return c->gpt_layers - c->gpt_layers / 4;
}

static td_status ask_heads(td_xtts_engine *engine, uint32_t layer, td_xtts_plan *block, td_list *list,
                           void *context)
{
    look *l = context;
    (void)engine;
    (void)list;
    if (layer < first_looked(l->c)) return TD_OK;
    if (!l->qkv) TD_CHECK(TD_NEW_ARRAY(&l->qkv, (size_t)block->size * 3 * l->c->gpt_n_model_channels));
    TD_CHECK(td_xtts_plan_read(block, "qkv", l->qkv));
    for (uint32_t head = 0; head < l->c->gpt_n_heads; head++) {
        weigh_keys(l, head, block->size);
        l->n_ends += td_xtts_follow(l->weights, l->n, l->keys, &l->ends[l->n_ends]);
    }
    return TD_OK;
}

static int compare_sizes(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

td_status td_xtts_find_text_end(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                                size_t n_tokens, const uint32_t *codes, size_t n, size_t *end)
{
    const td_xtts *c = &engine->c;
    /* each code is chosen in the row before its own: nobody looks from the last */
    const td_xtts_passage passage = {
        .timbre = timbre, .tokens = tokens, .n_tokens = n_tokens, .codes = codes, .n_codes = n ? n - 1 : 0};
    look l = {.c = c,
              .first_key = c->perceiver_latents,
              .keys = n_tokens + 2,
              .first_code = c->perceiver_latents + n_tokens + 2,
              .n = n};
    td_status status = TD_OK;
    *end = n;
    TD_TRY(TD_NEW_ARRAY(&l.weights, l.n * l.keys));
    TD_TRY(TD_NEW_ARRAY(&l.ends, (size_t)c->gpt_layers * c->gpt_n_heads + 1));
    TD_TRY(td_xtts_run_blocks(engine, &passage, end_looked(c), ask_heads, &l));
    qsort(l.ends, l.n_ends, sizeof *l.ends, compare_sizes);
    if (l.n_ends > 0 && l.ends[l.n_ends / 2] + FADE_CODES < n) *end = l.ends[l.n_ends / 2] + FADE_CODES;
fail:
    free(l.qkv);
    free(l.weights);
    free(l.ends);
    return status;
}
