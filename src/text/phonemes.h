/* Text to IPA phonemes with espeak-ng, whose library is opened at run time, once per process, and is not
 * thread-safe: calls from several threads take turns. Punctuation is kept between clauses.
 * Covered by tests/text/test_tokenizer.c.
 */
#ifndef TD_TEXT_PHONEMES_H
#define TD_TEXT_PHONEMES_H

#include "text/buffer.h"
#include "text/lang.h"

/* TD_OK if espeak-ng and its data are there; otherwise TD_ERR_UNSUPPORTED says what to install. */
td_status td_phonemes_check(void);

/* The symbols that phonemes of a language are written with, of its own words and of foreign ones that are common in its
 * texts; "" for a language without phonemes. Borrowed forever. */
const char *td_phonemes_inventory(td_lang lang);

/* Appends the phonemes of normalised text to `out`. Chinese and Japanese are TD_ERR_UNSUPPORTED. */
td_status td_phonemes_convert(td_lang lang, const char *text, size_t bytes, td_buffer *out);

#endif
