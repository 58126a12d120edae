/* What the acoustic families share in speaking: the encoder, and plans of one slot. */
#ifndef TD_FAMILIES_ACOUSTIC_SPEAK_H
#define TD_FAMILIES_ACOUSTIC_SPEAK_H

#include "families/speak.h"

/* What the encoder made of an utterance. Owned; NULL where the model has none. */
typedef struct td_spoken {
    float *hidden;    /* [B, L, text_width] */
    float *durations; /* [B, L]: logarithms */
    float *pitch;     /* [B, L] */
    float *energy;    /* [B, L] */
    float *speaker;   /* [B, speaker_width] */
} td_spoken;

/* The encoder over all utterances. *out: one for each, owned, td_spoken_free(). */
td_status td_speaking_encode(const td_speaking *s, bool predicts, td_spoken **out);
void td_spoken_free(const td_speaking *s, td_spoken *spoken);

/* A plan of one slot on the store. *out: owned. */
td_status td_speaking_plan(const td_speaking *s, const td_graph *graph, td_plan **out);

/* Puts values into an input that the graph may not have. */
td_status td_speaking_fill(td_plan *plan, td_tensor input, const void *values);

/* Runs the plan; reading its outputs waits. */
td_status td_speaking_run(td_plan *plan, uint32_t step);

#endif
