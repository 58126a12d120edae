/* The autoregressive decoder: all steps at once with the true frames before them, or one step with caches of
 * the earlier ones. B S L M are items, steps, tokens and bands; a step makes r frames. See docs/model.md.
 * Covered by tests/model/test_model_golden.c and test_model_synthesis.c. */
#include <math.h>
#include <stdio.h>

#include "families/autoregressive/autoregressive.h"

#define WEIGHT_FLOOR 1e-6f
#define POSTNET_TAPS 5u

/* ---------------------------------------------------------------- what goes in */

/* +-1 with equal chance: dropout of ones, less one. */
static td_tensor toss(td_graph *g, td_tensor ones)
{
    return td_graph_shift(g, td_graph_dropout(g, ones, 0.5f), -1);
}

td_tensor td_ar_previous(td_acoustic_builder *b, td_tensor mel)
{
    td_graph *g = b->nn->graph;
    const td_acoustic *c = &b->c;
    const td_shape whole = td_graph_shape(g, mel);
    const uint32_t items = whole.dims[0], steps = whole.dims[1] / c->reduction;
    td_tensor x = td_graph_reshape(g, mel, td_dims(items, steps, c->reduction * c->n_mels));
    x = td_graph_slice(g, x, 2, (c->reduction - 1) * c->n_mels, c->n_mels);
    x = td_graph_slice(g, td_graph_pad(g, x, 1, 1, 0, 0), 1, 0, steps);
    if (!b->dropout) return x;
    const td_tensor ones = td_graph_shift(g, td_graph_scale(g, x, 0), 1);
    if (c->input_noise > 0) x = td_graph_add_scaled(g, x, toss(g, ones), c->input_noise);
    if (c->frame_dropout > 0) {
        const td_tensor one = td_graph_slice(g, ones, 2, 0, 1);
        const td_tensor kept =
            td_graph_scale(g, td_graph_dropout(g, one, c->frame_dropout), 1 - c->frame_dropout);
        x = td_graph_mul(g, x, kept);
    }
    return x;
}

static td_tensor prenet(td_acoustic_builder *b, td_tensor x)
{
    td_graph *g = b->nn->graph;
    const uint32_t width = b->c.prenet_width;
    const float p = b->dropout ? b->c.prenet_dropout : 0;
    x = td_graph_dropout(g, td_graph_relu(g, td_nn_linear(b->nn, "prenet1", x, 2 * width)), p);
    x = td_graph_dropout(g, td_graph_relu(g, td_nn_linear(b->nn, "prenet2", x, width)), p);
    return td_nn_linear(b->nn, "prenet3", x, b->c.decoder_width);
}

/* Rows of a table of positions: one per step, or that of the step at hand as [B, 1, C]. */
static td_tensor positions(td_acoustic_builder *b, td_tensor table, const td_ar_inputs *in)
{
    td_graph *g = b->nn->graph;
    const td_shape x = td_graph_shape(g, in->previous);
    if (!in->position.id) return td_graph_slice(g, table, 0, 0, x.dims[1]);
    return td_graph_reshape(g, td_graph_embedding(g, table, in->position),
                            td_dims(x.dims[0], 1, b->c.decoder_width));
}

/* ---------------------------------------------------------------- blocks */

/* Self-attention of one step over the cache of keys and values, to which its own are added first. */
static td_tensor attend_cached(td_acoustic_builder *b, uint32_t number, td_tensor x, const td_ar_inputs *in)
{
    td_graph *g = b->nn->graph;
    const uint32_t width = b->c.decoder_width, items = td_graph_shape(g, x).dims[0];
    char name[TD_NN_NAME_BYTES];
    td_nn_push(b->nn, "attention");
    const td_tensor qkv = td_nn_linear(b->nn, "qkv", td_nn_norm(b->nn, "norm", x), 3 * width);
    snprintf(name, sizeof name, "cache.%u.%ux%u", number, items, in->capacity);
    const td_tensor cache = td_graph_state(g, name, td_dims(items, in->capacity, 2 * width), TD_STATE_CACHE);
    const td_tensor kv = td_graph_put(g, cache, td_graph_slice(g, qkv, 2, width, 2 * width), in->position);
    const td_tensor a = td_graph_attention_kv(
        g, td_graph_slice(g, qkv, 2, 0, width), kv,
        &(td_attention_options){.heads = b->c.decoder_heads, .lengths = in->key_counts});
    const td_tensor y = td_nn_linear(b->nn, "out", a, width);
    td_nn_pop(b->nn);
    return td_graph_add(g, x, y);
}

/* One head, written out, since its weights are trained and shown. Keys start as queries do, so that positions
 * find themselves from the first step on. */
static td_tensor attend_text(td_acoustic_builder *b, td_tensor x, td_tensor queries, td_tensor keys,
                             const td_ar_inputs *in, td_tensor *weights)
{
    td_graph *g = b->nn->graph;
    const uint32_t width = b->c.decoder_width;
    td_nn_push(b->nn, "cross");
    const td_tensor y = td_graph_add(g, td_nn_norm(b->nn, "norm", x), queries);
    const td_tensor q = td_nn_linear(b->nn, "query", y, width);
    const td_tensor k =
        td_nn_linear_like(b->nn, "key", keys, width, b->c.text_width == width ? "query" : NULL);
    const td_tensor v = td_nn_linear(b->nn, "value", in->hidden, width);
    const td_softmax_options options = {
        .scale = 1.0f / sqrtf((float)width), .mask = in->window, .lengths = in->token_counts};
    *weights = td_graph_softmax(g, td_graph_matmul_nt(g, q, k), &options);
    const td_tensor out = td_nn_linear(b->nn, "out", td_graph_matmul(g, *weights, v), width);
    td_nn_pop(b->nn);
    return td_graph_add(g, x, td_nn_dropout(b->nn, out));
}

void td_ar_decode(td_acoustic_builder *b, const td_ar_inputs *in, td_ar_outputs *out)
{
    td_graph *g = b->nn->graph;
    const td_acoustic *c = &b->c;
    const td_shape shape = td_graph_shape(g, in->previous);
    const td_tensor table =
        td_nn_positions(b->nn, "query_positions", c->max_frames, c->decoder_width, c->attention_rate);
    const td_tensor queries = positions(b, table, in);
    const td_tensor keys = td_graph_add(g, in->hidden, td_acoustic_text_positions(b, b->shape.tokens));
    td_nn_push(b->nn, "decoder");
    td_tensor x = prenet(b, in->previous);
    x = td_graph_add_scaled(g, x, positions(b, td_acoustic_frame_positions(b), in), TD_ACOUSTIC_POSITION);
    td_nn_pop(b->nn);
    x = td_acoustic_add_speaker(b, "speaker.decoder", x, in->speaker);
    *out = (td_ar_outputs){0};
    td_nn_push(b->nn, "decoder");
    for (uint32_t i = 0; i < c->decoder_layers; i++) {
        td_nn_push(b->nn, "block.%u", i);
        x = in->position.id ? attend_cached(b, i, x, in)
                            : td_nn_self_attention(b->nn, x, c->decoder_heads, TD_NO_TENSOR, true);
        x = attend_text(b, x, queries, keys, in, &out->last);
        x = td_nn_feed_forward(b->nn, x, c->ff_factor * c->decoder_width, c->decoder_kernel, TD_NO_TENSOR);
        td_nn_pop(b->nn);
        if (in->position.id) continue;
        const td_tensor logs = td_graph_log(g, td_graph_shift(g, out->last, WEIGHT_FLOOR));
        out->log_weights = i ? td_graph_add(g, out->log_weights, logs) : logs;
        out->weights = i ? td_graph_add(g, out->weights, out->last) : out->last;
    }
    x = td_nn_norm(b->nn, "norm", x);
    out->mel = td_graph_reshape(g, td_nn_linear(b->nn, "out", x, c->reduction * c->n_mels),
                                td_dims(shape.dims[0], shape.dims[1] * c->reduction, c->n_mels));
    out->stop = td_nn_linear(b->nn, "stop", x, 1);
    td_nn_pop(b->nn);
}

/* ---------------------------------------------------------------- post-net */

td_tensor td_ar_refine(td_acoustic_builder *b, td_tensor mel, td_tensor frame_counts)
{
    td_graph *g = b->nn->graph;
    const td_tensor mask = td_nn_mask(b->nn, frame_counts, td_graph_shape(g, mel).dims[1]);
    td_nn_push(b->nn, "postnet");
    td_tensor x = td_nn_conv(b->nn, "conv1", td_graph_mul(g, mel, mask), POSTNET_TAPS, b->c.text_width);
    x = td_graph_mul(g, td_graph_tanh(g, x), mask);
    x = td_nn_conv(b->nn, "conv2", x, POSTNET_TAPS, b->c.text_width);
    x = td_graph_mul(g, td_graph_tanh(g, x), mask);
    x = td_nn_conv(b->nn, "conv3", x, POSTNET_TAPS, b->c.n_mels);
    td_nn_pop(b->nn);
    return td_graph_add(g, mel, x);
}
