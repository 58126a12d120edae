/* What texts of a language may be spelled with, whether or not the training texts have it: the letters of the language
 * and of its number words, or the phonemes that espeak-ng has for it, and marks. A table that holds them grows no
 * rows when a voice goes on learning with other texts. Covered by tests/text/test_symbols.c.
 */
#ifndef TD_TEXT_ALPHABET_H
#define TD_TEXT_ALPHABET_H

#include "text/tokenizer.h"

/* Part of the key of every cache that holds a symbol table. */
enum { TD_ALPHABET_VERSION = 1 };

/* Adds them to the set; `kind` is characters or phonemes. Of scripts with thousands of characters (Chinese, Kanji,
 * Hangul) only those of the number words. */
td_status td_alphabet_add(td_token_kind kind, td_lang lang, td_symbol_set *set);

#endif
