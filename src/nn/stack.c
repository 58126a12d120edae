/* See stack.h. */
#include "nn/stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "device/blocking.h"
#include "graph/graph.h"
#include "ops/move.h"
#include "ops/rows.h"

struct td_stack {
    td_memory *memory; /* borrowed */
    td_stack_options options;
    bool is_borrowed; /* the weights are a lender's */
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
    for (uint32_t i = 0; i < s->options.layers; i++)
        TD_CHECK(take(s, 2ull * shape->capacity * shape->width, &s->blocks[i].cache));
    TD_CHECK(take(s, TD_DECODE_WORDS, &s->rig.step));
    TD_CHECK(take(s, shape->width, &s->rig.x));
    TD_CHECK(take(s, shape->width, &s->rig.x_between));
    TD_CHECK(take(s, cut.qkv, &s->rig.qkv));
    TD_CHECK(take(s, cut.attend_parts, &s->rig.attend_parts));
    TD_CHECK(take(s, cut.mlp_sums, &s->rig.mlp_sums));
    TD_CHECK(take(s, cut.scratch, &s->rig.scratch));
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
    return make_stack(lender->memory, &lender->options, lender, out);
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
    for (uint32_t i = 0; s->blocks && i < s->options.layers; i++)
        td_memory_free(s->memory, s->blocks[i].cache);
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

/* values [in, out] -> out [out, in], in squares that stay in a cache */
static void transpose(const float *values, uint32_t in, uint32_t out, float *to)
{
    enum { SIDE = 32 };
    for (uint32_t i0 = 0; i0 < in; i0 += SIDE)
        for (uint32_t j0 = 0; j0 < out; j0 += SIDE)
            for (uint32_t i = i0; i < in && i < i0 + SIDE; i++)
                for (uint32_t j = j0; j < out && j < j0 + SIDE; j++)
                    to[(size_t)j * in + i] = values[(size_t)i * out + j];
}

/* Scales of outputs, so that the largest of each becomes 127; 1 where all are 0. */
static void find_scales(const place *p, const float *values, float *scales)
{
    for (uint32_t j = 0; j < p->out; j++)
        scales[j] = 0;
    for (uint32_t i = 0; i < p->in; i++)
        for (uint32_t j = 0; j < p->out; j++) {
            const float size = fabsf(values[(size_t)i * p->out + j]);
            if (size > scales[j]) scales[j] = size;
        }
    for (uint32_t j = 0; j < p->out; j++)
        scales[j] = scales[j] > 0 ? scales[j] / 127 : 1;
}

/* `values` lie as the device wants them. */
static void make_bytes(const place *p, const float *values, const float *scales, int8_t *to)
{
    const uint32_t rows = p->is_transposed ? p->out : p->in, columns = p->is_transposed ? p->in : p->out;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            const size_t i = (size_t)r * columns + c;
            to[i] = (int8_t)lrintf(values[i] / scales[p->is_transposed ? r : c]);
        }
}

static td_status put_bytes(td_stack *s, uint32_t layer, const place *p, const float *natural,
                           const float *values)
{
    float *scales = NULL;
    int8_t *bytes = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&scales, p->out));
    TD_TRY(TD_NEW_ARRAY(&bytes, td_round_up(count(p), 4)));
    find_scales(p, natural, scales);
    make_bytes(p, values, scales, bytes);
    TD_TRY(td_blocking_write(s->memory, p->span, bytes));
    TD_TRY(td_blocking_write(s->memory,
                             td_span_part(s->blocks[layer].vectors, 4ull * p->scale, 4ull * p->out), scales));
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
    const uint32_t format = s->options.shape.format;
    const float *natural = values;
    float *transposed = NULL;
    td_status status = TD_OK;
    if (p.is_transposed) {
        TD_TRY(TD_NEW_ARRAY(&transposed, count(&p)));
        transpose(values, p.in, p.out, transposed);
        values = transposed;
    }
    if (p.is_converted && format == TD_FORMAT_INT8)
        TD_TRY(put_bytes(s, layer, &p, natural, values));
    else if (p.is_converted && format == TD_FORMAT_BF16)
        TD_TRY(put_halves(s, &p, values));
    else
        TD_TRY(td_blocking_write(s->memory, td_span_part(p.span, 4ull * p.at, 4ull * count(&p)), values));
fail:
    free(transposed);
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
    TD_REFUSE_IF(code >= s->options.shape.codes || position >= s->options.positions ||
                     row >= s->options.shape.capacity,
                 TD_ERR_ARGUMENT, "code %u, position %u, row %u; there are %u, %u and %u", code, position,
                 row, s->options.shape.codes, s->options.positions, s->options.shape.capacity);
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
