/* The parallel family: durations are predicted, and all frames made at once. Its table, its training graph
 * and the decoder of its synthesis. B L T M are items, tokens, frames and bands. See docs/model.md. Covered
 * by tests/model. */
#include "families/parallel/parallel.h"

#include <string.h>

#include "base/error.h"

#define BAND 2000.0f /* pull of the alignment to the diagonal at first, per squared distance */

/* ---------------------------------------------------------------- decoder */

typedef struct decoder_inputs {
    td_tensor hidden, speaker;
    td_tensor pitch, energy; /* [B, L, 1], or none */
    td_tensor frame_pitch;   /* [B, T]: Hz, 0 unvoiced; none: the predicted one is heard */
    td_alignment alignment;
    td_tensor frame_counts;
} decoder_inputs;

typedef struct decoded {
    td_tensor mel;      /* [B, T, M] */
    td_tensor hidden;   /* what it is made from, [B, T, decoder_width] */
    td_contour contour; /* predicted, if the model has frame_pitch */
} decoded;

static decoded decode(td_acoustic_builder *b, const decoder_inputs *in)
{
    td_graph *g = b->nn->graph;
    const td_acoustic *c = &b->c;
    const uint32_t frames = b->shape.frames;
    const td_tensor mask = td_nn_mask(b->nn, in->frame_counts, frames);
    td_tensor h = in->hidden;
    if (in->pitch.id) h = td_graph_add(g, h, td_nn_linear(b->nn, "pitch.embed", in->pitch, c->text_width));
    if (in->energy.id) h = td_graph_add(g, h, td_nn_linear(b->nn, "energy.embed", in->energy, c->text_width));
    if (c->decoder_width != c->text_width) h = td_nn_linear(b->nn, "decoder.input", h, c->decoder_width);
    const td_tensor place =
        td_nn_linear(b->nn, "decoder.place", td_graph_align_features(g, in->alignment, in->frame_counts),
                     c->decoder_width);
    td_tensor x = td_graph_add(g, td_graph_gather(g, h, in->alignment.index), place);
    x = td_acoustic_add_speaker(b, "speaker.decoder", x, in->speaker);
    if (c->decoder_heads)
        x = td_graph_add_scaled(g, x, td_graph_slice(g, td_acoustic_frame_positions(b), 0, 0, frames),
                                TD_ACOUSTIC_POSITION);
    decoded out = {0};
    if (c->frame_pitch) {
        out.contour = td_contour_predict(b, x, mask);
        const td_contour heard = in->frame_pitch.id ? td_contour_read(b, in->frame_pitch) : out.contour;
        x = td_contour_hear(b, x, &heard);
    }
    out.hidden = td_acoustic_stack(b, "decoder", x, c->decoder_layers, c->decoder_heads, c->decoder_kernel,
                                   mask, in->frame_counts);
    out.mel = td_nn_linear(b->nn, "decoder.out", out.hidden, c->n_mels);
    return out;
}

/* ---------------------------------------------------------------- training */

/* ln(1 + scale x) of a mean per token, [B, L, 1]: 0 where there is nothing. */
static td_tensor compress(td_graph *g, td_tensor x, float scale)
{
    const td_shape s = td_graph_shape(g, x);
    const td_tensor y = td_graph_log(g, td_graph_shift(g, td_graph_scale(g, x, scale), 1));
    return td_graph_reshape(g, y, td_dims(s.dims[0], s.dims[1], 1));
}

/* A predictor; returns its loss. */
static td_tensor learn(td_acoustic_builder *b, const char *name, const td_acoustic_common *common,
                       td_tensor target, td_tensor *predicted)
{
    *predicted = td_acoustic_predict(b, name, common->hidden, common->mask, 1);
    return td_graph_loss(b->nn->graph, TD_LOSS_MSE, *predicted, target, common->token_counts, 1);
}

static td_tensor input_track(td_acoustic_builder *b, const char *name)
{
    return td_graph_input(b->nn->graph, name, td_dims(b->shape.items, b->shape.frames), TD_F32);
}

/* The mean of a track [B, T] over each token's frames, as the decoder is given it in training. */
static td_tensor track(td_acoustic_builder *b, td_tensor input, const td_acoustic_common *common, bool voiced,
                       float scale)
{
    td_graph *g = b->nn->graph;
    return compress(g, td_graph_align_mean(g, common->alignment, common->frame_counts, input, voiced), scale);
}

/* Untrained weights like any path, and soon only the one that chance began with: so the first updates are made near
 * the diagonal. */
static td_acoustic_band pull_to_diagonal(td_acoustic_builder *b)
{
    if (b->c.diagonal_steps == 0) return (td_acoustic_band){0};
    return (td_acoustic_band){BAND, td_graph_input(b->nn->graph, "diagonal_weight", td_dims(1), TD_F32)};
}

/* Of the diagonal: falls to 0. */
static float scalar(const void *values, const char *input, uint64_t step)
{
    td_acoustic c;
    (void)input;
    memcpy(&c, values, sizeof c);
    return step < c.diagonal_steps ? 1 - (float)step / (float)c.diagonal_steps : 0;
}

/* What the recording itself says of pitch and energy; *pitch: of each frame. */
static decoder_inputs hear_recording(td_acoustic_builder *b, const td_acoustic_common *common,
                                     td_tensor *pitch)
{
    const td_acoustic *c = &b->c;
    decoder_inputs in = {.hidden = common->hidden,
                         .speaker = common->speaker,
                         .alignment = common->alignment,
                         .frame_counts = common->frame_counts};
    *pitch = TD_NO_TENSOR;
    if (c->pitch_predictor || c->frame_pitch) *pitch = input_track(b, "pitch");
    if (c->frame_pitch) in.frame_pitch = *pitch;
    if (c->pitch_predictor) in.pitch = track(b, *pitch, common, true, 0.01f);
    if (c->energy_predictor) in.energy = track(b, input_track(b, "energy"), common, false, 20);
    return in;
}

static td_tensor predict(td_nn *nn, const td_build *build)
{
    td_acoustic_builder b = td_acoustic_begin(nn, build);
    td_acoustic_common common;
    td_tensor pitch;
    (void)td_acoustic_encode(&b, (td_acoustic_band){0}, &common);
    const decoder_inputs in = hear_recording(&b, &common, &pitch);
    const decoded made = decode(&b, &in);
    if (b.c.decoder != TD_DECODER_FLOW) return made.mel;
    return td_flow_make(&b, &(td_flow){made.mel, made.hidden, common.frame_counts});
}

static td_tensor build(td_nn *nn, const td_build *build)
{
    td_acoustic_builder b = td_acoustic_begin(nn, build);
    td_graph *g = nn->graph;
    const td_acoustic *c = &b.c;
    td_acoustic_common common;
    td_tensor durations, predicted, pitch, pitch_loss = {0}, energy_loss = {0}, flow_loss = {0};
    const td_tensor prior = td_acoustic_encode(&b, pull_to_diagonal(&b), &common);
    const decoder_inputs in = hear_recording(&b, &common, &pitch);
    const td_tensor logs = td_graph_reshape(g, td_graph_align_log(g, common.alignment),
                                            td_dims(b.shape.items, b.shape.tokens, 1));
    const td_tensor duration_loss = learn(&b, "duration", &common, logs, &durations);
    if (c->pitch_predictor) pitch_loss = learn(&b, "pitch", &common, in.pitch, &predicted);
    if (c->energy_predictor) energy_loss = learn(&b, "energy", &common, in.energy, &predicted);
    const decoded made = decode(&b, &in);
    td_contour_losses contour = {0};
    if (c->frame_pitch) contour = td_contour_learn(&b, &made.contour, pitch, common.frame_counts);
    if (c->decoder == TD_DECODER_FLOW)
        flow_loss = td_flow_learn(&b, &(td_flow){made.mel, made.hidden, common.frame_counts}, common.mel);
    td_graph_output(g, made.mel, "predicted_mel");
    td_graph_output(g, durations, "log_durations");
    const td_acoustic_term terms[] = {
        {.name = "mel",
         .value = td_acoustic_mel_loss(&b, made.mel, common.mel, common.frame_counts),
         .weight = c->loss_mel},
        {.name = "prior", .value = prior, .weight = c->loss_prior},
        {.name = "duration", .value = duration_loss, .weight = c->loss_duration, .counts = TD_COUNT_TOKENS},
        {.name = "pitch",
         .value = pitch_loss,
         .weight = c->simple_loss ? 0 : c->loss_pitch,
         .counts = TD_COUNT_TOKENS},
        {.name = "energy",
         .value = energy_loss,
         .weight = c->simple_loss ? 0 : c->loss_energy,
         .counts = TD_COUNT_TOKENS},
        {.name = "contour", .value = contour.pitch, .weight = c->simple_loss ? 0 : c->loss_contour},
        {.name = "voicing", .value = contour.voicing, .weight = c->simple_loss ? 0 : c->loss_voicing},
        {.name = "flow", .value = flow_loss, .weight = c->loss_flow},
    };
    return td_acoustic_total(&b, terms, sizeof terms / sizeof *terms);
}

/* ---------------------------------------------------------------- synthesis */

td_status td_parallel_encoder_graph(const td_model_config *config, const td_batch_shape *s, uint64_t seed,
                                    td_graph **out)
{
    return td_acoustic_encoder_graph(config, s, seed, true, out);
}

td_status td_parallel_decoder_graph(const td_model_config *config, const td_batch_shape *s, uint64_t seed,
                                    td_graph **out)
{
    td_acoustic_builder b;
    decoder_inputs in = {0};
    td_status status = TD_OK;
    TD_TRY(td_acoustic_open(config, s, seed, &b));
    td_graph *g = b.nn->graph;
    in.hidden = td_graph_input(g, "hidden", td_dims(s->items, s->tokens, b.c.text_width), TD_F32);
    in.speaker = td_acoustic_speaker_input(&b);
    if (b.c.pitch_predictor) in.pitch = td_graph_input(g, "pitch", td_dims(s->items, s->tokens, 1), TD_F32);
    if (b.c.energy_predictor)
        in.energy = td_graph_input(g, "energy", td_dims(s->items, s->tokens, 1), TD_F32);
    in.alignment.durations = td_graph_input(g, "durations", td_dims(s->items, s->tokens), TD_U32);
    in.alignment.index = td_graph_input(g, "index", td_dims(s->items, s->frames), TD_U32);
    in.frame_counts = td_graph_input(g, "frame_counts", td_dims(s->items), TD_U32);
    const decoded made = decode(&b, &in);
    td_tensor mel = made.mel;
    if (b.c.frame_pitch) td_graph_output(g, td_contour_hertz(&b, &made.contour), "frame_pitch");
    if (b.c.decoder == TD_DECODER_FLOW)
        mel = td_flow_make(&b, &(td_flow){made.mel, made.hidden, in.frame_counts});
    td_graph_output(g, mel, "predicted_mel");
fail:
    return td_acoustic_close(&b, status, out);
}

/* ---------------------------------------------------------------- the table */

static const td_model_key keys[] = {
    TD_ACOUSTIC_KEYS(TD_ACOUSTIC_KEY_ROW) TD_PARALLEL_KEYS(TD_ACOUSTIC_KEY_ROW)
        TD_PARALLEL_LATER_KEYS TD_ACOUSTIC_TERMS(TD_ACOUSTIC_TERM_ROW) TD_PARALLEL_TERMS(TD_ACOUSTIC_TERM_ROW)
            TD_ACOUSTIC_LOSS_ROWS{.section = "training",
                                  .name = "diagonal_steps",
                                  .help = "updates in which the alignment is held near the diagonal",
                                  .type = TD_KEY_COUNT,
                                  .offset = offsetof(td_acoustic, diagonal_steps),
                                  .most = 1e9}};

static void preset(uint32_t size, void *values)
{
    td_acoustic_preset(size, false, values);
}

static td_status check(const void *values)
{
    return td_acoustic_check(values);
}

static void describe(const void *values, td_model_facts *out)
{
    const td_acoustic *c = values;
    td_acoustic_describe(c, out);
    out->sets_speed = true;
    out->sets_pitch = c->pitch_predictor;
    out->sets_energy = c->energy_predictor;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    (void)old;
    td_acoustic_fit(facts, values);
}

const td_family td_family_parallel = {
    .name = "parallel",
    .help = "text to spectrogram, all frames at once",
    .alias = "non_autoregressive",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    TD_ACOUSTIC_TABLE,
    .preset = preset,
    .check = check,
    .describe = describe,
    .fit = fit,
    .build = build,
    .scalar = scalar,
    .predict = predict,
    .speaker = &td_parallel_speaker,
};
