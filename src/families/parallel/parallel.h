/* What the files of the parallel family share: the graphs of its synthesis, and how it speaks. */
#ifndef TD_FAMILIES_PARALLEL_PARALLEL_H
#define TD_FAMILIES_PARALLEL_PARALLEL_H

#include "families/acoustic_speak.h"

/* Text and speaker to what the decoder needs: td_acoustic_encoder() with predictors. */
td_status td_parallel_encoder_graph(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                                    td_graph **out);

/* With durations chosen by the host, to a spectrogram. Shape: items, tokens, frames.
 *   in   hidden, speaker, pitch, energy as the encoder gave them, or changed; durations, index uint [B, L],
 *        [B, T]: token of each frame, rising, 0 behind; frame_counts uint [B]
 *   out  predicted_mel [B, T, n_mels]; with frame_pitch: frame_pitch [B, T, 1], Hz, 0 unvoiced */
td_status td_parallel_decoder_graph(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                                    td_graph **out);

/* ---------------------------------------------------------------- contour.c */

/* Pitch and voicing of each frame, [B, T, 1] each. */
typedef struct td_contour {
    td_tensor pitch;   /* ln(1 + Hz / 100), of use where it is voiced */
    td_tensor voicing; /* its logit if predicted: above 0 is voiced */
    td_tensor voiced;  /* 0 or 1 */
} td_contour;

typedef struct td_contour_losses {
    td_tensor pitch, voicing;
} td_contour_losses;

/* From the decoder's input x [B, T, decoder_width], which gets no gradient; from a track in Hz [B, T]. */
td_contour td_contour_predict(td_acoustic_builder *b, td_tensor x, td_tensor mask);
td_contour td_contour_read(td_acoustic_builder *b, td_tensor hertz);

/* x with what it says of each frame. */
td_tensor td_contour_hear(td_acoustic_builder *b, td_tensor x, const td_contour *contour);

/* How far a predicted one is from a track. */
td_contour_losses td_contour_learn(td_acoustic_builder *b, const td_contour *predicted, td_tensor hertz,
                                   td_tensor frame_counts);

/* [B, T, 1] */
td_tensor td_contour_hertz(td_acoustic_builder *b, const td_contour *contour);

/* ---------------------------------------------------------------- flow.c */

/* What the flow starts from: the regression's spectrogram [B, T, n_mels] and the values it was made from. */
typedef struct td_flow {
    td_tensor mean, hidden, frame_counts;
} td_flow;

/* The term "flow" of the loss; its gradient does not reach what the flow starts from. */
td_tensor td_flow_learn(td_acoustic_builder *b, const td_flow *in, td_tensor mel);

/* A spectrogram in flow_steps steps from noise, which depends on the graph's seed and the run's step. */
td_tensor td_flow_make(td_acoustic_builder *b, const td_flow *in);

extern const td_speaker_class td_parallel_speaker;
extern const td_family td_family_parallel;

#endif
