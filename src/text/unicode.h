/* The bridge to ICU: UTF-8 that is checked, lower-cased and composed (NFC), and classes of code points. Keeps
 * its own scratch memory, so one td_unicode belongs to one thread. Covered by tests/text/test_normalize.c.
 */
#ifndef TD_TEXT_UNICODE_H
#define TD_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <unicode/umachine.h>

#include "text/buffer.h"

/* Starts as {0}; td_unicode_free(). */
typedef struct td_unicode {
    UChar *wide[2];
    size_t capacity[2];
} td_unicode;

void td_unicode_free(td_unicode *unicode);

/* TD_ERR_FORMAT names the offset of the first byte that is not UTF-8; a zero byte is refused as well. *ascii
 * (may be NULL): whether the text is all ASCII. */
td_status td_unicode_check(const char *text, size_t bytes, bool *ascii);

/* Appends the lower-case NFC form of valid UTF-8 to `out`. `locale`: "tr" knows the dotless i, "" does not.
 */
td_status td_unicode_fold(td_unicode *unicode, const char *text, size_t bytes, const char *locale,
                          td_buffer *out);
td_status td_unicode_fold_wide(td_unicode *unicode, const UChar *text, int32_t units, const char *locale,
                               td_buffer *out);

/* Letter, mark, or number that is written like a letter (the Chinese circle of zero). */
bool td_unicode_is_letter(uint32_t codepoint);

/* Appends a code point as UTF-8. */
td_status td_unicode_append(td_buffer *out, uint32_t codepoint);

/* The code point that ends right before `at` > 0 in valid UTF-8. */
uint32_t td_unicode_before(const char *text, size_t at);

#endif
