/* Text as it is spoken: folded (fold.h), with numbers, ordinals, decimals, years, money, percentages, times,
 * units, abbreviations and signs in the words of the language. Roman numerals and unknown words stay as they
 * are. The same text always gives the same result, and a result normalises to itself.
 * Covered by tests/text/test_normalize.c.
 */
#ifndef TD_TEXT_NORMALIZE_H
#define TD_TEXT_NORMALIZE_H

#include <stdint.h>

#include "text/lang.h"

/* Part of the key of every cache that holds normalised text: raised when a rule changes a result. */
enum { TD_NORMALIZE_VERSION = 2 };

typedef struct td_normalizer td_normalizer;

/* *out: owned, td_normalizer_destroy(). Opening costs milliseconds: one per thread and language. */
td_status td_normalizer_create(td_lang lang, td_normalizer **out);
void td_normalizer_destroy(td_normalizer *normalizer);

/* *out: zero-terminated, borrowed until the next run or destroy; "" for a text without anything to say.
 * TD_ERR_FORMAT names the offset of a byte that is not UTF-8. */
td_status td_normalizer_run(td_normalizer *normalizer, const char *text, size_t bytes, const char **out);

/* As td_folder_drops(). */
bool td_normalizer_drops(const td_normalizer *normalizer, uint32_t codepoint);

#endif
