/* How a family speaks that makes samples itself: tokens of a piece of text go in, samples come out, at once or while
 * they are made. Families that make spectrograms have a td_speaker_class (speak.h) instead. Covered by
 * tests/xtts/test_xtts_voice.c.
 */
#ifndef TD_FAMILIES_TALKER_H
#define TD_FAMILIES_TALKER_H

#include <stdatomic.h>

#include "families/checkpoint.h"

/* Gets the next samples; false ends the call with TD_ERR_CANCELLED. */
typedef bool (*td_talk_sink)(void *context, const float *samples, size_t count);

/* Pieces that are said side by side at most. */
#define TD_TALK_MOST_AT_ONCE 16u

/* Who speaks, and how. All is borrowed until the last piece was said. */
typedef struct td_talk_style {
    const char *speaker;    /* one that the voice knows by name; NULL: the references' */
    const char *references; /* paths of recordings, one a line; NULL: none */
    double speed;
    double temperature, top_p, repetition_penalty; /* 0: the voice's own */
    uint32_t top_k;                                /* 0: the voice's own */
    bool greedy, no_guard;
    uint64_t seed;
    uint32_t at_once; /* pieces that are said side by side, and then leave whole; 0: one */
    const atomic_bool *cancel;
    td_talk_sink sink; /* or NULL */
    void *context;
    void (*pause)(void *context); /* called between pieces, or NULL */
    void *pause_context;
} td_talk_style;

typedef struct td_talked {
    float *samples; /* owned by the caller: free() */
    size_t count;
    bool is_cut;        /* it did not come to its end by itself */
    uint32_t n_redrawn; /* loops that were drawn again */
    bool is_trimmed;    /* what came behind the text was cut off */
} td_talked;

/* A piece of text: borrowed. */
typedef struct td_piece_tokens {
    const uint32_t *ids;
    size_t count;
} td_piece_tokens;

typedef struct td_talker td_talker;

typedef struct td_talker_class {
    bool shares_steps; /* those on the same weights that speak at the same time cost little more than one */
    /* Memories (which may be the same) and the checkpoint are borrowed until close. weights: "fp32", "bf16", "int8",
     * or NULL, which is as the file has them. *out: owned. */
    td_status (*open)(td_memory *model, td_memory *data, const td_checkpoint *checkpoint, const char *weights,
                      td_talker **out);
    /* A second one on the same weights, for another thread; the first rests during the call and is closed last. */
    td_status (*share)(const td_talker *lender, td_talker **out);
    void (*close)(td_talker *talker);
    td_status (*start)(td_talker *talker, const td_talk_style *style);
    /* Says n pieces, as many of them side by side as the style allows: out[n]. */
    td_status (*say)(td_talker *talker, const td_piece_tokens *pieces, size_t n, td_talked *out);
    td_status (*save)(const td_talker *talker,
                      const char *path); /* what the first piece since start was made of */
    td_status (*save_trace)(const td_talker *talker, const char *path); /* who worked when since start */
} td_talker_class;

/* A talker of a family begins with this. */
struct td_talker {
    const td_talker_class *class;
    uint32_t rate; /* of samples */
};

#endif
