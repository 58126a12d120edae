/* A model left to itself: tokens to spectrograms, all frames at once with the durations it predicts, or step
 * by step until it stops. A speaker keeps its plans between calls, and what passes from plan to plan stays on
 * the device; the host sees what it decides with alone: durations, where to stop, and pitch and energy if
 * they are to be changed. B L R are items, tokens and reference frames; all utterances of a speaking have the
 * same ones, so that one plan serves all. Covered by tests/synth/test_voice.c and
 * tests/train/test_train_run.c.
 */
#ifndef TD_FAMILIES_SPEAK_H
#define TD_FAMILIES_SPEAK_H

#include <stdatomic.h>

#include "families/family.h"

/* Items that are worked on at once. NULL where the model does not read it. */
typedef struct td_utterance {
    uint32_t count;                   /* items from here on are padding, of one token */
    const uint32_t *tokens;           /* [B]: of each item, at least 1 */
    const uint32_t *ids;              /* [B, L] */
    const uint32_t *speakers;         /* [B] */
    const uint32_t *reference_counts; /* [B] */
    const td_span *references;        /* [B]: each [R, n_mels] on the device */
    const double *speeds;             /* [B]: factors of the speaking's speed; or NULL: 1 */
} td_utterance;

typedef struct td_speaking {
    uint64_t seed;                                /* of the pre-net's dropout */
    uint32_t items, max_tokens, reference_frames; /* B, L, R */
    uint32_t limit;     /* frames at which items are cut off; 0: where more than the model can make is
                           asked for, non-autoregressive, that is TD_ERR_LIMIT */
    double speed;       /* 1; non-autoregressive */
    double pitch_shift; /* semitones; with a pitch predictor */
    double energy;      /* factor, 1; with an energy predictor */
    const td_utterance *utterances;
    size_t n_utterances;
    bool *
        too_long; /* [utterances, B], or NULL: set for items that take more frames than the model can make, by a
                       start that ends with TD_ERR_LIMIT for them or, where a model only finds out while it speaks,
                       by td_speaker_say() for items of which some text was not said */
    const atomic_bool *cancel; /* may be NULL; once true, calls end with TD_ERR_CANCELLED */
} td_speaking;

/* What the model makes of an utterance. Valid until the speaker's next call, `mel` and `pitch` also only
 * until another plan of the store runs. */
typedef struct td_spoken {
    td_span mel;   /* [B, max_frames, n_mels] on the device */
    td_span pitch; /* [B, max_frames] in Hz, 0 where unvoiced; a zero span: the model does not tell */
    const uint32_t *frames; /* [B] */
    uint32_t max_frames;    /* the same for all utterances of a speaking */
    uint32_t n_cut;         /* items that did not come to their end */
} td_spoken;

typedef struct td_speaker td_speaker;

/* How a family speaks: what the functions below call. A speaker of a family begins with a td_speaker. */
typedef struct td_speaker_class {
    size_t bytes; /* of its speaker */
    void (*close)(td_speaker *speaker);
    td_status (*start)(td_speaker *speaker);
    td_status (*say)(td_speaker *speaker, size_t number, td_spoken *out);
    void (*end)(td_speaker *speaker); /* also after a start that failed */
} td_speaker_class;

struct td_speaker {
    const td_speaker_class *class;
    td_memory *memory;
    td_store *store;
    const td_model_config *model;
    const td_speaking *speaking; /* at hand, or NULL */
};

/* All is borrowed until destroy: the store has the weights, which may change between calls, and gets what a
 * family keeps from step to step. TD_ERR_CONFIG for a model that does not speak. *out: owned,
 * td_speaker_destroy() before the store goes. */
td_status td_speaker_create(td_memory *memory, td_store *store, const td_model_config *model,
                            td_speaker **out);
void td_speaker_destroy(td_speaker *speaker);

/* Begins a speaking, which is borrowed with all it points to until its end. If it fails, it has ended. */
td_status td_speaker_start(td_speaker *speaker, const td_speaking *speaking);

/* Speaks utterance `number` of it; in any order, each once. */
td_status td_speaker_say(td_speaker *speaker, size_t number, td_spoken *out);

/* Gives back all but the plans. Without effect where nothing was started. */
void td_speaker_end(td_speaker *speaker);

/* TD_ERR_CANCELLED once the caller wants the end. */
td_status td_speaker_check_cancel(const td_speaker *speaker);

#endif
