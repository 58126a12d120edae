/* Pieces of text spoken: codes until the voice stops, then or meanwhile their sound. Covered by
 * tests/xtts/test_xtts_speak.c.
 */
#ifndef TD_FAMILIES_XTTS_UTTER_H
#define TD_FAMILIES_XTTS_UTTER_H

#include <stdatomic.h>

#include "base/trace.h"
#include "families/xtts/engine.h"
#include "families/xtts/sampling.h"

/* How samples leave before the last code is there. */
typedef enum td_xtts_flow {
    TD_XTTS_EXACT, /* those that further codes can no longer change: together they are what is spoken at once */
    TD_XTTS_FADE /* all but the last, with a cross-fade from chunk to chunk: as Coqui's inference_stream() */
} td_xtts_flow;

/* Tracks of a trace, by the device that works. */
enum { TD_XTTS_TRACK_GPT, TD_XTTS_TRACK_VOCODER, TD_XTTS_TRACKS };

/* Gets the next samples; false ends the call with TD_ERR_CANCELLED. */
typedef bool (*td_xtts_sink)(void *context, const float *samples, size_t count);

typedef struct td_xtts_manner {
    td_xtts_sampling sampling;
    double speed;
    bool is_guarded; /* loops are drawn again; endless speech, and what comes behind the text, is cut off */
    td_xtts_flow flow;
    uint32_t chunk_codes; /* after how many codes samples leave; 0: at the end */
    uint32_t
        most_codes; /* up to which chunks grow, each half as long again as the one before; 0: they do not */
    td_xtts_sink sink; /* or NULL */
    void *context;
    const atomic_bool *cancel; /* may be NULL */
    td_trace *trace;           /* gets when the GPT and the vocoder worked, each on its track; may be NULL */
} td_xtts_manner;

/* Owned: td_xtts_utterance_free(). */
typedef struct td_xtts_utterance {
    uint32_t *codes; /* [n], the stop with them */
    float *latents;  /* [n, width] */
    size_t n;
    float *samples;
    size_t count;
    bool is_stopped;    /* by the voice itself */
    uint32_t n_redrawn; /* loops that were drawn again */
    bool is_cut;        /* by the guard, */
    bool is_past_text;  /* since attention had come to the end of the text long before */
} td_xtts_utterance;

typedef struct td_xtts_text {
    const uint32_t *tokens; /* borrowed */
    size_t n_tokens;
} td_xtts_text;

/* Speaks n texts, `at_once` of them side by side, which reads weights once for all of these; each stops by itself. Codes
 * and samples are those that each has alone, with the manner's seed and its number in the row added to it; chunk_codes
 * must be 0 where at_once is above 1. out[n]. */
td_status td_xtts_utter_all(td_xtts_engine *engine, const td_xtts_timbre *timbre, const td_xtts_text *texts,
                            size_t n, uint32_t at_once, const td_xtts_manner *manner, td_xtts_utterance *out);

/* One text. */
td_status td_xtts_utter(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                        size_t n_tokens, const td_xtts_manner *manner, td_xtts_utterance *out);
void td_xtts_utterance_free(td_xtts_utterance *utterance);

#endif
