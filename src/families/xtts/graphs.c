/* See graphs.h. */
#include "families/xtts/graphs.h"

#include <stdio.h>

#include "base/error.h"
#include "families/xtts/gpt.h"

/* Opens a graph, lets `fill` build it and looks for mistakes. */
static td_status build(const td_xtts *c, uint32_t size,
                       void (*fill)(td_nn *nn, const td_xtts *c, uint32_t size), td_graph **out)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_graph_create(0, &graph));
    td_nn nn = {.graph = graph};
    fill(&nn, c, size);
    TD_TRY(td_graph_status(graph));
    *out = graph;
    return TD_OK;
fail:
    td_graph_destroy(graph);
    return status;
}

/* ---------------------------------------------------------------- conditioning */

static void fill_conditioning(td_nn *nn, const td_xtts *c, uint32_t frames)
{
    const td_tensor mel = td_graph_input(nn->graph, "mel", td_dims(1, frames, c->n_mels), TD_F32);
    td_tensor divided;
    const td_tensor latents = td_xtts_condition(nn, c, mel, &divided);
    td_graph_output(nn->graph, divided, "reference_mel");
    td_graph_output(nn->graph, latents, "latents");
}

td_status td_xtts_conditioning_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_conditioning, out);
}

/* ---------------------------------------------------------------- the GPT */

static td_tensor attend_all(td_nn *nn, const td_xtts *c, uint32_t layer, td_tensor qkv, void *context)
{
    const uint32_t width = c->gpt_n_model_channels;
    char name[TD_NN_NAME_BYTES];
    (void)context;
    snprintf(name, sizeof name, "kv.%u", layer);
    td_graph_output(nn->graph, td_graph_slice(nn->graph, qkv, 2, width, 2 * width), name);
    return td_graph_attention_qkv(nn->graph, qkv,
                                  &(td_attention_options){.heads = c->gpt_n_heads, .causal = true});
}

static void fill_heads(td_nn *nn, const td_xtts *c, td_tensor x)
{
    const td_tensor latent = td_xtts_latent(nn, x);
    td_graph_output(nn->graph, latent, "latent");
    td_graph_output(nn->graph, td_xtts_code_head(nn, c, latent), "logits");
}

static void fill_prefill(td_nn *nn, const td_xtts *c, uint32_t tokens)
{
    td_graph *g = nn->graph;
    const uint32_t width = c->gpt_n_model_channels, latents = c->perceiver_latents;
    const uint32_t rows = latents + tokens + 1;
    const td_tensor ids = td_graph_input(g, "text_ids", td_dims(1, tokens), TD_U32);
    const td_tensor text = td_graph_add(g, td_graph_embedding(g, td_xtts_text_table(nn, c), ids),
                                        td_graph_slice(g, td_xtts_text_places(nn, c), 0, 0, tokens));
    const td_tensor begin =
        td_graph_add(g, td_graph_slice(g, td_xtts_code_table(nn, c), 0, c->gpt_start_audio_token, 1),
                     td_graph_slice(g, td_xtts_code_places(nn, c), 0, 0, 1));
    const td_tensor parts[] = {td_graph_input(g, "cond_latents", td_dims(1, latents, width), TD_F32), text,
                               td_graph_reshape(g, begin, td_dims(1, 1, width))};
    td_tensor x = td_graph_gather(g, td_graph_concat(g, parts, 3, 1),
                                  td_graph_input(g, "order", td_dims(1, rows), TD_U32));
    x = td_xtts_blocks(nn, c, x, attend_all, NULL);
    fill_heads(nn, c, td_graph_gather(g, x, td_graph_input(g, "last", td_dims(1, 1), TD_U32)));
}

td_status td_xtts_prefill_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_prefill, out);
}

void td_xtts_cache_name(uint32_t layer, uint32_t rows, char out[TD_NN_NAME_BYTES])
{
    snprintf(out, TD_NN_NAME_BYTES, "cache.%u.%u", layer, rows);
}

uint32_t td_xtts_cache_rows(const td_xtts *c)
{
    return c->perceiver_latents + td_xtts_text_positions(c) + td_xtts_audio_positions(c);
}

/* What one step needs to know of where it is. */
typedef struct step {
    td_tensor row, rows;
    uint32_t capacity;
} step;

static td_tensor attend_cached(td_nn *nn, const td_xtts *c, uint32_t layer, td_tensor qkv, void *context)
{
    td_graph *g = nn->graph;
    const step *s = context;
    const uint32_t width = c->gpt_n_model_channels;
    char name[TD_NN_NAME_BYTES];
    td_xtts_cache_name(layer, s->capacity, name);
    const td_tensor cache = td_graph_state(g, name, td_dims(1, s->capacity, 2 * width), TD_STATE_CACHE);
    const td_tensor kv = td_graph_put(g, cache, td_graph_slice(g, qkv, 2, width, 2 * width), s->row);
    return td_graph_attention_kv(g, td_graph_slice(g, qkv, 2, 0, width), kv,
                                 &(td_attention_options){.heads = c->gpt_n_heads, .lengths = s->rows});
}

static void fill_step(td_nn *nn, const td_xtts *c, uint32_t capacity)
{
    td_graph *g = nn->graph;
    const td_shape one = td_dims(1);
    const td_tensor code = td_graph_input(g, "code", one, TD_U32);
    const td_tensor position = td_graph_input(g, "position", one, TD_U32);
    step s = {.capacity = capacity,
              .row = td_graph_input(g, "row", one, TD_U32),
              .rows = td_graph_input(g, "rows", one, TD_U32)};
    const td_tensor x = td_graph_add(g, td_graph_embedding(g, td_xtts_code_table(nn, c), code),
                                     td_graph_embedding(g, td_xtts_code_places(nn, c), position));
    fill_heads(nn, c,
               td_xtts_blocks(nn, c, td_graph_reshape(g, x, td_dims(1, 1, c->gpt_n_model_channels)),
                              attend_cached, &s));
}

td_status td_xtts_step_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_step, out);
}

static void fill_gpt_parameters(td_nn *nn, const td_xtts *c, uint32_t size)
{
    (void)size;
    fill_conditioning(nn, c, 1);
    fill_prefill(nn, c, 1);
    const td_tensor x = td_graph_input(nn->graph, "hidden", td_dims(1, 1, c->gpt_n_model_channels), TD_F32);
    td_graph_output(nn->graph, td_xtts_text_head(nn, c, x), "text_logits");
}

td_status td_xtts_gpt_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_gpt_parameters, out);
}

/* ---------------------------------------------------------------- the decoder */

static void fill_speaker(td_nn *nn, const td_xtts *c, uint32_t frames)
{
    const td_tensor mel =
        td_graph_input(nn->graph, "speaker_mel", td_dims(1, c->speaker_mels, frames), TD_F32);
    td_graph_output(nn->graph, td_xtts_speaker(nn, c, mel), "embedding");
}

td_status td_xtts_speaker_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_speaker, out);
}

static void fill_vocoder(td_nn *nn, const td_xtts *c, uint32_t frames)
{
    const td_tensor z = td_graph_input(nn->graph, "frames", td_dims(1, frames, c->decoder_input_dim), TD_F32);
    const td_tensor speaker =
        td_graph_input(nn->graph, "speaker_embedding", td_dims(1, c->d_vector_dim), TD_F32);
    td_graph_output(nn->graph, td_xtts_vocode(nn, c, z, speaker), "wave");
}

td_status td_xtts_vocoder_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_vocoder, out);
}

static void fill_decoder_parameters(td_nn *nn, const td_xtts *c, uint32_t size)
{
    (void)size;
    fill_speaker(nn, c, 8);
    fill_vocoder(nn, c, 1);
}

td_status td_xtts_decoder_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_decoder_parameters, out);
}
