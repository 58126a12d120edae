/* Cases of src/ops/ctc.h. The reference of small cases adds up every sequence of classes that reads as the text once
 * repeated classes and blanks are taken out; that of larger ones is the recurrence over probabilities, in long double.
 * Gradients are differences of the mean loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ctc.h"
#include "suite.h"

typedef struct ctc_case {
    uint32_t items, frames, classes, tokens, edge;
    double weight;
    bool has_gradient;
    const uint32_t *ids, *lengths; /* of the case's buffers */
} ctc_case;

typedef struct text {
    const uint32_t *labels;
    uint32_t n_labels, n_frames;
} text;

static text text_of(const ctc_case *n, uint32_t item)
{
    const uint32_t tokens = n->lengths[item] < n->tokens ? n->lengths[item] : n->tokens;
    const uint32_t frames = n->lengths[n->items + item];
    return (text){.labels = n->ids + (size_t)item * n->tokens + n->edge,
                  .n_labels = tokens > 2 * n->edge ? tokens - 2 * n->edge : 0,
                  .n_frames = frames < n->frames ? frames : n->frames};
}

static bool reads_as(const uint32_t *classes, const text *t)
{
    uint32_t at = 0, before = 0;
    for (uint32_t i = 0; i < t->n_frames; i++) {
        if (classes[i] != 0 && classes[i] != before) {
            if (at == t->n_labels || t->labels[at] != classes[i]) return false;
            at++;
        }
        before = classes[i];
    }
    return at == t->n_labels;
}

/* p [frames, classes] */
static long double add_all(const double *p, uint32_t n_classes, const text *t)
{
    enum { MOST_FRAMES = 16 };
    uint32_t classes[MOST_FRAMES] = {0};
    long double sum = 0;
    for (;;) {
        if (reads_as(classes, t)) {
            long double product = 1;
            for (uint32_t i = 0; i < t->n_frames; i++)
                product *= (long double)p[(size_t)i * n_classes + classes[i]];
            sum += product;
        }
        uint32_t i = 0;
        while (i < t->n_frames && ++classes[i] == n_classes)
            classes[i++] = 0;
        if (i == t->n_frames) return sum;
    }
}

/* a[j]: probability that the first j labels were heard and the last class was a label; b[j]: that it was a blank. */
static long double recur(const double *p, uint32_t n_classes, const text *t)
{
    long double *a = calloc(2 * (size_t)t->n_labels + 2, sizeof *a), *b;
    if (!a) abort();
    b = a + t->n_labels + 1;
    b[0] = 1;
    for (uint32_t i = 0; i < t->n_frames; i++, p += n_classes)
        for (uint32_t j = t->n_labels + 1; j-- > 0;) {
            long double label = 0;
            if (j > 0) {
                const bool repeats = j > 1 && t->labels[j - 1] == t->labels[j - 2];
                label =
                    (a[j] + b[j - 1] + (repeats || j == 1 ? 0 : a[j - 1])) * (long double)p[t->labels[j - 1]];
            }
            b[j] = (a[j] + b[j]) * (long double)p[0];
            a[j] = label;
        }
    const long double sum = a[t->n_labels] + b[t->n_labels];
    free(a);
    return sum;
}

/* y: loss of each item, then their sum over the number of tokens. */
static void ctc_forward(const double *x, double *y, const void *context)
{
    const ctc_case *n = context;
    double *p = calloc((size_t)n->frames * n->classes, sizeof *p), sum = 0, tokens = 0;
    if (!p) abort();
    for (uint32_t item = 0; item < n->items; item++) {
        const text t = text_of(n, item);
        for (uint32_t i = 0; i < t.n_frames; i++) {
            const double *row = x + ((size_t)item * n->frames + i) * n->classes;
            double total = 0;
            for (uint32_t c = 0; c < n->classes; c++)
                total += exp(row[c]);
            for (uint32_t c = 0; c < n->classes; c++)
                p[(size_t)i * n->classes + c] = exp(row[c]) / total;
        }
        const bool is_small = pow(n->classes, t.n_frames) < 5000;
        const long double all = is_small ? add_all(p, n->classes, &t) : recur(p, n->classes, &t);
        y[item] = all > 0 && t.n_frames > 0 ? (double)-logl(all) : 0;
        sum += y[item];
        tokens += n->lengths[item] < n->tokens ? n->lengths[item] : n->tokens;
    }
    y[n->items] = tokens > 0 ? sum / tokens : 0;
    free(p);
}

static td_status launch_ctc(const op_case *c, td_list *list, const td_span *s)
{
    const ctc_case *n = c->args;
    td_ctc_args a = {.items = n->items,
                     .frames = n->frames,
                     .classes = n->classes,
                     .tokens = n->tokens,
                     .edge = n->edge,
                     .weight = (float)n->weight,
                     .x = s[0],
                     .token_ids = s[1],
                     .lengths = s[2],
                     .workspace = s[3],
                     .per_item = s[4],
                     .loss = s[5],
                     .scale = s[6]};
    if (n->has_gradient) a.dx = s[7];
    return td_op_ctc(list, &a);
}

static void expect_ctc(const ctc_case *n, op_case *c)
{
    const size_t count = c->io[0].count;
    double *x = calloc(count, sizeof *x), *y = calloc(n->items + 1, sizeof *y),
           *pick = calloc(n->items + 1, sizeof *pick), tokens = 0;
    if (!x || !y || !pick) abort();
    for (size_t i = 0; i < count; i++)
        x[i] = (double)c->io[0].values[i];
    for (uint32_t b = 0; b < n->items; b++)
        tokens += n->lengths[b] < n->tokens ? n->lengths[b] : n->tokens;
    ctc_forward(x, y, n);
    memcpy(c->io[4].expected, y, n->items * sizeof *y);
    c->io[5].expected[0] = y[n->items];
    c->io[6].expected[0] = tokens > 0 ? 1 / tokens : 0;
    pick[n->items] = n->weight;
    if (n->has_gradient) op_numeric_gradient(ctc_forward, n, x, count, pick, n->items + 1, c->io[7].expected);
    free(x);
    free(y);
    free(pick);
}

/* Texts with labels that repeat, one with too few frames, one without labels, one without frames. */
static void add_ctc(op_suite *suite, ctc_case n)
{
    const size_t count = (size_t)n.items * n.frames * n.classes;
    op_case c = {.op = "ctc",
                 .kernels = n.has_gradient
                                ? "loss_count ctc_norms ctc_forward loss_total ctc_backward ctc_gradient"
                                : "loss_count ctc_norms ctc_forward loss_total",
                 .launch = launch_ctc,
                 .is_gradient = n.has_gradient};
    snprintf(c.label, sizeof c.label, "%u items, %u frames, %u classes, %u tokens, edge %u%s", n.items,
             n.frames, n.classes, n.tokens, n.edge, n.has_gradient ? " gradient" : "");
    op_random(&c, "x", count, -4, 4, 71);
    uint32_t *ids = (uint32_t *)(void *)op_input(&c, "token_ids", (size_t)n.items * n.tokens)->values;
    uint32_t *lengths = (uint32_t *)(void *)op_input(&c, "lengths", 2 * (size_t)n.items)->values;
    for (uint32_t i = 0; i < n.items * n.tokens; i++)
        ids[i] = n.classes > 1 ? 1 + i / 2 * 5 % (n.classes - 1) : 0;
    for (uint32_t b = 0; b < n.items; b++) {
        lengths[b] = b == 0 ? n.tokens : n.tokens * (b + 1) / (n.items + 1);
        lengths[n.items + b] = b == 1 ? n.frames + 3 : n.frames - b % n.frames;
    }
    if (n.items > 2) lengths[n.items + 2] = 1; /* too few frames */
    if (n.items > 3) lengths[3] = 2 * n.edge;  /* no labels */
    if (n.items > 4) lengths[n.items + 4] = 0;
    op_scratch(&c, "workspace", td_op_ctc_workspace(n.items, n.frames, n.tokens));
    op_output(&c, "per_item", n.items, 2e-5, 2e-6);
    op_output(&c, "loss", 1, 2e-6, 2e-6);
    op_output(&c, "scale", 1, 0, 1e-6);
    if (n.has_gradient) op_output(&c, "dx", count, 2e-6, 2e-5);
    n.ids = ids;
    n.lengths = lengths;
    *(ctc_case *)op_args(&c, sizeof n) = n;
    expect_ctc(&n, &c);
    op_suite_add(suite, &c);
}

void cases_ctc(op_suite *suite, td_device *device);
void cases_ctc(op_suite *suite, td_device *device)
{
    static const ctc_case CASES[] = {{1, 1, 3, 1, 0, .weight = 1},
                                     {5, 6, 4, 3, 0, .weight = 1},
                                     {5, 7, 3, 5, 1, .weight = 0.5},
                                     {3, 40, 9, 12, 1, .weight = 1},
                                     {2, 33, 5, 140, 1, .weight = 1}};
    if (!op_suite_wants(suite, "ctc")) return;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ctc_case n = CASES[i];
        add_ctc(suite, n);
        n.has_gradient = true;
        add_ctc(suite, n);
    }
    /* Longer than one launch of class CPU; the reference of its gradient would take long. */
    add_ctc(suite, (ctc_case){2, op_device_is_slow(device) ? 90 : 400, 11, 200, 1, .weight = 1});
}
