/* Long recordings and their text to a dataset: an aligner (align/align.h) hears what is said when, the text is laid along
 * it, and what is between pauses becomes a row with its own recording. Nothing is thrown away unsaid: each sentence that
 * did not become a row is told with its reason. Covered by tests/cli/test_cut.py and tests/peers/cut.py.
 *
 *   DIR/metadata.csv   id|text|normalised: the rows that are kept
 *   DIR/wavs/ID.wav    one channel of 16 bits at the recording's own rate; also of rows that are not kept
 *   DIR/cut.csv        id|kept, or why not|text: all rows; what choices are applied to
 *   DIR/cut.jsonl      a line for each row and each sentence that was not heard, with times, score and measures
 *   DIR/cut.html       a page to listen and to choose with; it saves a file of choices, lines "ID keep" or "ID drop"
 *   DIR/cut.heard, cut.heard.own, cut.own/   while it works: what was heard so far, and what the aligner learns from;
 *                      the same call goes on from it
 */
#ifndef TD_TOOLS_CUT_H
#define TD_TOOLS_CUT_H

#include "device/dispatch.h"
#include "text/lang.h"

/* Why a row is not kept, in the order in which they are asked. */
#define TD_CUT_REASONS(X)                                                                                    \
    X(KEPT, "kept")                                                                                          \
    X(SCORE, "text and sound disagree")                                                                      \
    X(SHORT, "too short")                                                                                    \
    X(LONG, "too long")                                                                                      \
    X(PAUSE, "no pause around it")                                                                           \
    X(RATE, "too fast or too slow for its text")                                                             \
    X(CLIPPED, "clipped")                                                                                    \
    X(NOISE, "too noisy")                                                                                    \
    X(UNHEARD, "not heard")

typedef enum td_cut_reason {
#define TD_CUT_ENUM(name, text) TD_CUT_##name,
    TD_CUT_REASONS(TD_CUT_ENUM)
#undef TD_CUT_ENUM
        TD_CUT_REASON_COUNT
} td_cut_reason;

const char *td_cut_reason_text(td_cut_reason reason);

typedef enum td_cut_phase {
    TD_CUT_LISTENING,
    TD_CUT_SEARCHING,
    TD_CUT_ADAPTING,
    TD_CUT_WRITING
} td_cut_phase;

/* Texts are borrowed during the call. */
typedef struct td_cut_settings {
    const char *const *recordings; /* in the order in which they were read */
    size_t n_recordings;
    const char
        *text; /* a file, UTF-8: a sentence or a paragraph a line, or lines that are wrapped and blank lines
                           * between paragraphs */
    const char *output;   /* a folder */
    const char *aligner;  /* a checkpoint */
    const char *language; /* a code; NULL or "auto": the aligner's */
    td_memory *memory;
    /* Of seconds, of steps of training, or of rows; TD_ERR_CANCELLED or another status ends it, to be gone on with. */
    td_status (*tell)(void *context, td_cut_phase phase, uint64_t done, uint64_t total);
    void *context;
} td_cut_settings;

typedef struct td_cut_result {
    double audio_s, speech_s, kept_s;
    double unwritten_s;                 /* speech that is in no row */
    size_t n_sentences;                 /* of the text */
    size_t n_heard;                     /* of those in rows */
    size_t n_rows;                      /* kept or not */
    size_t counts[TD_CUT_REASON_COUNT]; /* of rows; UNHEARD: of sentences */
    double median_score;                /* of rows; 0 without */
    bool is_adapted;                    /* the aligner has learnt from the recording */
    char verdict[256];                  /* "": there is a dataset; else why there is none */
} td_cut_result;

td_status td_cut_run(const td_cut_settings *settings, td_cut_result *out);

/* Writes DIR/metadata.csv again with what a file of choices says. TD_ERR_FORMAT names the line of a choice that is none, or
 * of a row that is not there. */
td_status td_cut_apply(const char *folder, const char *choices, size_t *n_kept, size_t *n_rows);

#endif
