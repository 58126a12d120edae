/* What the files of a voice share: voice.c opens it and speaks, encode.c runs the encoder, parallel.c and
 * steps.c are the two decoders. B L T as in model.h; all items of a run have one B and one L, so that a plan
 * serves all batches. */
#ifndef TD_SYNTH_INTERNAL_H
#define TD_SYNTH_INTERNAL_H

#include "synth/voice.h"

enum { TD_VOICE_ITEMS = 8 }; /* of a batch, at most */

struct td_voice {
    td_memory *memory; /* borrowed */
    td_checkpoint *checkpoint;
    const td_checkpoint_info *info; /* the checkpoint's */
    td_mel *mel;
    td_vocoder *vocoder;
    float *reference; /* [reference_frames, n_mels], or NULL */
    uint32_t reference_frames;
};

/* Pieces that are worked on at once. Values are the host's; NULL where the model has none. */
typedef struct td_utterance {
    uint32_t count;   /* pieces; items from here on are padding of one token and one frame */
    uint32_t *tokens; /* [B]: of each item */
    uint32_t *ids;    /* [B, L] */
    float *hidden;    /* [B, L, text_width] */
    float *durations; /* [B, L]: logarithms */
    float *pitch;     /* [B, L] */
    float *energy;    /* [B, L] */
    float *speaker;   /* [B, speaker_width] */
    uint32_t *frames; /* [B]: of each item's spectrogram */
    float *mel;       /* [B, T, n_mels] */
    uint32_t *spread; /* [B, L]: frames of each token */
} td_utterance;

/* One call of td_voice_speak. */
typedef struct td_speaking {
    td_voice *voice;
    const td_model_config *model;
    const td_script *script;
    const td_speak_options *options;
    td_store *store;
    uint32_t items, max_tokens, max_frames; /* B, L, T */
    td_utterance *utterances;
    size_t n_utterances;
} td_speaking;

/* Makes `hidden` and what the encoder predicts, of all utterances. The store is there. */
td_status td_speaking_encode(td_speaking *s);

/* Make `mel` and `frames` of all utterances. */
td_status td_speaking_parallel(td_speaking *s);
td_status td_speaking_steps(td_speaking *s, td_model_step *step);

/* Puts values into an input that the graph may not have. */
td_status td_speaking_fill(td_plan *plan, td_tensor input, const void *values);

/* Runs the plan and waits. */
td_status td_speaking_run(td_plan *plan, uint32_t step);

#endif
