/* What the files of cut share; see cut.h. */
#ifndef TD_TOOLS_CUT_INTERNAL_H
#define TD_TOOLS_CUT_INTERNAL_H

#include "align/align.h"
#include "align/path.h"
#include "base/file.h"
#include "text/buffer.h"
#include "text/normalize.h"
#include "tools/cut.h"

#define TD_CUT_LEVEL_S 0.01 /* a level is that of so much sound */
#define TD_CUT_LEAST_S 2.0  /* of a row */
#define TD_CUT_MOST_S 11.0
#define TD_CUT_MARGIN_S 0.075 /* kept before and behind */

/* A recording, and where it lies among all of them. */
typedef struct td_cut_recording {
    const char *path;
    uint32_t rate; /* its own */
    uint64_t frames;
    size_t first_step, steps;   /* of the aligner */
    size_t first_level, levels; /* of loudness */
} td_cut_recording;

typedef struct td_cut_sentence {
    char *text, *normal; /* owned */
} td_cut_sentence;

/* A part of the text and where it is said. Rows are made of neighbours. */
typedef struct td_cut_row {
    char *text, *normal; /* owned */
    uint32_t recording;
    uint32_t n_sentences;
    double first_s, last_s; /* its first and last letter, in the recording */
    double start_s, end_s;  /* where it is cut */
    bool is_tight;          /* at one end there is no pause */
    double score, snr_db, letters_per_s, clipped;
    double unheard_s; /* the longest speech between two of its letters */
    size_t n_letters;
    td_cut_reason reason;
} td_cut_row;

/* Loudness of all recordings, and from where on it is speech. */
typedef struct td_cut_levels {
    float *db;
    float *noise, *speech; /* [count / PER_SECOND + 1]: what is quiet and what is loud around each second */
    size_t count, capacity;
} td_cut_levels;

typedef struct td_cut {
    const td_cut_settings *settings;
    td_aligner *aligner;
    td_lang lang;
    td_normalizer *normalizer;
    td_cut_sentence *sentences;
    size_t n_sentences, sentence_capacity;
    td_letters letters; /* of all sentences */
    size_t *firsts;     /* [n_sentences + 1]: in letters */
    td_cut_recording *recordings;
    td_cut_levels levels;
    double step_s;
    size_t steps;
    td_file_mapping heard; /* of cut.heard */
    td_cut_row *rows;
    size_t n_rows, row_capacity;
    td_cut_result *result;
} td_cut;

/* cut.c: letters of all sentences by the aligner that is open; and where each sentence is heard. *found: owned, free(). */
td_status td_cut_read_letters(td_cut *cut);
td_status td_cut_search(td_cut *cut, const td_path_prices *prices, td_found **found, size_t *n_found);

/* cut_listen.c: what is heard of all recordings, to cut.heard, and their levels. Once more: by the aligner that is open
 * now, to cut.heard.own. */
td_status td_cut_listen(td_cut *cut);
td_status td_cut_listen_again(td_cut *cut);

/* cut_adapt.c: an aligner that does not hear the voice well learns from the recording itself, by the rows that it is the
 * surest of; the recordings are heard again with what it became. */
td_status td_cut_adapt(td_cut *cut);
td_status td_cut_remove_work(const td_cut *cut); /* files that are there while it works */

/* Steps first .. first + count of what was heard, [count, classes]. */
void td_cut_get_heard(const td_cut *cut, size_t first, size_t count, float *to);

/* cut_levels.c */
td_status td_cut_levels_push(td_cut_levels *levels, float db);
td_status td_cut_levels_judge(td_cut_levels *levels);
bool td_cut_is_speech(const td_cut_levels *levels, size_t at);
bool td_cut_is_near_pause(const td_cut_levels *levels, size_t at);

/* Where the speech begins that the letter at level `at` belongs to, not before `least`; and where it ends. *is_tight: there
 * is no pause, and it is the quietest place. */
size_t td_cut_find_start(const td_cut_levels *levels, size_t at, size_t least, bool *is_tight);
size_t td_cut_find_end(const td_cut_levels *levels, size_t at, size_t most, bool *is_tight);

/* cut_rows.c: rows of what was found. */
td_status td_cut_make_rows(td_cut *cut, const td_found *found, size_t count);
void td_cut_clear_rows(td_cut *cut);
size_t td_cut_level_of(const td_cut_recording *recording, double seconds);
double td_cut_time_of(const td_cut *cut, const td_cut_recording *recording, size_t step); /* its middle */

/* A sentence, or a part of one, as a row of its own or joined to the last row. The texts are copied. */
td_status td_cut_add_row(td_cut *cut, const td_cut_row *row, const td_cut_sentence *sentence);

/* How well the row's text fits what is heard of it. *timing: owned, td_timing_free(); its steps begin with *first_step. */
td_status td_cut_measure_fit(const td_cut *cut, td_cut_row *row, td_timing *timing, size_t *first_step);

/* cut_split.c: adds a sentence as a row, or as several where it is longer than a row may be and has pauses. */
td_status td_cut_add_parts(td_cut *cut, const td_cut_row *row, const td_cut_sentence *sentence);

/* cut_write.c: the dataset. */
td_status td_cut_write(td_cut *cut, const td_found *found, size_t n_found);
td_status td_cut_path(const char *folder, const char *name, char out[TD_FILE_PATH_BYTES]);

#endif
