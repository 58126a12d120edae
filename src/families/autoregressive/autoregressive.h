/* What the files of the autoregressive family share: its decoder and post-net as graphs of synthesis, and how
 * it speaks. */
#ifndef TD_FAMILIES_AUTOREGRESSIVE_AUTOREGRESSIVE_H
#define TD_FAMILIES_AUTOREGRESSIVE_AUTOREGRESSIVE_H

#include "families/acoustic_speak.h"

/* Text and speaker to what the decoder needs: td_acoustic_encoder() without predictors. */
td_status td_ar_encoder_graph(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                              td_graph **out);

/* One step of `reduction` frames. Shape: items, tokens, and frames, the most that will be made. The keys and
 * values of earlier steps are states of this graph ("cache.LAYER.ITEMSxSTEPS"), so td_store_extend() the
 * store by this graph before planning it. Steps 0, 1, 2, ... fill the caches; a new utterance starts again at
 * 0. Items step together; when each ends is the caller's to say: where stop[b] > 0 and the attention has come
 * to the last tokens. in   hidden, speaker as the encoder gave them; token_counts uint [B]; previous [B, 1,
 * n_mels]: last frame of the step before, zeros at step 0; position uint [B]: number of this step, the same
 * for all; key_counts uint [B]: position + 1; window [B, 1, L]: added to attention scores: 0, or -1e4 to
 * forbid a token out  predicted_mel [B, reduction, n_mels]; stop [B, 1, 1]: logit; attention [B, 1, L] of the
 * last block */
td_status td_ar_step_graph(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                           td_graph **out);

/* The post-net over the whole spectrogram, where the model has one: coarse [B, T, n_mels] and frame_counts
 * uint [B] to predicted_mel. */
td_status td_ar_postnet_graph(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                              td_graph **out);

/* The decoder's layers (decoder.c): S steps, or one. */
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
void td_ar_decode(td_acoustic_builder *b, const td_ar_inputs *in, td_ar_outputs *out);
td_tensor td_ar_previous(td_acoustic_builder *b,
                         td_tensor mel); /* [B, S * r, M]: shifted, with noise and gaps */
td_tensor td_ar_refine(td_acoustic_builder *b, td_tensor mel, td_tensor frame_counts); /* the post-net */

extern const td_speaker_class td_ar_speaker;
extern const td_family td_family_autoregressive;

#endif
