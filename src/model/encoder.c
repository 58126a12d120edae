/* Encoders: text to hidden values, a reference recording to a speaker embedding, and the predictors that read
 * the hidden values. B L R are items, tokens and reference frames. See docs/model.md. Covered by
 * tests/model/test_model_golden.c. */

#include "model/internal.h"

/* ---------------------------------------------------------------- speakers */

bool td_model_has_speaker(const td_model_config *config)
{
    return config->n_speakers > 0 || config->speaker_encoder;
}

td_speaker_inputs td_model_speaker_inputs(td_builder *b, const td_model_shape *s)
{
    td_speaker_inputs in = {0};
    if (b->config->n_speakers) in.speakers = td_graph_input(b->graph, "speakers", td_dims(s->items), TD_U32);
    if (!b->config->speaker_encoder) return in;
    in.reference_mel = td_graph_input(b->graph, "reference_mel",
                                      td_dims(s->items, s->reference_frames, b->config->n_mels), TD_F32);
    in.reference_counts = td_graph_input(b->graph, "reference_counts", td_dims(s->items), TD_U32);
    return in;
}

/* Three convolutions, blocks, the mean over the frames, and a projection. */
static td_tensor encode_audio(td_builder *b, td_tensor x, td_tensor counts)
{
    const uint32_t frames = td_graph_shape(b->graph, x).dims[1];
    const uint32_t items = td_graph_shape(b->graph, x).dims[0];
    const td_tensor mask = td_model_mask(b, counts, frames);
    for (uint32_t i = 1; i <= TD_AUDIO_LAYERS; i++) {
        char part[TD_MODEL_NAME_BYTES];
        td_model_name(part, "audio", "conv", i);
        x = td_graph_relu(b->graph, td_model_conv(b, part, td_graph_mul(b->graph, x, mask)));
        td_model_name(part, "audio", "norm", i);
        x = td_model_norm(b, part, x);
    }
    x = td_model_linear(b, "audio.input", x);
    x = td_model_stack(b, "audio", x, b->config->audio_layers, b->config->audio_heads, mask, counts);
    const td_tensor share = td_graph_mask(b->graph, counts, frames, TD_MASK_OWN);
    const td_tensor mean = td_graph_sum(
        b->graph, td_graph_mul(b->graph, x, td_graph_reshape(b->graph, share, td_dims(items, frames, 1))), 1);
    return td_graph_tanh(b->graph, td_model_linear(b, "audio.out", mean));
}

td_tensor td_model_speaker(td_builder *b, const td_speaker_inputs *in)
{
    td_tensor speaker = TD_NO_TENSOR;
    if (b->config->speaker_encoder) speaker = encode_audio(b, in->reference_mel, in->reference_counts);
    if (!b->config->n_speakers) return speaker;
    const td_tensor row = td_graph_embedding(b->graph, td_model_find(b, "speaker", "table"), in->speakers);
    return speaker.id ? td_graph_add(b->graph, speaker, row) : row;
}

td_tensor td_model_add_speaker(td_builder *b, const char *prefix, td_tensor x, td_tensor speaker)
{
    if (!td_model_has_speaker(b->config)) return x;
    const td_tensor y = td_model_linear(b, prefix, speaker); /* [B, C] */
    const td_shape shape = td_graph_shape(b->graph, y);
    return td_graph_add(b->graph, x, td_graph_reshape(b->graph, y, td_dims(shape.dims[0], 1, shape.dims[1])));
}

/* ---------------------------------------------------------------- text */

td_tensor td_model_text(td_builder *b, td_tensor ids, td_tensor counts, td_tensor mask, td_tensor speaker)
{
    const td_model_config *c = b->config;
    const uint32_t tokens = td_graph_shape(b->graph, ids).dims[1];
    td_tensor x = td_graph_embedding(b->graph, td_model_find(b, "text", "embedding"), ids);
    x = td_graph_add_scaled(b->graph, x, td_graph_slice(b->graph, b->text_positions, 0, 0, tokens),
                            TD_MODEL_POSITION);
    x = td_model_stack(b, "text", x, c->text_layers, c->text_heads, mask, counts);
    return td_graph_mul(b->graph, td_model_add_speaker(b, "speaker.text", x, speaker), mask);
}

td_tensor td_model_predict(td_builder *b, const char *prefix, td_tensor hidden, td_tensor mask)
{
    td_tensor x = td_graph_stop_gradient(b->graph, hidden);
    for (uint32_t i = 1; i <= 2; i++) {
        char part[TD_MODEL_NAME_BYTES];
        td_model_name(part, prefix, "conv", i);
        x = td_graph_relu(b->graph, td_model_conv(b, part, x));
        td_model_name(part, prefix, "norm", i);
        x = td_model_drop(b, td_model_norm(b, part, x));
        if (i == 1) x = td_graph_mul(b->graph, x, mask);
    }
    char part[TD_MODEL_NAME_BYTES];
    td_model_name(part, prefix, "out", TD_MODEL_ONLY);
    return td_model_linear(b, part, x);
}
