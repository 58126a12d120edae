/* Cases of src/ops/decode.h: each launch of a step with its weights in each format, sizes around vectors, groups and
 * slices, an empty and a full cache. References are plain formulas in double of the weights as they are stored. There
 * are no gradients: a step is never trained. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/decode.h"
#include "suite.h"

#define TOLERANCE 4e-6

static const char *const FORMATS[] = {
    [TD_FORMAT_FP32] = "fp32", [TD_FORMAT_BF16] = "bf16", [TD_FORMAT_FP16] = "", [TD_FORMAT_INT8] = "int8"};

typedef struct decode_args {
    td_decode_shape shape;
    bool is_first;
    int io[14]; /* in the order of the rig's and the block's members; -1: the launch does not look at it */
} decode_args;

enum {
    STEP,
    X,
    BETWEEN,
    QKV,
    ATTENDED,
    SUMS,
    SCRATCH,
    VECTORS,
    W_QKV,
    W_PROJ,
    W_FC,
    W_MLP,
    CACHE,
    POSITIONS
};

/* ---------------------------------------------------------------- making buffers */

static int last_io(const op_case *c)
{
    return (int)c->n_io - 1;
}

/* Random weights as they are stored; *values: what they stand for without scales, freed by the caller. */
static void add_weights(op_case *c, decode_args *a, int which, const char *name, size_t n, double **values)
{
    op_io *io = op_random(c, name, n, -1, 1, 100 + (uint64_t)which);
    *values = calloc(n, sizeof **values);
    if (!*values) abort();
    a->io[which] = last_io(c);
    if (a->shape.format == TD_FORMAT_BF16) op_round(io, TD_FORMAT_BF16);
    for (size_t i = 0; i < n; i++)
        (*values)[i] =
            a->shape.format == TD_FORMAT_INT8 ? rint(127 * (double)io->values[i]) : (double)io->values[i];
    if (a->shape.format == TD_FORMAT_BF16) op_pack(io, TD_FORMAT_BF16);
    if (a->shape.format != TD_FORMAT_INT8) return;
    uint32_t *words = (uint32_t *)(void *)io->values;
    for (size_t w = 0; w < (n + 3) / 4; w++) {
        uint32_t word = 0;
        for (size_t b = 0; b < 4 && 4 * w + b < n; b++)
            word |= (uint32_t)(uint8_t)(int8_t)(*values)[4 * w + b] << (8 * b);
        words[w] = word;
    }
    io->count = (n + 3) / 4;
}

static const op_io *add_random(op_case *c, decode_args *a, int which, const char *name, size_t n, float low,
                               float high)
{
    const op_io *io = op_random(c, name, n, low, high, 200 + (uint64_t)which);
    a->io[which] = last_io(c);
    return io;
}

/* Sums of a few are exact then. */
static void coarsen(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = rintf(256 * values[i]) / 256;
}

/* Vectors of a block; scales are small, so that sums of bytes stay as large as those of floats. */
static const float *add_vectors(op_case *c, decode_args *a)
{
    const td_decode_vectors v = td_decode_place_vectors(&a->shape);
    op_io *io = op_random(c, "vectors", v.total, -1, 1, 7);
    a->io[VECTORS] = last_io(c);
    coarsen(io->values + v.qkv_bias, 3 * (size_t)a->shape.width);
    if (a->shape.format == TD_FORMAT_INT8)
        for (uint32_t i = v.qkv_scale; i < v.total; i++)
            io->values[i] = (io->values[i] + 2) / 256;
    return io->values;
}

static double scale_of(const decode_args *a, const float *vectors, uint32_t at, size_t i)
{
    return a->shape.format == TD_FORMAT_INT8 ? (double)vectors[at + i] : 1;
}

static decode_args *begin(op_case *c, const td_decode_shape *shape, const char *op)
{
    decode_args *a = op_args(c, sizeof *a);
    c->op = op;
    a->shape = *shape;
    for (size_t i = 0; i < sizeof a->io / sizeof *a->io; i++)
        a->io[i] = -1;
    snprintf(c->label, sizeof c->label, "%s, texts %u, width %u, heads %u, inside %u, cache %u",
             FORMATS[shape->format], shape->texts, shape->width, shape->heads, shape->inside,
             shape->capacity);
    return a;
}

static void add_scratch(op_case *c, decode_args *a, const td_decode_cut *cut)
{
    op_scratch(c, "scratch", (size_t)cut->scratch);
    a->io[SCRATCH] = last_io(c);
}

/* Everything that a launch does not look at is of the right size and stays as it is. */
static void add_missing(op_case *c, decode_args *a, const td_decode_cut *cut)
{
    const td_decode_shape *s = &a->shape;
    const size_t square = (size_t)s->width * s->width, inside = (size_t)s->width * s->inside;
    const size_t counts[] = {[STEP] = (size_t)s->texts * TD_DECODE_WORDS,
                             [X] = (size_t)s->texts * s->width,
                             [BETWEEN] = (size_t)s->texts * s->width,
                             [QKV] = (size_t)cut->qkv,
                             [ATTENDED] = (size_t)cut->attend_parts,
                             [SUMS] = (size_t)cut->mlp_sums,
                             [SCRATCH] = (size_t)cut->scratch,
                             [VECTORS] = td_decode_place_vectors(s).total,
                             [W_QKV] = (size_t)td_decode_words(s->format, 3 * square),
                             [W_PROJ] = (size_t)td_decode_words(s->format, square),
                             [W_FC] = (size_t)td_decode_words(s->format, inside),
                             [W_MLP] = (size_t)td_decode_words(s->format, inside),
                             [CACHE] = 2 * (size_t)s->slots * s->capacity * s->width}; /* at most */
    size_t most = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (a->io[i] < 0 && counts[i] > most) most = counts[i];
    if (most == 0) return;
    op_input(c, "unused", most);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (a->io[i] < 0) a->io[i] = last_io(c);
}

static td_decode_rig make_rig(const decode_args *a, const td_span *spans)
{
    return (td_decode_rig){.step = spans[a->io[STEP]],
                           .x = spans[a->io[X]],
                           .x_between = spans[a->io[BETWEEN]],
                           .qkv = spans[a->io[QKV]],
                           .attend_parts = spans[a->io[ATTENDED]],
                           .mlp_sums = spans[a->io[SUMS]],
                           .scratch = spans[a->io[SCRATCH]]};
}

static td_decode_block make_block(const decode_args *a, const td_span *spans)
{
    return (td_decode_block){.vectors = spans[a->io[VECTORS]],
                             .qkv = spans[a->io[W_QKV]],
                             .proj = spans[a->io[W_PROJ]],
                             .fc = spans[a->io[W_FC]],
                             .mlp = spans[a->io[W_MLP]],
                             .cache = spans[a->io[CACHE]]};
}

/* ---------------------------------------------------------------- references */

static double *make(size_t n)
{
    double *block = calloc(n, sizeof *block);
    if (!block) abort();
    return block;
}

/* x of a text and the parts behind it. */
static double *add_up(const op_io *x, const op_io *parts, size_t t, size_t n_parts, size_t width)
{
    double *row = make(width);
    for (size_t c = 0; c < width; c++) {
        row[c] = (double)x->values[t * width + c];
        for (size_t p = 0; p < n_parts; p++)
            row[c] += (double)parts->values[(t * n_parts + p) * width + c];
    }
    return row;
}

static void normalise(double *row, size_t width, double eps, const float *gamma, const float *beta)
{
    double mean = 0, square = 0;
    for (size_t c = 0; c < width; c++)
        mean += row[c] / (double)width;
    for (size_t c = 0; c < width; c++)
        square += (row[c] - mean) * (row[c] - mean) / (double)width;
    for (size_t c = 0; c < width; c++)
        row[c] = (row[c] - mean) / sqrt(square + eps) * (double)gamma[c] + (double)beta[c];
}

static double gelu(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* ---------------------------------------------------------------- the launches */

static td_status launch_embed(const op_case *c, td_list *list, const td_span *spans)
{
    const decode_args *a = c->args;
    const td_decode_rig rig = make_rig(a, spans);
    return td_op_decode_embed(list, &a->shape, &rig, spans[a->io[VECTORS]], spans[a->io[POSITIONS]]);
}

static void add_embed(op_suite *suite, const td_decode_shape *s, const td_decode_cut *cut)
{
    op_case c = {.kernels = "decode_embed", .launch = launch_embed};
    decode_args *a = begin(&c, s, "decode_embed");
    const float *table = add_random(&c, a, VECTORS, "table", (size_t)s->codes * s->width, -1, 1)->values;
    const float *positions = add_random(&c, a, POSITIONS, "positions", (size_t)5 * s->width, -1, 1)->values;
    uint32_t *step = (uint32_t *)(void *)op_input(&c, "step", (size_t)s->texts * TD_DECODE_WORDS)->values;
    a->io[STEP] = last_io(&c);
    op_io *x = op_output(&c, "x", (size_t)s->texts * s->width, 1e-7, 1e-7);
    a->io[X] = last_io(&c);
    for (size_t t = 0; t < s->texts; t++) {
        const size_t code = (s->codes - 1 + t) % s->codes, position = (3 + t) % 5;
        step[t * TD_DECODE_WORDS + TD_DECODE_CODE] = (uint32_t)code;
        step[t * TD_DECODE_WORDS + TD_DECODE_POSITION] = (uint32_t)position;
        for (size_t i = 0; i < s->width; i++)
            x->expected[t * s->width + i] =
                (double)table[code * s->width + i] + (double)positions[position * s->width + i];
    }
    add_missing(&c, a, cut);
    op_suite_add(suite, &c);
}

static td_status launch_qkv(const op_case *c, td_list *list, const td_span *spans)
{
    const decode_args *a = c->args;
    const td_decode_rig rig = make_rig(a, spans);
    const td_decode_block block = make_block(a, spans);
    return td_op_decode_qkv(list, &a->shape, &rig, &block, a->is_first);
}

static void add_qkv(op_suite *suite, const td_decode_shape *s, const td_decode_cut *cut, bool is_first)
{
    op_case c = {.launch = launch_qkv};
    decode_args *a = begin(&c, s, "decode_qkv");
    const td_decode_vectors v = td_decode_place_vectors(s);
    const size_t n = s->width, columns = 3 * n;
    double *w;
    a->is_first = is_first;
    const op_io *x = add_random(&c, a, X, "x", s->texts * n, -1, 1);
    const op_io *parts = add_random(&c, a, SUMS, "mlp_sums", (size_t)cut->mlp_sums, -1, 1);
    const float *vectors = add_vectors(&c, a);
    add_weights(&c, a, W_QKV, "w", n * columns, &w);
    op_io *between = op_output(&c, "x_between", s->texts * n, TOLERANCE, TOLERANCE);
    a->io[BETWEEN] = last_io(&c);
    op_io *out = op_output(&c, "qkv", (size_t)cut->qkv, TOLERANCE * sqrt((double)n), TOLERANCE);
    a->io[QKV] = last_io(&c);
    add_scratch(&c, a, cut);
    for (size_t t = 0; t < s->texts; t++) {
        double *row = add_up(x, parts, t, is_first ? 0 : cut->mlp_parts, n);
        memcpy(between->expected + t * n, row, n * sizeof *row);
        normalise(row, n, (double)s->eps, vectors + v.gamma_1, vectors + v.beta_1);
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < columns; j++)
                out->expected[(t * cut->splits + k / cut->terms) * columns + j] +=
                    row[k] * w[k * columns + j] * scale_of(a, vectors, v.qkv_scale, j);
        free(row);
    }
    free(w);
    add_missing(&c, a, cut);
    op_suite_add(suite, &c);
}

static td_status launch_attend(const op_case *c, td_list *list, const td_span *spans)
{
    const decode_args *a = c->args;
    const td_decode_rig rig = make_rig(a, spans);
    const td_decode_block block = make_block(a, spans);
    return td_op_decode_attend(list, &a->shape, &rig, &block);
}

/* Attention of one head over rows 0 .. last of its keys and values, [last + 1, head] each. */
static void attend(const double *q, const double *keys, const double *values, size_t last, size_t head,
                   double *out)
{
    double *weights = make(last + 1), most = -INFINITY, sum = 0;
    for (size_t r = 0; r <= last; r++) {
        for (size_t d = 0; d < head; d++)
            weights[r] += q[d] * keys[r * head + d] / sqrt((double)head);
        most = fmax(most, weights[r]);
    }
    for (size_t r = 0; r <= last; r++)
        sum += weights[r] = exp(weights[r] - most);
    for (size_t d = 0; d < head; d++) {
        out[d] = 0;
        for (size_t r = 0; r <= last; r++)
            out[d] += weights[r] / sum * values[r * head + d];
    }
    free(weights);
}

static bool is_narrow(const decode_args *a)
{
    return td_decode_cache_format(a->shape.format) != TD_FORMAT_FP32;
}

/* As a cache keeps it. */
static double keep(const decode_args *a, double value)
{
    if (!is_narrow(a)) return value;
    return (double)op_from_half(op_to_half((float)value, TD_FORMAT_BF16), TD_FORMAT_BF16);
}

/* Full of numbers as it keeps them; `expected` begins with these. */
static op_io *add_cache(op_case *c, decode_args *a)
{
    const td_decode_shape *s = &a->shape;
    op_io *cache = op_random(c, "cache", 2 * (size_t)s->slots * s->capacity * s->width, -1, 1, 17);
    a->io[CACHE] = last_io(c);
    cache->kind = OP_IN_OUT;
    cache->expected = make(cache->count);
    cache->atol = cache->rtol = TOLERANCE;
    if (is_narrow(a)) op_round(cache, TD_FORMAT_BF16);
    for (size_t i = 0; i < cache->count; i++)
        cache->expected[i] = (double)cache->values[i];
    return cache;
}

/* A narrow one has two numbers to a word, which are known to the bit. */
static void pack_cache(const decode_args *a, op_io *cache)
{
    const size_t n = cache->count;
    if (!is_narrow(a)) return;
    op_pack(cache, TD_FORMAT_BF16);
    cache->words = calloc(cache->count, sizeof *cache->words);
    if (!cache->words) abort();
    for (size_t i = 0; i < n; i++)
        cache->words[i / 2] |= op_to_half((float)cache->expected[i], TD_FORMAT_BF16) << i % 2 * 16;
    free(cache->expected);
    cache->expected = NULL;
}

static void add_attend(op_suite *suite, const td_decode_shape *s, const td_decode_cut *cut, uint32_t last)
{
    op_case c = {.launch = launch_attend};
    decode_args *a = begin(&c, s, "decode_attend");
    const td_decode_vectors v = td_decode_place_vectors(s);
    const size_t n = s->width, head = n / s->heads, rows = s->capacity;
    double *w, *q = make(head), *out = make(head), *kv[2] = {make(rows * head), make(rows * head)};
    float *qkv = op_random(&c, "qkv", (size_t)cut->qkv, -1, 1, 200 + QKV)->values;
    a->io[QKV] = last_io(&c);
    coarsen(qkv, (size_t)cut->qkv);
    const float *vectors = add_vectors(&c, a);
    add_weights(&c, a, W_PROJ, "w", n * n, &w);
    uint32_t *step = (uint32_t *)(void *)op_input(&c, "step", (size_t)s->texts * TD_DECODE_WORDS)->values;
    a->io[STEP] = last_io(&c);
    op_io *cache = add_cache(&c, a);
    op_io *parts = op_output(&c, "attend_parts", (size_t)cut->attend_parts, 4 * TOLERANCE, TOLERANCE);
    a->io[ATTENDED] = last_io(&c);
    add_scratch(&c, a, cut);
    for (size_t th = 0; th < (size_t)s->texts * s->heads; th++) {
        /* texts have slots in another order than their own, and rows of their own */
        const size_t t = th / s->heads, h = th % s->heads, slot = s->slots - 1 - t;
        const size_t own = last >= t ? last - t : 0;
        step[t * TD_DECODE_WORDS + TD_DECODE_ROW] = (uint32_t)own;
        step[t * TD_DECODE_WORDS + TD_DECODE_SLOT] = (uint32_t)slot;
        for (size_t d = 0; d < head; d++) {
            double sums[3];
            for (size_t which = 0; which < 3; which++) {
                const size_t column = which * n + h * head + d;
                sums[which] = (double)vectors[v.qkv_bias + column];
                for (size_t p = 0; p < cut->splits; p++)
                    sums[which] += (double)qkv[(t * cut->splits + p) * 3 * n + column];
                if (which > 0)
                    cache->expected[(((slot * 2 + which - 1) * s->heads + h) * rows + own) * head + d] =
                        keep(a, sums[which]);
            }
            q[d] = sums[0];
        }
        for (size_t which = 0; which < 2; which++)
            memcpy(kv[which], cache->expected + ((slot * 2 + which) * s->heads + h) * rows * head,
                   rows * head * sizeof **kv);
        attend(q, kv[0], kv[1], own, head, out);
        for (size_t j = 0; j < n; j++) {
            double *sum = &parts->expected[th * n + j];
            for (size_t d = 0; d < head; d++)
                *sum += out[d] * w[(h * head + d) * n + j] * scale_of(a, vectors, v.proj_scale, j);
            if (h == 0) *sum += (double)vectors[v.proj_bias + j];
        }
    }
    pack_cache(a, cache);
    free(w);
    free(q);
    free(out);
    free(kv[0]);
    free(kv[1]);
    add_missing(&c, a, cut);
    op_suite_add(suite, &c);
}

static td_status launch_mlp(const op_case *c, td_list *list, const td_span *spans)
{
    const decode_args *a = c->args;
    const td_decode_rig rig = make_rig(a, spans);
    const td_decode_block block = make_block(a, spans);
    return td_op_decode_mlp(list, &a->shape, &rig, &block);
}

static void add_mlp(op_suite *suite, const td_decode_shape *s, const td_decode_cut *cut)
{
    op_case c = {.launch = launch_mlp};
    decode_args *a = begin(&c, s, "decode_mlp");
    const td_decode_vectors v = td_decode_place_vectors(s);
    const size_t n = s->width;
    double *fc, *mlp;
    const op_io *between = add_random(&c, a, BETWEEN, "x_between", s->texts * n, -1, 1);
    const op_io *parts = add_random(&c, a, ATTENDED, "attend_parts", (size_t)cut->attend_parts, -1, 1);
    const float *vectors = add_vectors(&c, a);
    add_weights(&c, a, W_FC, "fc", s->inside * n, &fc);
    add_weights(&c, a, W_MLP, "mlp", s->inside * n, &mlp);
    op_io *x = op_output(&c, "x", s->texts * n, TOLERANCE, TOLERANCE);
    a->io[X] = last_io(&c);
    op_io *sums = op_output(&c, "mlp_sums", (size_t)cut->mlp_sums, TOLERANCE * (double)n, TOLERANCE);
    a->io[SUMS] = last_io(&c);
    add_scratch(&c, a, cut);
    for (size_t t = 0; t < s->texts; t++) {
        double *row = add_up(between, parts, t, s->heads, n), *sum = sums->expected + t * cut->mlp_parts * n;
        memcpy(x->expected + t * n, row, n * sizeof *row);
        normalise(row, n, (double)s->eps, vectors + v.gamma_2, vectors + v.beta_2);
        for (size_t i = 0; i < s->inside; i++) {
            double dot = 0;
            for (size_t k = 0; k < n; k++)
                dot += row[k] * fc[i * n + k];
            const double inside =
                gelu(dot * scale_of(a, vectors, v.fc_scale, i) + (double)vectors[v.fc_bias + i]);
            for (size_t j = 0; j < n; j++)
                sum[i / cut->rows * n + j] += inside * mlp[i * n + j] * scale_of(a, vectors, v.mlp_scale, j);
        }
        for (size_t j = 0; j < n; j++)
            sum[j] += (double)vectors[v.mlp_bias + j];
        free(row);
    }
    free(fc);
    free(mlp);
    add_missing(&c, a, cut);
    op_suite_add(suite, &c);
}

/* Latent and logits stand where the cache and the positions are. */
static td_status launch_head(const op_case *c, td_list *list, const td_span *spans)
{
    const decode_args *a = c->args;
    const td_decode_rig rig = make_rig(a, spans);
    const td_decode_last last = {.vectors = spans[a->io[VECTORS]],
                                 .weight = spans[a->io[W_FC]],
                                 .latent = spans[a->io[CACHE]],
                                 .logits = spans[a->io[POSITIONS]]};
    return td_op_decode_head(list, &a->shape, &rig, &last, a->is_first);
}

static void add_head(op_suite *suite, const td_decode_shape *s, const td_decode_cut *cut, bool is_first)
{
    op_case c = {.kernels = "decode_head", .launch = launch_head};
    decode_args *a = begin(&c, s, "decode_head");
    const size_t n = s->width;
    a->is_first = is_first;
    const op_io *x = add_random(&c, a, X, "x", s->texts * n, -1, 1);
    const op_io *parts = add_random(&c, a, SUMS, "mlp_sums", (size_t)cut->mlp_sums, -1, 1);
    const float *vectors = add_random(&c, a, VECTORS, "vectors", 4 * n + s->codes, -1, 1)->values;
    const float *w = add_random(&c, a, W_FC, "w", s->codes * n, -1, 1)->values;
    op_io *latent = op_output(&c, "latent", s->texts * n, 4 * TOLERANCE, TOLERANCE);
    a->io[CACHE] = last_io(&c);
    op_io *logits = op_output(&c, "logits", (size_t)s->texts * s->codes, TOLERANCE * (double)n, TOLERANCE);
    a->io[POSITIONS] = last_io(&c);
    add_scratch(&c, a, cut);
    for (size_t t = 0; t < s->texts; t++) {
        double *row = add_up(x, parts, t, is_first ? 0 : cut->mlp_parts, n);
        normalise(row, n, (double)s->eps, vectors, vectors + n);
        normalise(row, n, (double)s->eps, vectors + 2 * n, vectors + 3 * n);
        memcpy(latent->expected + t * n, row, n * sizeof *row);
        for (size_t i = 0; i < s->codes; i++) {
            double *logit = &logits->expected[t * s->codes + i];
            *logit = (double)vectors[4 * n + i];
            for (size_t k = 0; k < n; k++)
                *logit += row[k] * (double)w[i * n + k];
        }
        free(row);
    }
    add_missing(&c, a, cut);
    op_suite_add(suite, &c);
}

typedef struct widen_args {
    uint32_t rows, columns;
    bool by_row;
} widen_args;

static td_status launch_widen(const op_case *c, td_list *list, const td_span *spans)
{
    const widen_args *a = c->args;
    return td_op_decode_widen(list, a->rows, a->columns, a->by_row, spans[0], spans[1], spans[2]);
}

static void add_widen(op_suite *suite, uint32_t rows, uint32_t columns, bool by_row)
{
    op_case c = {.op = "decode_widen", .kernels = "decode_widen", .launch = launch_widen};
    widen_args *a = op_args(&c, sizeof *a);
    decode_args bytes = {.shape.format = TD_FORMAT_INT8};
    double *values;
    *a = (widen_args){rows, columns, by_row};
    snprintf(c.label, sizeof c.label, "rows %u, columns %u, scales of %s", rows, columns,
             by_row ? "rows" : "columns");
    add_weights(&c, &bytes, W_FC, "x", (size_t)rows * columns, &values);
    const float *scales = op_random(&c, "scales", by_row ? rows : columns, -1, 1, 3)->values;
    op_io *y = op_output(&c, "y", (size_t)rows * columns, 0, 1e-6);
    for (size_t i = 0; i < y->count; i++)
        y->expected[i] = values[i] * (double)scales[by_row ? i / columns : i % columns];
    free(values);
    op_suite_add(suite, &c);
}

void cases_decode(op_suite *suite, td_device *device);
void cases_decode(op_suite *suite, td_device *device)
{
    /* one to three texts, some with a slot between them; width, heads, inside, capacity, codes: less than a vector, odd heads, more than a slice of either class, the sizes
     * of a real head */
    static const uint32_t shapes[][5] = {{4, 1, 4, 1, 5},       {24, 3, 72, 9, 19},    {60, 5, 260, 21, 131},
                                         {132, 2, 300, 40, 67}, {256, 4, 520, 70, 33}, {576, 9, 144, 33, 40}};
    static const uint32_t formats[] = {TD_FORMAT_FP32, TD_FORMAT_BF16, TD_FORMAT_INT8};
    const size_t n_shapes = sizeof shapes / sizeof *shapes - (op_device_is_slow(device) ? 1 : 0);
    for (size_t i = 0; i < n_shapes; i++) {
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            const uint32_t *n = shapes[i];
            const uint32_t texts = 1 + (uint32_t)(i + f) % 3;
            const td_decode_shape s = {.texts = texts,
                                       .slots = texts + i % 2,
                                       .width = n[0],
                                       .heads = n[1],
                                       .inside = n[2],
                                       .capacity = n[3],
                                       .codes = n[4],
                                       .format = formats[f],
                                       .eps = 1e-5f};
            const td_decode_cut cut = td_decode_cut_up(device, &s);
            add_qkv(suite, &s, &cut, f == 0 && i % 2 == 1);
            add_attend(suite, &s, &cut, s.capacity - 1);
            if (s.capacity > 1) add_attend(suite, &s, &cut, i == 1 ? 0 : s.capacity / 2);
            add_mlp(suite, &s, &cut);
            if (f == 0) add_embed(suite, &s, &cut);
            if (f == 0) add_head(suite, &s, &cut, i % 2 == 1);
        }
    }
    add_widen(suite, 7, 300, false);
    add_widen(suite, 33, 20, true);
    add_widen(suite, 1, 1, true);
}
