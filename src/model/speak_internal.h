/* What the files of td_model_speak() share: speak.c encodes, speak_parallel.c and speak_steps.c decode. */
#ifndef TD_MODEL_SPEAK_INTERNAL_H
#define TD_MODEL_SPEAK_INTERNAL_H

#include "model/speak.h"

/* What the encoder made of an utterance. Owned; NULL where the model has none. */
typedef struct td_spoken {
    float *hidden;    /* [B, L, text_width] */
    float *durations; /* [B, L]: logarithms */
    float *pitch;     /* [B, L] */
    float *energy;    /* [B, L] */
    float *speaker;   /* [B, speaker_width] */
} td_spoken;

/* Make `mel` and `frames` of all utterances, and max_frames. */
td_status td_speaking_parallel(td_speaking *s, td_spoken *spoken);
td_status td_speaking_steps(td_speaking *s, const td_spoken *spoken);

/* A plan of one slot on the store. *out: owned. */
td_status td_speaking_plan(const td_speaking *s, const td_graph *graph, td_plan **out);

/* Puts values into an input that the graph may not have. */
td_status td_speaking_fill(td_plan *plan, td_tensor input, const void *values);

/* Runs the plan; reading its outputs waits. */
td_status td_speaking_run(td_plan *plan, uint32_t step);

#endif
