/* What the families that turn text into spectrograms share: configuration, encoders of text and speakers, the
 * alignment that is learnt on the way, predictors, loss terms. docs/model.md states every layer, name and
 * formula. B L T R M are items, tokens, frames, reference frames and bands. Covered by tests/model.
 */
#ifndef TD_FAMILIES_ACOUSTIC_H
#define TD_FAMILIES_ACOUSTIC_H

#include "families/family.h"

/* ---------------------------------------------------------------- configuration (acoustic_config.c) */

/* X(type, key, least, most, is_shape, help), in the order of files. */
#define TD_ACOUSTIC_KEYS(X)                                                                                  \
    X(COUNT, n_symbols, 5, 1000000, 1, "rows of the symbol table; set from the data")                        \
    X(COUNT, n_speakers, 0, 100000, 1, "rows of the speaker table; 0: none")                                 \
    X(COUNT, n_mels, 1, 512, 1, "bands of a spectrogram; set from the front end")                            \
    X(COUNT, text_width, 8, 8192, 1, "channels of the text encoder")                                         \
    X(COUNT, text_layers, 1, 64, 1, "blocks of the text encoder")                                            \
    X(COUNT, text_heads, 0, 64, 1, "self-attention heads of the text encoder; 0: none")                      \
    X(COUNT, audio_width, 8, 8192, 1, "channels of the audio encoder")                                       \
    X(COUNT, audio_layers, 1, 64, 1, "blocks of the audio encoder")                                          \
    X(COUNT, audio_heads, 0, 64, 1, "self-attention heads of the audio encoder; 0: none")                    \
    X(COUNT, audio_channels, 1, 1024, 1, "channels of its first convolution; the others have 2 and 4 times") \
    X(COUNT, decoder_width, 8, 8192, 1, "channels of the decoder")                                           \
    X(COUNT, decoder_layers, 1, 64, 1, "blocks of the decoder")                                              \
    X(COUNT, decoder_heads, 0, 64, 1, "self-attention heads of the decoder; 0: none")                        \
    X(COUNT, ff_factor, 1, 16, 1, "channels inside a feed-forward part, in widths")                          \
    X(COUNT, kernel, 1, 31, 1, "taps of the first convolution of a feed-forward part, odd")                  \
    X(COUNT, decoder_kernel, 1, 31, 1, "the same in the decoder; autoregressive: 1")                         \
    X(FLAG, speaker_encoder, 0, 1, 1, "speaker embedding from a reference recording")                        \
    X(COUNT, speaker_width, 1, 4096, 1, "elements of a speaker embedding")                                   \
    X(NUMBER, dropout, 0, 0.9, 0, "share of elements dropped in blocks while training")                      \
    X(COUNT, max_tokens, 1, 65536, 0, "longest text")                                                        \
    X(COUNT, max_frames, 1, 1000000, 0, "longest spectrogram")

#define TD_PARALLEL_KEYS(X)                                                                                  \
    X(FLAG, pitch_predictor, 0, 1, 1, "predict pitch per token (non-autoregressive)")                        \
    X(FLAG, energy_predictor, 0, 1, 1, "predict energy per token (non-autoregressive)")

#define TD_AUTOREGRESSIVE_KEYS(X)                                                                            \
    X(COUNT, reduction, 1, 8, 1, "frames per step of the autoregressive decoder")                            \
    X(COUNT, prenet_width, 1, 4096, 1, "channels of the autoregressive decoder's pre-net")                   \
    X(FLAG, postnet, 0, 1, 1, "convolutions over the autoregressive decoder's frames")                       \
    X(NUMBER, prenet_dropout, 0, 0.9, 0, "share dropped in the pre-net, in synthesis too")                   \
    X(NUMBER, frame_dropout, 0, 0.9, 0, "share of previous frames hidden while training")                    \
    X(NUMBER, input_noise, 0, 1, 0, "size of noise on previous frames while training")                       \
    X(NUMBER, attention_rate, 0, 100, 0, "tokens per autoregressive step; set from the data")

/* Terms of the loss: X(term). A weight training.loss_TERM, an output "loss.TERM". */
#define TD_ACOUSTIC_TERMS(X)                                                                                 \
    X(mel)   /* predicted and true spectrogram, of the post-net where there is one */                        \
    X(prior) /* the prior's spectrogram along the alignment: what the alignment is learnt from */

#define TD_PARALLEL_TERMS(X)                                                                                 \
    X(duration) /* logarithms of durations */                                                                \
    X(pitch)                                                                                                 \
    X(energy)                                                                                                \
    X(contour) /* pitch of voiced frames */                                                                  \
    X(voicing)                                                                                               \
    X(flow) /* velocities from noise to the spectrogram */

#define TD_AUTOREGRESSIVE_TERMS(X)                                                                           \
    X(coarse) /* the spectrogram before the post-net */                                                      \
    X(stop)                                                                                                  \
    X(supervision) /* cross-attention against the alignment; times input supervision_weight */               \
    X(guided)      /* cross-attention away from the diagonal; times input guided_weight */

#define TD_ACOUSTIC_TYPE_COUNT uint32_t
#define TD_ACOUSTIC_TYPE_NUMBER float
#define TD_ACOUSTIC_TYPE_FLAG bool

/* One struct for both families; each reads what its own keys name. */
typedef struct td_acoustic {
#define TD_ACOUSTIC_FIELD(type, key, least, most, is_shape, help) TD_ACOUSTIC_TYPE_##type key;
    TD_ACOUSTIC_KEYS(TD_ACOUSTIC_FIELD)
    TD_PARALLEL_KEYS(TD_ACOUSTIC_FIELD)
    TD_AUTOREGRESSIVE_KEYS(TD_ACOUSTIC_FIELD)
#undef TD_ACOUSTIC_FIELD
#define TD_ACOUSTIC_WEIGHT(term) float loss_##term;
    TD_ACOUSTIC_TERMS(TD_ACOUSTIC_WEIGHT)
    TD_PARALLEL_TERMS(TD_ACOUSTIC_WEIGHT)
    TD_AUTOREGRESSIVE_TERMS(TD_ACOUSTIC_WEIGHT)
#undef TD_ACOUSTIC_WEIGHT
    bool frame_pitch;           /* parallel */
    uint32_t decoder;           /* parallel: one of TD_PARALLEL_DECODERS */
    uint32_t flow_steps;        /* parallel */
    float flow_temperature;     /* parallel */
    uint32_t diagonal_steps;    /* parallel: updates in which the alignment is held near the diagonal */
    uint32_t mel_loss;          /* of td_acoustic_loss_kinds */
    uint32_t supervision_start; /* autoregressive: step from which the alignment guides the attention */
    bool simple_loss;           /* only the terms without which nothing is learnt */
} td_acoustic;

#define TD_MEL_LOSSES "l1|mse|huber"
#define TD_PARALLEL_DECODERS "regression|flow"
enum { TD_DECODER_REGRESSION, TD_DECODER_FLOW };

/* Rows of a family's table of keys. */
#define TD_ACOUSTIC_KEY_ROW(type_, key_, least_, most_, is_shape_, help_)                                    \
    TD_MODEL_KEY(td_acoustic, type_, key_, least_, most_, is_shape_, help_),
#define TD_ACOUSTIC_TERM_ROW(term_)                                                                          \
    {.section = "training",                                                                                  \
     .name = "loss_" #term_,                                                                                 \
     .help = "weight of the loss '" #term_ "'",                                                              \
     .type = TD_KEY_NUMBER,                                                                                  \
     .offset = offsetof(td_acoustic, loss_##term_),                                                          \
     .most = 1e6},
/* Keys that came after the first files. */
#define TD_PARALLEL_LATER_KEY(type_, name_, least_, most_, is_shape_, choices_, help_)                       \
    {.section = "model",                                                                                     \
     .name = #name_,                                                                                         \
     .help = help_,                                                                                          \
     .type = TD_KEY_##type_,                                                                                 \
     .offset = offsetof(td_acoustic, name_),                                                                 \
     .least = least_,                                                                                        \
     .most = most_,                                                                                          \
     .is_shape = is_shape_,                                                                                  \
     .may_lack = true,                                                                                       \
     .choices = choices_},
#define TD_PARALLEL_LATER_KEYS                                                                               \
    TD_PARALLEL_LATER_KEY(FLAG, frame_pitch, 0, 1, true, NULL,                                               \
                          "predict pitch and voicing of each frame, which the decoder hears")                \
    TD_PARALLEL_LATER_KEY(CHOICE, decoder, 0, 0, true, TD_PARALLEL_DECODERS,                                 \
                          "regression: the mean of all readings; flow: one of them, from noise")             \
    TD_PARALLEL_LATER_KEY(COUNT, flow_steps, 1, 100, false, NULL, "steps from noise to a spectrogram")       \
    TD_PARALLEL_LATER_KEY(NUMBER, flow_temperature, 0, 2, false, NULL, "size of that noise in synthesis")
#define TD_ACOUSTIC_LOSS_ROWS                                                                                \
    {.section = "training",                                                                                  \
     .name = "mel_loss",                                                                                     \
     .help = "how predicted and true spectrogram are compared",                                              \
     .type = TD_KEY_CHOICE,                                                                                  \
     .offset = offsetof(td_acoustic, mel_loss),                                                              \
     .choices = TD_MEL_LOSSES},                                                                              \
        {.section = "training",                                                                              \
         .name = "simple_loss",                                                                              \
         .help = "only the terms without which nothing is learnt: no pitch, energy, guided attention",       \
         .type = TD_KEY_FLAG,                                                                                \
         .offset = offsetof(td_acoustic, simple_loss),                                                       \
         .most = 1},

/* Runs of 0.1 go on to the same bits: sums over all gradients depend on how they lie. */
extern const char *const td_acoustic_order[];

/* A copy of a config's values, and back. */
td_acoustic td_acoustic_get(const td_model_config *config);
void td_acoustic_put(td_model_config *config, const td_acoustic *values);

/* Rows of a family's own table that are the same in both. */
extern const td_part td_acoustic_parts[1];
extern const td_learner_row td_acoustic_learners[1];
#define TD_ACOUSTIC_TABLE                                                                                    \
    .parts = td_acoustic_parts, .n_parts = 1, .order = td_acoustic_order, .learners = td_acoustic_learners,  \
    .n_learners = 1, .symbol_table = "text.embedding", .speaker_table = "speaker.table",                     \
    .check_shape = td_acoustic_check_shape

/* `sequential`: of a decoder that makes one step after the other. */
void td_acoustic_preset(uint32_t size, bool sequential, td_acoustic *out);
td_status td_acoustic_check(const td_acoustic *c);
void td_acoustic_fit(const td_data_facts *facts, td_acoustic *c);
void td_acoustic_describe(const td_acoustic *c, td_model_facts *out);
td_status td_acoustic_check_shape(const void *values, const td_batch_shape *shape);

/* ---------------------------------------------------------------- parts of graphs (acoustic.c) */

#define TD_ACOUSTIC_POSITION 0.5f /* weight of positions where they are added to content */

/* What the graphs of a call are built from. */
typedef struct td_acoustic_builder {
    td_nn *nn; /* &own in synthesis */
    td_nn own;
    td_acoustic c;
    td_batch_shape shape;
    bool dropout, weighs;
} td_acoustic_builder;

/* A builder for a graph of synthesis, in which nothing is dropped. TD_ERR_LIMIT for a shape that is too
 * large. */
td_status td_acoustic_open(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                           td_acoustic_builder *out);
/* The graph stays unless `status` or its own is a failure. */
td_status td_acoustic_close(td_acoustic_builder *b, td_status status, td_graph **graph);

typedef struct td_speaker_inputs {
    td_tensor speakers, reference_mel, reference_counts;
} td_speaker_inputs;

bool td_acoustic_has_speaker(const td_acoustic *c);
td_speaker_inputs td_acoustic_speaker_inputs(td_acoustic_builder *b);
td_tensor td_acoustic_embed_speaker(td_acoustic_builder *b,
                                    const td_speaker_inputs *in); /* [B, S], or none */

/* The speaker embedding as an input [B, S], or none. */
td_tensor td_acoustic_speaker_input(td_acoustic_builder *b);

/* x [B, T, C] plus the speaker's share of it; x itself without a speaker. */
td_tensor td_acoustic_add_speaker(td_acoustic_builder *b, const char *name, td_tensor x, td_tensor speaker);

/* [B, L, text_width], 0 behind an item's tokens. mask [B, L, 1]. */
td_tensor td_acoustic_text(td_acoustic_builder *b, td_tensor ids, td_tensor counts, td_tensor mask,
                           td_tensor speaker);

/* Numbers for each token or frame from hidden values, which get no gradient: [B, L, n]. */
td_tensor td_acoustic_predict(td_acoustic_builder *b, const char *name, td_tensor hidden, td_tensor mask,
                              uint32_t n);

/* Constants: the first n of [max_tokens, text_width], and [max_frames, decoder_width]. */
td_tensor td_acoustic_text_positions(td_acoustic_builder *b, uint32_t n);
td_tensor td_acoustic_frame_positions(td_acoustic_builder *b);

/* Blocks over frames or tokens x with widths of x: those of `name`. */
td_tensor td_acoustic_stack(td_acoustic_builder *b, const char *name, td_tensor x, uint32_t layers,
                            uint32_t heads, uint32_t taps, td_tensor mask, td_tensor lengths);

/* ---------------------------------------------------------------- training */

/* What the training graphs of both families have in common: inputs, hidden values, speaker, prior, alignment.
 */
typedef struct td_acoustic_common {
    td_tensor token_ids, token_counts, frame_counts, mel;
    td_speaker_inputs speaker_inputs;
    td_tensor mask, speaker, hidden;
    td_alignment alignment;
} td_acoustic_common;

td_acoustic_builder td_acoustic_begin(td_nn *nn, const td_build *build);

/* Pulls the alignment to the diagonal. */
typedef struct td_acoustic_band {
    float per_distance; /* of a likelihood's logarithm, per squared distance */
    td_tensor weight;   /* [1], times the above; none: 1 */
} td_acoustic_band;

/* Returns the term "prior". */
td_tensor td_acoustic_encode(td_acoustic_builder *b, td_acoustic_band band, td_acoustic_common *out);

/* The distance of spectrograms that training.mel_loss asks for. */
td_tensor td_acoustic_mel_loss(td_acoustic_builder *b, td_tensor x, td_tensor y, td_tensor counts);

/* A term of the loss: its output's name, its weight, and what it is multiplied with besides (may be none). */
typedef struct td_acoustic_term {
    const char *name;
    td_tensor value, factor;
    float weight;
    td_count_kind counts; /* what it is a mean over */
} td_acoustic_term;

/* Their weighted sum; each is an output "loss.NAME". Those without a value are left out. */
td_tensor td_acoustic_total(td_acoustic_builder *b, const td_acoustic_term *terms, size_t n);

/* ---------------------------------------------------------------- synthesis (acoustic_encoder.c) */

/* Text and speaker to what a decoder needs. Shape: items, tokens, reference_frames.
 *   in   token_ids, token_counts, speakers, reference_mel, reference_counts, as in training
 *   out  hidden [B, L, text_width]; speaker [B, speaker_width]; if it `predicts`, log_durations [B, L, 1]:
 *        frames = max(1, round(exp(x) / speed)), and with predictors pitch, energy [B, L, 1]: ln(1 + Hz /
 * 100), ln(1 + 20 RMS) */
td_status td_acoustic_encoder_graph(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                                    bool predicts, td_graph **out);

#endif
