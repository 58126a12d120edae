/* Cases of src/ops/align.h: the search against one in double, and what is made of alignments and lengths.
 * Likelihoods are multiples of 1/8 below 32 in size, so that sums are exact in float too, ties are true ties,
 * and durations and indices must agree to the last. */
#include <math.h>
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

/* ---------------------------------------------------------------- masks and counts */

typedef struct mask_case {
    uint32_t items, frames, kind;
} mask_case;

static td_status launch_mask(const op_case *c, td_list *list, const td_span *s)
{
    const mask_case *n = c->args;
    return td_op_align_mask(list, n->items, n->frames, n->kind, s[0], s[1]);
}

/* Lengths from none to too many. */
static uint32_t *add_lengths(op_case *c, const char *name, uint32_t items, uint32_t most)
{
    uint32_t *lengths = (uint32_t *)(void *)op_input(c, name, items)->values;
    for (uint32_t b = 0; b < items; b++)
        lengths[b] = b == 0 ? most : b == 1 ? 0 : b == 2 ? most + 3 : (most * b / 5) % (most + 1);
    return lengths;
}

static void add_mask(op_suite *suite, mask_case n)
{
    op_case c = {.op = "align mask", .kernels = "align_mask", .launch = launch_mask};
    double total = 0;
    snprintf(c.label, sizeof c.label, "%u items, %u frames, kind %u", n.items, n.frames, n.kind);
    *(mask_case *)op_args(&c, sizeof n) = n;
    const uint32_t *lengths = add_lengths(&c, "lengths", n.items, n.frames);
    op_io *mask = op_output(&c, "mask", (size_t)n.items * n.frames, 0, 1e-6);
    for (uint32_t b = 0; b < n.items; b++)
        total += lengths[b] < n.frames ? lengths[b] : n.frames;
    for (uint32_t b = 0; b < n.items; b++) {
        const uint32_t valid = lengths[b] < n.frames ? lengths[b] : n.frames;
        for (uint32_t t = 0; t < valid; t++)
            mask->expected[(size_t)b * n.frames + t] = n.kind == TD_MASK_ONE   ? 1
                                                       : n.kind == TD_MASK_ALL ? 1 / total
                                                       : n.kind == TD_MASK_OWN ? 1.0 / valid
                                                                               : t + 1 == valid;
    }
    op_suite_add(suite, &c);
}

static td_status launch_counts(const op_case *c, td_list *list, const td_span *s)
{
    const mask_case *n = c->args;
    return td_op_align_counts(list, n->items, n->kind, s[0], s[1]);
}

static void add_counts(op_suite *suite, uint32_t n, uint32_t divisor)
{
    op_case c = {.op = "align counts", .kernels = "align_counts", .launch = launch_counts};
    snprintf(c.label, sizeof c.label, "%u by %u", n, divisor);
    *(mask_case *)op_args(&c, sizeof(mask_case)) = (mask_case){.items = n, .kind = divisor};
    const uint32_t *lengths = add_lengths(&c, "lengths", n, 97);
    op_io *y = op_output_words(&c, "y", n);
    for (uint32_t i = 0; i < n; i++)
        y->words[i] = (uint32_t)ceil((double)lengths[i] / divisor);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- of alignments */

typedef struct aligned_case {
    align_case size;
    uint32_t kind; /* of tokens; or frames of a step */
} aligned_case;

enum { A_DURATIONS, A_INDEX, A_LENGTHS, A_X, A_Y };

static td_aligned_args args_of(const op_case *c, const td_span *s)
{
    const aligned_case *n = c->args;
    return (td_aligned_args){.items = n->size.items,
                             .tokens = n->size.tokens,
                             .frames = n->size.frames,
                             .durations = s[A_DURATIONS],
                             .index = s[A_INDEX],
                             .lengths = s[A_LENGTHS],
                             .x = s[A_X],
                             .y = s[A_Y]};
}

static td_status launch_features(const op_case *c, td_list *list, const td_span *s)
{
    const td_aligned_args args = args_of(c, s);
    return td_op_align_features(list, &args);
}

static td_status launch_tokens(const op_case *c, td_list *list, const td_span *s)
{
    const td_aligned_args args = args_of(c, s);
    return td_op_align_tokens(list, (td_align_kind)((const aligned_case *)c->args)->kind, &args);
}

static td_status launch_steps(const op_case *c, td_list *list, const td_span *s)
{
    const td_aligned_args args = args_of(c, s);
    return td_op_align_steps(list, ((const aligned_case *)c->args)->kind, &args);
}

/* An alignment whose durations go 3, 1, 2, 0, 3, ... and end with what is left; x is above 0 in every other
 * frame or so. */
static void begin_aligned(op_case *c, aligned_case n)
{
    *(aligned_case *)op_args(c, sizeof n) = n;
    uint32_t *durations =
        (uint32_t *)(void *)op_input(c, "durations", (size_t)n.size.items * n.size.tokens)->values;
    uint32_t *index = (uint32_t *)(void *)op_input(c, "index", (size_t)n.size.items * n.size.frames)->values;
    const uint32_t *lengths = add_lengths(c, "lengths", n.size.items, n.size.frames);
    op_random(c, "x", (size_t)n.size.items * n.size.frames, -1, 1, 77);
    for (uint32_t b = 0; b < n.size.items; b++) {
        const uint32_t valid = lengths[b] < n.size.frames ? lengths[b] : n.size.frames;
        uint32_t t = 0;
        for (uint32_t j = 0; j < n.size.tokens; j++) {
            static const uint32_t some[] = {3, 1, 2, 0};
            uint32_t end = j + 1 == n.size.tokens ? valid : t + some[(j + b) % 4];
            if (end > valid) end = valid;
            durations[(size_t)b * n.size.tokens + j] = end - t;
            for (; t < end; t++)
                index[(size_t)b * n.size.frames + t] = j;
        }
    }
}

static const uint32_t *words_of(const op_case *c, size_t io)
{
    return (const uint32_t *)(const void *)c->io[io].values;
}

static void add_features(op_suite *suite, align_case size)
{
    op_case c = {.op = "align features", .kernels = "align_features", .launch = launch_features};
    snprintf(c.label, sizeof c.label, "%u items, %u tokens, %u frames", size.items, size.tokens, size.frames);
    begin_aligned(&c, (aligned_case){size, 0});
    const uint32_t *durations = words_of(&c, A_DURATIONS);
    op_io *y = op_output(&c, "y", (size_t)3 * size.items * size.frames, 5e-7, 1e-6);
    for (uint32_t b = 0; b < size.items; b++) {
        uint32_t t = 0;
        for (uint32_t j = 0; j < size.tokens; j++) {
            const double d = durations[(size_t)b * size.tokens + j];
            for (uint32_t k = 0; k < d; k++, t++) {
                double *at = y->expected + 3 * ((size_t)b * size.frames + t);
                at[0] = (k + 0.5) / d;
                at[1] = sin(acos(-1) * at[0]);
                at[2] = log(d);
            }
        }
    }
    op_suite_add(suite, &c);
}

static void add_tokens(op_suite *suite, align_case size, td_align_kind kind)
{
    static const char *const kernels[] = {"align_log", "align_mean", "align_mean_positive"};
    op_case c = {.op = "align tokens", .kernels = kernels[kind], .launch = launch_tokens};
    snprintf(c.label, sizeof c.label, "%s, %u items, %u tokens, %u frames", kernels[kind], size.items,
             size.tokens, size.frames);
    begin_aligned(&c, (aligned_case){size, (uint32_t)kind});
    const uint32_t *durations = words_of(&c, A_DURATIONS);
    const float *x = c.io[A_X].values;
    op_io *y = op_output(&c, "y", (size_t)size.items * size.tokens, 1e-6, 1e-5);
    for (uint32_t b = 0; b < size.items; b++) {
        size_t t = (size_t)b * size.frames;
        for (uint32_t j = 0; j < size.tokens; j++) {
            const uint32_t d = durations[(size_t)b * size.tokens + j];
            double sum = 0, count = 0;
            for (uint32_t k = 0; k < d; k++, t++) {
                if (kind == TD_ALIGN_MEAN_POSITIVE && !(x[t] > 0)) continue;
                sum += (double)x[t];
                count++;
            }
            y->expected[(size_t)b * size.tokens + j] = kind == TD_ALIGN_LOG ? log(d > 1 ? d : 1)
                                                       : count > 0          ? sum / count
                                                                            : 0;
        }
    }
    op_suite_add(suite, &c);
}

static void add_steps(op_suite *suite, align_case size, uint32_t reduction)
{
    op_case c = {.op = "align steps", .kernels = "align_steps", .launch = launch_steps};
    const uint32_t steps = (size.frames + reduction - 1) / reduction;
    snprintf(c.label, sizeof c.label, "%u items, %u tokens, %u frames by %u", size.items, size.tokens,
             size.frames, reduction);
    begin_aligned(&c, (aligned_case){size, reduction});
    const uint32_t *index = words_of(&c, A_INDEX), *lengths = words_of(&c, A_LENGTHS);
    op_io *y = op_output(&c, "y", (size_t)size.items * steps * size.tokens, 0, 1e-6);
    for (uint32_t b = 0; b < size.items; b++) {
        const uint32_t valid = lengths[b] < size.frames ? lengths[b] : size.frames;
        for (uint32_t t = 0; t < (valid + reduction - 1) / reduction * reduction; t++) {
            const uint32_t token = index[(size_t)b * size.frames + (t < valid ? t : valid - 1)];
            y->expected[((size_t)b * steps + t / reduction) * size.tokens + token] += 1.0 / reduction;
        }
    }
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- diagonal and put */

static td_status launch_diagonal(const op_case *c, td_list *list, const td_span *s)
{
    const align_case *n = c->args;
    return td_op_align_diagonal(list, &(td_diagonal_args){.items = n->items,
                                                          .rows = n->tokens,
                                                          .columns = n->frames,
                                                          .row_counts = s[0],
                                                          .column_counts = s[1],
                                                          .y = s[2]});
}

static void add_diagonal(op_suite *suite, align_case n)
{
    op_case c = {.op = "align diagonal", .kernels = "align_diagonal", .launch = launch_diagonal};
    snprintf(c.label, sizeof c.label, "%u x %u x %u", n.items, n.tokens, n.frames);
    *(align_case *)op_args(&c, sizeof n) = n;
    const uint32_t *rows = add_lengths(&c, "row_counts", n.items, n.tokens);
    const uint32_t *columns = add_lengths(&c, "column_counts", n.items, n.frames);
    op_io *y = op_output(&c, "y", (size_t)n.items * n.tokens * n.frames, 3e-7, 1e-6);
    for (uint32_t b = 0; b < n.items; b++)
        for (uint32_t i = 0; i < n.tokens && i < rows[b]; i++)
            for (uint32_t j = 0; j < n.frames && j < columns[b]; j++)
                y->expected[((size_t)b * n.tokens + i) * n.frames + j] =
                    pow((double)i / rows[b] - (double)j / columns[b], 2);
    op_suite_add(suite, &c);
}

static td_status launch_put(const op_case *c, td_list *list, const td_span *s)
{
    const align_case *n = c->args;
    return td_op_align_put(
        list,
        &(td_put_args){
            .items = n->items, .rows = n->tokens, .columns = n->frames, .x = s[0], .at = s[1], .y = s[2]});
}

static void add_put(op_suite *suite, align_case n)
{
    op_case c = {.op = "align put", .kernels = "align_put", .launch = launch_put};
    const size_t row = n.frames, whole = n.tokens * row;
    snprintf(c.label, sizeof c.label, "%u x %u x %u", n.items, n.tokens, n.frames);
    *(align_case *)op_args(&c, sizeof n) = n;
    const float *x = op_random(&c, "x", n.items * row, -1, 1, 78)->values;
    uint32_t *at = (uint32_t *)(void *)op_input(&c, "at", n.items)->values;
    op_io *y = op_random(&c, "y", n.items * whole, -1, 1, 79);
    y->kind = OP_IN_OUT;
    y->expected = calloc(n.items * whole, sizeof *y->expected);
    if (!y->expected) abort();
    for (size_t i = 0; i < n.items * whole; i++)
        y->expected[i] = (double)y->values[i];
    for (uint32_t b = 0; b < n.items; b++) {
        at[b] = b > 0 && b + 1 == n.items ? n.tokens
                                          : (b + 3 * n.tokens / 4) % n.tokens; /* the last: past the end */
        for (size_t i = 0; i < row && at[b] < n.tokens; i++)
            y->expected[b * whole + at[b] * row + i] = (double)x[b * row + i];
    }
    op_suite_add(suite, &c);
}

static void add_measures(op_suite *suite, align_case size)
{
    for (uint32_t kind = TD_MASK_ONE; kind <= TD_MASK_LAST; kind++)
        add_mask(suite, (mask_case){size.items, size.frames, kind});
    add_counts(suite, size.frames, size.items);
    add_features(suite, size);
    for (int kind = TD_ALIGN_LOG; kind <= TD_ALIGN_MEAN_POSITIVE; kind++)
        add_tokens(suite, size, (td_align_kind)kind);
    for (uint32_t reduction = 1; reduction <= 3; reduction++)
        add_steps(suite, size, reduction);
    add_diagonal(suite, size);
    add_put(suite, size);
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
        add_measures(suite, SIZES[i]);
    }
}
