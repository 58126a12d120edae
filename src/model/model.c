/* The graphs of a model, put together from its parts. See model.h. Covered by tests/model. */
#include "model/model.h"

#include "model/internal.h"

void td_model_graph_clear(td_model_graph *graph)
{
    td_graph_destroy(graph->graph);
    *graph = (td_model_graph){0};
}

/* ---------------------------------------------------------------- training */

static td_model_inputs declare_inputs(td_builder *b, const td_model_shape *s)
{
    const td_model_config *c = b->config;
    td_graph *g = b->graph;
    td_model_inputs in = {.token_ids = td_graph_input(g, "token_ids", td_dims(s->items, s->tokens), TD_U32),
                          .token_counts = td_graph_input(g, "token_counts", td_dims(s->items), TD_U32),
                          .frame_counts = td_graph_input(g, "frame_counts", td_dims(s->items), TD_U32),
                          .mel = td_graph_input(g, "mel", td_dims(s->items, s->frames, c->n_mels), TD_F32)};
    if (c->decoder_strategy == TD_AUTOREGRESSIVE) {
        in.supervision_weight = td_graph_input(g, "supervision_weight", td_dims(1), TD_F32);
        in.guided_weight = td_graph_input(g, "guided_weight", td_dims(1), TD_F32);
    } else {
        if (c->pitch_predictor) in.pitch = td_graph_input(g, "pitch", td_dims(s->items, s->frames), TD_F32);
        if (c->energy_predictor)
            in.energy = td_graph_input(g, "energy", td_dims(s->items, s->frames), TD_F32);
    }
    const td_speaker_inputs speaker = td_model_speaker_inputs(b, s);
    in.speakers = speaker.speakers;
    in.reference_mel = speaker.reference_mel;
    in.reference_counts = speaker.reference_counts;
    return in;
}

/* ln(1 + scale x) of a mean per token, [B, L, 1]: 0 where there is nothing. */
static td_tensor compress(td_graph *g, td_tensor x, float scale)
{
    const td_shape s = td_graph_shape(g, x);
    const td_tensor y = td_graph_log(g, td_graph_shift(g, td_graph_scale(g, x, scale), 1));
    return td_graph_reshape(g, y, td_dims(s.dims[0], s.dims[1], 1));
}

/* What training has in common: hidden values, speaker, prior, alignment. */
typedef struct common {
    td_tensor mask, hidden, mu;
    td_alignment alignment;
} common;

static common build_common(td_builder *b, float band, td_model_graph *out)
{
    td_graph *g = b->graph;
    const td_model_inputs *in = &out->in;
    const td_speaker_inputs speaker = {in->speakers, in->reference_mel, in->reference_counts};
    common parts = {.mask = td_model_mask(b, in->token_counts, out->shape.tokens)};
    out->speaker = td_model_speaker(b, &speaker);
    parts.hidden = td_model_text(b, in->token_ids, in->token_counts, parts.mask, out->speaker);
    parts.mu = td_model_linear(b, "prior", parts.hidden);
    parts.alignment = td_model_align(b, parts.mu, in->mel, in->token_counts, in->frame_counts, band);
    out->durations = parts.alignment.durations;
    out->index = parts.alignment.index;
    out->terms[TD_TERM_prior] =
        td_graph_loss(g, TD_LOSS_MSE, td_graph_gather(g, parts.mu, out->index), in->mel, in->frame_counts, 1);
    return parts;
}

/* A predictor, its loss, and the true values, which the decoder is given in training. */
static td_tensor build_predictor(td_builder *b, const char *prefix, const common *parts, td_tensor target,
                                 td_tensor counts, td_tensor *term)
{
    const td_tensor predicted = td_model_predict(b, prefix, parts->hidden, parts->mask);
    *term = td_graph_loss(b->graph, TD_LOSS_MSE, predicted, target, counts, 1);
    return predicted;
}

static void build_nar(td_builder *b, const td_model_losses *losses, td_model_graph *out)
{
    td_graph *g = b->graph;
    const td_model_inputs *in = &out->in;
    const td_model_shape *s = &out->shape;
    const common parts = build_common(b, 0, out);
    td_nar_inputs decoder = {.hidden = parts.hidden,
                             .speaker = out->speaker,
                             .alignment = parts.alignment,
                             .frame_counts = in->frame_counts};
    const td_tensor logs =
        td_graph_reshape(g, td_graph_align_log(g, parts.alignment), td_dims(s->items, s->tokens, 1));
    out->log_durations =
        build_predictor(b, "duration", &parts, logs, in->token_counts, &out->terms[TD_TERM_duration]);
    if (in->pitch.id) {
        decoder.pitch =
            compress(g, td_graph_align_mean(g, parts.alignment, in->frame_counts, in->pitch, true), 0.01f);
        build_predictor(b, "pitch", &parts, decoder.pitch, in->token_counts, &out->terms[TD_TERM_pitch]);
    }
    if (in->energy.id) {
        decoder.energy =
            compress(g, td_graph_align_mean(g, parts.alignment, in->frame_counts, in->energy, false), 20);
        build_predictor(b, "energy", &parts, decoder.energy, in->token_counts, &out->terms[TD_TERM_energy]);
    }
    out->mel = td_model_nar(b, &decoder);
    out->terms[TD_TERM_mel] =
        td_graph_loss(g, losses->mel_kind, out->mel, in->mel, in->frame_counts, losses->huber_delta);
}

/* Cross-attention against the alignment, and away from the diagonal. */
static void build_attention_losses(td_builder *b, const td_model_losses *losses, const common *parts,
                                   const td_ar_outputs *made, td_tensor step_counts, td_model_graph *out)
{
    td_graph *g = b->graph;
    const td_model_inputs *in = &out->in;
    const uint32_t steps = td_graph_shape(g, made->stop).dims[1];
    const float share = 1.0f / (float)b->config->decoder_layers;
    const td_tensor target =
        td_graph_align_steps(g, parts->alignment, in->frame_counts, b->config->reduction);
    out->terms[TD_TERM_supervision] = td_graph_scale(
        g, td_model_row_mean(g, td_graph_mul(g, made->log_weights, target), step_counts), -share);
    const td_tensor away = td_graph_diagonal(g, step_counts, steps, in->token_counts, out->shape.tokens);
    const td_tensor near = td_graph_exp(g, td_graph_scale(g, away, -0.5f / (losses->sigma * losses->sigma)));
    const td_tensor far = td_graph_shift(g, td_graph_scale(g, near, -1), 1);
    out->terms[TD_TERM_guided] =
        td_graph_scale(g, td_model_row_mean(g, td_graph_mul(g, made->weights, far), step_counts), share);
}

static void build_ar(td_builder *b, const td_model_losses *losses, td_model_graph *out)
{
    td_graph *g = b->graph;
    const td_model_config *c = b->config;
    const td_model_inputs *in = &out->in;
    const td_model_shape *s = &out->shape;
    const common parts = build_common(b, 0.5f * losses->band / (losses->sigma * losses->sigma), out);
    const uint32_t steps = (s->frames + c->reduction - 1) / c->reduction;
    const uint32_t more = steps * c->reduction - s->frames;
    const td_tensor mel = more ? td_graph_pad(g, in->mel, 1, 0, more, 0) : in->mel;
    const td_tensor step_counts = td_graph_counts(g, in->frame_counts, c->reduction);
    td_ar_outputs made;
    td_model_ar(b,
                &(td_ar_inputs){.hidden = parts.hidden,
                                .speaker = out->speaker,
                                .token_counts = in->token_counts,
                                .previous = td_model_previous(b, mel)},
                &made);
    out->mel = made.mel;
    if (c->postnet) {
        out->terms[TD_TERM_coarse] =
            td_graph_loss(g, losses->mel_kind, made.mel, mel, in->frame_counts, losses->huber_delta);
        out->mel = td_model_postnet(b, made.mel, in->frame_counts);
    }
    out->terms[TD_TERM_mel] =
        td_graph_loss(g, losses->mel_kind, out->mel, mel, in->frame_counts, losses->huber_delta);
    const td_tensor last =
        td_graph_reshape(g, td_graph_mask(g, step_counts, steps, TD_MASK_LAST), td_dims(s->items, steps, 1));
    out->terms[TD_TERM_stop] =
        td_graph_loss(g, TD_LOSS_BCE, made.stop, last, step_counts, losses->stop_positive);
    build_attention_losses(b, losses, &parts, &made, step_counts, out);
    out->attention = made.last;
}

static void mark_outputs(td_model_graph *out)
{
    td_graph_output(out->graph, out->mel, "predicted_mel");
    td_graph_output(out->graph, out->durations, "durations");
    td_graph_output(out->graph, out->index, "index");
    td_graph_output(out->graph, out->attention, "attention");
    td_graph_output(out->graph, out->log_durations, "log_durations");
    td_graph_output(out->graph, out->speaker, "speaker");
}

td_status td_model_train_graph(const td_model_config *config, const td_model_losses *losses,
                               const td_model_shape *shape, const td_model_options *options,
                               td_model_graph *out)
{
    td_builder b = {0};
    td_status status = TD_OK;
    *out = (td_model_graph){.shape = *shape};
    TD_TRY(td_builder_open(config, shape, options, &b));
    out->graph = b.graph;
    out->in = declare_inputs(&b, shape);
    if (config->decoder_strategy == TD_AUTOREGRESSIVE)
        build_ar(&b, losses, out);
    else
        build_nar(&b, losses, out);
    mark_outputs(out);
    TD_TRY(td_model_sum_losses(&b, losses, out));
    if (options->backward) {
        const float scale = options->backward_scale != 0 ? options->backward_scale : 1;
        TD_TRY(options->backward_scaled ? td_graph_backward_scaled(b.graph, out->loss, scale)
                                        : td_graph_backward(b.graph, out->loss, scale));
    }
fail:
    status = td_builder_close(&b, status, &out->graph);
    if (status != TD_OK) *out = (td_model_graph){0};
    return status;
}

/* ---------------------------------------------------------------- synthesis */

td_status td_model_encode_graph(const td_model_config *config, const td_model_shape *s,
                                const td_model_options *options, td_model_encode *out)
{
    td_builder b = {0};
    td_status status = TD_OK;
    *out = (td_model_encode){0};
    TD_TRY(td_builder_open(config, s, options, &b));
    b.dropout = false;
    td_graph *g = b.graph;
    out->token_ids = td_graph_input(g, "token_ids", td_dims(s->items, s->tokens), TD_U32);
    out->token_counts = td_graph_input(g, "token_counts", td_dims(s->items), TD_U32);
    const td_speaker_inputs in = td_model_speaker_inputs(&b, s);
    const td_tensor mask = td_model_mask(&b, out->token_counts, s->tokens);
    out->speakers = in.speakers;
    out->reference_mel = in.reference_mel;
    out->reference_counts = in.reference_counts;
    out->speaker = td_model_speaker(&b, &in);
    out->hidden = td_model_text(&b, out->token_ids, out->token_counts, mask, out->speaker);
    td_graph_output(g, out->hidden, "hidden");
    td_graph_output(g, out->speaker, "speaker");
    if (config->decoder_strategy == TD_NON_AUTOREGRESSIVE) {
        out->log_durations = td_model_predict(&b, "duration", out->hidden, mask);
        if (config->pitch_predictor) out->pitch = td_model_predict(&b, "pitch", out->hidden, mask);
        if (config->energy_predictor) out->energy = td_model_predict(&b, "energy", out->hidden, mask);
        td_graph_output(g, out->log_durations, "log_durations");
        td_graph_output(g, out->pitch, "pitch");
        td_graph_output(g, out->energy, "energy");
    }
fail:
    status = td_builder_close(&b, status, &out->graph);
    if (status != TD_OK) *out = (td_model_encode){0};
    return status;
}

static td_tensor declare_speaker(td_builder *b, uint32_t items)
{
    if (!td_model_has_speaker(b->config)) return TD_NO_TENSOR;
    return td_graph_input(b->graph, "speaker", td_dims(items, b->config->speaker_width), TD_F32);
}

td_status td_model_decode_graph(const td_model_config *config, const td_model_shape *s,
                                const td_model_options *options, td_model_decode *out)
{
    td_builder b = {0};
    td_status status = TD_OK;
    *out = (td_model_decode){0};
    TD_FAIL_IF(config->decoder_strategy != TD_NON_AUTOREGRESSIVE, TD_ERR_ARGUMENT,
               "an autoregressive model decodes step by step");
    TD_TRY(td_builder_open(config, s, options, &b));
    b.dropout = false;
    td_graph *g = b.graph;
    out->hidden = td_graph_input(g, "hidden", td_dims(s->items, s->tokens, config->text_width), TD_F32);
    out->speaker = declare_speaker(&b, s->items);
    if (config->pitch_predictor)
        out->pitch = td_graph_input(g, "pitch", td_dims(s->items, s->tokens, 1), TD_F32);
    if (config->energy_predictor)
        out->energy = td_graph_input(g, "energy", td_dims(s->items, s->tokens, 1), TD_F32);
    out->durations = td_graph_input(g, "durations", td_dims(s->items, s->tokens), TD_U32);
    out->index = td_graph_input(g, "index", td_dims(s->items, s->frames), TD_U32);
    out->frame_counts = td_graph_input(g, "frame_counts", td_dims(s->items), TD_U32);
    out->mel = td_model_nar(&b, &(td_nar_inputs){.hidden = out->hidden,
                                                 .speaker = out->speaker,
                                                 .pitch = out->pitch,
                                                 .energy = out->energy,
                                                 .alignment = {out->durations, out->index},
                                                 .frame_counts = out->frame_counts});
    td_graph_output(g, out->mel, "predicted_mel");
fail:
    status = td_builder_close(&b, status, &out->graph);
    if (status != TD_OK) *out = (td_model_decode){0};
    return status;
}

td_status td_model_step_graph(const td_model_config *config, const td_model_shape *s,
                              const td_model_options *options, td_model_step *out)
{
    td_builder b = {0};
    td_status status = TD_OK;
    *out = (td_model_step){0};
    TD_FAIL_IF(config->decoder_strategy != TD_AUTOREGRESSIVE, TD_ERR_ARGUMENT,
               "a non-autoregressive model decodes all frames at once");
    TD_TRY(td_builder_open(config, s, options, &b));
    td_graph *g = b.graph;
    out->capacity = (s->frames + config->reduction - 1) / config->reduction;
    out->hidden = td_graph_input(g, "hidden", td_dims(s->items, s->tokens, config->text_width), TD_F32);
    out->speaker = declare_speaker(&b, s->items);
    out->token_counts = td_graph_input(g, "token_counts", td_dims(s->items), TD_U32);
    out->previous = td_graph_input(g, "previous", td_dims(s->items, 1, config->n_mels), TD_F32);
    out->position = td_graph_input(g, "position", td_dims(s->items), TD_U32);
    out->key_counts = td_graph_input(g, "key_counts", td_dims(s->items), TD_U32);
    out->window = td_graph_input(g, "window", td_dims(s->items, 1, s->tokens), TD_F32);
    td_ar_outputs made;
    td_model_ar(&b,
                &(td_ar_inputs){.hidden = out->hidden,
                                .speaker = out->speaker,
                                .token_counts = out->token_counts,
                                .previous = out->previous,
                                .position = out->position,
                                .key_counts = out->key_counts,
                                .window = out->window,
                                .capacity = out->capacity},
                &made);
    out->mel = made.mel;
    out->stop = made.stop;
    out->attention = made.last;
    td_graph_output(g, out->mel, "predicted_mel");
    td_graph_output(g, out->stop, "stop");
    td_graph_output(g, out->attention, "attention");
fail:
    status = td_builder_close(&b, status, &out->graph);
    if (status != TD_OK) *out = (td_model_step){0};
    return status;
}

td_status td_model_finish_graph(const td_model_config *config, const td_model_shape *s,
                                const td_model_options *options, td_model_finish *out)
{
    td_builder b = {0};
    td_status status = TD_OK;
    *out = (td_model_finish){0};
    TD_FAIL_IF(config->decoder_strategy != TD_AUTOREGRESSIVE || !config->postnet, TD_ERR_ARGUMENT,
               "this model has no post-net");
    TD_TRY(td_builder_open(config, s, options, &b));
    b.dropout = false;
    td_graph *g = b.graph;
    out->coarse = td_graph_input(g, "coarse", td_dims(s->items, s->frames, config->n_mels), TD_F32);
    out->frame_counts = td_graph_input(g, "frame_counts", td_dims(s->items), TD_U32);
    out->mel = td_model_postnet(&b, out->coarse, out->frame_counts);
    td_graph_output(g, out->mel, "predicted_mel");
fail:
    status = td_builder_close(&b, status, &out->graph);
    if (status != TD_OK) *out = (td_model_finish){0};
    return status;
}
