/* Cases of src/ops/align.h against a search in double. Likelihoods are multiples of 1/8 below 32 in size, so
 * that sums are exact in float too, ties are true ties, and durations and indices must agree to the last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/align.h"
#include "suite.h"

typedef struct align_case {
    uint32_t items, tokens, frames;
} align_case;

enum { X, LENGTHS, EDGE, BITS, DURATIONS, INDEX };

static td_status launch_align(const op_case *c, td_list *list, const td_span *s)
{
    const align_case *n = c->args;
    return td_op_align(list, &(td_align_args){.items = n->items,
                                              .tokens = n->tokens,
                                              .frames = n->frames,
                                              .x = s[X],
                                              .lengths = s[LENGTHS],
                                              .edge = s[EDGE],
                                              .bits = s[BITS],
                                              .durations = s[DURATIONS],
                                              .index = s[INDEX]});
}

/* best[j][t]: greatest sum of a path from token 0 at frame 0 to token j at frame t. x [tokens, frames]. */
static void search(const float *x, uint32_t frames, uint32_t n_tokens, uint32_t n_frames, uint32_t *index)
{
    double *best = calloc((size_t)n_tokens * n_frames, sizeof *best);
    if (!best) abort();
    for (uint32_t j = 0; j < n_tokens; j++)
        for (uint32_t t = j; t < n_frames; t++) {
            double before = t == 0 ? 0 : -1e300;
            if (t > j) before = best[(size_t)j * n_frames + t - 1];
            if (j > 0 && best[(size_t)(j - 1) * n_frames + t - 1] > before)
                before = best[(size_t)(j - 1) * n_frames + t - 1];
            best[(size_t)j * n_frames + t] = before + (double)x[(size_t)j * frames + t];
        }
    uint32_t j = n_tokens - 1;
    for (uint32_t t = n_frames - 1;; t--) {
        index[t] = j;
        if (t == 0) break;
        const bool can_stay = t > j;
        const double stay = can_stay ? best[(size_t)j * n_frames + t - 1] : -1e300;
        if (j > 0 && best[(size_t)(j - 1) * n_frames + t - 1] > stay) j--;
    }
    free(best);
}

static void add_align(op_suite *suite, align_case n, uint32_t levels)
{
    const size_t count = (size_t)n.items * n.tokens * n.frames;
    op_case c = {.op = "align", .kernels = "align_search align_path", .launch = launch_align};
    snprintf(c.label, sizeof c.label, "%u items, %u tokens, %u frames, %u levels", n.items, n.tokens,
             n.frames, levels);
    *(align_case *)op_args(&c, sizeof n) = n;
    op_io *x = op_random(&c, "x", count, 0, (float)levels, 101);
    for (size_t i = 0; i < count; i++)
        x->values[i] = -0.125f * (float)(uint32_t)x->values[i];
    uint32_t *lengths = (uint32_t *)(void *)op_input(&c, "lengths", 2 * (size_t)n.items)->values;
    for (uint32_t b = 0; b < n.items; b++) {
        /* The first is full; one of the others has more tokens than frames, one nothing at all. */
        lengths[b] = b == 0 ? n.tokens : n.tokens * 7 * b / 8 % (n.tokens + 1);
        lengths[n.items + b] = b == 0 ? n.frames : b == 1 ? n.tokens / 2 + 1 : n.frames - b % n.frames;
    }
    if (n.items > 3) lengths[3] = 0;
    op_scratch(&c, "edge", (size_t)n.items * n.frames);
    op_scratch(&c, "bits", td_op_align_bits(n.items, n.tokens, n.frames));
    op_io *durations = op_output_words(&c, "durations", (size_t)n.items * n.tokens);
    op_io *index = op_output_words(&c, "index", (size_t)n.items * n.frames);
    for (uint32_t b = 0; b < n.items; b++) {
        const uint32_t n_frames = lengths[n.items + b] < n.frames ? lengths[n.items + b] : n.frames;
        const uint32_t n_tokens = lengths[b] < n_frames ? lengths[b] : n_frames;
        uint32_t *path = index->words + (size_t)b * n.frames;
        if (n_tokens == 0) continue;
        search(x->values + (size_t)b * n.tokens * n.frames, n.frames, n_tokens, n_frames, path);
        for (uint32_t t = 0; t < n_frames; t++)
            durations->words[(size_t)b * n.tokens + path[t]]++;
    }
    op_suite_add(suite, &c);
}

void cases_align(op_suite *suite, td_device *device);
void cases_align(op_suite *suite, td_device *device)
{
    static const align_case SIZES[] = {{1, 1, 1},   {1, 1, 40},   {2, 7, 7},     {4, 8, 33},   {3, 9, 64},
                                       {5, 31, 97}, {4, 65, 200}, {2, 129, 150}, {4, 300, 401}};
    (void)device;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        add_align(suite, SIZES[i], 200);
        add_align(suite, SIZES[i], 3); /* many ties */
        add_align(suite, SIZES[i], 1); /* nothing but ties */
    }
}
