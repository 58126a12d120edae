/* The autoregressive family: a few frames at a time from the ones before, with attention to the text. Its
 * table, its training graph and the graphs of its synthesis. B S L M are items, steps, tokens and bands. See
 * docs/model.md. Covered by tests/model. */
#include "families/autoregressive/autoregressive.h"

#include <string.h>

#include "base/error.h"

#define STOP_POSITIVE 5 /* weight of the last step in the stop loss */
#define BAND 10.0f      /* pulls the alignment to the diagonal */
#define SIGMA 0.2f      /* width of the diagonal, as a share of the whole */

/* ---------------------------------------------------------------- training */

/* Mean over the valid rows of the sums of rows x [B, S, L]; counts uint [B]. */
static td_tensor row_mean(td_graph *g, td_tensor x, td_tensor counts)
{
    const td_shape shape = td_graph_shape(g, x);
    const uint32_t rows = shape.dims[0] * shape.dims[1];
    const td_tensor sums = td_graph_reshape(g, td_graph_sum(g, x, 2), td_dims(rows));
    const td_tensor shares =
        td_graph_reshape(g, td_graph_mask(g, counts, shape.dims[1], TD_MASK_ALL), td_dims(rows));
    return td_graph_sum(g, td_graph_mul(g, sums, shares), 0);
}

/* Cross-attention against the alignment. */
static td_tensor supervise(td_acoustic_builder *b, const td_acoustic_common *common,
                           const td_ar_outputs *made, td_tensor step_counts)
{
    td_graph *g = b->nn->graph;
    const td_tensor target = td_graph_align_steps(g, common->alignment, common->frame_counts, b->c.reduction);
    return td_graph_scale(g, row_mean(g, td_graph_mul(g, made->log_weights, target), step_counts),
                          -1.0f / (float)b->c.decoder_layers);
}

/* Cross-attention away from the diagonal. */
static td_tensor guide(td_acoustic_builder *b, const td_acoustic_common *common, const td_ar_outputs *made,
                       td_tensor step_counts)
{
    td_graph *g = b->nn->graph;
    const uint32_t steps = td_graph_shape(g, made->stop).dims[1];
    const td_tensor away = td_graph_diagonal(g, step_counts, steps, common->token_counts, b->shape.tokens);
    const td_tensor near = td_graph_exp(g, td_graph_scale(g, away, -0.5f / (SIGMA * SIGMA)));
    const td_tensor far = td_graph_shift(g, td_graph_scale(g, near, -1), 1);
    return td_graph_scale(g, row_mean(g, td_graph_mul(g, made->weights, far), step_counts),
                          1.0f / (float)b->c.decoder_layers);
}

static td_tensor build(td_nn *nn, const td_build *build)
{
    td_acoustic_builder b = td_acoustic_begin(nn, build);
    td_graph *g = nn->graph;
    const td_acoustic *c = &b.c;
    td_acoustic_common common;
    td_ar_outputs made;
    const td_tensor prior =
        td_acoustic_encode(&b, (td_acoustic_band){.per_distance = 0.5f * BAND / (SIGMA * SIGMA)}, &common);
    const td_tensor supervision_weight = td_graph_input(g, "supervision_weight", td_dims(1), TD_F32);
    const td_tensor guided_weight = td_graph_input(g, "guided_weight", td_dims(1), TD_F32);
    const uint32_t steps = (b.shape.frames + c->reduction - 1) / c->reduction;
    const uint32_t more = steps * c->reduction - b.shape.frames;
    const td_tensor mel = more ? td_graph_pad(g, common.mel, 1, 0, more, 0) : common.mel;
    const td_tensor step_counts = td_graph_counts(g, common.frame_counts, c->reduction);
    td_ar_decode(&b,
                 &(td_ar_inputs){.hidden = common.hidden,
                                 .speaker = common.speaker,
                                 .token_counts = common.token_counts,
                                 .previous = td_ar_previous(&b, mel)},
                 &made);
    td_tensor coarse = {0}, fine = made.mel;
    if (c->postnet) {
        coarse = td_acoustic_mel_loss(&b, made.mel, mel, common.frame_counts);
        fine = td_ar_refine(&b, made.mel, common.frame_counts);
    }
    const td_tensor mel_loss = td_acoustic_mel_loss(&b, fine, mel, common.frame_counts);
    const td_tensor last = td_graph_reshape(g, td_graph_mask(g, step_counts, steps, TD_MASK_LAST),
                                            td_dims(b.shape.items, steps, 1));
    const td_tensor stop = td_graph_loss(g, TD_LOSS_BCE, made.stop, last, step_counts, STOP_POSITIVE);
    td_graph_output(g, fine, "predicted_mel");
    td_graph_output(g, made.last, "attention");
    const td_tensor supervision = supervise(&b, &common, &made, step_counts);
    const td_acoustic_term terms[] = {
        {.name = "mel", .value = mel_loss, .weight = c->loss_mel},
        {.name = "coarse", .value = coarse, .weight = c->loss_coarse},
        {.name = "prior", .value = prior, .weight = c->loss_prior},
        {.name = "stop", .value = stop, .weight = c->loss_stop, .counts = TD_COUNT_STEPS},
        {.name = "supervision",
         .value = supervision,
         .factor = supervision_weight,
         .weight = c->loss_supervision,
         .counts = TD_COUNT_STEPS},
        {.name = "guided",
         .value = guide(&b, &common, &made, step_counts),
         .factor = guided_weight,
         .weight = c->simple_loss ? 0 : c->loss_guided,
         .counts = TD_COUNT_STEPS},
    };
    return td_acoustic_total(&b, terms, sizeof terms / sizeof *terms);
}

/* Supervision starts when an alignment exists. */
static float scalar(const void *values, const char *input, uint64_t step)
{
    td_acoustic c;
    memcpy(&c, values, sizeof c);
    return strcmp(input, "supervision_weight") != 0 || step >= c.supervision_start ? 1 : 0;
}

/* ---------------------------------------------------------------- synthesis */

td_status td_ar_encoder_graph(const td_model_config *config, const td_batch_shape *s, uint64_t seed,
                              td_graph **out)
{
    return td_acoustic_encoder_graph(config, s, seed, false, out);
}

td_status td_ar_step_graph(const td_model_config *config, const td_batch_shape *s, uint64_t seed,
                           td_graph **out)
{
    td_acoustic_builder b;
    td_ar_inputs in = {0};
    td_ar_outputs made;
    td_status status = TD_OK;
    TD_TRY(td_acoustic_open(config, s, seed, &b));
    td_graph *g = b.nn->graph;
    in.capacity = (s->frames + b.c.reduction - 1) / b.c.reduction;
    in.hidden = td_graph_input(g, "hidden", td_dims(s->items, s->tokens, b.c.text_width), TD_F32);
    in.speaker = td_acoustic_speaker_input(&b);
    in.token_counts = td_graph_input(g, "token_counts", td_dims(s->items), TD_U32);
    in.previous = td_graph_input(g, "previous", td_dims(s->items, 1, b.c.n_mels), TD_F32);
    in.position = td_graph_input(g, "position", td_dims(s->items), TD_U32);
    in.key_counts = td_graph_input(g, "key_counts", td_dims(s->items), TD_U32);
    in.window = td_graph_input(g, "window", td_dims(s->items, 1, s->tokens), TD_F32);
    td_ar_decode(&b, &in, &made);
    td_graph_output(g, made.mel, "predicted_mel");
    td_graph_output(g, made.stop, "stop");
    td_graph_output(g, made.last, "attention");
fail:
    return td_acoustic_close(&b, status, out);
}

td_status td_ar_postnet_graph(const td_model_config *config, const td_batch_shape *s, uint64_t seed,
                              td_graph **out)
{
    td_acoustic_builder b;
    td_status status = TD_OK;
    TD_TRY(td_acoustic_open(config, s, seed, &b));
    td_graph *g = b.nn->graph;
    const td_tensor coarse = td_graph_input(g, "coarse", td_dims(s->items, s->frames, b.c.n_mels), TD_F32);
    const td_tensor counts = td_graph_input(g, "frame_counts", td_dims(s->items), TD_U32);
    td_graph_output(g, td_ar_refine(&b, coarse, counts), "predicted_mel");
fail:
    return td_acoustic_close(&b, status, out);
}

/* ---------------------------------------------------------------- the table */

static const td_model_key keys[] = {
    TD_ACOUSTIC_KEYS(TD_ACOUSTIC_KEY_ROW) TD_AUTOREGRESSIVE_KEYS(TD_ACOUSTIC_KEY_ROW)
        TD_ACOUSTIC_TERMS(TD_ACOUSTIC_TERM_ROW) TD_AUTOREGRESSIVE_TERMS(TD_ACOUSTIC_TERM_ROW)
            TD_ACOUSTIC_LOSS_ROWS{.section = "training",
                                  .name = "supervision_start",
                                  .help = "update from which the alignment guides the attention",
                                  .type = TD_KEY_COUNT,
                                  .offset = offsetof(td_acoustic, supervision_start),
                                  .most = 1e9}};

static void preset(uint32_t size, void *values)
{
    td_acoustic_preset(size, true, values);
}

static td_status check(const void *values)
{
    const td_acoustic *c = values;
    TD_CHECK(td_acoustic_check(c));
    TD_REFUSE_IF(c->decoder_heads == 0, TD_ERR_CONFIG,
                 "model.decoder_heads is 0, but an autoregressive decoder needs self-attention");
    TD_REFUSE_IF(c->decoder_kernel != 1, TD_ERR_CONFIG,
                 "model.decoder_kernel is %u, but must be 1 in an autoregressive decoder", c->decoder_kernel);
    return TD_OK;
}

static void describe(const void *values, td_model_facts *out)
{
    td_acoustic c;
    memcpy(&c, values, sizeof c);
    td_acoustic_describe(values, out);
    out->frames_per_step = c.reduction;
}

/* The rate is that of tokens per step, on average. */
static void fit(const td_data_facts *facts, const void *old, void *values)
{
    td_acoustic *c = values;
    td_acoustic_fit(facts, c);
    c->attention_rate = facts->frames > 0 ? (float)(facts->tokens * c->reduction / facts->frames) : 0;
    if (old) c->attention_rate = ((const td_acoustic *)old)->attention_rate;
}

const td_family td_family_autoregressive = {
    .name = "autoregressive",
    .help = "text to spectrogram, one step after the other",
    .alias = "autoregressive",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    TD_ACOUSTIC_TABLE,
    .least_steps = 2500, /* measured: docs/training.md */
    .preset = preset,
    .check = check,
    .describe = describe,
    .fit = fit,
    .build = build,
    .scalar = scalar,
    .speaker = &td_ar_speaker,
};
