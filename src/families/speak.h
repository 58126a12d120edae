/* A model left to itself: tokens to spectrograms, all frames at once with the durations it predicts, or step
 * by step until it stops. Values are the host's on both sides; the plans last as long as the call. B L R are
 * items, tokens and reference frames as in model.h; all utterances of a call have the same ones, so that one
 * plan serves all. Covered by tests/synth/test_voice.c and tests/train/test_train_run.c.
 */
#ifndef TD_FAMILIES_SPEAK_H
#define TD_FAMILIES_SPEAK_H

#include "families/family.h"

/* Items that are worked on at once. Inputs are borrowed for the call, NULL where the model has none. */
typedef struct td_utterance {
    uint32_t count;                   /* items from here on are padding, of one token */
    const uint32_t *tokens;           /* [B]: of each item, at least 1 */
    const uint32_t *ids;              /* [B, L] */
    const uint32_t *speakers;         /* [B] */
    const float *reference;           /* [B, R, n_mels] */
    const uint32_t *reference_counts; /* [B] */
    float *mel;                       /* made: [B, max_frames, n_mels]; owned, td_utterance_clear() */
    uint32_t *frames;                 /* made: [B]; owned */
} td_utterance;

void td_utterance_clear(td_utterance *utterance);

typedef struct td_speaking {
    td_store *store; /* with weights; an autoregressive model's caches are added to it */
    const td_model_config *model;
    uint64_t seed;                                /* of whatever is drawn */
    uint32_t items, max_tokens, reference_frames; /* B, L, R */
    uint32_t limit;           /* frames at which items are cut off; 0: where more than the model can make is
                                 asked for, non-autoregressive, that is TD_ERR_LIMIT */
    double speed;             /* 1; non-autoregressive */
    double pitch_shift;       /* semitones; with a pitch predictor */
    double energy;            /* factor, 1; with an energy predictor */
    td_utterance *utterances; /* borrowed */
    size_t n_utterances;
    uint32_t max_frames; /* made: T of all spectrograms */
    size_t n_cut;        /* made: items that did not come to their end */
} td_speaking;

/* TD_ERR_CONFIG for a model that does not speak. */
td_status td_model_speak(td_speaking *speaking);

#endif
