/* Whether a row's text and sound belong together, learnt from the dataset itself, in any language and without a
 * model: which sounds (clusters of cepstra) letters go with, at the beginning, in the middle and at the end of rows,
 * is fitted over all rows of a speaker; then each sound is compared with its own text and with the texts of other
 * rows. Where many others fit better, the text is not what was said. Covered by tests/data/test_row_checks.c.
 */
#ifndef TD_TOOLS_ROW_FIT_H
#define TD_TOOLS_ROW_FIT_H

#include "base/pool.h"
#include "tools/row_sound.h"

enum {
    TD_FIT_PARTS = 3,       /* of a row, overlapping: beginning, middle, end */
    TD_FIT_SOUNDS = 32,     /* clusters */
    TD_FIT_SYMBOLS = 66,    /* the most frequent of a text, all others, and a constant */
    TD_FIT_LEAST_ROWS = 60, /* of a speaker; others' rows are fitted together */
};

/* The clusters: centres of cepstra, each divided by its deviation. */
typedef struct td_fit_book {
    float scale[TD_SOUND_CEPSTRA];
    float centres[TD_FIT_SOUNDS][TD_SOUND_CEPSTRA];
} td_fit_book;

/* Frames of each cluster in each part of the row; all zero: nothing is known of its sound. */
typedef struct td_fit_bag {
    float counts[TD_FIT_PARTS][TD_FIT_SOUNDS];
} td_fit_bag;

/* How much of the place `at` (0 to 1) of a row belongs to a part: triangles that sum to 1. */
static inline double td_fit_weight(size_t part, double at)
{
    const double distance = at * (TD_FIT_PARTS - 1) - (double)part;
    const double weight = 1 - (distance < 0 ? -distance : distance);
    return weight > 0 ? weight : 0;
}

/* Clusters of `count` > 0 frames; the same each time. */
td_status td_fit_book_make(float (*cepstra)[TD_SOUND_CEPSTRA], size_t count, td_fit_book *out);
void td_fit_bag_fill(const td_fit_book *book, const td_sound_frames *frames, td_fit_bag *out);

typedef struct td_fit_row {
    const char *text; /* as it is spoken; borrowed */
    uint32_t speaker;
    td_fit_bag bag;
    double better; /* out: share of other texts that fit this sound better; NAN: it could not be judged */
} td_fit_row;

/* Judges all rows. Rows of too few, or where texts and sounds show no relation, become NAN. */
td_status td_fit_run(td_fit_row *rows, size_t count, td_pool *pool);

#endif
