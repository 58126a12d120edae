/* Launches of one step of a decoder; see decode.h. */
#include "ops/decode.h"

#include <math.h>
#include <string.h>

#include "ops/rows.h"

#define ITEMS_PER_CORE 4u /* of each launch, so that cores finish together */

_Static_assert(TD_DECODE_ROWS_GPU *TD_DECODE_TEAM_GPU <= TD_DECODE_MAX_WIDTH, "sums fit where a row was");

/* ---------------------------------------------------------------- sizes */

td_status td_decode_format(const char *name, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t format;
    } formats[] = {{"fp32", TD_FORMAT_FP32}, {"bf16", TD_FORMAT_BF16}, {"int8", TD_FORMAT_INT8}};
    *out = TD_FORMAT_FP32;
    if (!name) return TD_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) != 0) continue;
        *out = formats[i].format;
        return TD_OK;
    }
    return TD_FAIL(TD_ERR_CONFIG, "weights '%s' are not known; they can be fp32, bf16 or int8", name);
}

td_status td_decode_check(const td_decode_shape *s)
{
    TD_CHECK(td_op_check_size(s->width, s->inside, 1, "decode"));
    TD_CHECK(td_op_check_size(s->width, 3ull * s->width, 1, "decode"));
    TD_CHECK(td_op_check_size(2ull * s->width, s->capacity, s->slots, "decode"));
    TD_CHECK(td_op_check_size(s->codes, s->width, 1, "decode"));
    TD_REFUSE_IF(s->texts == 0 || s->texts > TD_DECODE_MAX_TEXTS || s->slots < s->texts, TD_ERR_LIMIT,
                 "decode: %u texts with %u caches; there can be 1 to %u texts, each with its cache", s->texts,
                 s->slots, TD_DECODE_MAX_TEXTS);
    TD_REFUSE_IF(s->width % 4 != 0 || s->width > TD_DECODE_MAX_WIDTH, TD_ERR_LIMIT,
                 "decode: a width of %u; it must be a multiple of 4 of at most %u", s->width,
                 TD_DECODE_MAX_WIDTH);
    TD_REFUSE_IF(s->heads == 0 || s->width % s->heads != 0 || s->width / s->heads > TD_DECODE_MAX_HEAD,
                 TD_ERR_LIMIT, "decode: %u heads of a width of %u; a head has at most %u channels", s->heads,
                 s->width, TD_DECODE_MAX_HEAD);
    return TD_OK;
}

td_decode_vectors td_decode_place_vectors(const td_decode_shape *s)
{
    td_decode_vectors v;
    uint32_t at = 0;
    const struct {
        uint32_t *to, count;
    } rows[] = {{&v.gamma_1, s->width},    {&v.beta_1, s->width},    {&v.qkv_bias, 3 * s->width},
                {&v.proj_bias, s->width},  {&v.gamma_2, s->width},   {&v.beta_2, s->width},
                {&v.fc_bias, s->inside},   {&v.mlp_bias, s->width},  {&v.qkv_scale, 3 * s->width},
                {&v.proj_scale, s->width}, {&v.fc_scale, s->inside}, {&v.mlp_scale, s->width}};
    const size_t n = s->format == TD_FORMAT_INT8 ? 12 : 8;
    v = (td_decode_vectors){0};
    for (size_t i = 0; i < n; i++) {
        *rows[i].to = at;
        at += rows[i].count;
    }
    v.total = at;
    return v;
}

/* Floats that a work-item of class CPU for a text or a group of class GPU has for itself: a row and what lies inside, or the query,
 * key, value and scores of a head. */
static uint32_t count_scratch(bool is_cpu, const td_decode_shape *s, uint32_t rows)
{
    const uint32_t row = is_cpu ? s->width + rows : 0;
    const uint32_t head = 3 * (s->width / s->heads) + (uint32_t)td_round_up(s->capacity, TD_DECODE_KEYS_CPU);
    return (uint32_t)td_round_up(row > head ? row : head, 16);
}

/* Of n rows, as many to a work-item as leave each core of a processor some items, but no fewer than `least`: every item
 * adds up the partial sums of all items before it. */
static uint32_t share_rows(td_device *device, uint32_t n, uint32_t least)
{
    const uint32_t units = td_device_get_info(device)->caps.compute_units;
    const uint32_t rows = td_divide_up(n, ITEMS_PER_CORE * (units ? units : 1));
    return rows > least ? (uint32_t)td_round_up(rows, least) : least;
}

td_decode_cut td_decode_cut_up(td_device *device, const td_decode_shape *s)
{
    const bool is_cpu = td_device_class(device) == TD_CLASS_CPU;
    td_decode_cut cut = {
        .terms = is_cpu ? share_rows(device, s->width, TD_DECODE_TERMS_CPU) : TD_DECODE_TERMS_GPU,
        .slices = is_cpu ? 1 : td_divide_up(s->width, TD_DECODE_COLUMNS_GPU),
        .rows = is_cpu ? share_rows(device, s->inside, TD_DECODE_ROWS_CPU) : TD_DECODE_ROWS_GPU,
        .head_rows = is_cpu ? share_rows(device, s->codes, TD_DECODE_ROWS_CPU) : TD_DECODE_ROWS_GPU};
    cut.splits = td_divide_up(s->width, cut.terms);
    cut.mlp_parts = td_divide_up(s->inside, cut.rows);
    cut.head_parts = td_divide_up(s->codes, cut.head_rows);
    cut.own = count_scratch(is_cpu, s, cut.rows);
    uint32_t most = cut.splits;
    if (most < s->heads * cut.slices) most = s->heads * cut.slices;
    if (most < cut.mlp_parts) most = cut.mlp_parts;
    if (most < cut.head_parts) most = cut.head_parts;
    cut.qkv = (uint64_t)s->texts * cut.splits * 3 * s->width;
    cut.attend_parts = (uint64_t)s->texts * s->heads * s->width;
    cut.mlp_sums = (uint64_t)s->texts * cut.mlp_parts * s->width;
    cut.scratch = (uint64_t)s->texts * most * cut.own;
    return cut;
}

uint64_t td_decode_words(uint32_t format, uint64_t n)
{
    return format == TD_FORMAT_FP32 ? n : format == TD_FORMAT_BF16 ? (n + 1) / 2 : (n + 3) / 4;
}

uint32_t td_decode_cache_format(uint32_t format)
{
    return format == TD_FORMAT_FP32 ? TD_FORMAT_FP32 : TD_FORMAT_BF16;
}

/* Of n times all rows of keys, or of values. */
static uint64_t count_cache_words(const td_decode_shape *s, uint64_t n)
{
    return td_decode_words(td_decode_cache_format(s->format), n * s->capacity * s->width);
}

/* ---------------------------------------------------------------- launches */

/* A work-item for each of n in class CPU, a group for each and text in class GPU. */
static td_grid make_grid(const td_list *list, td_kernel_id kernel, const td_decode_shape *s, uint32_t n)
{
    const bool is_cpu = td_list_class(list) == TD_CLASS_CPU;
    return td_grid_groups(is_cpu ? td_divide_up(n, td_device_group_size(td_list_device(list), kernel))
                                 : n * s->texts);
}

/* Two flops to each weight and text; weights are read once. */
static td_cost make_cost(const td_decode_shape *s, double weights)
{
    return (td_cost){.flops = 2 * weights * s->texts,
                     .bytes = 4 * (double)td_decode_words(s->format, (uint64_t)weights)};
}

/* The kernel of a format. */
static td_kernel_id choose(const td_decode_shape *s, td_kernel_id fp32, td_kernel_id bf16, td_kernel_id int8)
{
    return s->format == TD_FORMAT_FP32 ? fp32 : s->format == TD_FORMAT_BF16 ? bf16 : int8;
}

static td_status check_rig(const td_list *list, const td_decode_shape *s, const td_decode_rig *rig)
{
    const td_decode_cut cut = td_decode_cut_up(td_list_device(list), s);
    TD_CHECK(td_decode_check(s));
    TD_CHECK(td_op_check_span(rig->step, (uint64_t)s->texts * TD_DECODE_WORDS, "decode", "step"));
    TD_CHECK(td_op_check_span(rig->x, (uint64_t)s->texts * s->width, "decode", "x"));
    TD_CHECK(td_op_check_span(rig->x_between, (uint64_t)s->texts * s->width, "decode", "x_between"));
    TD_CHECK(td_op_check_span(rig->qkv, cut.qkv, "decode", "qkv"));
    TD_CHECK(td_op_check_span(rig->attend_parts, cut.attend_parts, "decode", "attend_parts"));
    TD_CHECK(td_op_check_span(rig->mlp_sums, cut.mlp_sums, "decode", "mlp_sums"));
    return td_op_check_span(rig->scratch, cut.scratch, "decode", "scratch");
}

static td_status check_block(const td_list *list, const td_decode_shape *s, const td_decode_rig *rig,
                             const td_decode_block *b)
{
    const uint64_t square = (uint64_t)s->width * s->width, inside = (uint64_t)s->inside * s->width;
    TD_CHECK(check_rig(list, s, rig));
    TD_CHECK(td_op_check_span(b->vectors, td_decode_place_vectors(s).total, "decode", "vectors"));
    TD_CHECK(td_op_check_span(b->qkv, td_decode_words(s->format, 3 * square), "decode", "the first matrix"));
    TD_CHECK(td_op_check_span(b->proj, td_decode_words(s->format, square), "decode", "the second matrix"));
    TD_CHECK(td_op_check_span(b->fc, td_decode_words(s->format, inside), "decode", "the third matrix"));
    TD_CHECK(td_op_check_span(b->mlp, td_decode_words(s->format, inside), "decode", "the fourth matrix"));
    return td_op_check_span(b->cache, count_cache_words(s, 2ull * s->slots), "decode", "cache");
}

td_status td_op_decode_embed(td_list *list, const td_decode_shape *s, const td_decode_rig *rig, td_span table,
                             td_span positions)
{
    const td_decode_embed_params params = {.texts = s->texts, .width = s->width};
    const td_span spans[] = {table, positions, rig->step, rig->x};
    TD_CHECK(check_rig(list, s, rig));
    return td_list_dispatch(
        list, TD_K_decode_embed, spans, &params, td_grid_elements(td_list_class(list), s->width),
        (td_cost){.flops = (double)s->texts * s->width, .bytes = 12.0 * s->texts * s->width});
}

td_status td_op_decode_qkv(td_list *list, const td_decode_shape *s, const td_decode_rig *rig,
                           const td_decode_block *b, bool is_first)
{
    const td_kernel_class kernel_class = td_list_class(list);
    const td_decode_cut cut = td_decode_cut_up(td_list_device(list), s);
    const td_decode_vectors v = td_decode_place_vectors(s);
    const td_kernel_id kernel = choose(s, TD_K_decode_qkv_fp32, TD_K_decode_qkv_bf16, TD_K_decode_qkv_int8);
    const td_decode_qkv_params params = {.texts = s->texts,
                                         .width = s->width,
                                         .columns = 3 * s->width,
                                         .parts = is_first ? 0 : cut.mlp_parts,
                                         .terms = cut.terms,
                                         .splits = cut.splits,
                                         .scratch = cut.own,
                                         .eps = s->eps,
                                         .gamma_at = v.gamma_1,
                                         .beta_at = v.beta_1,
                                         .scale_at = v.qkv_scale};
    const td_span spans[] = {rig->x,         rig->mlp_sums, b->vectors,  b->qkv,
                             rig->x_between, rig->qkv,      rig->scratch};
    const uint32_t blocks =
        kernel_class == TD_CLASS_CPU ? 1 : td_divide_up(3 * s->width, TD_DECODE_COLUMNS_GPU);
    TD_CHECK(check_block(list, s, rig, b));
    return td_list_dispatch(list, kernel, spans, &params, make_grid(list, kernel, s, cut.splits * blocks),
                            make_cost(s, 3.0 * s->width * s->width));
}

td_status td_op_decode_attend(td_list *list, const td_decode_shape *s, const td_decode_rig *rig,
                              const td_decode_block *b)
{
    const td_decode_cut cut = td_decode_cut_up(td_list_device(list), s);
    const td_decode_vectors v = td_decode_place_vectors(s);
    const uint32_t head = s->width / s->heads;
    const td_kernel_id kernel =
        choose(s, TD_K_decode_attend_fp32, TD_K_decode_attend_bf16, TD_K_decode_attend_int8);
    const td_decode_attend_params params = {.texts = s->texts,
                                            .width = s->width,
                                            .heads = s->heads,
                                            .head = head,
                                            .capacity = s->capacity,
                                            .parts = cut.splits,
                                            .slices = cut.slices,
                                            .scratch = cut.own,
                                            .scale = 1 / sqrtf((float)head),
                                            .qkv_bias_at = v.qkv_bias,
                                            .bias_at = v.proj_bias,
                                            .scale_at = v.proj_scale};
    const td_span spans[] = {rig->qkv, b->vectors,        b->proj,     rig->step,
                             b->cache, rig->attend_parts, rig->scratch};
    TD_CHECK(check_block(list, s, rig, b));
    td_cost cost = make_cost(s, (double)s->width * s->width);
    /* half of the cache: how full it is, nobody knows yet */
    cost.bytes += 4 * (double)count_cache_words(s, s->texts);
    return td_list_dispatch(list, kernel, spans, &params, make_grid(list, kernel, s, s->heads * cut.slices),
                            cost);
}

td_status td_op_decode_mlp(td_list *list, const td_decode_shape *s, const td_decode_rig *rig,
                           const td_decode_block *b)
{
    const td_decode_cut cut = td_decode_cut_up(td_list_device(list), s);
    const td_decode_vectors v = td_decode_place_vectors(s);
    const td_kernel_id kernel = choose(s, TD_K_decode_mlp_fp32, TD_K_decode_mlp_bf16, TD_K_decode_mlp_int8);
    const td_decode_mlp_params params = {.texts = s->texts,
                                         .width = s->width,
                                         .inside = s->inside,
                                         .parts = s->heads,
                                         .sums = cut.mlp_parts,
                                         .rows = cut.rows,
                                         .scratch = cut.own,
                                         .eps = s->eps,
                                         .gamma_at = v.gamma_2,
                                         .beta_at = v.beta_2,
                                         .fc_bias_at = v.fc_bias,
                                         .fc_scale_at = v.fc_scale,
                                         .bias_at = v.mlp_bias,
                                         .scale_at = v.mlp_scale};
    const td_span spans[] = {rig->x_between, rig->attend_parts, b->vectors,  b->fc, b->mlp,
                             rig->x,         rig->mlp_sums,     rig->scratch};
    TD_CHECK(check_block(list, s, rig, b));
    return td_list_dispatch(list, kernel, spans, &params, make_grid(list, kernel, s, cut.mlp_parts),
                            make_cost(s, 2.0 * s->width * s->inside));
}

td_status td_op_decode_head(td_list *list, const td_decode_shape *s, const td_decode_rig *rig,
                            const td_decode_last *last, bool is_first)
{
    const td_decode_cut cut = td_decode_cut_up(td_list_device(list), s);
    const td_decode_head_params params = {.texts = s->texts,
                                          .width = s->width,
                                          .codes = s->codes,
                                          .parts = is_first ? 0 : cut.mlp_parts,
                                          .rows = cut.head_rows,
                                          .scratch = cut.own,
                                          .eps = s->eps};
    const td_span spans[] = {rig->x,       rig->mlp_sums, last->vectors, last->weight,
                             last->latent, last->logits,  rig->scratch};
    const double n = (double)s->codes * s->width;
    TD_CHECK(check_rig(list, s, rig));
    TD_CHECK(td_op_check_span(last->vectors, 4ull * s->width + s->codes, "decode", "vectors"));
    TD_CHECK(td_op_check_span(last->weight, (uint64_t)s->codes * s->width, "decode", "weight"));
    TD_CHECK(td_op_check_span(last->latent, (uint64_t)s->texts * s->width, "decode", "latent"));
    TD_CHECK(td_op_check_span(last->logits, (uint64_t)s->texts * s->codes, "decode", "logits"));
    return td_list_dispatch(list, TD_K_decode_head, spans, &params,
                            make_grid(list, TD_K_decode_head, s, cut.head_parts),
                            (td_cost){.flops = 2 * n * s->texts, .bytes = 4 * n});
}

td_status td_op_decode_widen(td_list *list, uint32_t rows, uint32_t columns, bool by_row, td_span x,
                             td_span scales, td_span y)
{
    const uint64_t n = (uint64_t)rows * columns;
    const td_decode_widen_params params = {.rows = rows, .columns = columns, .by_row = by_row};
    const td_span spans[] = {x, scales, y};
    TD_CHECK(td_op_check_size(rows, columns, 1, "decode_widen"));
    TD_CHECK(td_op_check_span(x, td_decode_words(TD_FORMAT_INT8, n), "decode_widen", "x"));
    TD_CHECK(td_op_check_span(scales, by_row ? rows : columns, "decode_widen", "scales"));
    TD_CHECK(td_op_check_span(y, n, "decode_widen", "y"));
    return td_list_dispatch(list, TD_K_decode_widen, spans, &params, td_grid_groups(rows),
                            (td_cost){.flops = (double)n, .bytes = 5.0 * (double)n});
}
