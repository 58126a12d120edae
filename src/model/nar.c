/* The non-autoregressive decoder and the alignment it learns from. B L T M are items, tokens, frames and
 * bands. See docs/model.md. Covered by tests/model/test_model_golden.c. */
#include "model/internal.h"

/* -|y - mu|^2 / 2 without the share of y alone, which all paths have in common. */
td_alignment td_model_align(td_builder *b, td_tensor mu, td_tensor y, td_tensor token_counts,
                            td_tensor frame_counts, float band_per_distance)
{
    td_graph *g = b->graph;
    const td_shape shape = td_graph_shape(g, mu);
    const td_tensor fixed = td_graph_stop_gradient(g, mu);
    const td_tensor size =
        td_graph_reshape(g, td_graph_sum_squares(g, fixed, 2), td_dims(shape.dims[0], shape.dims[1], 1));
    td_tensor ll = td_graph_add_scaled(g, td_graph_matmul_nt(g, fixed, y), size, -0.5f);
    if (band_per_distance != 0) {
        const td_tensor away =
            td_graph_diagonal(g, token_counts, shape.dims[1], frame_counts, td_graph_shape(g, y).dims[1]);
        ll = td_graph_add_scaled(g, ll, away, -band_per_distance);
    }
    return td_graph_align(g, ll, token_counts, frame_counts);
}

td_tensor td_model_nar(td_builder *b, const td_nar_inputs *in)
{
    td_graph *g = b->graph;
    const td_model_config *c = b->config;
    const uint32_t frames = td_graph_shape(g, in->alignment.index).dims[1];
    const td_tensor mask = td_model_mask(b, in->frame_counts, frames);
    td_tensor h = in->hidden;
    if (in->pitch.id) h = td_graph_add(g, h, td_model_linear(b, "pitch.embed", in->pitch));
    if (in->energy.id) h = td_graph_add(g, h, td_model_linear(b, "energy.embed", in->energy));
    if (c->decoder_width != c->text_width) h = td_model_linear(b, "decoder.input", h);
    const td_tensor place =
        td_model_linear(b, "decoder.place", td_graph_align_features(g, in->alignment, in->frame_counts));
    td_tensor x = td_graph_add(g, td_graph_gather(g, h, in->alignment.index), place);
    x = td_model_add_speaker(b, "speaker.decoder", x, in->speaker);
    if (c->decoder_heads)
        x = td_graph_add_scaled(g, x, td_graph_slice(g, b->frame_positions, 0, 0, frames), TD_MODEL_POSITION);
    x = td_model_stack(b, "decoder", x, c->decoder_layers, c->decoder_heads, mask, in->frame_counts);
    return td_model_linear(b, "decoder.out", x);
}
