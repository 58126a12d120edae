/* UTF-8 checking, lower case and NFC through ICU (unicode.h). */
#include "text/unicode.h"

#include <stdlib.h>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include <unicode/utf8.h>

#include "base/error.h"
#include "base/text.h"

enum { MAX_TEXT_BYTES = 1 << 28 }; /* ICU counts in int32_t, and lower case and NFC may lengthen */

void td_unicode_free(td_unicode *unicode)
{
    free(unicode->wide[0]);
    free(unicode->wide[1]);
    *unicode = (td_unicode){0};
}

td_status td_unicode_check(const char *text, size_t bytes, bool *ascii)
{
    unsigned char seen = 0;
    for (size_t at = 0, step = 1; at < bytes; at += step) {
        unsigned char byte = (unsigned char)text[at];
        seen |= byte;
        step = 1;
        if (byte > 0 && byte < 0x80) continue;
        uint32_t codepoint = 0;
        step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (step == 1) {
            return TD_FAIL(TD_ERR_FORMAT, "byte %zu (0x%02X) is not valid UTF-8: convert the text to UTF-8",
                           at, byte);
        }
    }
    if (ascii != NULL) *ascii = seen < 0x80;
    return TD_OK;
}

static td_status fail_icu(const char *what, UErrorCode code)
{
    return TD_FAIL_NATIVE(code == U_MEMORY_ALLOCATION_ERROR ? TD_ERR_HOST_MEMORY : TD_ERR_FORMAT,
                          u_errorName(code), "ICU could not %s", what);
}

static td_status reserve_wide(td_unicode *unicode, int which, size_t units)
{
    return td_alloc_grow(&unicode->wide[which], &unicode->capacity[which], units, sizeof(UChar));
}

/* Room for every result is made beforehand: lower case triples at most, and so does NFC. */
td_status td_unicode_fold_wide(td_unicode *unicode, const UChar *text, int32_t units, const char *locale,
                               td_buffer *out)
{
    UErrorCode code = U_ZERO_ERROR;
    const UNormalizer2 *nfc = unorm2_getNFCInstance(&code);
    TD_CHECK(reserve_wide(unicode, 1, (size_t)units * 3 + 1));
    UChar *lower = unicode->wide[1];
    int32_t n_lower = u_strToLower(lower, units * 3 + 1, text, units, locale, &code);
    if (U_SUCCESS(code) && unorm2_quickCheck(nfc, lower, n_lower, &code) != UNORM_YES) {
        TD_CHECK(reserve_wide(unicode, 0, (size_t)n_lower * 3 + 1));
        n_lower = unorm2_normalize(nfc, lower, n_lower, unicode->wide[0], n_lower * 3 + 1, &code);
        lower = unicode->wide[0];
    }
    if (U_FAILURE(code)) return fail_icu("fold a text", code);
    TD_CHECK(td_buffer_reserve(out, (size_t)n_lower * 3));
    int32_t bytes = 0;
    u_strToUTF8(out->data + out->size, n_lower * 3 + 1, &bytes, lower, n_lower, &code);
    if (U_FAILURE(code)) return fail_icu("write UTF-8", code);
    out->size += (size_t)bytes;
    out->data[out->size] = '\0';
    return TD_OK;
}

td_status td_unicode_fold(td_unicode *unicode, const char *text, size_t bytes, const char *locale,
                          td_buffer *out)
{
    TD_REFUSE_IF(bytes > MAX_TEXT_BYTES / 9, TD_ERR_LIMIT, "a text of %zu bytes is too long: split it",
                 bytes);
    TD_CHECK(reserve_wide(unicode, 0, bytes + 1));
    UErrorCode code = U_ZERO_ERROR;
    int32_t units = 0;
    u_strFromUTF8(unicode->wide[0], (int32_t)bytes + 1, &units, text, (int32_t)bytes, &code);
    if (U_FAILURE(code)) return fail_icu("read UTF-8", code);
    /* The source lies in wide[0], which NFC overwrites only after lower case has been written to wide[1]. */
    return td_unicode_fold_wide(unicode, unicode->wide[0], units, locale, out);
}

bool td_unicode_is_letter(uint32_t codepoint)
{
    if (codepoint < 0x80) return (codepoint | 0x20) >= 'a' && (codepoint | 0x20) <= 'z';
    return (U_GET_GC_MASK((UChar32)codepoint) & (U_GC_L_MASK | U_GC_M_MASK | U_GC_NL_MASK)) != 0;
}

td_status td_unicode_append(td_buffer *out, uint32_t codepoint)
{
    unsigned char bytes[U8_MAX_LENGTH];
    size_t length = 0;
    U8_APPEND_UNSAFE(bytes, length, codepoint);
    return td_buffer_append(out, bytes, length);
}

uint32_t td_unicode_before(const char *text, size_t at)
{
    size_t start = at - 1;
    while (start > 0 && at - start < 4 && ((unsigned char)text[start] & 0xC0) == 0x80)
        --start;
    uint32_t codepoint = 0;
    td_text_utf8_next(text + start, at - start, &codepoint);
    return codepoint;
}
