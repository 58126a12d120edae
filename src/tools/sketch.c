/* See sketch.h. */
#include "tools/sketch.h"

#include <stdio.h>

#include "base/error.h"
#include "nn/nn.h"

#define HEAD 64u
#define FACTOR 4u
#define TABLE_BOUND 0.05f

td_status td_sketch_parse(const char *text, td_sketch_size *out)
{
    unsigned tw = 0, tl = 0, dw = 0, dl = 0;
    int end = 0;
    const int found = sscanf(text, "%4ux%2u/%4ux%2u%n", &tw, &tl, &dw, &dl, &end);
    TD_REFUSE_IF(found != 4 || text[end] != '\0' || !tw || !tl || !dw || !dl || tw % HEAD || dw % HEAD,
                 TD_ERR_CONFIG,
                 "a sketch is TEXTxLAYERS/DECODERxLAYERS with widths that are multiples of %u, such as "
                 "128x2/192x3, not \"%.40s\"",
                 HEAD, text);
    out->text_width = tw;
    out->text_layers = tl;
    out->decoder_width = dw;
    out->decoder_layers = dl;
    return TD_OK;
}

/* ---------------------------------------------------------------- layers */

static uint32_t width_of(const td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

static td_tensor table(td_nn *nn, const char *name, uint32_t rows, uint32_t width)
{
    return td_nn_param(nn, name, td_dims(rows, width), TD_PARAM_NO_DECAY,
                       (td_init){.rule = TD_INIT_UNIFORM, .scale = TABLE_BOUND});
}

static td_tensor self_attention(td_nn *nn, td_tensor h, td_tensor counts, bool causal)
{
    const uint32_t width = width_of(nn, h);
    const td_attention_options options = {.heads = width / HEAD, .causal = causal, .lengths = counts};
    td_nn_push(nn, "self");
    const td_tensor qkv = td_nn_linear(nn, "qkv", td_nn_norm(nn, "norm", h), 3 * width);
    const td_tensor a = td_graph_attention_qkv(nn->graph, qkv, &options);
    const td_tensor y = td_graph_add(nn->graph, h, td_nn_linear(nn, "out", a, width));
    td_nn_pop(nn);
    return y;
}

static td_tensor cross_attention(td_nn *nn, td_tensor h, td_tensor text, td_tensor counts)
{
    const uint32_t width = width_of(nn, h);
    const td_attention_options options = {.heads = width / HEAD, .lengths = counts};
    td_nn_push(nn, "cross");
    const td_tensor q = td_nn_linear(nn, "q", td_nn_norm(nn, "norm", h), width);
    const td_tensor kv = td_nn_linear(nn, "kv", text, 2 * width);
    const td_tensor a = td_graph_attention_kv(nn->graph, q, kv, &options);
    const td_tensor y = td_graph_add(nn->graph, h, td_nn_linear(nn, "out", a, width));
    td_nn_pop(nn);
    return y;
}

static td_tensor feed_forward(td_nn *nn, td_tensor h)
{
    const uint32_t width = width_of(nn, h);
    td_nn_push(nn, "ff");
    const td_tensor inner = td_nn_linear(nn, "in", td_nn_norm(nn, "norm", h), FACTOR * width);
    const td_tensor y =
        td_graph_add(nn->graph, h, td_nn_linear(nn, "out", td_graph_gelu(nn->graph, inner), width));
    td_nn_pop(nn);
    return y;
}

static td_tensor add_positions(td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return td_graph_add(nn->graph, x, table(nn, "positions", shape.dims[1], shape.dims[2]));
}

/* ---------------------------------------------------------------- the whole */

static td_tensor encode(td_nn *nn, const td_sketch_size *size, const td_sketch *k)
{
    td_nn_push(nn, "text");
    const td_tensor rows = table(nn, "embedding", TD_SKETCH_SYMBOLS, size->text_width);
    td_tensor e = add_positions(nn, td_graph_embedding(nn->graph, rows, k->token_ids));
    for (uint32_t i = 0; i < size->text_layers; i++) {
        td_nn_push(nn, "layers.%u", i);
        td_graph_block_begin(nn->graph);
        e = feed_forward(nn, self_attention(nn, e, k->token_counts, false));
        td_graph_block_end(nn->graph);
        td_nn_pop(nn);
    }
    e = td_nn_norm(nn, "norm", e);
    td_nn_pop(nn);
    return e;
}

static td_tensor decode(td_nn *nn, const td_sketch_size *size, const td_sketch *k, td_tensor text)
{
    td_nn_push(nn, "decoder");
    td_tensor h = add_positions(nn, td_nn_linear(nn, "in", k->previous, size->decoder_width));
    for (uint32_t i = 0; i < size->decoder_layers; i++) {
        td_nn_push(nn, "layers.%u", i);
        td_graph_block_begin(nn->graph);
        h = self_attention(nn, h, k->frame_counts, true);
        h = feed_forward(nn, cross_attention(nn, h, text, k->token_counts));
        td_graph_block_end(nn->graph);
        td_nn_pop(nn);
    }
    h = td_nn_norm(nn, "norm", h);
    td_nn_pop(nn);
    return h;
}

td_status td_sketch_build(const td_sketch_size *size, bool is_scaled, td_sketch *out)
{
    td_status status = TD_OK;
    *out = (td_sketch){0};
    TD_TRY(td_graph_create(1, &out->graph));
    td_graph *g = out->graph;
    td_nn nn = {.graph = g};
    out->token_ids = td_graph_input(g, "token_ids", td_dims(size->items, size->tokens), TD_U32);
    out->token_counts = td_graph_input(g, "token_counts", td_dims(size->items), TD_U32);
    out->frame_counts = td_graph_input(g, "frame_counts", td_dims(size->items), TD_U32);
    const td_shape frames = td_dims(size->items, size->frames, TD_SKETCH_BANDS);
    out->previous = td_graph_input(g, "previous", frames, TD_F32);
    out->mel = td_graph_input(g, "mel", frames, TD_F32);
    out->stop = td_graph_input(g, "stop", td_dims(size->items, size->frames, 1), TD_F32);
    const td_tensor text = encode(&nn, size, out);
    const td_tensor h = decode(&nn, size, out, text);
    const td_tensor mel = td_nn_linear(&nn, "mel", h, TD_SKETCH_BANDS);
    const td_tensor stop = td_nn_linear(&nn, "stop", h, 1);
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
