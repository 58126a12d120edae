/* What the acoustic families share in speaking: plans kept by shape, the encoder, and what passes from it to
 * a decoder on the device. A family adds its graphs and its decoder. See speak.h. */
#ifndef TD_FAMILIES_ACOUSTIC_SPEAK_H
#define TD_FAMILIES_ACOUSTIC_SPEAK_H

#include "families/acoustic.h"
#include "families/speak.h"

/* A graph of synthesis; its inputs and outputs are found by their names. *out: owned. */
typedef td_status (*td_speech_builder)(const td_model_config *config, const td_batch_shape *shape,
                                       uint64_t seed, td_graph **out);

/* Inputs that come from room on the device; the first TD_ENCODED are what an encoder makes. */
enum { TD_ROOM_HIDDEN, TD_ROOM_SPEAKER, TD_ROOM_PITCH, TD_ROOM_ENERGY, TD_ENCODED };
enum { TD_ROOM_REFERENCE = TD_ENCODED, TD_ROOM_PREVIOUS, TD_ROOM_COARSE, TD_SPEECH_ROOMS };

/* A graph made ready for one shape. All is owned. */
typedef struct td_speech_plan {
    td_speech_builder build;
    td_batch_shape shape;
    uint64_t seed;
    uint64_t used;
    td_graph *graph;
    td_plan *plan;
    td_span rooms[TD_SPEECH_ROOMS]; /* no span where the graph has no such input */
} td_speech_plan;

enum { TD_SPEECH_PLANS = 16 };

typedef struct td_acoustic_speaker td_acoustic_speaker;

/* A family's decoder. */
typedef struct td_acoustic_voice {
    td_speech_builder encoder;
    td_status (*start)(td_acoustic_speaker *s); /* decides max_frames and makes room */
    /* Makes frames, n_cut, and spectrogram and pitch of an utterance that encoded[number] is there of. */
    td_status (*decode)(td_acoustic_speaker *s, size_t number, td_spoken *out);
    void (*end)(td_acoustic_speaker *s); /* gives the room back; may be NULL */
} td_acoustic_voice;

struct td_acoustic_speaker {
    td_speaker base;
    const td_acoustic_voice *voice;
    td_acoustic c;
    td_speech_plan plans[TD_SPEECH_PLANS];
    size_t n_plans;
    uint64_t clock;

    /* Of the speaking at hand. Owned, as is what is in them. */
    uint32_t max_frames;
    td_span (*encoded)[TD_ENCODED]; /* [utterances] */
    uint32_t *frames;               /* [utterances, B] */
    uint32_t *n_cut;                /* [utterances] */
    void *own;                      /* the decoder's */
};

/* What a family's td_speaker_class is made of. */
td_status td_acoustic_speaker_start(td_acoustic_speaker *s, const td_acoustic_voice *voice);
td_status td_acoustic_speaker_say(td_speaker *speaker, size_t number, td_spoken *out);
void td_acoustic_speaker_end(td_speaker *speaker);
void td_acoustic_speaker_close(td_speaker *speaker);

/* Makes encoded[number], and tells the logarithms of durations [B, L], if asked. */
td_status td_speech_encode(td_acoustic_speaker *s, size_t number, float *log_durations);
void td_speech_drop_encoded(td_acoustic_speaker *s, size_t number);

/* The plan for a shape, new or kept. Borrowed until two others were asked for. */
td_status td_speech_find_plan(td_acoustic_speaker *s, td_speech_builder build, const td_batch_shape *shape,
                              uint64_t seed, td_speech_plan **out);

/* Gives a decoder's plan what the encoder made. */
td_status td_speech_pass(td_acoustic_speaker *s, size_t number, td_speech_plan *plan);

/* Puts values into an input that the graph may not have. */
td_status td_speech_fill(td_speech_plan *plan, const char *input, const void *values);

/* Where an output lies after a run. */
td_status td_speech_output(td_speech_plan *plan, const char *output, td_span *out);

/* Copies whole spans on the device, skipping zero ones, and waits. */
typedef struct td_speech_copy {
    td_span to, from;
} td_speech_copy;
td_status td_speech_copy_all(td_acoustic_speaker *s, const td_speech_copy *copies, size_t n);

/* Runs the plan; what is submitted or read behind it sees what it made. */
td_status td_speech_run(td_speech_plan *plan, uint32_t step);

#endif
