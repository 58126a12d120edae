/* Cases of src/ops/attention.h. References are the plain formulas in double, with all scores in a matrix;
 * gradients of tiny sizes are differences of the forward formula, those of larger sizes the derivative
 * written out, checked against the same kernels. Letters: B items, H heads, D elements of a head, T time
 * steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attention.h"
#include "suite.h"

/* ---------------------------------------------------------------- cases */

typedef struct attention_case {
    uint32_t batch, heads, head_size, queries, keys;
    bool causal, padded, packed; /* packed: q, k and v side by side in one buffer, and so their gradients */
    bool with_weights;           /* the picture instead of the output */
    uint32_t lengths[8];         /* for the reference; the kernels read a buffer */
} attention_case;

static size_t width_of(const attention_case *a)
{
    return (size_t)a->heads * a->head_size;
}

static size_t q_count(const attention_case *a)
{
    return a->batch * a->queries * width_of(a);
}

static size_t k_count(const attention_case *a)
{
    return a->batch * a->keys * width_of(a);
}

/* Keys that query i of item b sees. */
static uint32_t seen_keys(const attention_case *a, uint32_t b, uint32_t i)
{
    const uint32_t valid = a->padded ? a->lengths[b] : a->keys;
    const uint32_t reach = a->causal ? i + 1 + a->keys - a->queries : a->keys;
    return valid < reach ? valid : reach;
}

static void choose_lengths(attention_case *a)
{
    const uint32_t lengths[] = {a->keys, 0, 1, a->keys / 2, a->keys - 1};
    for (uint32_t b = 0; b < a->batch && b < 8; b++)
        a->lengths[b] = lengths[b % 5];
}

/* ---------------------------------------------------------------- references */

static double *make(size_t n)
{
    double *block = calloc(n ? n : 1, sizeof *block);
    if (!block) abort();
    return block;
}

static double dot(const double *x, const double *y, uint32_t n)
{
    double sum = 0;
    for (uint32_t d = 0; d < n; d++)
        sum += x[d] * y[d];
    return sum;
}

/* Weights p[0..seen) of one query; returns lse, 0 for a query that sees nothing. */
static double weigh(const attention_case *a, const double *q, const double *k, uint32_t seen, double *p)
{
    double most = -INFINITY, sum = 0;
    if (seen == 0) return 0;
    for (uint32_t j = 0; j < seen; j++) {
        p[j] = dot(q, k + j * width_of(a), a->head_size) / sqrt(a->head_size);
        if (p[j] > most) most = p[j];
    }
    for (uint32_t j = 0; j < seen; j++)
        sum += exp(p[j] - most);
    for (uint32_t j = 0; j < seen; j++)
        p[j] = exp(p[j] - most) / sum;
    return most + log(sum);
}

typedef struct reference {
    const double *q, *k, *v;
    double *o, *lse, *w; /* any may be NULL */
} reference;

static void refer_forward(const attention_case *a, const reference *r)
{
    double *p = make(a->keys);
    for (uint32_t t = 0; t < a->batch * a->queries * a->heads; t++) {
        const uint32_t h = t % a->heads, row = t / a->heads, b = row / a->queries, i = row % a->queries;
        const size_t at = row * width_of(a) + h * a->head_size;
        const size_t other = b * a->keys * width_of(a) + h * a->head_size;
        const uint32_t seen = seen_keys(a, b, i);
        const double lse = weigh(a, r->q + at, r->k + other, seen, p);
        if (r->lse) r->lse[(b * a->heads + h) * a->queries + i] = lse;
        for (uint32_t j = 0; j < seen; j++) {
            if (r->w) r->w[row * a->keys + j] += p[j] / a->heads;
            for (uint32_t d = 0; r->o && d < a->head_size; d++)
                r->o[at + d] += p[j] * r->v[other + j * width_of(a) + d];
        }
    }
    free(p);
}

/* As op_numeric_gradient wants it: x holds q, k, v one behind the other. */
static void forward_of(const double *x, double *y, const void *context)
{
    const attention_case *a = context;
    const reference r = {.q = x, .k = x + q_count(a), .v = x + q_count(a) + k_count(a), .o = y};
    memset(y, 0, q_count(a) * sizeof *y);
    refer_forward(a, &r);
}

/* With P the weights: dv = P^T do, dP = do v^T, dS = P (dP - sum of P dP), dq = dS k / sqrt(D), dk = dS^T q /
 * sqrt(D). dx as x in forward_of. */
static void backward_of(const attention_case *a, const double *x, const double *d_o, double *dx)
{
    const double *q = x, *k = q + q_count(a), *v = k + k_count(a);
    double *dq = dx, *dk = dq + q_count(a), *dv = dk + k_count(a);
    double *p = make(a->keys), *dp = make(a->keys);
    for (uint32_t t = 0; t < a->batch * a->queries * a->heads; t++) {
        const uint32_t h = t % a->heads, row = t / a->heads, b = row / a->queries, i = row % a->queries;
        const size_t at = row * width_of(a) + h * a->head_size;
        const size_t other = b * a->keys * width_of(a) + h * a->head_size;
        const uint32_t seen = seen_keys(a, b, i);
        double mean = 0;
        weigh(a, q + at, k + other, seen, p);
        for (uint32_t j = 0; j < seen; j++) {
            dp[j] = dot(d_o + at, v + other + j * width_of(a), a->head_size);
            mean += p[j] * dp[j];
        }
        for (uint32_t j = 0; j < seen; j++) {
            const double ds = p[j] * (dp[j] - mean) / sqrt(a->head_size);
            const size_t key = other + j * width_of(a);
            for (uint32_t d = 0; d < a->head_size; d++) {
                dq[at + d] += ds * k[key + d];
                dk[key + d] += ds * q[at + d];
                dv[key + d] += p[j] * d_o[at + d];
            }
        }
    }
    free(p);
    free(dp);
}

/* ---------------------------------------------------------------- buffers */

/* Between [q; k; v] one behind the other and packed rows [q k v]. */
static size_t packed_at(const attention_case *a, size_t plain)
{
    const size_t part = plain / q_count(a), rest = plain % q_count(a);
    return (rest / width_of(a) * 3 + part) * width_of(a) + rest % width_of(a);
}

enum { Q, K, V, LENGTHS, D_O, O, LSE, STATS, D_Q, D_K, D_V, W, ROLES };

typedef struct roles {
    attention_case shape;
    int io[ROLES]; /* index of each buffer in the case, -1: none; packed parts follow from Q and D_Q */
} roles;

/* What lies behind an item's last valid key must not matter: NaN is put there. */
static void poison_padding(op_case *c, const roles *r)
{
    const attention_case *a = &r->shape;
    const size_t n_q = q_count(a), n_k = k_count(a);
    for (size_t t = 0; t < n_k; t++) {
        const size_t b = t / (a->keys * width_of(a)), j = t / width_of(a) % a->keys;
        if (j < a->lengths[b]) continue;
        for (size_t part = 1; part <= 2; part++) {
            if (a->packed)
                c->io[r->io[Q]].values[packed_at(a, part * n_q + t)] = NAN;
            else
                c->io[r->io[Q + (int)part]].values[t] = NAN;
        }
    }
}

/* Adds the inputs q, k, v and lengths; returns q, k, v as doubles, owned by the caller. */
static double *add_inputs(op_case *c, roles *r, uint64_t seed)
{
    const attention_case *a = &r->shape;
    const size_t n_q = q_count(a), n_k = k_count(a);
    double *x = make(n_q + 2 * n_k);
    if (a->packed) {
        r->io[Q] = (int)c->n_io;
        const op_io *io = op_random(c, "qkv", 3 * n_q, -2, 2, seed);
        for (size_t t = 0; t < 3 * n_q; t++)
            x[t] = (double)io->values[packed_at(a, t)];
    } else {
        double *to = x;
        for (int role = Q; role <= V; role++) {
            r->io[role] = (int)c->n_io;
            const op_io *io =
                op_random(c, &"q\0k\0v"[2 * role], role == Q ? n_q : n_k, -2, 2, seed + (uint64_t)role);
            for (size_t t = 0; t < io->count; t++)
                *to++ = (double)io->values[t];
        }
    }
    if (a->padded) {
        r->io[LENGTHS] = (int)c->n_io;
        memcpy(op_input(c, "lengths", a->batch)->values, a->lengths, 4 * a->batch);
        poison_padding(c, r);
    }
    return x;
}

static op_io *add_role(op_case *c, roles *r, int role, op_io *io)
{
    r->io[role] = (int)c->n_io - 1;
    return io;
}

static void take(op_io *io, const double *from)
{
    memcpy(io->expected, from, io->count * sizeof *from);
}

static void give(op_io *io, const double *from)
{
    for (size_t t = 0; t < io->count; t++)
        io->values[t] = (float)from[t];
}

/* ---------------------------------------------------------------- launches */

/* Part `part` of three in packed rows. */
static td_span part_of(const attention_case *a, td_span packed, uint64_t part)
{
    const uint64_t skip = part * 4 * width_of(a);
    return td_span_part(packed, skip, packed.bytes - skip);
}

static td_span span_of(const roles *r, const td_span *spans, int role)
{
    const attention_case *a = &r->shape;
    if (a->packed && role <= V) return part_of(a, spans[r->io[Q]], (uint64_t)role);
    if (a->packed && role >= D_Q && role <= D_V) return part_of(a, spans[r->io[D_Q]], (uint64_t)(role - D_Q));
    return r->io[role] < 0 ? (td_span){0} : spans[r->io[role]];
}

static td_attention_args forward_args(const roles *r, const td_span *s)
{
    const attention_case *a = &r->shape;
    const uint32_t row = a->packed ? 3 * (uint32_t)width_of(a) : 0;
    return (td_attention_args){.shape = {.batch = a->batch,
                                         .heads = a->heads,
                                         .head_size = a->head_size,
                                         .queries = a->queries,
                                         .keys = a->keys,
                                         .causal = a->causal,
                                         .q_row = row,
                                         .k_row = row,
                                         .v_row = row},
                               .q = span_of(r, s, Q),
                               .k = span_of(r, s, K),
                               .v = span_of(r, s, V),
                               .lengths = span_of(r, s, LENGTHS),
                               .o = span_of(r, s, O),
                               .lse = span_of(r, s, LSE)};
}

static td_status launch_forward(const op_case *c, td_list *list, const td_span *s)
{
    const roles *r = c->args;
    const td_attention_args args = forward_args(r, s);
    if (r->shape.with_weights) return td_op_attention_weights(list, &args, span_of(r, s, W));
    return td_op_attention(list, &args);
}

static td_status launch_back(const op_case *c, td_list *list, const td_span *s)
{
    const roles *r = c->args;
    const td_attention_back_args args = {.forward = forward_args(r, s),
                                         .d_o = span_of(r, s, D_O),
                                         .stats = span_of(r, s, STATS),
                                         .d_q = span_of(r, s, D_Q),
                                         .d_k = span_of(r, s, D_K),
                                         .d_v = span_of(r, s, D_V)};
    return td_op_attention_back(list, &args);
}

/* ---------------------------------------------------------------- making */

/* By head size: forward, backward. */
static const char *const KERNELS[][2] = {
    {"attention_32", "attention_stats attention_dq_32 attention_dkv_32"},
    {"attention_64", "attention_stats attention_dq_64 attention_dkv_64"},
    {"attention_96", "attention_stats attention_dq_96 attention_dkv_96"},
    {"attention_128", "attention_stats attention_dq_128 attention_dkv_128"}};

static roles *start(op_case *c, attention_case a)
{
    roles *r = op_args(c, sizeof *r);
    r->shape = a;
    if (a.padded) choose_lengths(&r->shape);
    for (int role = 0; role < ROLES; role++)
        r->io[role] = -1;
    snprintf(c->label, sizeof c->label, "%u x %u heads of %u, %u queries, %u keys%s%s%s", a.batch, a.heads,
             a.head_size, a.queries, a.keys, a.causal ? ", causal" : "", a.padded ? ", padded" : "",
             a.packed ? ", packed" : "");
    return r;
}

static void add_forward(op_suite *suite, attention_case a)
{
    op_case c = {.op = a.with_weights ? "attention_weights" : "attention", .launch = launch_forward};
    roles *r = start(&c, a);
    double *x = add_inputs(&c, r, 11 + a.queries);
    const size_t n_lse = (size_t)a.batch * a.heads * a.queries;
    double *o = make(q_count(&a)), *lse = make(n_lse), *w = make((size_t)a.batch * a.queries * a.keys);
    refer_forward(
        &r->shape,
        &(reference){
            .q = x, .k = x + q_count(&a), .v = x + q_count(&a) + k_count(&a), .o = o, .lse = lse, .w = w});
    if (a.with_weights) {
        give(add_role(&c, r, LSE, op_input(&c, "lse", n_lse)), lse);
        take(add_role(&c, r, W, op_output(&c, "w", (size_t)a.batch * a.queries * a.keys, 1e-6, 1e-5)), w);
    } else {
        take(add_role(&c, r, O, op_output(&c, "o", q_count(&a), 3e-6, 3e-6)), o);
        take(add_role(&c, r, LSE, op_output(&c, "lse", n_lse, 3e-6, 1e-6)), lse);
    }
    c.kernels = a.with_weights ? "attention_weights" : KERNELS[a.head_size / 32 - 1][0];
    op_suite_add(suite, &c);
    free(x);
    free(o);
    free(lse);
    free(w);
}

/* Expected gradients dx [q; k; v], into one packed buffer or three. */
static void add_gradients(op_case *c, roles *r, const double *dx)
{
    const attention_case *a = &r->shape;
    if (a->packed) {
        op_io *io = add_role(c, r, D_Q, op_output(c, "d_qkv", 3 * q_count(a), 8e-6, 4e-6));
        for (size_t t = 0; t < 3 * q_count(a); t++)
            io->expected[packed_at(a, t)] = dx[t];
        return;
    }
    take(add_role(c, r, D_Q, op_output(c, "d_q", q_count(a), 8e-6, 4e-6)), dx);
    take(add_role(c, r, D_K, op_output(c, "d_k", k_count(a), 8e-6, 4e-6)), dx + q_count(a));
    take(add_role(c, r, D_V, op_output(c, "d_v", k_count(a), 8e-6, 4e-6)), dx + q_count(a) + k_count(a));
}

static void add_back(op_suite *suite, attention_case a, bool numeric)
{
    op_case c = {.op = "attention_back", .launch = launch_back, .is_gradient = true};
    roles *r = start(&c, a);
    const attention_case *s = &r->shape;
    const size_t n_q = q_count(s), n_x = n_q + 2 * k_count(s), n_lse = (size_t)a.batch * a.heads * a.queries;
    double *x = add_inputs(&c, r, 12 + a.queries), *d_o = make(n_q), *dx = make(n_x);
    double *o = make(n_q), *lse = make(n_lse);
    const op_io *io = add_role(&c, r, D_O, op_random(&c, "d_o", n_q, -1, 1, 77));
    for (size_t t = 0; t < n_q; t++)
        d_o[t] = (double)io->values[t];
    refer_forward(s, &(reference){.q = x, .k = x + n_q, .v = x + n_q + k_count(s), .o = o, .lse = lse});
    give(add_role(&c, r, O, op_input(&c, "o", n_q)), o);
    give(add_role(&c, r, LSE, op_input(&c, "lse", n_lse)), lse);
    if (numeric)
        op_numeric_gradient(forward_of, s, x, n_x, d_o, n_q, dx);
    else
        backward_of(s, x, d_o, dx);
    add_gradients(&c, r, dx);
    const td_attention_shape shape = {.batch = a.batch, .heads = a.heads, .queries = a.queries};
    add_role(&c, r, STATS, op_scratch(&c, "stats", td_op_attention_stats(&shape)));
    c.kernels = KERNELS[a.head_size / 32 - 1][1];
    op_suite_add(suite, &c);
    free(x);
    free(d_o);
    free(dx);
    free(o);
    free(lse);
}

/* ---------------------------------------------------------------- the list */

static const attention_case CASES[] = {
    {1, 1, 32, 1, 1, .causal = true},
    {2, 2, 32, 31, 31, .causal = true},
    {1, 1, 32, 32, 33, .causal = false},
    {1, 2, 64, 33, 32, .causal = false},
    {2, 1, 64, 48, 48, .causal = true, .packed = true},
    {1, 2, 96, 47, 49, .causal = true},
    {1, 1, 128, 49, 47, .causal = false},
    {5, 1, 32, 7, 53, .padded = true},
    {5, 2, 64, 53, 53, .causal = true, .padded = true, .packed = true},
    {3, 1, 128, 5, 37, .causal = true, .padded = true},
    {4, 4, 32, 19, 19, .causal = true, .packed = true}, /* on a CPU all gradients of a head at once */
    {8, 2, 64, 13, 29, .padded = true},
    {16, 1, 96, 11, 11, .causal = true},
    {16, 1, 128, 3, 50, .causal = false},
    {1, 1, 64, 430, 430, .causal = false}, /* about as many iterations as lavapipe's loops can have */
};

static const attention_case LARGE[] = {
    {2, 3, 64, 131, 131, .causal = true, .packed = true},
    {2, 2, 96, 50, 211, .padded = true},
    {1, 2, 128, 150, 199, .causal = true},
    {4, 4, 64, 149, 149, .causal = true, .padded = true},
    {8, 2, 32, 101, 97, .causal = false},
};

static const attention_case TINY[] = {
    {1, 1, 32, 3, 3, .causal = true},
    {2, 1, 32, 2, 4, .causal = true},
    {3, 1, 32, 2, 3, .padded = true},
    {1, 1, 64, 2, 3, .causal = false},
    {1, 1, 96, 3, 3, .causal = true, .packed = true},
    {1, 1, 128, 1, 3, .causal = false},
};

void cases_attention(op_suite *suite, td_device *device);
void cases_attention(op_suite *suite, td_device *device)
{
    for (size_t t = 0; t < sizeof TINY / sizeof *TINY; t++) {
        attention_case picture = TINY[t];
        picture.with_weights = true;
        add_forward(suite, TINY[t]);
        add_back(suite, TINY[t], true);
        add_forward(suite, picture);
    }
    for (size_t t = 0; t < sizeof CASES / sizeof *CASES; t++) {
        attention_case picture = CASES[t];
        picture.with_weights = true;
        add_forward(suite, CASES[t]);
        add_back(suite, CASES[t], false);
        if (t % 3 == 1) add_forward(suite, picture);
    }
    for (size_t t = 0; t < sizeof LARGE / sizeof *LARGE && !op_device_is_slow(device); t++) {
        add_forward(suite, LARGE[t]);
        add_back(suite, LARGE[t], false);
    }
}
