/* What the files of this folder share: the list of parameters, and a graph under construction. */
#ifndef TD_MODEL_INTERNAL_H
#define TD_MODEL_INTERNAL_H

#include "base/error.h"
#include "model/model.h"

#define TD_MODEL_NAME_BYTES 64
#define TD_MODEL_EPS 1e-5f     /* of layer norms */
#define TD_MODEL_POSITION 0.5f /* weight of positions where they are added to content */
#define TD_POSTNET_TAPS 5u
#define TD_POSTNET_LAYERS 3u
#define TD_AUDIO_LAYERS 3u

/* ---------------------------------------------------------------- parameters (params.c) */

typedef enum td_init_rule {
    TD_INIT_UNIFORM, /* within 1 / sqrt(fan_in) */
    TD_INIT_NORMAL,  /* deviation 0.5 */
    TD_INIT_ONE,
    TD_INIT_ZERO
} td_init_rule;

typedef struct td_parameter {
    char name[TD_MODEL_NAME_BYTES];
    char like[TD_MODEL_NAME_BYTES]; /* whose random numbers it takes; its own name but for cross keys */
    td_shape shape;
    td_init_rule rule;
    uint32_t fan_in;
    td_param_group group;
} td_parameter;

typedef struct td_parameters {
    td_parameter *all; /* owned */
    size_t n, capacity;
} td_parameters;

/* "PREFIX.PART", with a number behind it unless it is TD_MODEL_ONLY; `out` itself. */
#define TD_MODEL_ONLY UINT32_MAX
const char *td_model_name(char out[TD_MODEL_NAME_BYTES], const char *prefix, const char *part,
                          uint32_t number);

/* Every parameter of a config, in the order of graphs and stores. *out: owned, free(out->all). */
td_status td_model_list(const td_model_config *config, td_parameters *out);

/* ---------------------------------------------------------------- a graph under construction (layers.c) */

typedef struct td_builder {
    td_graph *graph;
    const td_model_config *config;
    bool dropout;
    td_parameters list;
    td_tensor *tensors;        /* of the list */
    td_tensor text_positions;  /* constants: [max_tokens, text_width] */
    td_tensor frame_positions; /* [max_frames, decoder_width] */
    td_tensor query_positions; /* the same at attention_rate; autoregressive */
} td_builder;

/* Checks, and declares all parameters and constants. options may be NULL. */
td_status td_builder_open(const td_model_config *config, const td_model_shape *shape,
                          const td_model_options *options, td_builder *out);
/* The graph stays; *status is that of the graph if it was TD_OK. On failure the graph goes too. */
td_status td_builder_close(td_builder *b, td_status status, td_graph **graph);

td_tensor td_model_linear(td_builder *b, const char *prefix, td_tensor x);
td_tensor td_model_norm(td_builder *b, const char *prefix, td_tensor x);
td_tensor td_model_conv(td_builder *b, const char *prefix, td_tensor x);
td_tensor td_model_drop(td_builder *b, td_tensor x);
td_tensor td_model_find(td_builder *b, const char *prefix, const char *name);

/* 1 at valid places: [B, n, 1]. */
td_tensor td_model_mask(td_builder *b, td_tensor lengths, uint32_t n);

/* The parts of a pre-norm block; each returns x + part(norm(x)). */
td_tensor td_model_self(td_builder *b, const char *prefix, td_tensor x, uint32_t heads, td_tensor lengths,
                        bool causal);
td_tensor td_model_ff(td_builder *b, const char *prefix, td_tensor x, td_tensor mask);

/* A stack of blocks of self-attention (heads > 0) and feed-forward: prefix.block.0 ... */
td_tensor td_model_stack(td_builder *b, const char *prefix, td_tensor x, uint32_t layers, uint32_t heads,
                         td_tensor mask, td_tensor lengths);

/* ---------------------------------------------------------------- encoders (encoder.c) */

typedef struct td_speaker_inputs {
    td_tensor speakers, reference_mel, reference_counts;
} td_speaker_inputs;

bool td_model_has_speaker(const td_model_config *config);
td_speaker_inputs td_model_speaker_inputs(td_builder *b, const td_model_shape *shape);
td_tensor td_model_speaker(td_builder *b, const td_speaker_inputs *in); /* [B, S], or none */

/* x [B, T, C] plus the speaker's share of it; x itself without a speaker. */
td_tensor td_model_add_speaker(td_builder *b, const char *prefix, td_tensor x, td_tensor speaker);

/* [B, L, text_width], 0 behind an item's tokens. mask [B, L, 1]. */
td_tensor td_model_text(td_builder *b, td_tensor ids, td_tensor counts, td_tensor mask, td_tensor speaker);

/* One number per token from hidden values, which get no gradient: [B, L, 1]. */
td_tensor td_model_predict(td_builder *b, const char *prefix, td_tensor hidden, td_tensor mask);

/* ---------------------------------------------------------------- decoders */

/* Log-likelihoods of the prior mu [B, L, M] for y [B, T, M], up to what all tokens share; the best path. */
td_alignment td_model_align(td_builder *b, td_tensor mu, td_tensor y, td_tensor token_counts,
                            td_tensor frame_counts, float band_per_distance);

typedef struct td_nar_inputs {
    td_tensor hidden, speaker;
    td_tensor pitch, energy; /* [B, L, 1], or none */
    td_alignment alignment;
    td_tensor frame_counts;
} td_nar_inputs;
td_tensor td_model_nar(td_builder *b, const td_nar_inputs *in); /* [B, T, M] */

/* What the autoregressive decoder works on: S steps, or one. */
typedef struct td_ar_inputs {
    td_tensor hidden, speaker, token_counts;
    td_tensor previous;                     /* [B, S, M] */
    td_tensor position, key_counts, window; /* of one step; or none: all steps at once */
    uint32_t capacity;                      /* of the caches, with position */
} td_ar_inputs;
typedef struct td_ar_outputs {
    td_tensor mel;         /* [B, S * reduction, M] */
    td_tensor stop;        /* [B, S, 1] */
    td_tensor log_weights; /* [B, S, L]: sum over blocks of ln(w + 1e-6) */
    td_tensor weights;     /* [B, S, L]: sum over blocks */
    td_tensor last;        /* [B, S, L]: of the last block */
} td_ar_outputs;
void td_model_ar(td_builder *b, const td_ar_inputs *in, td_ar_outputs *out);
td_tensor td_model_previous(td_builder *b, td_tensor mel); /* [B, S * r, M]: shifted, with noise and gaps */
td_tensor td_model_postnet(td_builder *b, td_tensor mel, td_tensor frame_counts);

/* ---------------------------------------------------------------- losses (losses.c) */

/* Mean over the valid rows of the sums of rows x [B, S, L]; counts uint [B]. */
td_tensor td_model_row_mean(td_graph *graph, td_tensor x, td_tensor counts);

/* Adds terms with their weights to the total, marks everything as output. */
td_status td_model_sum_losses(td_builder *b, const td_model_losses *losses, td_model_graph *out);

#endif
