/* Which of the languages a text is in: the script decides where it can (Hangul, kana, Han, Arabic,
 * Devanagari, Cyrillic); among the languages in Latin letters, letters that only some of them have and the
 * n-grams of libexttextcat do. Made for sentences; a word or two may well be judged wrong. Covered by
 * tests/text/test_language.c.
 */
#ifndef TD_TEXT_LANGUAGE_H
#define TD_TEXT_LANGUAGE_H

#include "text/lang.h"

typedef struct td_detector td_detector;

/* *out: owned, td_detector_destroy(). `fingerprints`: the folder of libexttextcat's *.lm files; NULL = where
 * the system installs them. Missing files are TD_ERR_NOT_FOUND with what to install. Any number of
 * threads may use one detector. */
td_status td_detector_create(const char *fingerprints, td_detector **out);
void td_detector_destroy(td_detector *detector);

/* `fallback` is the answer for a text without letters. */
td_status td_detector_run(td_detector *detector, const char *text, size_t bytes, td_lang fallback,
                          td_lang *out);

/* The same beside the language that a text is told to be in, which is the answer for one without letters. *lead: how
 * far the answer is before it, in points: 0 where it is the same, 2 for a small word, 3 for a letter that only the
 * answer has, 100 for another script. */
td_status td_detector_compare(td_detector *detector, const char *text, size_t bytes, td_lang told,
                              td_lang *out, int *lead);

#endif
