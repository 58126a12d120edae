/* See gpt.h: a GPT-2 whose embeddings, norms and heads are XTTS's own. */
#include "families/xtts/gpt.h"

td_tensor td_xtts_block(td_nn *nn, const td_xtts *c, td_xtts_layer *layer, td_tensor x, td_tensor *qkv)
{
    td_graph *g = nn->graph;
    const uint32_t width = c->gpt_n_model_channels;
    *qkv = layer(nn, c, "attn.c_attn", td_xtts_norm(nn, "ln_1", x), 3 * width);
    const td_tensor a =
        td_graph_attention_qkv(g, *qkv, &(td_attention_options){.heads = c->gpt_n_heads, .causal = true});
    x = td_graph_add(g, x, td_nn_dropout(nn, layer(nn, c, "attn.c_proj", a, width)));
    const td_tensor inside =
        td_graph_gelu(g, layer(nn, c, "mlp.c_fc", td_xtts_norm(nn, "ln_2", x), 4 * width));
    return td_graph_add(g, x, td_nn_dropout(nn, layer(nn, c, "mlp.c_proj", inside, width)));
}

td_tensor td_xtts_latents(td_nn *nn, td_tensor x)
{
    return td_xtts_norm(nn, "gpt.final_norm", td_xtts_norm(nn, "gpt.gpt.ln_f", x));
}

static td_tensor make_table(td_nn *nn, const td_xtts *c, const char *name, uint32_t rows)
{
    return td_nn_param(nn, name, td_dims(rows, c->gpt_n_model_channels), TD_PARAM_NO_DECAY,
                       (td_init){.rule = TD_INIT_NORMAL, .scale = 0.02f});
}

td_tensor td_xtts_text_table(td_nn *nn, const td_xtts *c)
{
    return make_table(nn, c, "gpt.text_embedding.weight", c->gpt_number_text_tokens);
}

td_tensor td_xtts_text_position_table(td_nn *nn, const td_xtts *c)
{
    return make_table(nn, c, "gpt.text_pos_embedding.emb.weight", td_xtts_text_positions(c));
}

td_tensor td_xtts_code_table(td_nn *nn, const td_xtts *c)
{
    return make_table(nn, c, "gpt.mel_embedding.weight", c->gpt_num_audio_tokens);
}

td_tensor td_xtts_code_position_table(td_nn *nn, const td_xtts *c)
{
    return make_table(nn, c, "gpt.mel_pos_embedding.emb.weight", td_xtts_audio_positions(c));
}
