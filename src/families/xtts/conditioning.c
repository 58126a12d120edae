/* The conditioning encoder and the perceiver: what a recording tells the GPT about its speaker. See layers.h. */
#include "families/xtts/layers.h"

#define NORM_EPS 1e-5f
#define RMS_EPS 1e-24f /* a length of 1e-12 */

/* As many groups as the reference takes. */
static uint32_t count_groups(uint32_t channels)
{
    uint32_t groups = channels <= 16 ? 8 : channels <= 64 ? 16 : 32;
    while (channels % groups)
        groups /= 2;
    return groups;
}

/* Attention over all frames. The channels of qkv are those of the first head (q, k, v), of the second ... */
static td_tensor attend(td_nn *nn, td_tensor qkv, uint32_t heads)
{
    static const uint32_t parts_first[] = {2, 0, 1, 3};
    td_graph *g = nn->graph;
    const td_shape shape = td_graph_shape(g, qkv);
    const uint32_t items = shape.dims[0], frames = shape.dims[1], width = shape.dims[2] / 3;
    td_tensor x = td_graph_reshape(g, qkv, td_dims(items * frames, heads, 3, width / heads));
    td_tensor part[3];
    x = td_graph_reshape(g, td_graph_permute(g, x, parts_first), td_dims(3, items * frames, width));
    for (uint32_t i = 0; i < 3; i++)
        part[i] = td_graph_reshape(g, td_graph_slice(g, x, 0, i, 1), td_dims(items, frames, width));
    return td_graph_attention(g, part[0], part[1], part[2], &(td_attention_options){.heads = heads});
}

/* What is added to is the normalised input. */
static td_tensor run_block(td_nn *nn, const td_xtts *c, td_tensor x)
{
    const uint32_t width = c->gpt_n_model_channels;
    const td_tensor n = td_graph_group_norm(nn->graph, x, td_xtts_scale(nn, "norm", width),
                                            td_xtts_offset(nn, "norm", width), count_groups(width), NORM_EPS);
    const td_tensor a = attend(nn, td_xtts_pointwise(nn, "qkv", n, 3 * width), c->gpt_n_heads);
    return td_graph_add(nn->graph, n, td_xtts_pointwise(nn, "proj_out", a, width));
}

/* Latents look at themselves and at x. */
static td_tensor run_layer(td_nn *nn, const td_xtts *c, td_tensor latents, td_tensor x)
{
    td_graph *g = nn->graph;
    const uint32_t width = c->gpt_n_model_channels, inside = td_xtts_perceiver_inside(c);
    const uint32_t inner = c->perceiver_heads * TD_XTTS_PERCEIVER_HEAD;
    const td_tensor context = td_graph_concat(g, (const td_tensor[]){latents, x}, 2, 1);
    td_nn_push(nn, "0");
    const td_tensor q = td_xtts_project(nn, "to_q", latents, inner);
    const td_tensor kv = td_xtts_project(nn, "to_kv", context, 2 * inner);
    const td_tensor a = td_graph_attention_kv(g, q, kv, &(td_attention_options){.heads = c->perceiver_heads});
    latents = td_graph_add(g, latents, td_xtts_project(nn, "to_out", a, width));
    td_nn_pop(nn);
    td_nn_push(nn, "1");
    const td_tensor u = td_xtts_linear(nn, "0", latents, 2 * inside);
    const td_tensor gate = td_graph_gelu_erf(g, td_graph_slice(g, u, 2, inside, inside));
    const td_tensor gated = td_graph_mul(g, td_graph_slice(g, u, 2, 0, inside), gate);
    latents = td_graph_add(g, latents, td_xtts_linear(nn, "2", gated, width));
    td_nn_pop(nn);
    return latents;
}

static td_tensor resample(td_nn *nn, const td_xtts *c, td_tensor x)
{
    td_graph *g = nn->graph;
    const uint32_t width = c->gpt_n_model_channels;
    const td_tensor learnt = td_nn_param(nn, "latents", td_dims(c->perceiver_latents, width), TD_PARAM_DECAY,
                                         (td_init){.rule = TD_INIT_NORMAL, .scale = 0.02f});
    /* the same for all items of x */
    td_tensor latents = td_graph_add(g, td_graph_scale(g, td_graph_slice(g, x, 1, 0, 1), 0), learnt);
    for (uint32_t i = 0; i < c->perceiver_layers; i++) {
        td_nn_push(nn, "layers.%u", i);
        latents = run_layer(nn, c, latents, x);
        td_nn_pop(nn);
    }
    const td_tensor gamma =
        td_nn_param(nn, "norm.gamma", td_dims(width), TD_PARAM_DECAY, (td_init){.rule = TD_INIT_ONE});
    return td_graph_rms_norm(g, latents, gamma, RMS_EPS);
}

td_tensor td_xtts_divide(td_nn *nn, const td_xtts *c, td_tensor mel)
{
    const td_tensor stats =
        td_nn_param(nn, "mel_stats", td_dims(c->n_mels), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ONE});
    return td_graph_div(nn->graph, mel, stats);
}

td_tensor td_xtts_encode_reference(td_nn *nn, const td_xtts *c, td_tensor divided)
{
    td_nn_push(nn, "gpt.conditioning_encoder");
    td_tensor x = td_xtts_pointwise(nn, "init", divided, c->gpt_n_model_channels);
    for (uint32_t i = 0; i < c->conditioning_blocks; i++) {
        td_nn_push(nn, "attn.%u", i);
        x = run_block(nn, c, x);
        td_nn_pop(nn);
    }
    td_nn_pop(nn);
    return x;
}

td_tensor td_xtts_perceive(td_nn *nn, const td_xtts *c, td_tensor encoded)
{
    td_nn_push(nn, "gpt.conditioning_perceiver");
    const td_tensor latents = resample(nn, c, encoded);
    td_nn_pop(nn);
    return latents;
}

td_tensor td_xtts_condition(td_nn *nn, const td_xtts *c, td_tensor divided)
{
    return td_xtts_perceive(nn, c, td_xtts_encode_reference(nn, c, divided));
}
