/* Matrix products: checks the description, lets tuning.c choose a variant, splits k where that was chosen,
 * and records the finish of variants that have none. Covered by tests/ops/cases_gemm.c. */
#include "linalg/gemm.h"

#include "linalg/gemm_internal.h"

#define MAX_ELEMENTS (UINT64_C(1) << 31) /* kernels count in 32 bits */

static const char *take(const td_gemm_problem *problem)
{
    (void)problem;
    return NULL;
}

static const td_gemm_variant_info WAYS[TD_GEMM_V_COUNT] = {
    [TD_GEMM_V_PLAIN] = {"plain", TD_GEMM_PLAIN, false, false, td_gemm_refuse_half, NULL,
                         td_gemm_record_plain},
    [TD_GEMM_V_REGISTER_ROWS] = {"register-rows", TD_GEMM_REGISTER, true, true, td_gemm_refuse_rows,
                                 td_gemm_register_workspace, td_gemm_record_register},
    [TD_GEMM_V_REGISTER_COLUMNS] = {"register-columns", TD_GEMM_REGISTER, true, true, td_gemm_refuse_columns,
                                    td_gemm_register_workspace, td_gemm_record_register},
    [TD_GEMM_V_REGISTER_DIRECT] = {"register-direct", TD_GEMM_REGISTER, true, true, td_gemm_refuse_direct,
                                   NULL, td_gemm_record_register},
    [TD_GEMM_V_TILE_64X64] = {"tile-64x64", TD_GEMM_TILE, true, true, td_gemm_refuse_vec4, NULL,
                              td_gemm_record_tile},
    [TD_GEMM_V_TILE_128X64] = {"tile-128x64", TD_GEMM_TILE, true, true, td_gemm_refuse_large_tile, NULL,
                               td_gemm_record_tile},
    [TD_GEMM_V_TILE_128X128] = {"tile-128x128", TD_GEMM_TILE, true, true, td_gemm_refuse_largest_tile, NULL,
                                td_gemm_record_tile},
    [TD_GEMM_V_TILE_ANY] = {"tile-any", TD_GEMM_TILE, true, true, take, NULL, td_gemm_record_tile},
    [TD_GEMM_V_GEMV] = {"gemv", TD_GEMM_GEMV, true, false, td_gemm_refuse_gemv, NULL, td_gemm_record_gemv},
    [TD_GEMM_V_CLBLAST] = {"clblast", TD_GEMM_CLBLAST, false, false, td_gemm_refuse_clblast,
                           td_gemm_clblast_workspace, td_gemm_record_clblast},
};

const td_gemm_variant_info *td_gemm_variant_get(td_gemm_variant variant)
{
    return &WAYS[variant];
}

const char *td_gemm_provider_name(td_gemm_provider provider)
{
    static const char *const NAMES[TD_GEMM_PROVIDER_COUNT] = {
        [TD_GEMM_AUTO] = "auto", [TD_GEMM_REGISTER] = "register", [TD_GEMM_TILE] = "tile",
        [TD_GEMM_GEMV] = "gemv", [TD_GEMM_CLBLAST] = "clblast",   [TD_GEMM_PLAIN] = "plain",
    };
    return NAMES[provider];
}

const char *td_gemm_layout_name(td_gemm_layout layout)
{
    static const char *const NAMES[TD_GEMM_LAYOUT_COUNT] = {"nn", "nt", "tn"};
    return NAMES[layout];
}

/* ---------------------------------------------------------------- the problem */

typedef struct shape_of {
    uint32_t rows, columns;
} shape_of;

static shape_of shape_a(const td_gemm_desc *d)
{
    return d->layout == TD_GEMM_TN ? (shape_of){d->k, d->m} : (shape_of){d->m, d->k};
}

static shape_of shape_b(const td_gemm_desc *d)
{
    return d->layout == TD_GEMM_NT ? (shape_of){d->n, d->k} : (shape_of){d->k, d->n};
}

static void fill_defaults(td_gemm_desc *d)
{
    if (!d->batch) d->batch = 1;
    if (!d->lda) d->lda = shape_a(d).columns;
    if (!d->ldb) d->ldb = shape_b(d).columns;
    if (!d->ldc) d->ldc = d->n;
}

static uint64_t extent(shape_of shape, uint32_t ld, uint32_t batch, uint32_t stride)
{
    return (uint64_t)(batch - 1) * stride + (uint64_t)(shape.rows - 1) * ld + shape.columns;
}

td_gemm_extent td_gemm_extents(const td_gemm_desc *desc)
{
    td_gemm_desc d = *desc;
    fill_defaults(&d);
    return (td_gemm_extent){
        .a = extent(shape_a(&d), d.lda, d.batch, d.stride_a),
        .b = extent(shape_b(&d), d.ldb, d.batch, d.stride_b),
        .c = extent((shape_of){d.m, d.n}, d.ldc, d.batch, d.stride_c),
    };
}

/* One B for all, and rows of A and C that go on from one matrix to the next, are one product with more rows.
 */
static void fold_batch(td_gemm_desc *d)
{
    if (d->batch == 1 || d->stride_b || d->layout == TD_GEMM_TN || d->stride_a != (uint64_t)d->m * d->lda ||
        d->stride_c != (uint64_t)d->m * d->ldc)
        return;
    d->m *= d->batch;
    d->batch = 1;
    d->stride_a = 0;
    d->stride_c = 0;
}

static td_status check_shape(const td_gemm_desc *d)
{
    TD_REFUSE_IF((unsigned)d->layout >= TD_GEMM_LAYOUT_COUNT ||
                     (unsigned)d->provider >= TD_GEMM_PROVIDER_COUNT,
                 TD_ERR_ARGUMENT, "a matrix product has layout %d and provider %d, which do not exist",
                 d->layout, d->provider);
    TD_REFUSE_IF(!d->m || !d->n || !d->k, TD_ERR_ARGUMENT, "a matrix product of %u x %u x %u is empty", d->m,
                 d->n, d->k);
    TD_REFUSE_IF(d->b_format > TD_FORMAT_FP16 || (d->b_format && d->layout == TD_GEMM_TN), TD_ERR_ARGUMENT,
                 "operand B of a matrix product (%s) has format %u; only nn and nt take 16-bit numbers",
                 td_gemm_layout_name(d->layout), d->b_format);
    TD_REFUSE_IF(d->activation > TD_GEMM_SIGMOID, TD_ERR_ARGUMENT, "activation %u does not exist",
                 d->activation);
    TD_REFUSE_IF(d->ldb < shape_b(d).columns || d->ldc < d->n, TD_ERR_ARGUMENT,
                 "rows of a %u x %u x %u product (%s) lie %u (B) and %u (C) elements apart, so they overlap",
                 d->m, d->n, d->k, td_gemm_layout_name(d->layout), d->ldb, d->ldc);
    const bool is_apart = d->stride_c >= (uint64_t)(d->m - 1) * d->ldc + d->n;
    const bool is_side_by_side =
        d->stride_c >= d->n && (uint64_t)(d->batch - 1) * d->stride_c + d->n <= d->ldc;
    TD_REFUSE_IF(d->batch > 1 && !is_apart && !is_side_by_side, TD_ERR_ARGUMENT,
                 "matrices of the result lie %u elements apart, so they overlap", d->stride_c);
    const td_gemm_extent spans = td_gemm_extents(d);
    TD_REFUSE_IF(spans.a >= MAX_ELEMENTS || spans.b >= MAX_ELEMENTS || spans.c >= MAX_ELEMENTS, TD_ERR_LIMIT,
                 "an operand of a matrix product spans 2^31 elements or more; split the batch");
    return TD_OK;
}

td_status td_gemm_problem_make(const td_gemm_desc *desc, td_device *device, td_gemm_problem *out)
{
    *out = (td_gemm_problem){
        .desc = *desc,
        .device = device,
        .info = td_device_get_info(device),
        .kernel_class = td_device_class(device),
        .vector = td_device_vector(device),
        .splits = 1,
        .k_part = desc->k,
    };
    fill_defaults(&out->desc);
    TD_CHECK(check_shape(&out->desc));
    fold_batch(&out->desc);
    return TD_OK;
}

static td_status check_span(td_span span, uint64_t elements, const char *what)
{
    if (span.buffer && span.bytes / sizeof(float) >= elements) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "%s of a matrix product needs %llu bytes and was given %llu", what,
                   (unsigned long long)(elements * sizeof(float)),
                   (unsigned long long)(span.buffer ? span.bytes : 0));
}

static td_status check_spans(const td_gemm_desc *d)
{
    const td_gemm_extent spans = td_gemm_extents(d);
    TD_CHECK(check_span(d->a, spans.a, "operand A"));
    TD_CHECK(check_span(d->b, d->b_format ? TD_HALF_WORDS(spans.b) : spans.b, "operand B"));
    TD_CHECK(check_span(d->c, spans.c, "result C"));
    if (d->bias.buffer) TD_CHECK(check_span(d->bias, d->n, "the bias"));
    if (d->pre.buffer) TD_CHECK(check_span(d->pre, spans.c, "the saved pre-activation"));
    if (d->residual.buffer) TD_CHECK(check_span(d->residual, spans.c, "the residual"));
    return TD_OK;
}

/* ---------------------------------------------------------------- workspace */

uint64_t td_gemm_align(const td_gemm_problem *problem, uint64_t bytes)
{
    const uint64_t least = problem->info->caps.offset_align > 256 ? problem->info->caps.offset_align : 256;
    return td_round_up(bytes, least);
}

static uint64_t parts_bytes(const td_gemm_problem *problem, uint32_t splits)
{
    const td_gemm_desc *d = &problem->desc;
    if (splits < 2) return 0;
    return td_gemm_align(problem, sizeof(float) * splits * d->batch * (uint64_t)d->m * d->n);
}

uint64_t td_gemm_workspace_of(const td_gemm_problem *problem, td_gemm_choice choice)
{
    const td_gemm_variant_info *way = &WAYS[choice.variant];
    return parts_bytes(problem, choice.splits) + (way->workspace ? way->workspace(problem) : 0);
}

/* The choice, which must be by the provider that was asked for. */
static td_status choose(const td_gemm_problem *problem, td_gemm_choice *out)
{
    const td_gemm_desc *d = &problem->desc;
    *out = td_gemm_choose(problem);
    if (d->provider == TD_GEMM_AUTO || WAYS[out->variant].provider == d->provider) return TD_OK;
    const char *reason = "it does not suit";
    for (int i = 0; i < TD_GEMM_V_COUNT; i++) {
        const char *refusal = WAYS[i].provider == d->provider ? WAYS[i].refuse(problem) : NULL;
        if (refusal) reason = refusal;
    }
    return TD_FAIL(TD_ERR_UNSUPPORTED, "provider %s cannot make a %u x %u x %u product (%s) on %s: %s",
                   td_gemm_provider_name(d->provider), d->m, d->n, d->k, td_gemm_layout_name(d->layout),
                   problem->info->name, reason);
}

td_status td_gemm_workspace(const td_gemm_desc *desc, td_device *device, uint64_t *bytes)
{
    td_gemm_problem problem;
    td_gemm_choice choice;
    *bytes = 0;
    TD_CHECK(td_gemm_problem_make(desc, device, &problem));
    TD_CHECK(choose(&problem, &choice));
    *bytes = td_gemm_workspace_of(&problem, choice);
    return TD_OK;
}

/* ---------------------------------------------------------------- recording */

td_cost td_gemm_cost(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    const double batch = d->batch;
    return (td_cost){
        .flops = 2.0 * batch * d->m * d->n * d->k,
        .bytes =
            sizeof(float) * batch * ((double)d->m * d->k + (double)d->k * d->n + 2.0 * (double)d->m * d->n),
    };
}

td_grid td_gemm_grid(const td_gemm_problem *problem, td_kernel_id kernel, uint64_t items)
{
    const uint32_t group = td_device_group_size(problem->device, kernel);
    return td_grid_groups((items + group - 1) / group);
}

/* The product as its variant sees it when k is split: parts side by side in the workspace, nothing else done.
 */
static void split(td_gemm_problem *problem, uint32_t splits)
{
    td_gemm_desc *d = &problem->desc;
    const uint64_t bytes = parts_bytes(problem, splits);
    problem->splits = splits;
    problem->k_part = (td_divide_up(d->k, splits) + 15) / 16 * 16;
    problem->stride_split = d->batch * d->m * d->n;
    d->c = td_span_part(d->workspace, 0, bytes);
    d->workspace = td_span_part(d->workspace, bytes, d->workspace.bytes - bytes);
    d->ldc = d->n;
    d->stride_c = d->m * d->n;
    d->accumulate = false;
    d->activation = TD_GEMM_LINEAR;
    d->bias = d->pre = d->residual = (td_span){0};
}

static bool has_finish(const td_gemm_desc *d)
{
    return d->bias.buffer || d->pre.buffer || d->residual.buffer || d->activation != TD_GEMM_LINEAR;
}

td_status td_gemm_record(td_list *list, const td_gemm_problem *problem, td_gemm_choice choice)
{
    const td_gemm_variant_info *way = &WAYS[choice.variant];
    const uint64_t need = td_gemm_workspace_of(problem, choice);
    td_gemm_problem inner = *problem;
    inner.splits = choice.splits;
    const char *reason = choice.splits > 1 && !way->splits ? "it cannot split k" : way->refuse(&inner);
    TD_REFUSE_IF(reason, TD_ERR_UNSUPPORTED, "a %u x %u x %u product (%s) cannot be made by %s: %s",
                 problem->desc.m, problem->desc.n, problem->desc.k, td_gemm_layout_name(problem->desc.layout),
                 way->name, reason);
    TD_REFUSE_IF(need > problem->desc.workspace.bytes, TD_ERR_ARGUMENT,
                 "a %u x %u x %u product (%s) by %s wants %llu bytes of workspace and was given %llu; ask "
                 "td_gemm_workspace()",
                 problem->desc.m, problem->desc.n, problem->desc.k, td_gemm_layout_name(problem->desc.layout),
                 way->name, (unsigned long long)need, (unsigned long long)problem->desc.workspace.bytes);
    if (choice.splits > 1) split(&inner, choice.splits);
    TD_CHECK(way->record(list, &inner, choice.variant));
    if (choice.splits > 1 || (!way->finishes && has_finish(&problem->desc)))
        TD_CHECK(td_gemm_record_finish(list, problem, &inner));
    return TD_OK;
}

td_status td_gemm(td_list *list, const td_gemm_desc *desc)
{
    td_gemm_problem problem;
    td_gemm_choice choice;
    TD_CHECK(td_gemm_problem_make(desc, td_list_device(list), &problem));
    TD_CHECK(check_spans(&problem.desc));
    TD_CHECK(choose(&problem, &choice));
    return td_gemm_record(list, &problem, choice);
}
