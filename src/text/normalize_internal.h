/* What the files of the normaliser share: the state of one run and how words are put out.
 * normalize.c walks the text, expand.c reads numbers.
 */
#ifndef TD_TEXT_NORMALIZE_INTERNAL_H
#define TD_TEXT_NORMALIZE_INTERNAL_H

#include "text/fold.h"
#include "text/normalize.h"
#include "text/number.h"
#include "text/spell.h"

struct td_normalizer {
    td_lang lang;
    const td_lang_rules *rules;
    td_folder *folder;
    td_speller *speller;
    td_buffer out;
    td_buffer words; /* scratch of one number */

    /* The run: */
    td_status status;       /* the first failure; later output is dropped */
    const char *text;       /* folded */
    const char *at;         /* not read yet */
    const char *number_end; /* where the last number ended, or NULL */
    const char *day_end;    /* where the last day of a month ended, or NULL */
    bool space;             /* one is due before the next word */
    bool spoken;            /* the last thing put out was said, not copied */
    bool year_next;         /* the second half of a range of years follows */
};

/* Puts out words, set apart from letters around them. */
void td_normalize_say(td_normalizer *n, const char *text, size_t bytes);

/* Puts out bytes of the text: one character, or letters and marks. */
void td_normalize_copy(td_normalizer *n, const char *text, size_t bytes);

/* Whether `text` starts with `key` (after an inner dot of which the text may have a space), and no letter or
 * apostrophe goes on after a letter. *end: behind it. */
bool td_normalize_match(const td_normalizer *n, const char *text, const char *key, const char **end);

/* Whether `text` starts with a word of the list; the longest wins. */
bool td_normalize_match_list(const td_normalizer *n, const char *text, const char *list, const char **end);

/* The table row for a sign, a code or an abbreviation of money at `text`, or NULL. */
const td_lang_money *td_normalize_match_money(const td_normalizer *n, const char *text, const char **end);

/* Whether the word of the table is due here; *end: behind it. */
const td_lang_word *td_normalize_match_word(const td_normalizer *n, const char *text, const char **end);

/* Reads the number at n->at, with what belongs to it; `money`: its sign came before, or NULL. */
void td_expand_number(td_normalizer *n, const td_lang_money *money);

/* A digit, or a point and a digit. */
bool td_expand_is_number(const char *text);

#endif
