/* Cases of the matrix product: every variant in every layout, with rows and matrices apart, batches that
 * share an operand, sizes around tiles, vectors and blocks of k, k in parts, and each epilogue; gradients of
 * a product as the two products that make them. The reference is the sum in double, element by element. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/gemm_internal.h"
#include "ops/suite.h"

#define GAP NAN /* what lies between rows of C is not touched */

typedef struct gemm_args {
    td_gemm_desc desc;
    td_gemm_choice choice;
    bool chooses;                       /* through td_gemm(), which finds its own way */
    int bias, pre, residual, workspace; /* indices in io; -1: none */
} gemm_args;

static td_status launch(const op_case *c, td_list *list, const td_span *spans)
{
    const gemm_args *args = c->args;
    td_gemm_desc desc = args->desc;
    td_gemm_problem problem;
    td_status status = TD_OK;
    desc.a = spans[0];
    desc.b = spans[1];
    desc.c = spans[2];
    if (args->bias >= 0) desc.bias = spans[args->bias];
    if (args->pre >= 0) desc.pre = spans[args->pre];
    if (args->residual >= 0) desc.residual = spans[args->residual];
    if (args->workspace >= 0) desc.workspace = spans[args->workspace];
    if (args->chooses) return td_gemm(list, &desc);
    TD_TRY(td_gemm_problem_make(&desc, td_list_device(list), &problem));
    TD_TRY(td_gemm_record(list, &problem, args->choice));
fail:
    return status;
}

/* ---------------------------------------------------------------- the reference */

static double activate(double x, uint32_t activation)
{
    switch (activation) {
    case TD_GEMM_RELU:
        return x > 0 ? x : 0;
    case TD_GEMM_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case TD_GEMM_GELU_ERF:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case TD_GEMM_SILU:
        return x / (1 + exp(-x));
    case TD_GEMM_TANH:
        return tanh(x);
    case TD_GEMM_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}

static double element(const td_gemm_desc *d, const float *a, const float *b, size_t z, size_t i, size_t j)
{
    double sum = 0;
    for (size_t q = 0; q < d->k; q++) {
        const size_t at_a = z * d->stride_a + (d->layout == TD_GEMM_TN ? q * d->lda + i : i * d->lda + q);
        const size_t at_b = z * d->stride_b + (d->layout == TD_GEMM_NT ? j * d->ldb + q : q * d->ldb + j);
        sum += (double)a[at_a] * (double)b[at_b];
    }
    return sum;
}

static void fill_expected(op_case *c, const gemm_args *args)
{
    const td_gemm_desc *d = &args->desc;
    for (size_t e = 0; e < c->io[2].count; e++) {
        c->io[2].expected[e] = d->accumulate ? (double)c->io[2].values[e] : GAP;
        if (args->pre >= 0) c->io[args->pre].expected[e] = GAP;
    }
    for (size_t z = 0; z < d->batch; z++)
        for (size_t i = 0; i < d->m; i++)
            for (size_t j = 0; j < d->n; j++) {
                const size_t at = z * d->stride_c + i * d->ldc + j;
                double value = element(d, c->io[0].values, c->io[1].values, z, i, j);
                if (d->accumulate) value += (double)c->io[2].values[at];
                if (args->bias >= 0) value += (double)c->io[args->bias].values[j];
                if (args->pre >= 0) c->io[args->pre].expected[at] = value;
                value = activate(value, d->activation);
                if (args->residual >= 0) value += (double)c->io[args->residual].values[at];
                c->io[2].expected[at] = value;
            }
}

/* ---------------------------------------------------------------- making cases */

enum { BIAS = 1, PRE = 2, RESIDUAL = 4 };

/* What a case asks for besides its variant. */
typedef struct wish {
    uint32_t m, n, k;
    uint32_t gap; /* elements between rows, and between matrices */
    uint32_t batch;
    bool share_a, share_b;
    bool accumulate;
    uint32_t activation;
    int extras; /* BIAS | PRE | RESIDUAL */
    uint32_t splits;
    uint32_t format; /* of B: TD_FORMAT_BF16 ... */
} wish;

static td_gemm_desc desc_of(const wish *w, td_gemm_layout layout)
{
    td_gemm_desc d = {.layout = layout, .m = w->m, .n = w->n, .k = w->k, .batch = w->batch ? w->batch : 1};
    const uint32_t rows_a = layout == TD_GEMM_TN ? w->k : w->m;
    const uint32_t rows_b = layout == TD_GEMM_NT ? w->n : w->k;
    d.lda = (layout == TD_GEMM_TN ? w->m : w->k) + w->gap;
    d.ldb = (layout == TD_GEMM_NT ? w->k : w->n) + w->gap;
    d.ldc = w->n + w->gap;
    d.stride_a = d.batch > 1 && !w->share_a ? rows_a * d.lda + w->gap : 0;
    d.stride_b = d.batch > 1 && !w->share_b ? rows_b * d.ldb + w->gap : 0;
    /* Without a gap a shared B folds the batch into the rows. */
    d.stride_c = d.batch > 1 ? w->m * d.ldc + w->gap : 0;
    d.b_format = w->format;
    d.accumulate = w->accumulate;
    d.activation = w->activation;
    return d;
}

static int add_extra(op_case *c, const char *name, size_t count, bool wanted, uint64_t seed)
{
    if (!wanted) return -1;
    op_random(c, name, count, -1, 1, seed);
    return (int)c->n_io - 1;
}

static void add_operands(op_case *c, gemm_args *args, const wish *w)
{
    const td_gemm_extent spans = td_gemm_extents(&args->desc);
    const double atol = 2e-6 + 2e-7 * w->k; /* rounding of k products of at most 1 */
    op_random(c, "a", spans.a, -1, 1, 1);
    op_io *b = op_random(c, "b", spans.b, -1, 1, 2);
    if (w->format) op_round(b, w->format);
    op_io *product = op_output(c, "c", spans.c, atol, 2e-6);
    if (w->accumulate) {
        op_case other = {0};
        const op_io *start = op_random(&other, "c", spans.c, -1, 1, 3);
        free(product->values);
        product->values = start->values;
        product->kind = OP_IN_OUT;
    }
    args->bias = add_extra(c, "bias", w->n, w->extras & BIAS, 4);
    args->residual = add_extra(c, "residual", spans.c, w->extras & RESIDUAL, 5);
    args->pre = -1;
    if (w->extras & PRE) {
        op_output(c, "pre", spans.c, atol, 2e-6);
        args->pre = (int)c->n_io - 1;
    }
}

static const char *const HALF_NAMES[] = {[TD_FORMAT_BF16] = "bf16 ", [TD_FORMAT_FP16] = "fp16 "};

/* False where the variant cannot make the product. */
static bool make_case(op_case *c, td_device *device, td_gemm_layout layout, td_gemm_choice choice,
                      bool chooses, const wish *w)
{
    const td_gemm_variant_info *way = td_gemm_variant_get(choice.variant);
    td_gemm_problem problem;
    gemm_args *args;
    *c = (op_case){.op = "gemm", .kernels = way->name, .launch = launch};
    args = op_args(c, sizeof *args);
    args->desc = desc_of(w, layout);
    args->choice = choice;
    args->chooses = chooses;
    if (td_gemm_problem_make(&args->desc, device, &problem) == TD_OK) {
        problem.splits = choice.splits;
        if ((choice.splits == 1 || way->splits) && !way->refuse(&problem)) {
            problem.splits = 1;
            add_operands(c, args, w);
            const uint64_t bytes = td_gemm_workspace_of(&problem, choice);
            args->workspace = -1;
            if (bytes) {
                op_scratch(c, "workspace", bytes / sizeof(float));
                args->workspace = (int)c->n_io - 1;
            }
            snprintf(c->label, sizeof c->label, "%s%s%s %s %ux%ux%u b%u g%u s%u%s%s e%d act%u",
                     chooses ? "auto " : "", w->format ? HALF_NAMES[w->format] : "", way->name,
                     td_gemm_layout_name(layout), w->m, w->n, w->k, args->desc.batch, w->gap, choice.splits,
                     w->share_b ? " one B" : "", w->accumulate ? " +C" : "", w->extras, w->activation);
            return true;
        }
    }
    free(args);
    return false;
}

static void add_forward(op_suite *suite, td_device *device, td_gemm_layout layout, td_gemm_variant variant,
                        const wish *w)
{
    if (!op_suite_wants(suite, "gemm")) return;
    op_case c;
    const td_gemm_choice choice = {variant, w->splits ? w->splits : 1};
    if (!make_case(&c, device, layout, choice, false, w)) return;
    fill_expected(&c, c.args);
    if (w->format) op_pack(&c.io[1], w->format);
    op_suite_add(suite, &c);
}

/* The way td_gemm() takes by itself. */
static void add_chosen(op_suite *suite, td_device *device, td_gemm_layout layout, const wish *w)
{
    const td_gemm_desc desc = desc_of(w, layout);
    td_gemm_problem problem;
    op_case c;
    if (td_gemm_problem_make(&desc, device, &problem) != TD_OK) return;
    if (!make_case(&c, device, layout, td_gemm_choose(&problem), true, w)) return;
    fill_expected(&c, c.args);
    if (w->format) op_pack(&c.io[1], w->format);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- gradients */

/* C = A B with A [m,k], B [k,n]: dA = dC B^T, dB = A^T dC. */
typedef struct product {
    size_t m, n, k;
    const double *fixed; /* the operand that stays */
    bool of_a;
} product;

static void multiply(const double *x, double *y, const void *context)
{
    const product *p = context;
    const double *a = p->of_a ? x : p->fixed;
    const double *b = p->of_a ? p->fixed : x;
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++) {
            y[i * p->n + j] = 0;
            for (size_t q = 0; q < p->k; q++)
                y[i * p->n + j] += a[i * p->k + q] * b[q * p->n + j];
        }
}

static double *to_double(const op_io *io)
{
    double *values = malloc(io->count * sizeof *values);
    if (!values) abort();
    for (size_t i = 0; i < io->count; i++)
        values[i] = (double)io->values[i];
    return values;
}

static void add_gradient(op_suite *suite, td_device *device, bool of_a)
{
    enum { M = 7, N = 9, K = 10 };
    /* dA [m,k] = dC [m,n] B^T, B [k,n];  dB [k,n] = A^T dC, A [m,k]. */
    const wish w = of_a ? (wish){.m = M, .n = K, .k = N} : (wish){.m = K, .n = N, .k = M};
    const td_gemm_layout layout = of_a ? TD_GEMM_NT : TD_GEMM_TN;
    const td_gemm_desc desc = desc_of(&w, layout);
    td_gemm_problem problem;
    op_case c;
    if (td_gemm_problem_make(&desc, device, &problem) != TD_OK) return;
    if (!make_case(&c, device, layout, td_gemm_choose(&problem), true, &w)) return;
    c.op = "gemm_backward";
    c.is_gradient = true;
    snprintf(c.label, sizeof c.label, of_a ? "dA by nt" : "dB by tn");
    double *cotangent = to_double(&c.io[of_a ? 0 : 1]);
    double *fixed = to_double(&c.io[of_a ? 1 : 0]);
    double *at =
        calloc((size_t)(of_a ? M * K : K * N), sizeof *at); /* a product is linear: any point will do */
    if (!at) abort();
    const product p = {.m = M, .n = N, .k = K, .fixed = fixed, .of_a = of_a};
    op_numeric_gradient(multiply, &p, at, c.io[2].count, cotangent, (size_t)M * N, c.io[2].expected);
    free(cotangent);
    free(fixed);
    free(at);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- the lists */

static const wish SMALL[] = {
    {.m = 1, .n = 1, .k = 1},
    {.m = 5, .n = 17, .k = 3, .gap = 3, .extras = BIAS},
    {.m = 4, .n = 36, .k = 20, .gap = 4, .batch = 3, .accumulate = true},
    {.m = 3,
     .n = 9,
     .k = 33,
     .batch = 2,
     .share_a = true,
     .extras = BIAS | PRE | RESIDUAL,
     .activation = TD_GEMM_SILU},
    {.m = 1, .n = 40, .k = 50, .gap = 1, .splits = 2, .extras = BIAS, .activation = TD_GEMM_RELU},
    {.m = 12, .n = 8, .k = 24, .batch = 2, .share_b = true, .extras = PRE, .activation = TD_GEMM_GELU_TANH},
    {.m = 8,
     .n = 12,
     .k = 40,
     .splits = 3,
     .accumulate = true,
     .extras = RESIDUAL,
     .activation = TD_GEMM_TANH},
};

/* Around the tiles of every variant and the blocks of k. */
static const wish LARGE[] = {
    {.m = 6, .n = 16, .k = 8},
    {.m = 97, .n = 65, .k = 63, .extras = BIAS, .activation = TD_GEMM_GELU_ERF},
    {.m = 64, .n = 64, .k = 16, .extras = BIAS | RESIDUAL},
    {.m = 132, .n = 140, .k = 36, .gap = 4, .extras = BIAS | PRE, .activation = TD_GEMM_SIGMOID},
    {.m = 67, .n = 131, .k = 129, .gap = 5, .batch = 2, .accumulate = true, .extras = BIAS},
    {.m = 260, .n = 20, .k = 44, .batch = 3, .share_b = true, .extras = BIAS},
    {.m = 13,
     .n = 35,
     .k = 1031,
     .accumulate = true,
     .extras = BIAS | PRE | RESIDUAL,
     .activation = TD_GEMM_RELU},
    {.m = 20, .n = 36, .k = 2052, .splits = 5, .extras = BIAS | PRE, .activation = TD_GEMM_GELU_TANH},
    {.m = 4, .n = 300, .k = 260},
    {.m = 2, .n = 129, .k = 513, .gap = 1, .batch = 2, .extras = BIAS | PRE, .activation = TD_GEMM_SILU},
};

/* With a 16-bit B: odd starts of rows and matrices, tails of words, vec4, parts of k. */
static const wish HALF[] = {
    {.m = 1, .n = 1, .k = 1, .format = TD_FORMAT_BF16},
    {.m = 5, .n = 17, .k = 3, .gap = 2, .extras = BIAS, .format = TD_FORMAT_FP16},
    {.m = 9, .n = 37, .k = 21, .gap = 1, .batch = 3, .accumulate = true, .format = TD_FORMAT_BF16},
    {.m = 12,
     .n = 8,
     .k = 24,
     .batch = 2,
     .share_b = true,
     .extras = PRE,
     .activation = TD_GEMM_RELU,
     .format = TD_FORMAT_FP16},
    {.m = 64, .n = 64, .k = 16, .extras = BIAS | RESIDUAL, .format = TD_FORMAT_BF16},
    {.m = 132,
     .n = 140,
     .k = 36,
     .gap = 4,
     .extras = BIAS | PRE,
     .activation = TD_GEMM_SILU,
     .format = TD_FORMAT_FP16},
    {.m = 97, .n = 65, .k = 63, .extras = BIAS, .activation = TD_GEMM_GELU_ERF, .format = TD_FORMAT_BF16},
    {.m = 20, .n = 36, .k = 532, .splits = 2, .extras = BIAS, .format = TD_FORMAT_FP16},
};

/* CLBlast has one way for small and one for large products. */
static const wish CLBLAST[] = {
    {.m = 37, .n = 41, .k = 29, .gap = 3, .batch = 2, .accumulate = true, .extras = BIAS},
    {.m = 390, .n = 402, .k = 386, .extras = BIAS, .activation = TD_GEMM_RELU},
};

void cases_gemm(op_suite *suite, td_device *device);
void cases_gemm(op_suite *suite, td_device *device)
{
    const size_t n_large = op_device_is_slow(device) ? 5 : sizeof LARGE / sizeof *LARGE;
    for (int l = 0; l < TD_GEMM_LAYOUT_COUNT; l++) {
        const td_gemm_layout layout = (td_gemm_layout)l;
        for (int v = 0; v < TD_GEMM_V_COUNT; v++) {
            const td_gemm_variant variant = (td_gemm_variant)v;
            if (variant == TD_GEMM_V_CLBLAST) continue;
            for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++)
                add_forward(suite, device, layout, variant, &SMALL[i]);
            for (size_t i = 0; i < n_large; i++)
                add_forward(suite, device, layout, variant, &LARGE[i]);
            for (size_t i = 0; i < sizeof HALF / sizeof *HALF; i++)
                add_forward(suite, device, layout, variant, &HALF[i]);
        }
        for (size_t i = 0; i < sizeof CLBLAST / sizeof *CLBLAST; i++)
            add_forward(suite, device, layout, TD_GEMM_V_CLBLAST, &CLBLAST[i]);
        for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++)
            add_chosen(suite, device, layout, &SMALL[i]);
        for (size_t i = 0; i < sizeof HALF / sizeof *HALF; i++)
            add_chosen(suite, device, layout, &HALF[i]);
    }
    add_gradient(suite, device, true);
    add_gradient(suite, device, false);
}
