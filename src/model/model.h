/* The model as graphs: training (and validation), and the pieces of synthesis. docs/model.md states every
 * layer, name and formula. All graphs of a config declare the same parameters and constants in the same
 * order, so a store made from any one serves all (but see td_model_step_graph). B L T R are items, tokens,
 * frames and reference frames. Covered by tests/model.
 */
#ifndef TD_MODEL_MODEL_H
#define TD_MODEL_MODEL_H

#include "graph/plan.h"
#include "model/config.h"

typedef struct td_model_shape {
    uint32_t items, tokens, frames;
    uint32_t reference_frames; /* 0 without a speaker encoder */
} td_model_shape;

/* ---------------------------------------------------------------- losses */

/* X(term): a weight in td_model_losses, a scalar "loss.TERM" of the plan. Those that a strategy or config
 * does not have are left out. */
#define TD_MODEL_TERMS(X)                                                                                    \
    X(mel)      /* predicted and true spectrogram, of the post-net where there is one */                     \
    X(coarse)   /* the same before the post-net */                                                           \
    X(prior)    /* the prior's spectrogram along the alignment: what the alignment is learnt from */         \
    X(duration) /* logarithms of durations */                                                                \
    X(pitch)                                                                                                 \
    X(energy)                                                                                                \
    X(stop)                                                                                                  \
    X(supervision) /* cross-attention against the alignment; times input supervision_weight */               \
    X(guided)      /* cross-attention away from the diagonal; times input guided_weight */

typedef enum td_model_term {
#define TD_MODEL_TERM(name) TD_TERM_##name,
    TD_MODEL_TERMS(TD_MODEL_TERM)
#undef TD_MODEL_TERM
        TD_MODEL_TERM_COUNT
} td_model_term;

const char *td_model_term_name(td_model_term term); /* "mel" */

typedef struct td_model_losses {
    td_loss_kind mel_kind; /* TD_LOSS_L1, TD_LOSS_MSE or TD_LOSS_HUBER */
    float huber_delta;
    float stop_positive; /* weight of the last step in the stop loss */
    float band;          /* pulls the autoregressive model's alignment to the diagonal; 0: not */
    float sigma;         /* width of the diagonal, as a share of the whole */
    float weights[TD_MODEL_TERM_COUNT];
} td_model_losses;

/* All weights 1 (stop 0.5, coarse 1 with a post-net); L1; band 10, sigma 0.2, stop_positive 5. */
td_model_losses td_model_losses_default(void);

/* ---------------------------------------------------------------- training */

typedef struct td_model_options {
    uint64_t seed;             /* of dropout */
    bool dropout;              /* off: none at all, as for validation, dumps and comparisons */
    bool backward;             /* append gradients; forward-only plans of such a graph are possible too */
    float backward_scale;      /* 1 / micro-batches of a step; 0: 1 */
    bool backward_scaled;      /* gradients are larger by the store's loss scale (td_graph_backward_scaled) */
    const char *const *freeze; /* prefixes of names of parameters that are not trained; may be NULL */
    size_t n_freeze;
} td_model_options;

/* Features that td_batch (data/batch.h) has under the same names: bind or fill each. id 0: not needed. */
typedef struct td_model_inputs {
    td_tensor token_ids;        /* uint [B, L] */
    td_tensor token_counts;     /* uint [B] */
    td_tensor frame_counts;     /* uint [B] */
    td_tensor speakers;         /* uint [B]; with a speaker table */
    td_tensor mel;              /* [B, T, n_mels] */
    td_tensor energy;           /* [B, T]; with an energy predictor */
    td_tensor pitch;            /* [B, T]; with a pitch predictor */
    td_tensor reference_mel;    /* [B, R, n_mels]; with a speaker encoder */
    td_tensor reference_counts; /* uint [B] */
    /* Not of the batch: [1], autoregressive only, filled by the caller before each run. Supervision starts
     * when an alignment exists (0 before), see docs/model.md. */
    td_tensor supervision_weight, guided_weight;
} td_model_inputs;

/* One of the graphs. Outputs are marked and can be read after a run; id 0: this model has none of it. */
typedef struct td_model_graph {
    td_graph *graph; /* owned: td_model_graph_clear() */
    td_model_shape shape;
    td_model_inputs in;
    td_tensor loss;                       /* [1] "loss": the weighted sum */
    td_tensor terms[TD_MODEL_TERM_COUNT]; /* [1] each "loss.mel" ..., without weights */
    td_tensor mel;                        /* [B, T, n_mels]: predicted (autoregressive: T = steps * r) */
    td_tensor durations, index;           /* uint [B, L] and [B, T]: frames of each token, token of each */
    td_tensor attention;                  /* [B, steps, L]: last block's cross-attention; autoregressive */
    td_tensor log_durations;              /* [B, L, 1]: predicted; non-autoregressive */
    td_tensor speaker;                    /* [B, speaker_width]; with a speaker table or encoder */
} td_model_graph;

void td_model_graph_clear(td_model_graph *graph);

/* Teacher-forced: losses, and gradients if options->backward. For validation plan it with forward_only and
 * build it without dropout. A mistake leaves *out cleared. */
td_status td_model_train_graph(const td_model_config *config, const td_model_losses *losses,
                               const td_model_shape *shape, const td_model_options *options,
                               td_model_graph *out);

/* Fills parameters and constants of a store, each parameter from the seed and its own name alone, so that
 * what else is in the store does not matter. Host work only, then one copy each. */
td_status td_model_init(td_store *store, const td_model_config *config, uint64_t seed);

/* Only the constants (states called "constant.*"): after a checkpoint was loaded. Checkpoints need not hold
 * them. */
td_status td_model_init_constants(td_store *store, const td_model_config *config);

/* The values that td_model_init gives entry `name`, for rows that fine-tuning adds. `values` has n floats. */
td_status td_model_init_values(const td_model_config *config, const char *name, td_shape shape, uint64_t seed,
                               float *values);

/* Trainable elements of a config. */
td_status td_model_count(const td_model_config *config, uint64_t *parameters);

/* ---------------------------------------------------------------- synthesis */

/* Of the options these read the seed (of the pre-net's dropout) and freeze, which must be as in the graph
 * that the store was made from; NULL: none. */

/* Text and speaker to what a decoder needs. Shape: items, tokens, reference_frames. */
typedef struct td_model_encode {
    td_graph *graph; /* owned: td_graph_destroy() */
    td_tensor token_ids, token_counts, speakers, reference_mel, reference_counts; /* in, as in training */
    td_tensor hidden;                                                             /* out [B, L, text_width] */
    td_tensor log_durations; /* out [B, L, 1]: frames = max(1, round(exp(x) / speed)); non-autoregressive */
    td_tensor pitch, energy; /* out [B, L, 1]: ln(1 + Hz / 100), ln(1 + 20 RMS); with predictors */
    td_tensor speaker;       /* out [B, speaker_width] */
} td_model_encode;
td_status td_model_encode_graph(const td_model_config *config, const td_model_shape *shape,
                                const td_model_options *options, td_model_encode *out);

/* Non-autoregressive: with durations chosen by the host, to a spectrogram. */
typedef struct td_model_decode {
    td_graph *graph;            /* owned: td_graph_destroy() */
    td_tensor hidden, speaker;  /* in, as encode gave them */
    td_tensor pitch, energy;    /* in [B, L, 1], as encode gave them or changed */
    td_tensor durations, index; /* in uint [B, L], [B, T]: token of each frame, rising; 0 behind */
    td_tensor frame_counts;     /* in uint [B] */
    td_tensor mel;              /* out [B, T, n_mels] */
} td_model_decode;
td_status td_model_decode_graph(const td_model_config *config, const td_model_shape *shape,
                                const td_model_options *options, td_model_decode *out);

/* Autoregressive: one step of `reduction` frames. Shape: items, tokens, and frames, the most that will be
 * made. The keys and values of earlier steps are states of this graph ("cache.LAYER.ITEMSxSTEPS"), so
 * td_store_extend() the store by this graph before planning it (or make the store from it). Steps 0, 1, 2,
 * ... fill the caches; a new utterance starts again at 0. Items step together; when each ends is the
 * caller's to say: where stop[b] > 0 and the attention has come to the last tokens. */
typedef struct td_model_step {
    td_graph *graph;           /* owned: td_graph_destroy() */
    td_tensor hidden, speaker; /* in, as encode gave them */
    td_tensor token_counts;    /* in uint [B] */
    td_tensor previous;        /* in [B, 1, n_mels]: last frame of the step before; zeros at step 0 */
    td_tensor position;        /* in uint [B]: number of this step, the same for all */
    td_tensor key_counts;      /* in uint [B]: position + 1 */
    td_tensor window;          /* in [B, 1, L]: added to attention scores: 0, or -1e4 to forbid a token */
    td_tensor mel;             /* out [B, reduction, n_mels] */
    td_tensor stop;            /* out [B, 1, 1]: logit */
    td_tensor attention;       /* out [B, 1, L] of the last block */
    uint32_t capacity;         /* steps that the caches hold */
} td_model_step;
td_status td_model_step_graph(const td_model_config *config, const td_model_shape *shape,
                              const td_model_options *options, td_model_step *out);

/* Autoregressive with a post-net: over the whole spectrogram. */
typedef struct td_model_finish {
    td_graph *graph;                /* owned: td_graph_destroy() */
    td_tensor coarse, frame_counts; /* in [B, T, n_mels], uint [B] */
    td_tensor mel;                  /* out [B, T, n_mels] */
} td_model_finish;
td_status td_model_finish_graph(const td_model_config *config, const td_model_shape *shape,
                                const td_model_options *options, td_model_finish *out);

#endif
