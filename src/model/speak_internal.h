/* What the files of td_speaker share: speak.c keeps plans and encodes, speak_parallel.c and speak_steps.c
 * decode. */
#ifndef TD_MODEL_SPEAK_INTERNAL_H
#define TD_MODEL_SPEAK_INTERNAL_H

#include "model/speak.h"

typedef enum td_speaker_graph {
    TD_SPEAKER_ENCODE,
    TD_SPEAKER_DECODE,
    TD_SPEAKER_STEP,
    TD_SPEAKER_FINISH
} td_speaker_graph;

/* What the encoder makes of an utterance, on the device. No span where the model has none. */
typedef struct td_encoded {
    td_span hidden;  /* [B, L, text_width] */
    td_span pitch;   /* [B, L, 1], as they are to be */
    td_span energy;  /* [B, L, 1] */
    td_span speaker; /* [B, speaker_width] */
} td_encoded;

/* A graph made ready for one shape, and room on the device that inputs come from. All is owned. */
typedef struct td_speaker_plan {
    td_speaker_graph kind;
    td_model_shape shape;
    uint64_t seed; /* of graphs with dropout; else 0 */
    uint64_t used;
    union {
        td_graph *graph; /* the first member of each */
        td_model_encode encode;
        td_model_decode decode;
        td_model_step step;
        td_model_finish finish;
    };
    td_plan *plan;
    td_encoded in;
    td_span reference; /* of the encoder: [B, R, n_mels] */
    td_span previous;  /* of a step: [B, 1, n_mels] */
    td_span coarse;    /* of the post-net: [B, T, n_mels] */
} td_speaker_plan;

/* The state of the step by step decoder. Host memory is owned. */
typedef struct td_speaker_walk {
    float *window;             /* [B, L] */
    uint32_t *position, *keys; /* [B] */
    uint32_t *at;              /* [B]: token that is being said */
    bool *is_done;             /* [B] */
    td_span mel;               /* [B, max_frames, n_mels] on the device */
    td_span decided;           /* pinned: attention [B, L], stop logits [B] */
} td_speaker_walk;

enum { TD_SPEAKER_PLANS = 16 };

struct td_speaker {
    td_memory *memory;
    td_store *store;
    const td_model_config *model;
    td_model_options options;
    td_speaker_plan plans[TD_SPEAKER_PLANS];
    size_t n_plans;
    uint64_t clock;

    /* Of the speaking at hand. Owned, as is what is in them. */
    const td_speaking *speaking;
    uint32_t max_frames;
    td_encoded *encoded; /* [utterances] */
    uint32_t *frames;    /* [utterances, B] */
    uint32_t *spread;    /* [utterances, B, L]: frames of each token */
    uint32_t *index;     /* [B, max_frames]: token of each frame */
    uint32_t *n_cut;     /* [utterances] */
    td_speaker_walk walk;
};

/* Decides max_frames and makes room. */
td_status td_speaker_start_parallel(td_speaker *s);
td_status td_speaker_start_steps(td_speaker *s);

/* Make frames, n_cut and the spectrogram of an utterance that encoded[number] is there of. */
td_status td_speaker_decode_parallel(td_speaker *s, size_t number, td_span *mel);
td_status td_speaker_decode_steps(td_speaker *s, size_t number, td_span *mel);

/* Makes encoded[number], and tells the logarithms of durations [B, L], if asked. */
td_status td_speaker_encode(td_speaker *s, size_t number, float *log_durations);
void td_speaker_drop_encoded(td_speaker *s, size_t number);

/* The plan for a shape, new or kept. Borrowed until two others were asked for. */
td_status td_speaker_find_plan(td_speaker *s, td_speaker_graph kind, const td_model_shape *shape,
                               td_speaker_plan **out);

/* Gives a decoder's plan what the encoder made. */
td_status td_speaker_pass(td_speaker *s, size_t number, td_speaker_plan *plan);

/* Puts values into an input that the graph may not have. */
td_status td_speaker_fill(td_speaker_plan *plan, td_tensor input, const void *values);

/* Copies whole spans on the device, skipping zero ones, and waits. */
typedef struct td_speaker_copy {
    td_span to, from;
} td_speaker_copy;
td_status td_speaker_copy_all(td_speaker *s, const td_speaker_copy *copies, size_t n);

/* Runs the plan; what is submitted or read behind it sees what it made. */
td_status td_speaker_run(td_speaker_plan *plan, uint32_t step);

td_status td_speaker_check_cancel(const td_speaker *s);

#endif
