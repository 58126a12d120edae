/* See stack.h. */
#include "nn/stack.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "device/blocking.h"
#include "graph/graph.h"
#include "nn/bytes.h"
#include "ops/move.h"
#include "ops/rows.h"

struct td_stack {
    td_memory *memory; /* borrowed */
    td_stack_options options;
    uint32_t most_rows; /* of the caches; options.shape.capacity is what they have room for */
    bool is_borrowed;   /* the weights are a lender's */
    td_decode_vectors at;
    td_decode_block *blocks; /* [layers] */
    td_decode_rig rig;
    td_span table, places;
    td_decode_last last;
    td_span host;  /* step words, latent, logits */
    td_list *step; /* recorded when first wanted */
};

/* ---------------------------------------------------------------- opening */

static td_status take(const td_stack *s, uint64_t words, td_span *out)
{
    TD_CHECK(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, 4 * words, out));
    *out = td_span_part(*out, 0, 4 * words);
    return TD_OK;
}

/* They are empty again. */
static void drop_caches(td_stack *s)
{
    for (uint32_t i = 0; s->blocks && i < s->options.layers; i++) {
        td_memory_free(s->memory, s->blocks[i].cache);
        s->blocks[i].cache = (td_span){0};
    }
    s->options.shape.capacity = 0;
}

static td_status take_weights(td_stack *s)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint64_t square = (uint64_t)shape->width * shape->width;
    const uint64_t inside = (uint64_t)shape->width * shape->inside;
    const uint64_t table = (uint64_t)shape->codes * shape->width;
    for (uint32_t i = 0; i < s->options.layers; i++) {
        td_decode_block *b = &s->blocks[i];
        TD_CHECK(take(s, s->at.total, &b->vectors));
        TD_CHECK(take(s, td_decode_words(shape->format, 3 * square), &b->qkv));
        TD_CHECK(take(s, td_decode_words(shape->format, square), &b->proj));
        TD_CHECK(take(s, td_decode_words(shape->format, inside), &b->fc));
        TD_CHECK(take(s, td_decode_words(shape->format, inside), &b->mlp));
    }
    TD_CHECK(take(s, table, &s->table));
    TD_CHECK(take(s, (uint64_t)s->options.positions * shape->width, &s->places));
    TD_CHECK(take(s, 4ull * shape->width + shape->codes, &s->last.vectors));
    return take(s, table, &s->last.weight);
}

static void borrow_weights(td_stack *s, const td_stack *lender)
{
    for (uint32_t i = 0; i < s->options.layers; i++) {
        s->blocks[i] = lender->blocks[i];
        s->blocks[i].cache = (td_span){0};
    }
    s->table = lender->table;
    s->places = lender->places;
    s->last.vectors = lender->last.vectors;
    s->last.weight = lender->last.weight;
}

/* All that a step writes. */
static td_status take_rig(td_stack *s)
{
    const td_decode_shape *shape = &s->options.shape;
    const td_decode_cut cut = td_decode_cut_up(td_device_class(td_memory_device(s->memory)), shape);
    const uint64_t host_words = TD_DECODE_WORDS + shape->width + shape->codes;
    TD_CHECK(take(s, TD_DECODE_WORDS, &s->rig.step));
    TD_CHECK(take(s, shape->width, &s->rig.x));
    TD_CHECK(take(s, shape->width, &s->rig.x_between));
    TD_CHECK(take(s, cut.qkv, &s->rig.qkv));
    TD_CHECK(take(s, cut.attend_parts, &s->rig.attend_parts));
    TD_CHECK(take(s, cut.mlp_sums, &s->rig.mlp_sums));
    TD_CHECK(take(s, shape->width, &s->last.latent));
    TD_CHECK(take(s, shape->codes, &s->last.logits));
    return td_memory_alloc(s->memory, TD_MEMORY_HOST, 4 * host_words, &s->host);
}

/* With the lender's weights, or room for its own. */
static td_status make_stack(td_memory *memory, const td_stack_options *options, const td_stack *lender,
                            td_stack **out)
{
    td_stack *s = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_decode_check(&options->shape));
    TD_TRY(TD_NEW(&s));
    s->memory = memory;
    s->options = *options;
    s->most_rows = options->shape.capacity;
    s->options.shape.capacity = 0; /* nothing to remember yet */
    s->is_borrowed = lender != NULL;
    s->at = td_decode_place_vectors(&options->shape);
    TD_TRY(TD_NEW_ARRAY(&s->blocks, options->layers));
    if (lender)
        borrow_weights(s, lender);
    else
        TD_TRY(take_weights(s));
    TD_TRY(take_rig(s));
    *out = s;
    return TD_OK;
fail:
    td_stack_destroy(s);
    return status;
}

td_status td_stack_create(td_memory *memory, const td_stack_options *options, td_stack **out)
{
    return make_stack(memory, options, NULL, out);
}

td_status td_stack_borrow(const td_stack *lender, td_stack **out)
{
    td_stack_options options = lender->options;
    options.shape.capacity = lender->most_rows;
    return make_stack(lender->memory, &options, lender, out);
}

/* ---------------------------------------------------------------- caches */

#define ROUND_ROWS 64u

/* The cache of a layer with room for more rows. */
static td_status grow_cache(const td_stack *s, td_decode_block *b, uint32_t rows)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint32_t head = shape->width / shape->heads, start[3] = {0, 0, 0};
    td_list *list = NULL;
    td_span grown = {0};
    td_status status = TD_OK;
    TD_TRY(take(s, 2ull * rows * shape->width, &grown));
    if (shape->capacity > 0) {
        TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
        TD_TRY(td_op_set_slice(list, b->cache, td_dims(2 * shape->heads, shape->capacity, head), grown,
                               td_dims(2 * shape->heads, rows, head), start));
        TD_TRY(td_blocking_run(list, NULL));
    }
    td_memory_free(s->memory, b->cache);
    b->cache = grown;
    grown = (td_span){0};
fail:
    td_list_destroy(list);
    td_memory_free(s->memory, grown);
    return status;
}

/* A layer at a time, so that no more than one cache is there twice. What was recorded knows the old ones. After a
 * failure layers differ, so all are given up. */
static td_status grow(td_stack *s, uint32_t rows)
{
    td_decode_shape grown = s->options.shape;
    td_status status = TD_OK;
    td_list_destroy(s->step);
    s->step = NULL;
    td_memory_free(s->memory, s->rig.scratch);
    s->rig.scratch = (td_span){0};
    for (uint32_t i = 0; i < s->options.layers; i++)
        TD_TRY(grow_cache(s, &s->blocks[i], rows));
    grown.capacity = rows;
    TD_TRY(take(s, td_decode_cut_up(td_device_class(td_memory_device(s->memory)), &grown).scratch,
                &s->rig.scratch));
    s->options.shape.capacity = rows;
    return TD_OK;
fail:
    drop_caches(s);
    return status;
}

td_status td_stack_make_room(td_stack *s, uint32_t rows)
{
    const uint32_t have = s->options.shape.capacity;
    if (rows <= have) return TD_OK;
    TD_REFUSE_IF(rows > s->most_rows, TD_ERR_LIMIT, "%u rows of a cache; there are at most %u", rows,
                 s->most_rows);
    if (rows < have + have / 2) rows = have + have / 2;
    rows = (uint32_t)td_round_up(rows, ROUND_ROWS);
    return grow(s, rows < s->most_rows ? rows : s->most_rows);
}

static void free_spans(const td_stack *s, const td_span *spans, size_t n)
{
    for (size_t i = 0; i < n; i++)
        td_memory_free(s->memory, spans[i]);
}

static void free_weights(const td_stack *s)
{
    const td_span spans[] = {s->table, s->places, s->last.vectors, s->last.weight};
    for (uint32_t i = 0; s->blocks && i < s->options.layers; i++) {
        const td_decode_block *b = &s->blocks[i];
        const td_span of_block[] = {b->vectors, b->qkv, b->proj, b->fc, b->mlp};
        free_spans(s, of_block, sizeof of_block / sizeof *of_block);
    }
    free_spans(s, spans, sizeof spans / sizeof *spans);
}

void td_stack_destroy(td_stack *s)
{
    if (!s) return;
    const td_span spans[] = {s->rig.step,         s->rig.x,        s->rig.x_between, s->rig.qkv,
                             s->rig.attend_parts, s->rig.mlp_sums, s->rig.scratch,   s->last.latent,
                             s->last.logits,      s->host};
    td_list_destroy(s->step);
    if (!s->is_borrowed) free_weights(s);
    drop_caches(s);
    free_spans(s, spans, sizeof spans / sizeof *spans);
    free(s->blocks);
    free(s);
}

const td_stack_options *td_stack_get(const td_stack *stack)
{
    return &stack->options;
}

/* ---------------------------------------------------------------- weights */

/* Where a tensor lies. */
typedef struct place {
    td_span span;       /* all of its buffer */
    uint32_t at;        /* in it, in floats: of a vector */
    uint32_t in, out;   /* of a matrix; in 0: a vector of `out` */
    uint32_t scale;     /* where in the block's vectors the scales are */
    bool is_converted;  /* a matrix in the stack's format, */
    bool is_transposed; /* each output a row */
} place;

static place find_layer_place(const td_stack *s, const td_decode_block *b, td_stack_tensor tensor)
{
    const uint32_t width = s->options.shape.width, inside = s->options.shape.inside;
    const td_decode_vectors *at = &s->at;
    switch (tensor) {
    case TD_STACK_QKV:
        return (place){
            .span = b->qkv, .in = width, .out = 3 * width, .scale = at->qkv_scale, .is_converted = true};
    case TD_STACK_PROJ:
        return (place){
            .span = b->proj, .in = width, .out = width, .scale = at->proj_scale, .is_converted = true};
    case TD_STACK_FC:
        return (place){.span = b->fc,
                       .in = width,
                       .out = inside,
                       .scale = at->fc_scale,
                       .is_converted = true,
                       .is_transposed = true};
    case TD_STACK_MLP:
        return (place){
            .span = b->mlp, .in = inside, .out = width, .scale = at->mlp_scale, .is_converted = true};
    case TD_STACK_NORM_1_GAMMA:
        return (place){.span = b->vectors, .at = at->gamma_1, .out = width};
    case TD_STACK_NORM_1_BETA:
        return (place){.span = b->vectors, .at = at->beta_1, .out = width};
    case TD_STACK_QKV_BIAS:
        return (place){.span = b->vectors, .at = at->qkv_bias, .out = 3 * width};
    case TD_STACK_PROJ_BIAS:
        return (place){.span = b->vectors, .at = at->proj_bias, .out = width};
    case TD_STACK_NORM_2_GAMMA:
        return (place){.span = b->vectors, .at = at->gamma_2, .out = width};
    case TD_STACK_NORM_2_BETA:
        return (place){.span = b->vectors, .at = at->beta_2, .out = width};
    case TD_STACK_FC_BIAS:
        return (place){.span = b->vectors, .at = at->fc_bias, .out = inside};
    default:
        return (place){.span = b->vectors, .at = at->mlp_bias, .out = width};
    }
}

static place find_place(const td_stack *s, uint32_t layer, td_stack_tensor tensor)
{
    const uint32_t width = s->options.shape.width, codes = s->options.shape.codes;
    if (tensor < TD_STACK_LAYER_TENSORS) return find_layer_place(s, &s->blocks[layer], tensor);
    if (tensor == TD_STACK_TABLE) return (place){.span = s->table, .in = codes, .out = width};
    if (tensor == TD_STACK_PLACES)
        return (place){.span = s->places, .in = s->options.positions, .out = width};
    if (tensor == TD_STACK_HEAD) return (place){.span = s->last.weight, .in = codes, .out = width};
    if (tensor == TD_STACK_HEAD_BIAS) return (place){.span = s->last.vectors, .at = 4 * width, .out = codes};
    return (place){
        .span = s->last.vectors, .at = (uint32_t)(tensor - TD_STACK_NORM_3_GAMMA) * width, .out = width};
}

static size_t count(const place *p)
{
    return (size_t)(p->in ? p->in : 1) * p->out;
}

size_t td_stack_count(const td_stack *s, td_stack_tensor tensor)
{
    const place p = find_place(s, 0, tensor);
    return count(&p);
}

/* from [in, out] -> to [out, in], in squares that stay in a cache; elements of 1 or 4 bytes */
static void transpose(const void *from, size_t size, uint32_t in, uint32_t out, void *to)
{
    enum { SIDE = 32 };
    const unsigned char *source = from;
    unsigned char *target = to;
    for (uint32_t i0 = 0; i0 < in; i0 += SIDE)
        for (uint32_t j0 = 0; j0 < out; j0 += SIDE)
            for (uint32_t i = i0; i < in && i < i0 + SIDE; i++)
                for (uint32_t j = j0; j < out && j < j0 + SIDE; j++)
                    memcpy(target + ((size_t)j * in + i) * size, source + ((size_t)i * out + j) * size, size);
}

/* `values` [in, out] as the device wants them: themselves, or *made, which is then owned. */
static td_status transpose_part(const place *p, const void *values, size_t size, const void **out,
                                void **made)
{
    unsigned char *transposed = NULL;
    *out = values;
    *made = NULL;
    if (!p->is_transposed) return TD_OK;
    TD_CHECK(TD_NEW_ARRAY(&transposed, count(p) * size));
    if (size == 1)
        transpose(values, 1, p->in, p->out, transposed);
    else
        transpose(values, 4, p->in, p->out, transposed);
    *out = *made = transposed;
    return TD_OK;
}

td_status td_stack_put_bytes(td_stack *s, uint32_t layer, td_stack_tensor tensor, const int8_t *bytes,
                             const float *scales)
{
    const place p = find_place(s, layer, tensor);
    const void *values;
    void *made = NULL;
    td_status status = TD_OK;
    TD_FAIL_IF(!p.is_converted || s->options.shape.format != TD_FORMAT_INT8, TD_ERR_ARGUMENT,
               "bytes for a tensor that the stack has as floats");
    TD_TRY(transpose_part(&p, bytes, 1, &values, &made));
    TD_TRY(td_blocking_write(s->memory, td_span_part(p.span, 0, count(&p)), values));
    TD_TRY(td_blocking_write(s->memory, td_span_part(s->blocks[layer].vectors, 4ull * p.scale, 4ull * p.out),
                             scales));
fail:
    free(made);
    return status;
}

static td_status make_bytes(td_stack *s, uint32_t layer, td_stack_tensor tensor, const place *p,
                            const float *values)
{
    float *scales = NULL;
    int8_t *bytes = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&scales, p->out));
    TD_TRY(TD_NEW_ARRAY(&bytes, count(p)));
    td_bytes_find_scales(values, p->in, p->out, scales);
    td_bytes_make(values, p->in, p->out, scales, bytes);
    TD_TRY(td_stack_put_bytes(s, layer, tensor, bytes, scales));
fail:
    free(scales);
    free(bytes);
    return status;
}

static td_status put_halves(td_stack *s, const place *p, const float *values)
{
    const size_t n = count(p);
    uint16_t *halves = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&halves, td_round_up(n, 2)));
    for (size_t i = 0; i < n; i++)
        halves[i] = td_bf16_from_float(values[i]);
    TD_TRY(td_blocking_write(s->memory, p->span, halves));
fail:
    free(halves);
    return status;
}

td_status td_stack_put(td_stack *s, uint32_t layer, td_stack_tensor tensor, const float *values)
{
    const place p = find_place(s, layer, tensor);
    const uint32_t format = p.is_converted ? s->options.shape.format : TD_FORMAT_FP32;
    const void *transposed;
    void *made = NULL;
    td_status status = TD_OK;
    if (format == TD_FORMAT_INT8) return make_bytes(s, layer, tensor, &p, values);
    TD_TRY(transpose_part(&p, values, sizeof *values, &transposed, &made));
    if (format == TD_FORMAT_BF16)
        TD_TRY(put_halves(s, &p, transposed));
    else
        TD_TRY(td_blocking_write(s->memory, td_span_part(p.span, 4ull * p.at, 4ull * count(&p)), transposed));
fail:
    free(made);
    return status;
}

td_status td_stack_widen(const td_stack *s, uint32_t layer, td_list *list,
                         const td_span to[TD_STACK_LAYER_TENSORS])
{
    const uint32_t format = s->options.shape.format;
    for (int i = 0; i < TD_STACK_LAYER_TENSORS; i++) {
        const place p = find_place(s, layer, (td_stack_tensor)i);
        if (!td_op_given(to[i])) continue;
        if (p.is_converted && format == TD_FORMAT_INT8) {
            const td_span scales = td_span_part(s->blocks[layer].vectors, 4ull * p.scale, 4ull * p.out);
            TD_CHECK(td_op_decode_widen(list, p.is_transposed ? p.out : p.in, p.is_transposed ? p.in : p.out,
                                        p.is_transposed, p.span, scales, to[i]));
        } else if (p.is_converted && format == TD_FORMAT_BF16) {
            TD_CHECK(td_op_cast_float(list, TD_FORMAT_BF16, (uint32_t)count(&p), p.span, to[i]));
        } else {
            TD_CHECK(td_list_copy(list, to[i], td_span_part(p.span, 4ull * p.at, 4ull * count(&p))));
        }
    }
    return TD_OK;
}

td_status td_stack_fill_cache(const td_stack *s, uint32_t layer, td_list *list, td_span kv, uint32_t rows)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint32_t head = shape->width / shape->heads, start[3] = {0, 0, 0};
    return td_op_set_slice(list, kv, td_dims(2 * shape->heads, rows, head), s->blocks[layer].cache,
                           td_dims(2 * shape->heads, shape->capacity, head), start);
}

/* ---------------------------------------------------------------- steps */

/* Parts of the host's words. */
static td_span host_part(const td_stack *s, uint64_t first, uint64_t words)
{
    return td_span_part(s->host, 4 * first, 4 * words);
}

static td_status record_head(const td_stack *s, td_list *list, bool is_first)
{
    const td_decode_shape *shape = &s->options.shape;
    TD_CHECK(td_op_decode_head(list, shape, &s->rig, &s->last, is_first));
    TD_CHECK(td_list_copy(list, host_part(s, TD_DECODE_WORDS, shape->width), s->last.latent));
    return td_list_copy(list, host_part(s, TD_DECODE_WORDS + shape->width, shape->codes), s->last.logits);
}

static td_status record_step(const td_stack *s, td_list *list)
{
    const td_decode_shape *shape = &s->options.shape;
    TD_CHECK(td_list_copy(list, s->rig.step, host_part(s, 0, TD_DECODE_WORDS)));
    TD_CHECK(td_op_decode_embed(list, shape, &s->rig, s->table, s->places));
    for (uint32_t i = 0; i < s->options.layers; i++) {
        TD_CHECK(td_op_decode_qkv(list, shape, &s->rig, &s->blocks[i], i == 0));
        TD_CHECK(td_op_decode_attend(list, shape, &s->rig, &s->blocks[i]));
        TD_CHECK(td_op_decode_mlp(list, shape, &s->rig, &s->blocks[i]));
    }
    return record_head(s, list, false);
}

td_status td_stack_list(td_stack *s, td_list **out)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    if (!s->step) {
        TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
        TD_TRY(record_step(s, list));
        TD_TRY(td_list_finish(list));
        s->step = list;
    }
    *out = s->step;
    return TD_OK;
fail:
    td_list_destroy(list);
    return status;
}

static td_status run(td_stack *s, td_list *list, td_stack_thought *out)
{
    const float *words = td_span_host(s->host);
    TD_CHECK(td_blocking_run(list, NULL));
    *out = (td_stack_thought){.latent = words + TD_DECODE_WORDS,
                              .logits = words + TD_DECODE_WORDS + s->options.shape.width};
    return TD_OK;
}

td_status td_stack_begin(td_stack *s, td_span row, td_stack_thought *out)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, s->rig.x, row));
    TD_TRY(record_head(s, list, true));
    TD_TRY(run(s, list, out));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_stack_next(td_stack *s, uint32_t code, uint32_t position, uint32_t row, td_stack_thought *out)
{
    uint32_t *words = td_span_host(s->host);
    td_list *list;
    TD_REFUSE_IF(code >= s->options.shape.codes || position >= s->options.positions || row >= s->most_rows,
                 TD_ERR_ARGUMENT, "code %u, position %u, row %u; there are %u, %u and %u", code, position,
                 row, s->options.shape.codes, s->options.positions, s->most_rows);
    TD_CHECK(td_stack_make_room(s, row + 1));
    TD_CHECK(td_stack_list(s, &list));
    words[TD_DECODE_CODE] = code;
    words[TD_DECODE_POSITION] = position;
    words[TD_DECODE_ROW] = row;
    return run(s, list, out);
}

uint32_t td_stack_launches(const td_stack *s)
{
    return 3 * s->options.layers + 2;
}

uint64_t td_stack_bytes(const td_stack *s, uint32_t rows)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint64_t square = (uint64_t)shape->width * shape->width,
                   inside = (uint64_t)shape->width * shape->inside;
    const uint64_t words = td_decode_words(shape->format, 4 * square + 2 * inside) + s->at.total;
    return 4 *
           (s->options.layers * (words + 2ull * rows * shape->width) + (uint64_t)shape->codes * shape->width);
}
