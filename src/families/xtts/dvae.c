/* See dvae.h. */
#include "families/xtts/dvae.h"

#include "families/xtts/layers.h"
#include "nn/dvae.h"

td_tensor td_xtts_make_codes(td_nn *nn, const td_xtts *c, uint32_t items, uint32_t frames)
{
    const td_dvae d = {.bands = c->n_mels,
                       .hidden = c->dvae_hidden,
                       .blocks = c->dvae_blocks,
                       .dim = c->dvae_codebook_dim,
                       .codes = td_xtts_codes(c)};
    const td_shape shape = td_dims(items, frames, c->n_mels);
    td_tensor rest;
    if (c->dvae_hidden == 0)
        td_graph_mistake(nn->graph,
                         "the voice has no DVAE, which makes codes of recordings (model.dvae_hidden is 0); "
                         "import it again with its dvae.pth");
    const td_tensor mel = td_graph_input(nn->graph, "dvae_mel", shape, TD_F32);
    const td_tensor counts = td_graph_input(nn->graph, "dvae_mel_counts", td_dims(items), TD_U32);
    const td_tensor divided = td_xtts_divide(nn, c, mel);
    td_nn_push(nn, "dvae");
    const td_tensor z = td_nn_dvae_encode(nn, &d, divided, counts, &rest);
    const td_tensor codes = td_nn_dvae_search(nn, &d, z, rest);
    td_nn_pop(nn);
    return codes;
}

static td_tensor make_codes(td_nn *nn, const td_build *b)
{
    const td_xtts c = td_xtts_get(b->config);
    return td_xtts_make_codes(nn, &c, b->shape.items, b->shape.frames);
}

static td_tensor count_codes(td_nn *nn, const td_build *b)
{
    const td_xtts c = td_xtts_get(b->config);
    const td_tensor samples = td_graph_input(nn->graph, "wave_counts", td_dims(b->shape.items), TD_U32);
    return td_graph_counts(nn->graph, samples, c.gpt_code_stride_len);
}

static td_tensor hear_slice(td_nn *nn, const td_build *b)
{
    const td_xtts c = td_xtts_get(b->config);
    const td_shape shape = td_dims(b->shape.items, b->shape.reference_frames, c.n_mels);
    return td_xtts_divide(nn, &c, td_graph_input(nn->graph, "reference_mel", shape, TD_F32));
}

const td_frozen_row td_xtts_frozen[TD_XTTS_FROZEN_PARTS] = {
    {.name = "codes", .build = make_codes, .is_kept = true},
    {.name = "code_counts", .build = count_codes},
    {.name = "cond_mel", .build = hear_slice},
};
