/* Cases of src/ops/norm.h: layer and RMS norm, batch and group norm, softmax. References are plain formulas
 * in double; gradients are differences of these. Letters: B items, T frames, C channels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/norm.h"
#include "suite.h"

/* ---------------------------------------------------------------- small tools */

static double *make(size_t n)
{
    double *block = calloc(n ? n : 1, sizeof *block);
    if (!block) abort();
    return block;
}

/* Appends an io's values, as doubles. */
static double *put(double *to, const op_io *io)
{
    for (size_t i = 0; i < io->count; i++)
        *to++ = (double)io->values[i];
    return to;
}

static void take(op_io *io, const double *from)
{
    memcpy(io->expected, from, io->count * sizeof *from);
}

/* Makes a random input one that the launch also writes. */
static op_io *as_in_out(op_io *io, double atol, double rtol)
{
    io->kind = OP_IN_OUT;
    io->expected = make(io->count);
    io->atol = atol;
    io->rtol = rtol;
    return io;
}

/* Adds the start of an in-out buffer to what is expected of it. */
static void add_start(op_io *io)
{
    for (size_t i = 0; i < io->count; i++)
        io->expected[i] += (double)io->values[i];
}

/* ---------------------------------------------------------------- layer and RMS norm */

typedef struct rows_shape {
    td_norm_kind kind;
    uint32_t rows, columns;
    double eps;
} rows_shape;

static void row_stats(const rows_shape *s, const double *v, double *mean, double *rstd)
{
    double sum = 0, square = 0;
    for (uint32_t c = 0; c < s->columns; c++)
        sum += v[c];
    *mean = s->kind == TD_NORM_LAYER ? sum / s->columns : 0;
    for (uint32_t c = 0; c < s->columns; c++)
        square += (v[c] - *mean) * (v[c] - *mean);
    *rstd = 1 / sqrt(square / s->columns + s->eps);
}

/* x: v [rows, columns], gamma, beta [columns] */
static void norm_forward(const double *x, double *y, const void *context)
{
    const rows_shape *s = context;
    const double *gamma = x + (size_t)s->rows * s->columns;
    const double *beta = gamma + s->columns;
    for (uint32_t r = 0; r < s->rows; r++) {
        const double *v = x + (size_t)r * s->columns;
        double mean, rstd;
        row_stats(s, v, &mean, &rstd);
        for (uint32_t c = 0; c < s->columns; c++)
            *y++ = (v[c] - mean) * rstd * gamma[c] + (s->kind == TD_NORM_LAYER ? beta[c] : 0);
    }
}

typedef struct norm_case {
    rows_shape shape;
    bool has_residual, has_extra, has_params, accumulate, in_place;
} norm_case;

static td_status launch_norm(const op_case *c, td_list *list, const td_span *s)
{
    const norm_case *n = c->args;
    td_norm_args a = {.kind = n->shape.kind,
                      .rows = n->shape.rows,
                      .columns = n->shape.columns,
                      .eps = (float)n->shape.eps,
                      .x = s[0],
                      .gamma = s[1],
                      .beta = s[2],
                      .stats = s[3],
                      .y = n->in_place ? s[0] : s[4]};
    if (a.kind == TD_NORM_RMS) a.beta = (td_span){0};
    if (n->has_residual) {
        a.residual = s[5];
        a.sum = s[6];
    }
    return td_op_norm(list, &a);
}

static void add_norm(op_suite *suite, norm_case n, float offset)
{
    const rows_shape *s = &n.shape;
    const bool is_layer = s->kind == TD_NORM_LAYER;
    const size_t count = (size_t)s->rows * s->columns;
    op_case c = {.op = is_layer ? "layer_norm" : "rms_norm", .launch = launch_norm};
    c.kernels = n.has_residual ? (is_layer ? "layer_norm_residual" : "rms_norm_residual") : c.op;
    snprintf(c.label, sizeof c.label, "%u x %u%s%s about %g", s->rows, s->columns,
             n.has_residual ? " with residual" : "", n.in_place ? " in place" : "", (double)offset);
    *(norm_case *)op_args(&c, sizeof n) = n;
    const double tolerance = 4e-6 * (1 + 0.25 * fabs((double)offset));
    op_io *x = op_random(&c, "x", count, offset - 2, offset + 2, 1);
    const op_io *gamma = op_random(&c, "gamma", s->columns, -2, 2, 2);
    const op_io *beta = op_random(&c, "beta", s->columns, -2, 2, 3);
    op_io *stats = op_output(&c, "stats", (is_layer ? 2 : 1) * (size_t)s->rows, 0, 3e-6);
    op_io *y = n.in_place ? as_in_out(x, tolerance, 2e-6) : op_output(&c, "y", count, tolerance, 2e-6);
    if (n.in_place) op_scratch(&c, "nothing", 1);
    const op_io *residual = n.has_residual ? op_random(&c, "residual", count, -1, 1, 4) : NULL;
    op_io *sum = n.has_residual ? op_output(&c, "sum", count, 0, 1e-7) : NULL;
    double *all = make(count + 2 * (size_t)s->columns);
    put(put(put(all, x), gamma), beta);
    for (size_t i = 0; residual && i < count; i++)
        all[i] = (double)(float)(all[i] + (double)residual->values[i]);
    if (sum) take(sum, all);
    norm_forward(all, y->expected, s);
    for (uint32_t r = 0; r < s->rows; r++) {
        double mean, rstd;
        row_stats(s, all + (size_t)r * s->columns, &mean, &rstd);
        stats->expected[r] = is_layer ? mean : rstd;
        if (is_layer) stats->expected[s->rows + r] = rstd;
    }
    stats->atol = tolerance;
    free(all);
    op_suite_add(suite, &c);
}

static td_status launch_norm_back(const op_case *c, td_list *list, const td_span *s)
{
    const norm_case *n = c->args;
    td_norm_back_args a = {.kind = n->shape.kind,
                           .rows = n->shape.rows,
                           .columns = n->shape.columns,
                           .accumulate = n->accumulate,
                           .dy = s[0],
                           .v = s[1],
                           .gamma = s[2],
                           .stats = s[3],
                           .dx = s[4]};
    if (n->has_extra) a.extra = s[5];
    if (n->has_params) {
        a.dgamma = s[6];
        a.dbeta = a.kind == TD_NORM_LAYER ? s[7] : (td_span){0};
        a.partial = s[8];
    }
    return td_op_norm_back(list, &a);
}

static void expect_norm_back(const norm_case *n, op_case *c)
{
    const rows_shape *s = &n->shape;
    const size_t count = (size_t)s->rows * s->columns;
    double *all = make(count + 2 * (size_t)s->columns), *gradient = make(count + 2 * (size_t)s->columns);
    double *dy = make(count);
    put(put(all, &c->io[1]), &c->io[2]);
    put(dy, &c->io[0]);
    for (uint32_t r = 0; r < s->rows; r++) {
        double mean, rstd;
        row_stats(s, all + (size_t)r * s->columns, &mean, &rstd);
        c->io[3].values[r] = (float)(s->kind == TD_NORM_LAYER ? mean : rstd);
        if (s->kind == TD_NORM_LAYER) c->io[3].values[s->rows + r] = (float)rstd;
    }
    op_numeric_gradient(norm_forward, s, all, count + 2 * (size_t)s->columns, dy, count, gradient);
    take(&c->io[4], gradient);
    for (size_t i = 0; n->has_extra && i < count; i++)
        c->io[4].expected[i] += (double)c->io[5].values[i];
    if (n->has_params) take(&c->io[6], gradient + count);
    if (n->has_params && s->kind == TD_NORM_LAYER) take(&c->io[7], gradient + count + s->columns);
    for (size_t i = 6; n->accumulate && i < (s->kind == TD_NORM_LAYER ? 8 : 7); i++)
        add_start(&c->io[i]);
    free(all);
    free(gradient);
    free(dy);
}

static void add_norm_back(op_suite *suite, td_kernel_class class, norm_case n)
{
    const rows_shape *s = &n.shape;
    const bool is_layer = s->kind == TD_NORM_LAYER;
    const size_t count = (size_t)s->rows * s->columns;
    const double tolerance = 2e-5, sum_tolerance = 4e-6 * sqrt(s->rows) + 1e-5;
    op_case c = {.op = is_layer ? "layer_norm" : "rms_norm",
                 .kernels = is_layer ? "layer_norm_back norm_finish" : "rms_norm_back norm_finish",
                 .launch = launch_norm_back,
                 .is_gradient = true};
    snprintf(c.label, sizeof c.label, "back %u x %u%s%s%s", s->rows, s->columns, n.has_extra ? " extra" : "",
             n.has_params ? " params" : "", n.accumulate ? " accumulate" : "");
    *(norm_case *)op_args(&c, sizeof n) = n;
    op_random(&c, "dy", count, -1, 1, 11);
    op_random(&c, "v", count, -2, 3, 12);
    op_random(&c, "gamma", s->columns, -2, 2, 13);
    op_input(&c, "stats", (is_layer ? 2 : 1) * (size_t)s->rows);
    op_output(&c, "dx", count, tolerance, 1e-5);
    op_random(&c, "extra", n.has_extra ? count : 1, -1, 1, 14);
    if (n.accumulate) {
        as_in_out(op_random(&c, "dgamma", s->columns, -1, 1, 15), sum_tolerance, 1e-5);
        if (is_layer) as_in_out(op_random(&c, "dbeta", s->columns, -1, 1, 16), sum_tolerance, 1e-5);
    } else if (n.has_params) {
        op_output(&c, "dgamma", s->columns, sum_tolerance, 1e-5);
        if (is_layer) op_output(&c, "dbeta", s->columns, sum_tolerance, 1e-5);
    }
    if (n.has_params && !is_layer) op_scratch(&c, "nothing", 1);
    if (n.has_params) op_scratch(&c, "partial", td_op_norm_back_partial(class, s->kind, s->rows, s->columns));
    expect_norm_back(&n, &c);
    op_suite_add(suite, &c);
}

static void make_rows(op_suite *suite, td_kernel_class class)
{
    static const uint32_t SIZES[][2] = {{1, 1},  {1, 7},    {3, 8},    {2, 9},   {5, 31},
                                        {3, 33}, {17, 127}, {33, 128}, {2, 129}, {19, 300}};
    static const uint32_t BACK[][2] = {{1, 2}, {3, 9}, {300, 5}, {7, 131}, {37, 24}};
    for (int kind = TD_NORM_LAYER; kind <= TD_NORM_RMS; kind++) {
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            norm_case n = {.shape = {(td_norm_kind)kind, SIZES[i][0], SIZES[i][1], 1e-5}};
            add_norm(suite, n, 0);
            n.has_residual = true;
            add_norm(suite, n, 0);
        }
        norm_case n = {.shape = {(td_norm_kind)kind, 9, 300, 1e-5}};
        add_norm(suite, n, 100);
        n.in_place = true;
        add_norm(suite, n, 0);
        for (size_t i = 0; i < sizeof BACK / sizeof *BACK; i++) {
            norm_case b = {.shape = {(td_norm_kind)kind, BACK[i][0], BACK[i][1], 1e-3}};
            add_norm_back(suite, class, b);
            b.has_params = true;
            add_norm_back(suite, class, b);
            b.has_extra = b.accumulate = true;
            add_norm_back(suite, class, b);
        }
    }
}

/* ---------------------------------------------------------------- batch and group norm */

typedef struct channel_case {
    td_channel_norm_kind kind;
    uint32_t items, frames, channels, groups;
    bool accumulate;
    double eps, momentum;
    const float *running_mean, *running_var; /* of the case's buffers */
} channel_case;

static const char *name_of(td_channel_norm_kind kind)
{
    return kind == TD_NORM_GROUP ? "group_norm" : "batch_norm";
}

/* Mean, variance and number of the elements that are normalised together with those of item b, channel ch. */
static size_t channel_stats(const channel_case *n, const double *x, uint32_t b, uint32_t ch, double *mean,
                            double *var)
{
    const bool is_group = n->kind == TD_NORM_GROUP;
    const uint32_t width = is_group ? n->channels / n->groups : 1;
    const uint32_t first_channel = ch / width * width;
    double sum = 0, square = 0;
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t item = is_group ? b : 0; item < (is_group ? b + 1 : n->items); item++)
            for (uint32_t t = 0; t < n->frames; t++)
                for (uint32_t k = first_channel; k < first_channel + width; k++) {
                    const double v = x[((size_t)item * n->frames + t) * n->channels + k];
                    sum += pass == 0 ? v : 0;
                    count += pass == 0;
                    square += pass == 1 ? (v - *mean) * (v - *mean) : 0;
                }
        *mean = sum / (double)count;
    }
    *var = square / (double)count;
    if (n->kind == TD_NORM_BATCH_EVAL) {
        *mean = (double)n->running_mean[ch];
        *var = (double)n->running_var[ch];
    }
    return count;
}

/* x: x [B, T, C], gamma, beta [C] */
static void channel_forward(const double *x, double *y, const void *context)
{
    const channel_case *n = context;
    const double *gamma = x + (size_t)n->items * n->frames * n->channels;
    const double *beta = gamma + n->channels;
    for (uint32_t b = 0; b < n->items; b++)
        for (uint32_t ch = 0; ch < n->channels; ch++) {
            double mean, var;
            channel_stats(n, x, b, ch, &mean, &var);
            for (uint32_t t = 0; t < n->frames; t++) {
                const size_t i = ((size_t)b * n->frames + t) * n->channels + ch;
                y[i] = (x[i] - mean) / sqrt(var + n->eps) * gamma[ch] + beta[ch];
            }
        }
}

static size_t segments_of(const channel_case *n)
{
    return n->kind == TD_NORM_GROUP ? n->items : 1;
}

/* table [segments, 2, C]: mean, 1/deviation. */
static void fill_table(const channel_case *n, const double *x, double *table)
{
    for (uint32_t b = 0; b < segments_of(n); b++)
        for (uint32_t ch = 0; ch < n->channels; ch++) {
            double mean, var;
            channel_stats(n, x, b, ch, &mean, &var);
            table[(size_t)b * 2 * n->channels + ch] = mean;
            table[((size_t)b * 2 + 1) * n->channels + ch] = 1 / sqrt(var + n->eps);
        }
}

static td_status launch_channel(const op_case *c, td_list *list, const td_span *s)
{
    const channel_case *n = c->args;
    td_channel_norm_args a = {.kind = n->kind,
                              .items = n->items,
                              .frames = n->frames,
                              .channels = n->channels,
                              .groups = n->groups,
                              .eps = (float)n->eps,
                              .momentum = (float)n->momentum,
                              .x = s[0],
                              .gamma = s[1],
                              .beta = s[2],
                              .y = s[3],
                              .table = s[4],
                              .partial = s[5]};
    if (n->kind != TD_NORM_GROUP) {
        a.running_mean = s[6];
        a.running_var = s[7];
    }
    return td_op_channel_norm(list, &a);
}

static void expect_running(const channel_case *n, const double *x, op_io *mean_io, op_io *var_io)
{
    for (uint32_t ch = 0; ch < n->channels; ch++) {
        double mean, var;
        const double count = (double)channel_stats(n, x, 0, ch, &mean, &var);
        const double unbiased = count > 1 ? var * count / (count - 1) : 0;
        const double old_mean = (double)mean_io->values[ch], old_var = (double)var_io->values[ch];
        mean_io->expected[ch] = old_mean + n->momentum * (mean - old_mean);
        var_io->expected[ch] = old_var + n->momentum * (unbiased - old_var);
    }
}

static void add_channel(op_suite *suite, td_kernel_class class, channel_case n, float offset)
{
    const size_t count = (size_t)n.items * n.frames * n.channels;
    const double tolerance = 5e-6 * (1 + 0.1 * fabs((double)offset));
    op_case c = {.op = name_of(n.kind), .launch = launch_channel};
    c.kernels = n.kind == TD_NORM_BATCH_EVAL ? "channel_merge channel_norm"
                                             : "channel_stats channel_merge channel_norm";
    snprintf(c.label, sizeof c.label, "%s%u x %u x %u, %u groups, about %g",
             n.kind == TD_NORM_BATCH_EVAL ? "eval " : "", n.items, n.frames, n.channels, n.groups,
             (double)offset);
    op_io *x = op_random(&c, "x", count, offset - 2, offset + 2, 21);
    op_io *gamma = op_random(&c, "gamma", n.channels, -2, 2, 22);
    op_io *beta = op_random(&c, "beta", n.channels, -2, 2, 23);
    op_io *y = op_output(&c, "y", count, 4 * tolerance, 1e-5);
    op_io *table = op_output(&c, "table", segments_of(&n) * 2 * n.channels, tolerance, 1e-5);
    op_scratch(&c, "partial", td_op_channel_norm_partial(class, n.kind, n.items, n.frames, n.channels));
    op_io *mean = NULL, *var = NULL;
    if (n.kind != TD_NORM_GROUP) {
        mean = op_random(&c, "running_mean", n.channels, -1, 1, 24);
        var = op_random(&c, "running_var", n.channels, 0.5f, 2, 25);
        n.running_mean = mean->values;
        n.running_var = var->values;
    }
    *(channel_case *)op_args(&c, sizeof n) = n;
    if (n.kind == TD_NORM_BATCH_TRAIN) {
        as_in_out(mean, tolerance, 1e-5);
        as_in_out(var, tolerance, 1e-5);
    }
    double *all = make(count + 2 * (size_t)n.channels);
    put(put(put(all, x), gamma), beta);
    channel_forward(all, y->expected, &n);
    fill_table(&n, all, table->expected);
    if (n.kind == TD_NORM_BATCH_TRAIN) expect_running(&n, all, mean, var);
    free(all);
    op_suite_add(suite, &c);
}

static td_status launch_channel_back(const op_case *c, td_list *list, const td_span *s)
{
    const channel_case *n = c->args;
    return td_op_channel_norm_back(list, &(td_channel_norm_back_args){.kind = n->kind,
                                                                      .items = n->items,
                                                                      .frames = n->frames,
                                                                      .channels = n->channels,
                                                                      .groups = n->groups,
                                                                      .accumulate = n->accumulate,
                                                                      .dy = s[0],
                                                                      .x = s[1],
                                                                      .gamma = s[2],
                                                                      .table = s[3],
                                                                      .dx = s[4],
                                                                      .dgamma = s[5],
                                                                      .dbeta = s[6],
                                                                      .partial = s[7],
                                                                      .means = s[8]});
}

static void expect_channel_back(const channel_case *n, op_case *c)
{
    const size_t count = (size_t)n->items * n->frames * n->channels;
    double *all = make(count + 2 * (size_t)n->channels), *gradient = make(count + 2 * (size_t)n->channels);
    double *dy = make(count), *table = make(c->io[3].count);
    put(put(all, &c->io[1]), &c->io[2]);
    put(dy, &c->io[0]);
    fill_table(n, all, table);
    for (size_t i = 0; i < c->io[3].count; i++)
        c->io[3].values[i] = (float)table[i];
    op_numeric_gradient(channel_forward, n, all, count + 2 * (size_t)n->channels, dy, count, gradient);
    take(&c->io[4], gradient);
    take(&c->io[5], gradient + count);
    take(&c->io[6], gradient + count + n->channels);
    for (size_t i = 5; n->accumulate && i < 7; i++)
        add_start(&c->io[i]);
    free(all);
    free(gradient);
    free(dy);
    free(table);
}

static void add_channel_back(op_suite *suite, td_kernel_class class, channel_case n)
{
    static const float RUNNING_MEAN[64] = {0.5f, -0.25f, 0.125f};
    static float running_var[64];
    const size_t count = (size_t)n.items * n.frames * n.channels;
    op_case c = {.op = name_of(n.kind), .launch = launch_channel_back, .is_gradient = true};
    c.kernels = n.kind == TD_NORM_BATCH_EVAL
                    ? "channel_back_sums norm_finish channel_back"
                    : "channel_back_sums norm_finish channel_back_merge channel_back";
    snprintf(c.label, sizeof c.label, "back %s%u x %u x %u, %u groups",
             n.kind == TD_NORM_BATCH_EVAL ? "eval " : "", n.items, n.frames, n.channels, n.groups);
    for (size_t i = 0; i < 64; i++)
        running_var[i] = 1.0f + (float)i / 64;
    n.running_mean = RUNNING_MEAN;
    n.running_var = running_var;
    *(channel_case *)op_args(&c, sizeof n) = n;
    op_random(&c, "dy", count, -1, 1, 31);
    op_random(&c, "x", count, -2, 3, 32);
    op_random(&c, "gamma", n.channels, -2, 2, 33);
    op_input(&c, "table", segments_of(&n) * 2 * n.channels);
    op_output(&c, "dx", count, 2e-5, 1e-5);
    const double tolerance = 5e-6 * sqrt((double)n.items * n.frames) + 1e-5;
    if (n.accumulate) {
        as_in_out(op_random(&c, "dgamma", n.channels, -1, 1, 34), tolerance, 1e-5);
        as_in_out(op_random(&c, "dbeta", n.channels, -1, 1, 35), tolerance, 1e-5);
    } else {
        op_output(&c, "dgamma", n.channels, tolerance, 1e-5);
        op_output(&c, "dbeta", n.channels, tolerance, 1e-5);
    }
    op_scratch(&c, "partial", td_op_channel_norm_partial(class, n.kind, n.items, n.frames, n.channels));
    op_scratch(&c, "means", segments_of(&n) * 2 * n.channels);
    expect_channel_back(&n, &c);
    op_suite_add(suite, &c);
}

static void make_channels(op_suite *suite, td_kernel_class class)
{
    static const uint32_t SIZES[][4] = {{1, 2, 1, 1},   {2, 3, 4, 2},    {3, 65, 6, 3},   {2, 129, 33, 11},
                                        {2, 31, 40, 5}, {1, 64, 129, 3}, {2, 7, 128, 128}};
    static const uint32_t BACK[][4] = {{1, 3, 2, 1}, {2, 5, 9, 3}, {2, 66, 3, 1}, {3, 7, 8, 8}};
    for (int kind = TD_NORM_GROUP; kind <= TD_NORM_BATCH_EVAL; kind++) {
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            const channel_case n = {.kind = (td_channel_norm_kind)kind,
                                    .items = SIZES[i][0],
                                    .frames = SIZES[i][1],
                                    .channels = SIZES[i][2],
                                    .groups = SIZES[i][3],
                                    .eps = (double)1e-5f,
                                    .momentum = (double)0.1f};
            add_channel(suite, class, n, 0);
            if (i == 3 && kind != TD_NORM_BATCH_EVAL) add_channel(suite, class, n, 100);
        }
        for (size_t i = 0; i < sizeof BACK / sizeof *BACK; i++) {
            const channel_case n = {.kind = (td_channel_norm_kind)kind,
                                    .items = BACK[i][0],
                                    .frames = BACK[i][1],
                                    .channels = BACK[i][2],
                                    .groups = BACK[i][3],
                                    .accumulate = i % 2,
                                    .eps = 1e-3};
            add_channel_back(suite, class, n);
        }
    }
}

/* ---------------------------------------------------------------- softmax */

typedef struct softmax_case {
    uint32_t rows, columns, item_rows, queries, mask_rows, mask_repeat;
    bool has_lengths, in_place;
    double scale;
    const uint32_t *lengths; /* of the case's buffer */
    const float *mask;
} softmax_case;

static bool is_seen(const softmax_case *n, uint32_t r, uint32_t c)
{
    if (n->has_lengths && c >= n->lengths[r / n->item_rows]) return false;
    return !n->queries || c <= r % n->queries + n->columns - n->queries;
}

static double logit(const softmax_case *n, const double *x, uint32_t r, uint32_t c)
{
    const double v = n->scale * x[(size_t)r * n->columns + c];
    if (!n->mask_rows) return v;
    return v + (double)n->mask[(size_t)(r / n->mask_repeat % n->mask_rows) * n->columns + c];
}

static void softmax_forward(const double *x, double *y, const void *context)
{
    const softmax_case *n = context;
    for (uint32_t r = 0; r < n->rows; r++) {
        double total = 0, most = -1e300;
        for (uint32_t c = 0; c < n->columns; c++)
            if (is_seen(n, r, c)) most = fmax(most, logit(n, x, r, c));
        for (uint32_t c = 0; c < n->columns; c++)
            total += is_seen(n, r, c) ? exp(logit(n, x, r, c) - most) : 0;
        for (uint32_t c = 0; c < n->columns; c++)
            *y++ = is_seen(n, r, c) && total > 0 ? exp(logit(n, x, r, c) - most) / total : 0;
    }
}

static td_status launch_softmax(const op_case *c, td_list *list, const td_span *s)
{
    const softmax_case *n = c->args;
    td_softmax_args a = {.rows = n->rows,
                         .columns = n->columns,
                         .scale = (float)n->scale,
                         .item_rows = n->item_rows,
                         .queries = n->queries,
                         .mask_rows = n->mask_rows,
                         .mask_repeat = n->mask_repeat,
                         .x = s[0],
                         .y = n->in_place ? s[0] : s[3]};
    if (n->mask_rows) a.mask = s[1];
    if (n->has_lengths) a.lengths = s[2];
    return td_op_softmax(list, &a);
}

static void add_softmax(op_suite *suite, softmax_case n)
{
    const size_t count = (size_t)n.rows * n.columns;
    op_case c = {.op = "softmax", .kernels = "softmax", .launch = launch_softmax};
    snprintf(c.label, sizeof c.label, "%u x %u%s%s%s%s", n.rows, n.columns, n.has_lengths ? " lengths" : "",
             n.queries ? " causal" : "", n.mask_rows ? " mask" : "", n.in_place ? " in place" : "");
    op_io *x = op_random(&c, "x", count, -20, 20, 41);
    op_io *mask = op_random(&c, "mask", (size_t)(n.mask_rows ? n.mask_rows : 1) * n.columns, -3, 3, 42);
    for (size_t i = 0; i < mask->count; i += 5)
        mask->values[i] = -INFINITY;
    for (size_t i = 0; n.mask_rows > 1 && i < n.columns; i++)
        mask->values[i] = -INFINITY; /* a row that sees nothing */
    op_io *lengths = op_input(&c, "lengths", n.item_rows ? n.rows / n.item_rows : 1);
    uint32_t *words = (uint32_t *)(void *)lengths->values;
    for (size_t i = 0; i < lengths->count; i++)
        words[i] = (uint32_t)(i * 7 % (n.columns + 2)); /* 0 and more than there are, too */
    op_io *y = n.in_place ? as_in_out(x, 1e-7, 5e-6) : op_output(&c, "y", count, 1e-7, 5e-6);
    n.lengths = words;
    n.mask = mask->values;
    *(softmax_case *)op_args(&c, sizeof n) = n;
    double *all = make(count);
    put(all, x);
    softmax_forward(all, y->expected, &n);
    free(all);
    op_suite_add(suite, &c);
}

static td_status launch_softmax_back(const op_case *c, td_list *list, const td_span *s)
{
    const softmax_case *n = c->args;
    return td_op_softmax_back(list, &(td_softmax_back_args){.rows = n->rows,
                                                            .columns = n->columns,
                                                            .scale = (float)n->scale,
                                                            .y = s[0],
                                                            .dy = s[1],
                                                            .dx = s[2]});
}

static void add_softmax_back(op_suite *suite, softmax_case n)
{
    const size_t count = (size_t)n.rows * n.columns;
    op_case c = {
        .op = "softmax", .kernels = "softmax_back", .launch = launch_softmax_back, .is_gradient = true};
    snprintf(c.label, sizeof c.label, "back %u x %u%s", n.rows, n.columns, n.queries ? " causal" : "");
    *(softmax_case *)op_args(&c, sizeof n) = n;
    op_io *y = op_random(&c, "y", count, -3, 3, 43);
    const op_io *dy = op_random(&c, "dy", count, -1, 1, 44);
    op_io *dx = op_output(&c, "dx", count, 1e-7, 1e-5);
    double *x = make(count), *value = make(count), *cotangent = make(count);
    put(x, y);
    put(cotangent, dy);
    softmax_forward(x, value, &n);
    for (size_t i = 0; i < count; i++)
        y->values[i] = (float)value[i];
    op_numeric_gradient(softmax_forward, &n, x, count, cotangent, count, dx->expected);
    free(x);
    free(value);
    free(cotangent);
    op_suite_add(suite, &c);
}

static void make_softmax(op_suite *suite)
{
    static const uint32_t SIZES[][2] = {{1, 1}, {6, 7}, {4, 8}, {10, 33}, {20, 127}, {34, 128}, {2, 301}};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        softmax_case n = {
            .rows = SIZES[i][0], .columns = SIZES[i][1], .mask_repeat = 1, .scale = (double)0.3f};
        add_softmax(suite, n);
        n.item_rows = n.rows > 1 ? 2 : 1;
        n.has_lengths = true;
        add_softmax(suite, n);
        n.queries = n.rows < n.columns ? n.rows : n.columns;
        add_softmax(suite, n);
        n.mask_rows = 3;
        n.mask_repeat = 2;
        add_softmax(suite, n);
        n.in_place = true;
        add_softmax(suite, n);
        n.has_lengths = n.in_place = false;
        n.mask_rows = 0;
        if (n.rows * n.columns < 1000) add_softmax_back(suite, n);
        n.queries = 0;
        if (n.rows * n.columns < 1000) add_softmax_back(suite, n);
    }
}

/* ---------------------------------------------------------------- the family */

void cases_norm(op_suite *suite, td_device *device);
void cases_norm(op_suite *suite, td_device *device)
{
    make_rows(suite, td_device_class(device));
    make_channels(suite, td_device_class(device));
    make_softmax(suite);
}
