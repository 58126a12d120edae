/* Launches of the attention kernels: sizes checked, layouts and masks made into parameters; see
 * attention.h. Covered by tests/ops/cases_attention.c. */
#include "ops/attention.h"

#include <math.h>

#include "kernels/attention_geometry.h"
#include "ops/rows.h"

/* Heads from which on a CPU with vectors makes all gradients of a head in one work-item: less work, and still
 * several heads for every core of an ordinary computer. */
#define FUSED_HEADS 16u

#define HEAD_SIZES 4u
#define MOST_KEYS (1u << 24) /* their number is kept as a float */

/* Rows of ops.def by head size: 32, 64, 96, 128. */
static const struct {
    td_kernel_id forward, dq, dkv;
} kernels[HEAD_SIZES] = {
    {TD_K_attention_32, TD_K_attention_dq_32, TD_K_attention_dkv_32},
    {TD_K_attention_64, TD_K_attention_dq_64, TD_K_attention_dkv_64},
    {TD_K_attention_96, TD_K_attention_dq_96, TD_K_attention_dkv_96},
    {TD_K_attention_128, TD_K_attention_dq_128, TD_K_attention_dkv_128},
};

static size_t kernel_row(const td_attention_shape *s)
{
    return s->head_size / 32 - 1;
}

static const uint32_t pairs_of[TD_CLASS_COUNT] = {TD_ATTENTION_PAIRS_CPU, TD_ATTENTION_PAIRS_GPU};

/* Rows of the owned side that a group takes. */
static uint32_t block_of(const td_device *device, td_kernel_id kernel)
{
    if (td_device_class(device) == TD_CLASS_GPU) return TD_ATTENTION_BLOCK_GPU;
    return TD_ATTENTION_VECTORS_CPU * td_device_vector(device) * td_device_group_size(device, kernel);
}

static td_grid grid_of(const td_list *list, td_kernel_id kernel, const td_attention_shape *s, uint32_t rows)
{
    const uint32_t blocks = td_divide_up(rows, block_of(td_list_device(list), kernel));
    return td_grid_groups((uint64_t)s->batch * s->heads * blocks);
}

/* For every kernel of the family; `fused` is for the caller. */
static td_attention_params make_params(const td_attention_args *a)
{
    const td_attention_shape *s = &a->shape;
    const uint32_t row = s->heads * s->head_size;
    return (td_attention_params){.batch = s->batch,
                                 .heads = s->heads,
                                 .queries = s->queries,
                                 .keys = s->keys,
                                 .reach = s->causal ? s->keys - s->queries + 1 : s->keys,
                                 .padded = td_op_given(a->lengths),
                                 .scale = s->scale != 0 ? s->scale : 1 / sqrtf((float)s->head_size),
                                 .q_row = s->q_row ? s->q_row : row,
                                 .k_row = s->k_row ? s->k_row : row,
                                 .v_row = s->v_row ? s->v_row : row,
                                 .o_row = s->o_row ? s->o_row : row,
                                 .head = s->head_size};
}

/* Iterations of all loops of a work-item that meets `others` rows without vectors, a little more than it takes:
 * the scores are made four rows at a time and four elements along d, `products` of them are summed in pairs
 * of elements. */
static uint64_t iterations_of(const td_attention_shape *s, uint32_t others, uint32_t products)
{
    const uint64_t head = s->head_size;
    return others * (products * head + head / 4 + 4) + 20 * head;
}

/* Multiply-adds of `products` matrix products, as flops; a causal mask halves them. */
static td_cost cost_of(const td_attention_shape *s, double products)
{
    const double pairs = (double)s->batch * s->heads * s->queries * s->keys * (s->causal ? 0.5 : 1);
    const double steps = (double)s->batch * s->heads * ((double)s->queries + s->keys);
    return (td_cost){.flops = 2 * products * pairs * s->head_size, .bytes = 8 * steps * s->head_size};
}

/* ---------------------------------------------------------------- arguments */

static td_status check_shape(const td_attention_shape *s)
{
    TD_REFUSE_IF(s->head_size % 32 || s->head_size < 32 || s->head_size > 32 * HEAD_SIZES, TD_ERR_ARGUMENT,
                 "attention: heads of %u elements; 32, 64, 96 or 128 are possible", s->head_size);
    TD_REFUSE_IF(s->causal && s->keys < s->queries, TD_ERR_ARGUMENT,
                 "attention: %u queries but %u keys; causal attention needs a key for each query", s->queries,
                 s->keys);
    TD_REFUSE_IF(s->keys > MOST_KEYS, TD_ERR_ARGUMENT, "attention: %u keys; at most %u are possible", s->keys,
                 MOST_KEYS);
    TD_CHECK(td_op_check_size(s->batch, s->heads, 1 + 2 * (uint64_t)s->queries, "attention"));
    return td_op_check_size(s->batch, s->keys, s->heads, "attention");
}

/* One of q, k, v, o or a gradient, `steps` long, with rows `row` apart. */
static td_status check_tensor(const td_attention_shape *s, td_span span, uint32_t steps, uint32_t row,
                              const char *name)
{
    const uint64_t width = (uint64_t)s->heads * s->head_size;
    TD_REFUSE_IF(row % 4 || row < width, TD_ERR_ARGUMENT,
                 "attention: rows of %s are %u elements apart; a multiple of 4, at least %llu, is needed",
                 name, row, (unsigned long long)width);
    TD_REFUSE_IF(span.offset % 16, TD_ERR_ARGUMENT,
                 "attention: %s starts at byte %llu, not at a multiple of 16", name,
                 (unsigned long long)span.offset);
    TD_CHECK(td_op_check_size(s->batch, steps, row, "attention"));
    return td_op_check_span(span, ((uint64_t)s->batch * steps - 1) * row + width, "attention", name);
}

/* Bindings start where the device lets them, and so perhaps before the tensors: parts of a packed projection start
 * where they do. */
static td_attention_args align_inputs(const td_list *list, const td_attention_args *given,
                                      td_attention_params *p)
{
    td_attention_args a = *given;
    p->q_first = td_op_align_span(list, &a.q);
    const uint32_t k_first = td_op_align_span(list, &a.k);
    const uint32_t v_first = td_op_given(a.v) ? td_op_align_span(list, &a.v) : 0;
    p->kv_first = TD_ATTENTION_KV_FIRST(k_first, v_first);
    return a;
}

/* A gradient has no first element of its own. */
static td_status align_gradient(const td_list *list, td_span *span, uint32_t first, const char *name)
{
    const uint64_t offset = span->offset;
    const uint32_t own = td_op_align_span(list, span);
    if (own == first) return TD_OK;
    return TD_FAIL(
        TD_ERR_ARGUMENT,
        "attention: d_%s starts at byte %llu, %u behind a multiple of what %s needs, but %s %u; both must "
        "lie alike",
        name, (unsigned long long)offset, 4 * own, td_device_get_info(td_list_device(list))->name, name,
        4 * first);
}

/* What every launch reads: q and k, and the lengths where there are any. */
static td_status check_scores(const td_attention_args *a, const td_attention_params *p)
{
    TD_CHECK(check_shape(&a->shape));
    TD_CHECK(check_tensor(&a->shape, a->q, p->queries, p->q_row, "q"));
    TD_CHECK(check_tensor(&a->shape, a->k, p->keys, p->k_row, "k"));
    TD_CHECK(td_op_check_span(a->lse, (uint64_t)p->batch * p->heads * p->queries, "attention", "lse"));
    if (p->padded) TD_CHECK(td_op_check_span(a->lengths, p->batch, "attention", "lengths"));
    return TD_OK;
}

/* ---------------------------------------------------------------- forward */

td_status td_op_attention(td_list *list, const td_attention_args *given)
{
    const td_attention_shape *s = &given->shape;
    td_attention_params params = make_params(given);
    TD_CHECK(check_scores(given, &params));
    TD_CHECK(check_tensor(s, given->v, s->keys, params.v_row, "v"));
    TD_CHECK(check_tensor(s, given->o, s->queries, params.o_row, "o"));
    const td_attention_args a = align_inputs(list, given, &params);
    const td_span spans[] = {a.q, a.k, a.v, td_op_or(a.lengths, a.q), a.o, a.lse};
    const td_kernel_id kernel = kernels[kernel_row(s)].forward;
    TD_CHECK(td_op_check_iterations(list, iterations_of(s, s->keys, 1), "attention"));
    return td_list_dispatch(list, kernel, spans, &params, grid_of(list, kernel, s, s->queries),
                            cost_of(s, 2));
}

td_status td_op_attention_weights(td_list *list, const td_attention_args *given, td_span w)
{
    const td_attention_shape *s = &given->shape;
    td_attention_params params = make_params(given);
    const uint64_t n = (uint64_t)s->batch * s->queries * s->keys;
    TD_CHECK(check_scores(given, &params));
    TD_CHECK(td_op_check_size(s->batch, s->queries, s->keys, "attention weights"));
    TD_CHECK(td_op_check_span(w, n, "attention weights", "w"));
    const td_attention_args a = align_inputs(list, given, &params);
    const td_span spans[] = {a.q, a.k, a.lse, td_op_or(a.lengths, a.q), w};
    return td_list_dispatch(list, TD_K_attention_weights, spans, &params,
                            td_grid_elements(td_list_class(list), (uint32_t)n), cost_of(s, 1));
}

/* ---------------------------------------------------------------- backward */

uint64_t td_op_attention_stats(const td_attention_shape *s)
{
    return (uint64_t)s->batch * s->heads * (1 + 2 * (uint64_t)s->queries);
}

static td_status check_back(const td_attention_back_args *a, const td_attention_params *p)
{
    const td_attention_shape *s = &a->forward.shape;
    TD_CHECK(check_scores(&a->forward, p));
    TD_CHECK(check_tensor(s, a->forward.v, s->keys, p->v_row, "v"));
    TD_CHECK(check_tensor(s, a->forward.o, s->queries, p->o_row, "o"));
    TD_CHECK(check_tensor(s, a->d_o, s->queries, p->o_row, "d_o"));
    TD_CHECK(check_tensor(s, a->d_q, s->queries, p->q_row, "d_q"));
    TD_CHECK(check_tensor(s, a->d_k, s->keys, p->k_row, "d_k"));
    TD_CHECK(check_tensor(s, a->d_v, s->keys, p->v_row, "d_v"));
    return td_op_check_span(a->stats, td_op_attention_stats(s), "attention", "stats");
}

static td_status record_stats(td_list *list, const td_attention_back_args *a, const td_attention_params *p)
{
    const td_attention_args *f = &a->forward;
    const uint32_t pairs = p->batch * p->queries * p->heads;
    const double words = 2.0 * pairs * f->shape.head_size;
    const td_span spans[] = {f->o, a->d_o, f->lse, td_op_or(f->lengths, f->q), a->stats};
    return td_list_dispatch(list, TD_K_attention_stats, spans, p,
                            td_grid_groups(td_divide_up(pairs, pairs_of[td_list_class(list)])),
                            (td_cost){.flops = words, .bytes = 4 * words});
}

static td_status record_dq(td_list *list, const td_attention_back_args *a, const td_attention_params *p)
{
    const td_attention_args *f = &a->forward;
    const td_attention_shape *s = &f->shape;
    const td_span spans[] = {f->q, f->k, f->v, a->d_o, a->stats, a->d_q};
    const td_kernel_id kernel = kernels[kernel_row(s)].dq;
    return td_list_dispatch(list, kernel, spans, p, grid_of(list, kernel, s, s->queries), cost_of(s, 3));
}

static td_status record_dkv(td_list *list, const td_attention_back_args *a, const td_attention_params *p)
{
    const td_attention_args *f = &a->forward;
    const td_attention_shape *s = &f->shape;
    /* Unfused the kernel leaves binding 5 alone; d_q there would make it wait for attention_dq. */
    const td_span spans[] = {f->q, f->k, f->v, a->d_o, a->stats, p->fused ? a->d_q : a->d_k, a->d_k, a->d_v};
    const td_kernel_id kernel = kernels[kernel_row(s)].dkv;
    const td_grid grid =
        p->fused ? td_grid_groups((uint64_t)s->batch * s->heads) : grid_of(list, kernel, s, s->keys);
    return td_list_dispatch(list, kernel, spans, p, grid, cost_of(s, p->fused ? 5 : 4));
}

td_status td_op_attention_back(td_list *list, const td_attention_back_args *given)
{
    const td_attention_shape *s = &given->forward.shape;
    td_attention_params params = make_params(&given->forward);
    td_attention_back_args a = *given;
    params.fused = td_device_vector(td_list_device(list)) > 1 && (uint64_t)s->batch * s->heads >= FUSED_HEADS;
    TD_CHECK(check_back(given, &params));
    a.forward = align_inputs(list, &given->forward, &params);
    TD_CHECK(align_gradient(list, &a.d_q, params.q_first, "q"));
    TD_CHECK(align_gradient(list, &a.d_k, TD_ATTENTION_K_FIRST(params.kv_first), "k"));
    TD_CHECK(align_gradient(list, &a.d_v, TD_ATTENTION_V_FIRST(params.kv_first), "v"));
    if (!params.fused) {
        TD_CHECK(td_op_check_iterations(list, iterations_of(s, s->keys, 1), "attention"));
        TD_CHECK(td_op_check_iterations(list, iterations_of(s, s->queries, 2), "attention"));
    }
    TD_CHECK(record_stats(list, &a, &params));
    if (!params.fused) TD_CHECK(record_dq(list, &a, &params));
    return record_dkv(list, &a, &params);
}
