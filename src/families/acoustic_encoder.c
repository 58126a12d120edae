/* Encoders: text to hidden values, a reference recording to a speaker embedding, and the predictors that read
 * the hidden values; and the graph of all these for synthesis. B L R are items, tokens and reference frames.
 * See docs/model.md. Covered by tests/model/test_model_golden.c and test_model_synthesis.c. */
#include "base/error.h"
#include "families/acoustic.h"

#define AUDIO_CONVOLUTIONS 3u

td_tensor td_acoustic_stack(td_acoustic_builder *b, const char *name, td_tensor x, uint32_t layers,
                            uint32_t heads, uint32_t taps, td_tensor mask, td_tensor lengths)
{
    const uint32_t width = td_graph_shape(b->nn->graph, x).dims[2];
    td_nn_push(b->nn, "%s", name);
    x = td_nn_stack(b->nn, x,
                    &(td_nn_stack_options){.layers = layers,
                                           .heads = heads,
                                           .inside = b->c.ff_factor * width,
                                           .taps = taps,
                                           .mask = mask,
                                           .lengths = lengths});
    td_nn_pop(b->nn);
    return x;
}

/* ---------------------------------------------------------------- speakers */

bool td_acoustic_has_speaker(const td_acoustic *c)
{
    return c->n_speakers > 0 || c->speaker_encoder;
}

td_speaker_inputs td_acoustic_speaker_inputs(td_acoustic_builder *b)
{
    td_graph *g = b->nn->graph;
    const td_batch_shape *s = &b->shape;
    td_speaker_inputs in = {0};
    if (b->c.n_speakers) in.speakers = td_graph_input(g, "speakers", td_dims(s->items), TD_U32);
    if (!b->c.speaker_encoder) return in;
    in.reference_mel =
        td_graph_input(g, "reference_mel", td_dims(s->items, s->reference_frames, b->c.n_mels), TD_F32);
    in.reference_counts = td_graph_input(g, "reference_counts", td_dims(s->items), TD_U32);
    return in;
}

td_tensor td_acoustic_speaker_input(td_acoustic_builder *b)
{
    if (!td_acoustic_has_speaker(&b->c)) return TD_NO_TENSOR;
    return td_graph_input(b->nn->graph, "speaker", td_dims(b->shape.items, b->c.speaker_width), TD_F32);
}

/* Three convolutions, blocks, the mean over the frames, and a projection. */
static td_tensor encode_audio(td_acoustic_builder *b, td_tensor x, td_tensor counts)
{
    static const char *const convs[] = {"audio.conv1", "audio.conv2", "audio.conv3"};
    static const char *const norms[] = {"audio.norm1", "audio.norm2", "audio.norm3"};
    td_graph *g = b->nn->graph;
    const uint32_t frames = td_graph_shape(g, x).dims[1], items = td_graph_shape(g, x).dims[0];
    const td_tensor mask = td_nn_mask(b->nn, counts, frames);
    for (uint32_t i = 0; i < AUDIO_CONVOLUTIONS; i++) {
        const td_tensor y =
            td_nn_conv(b->nn, convs[i], td_graph_mul(g, x, mask), 3, b->c.audio_channels << i);
        x = td_nn_norm(b->nn, norms[i], td_graph_relu(g, y));
    }
    x = td_nn_linear(b->nn, "audio.input", x, b->c.audio_width);
    x = td_acoustic_stack(b, "audio", x, b->c.audio_layers, b->c.audio_heads, b->c.kernel, mask, counts);
    const td_tensor share = td_graph_mask(g, counts, frames, TD_MASK_OWN);
    const td_tensor mean =
        td_graph_sum(g, td_graph_mul(g, x, td_graph_reshape(g, share, td_dims(items, frames, 1))), 1);
    return td_graph_tanh(g, td_nn_linear(b->nn, "audio.out", mean, b->c.speaker_width));
}

td_tensor td_acoustic_embed_speaker(td_acoustic_builder *b, const td_speaker_inputs *in)
{
    td_tensor speaker = TD_NO_TENSOR;
    if (b->c.speaker_encoder) speaker = encode_audio(b, in->reference_mel, in->reference_counts);
    if (!b->c.n_speakers) return speaker;
    const td_tensor row =
        td_nn_embedding(b->nn, "speaker.table", b->c.n_speakers, b->c.speaker_width, in->speakers);
    return speaker.id ? td_graph_add(b->nn->graph, speaker, row) : row;
}

td_tensor td_acoustic_add_speaker(td_acoustic_builder *b, const char *name, td_tensor x, td_tensor speaker)
{
    td_graph *g = b->nn->graph;
    if (!td_acoustic_has_speaker(&b->c)) return x;
    const uint32_t width = td_graph_shape(g, x).dims[2];
    const td_tensor y = td_nn_linear(b->nn, name, speaker, width); /* [B, C] */
    return td_graph_add(g, x, td_graph_reshape(g, y, td_dims(b->shape.items, 1, width)));
}

/* ---------------------------------------------------------------- text */

td_tensor td_acoustic_text_positions(td_acoustic_builder *b, uint32_t n)
{
    const td_tensor all = td_nn_positions(b->nn, "text_positions", b->c.max_tokens, b->c.text_width, 1);
    return td_graph_slice(b->nn->graph, all, 0, 0, n);
}

td_tensor td_acoustic_frame_positions(td_acoustic_builder *b)
{
    return td_nn_positions(b->nn, "frame_positions", b->c.max_frames, b->c.decoder_width, 1);
}

td_tensor td_acoustic_text(td_acoustic_builder *b, td_tensor ids, td_tensor counts, td_tensor mask,
                           td_tensor speaker)
{
    td_graph *g = b->nn->graph;
    const td_acoustic *c = &b->c;
    td_tensor x = td_nn_embedding(b->nn, "text.embedding", c->n_symbols, c->text_width, ids);
    x = td_graph_add_scaled(g, x, td_acoustic_text_positions(b, b->shape.tokens), TD_ACOUSTIC_POSITION);
    x = td_acoustic_stack(b, "text", x, c->text_layers, c->text_heads, c->kernel, mask, counts);
    return td_graph_mul(g, td_acoustic_add_speaker(b, "speaker.text", x, speaker), mask);
}

td_tensor td_acoustic_predict(td_acoustic_builder *b, const char *name, td_tensor hidden, td_tensor mask,
                              uint32_t n)
{
    td_graph *g = b->nn->graph;
    td_tensor x = td_graph_stop_gradient(g, hidden);
    td_nn_push(b->nn, "%s", name);
    x = td_graph_relu(g, td_nn_conv(b->nn, "conv1", x, 3, b->c.text_width));
    x = td_graph_mul(g, td_nn_dropout(b->nn, td_nn_norm(b->nn, "norm1", x)), mask);
    x = td_graph_relu(g, td_nn_conv(b->nn, "conv2", x, 3, b->c.text_width));
    x = td_nn_dropout(b->nn, td_nn_norm(b->nn, "norm2", x));
    x = td_nn_linear(b->nn, "out", x, n);
    td_nn_pop(b->nn);
    return x;
}

/* ---------------------------------------------------------------- synthesis */

static void predict(td_acoustic_builder *b, td_tensor hidden, td_tensor mask)
{
    td_graph *g = b->nn->graph;
    td_graph_output(g, td_acoustic_predict(b, "duration", hidden, mask, 1), "log_durations");
    if (b->c.pitch_predictor) td_graph_output(g, td_acoustic_predict(b, "pitch", hidden, mask, 1), "pitch");
    if (b->c.energy_predictor)
        td_graph_output(g, td_acoustic_predict(b, "energy", hidden, mask, 1), "energy");
}

td_status td_acoustic_encoder_graph(const td_model_config *config, const td_batch_shape *s, uint64_t seed,
                                    bool predicts, td_graph **out)
{
    td_acoustic_builder b;
    td_status status = TD_OK;
    TD_TRY(td_acoustic_open(config, s, seed, &b));
    td_graph *g = b.nn->graph;
    const td_tensor ids = td_graph_input(g, "token_ids", td_dims(s->items, s->tokens), TD_U32);
    const td_tensor counts = td_graph_input(g, "token_counts", td_dims(s->items), TD_U32);
    const td_speaker_inputs in = td_acoustic_speaker_inputs(&b);
    const td_tensor mask = td_nn_mask(b.nn, counts, s->tokens);
    const td_tensor speaker = td_acoustic_embed_speaker(&b, &in);
    const td_tensor hidden = td_acoustic_text(&b, ids, counts, mask, speaker);
    td_graph_output(g, hidden, "hidden");
    td_graph_output(g, speaker, "speaker");
    if (predicts) predict(&b, hidden, mask);
fail:
    return td_acoustic_close(&b, status, out);
}
