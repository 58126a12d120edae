/* Cases of src/ops/loss.h. The references are the formulas in double; gradients are differences of the mean
 * loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/loss.h"
#include "suite.h"

static double *to_doubles(const op_io *io)
{
    double *block = calloc(io->count, sizeof *block);
    if (!block) abort();
    for (size_t i = 0; i < io->count; i++)
        block[i] = (double)io->values[i];
    return block;
}

static uint32_t *words_of(op_io *io)
{
    return (uint32_t *)(void *)io->values;
}

/* ---------------------------------------------------------------- cross-entropy */

typedef struct entropy_case {
    uint32_t rows, classes, ignore;
    double smoothing, weight;
    bool has_gradient, in_place;
    const uint32_t *target; /* of the case's buffer */
} entropy_case;

static bool row_counts(const entropy_case *n, uint32_t r)
{
    return n->target[r] < n->classes && n->target[r] != n->ignore;
}

/* y: loss of each row, then their mean. */
static void entropy_forward(const double *x, double *y, const void *context)
{
    const entropy_case *n = context;
    double sum = 0, count = 0;
    for (uint32_t r = 0; r < n->rows; r++) {
        const double *row = x + (size_t)r * n->classes;
        double most = row[0], total = 0, mean = 0;
        for (uint32_t c = 0; c < n->classes; c++) {
            most = fmax(most, row[c]);
            mean += row[c] / n->classes;
        }
        for (uint32_t c = 0; c < n->classes; c++)
            total += exp(row[c] - most);
        y[r] = row_counts(n, r)
                   ? most + log(total) - (1 - n->smoothing) * row[n->target[r]] - n->smoothing * mean
                   : 0;
        sum += y[r];
        count += row_counts(n, r);
    }
    y[n->rows] = count > 0 ? sum / count : 0;
}

static td_status launch_entropy(const op_case *c, td_list *list, const td_span *s)
{
    const entropy_case *n = c->args;
    td_cross_entropy_args a = {.rows = n->rows,
                               .classes = n->classes,
                               .ignore = n->ignore,
                               .smoothing = (float)n->smoothing,
                               .weight = (float)n->weight,
                               .x = s[0],
                               .target = s[1],
                               .per_row = s[2],
                               .loss = s[3],
                               .scale = s[4]};
    if (n->has_gradient) a.dx = n->in_place ? s[0] : s[5];
    return td_op_cross_entropy(list, &a);
}

static void expect_entropy(const entropy_case *n, op_case *c)
{
    const size_t count = (size_t)n->rows * n->classes;
    double *x = to_doubles(&c->io[0]);
    double *y = calloc(n->rows + 1, sizeof *y), *pick = calloc(n->rows + 1, sizeof *pick);
    if (!y || !pick) abort();
    double counted = 0;
    for (uint32_t r = 0; r < n->rows; r++)
        counted += row_counts(n, r);
    entropy_forward(x, y, n);
    memcpy(c->io[2].expected, y, n->rows * sizeof *y);
    c->io[3].expected[0] = y[n->rows];
    c->io[4].expected[0] = counted > 0 ? 1 / counted : 0;
    pick[n->rows] = n->weight;
    if (n->has_gradient)
        op_numeric_gradient(entropy_forward, n, x, count, pick, n->rows + 1,
                            c->io[n->in_place ? 0 : 5].expected);
    free(x);
    free(y);
    free(pick);
}

static void add_entropy(op_suite *suite, entropy_case n)
{
    const size_t count = (size_t)n.rows * n.classes;
    op_case c = {.op = "cross_entropy",
                 .kernels = n.has_gradient ? "loss_count cross_entropy_back loss_total"
                                           : "loss_count cross_entropy loss_total",
                 .launch = launch_entropy,
                 .is_gradient = n.has_gradient};
    snprintf(c.label, sizeof c.label, "%u x %u, smoothing %g, ignore %d%s%s", n.rows, n.classes, n.smoothing,
             (int)n.ignore, n.has_gradient ? " gradient" : "", n.in_place ? " in place" : "");
    op_io *x = op_random(&c, "x", count, -9, 9, 51);
    op_io *target = op_input(&c, "target", n.rows);
    for (uint32_t r = 0; r < n.rows; r++)
        words_of(target)[r] = r % 7 == 5 ? 0xFFFFFF9Cu : r * 13 % n.classes;
    op_output(&c, "per_row", n.rows, 4e-6, 1e-6);
    op_output(&c, "loss", 1, 2e-6, 2e-6);
    op_output(&c, "scale", 1, 0, 1e-6);
    if (n.has_gradient && n.in_place) {
        x->kind = OP_IN_OUT;
        x->expected = calloc(count, sizeof *x->expected);
        x->atol = x->rtol = 1e-6;
    } else if (n.has_gradient) {
        op_output(&c, "dx", count, 1e-6, 1e-5);
    }
    n.target = words_of(target);
    *(entropy_case *)op_args(&c, sizeof n) = n;
    expect_entropy(&n, &c);
    op_suite_add(suite, &c);
}

static void make_entropy(op_suite *suite)
{
    static const uint32_t SIZES[][2] = {{1, 1}, {3, 7}, {13, 8}, {8, 33}, {7, 127}, {33, 128}, {2, 300}};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        entropy_case n = {SIZES[i][0], SIZES[i][1], .ignore = UINT32_MAX, .weight = 1};
        add_entropy(suite, n);
        n.smoothing = (double)0.1f;
        n.ignore = 0;
        add_entropy(suite, n);
        if (n.rows * n.classes > 1000) continue;
        n.weight = -2;
        n.has_gradient = true;
        add_entropy(suite, n);
        n.in_place = true;
        n.smoothing = 0;
        add_entropy(suite, n);
    }
}

/* ---------------------------------------------------------------- element-wise losses */

typedef struct masked_case {
    td_loss_kind kind;
    uint32_t items, frames, channels;
    double shape, weight;
    bool has_gradient, in_place;
    const uint32_t *lengths; /* of the case's buffers */
    const float *y;
} masked_case;

static double loss_of(const masked_case *n, double x, double y)
{
    const double d = fabs(x - y);
    switch (n->kind) {
    case TD_LOSS_L1:
        return d;
    case TD_LOSS_MSE:
        return d * d;
    case TD_LOSS_HUBER:
        return d <= n->shape ? d * d / 2 : n->shape * (d - n->shape / 2);
    case TD_LOSS_BCE:
        break;
    }
    /* -(shape y log s + (1 - y) log (1 - s)) with s = 1 / (1 + exp(-x)) */
    const double log_s = x > 0 ? -log1p(exp(-x)) : x - log1p(exp(x));
    return -(n->shape * y * log_s + (1 - y) * (log_s - x));
}

static double count_valid(const masked_case *n)
{
    double count = 0;
    for (uint32_t b = 0; b < n->items; b++)
        count += (double)(n->lengths[b] < n->frames ? n->lengths[b] : n->frames) * n->channels;
    return count;
}

static void masked_forward(const double *x, double *loss, const void *context)
{
    const masked_case *n = context;
    const double count = count_valid(n);
    *loss = 0;
    for (uint32_t b = 0; b < n->items; b++)
        for (uint32_t t = 0; t < n->frames && t < n->lengths[b]; t++)
            for (uint32_t ch = 0; ch < n->channels; ch++) {
                const size_t i = ((size_t)b * n->frames + t) * n->channels + ch;
                *loss += loss_of(n, x[i], (double)n->y[i]) / count;
            }
}

static td_status launch_masked(const op_case *c, td_list *list, const td_span *s)
{
    const masked_case *n = c->args;
    td_masked_loss_args a = {.kind = n->kind,
                             .items = n->items,
                             .frames = n->frames,
                             .channels = n->channels,
                             .shape = (float)n->shape,
                             .weight = (float)n->weight,
                             .x = s[0],
                             .y = s[1],
                             .lengths = s[2],
                             .partial = s[3],
                             .scale = s[4],
                             .loss = s[5]};
    if (n->has_gradient) a.dx = n->in_place ? s[0] : s[6];
    return td_op_masked_loss(list, &a);
}

static void expect_masked(const masked_case *n, op_case *c)
{
    const double count = count_valid(n);
    double *x = to_doubles(&c->io[0]);
    op_io *dx = &c->io[n->in_place ? 0 : 6];
    c->io[4].expected[0] = count > 0 ? 1 / count : 0;
    masked_forward(x, c->io[5].expected, n);
    if (n->has_gradient)
        op_numeric_gradient(masked_forward, n, x, c->io[0].count, &n->weight, 1, dx->expected);
    free(x);
}

/* Padding holds NaN, which must not reach anything. */
static void spoil_padding(const masked_case *n, float *values)
{
    for (uint32_t b = 0; b < n->items; b++)
        for (uint32_t t = n->lengths[b]; t < n->frames; t++)
            for (uint32_t ch = 0; ch < n->channels; ch++)
                values[((size_t)b * n->frames + t) * n->channels + ch] = NAN;
}

static void add_masked(op_suite *suite, td_kernel_class class, masked_case n)
{
    static const char *const NAMES[] = {"loss_l1", "loss_mse", "loss_huber", "loss_bce"};
    static const char *const KERNELS[] = {"loss_count loss_l1 loss_total", "loss_count loss_mse loss_total",
                                          "loss_count loss_huber loss_total",
                                          "loss_count loss_bce loss_total"};
    const size_t count = (size_t)n.items * n.frames * n.channels;
    op_case c = {.op = NAMES[n.kind],
                 .kernels = KERNELS[n.kind],
                 .launch = launch_masked,
                 .is_gradient = n.has_gradient};
    snprintf(c.label, sizeof c.label, "%u x %u x %u%s%s", n.items, n.frames, n.channels,
             n.has_gradient ? " gradient" : "", n.in_place ? " in place" : "");
    op_io *x = op_random(&c, "x", count, -3, 3, 61);
    op_io *y = op_random(&c, "y", count, n.kind == TD_LOSS_BCE ? 0 : -3, n.kind == TD_LOSS_BCE ? 1 : 3, 62);
    op_io *lengths = op_input(&c, "lengths", n.items);
    for (uint32_t b = 0; b < n.items; b++)
        words_of(lengths)[b] = (n.frames + 1 + b * 5) % (n.frames + 2);
    op_scratch(&c, "partial", td_op_masked_loss_partial(class, n.items, n.frames, n.channels));
    op_output(&c, "scale", 1, 0, 1e-6);
    op_output(&c, "loss", 1, 1e-6, 3e-6);
    if (n.has_gradient && n.in_place) {
        x->kind = OP_IN_OUT;
        x->expected = calloc(count, sizeof *x->expected);
        x->atol = 1e-7;
        x->rtol = 2e-6;
    } else if (n.has_gradient) {
        op_output(&c, "dx", count, 1e-7, 2e-6);
    }
    n.lengths = words_of(lengths);
    n.y = y->values;
    *(masked_case *)op_args(&c, sizeof n) = n;
    expect_masked(&n, &c);
    spoil_padding(&n, x->values);
    spoil_padding(&n, y->values);
    op_suite_add(suite, &c);
}

static void make_masked(op_suite *suite, td_kernel_class class)
{
    static const uint32_t SIZES[][3] = {{1, 1, 1},   {2, 3, 5},   {3, 9, 7},   {1, 31, 4},
                                        {4, 130, 9}, {2, 257, 8}, {2, 300, 33}};
    for (int kind = TD_LOSS_L1; kind <= TD_LOSS_BCE; kind++)
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            masked_case n = {(td_loss_kind)kind, SIZES[i][0], SIZES[i][1], SIZES[i][2], .weight = 3};
            n.shape = kind == TD_LOSS_BCE ? 2.5 : 1.25;
            add_masked(suite, class, n);
            n.has_gradient = true;
            if (n.items * n.frames * n.channels > 3000) continue;
            add_masked(suite, class, n);
            n.in_place = true;
            add_masked(suite, class, n);
        }
}

/* ---------------------------------------------------------------- the family */

void cases_loss(op_suite *suite, td_device *device);
void cases_loss(op_suite *suite, td_device *device)
{
    const td_kernel_class class = td_device_class(device);
    make_entropy(suite);
    make_masked(suite, class);
}
