/* The autoregressive decoder: all steps at once with the true frames before them, or one step with caches of
 * the earlier ones. B S L M are items, steps, tokens and bands; a step makes r frames. See docs/model.md.
 * Covered by tests/model/test_model_golden.c and test_model_synthesis.c. */
#include <math.h>
#include <stdio.h>

#include "model/internal.h"

#define WEIGHT_FLOOR 1e-6f

/* ---------------------------------------------------------------- what goes in */

/* +-1 with equal chance: dropout of ones, less one. */
static td_tensor toss(td_graph *g, td_tensor ones)
{
    return td_graph_shift(g, td_graph_dropout(g, ones, 0.5f), -1);
}

td_tensor td_model_previous(td_builder *b, td_tensor mel)
{
    td_graph *g = b->graph;
    const td_model_config *c = b->config;
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

static td_tensor prenet(td_builder *b, td_tensor x)
{
    td_graph *g = b->graph;
    const float p = b->dropout ? b->config->prenet_dropout : 0;
    x = td_graph_dropout(g, td_graph_relu(g, td_model_linear(b, "decoder.prenet1", x)), p);
    x = td_graph_dropout(g, td_graph_relu(g, td_model_linear(b, "decoder.prenet2", x)), p);
    return td_model_linear(b, "decoder.prenet3", x);
}

/* Rows of a table of positions: one per step, or that of the step at hand as [B, 1, C]. */
static td_tensor positions(td_builder *b, td_tensor table, const td_ar_inputs *in)
{
    td_graph *g = b->graph;
    const td_shape x = td_graph_shape(g, in->previous);
    if (!in->position.id) return td_graph_slice(g, table, 0, 0, x.dims[1]);
    return td_graph_reshape(g, td_graph_embedding(g, table, in->position),
                            td_dims(x.dims[0], 1, b->config->decoder_width));
}

/* ---------------------------------------------------------------- blocks */

/* Self-attention of one step over the cache of keys and values, to which its own are added first. */
static td_tensor attend_cached(td_builder *b, const char *block, uint32_t number, td_tensor x,
                               const td_ar_inputs *in)
{
    td_graph *g = b->graph;
    const uint32_t width = b->config->decoder_width;
    const uint32_t items = td_graph_shape(g, x).dims[0];
    char name[TD_MODEL_NAME_BYTES];
    td_model_name(name, block, "attention.norm", TD_MODEL_ONLY);
    const td_tensor y = td_model_norm(b, name, x);
    td_model_name(name, block, "attention.qkv", TD_MODEL_ONLY);
    const td_tensor qkv = td_model_linear(b, name, y);
    snprintf(name, sizeof name, "cache.%u.%ux%u", number, items, in->capacity);
    const td_tensor cache = td_graph_state(g, name, td_dims(items, in->capacity, 2 * width));
    const td_tensor kv = td_graph_put(g, cache, td_graph_slice(g, qkv, 2, width, 2 * width), in->position);
    const td_tensor a = td_graph_attention_kv(
        g, td_graph_slice(g, qkv, 2, 0, width), kv,
        &(td_attention_options){.heads = b->config->decoder_heads, .lengths = in->key_counts});
    td_model_name(name, block, "attention.out", TD_MODEL_ONLY);
    return td_graph_add(g, x, td_model_linear(b, name, a));
}

/* One head, written out, since its weights are trained and shown. */
static td_tensor attend_text(td_builder *b, const char *block, td_tensor x, td_tensor queries, td_tensor keys,
                             const td_ar_inputs *in, td_tensor *weights)
{
    td_graph *g = b->graph;
    char name[TD_MODEL_NAME_BYTES];
    td_model_name(name, block, "cross.norm", TD_MODEL_ONLY);
    const td_tensor y = td_graph_add(g, td_model_norm(b, name, x), queries);
    td_model_name(name, block, "cross.query", TD_MODEL_ONLY);
    const td_tensor q = td_model_linear(b, name, y);
    td_model_name(name, block, "cross.key", TD_MODEL_ONLY);
    const td_tensor k = td_model_linear(b, name, keys);
    td_model_name(name, block, "cross.value", TD_MODEL_ONLY);
    const td_tensor v = td_model_linear(b, name, in->hidden);
    const td_softmax_options options = {.scale = 1.0f / sqrtf((float)b->config->decoder_width),
                                        .mask = in->window,
                                        .lengths = in->token_counts};
    *weights = td_graph_softmax(g, td_graph_matmul_nt(g, q, k), &options);
    td_model_name(name, block, "cross.out", TD_MODEL_ONLY);
    return td_graph_add(g, x, td_model_drop(b, td_model_linear(b, name, td_graph_matmul(g, *weights, v))));
}

void td_model_ar(td_builder *b, const td_ar_inputs *in, td_ar_outputs *out)
{
    td_graph *g = b->graph;
    const td_model_config *c = b->config;
    const td_shape shape = td_graph_shape(g, in->previous);
    const uint32_t tokens = td_graph_shape(g, in->hidden).dims[1];
    const td_tensor queries = positions(b, b->query_positions, in);
    const td_tensor keys = td_graph_add(g, in->hidden, td_graph_slice(g, b->text_positions, 0, 0, tokens));
    td_tensor x = prenet(b, in->previous);
    x = td_graph_add_scaled(g, x, positions(b, b->frame_positions, in), TD_MODEL_POSITION);
    x = td_model_add_speaker(b, "speaker.decoder", x, in->speaker);
    *out = (td_ar_outputs){0};
    for (uint32_t i = 0; i < c->decoder_layers; i++) {
        char block[TD_MODEL_NAME_BYTES];
        td_model_name(block, "decoder", "block.", i);
        x = in->position.id ? attend_cached(b, block, i, x, in)
                            : td_model_self(b, block, x, c->decoder_heads, TD_NO_TENSOR, true);
        x = attend_text(b, block, x, queries, keys, in, &out->last);
        x = td_model_ff(b, block, x, TD_NO_TENSOR);
        if (in->position.id) continue;
        const td_tensor logs = td_graph_log(g, td_graph_shift(g, out->last, WEIGHT_FLOOR));
        out->log_weights = i ? td_graph_add(g, out->log_weights, logs) : logs;
        out->weights = i ? td_graph_add(g, out->weights, out->last) : out->last;
    }
    x = td_model_norm(b, "decoder.norm", x);
    out->mel = td_graph_reshape(g, td_model_linear(b, "decoder.out", x),
                                td_dims(shape.dims[0], shape.dims[1] * c->reduction, c->n_mels));
    out->stop = td_model_linear(b, "decoder.stop", x);
}

/* ---------------------------------------------------------------- post-net */

td_tensor td_model_postnet(td_builder *b, td_tensor mel, td_tensor frame_counts)
{
    td_graph *g = b->graph;
    const td_tensor mask = td_model_mask(b, frame_counts, td_graph_shape(g, mel).dims[1]);
    td_tensor x = mel;
    for (uint32_t i = 1; i <= TD_POSTNET_LAYERS; i++) {
        char name[TD_MODEL_NAME_BYTES];
        td_model_name(name, "postnet", "conv", i);
        x = td_model_conv(b, name, td_graph_mul(g, x, mask));
        if (i < TD_POSTNET_LAYERS) x = td_graph_tanh(g, x);
    }
    return td_graph_add(g, mel, x);
}
