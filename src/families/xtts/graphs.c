/* See graphs.h. */
#include "families/xtts/graphs.h"

#include <string.h>

#include "base/error.h"
#include "families/xtts/dvae.h"
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

static void fill_reference(td_nn *nn, const td_xtts *c, uint32_t frames)
{
    const td_tensor mel = td_graph_input(nn->graph, "mel", td_dims(1, frames, c->n_mels), TD_F32);
    const td_tensor divided = td_xtts_divide(nn, c, mel);
    td_graph_output(nn->graph, divided, "reference_mel");
    td_graph_output(nn->graph, td_xtts_encode_reference(nn, c, divided), "encoded");
}

td_status td_xtts_reference_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_reference, out);
}

static void fill_perceiver(td_nn *nn, const td_xtts *c, uint32_t frames)
{
    const td_tensor encoded =
        td_graph_input(nn->graph, "encoded", td_dims(1, frames, c->gpt_n_model_channels), TD_F32);
    td_graph_output(nn->graph, td_xtts_perceive(nn, c, encoded), "latents");
}

td_status td_xtts_perceiver_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_perceiver, out);
}

/* ---------------------------------------------------------------- the GPT */

static td_tensor embed(td_nn *nn, td_tensor table, td_tensor positions, const char *input, uint32_t rows)
{
    td_graph *g = nn->graph;
    const td_tensor ids = td_graph_input(g, input, td_dims(1, rows), TD_U32);
    return td_graph_add(g, td_graph_embedding(g, table, ids), td_graph_slice(g, positions, 0, 0, rows));
}

static void fill_embedding(td_nn *nn, const td_xtts *c, uint32_t size)
{
    td_graph *g = nn->graph;
    const uint32_t latents = c->perceiver_latents;
    const uint32_t tokens = td_xtts_embedding_tokens(size), codes = td_xtts_embedding_codes(size);
    const td_tensor parts[] = {
        td_graph_input(g, "cond_latents", td_dims(1, latents, c->gpt_n_model_channels), TD_F32),
        embed(nn, td_xtts_text_table(nn, c), td_xtts_text_position_table(nn, c), "text_ids", tokens),
        embed(nn, td_xtts_code_table(nn, c), td_xtts_code_position_table(nn, c), "codes", codes)};
    const td_tensor order = td_graph_input(g, "order", td_dims(1, latents + tokens + codes), TD_U32);
    td_graph_output(g, td_graph_gather(g, td_graph_concat(g, parts, 3, 1), order), "rows");
}

td_status td_xtts_embedding_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_embedding, out);
}

/* mlp.c_fc.weight lies transposed, each output a row, as the decoder has it (nn/stack.h). */
static td_tensor apply_layer(td_nn *nn, const td_xtts *c, const char *name, td_tensor x, uint32_t width)
{
    (void)c;
    return strcmp(name, "mlp.c_fc") == 0 ? td_xtts_linear(nn, name, x, width)
                                         : td_nn_linear(nn, name, x, width);
}

static void fill_block(td_nn *nn, const td_xtts *c, uint32_t rows)
{
    td_graph *g = nn->graph;
    td_tensor qkv;
    const uint32_t width = c->gpt_n_model_channels, heads = c->gpt_n_heads, order[] = {1, 0, 2};
    const td_tensor x = td_graph_input(g, "x", td_dims(1, rows, width), TD_F32);
    td_graph_output(g, td_xtts_block(nn, c, apply_layer, x, &qkv), "y");
    qkv = td_graph_reshape(g, qkv, td_dims(rows, 3 * heads, width / heads));
    td_graph_output(g, td_graph_permute(g, qkv, order), "qkv");
}

td_status td_xtts_block_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_block, out);
}

td_status td_xtts_gpt_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    (void)size;
    return build(c, td_xtts_embedding_size(1, 1), fill_embedding, out);
}

td_status td_xtts_reference_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    (void)size;
    return build(c, 1, fill_reference, out);
}

td_status td_xtts_perceiver_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    (void)size;
    return build(c, 1, fill_perceiver, out);
}

static void fill_latents(td_nn *nn, const td_xtts *c, uint32_t size)
{
    const td_shape shape = td_dims(1, size ? size : 1, c->gpt_n_model_channels);
    const td_tensor rows = td_graph_input(nn->graph, "rows", shape, TD_F32);
    td_graph_output(nn->graph, td_xtts_latents(nn, rows), "latents");
}

td_status td_xtts_latents_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_latents, out);
}

static void fill_codes(td_nn *nn, const td_xtts *c, uint32_t size)
{
    td_graph_output(nn->graph, td_xtts_make_codes(nn, c, 1, size ? size : 1), "codes");
}

td_status td_xtts_codes_graph(const td_xtts *c, uint32_t size, td_graph **out)
{
    return build(c, size, fill_codes, out);
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

td_status td_xtts_speaker_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    (void)size;
    return build(c, 8, fill_speaker, out);
}

td_status td_xtts_vocoder_parameters(const td_xtts *c, uint32_t size, td_graph **out)
{
    (void)size;
    return build(c, 1, fill_vocoder, out);
}
