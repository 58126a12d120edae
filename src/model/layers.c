/* The layers that all parts are built from. Places behind an item's end hold anything finite: whatever looks
 * beyond its own place (convolutions, attention, sums) is given masked values or lengths, so nothing of them
 * reaches a valid place, and no gradient reaches them. B T C are items, places and channels. See
 * docs/model.md. Covered by tests/model/test_model_golden.c. */
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"

/* ---------------------------------------------------------------- a graph under construction */

static bool is_frozen(const td_model_options *options, const char *name)
{
    for (size_t i = 0; options && i < options->n_freeze; i++) {
        if (strncmp(name, options->freeze[i], strlen(options->freeze[i])) == 0) return true;
    }
    return false;
}

static void declare(td_builder *b, const td_model_options *options)
{
    const td_model_config *c = b->config;
    for (size_t i = 0; i < b->list.n; i++) {
        const td_parameter *p = &b->list.all[i];
        b->tensors[i] = td_graph_param(b->graph, p->name, p->shape,
                                       is_frozen(options, p->name) ? TD_PARAM_FROZEN : p->group);
    }
    b->text_positions =
        td_graph_state(b->graph, "constant.text_positions", td_dims(c->max_tokens, c->text_width));
    if (c->decoder_heads)
        b->frame_positions =
            td_graph_state(b->graph, "constant.frame_positions", td_dims(c->max_frames, c->decoder_width));
    if (c->decoder_strategy == TD_AUTOREGRESSIVE)
        b->query_positions =
            td_graph_state(b->graph, "constant.query_positions", td_dims(c->max_frames, c->decoder_width));
}

static td_status check_shape(const td_model_config *c, const td_model_shape *s)
{
    td_status status = TD_OK;
    TD_FAIL_IF(s->items == 0, TD_ERR_ARGUMENT, "a model's batch has at least one item");
    TD_FAIL_IF(s->tokens > c->max_tokens, TD_ERR_LIMIT, "%u tokens, but model.max_tokens is %u", s->tokens,
               c->max_tokens);
    TD_FAIL_IF(s->frames > c->max_frames, TD_ERR_LIMIT, "%u frames, but model.max_frames is %u", s->frames,
               c->max_frames);
fail:
    return status;
}

td_status td_builder_open(const td_model_config *config, const td_model_shape *shape,
                          const td_model_options *options, td_builder *out)
{
    td_status status = TD_OK;
    *out = (td_builder){.config = config, .dropout = options && options->dropout};
    TD_TRY(td_model_config_check(config));
    TD_TRY(check_shape(config, shape));
    TD_TRY(td_model_list(config, &out->list));
    TD_TRY(TD_NEW_ARRAY(&out->tensors, out->list.n + 1));
    TD_TRY(td_graph_create(options ? options->seed : 0, &out->graph));
    declare(out, options);
fail:
    return status;
}

td_status td_builder_close(td_builder *b, td_status status, td_graph **graph)
{
    if (status == TD_OK) status = td_graph_status(b->graph);
    free(b->list.all);
    free(b->tensors);
    if (status != TD_OK) td_graph_destroy(b->graph);
    *graph = status == TD_OK ? b->graph : NULL;
    *b = (td_builder){0};
    return status;
}

td_tensor td_model_find(td_builder *b, const char *prefix, const char *name)
{
    char whole[TD_MODEL_NAME_BYTES];
    td_model_name(whole, prefix, name, TD_MODEL_ONLY);
    for (size_t i = 0; i < b->list.n; i++) {
        if (strcmp(b->list.all[i].name, whole) == 0) return b->tensors[i];
    }
    return TD_NO_TENSOR;
}

/* ---------------------------------------------------------------- layers */

td_tensor td_model_linear(td_builder *b, const char *prefix, td_tensor x)
{
    const td_tensor product = td_graph_matmul(b->graph, x, td_model_find(b, prefix, "weight"));
    return td_graph_add(b->graph, product, td_model_find(b, prefix, "bias"));
}

td_tensor td_model_norm(td_builder *b, const char *prefix, td_tensor x)
{
    return td_graph_layer_norm(b->graph, x, td_model_find(b, prefix, "gamma"),
                               td_model_find(b, prefix, "beta"), TD_MODEL_EPS);
}

td_tensor td_model_conv(td_builder *b, const char *prefix, td_tensor x)
{
    return td_graph_conv_padded(b->graph, x, td_model_find(b, prefix, "weight"),
                                td_model_find(b, prefix, "bias"), &(td_conv){0}, TD_PADS_SAME);
}

td_tensor td_model_drop(td_builder *b, td_tensor x)
{
    return b->dropout ? td_graph_dropout(b->graph, x, b->config->dropout) : x;
}

td_tensor td_model_mask(td_builder *b, td_tensor lengths, uint32_t n)
{
    const td_tensor mask = td_graph_mask(b->graph, lengths, n, TD_MASK_ONE);
    return td_graph_reshape(b->graph, mask, td_dims(td_graph_shape(b->graph, lengths).dims[0], n, 1));
}

/* ---------------------------------------------------------------- blocks */

td_tensor td_model_self(td_builder *b, const char *prefix, td_tensor x, uint32_t heads, td_tensor lengths,
                        bool causal)
{
    char part[TD_MODEL_NAME_BYTES];
    td_model_name(part, prefix, "attention.norm", TD_MODEL_ONLY);
    const td_tensor y = td_model_norm(b, part, x);
    td_model_name(part, prefix, "attention.qkv", TD_MODEL_ONLY);
    const td_tensor qkv = td_model_linear(b, part, y);
    const td_tensor a = td_graph_attention_qkv(
        b->graph, qkv, &(td_attention_options){.heads = heads, .causal = causal, .lengths = lengths});
    td_model_name(part, prefix, "attention.out", TD_MODEL_ONLY);
    return td_graph_add(b->graph, x, td_model_drop(b, td_model_linear(b, part, a)));
}

td_tensor td_model_ff(td_builder *b, const char *prefix, td_tensor x, td_tensor mask)
{
    char part[TD_MODEL_NAME_BYTES];
    td_model_name(part, prefix, "ff.norm", TD_MODEL_ONLY);
    td_tensor y = td_model_norm(b, part, x);
    if (mask.id) y = td_graph_mul(b->graph, y, mask);
    td_model_name(part, prefix, "ff.conv1", TD_MODEL_ONLY);
    y = td_model_drop(b, td_graph_relu(b->graph, td_model_conv(b, part, y)));
    td_model_name(part, prefix, "ff.conv2", TD_MODEL_ONLY);
    return td_graph_add(b->graph, x, td_model_drop(b, td_model_conv(b, part, y)));
}

td_tensor td_model_stack(td_builder *b, const char *prefix, td_tensor x, uint32_t layers, uint32_t heads,
                         td_tensor mask, td_tensor lengths)
{
    char part[TD_MODEL_NAME_BYTES];
    for (uint32_t i = 0; i < layers; i++) {
        td_model_name(part, prefix, "block.", i);
        td_graph_block_begin(b->graph);
        if (heads) x = td_model_self(b, part, x, heads, lengths, false);
        x = td_model_ff(b, part, x, mask);
        td_graph_block_end(b->graph);
    }
    td_model_name(part, prefix, "norm", TD_MODEL_ONLY);
    return td_model_norm(b, part, x);
}
