/* See sketch.h. */
#include "tools/sketch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

#define HEAD 64u
#define FACTOR 4u
#define EPS 1e-5f

td_status td_sketch_parse(const char *text, td_sketch_size *out)
{
    unsigned tw = 0, tl = 0, dw = 0, dl = 0;
    int end = 0;
    td_status status = TD_OK;
    const int found = sscanf(text, "%4ux%2u/%4ux%2u%n", &tw, &tl, &dw, &dl, &end);
    TD_FAIL_IF(found != 4 || text[end] != '\0' || !tw || !tl || !dw || !dl || tw % HEAD || dw % HEAD,
               TD_ERR_CONFIG,
               "a sketch is TEXTxLAYERS/DECODERxLAYERS with widths that are multiples of %u, such as "
               "128x2/192x3, not \"%.40s\"",
               HEAD, text);
    out->text_width = tw;
    out->text_layers = tl;
    out->decoder_width = dw;
    out->decoder_layers = dl;
fail:
    return status;
}

/* ---------------------------------------------------------------- layers */

/* A place in the tree of names: "decoder.2.cross". */
typedef struct scope {
    td_graph *g;
    char name[64];
} scope;

static scope enter(scope outer, const char *name)
{
    scope inner = {.g = outer.g};
    snprintf(inner.name, sizeof inner.name, "%.38s%s%.24s", outer.name, outer.name[0] ? "." : "", name);
    return inner;
}

static scope enter_layer(scope outer, const char *name, uint32_t layer)
{
    char text[24];
    snprintf(text, sizeof text, "%.12s.%u", name, layer);
    return enter(outer, text);
}

static td_tensor parameter(scope s, const char *name, td_shape shape, td_param_group group)
{
    return td_graph_param(s.g, enter(s, name).name, shape, group);
}

static uint32_t width_of(scope s, td_tensor x)
{
    const td_shape shape = td_graph_shape(s.g, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

static td_tensor linear(scope s, td_tensor x, uint32_t width)
{
    const td_tensor w = parameter(s, "weight", td_dims(width_of(s, x), width), TD_PARAM_DECAY);
    return td_graph_add(s.g, td_graph_matmul(s.g, x, w),
                        parameter(s, "bias", td_dims(width), TD_PARAM_NO_DECAY));
}

static td_tensor norm(scope s, td_tensor x)
{
    const td_shape shape = td_dims(width_of(s, x));
    const td_tensor gamma = parameter(s, "gamma", shape, TD_PARAM_NO_DECAY);
    return td_graph_layer_norm(s.g, x, gamma, parameter(s, "beta", shape, TD_PARAM_NO_DECAY), EPS);
}

static td_tensor self_attention(scope s, td_tensor h, td_tensor counts, bool causal)
{
    const uint32_t width = width_of(s, h);
    const td_attention_options options = {.heads = width / HEAD, .causal = causal, .lengths = counts};
    const td_tensor qkv = linear(enter(s, "qkv"), norm(enter(s, "norm"), h), 3 * width);
    const td_tensor a = td_graph_attention_qkv(s.g, qkv, &options);
    return td_graph_add(s.g, h, linear(enter(s, "out"), a, width));
}

static td_tensor cross_attention(scope s, td_tensor h, td_tensor text, td_tensor counts)
{
    const uint32_t width = width_of(s, h);
    const td_attention_options options = {.heads = width / HEAD, .lengths = counts};
    const td_tensor q = linear(enter(s, "q"), norm(enter(s, "norm"), h), width);
    const td_tensor a = td_graph_attention_kv(s.g, q, linear(enter(s, "kv"), text, 2 * width), &options);
    return td_graph_add(s.g, h, linear(enter(s, "out"), a, width));
}

static td_tensor feed_forward(scope s, td_tensor h)
{
    const uint32_t width = width_of(s, h);
    const td_tensor inner = linear(enter(s, "in"), norm(enter(s, "norm"), h), FACTOR * width);
    return td_graph_add(s.g, h, linear(enter(s, "out"), td_graph_gelu(s.g, inner), width));
}

static td_tensor add_positions(scope s, td_tensor x)
{
    const td_shape shape = td_graph_shape(s.g, x);
    const td_shape table = td_dims(shape.dims[1], shape.dims[2]);
    return td_graph_add(s.g, x, parameter(s, "positions", table, TD_PARAM_NO_DECAY));
}

/* ---------------------------------------------------------------- the whole */

static td_tensor encode(scope s, const td_sketch_size *size, const td_sketch *k)
{
    const td_tensor table =
        parameter(s, "embedding", td_dims(TD_SKETCH_SYMBOLS, size->text_width), TD_PARAM_NO_DECAY);
    td_tensor e = add_positions(s, td_graph_embedding(s.g, table, k->token_ids));
    for (uint32_t i = 0; i < size->text_layers; i++) {
        const scope layer = enter_layer(s, "layers", i);
        td_graph_block_begin(s.g);
        e = self_attention(enter(layer, "self"), e, k->token_counts, false);
        e = feed_forward(enter(layer, "ff"), e);
        td_graph_block_end(s.g);
    }
    return norm(enter(s, "norm"), e);
}

static td_tensor decode(scope s, const td_sketch_size *size, const td_sketch *k, td_tensor text)
{
    td_tensor h = add_positions(s, linear(enter(s, "in"), k->previous, size->decoder_width));
    for (uint32_t i = 0; i < size->decoder_layers; i++) {
        const scope layer = enter_layer(s, "layers", i);
        td_graph_block_begin(s.g);
        h = self_attention(enter(layer, "self"), h, k->frame_counts, true);
        h = cross_attention(enter(layer, "cross"), h, text, k->token_counts);
        h = feed_forward(enter(layer, "ff"), h);
        td_graph_block_end(s.g);
    }
    return norm(enter(s, "norm"), h);
}

td_status td_sketch_build(const td_sketch_size *size, bool is_scaled, td_sketch *out)
{
    td_status status = TD_OK;
    *out = (td_sketch){0};
    TD_TRY(td_graph_create(1, &out->graph));
    td_graph *g = out->graph;
    const scope root = {.g = g};
    out->token_ids = td_graph_input(g, "token_ids", td_dims(size->items, size->tokens), TD_U32);
    out->token_counts = td_graph_input(g, "token_counts", td_dims(size->items), TD_U32);
    out->frame_counts = td_graph_input(g, "frame_counts", td_dims(size->items), TD_U32);
    const td_shape frames = td_dims(size->items, size->frames, TD_SKETCH_BANDS);
    out->previous = td_graph_input(g, "previous", frames, TD_F32);
    out->mel = td_graph_input(g, "mel", frames, TD_F32);
    out->stop = td_graph_input(g, "stop", td_dims(size->items, size->frames, 1), TD_F32);
    const td_tensor text = encode(enter(root, "text"), size, out);
    const td_tensor h = decode(enter(root, "decoder"), size, out, text);
    const td_tensor mel = linear(enter(root, "mel"), h, TD_SKETCH_BANDS);
    const td_tensor stop = linear(enter(root, "stop"), h, 1);
    const td_tensor losses[] = {td_graph_loss(g, TD_LOSS_L1, mel, out->mel, out->frame_counts, 0),
                                td_graph_loss(g, TD_LOSS_BCE, stop, out->stop, out->frame_counts, 1)};
    out->loss = td_graph_total(g, losses, (const float[]){1, 1}, 2);
    td_graph_output(g, out->loss, "loss");
    TD_TRY(is_scaled ? td_graph_backward_scaled(g, out->loss, 1) : td_graph_backward(g, out->loss, 1));
    return TD_OK;
fail:
    td_graph_destroy(out->graph);
    *out = (td_sketch){0};
    return status;
}

/* ---------------------------------------------------------------- first values */

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

td_status td_sketch_init(td_store *store, uint64_t seed)
{
    float *values = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry e = td_store_get(store, i);
        const size_t n = (size_t)td_shape_size(e.shape);
        const uint64_t stream = td_hash64(e.name, strlen(e.name));
        const bool is_table = ends_with(e.name, "embedding") || ends_with(e.name, "positions");
        const float bound = is_table                      ? 0.05f
                            : ends_with(e.name, "weight") ? 1 / sqrtf((float)e.shape.dims[0])
                                                          : 0;
        free(values);
        TD_TRY(TD_NEW_ARRAY(&values, n));
        for (size_t k = 0; k < n; k++)
            values[k] = ends_with(e.name, "gamma") ? 1 : bound * (2 * td_rng_float(seed, stream, k) - 1);
        TD_TRY(td_store_write(store, i, TD_BLOCK_WEIGHT, values));
    }
fail:
    free(values);
    return status;
}
