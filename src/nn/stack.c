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
    uint32_t
        most_rows; /* of the caches; options.shape has what there is room for: so many slots of so many rows */
    uint32_t life; /* of the caches: after a failure they begin another, in which nothing is in them */
    td_decode_vectors at;
    td_decode_block *blocks; /* [layers] */
    td_decode_rig rig;
    td_span table, positions;
    td_decode_last last;
    td_span narrowed;                    /* rows on their way into a cache that is narrower than they are */
    td_span host;                        /* of all texts: step words, latents, logits */
    td_list *steps[TD_DECODE_MAX_TEXTS]; /* of 1, 2 .. texts; recorded when first wanted */
};

/* ---------------------------------------------------------------- opening */

static td_status take(const td_stack *s, uint64_t words, td_span *out)
{
    TD_CHECK(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, 4 * words, out));
    *out = td_span_part(*out, 0, 4 * words);
    return TD_OK;
}

static void free_spans(const td_stack *s, const td_span *spans, size_t n)
{
    for (size_t i = 0; i < n; i++)
        td_memory_free(s->memory, spans[i]);
}

/* All that a step writes but the caches, and what was recorded of it. */
static void drop_rig(td_stack *s)
{
    const td_span spans[] = {s->rig.step,         s->rig.x,        s->rig.x_between, s->rig.qkv,
                             s->rig.attend_parts, s->rig.mlp_sums, s->rig.scratch,   s->last.latent,
                             s->last.logits,      s->narrowed,     s->host};
    for (size_t i = 0; i < TD_DECODE_MAX_TEXTS; i++) {
        td_list_destroy(s->steps[i]);
        s->steps[i] = NULL;
    }
    free_spans(s, spans, sizeof spans / sizeof *spans);
    s->rig = (td_decode_rig){0};
    s->last.latent = s->last.logits = s->narrowed = s->host = (td_span){0};
}

/* They are empty again. */
static void drop_caches(td_stack *s)
{
    for (uint32_t i = 0; s->blocks && i < s->options.layers; i++) {
        td_memory_free(s->memory, s->blocks[i].cache);
        s->blocks[i].cache = (td_span){0};
    }
    s->options.shape.capacity = s->options.shape.slots = s->options.shape.texts = 0;
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
    TD_CHECK(take(s, (uint64_t)s->options.positions * shape->width, &s->positions));
    TD_CHECK(take(s, 4ull * shape->width + shape->codes, &s->last.vectors));
    return take(s, table, &s->last.weight);
}

static bool has_narrow_caches(const td_stack *s)
{
    return td_decode_cache_format(s->options.shape.format) != TD_FORMAT_FP32;
}

/* Of n rows of keys or values. */
static uint64_t count_cache_words(const td_stack *s, uint64_t n)
{
    return td_decode_words(td_decode_cache_format(s->options.shape.format), n * s->options.shape.width);
}

/* What drop_rig() frees, for as many texts as a shape has. */
static td_status take_rig(td_stack *s, const td_decode_shape *shape)
{
    const td_decode_cut cut = td_decode_cut_up(td_memory_device(s->memory), shape);
    const uint64_t texts = shape->texts, host_words = texts * (TD_DECODE_WORDS + shape->width + shape->codes);
    TD_CHECK(take(s, texts * TD_DECODE_WORDS, &s->rig.step));
    TD_CHECK(take(s, texts * shape->width, &s->rig.x));
    TD_CHECK(take(s, texts * shape->width, &s->rig.x_between));
    TD_CHECK(take(s, cut.scratch, &s->rig.scratch));
    TD_CHECK(take(s, cut.qkv, &s->rig.qkv));
    TD_CHECK(take(s, cut.attend_parts, &s->rig.attend_parts));
    TD_CHECK(take(s, cut.mlp_sums, &s->rig.mlp_sums));
    TD_CHECK(take(s, texts * shape->width, &s->last.latent));
    TD_CHECK(take(s, texts * shape->codes, &s->last.logits));
    if (has_narrow_caches(s)) TD_CHECK(take(s, count_cache_words(s, 2ull * shape->capacity), &s->narrowed));
    return td_memory_alloc(s->memory, TD_MEMORY_HOST, 4 * host_words, &s->host);
}

td_status td_stack_create(td_memory *memory, const td_stack_options *options, td_stack **out)
{
    td_stack *s = NULL;
    td_status status = TD_OK;
    *out = NULL;
    td_decode_shape largest = options->shape;
    largest.texts = largest.slots = 1;
    TD_TRY(td_decode_check(&largest));
    TD_TRY(TD_NEW(&s));
    s->memory = memory;
    s->options = *options;
    s->most_rows = options->shape.capacity;
    s->options.shape.capacity = s->options.shape.slots = s->options.shape.texts = 0; /* nothing yet */
    s->at = td_decode_place_vectors(&options->shape);
    TD_TRY(TD_NEW_ARRAY(&s->blocks, options->layers));
    TD_TRY(take_weights(s));
    *out = s;
    return TD_OK;
fail:
    td_stack_destroy(s);
    return status;
}

/* ---------------------------------------------------------------- caches */

#define ROUND_ROWS 64u

/* Of a head's row in a cache. */
static uint32_t count_head_words(const td_stack *s)
{
    return (uint32_t)count_cache_words(s, 1) / s->options.shape.heads;
}

/* The cache of a layer with room for more slots and rows. */
static td_status grow_cache(const td_stack *s, td_decode_block *b, uint32_t slots, uint32_t rows)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint32_t head = count_head_words(s), start[3] = {0, 0, 0};
    td_list *list = NULL;
    td_span grown = {0};
    td_status status = TD_OK;
    TD_TRY(take(s, count_cache_words(s, 2ull * slots * rows), &grown));
    if (shape->capacity > 0) {
        TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
        TD_TRY(td_op_set_slice(list, b->cache,
                               td_dims(2 * shape->slots * shape->heads, shape->capacity, head), grown,
                               td_dims(2 * slots * shape->heads, rows, head), start));
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
static td_status grow(td_stack *s, uint32_t slots, uint32_t rows)
{
    td_decode_shape grown = s->options.shape;
    td_status status = TD_OK;
    grown.capacity = rows;
    grown.slots = slots;
    grown.texts = slots < TD_DECODE_MAX_TEXTS ? slots : TD_DECODE_MAX_TEXTS;
    TD_TRY(td_decode_check(&grown));
    drop_rig(s);
    for (uint32_t i = 0; i < s->options.layers; i++)
        TD_TRY(grow_cache(s, &s->blocks[i], slots, rows));
    TD_TRY(take_rig(s, &grown));
    s->options.shape = grown;
    return TD_OK;
fail:
    drop_rig(s);
    drop_caches(s);
    s->life++;
    return status;
}

td_status td_stack_make_room(td_stack *s, uint32_t slots, uint32_t rows)
{
    const td_decode_shape *have = &s->options.shape;
    if (slots <= have->slots && rows <= have->capacity) return TD_OK;
    TD_REFUSE_IF(rows > s->most_rows || slots > TD_STACK_MOST_SLOTS, TD_ERR_LIMIT,
                 "%u caches of %u rows; there are at most %u of %u", slots, rows, TD_STACK_MOST_SLOTS,
                 s->most_rows);
    if (slots < have->slots) slots = have->slots;
    if (rows <= have->capacity)
        rows = have->capacity;
    else if (rows < have->capacity + have->capacity / 2)
        rows = have->capacity + have->capacity / 2;
    rows = (uint32_t)td_round_up(rows, ROUND_ROWS);
    return grow(s, slots, rows < s->most_rows ? rows : s->most_rows);
}

static void free_weights(const td_stack *s)
{
    const td_span spans[] = {s->table, s->positions, s->last.vectors, s->last.weight};
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
    drop_rig(s);
    free_weights(s);
    drop_caches(s);
    free(s->blocks);
    free(s);
}

const td_stack_options *td_stack_get(const td_stack *stack)
{
    return &stack->options;
}

uint32_t td_stack_life(const td_stack *stack)
{
    return stack->life;
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
    if (tensor == TD_STACK_POSITIONS)
        return (place){.span = s->positions, .in = s->options.positions, .out = width};
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

td_status td_stack_fill_cache(const td_stack *s, uint32_t layer, uint32_t slot, td_list *list, td_span kv,
                              uint32_t rows)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint32_t head = count_head_words(s), start[3] = {2 * slot * shape->heads, 0, 0};
    if (has_narrow_caches(s)) {
        TD_CHECK(td_op_cast_half(list, td_decode_cache_format(shape->format), 2 * rows * shape->width, kv,
                                 s->narrowed));
        kv = td_span_part(s->narrowed, 0, 4 * count_cache_words(s, 2ull * rows));
    }
    return td_op_set_slice(list, kv, td_dims(2 * shape->heads, rows, head), s->blocks[layer].cache,
                           td_dims(2 * shape->slots * shape->heads, shape->capacity, head), start);
}

/* ---------------------------------------------------------------- steps */

/* The host's words: of all texts that there is room for, what a step is told, then latents, then logits. */
static uint64_t latents_at(const td_stack *s)
{
    return (uint64_t)s->options.shape.texts * TD_DECODE_WORDS;
}

static uint64_t logits_at(const td_stack *s)
{
    return latents_at(s) + (uint64_t)s->options.shape.texts * s->options.shape.width;
}

static td_status record_head(const td_stack *s, td_list *list, const td_decode_shape *shape, bool is_first)
{
    const uint64_t latents = 4ull * shape->texts * shape->width, logits = 4ull * shape->texts * shape->codes;
    TD_CHECK(td_op_decode_head(list, shape, &s->rig, &s->last, is_first));
    TD_CHECK(td_list_copy(list, td_span_part(s->host, 4 * latents_at(s), latents),
                          td_span_part(s->last.latent, 0, latents)));
    return td_list_copy(list, td_span_part(s->host, 4 * logits_at(s), logits),
                        td_span_part(s->last.logits, 0, logits));
}

static td_status record_step(const td_stack *s, td_list *list, uint32_t n)
{
    const uint64_t words = 4ull * n * TD_DECODE_WORDS;
    td_decode_shape shape = s->options.shape;
    shape.texts = n;
    TD_CHECK(td_list_copy(list, td_span_part(s->rig.step, 0, words), td_span_part(s->host, 0, words)));
    TD_CHECK(td_op_decode_embed(list, &shape, &s->rig, s->table, s->positions));
    for (uint32_t i = 0; i < s->options.layers; i++) {
        TD_CHECK(td_op_decode_qkv(list, &shape, &s->rig, &s->blocks[i], i == 0));
        TD_CHECK(td_op_decode_attend(list, &shape, &s->rig, &s->blocks[i]));
        TD_CHECK(td_op_decode_mlp(list, &shape, &s->rig, &s->blocks[i]));
    }
    return record_head(s, list, &shape, false);
}

/* The step of n texts. Borrowed. */
static td_status find_step(td_stack *s, uint32_t n, td_list **out)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    if (!s->steps[n - 1]) {
        TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
        TD_TRY(record_step(s, list, n));
        TD_TRY(td_list_finish(list));
        s->steps[n - 1] = list;
    }
    *out = s->steps[n - 1];
    return TD_OK;
fail:
    td_list_destroy(list);
    return status;
}

static td_status run(const td_stack *s, td_list *list, uint32_t n, td_stack_thought *out)
{
    const float *words = td_span_host(s->host);
    TD_CHECK(td_blocking_run(list, NULL));
    for (uint32_t i = 0; i < n; i++)
        out[i] = (td_stack_thought){.latent = words + latents_at(s) + (size_t)i * s->options.shape.width,
                                    .logits = words + logits_at(s) + (size_t)i * s->options.shape.codes};
    return TD_OK;
}

td_status td_stack_begin(td_stack *s, td_span row, td_stack_thought *out)
{
    td_decode_shape shape = s->options.shape;
    td_list *list = NULL;
    td_status status = TD_OK;
    shape.texts = 1;
    TD_FAIL_IF(shape.slots == 0, TD_ERR_ARGUMENT, "a stack without room for a text");
    TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, td_span_part(s->rig.x, 0, 4ull * shape.width), row));
    TD_TRY(record_head(s, list, &shape, true));
    TD_TRY(run(s, list, 1, out));
fail:
    td_list_destroy(list);
    return status;
}

/* Makes room, too. */
static td_status check_codes(td_stack *s, const td_stack_code *codes, uint32_t n)
{
    uint32_t slots = 0, rows = 0;
    TD_REFUSE_IF(n == 0 || n > TD_DECODE_MAX_TEXTS, TD_ERR_ARGUMENT,
                 "a step of %u texts; there can be 1 to %u", n, TD_DECODE_MAX_TEXTS);
    for (uint32_t i = 0; i < n; i++) {
        const td_stack_code *c = &codes[i];
        TD_REFUSE_IF(c->code >= s->options.shape.codes || c->position >= s->options.positions ||
                         c->row >= s->most_rows || c->slot >= TD_STACK_MOST_SLOTS,
                     TD_ERR_ARGUMENT, "code %u, position %u, row %u, slot %u; there are %u, %u, %u and %u",
                     c->code, c->position, c->row, c->slot, s->options.shape.codes, s->options.positions,
                     s->most_rows, TD_STACK_MOST_SLOTS);
        TD_REFUSE_IF(c->life != s->life, TD_ERR_DEVICE_MEMORY,
                     "what a text had said so far was lost when the device had no memory for another");
        for (uint32_t j = 0; j < i; j++)
            TD_REFUSE_IF(codes[j].slot == c->slot, TD_ERR_ARGUMENT, "two texts of a step in slot %u",
                         c->slot);
        if (c->slot >= slots) slots = c->slot + 1;
        if (c->row >= rows) rows = c->row + 1;
    }
    return td_stack_make_room(s, slots, rows);
}

td_status td_stack_next(td_stack *s, const td_stack_code *codes, uint32_t n, td_stack_thought *out)
{
    td_list *list = NULL;
    TD_CHECK(check_codes(s, codes, n));
    TD_CHECK(find_step(s, n, &list));
    uint32_t *words = td_span_host(s->host);
    for (uint32_t i = 0; i < n; i++, words += TD_DECODE_WORDS) {
        words[TD_DECODE_CODE] = codes[i].code;
        words[TD_DECODE_POSITION] = codes[i].position;
        words[TD_DECODE_ROW] = codes[i].row;
        words[TD_DECODE_SLOT] = codes[i].slot;
    }
    return run(s, list, n, out);
}

uint32_t td_stack_launches(const td_stack *s)
{
    return 3 * s->options.layers + 2;
}

uint64_t td_stack_bytes(const td_stack *s, uint32_t n, uint32_t rows)
{
    const td_decode_shape *shape = &s->options.shape;
    const uint64_t square = (uint64_t)shape->width * shape->width,
                   inside = (uint64_t)shape->width * shape->inside;
    const uint64_t words = td_decode_words(shape->format, 4 * square + 2 * inside) + s->at.total;
    return 4 * (s->options.layers * (words + count_cache_words(s, 2ull * n * rows)) +
                (uint64_t)shape->codes * shape->width);
}
