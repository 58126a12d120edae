/* What the files of the parallel family share: its decoder as a graph of synthesis, and how it speaks. */
#ifndef TD_FAMILIES_PARALLEL_PARALLEL_H
#define TD_FAMILIES_PARALLEL_PARALLEL_H

#include "families/acoustic.h"
#include "families/acoustic_speak.h"

/* With durations chosen by the host, to a spectrogram. Shape: items, tokens, frames. */
typedef struct td_parallel_decoder {
    td_graph *graph;            /* owned: td_graph_destroy() */
    td_tensor hidden, speaker;  /* in, as the encoder gave them */
    td_tensor pitch, energy;    /* in [B, L, 1], as the encoder gave them or changed */
    td_tensor durations, index; /* in uint [B, L], [B, T]: token of each frame, rising; 0 behind */
    td_tensor frame_counts;     /* in uint [B] */
    td_tensor mel;              /* out [B, T, n_mels] */
} td_parallel_decoder;
td_status td_parallel_decoder_graph(const td_model_config *config, const td_batch_shape *shape,
                                    td_parallel_decoder *out);

td_status td_parallel_speak(td_speaking *s);

extern const td_family td_family_parallel;

#endif
