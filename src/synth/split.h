/* Where a long text is cut: at the ends of its sentences, and where one of those is too long, at the mark,
 * then the space, nearest before the limit; and where a piece takes too long, near its middle. Works on
 * normalised text, in which abbreviations and numbers are words already, so that a full stop is one. Covered
 * by tests/synth/test_split.c.
 */
#ifndef TD_SYNTH_SPLIT_H
#define TD_SYNTH_SPLIT_H

#include "text/lang.h"

/* How a piece ends, which is how long the pause behind it is. */
typedef enum td_piece_end {
    TD_PIECE_WITHIN,
    TD_PIECE_CLAUSE,
    TD_PIECE_SENTENCE,
    TD_PIECE_PARAGRAPH
} td_piece_end;

typedef struct td_piece {
    size_t first, bytes; /* of the text; without spaces at its ends */
    td_piece_end end;
} td_piece;

/* The next piece of `text` (zero-terminated UTF-8) from *at on, of at most `max_characters` (> 0)
 * characters; moves *at behind it. False at the end; a piece is never empty. */
bool td_split_next(const char *text, td_lang lang, size_t max_characters, size_t *at, td_piece *out);

/* Where to cut a piece (normalised, without spaces at its ends) in two near its middle: behind a mark, else at the
 * space nearest to it, else between characters; 0 if it has but one character. *end: how the first part ends. */
size_t td_split_middle(const char *text, td_lang lang, td_piece_end *end);

#endif
