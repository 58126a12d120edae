/* What a voice's frozen parts make of whole recordings and their texts before its vocoder learns: the latents that sound is
 * made of, and the speaker's vector. Once for each recording, since nothing of it changes in training. Covered by
 * tests/xtts/test_xtts_scratch.c.
 */
#ifndef TD_FAMILIES_LISTENER_H
#define TD_FAMILIES_LISTENER_H

#include "audio/stretch.h"
#include "families/checkpoint.h"

struct td_listener_class;

/* What a class's own struct begins with. */
typedef struct td_listener {
    const struct td_listener_class *class;
    uint32_t width, vector_width;
    double factors[TD_STRETCH_STAGES]; /* from latents to frames of the run's front end */
    td_digest key;                     /* of all that decides what is made, but the recording and its text */
} td_listener;

typedef struct td_hearing {
    const char *path;
    const uint32_t *tokens;
    size_t n_tokens;
} td_hearing;

/* Owned: free() each. */
typedef struct td_heard {
    float *latents;  /* [n, width] */
    float *vector;   /* [vector_width] */
    uint32_t *codes; /* [n]: what the latents were thought of */
    uint32_t n;
} td_heard;

typedef struct td_listener_class {
    /* Whether a run with these values needs it. */
    bool (*listens)(const void *values);
    /* Writes `path`, the voice with what it lacks to be one, drawn from the seed; *is_made: whether it lacked anything. */
    td_status (*complete)(const td_checkpoint *voice, uint64_t seed, const char *path, bool *is_made);
    /* Memory and voice are borrowed until close. *out: owned. */
    td_status (*open)(td_memory *memory, const td_checkpoint *voice, td_listener **out);
    void (*close)(td_listener *listener); /* NULL is fine */
    /* TD_ERR_FORMAT or TD_ERR_LIMIT for a recording or a text that cannot be taken. */
    td_status (*hear)(td_listener *listener, const td_hearing *hearing, td_heard *out);
} td_listener_class;

#endif
