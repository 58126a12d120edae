/* Nearest names, formatting for people, strict parsing, UTF-8. All numbers are written and read in the C
 * locale, since the program may have set another for messages. Covered by tests/unit/test_text.c. */
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

enum { MAX_WORD_BYTES = 64, MAX_SHOWN_BYTES = 40 };

#define MAX_DURATION_S 1e12
#define MAX_WHOLE_DOUBLE 1e15 /* whole numbers below are written without an exponent */

static char lower_ascii(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t td_text_distance(const char *a, const char *b)
{
    size_t a_bytes = strlen(a), b_bytes = strlen(b);
    if (a_bytes > MAX_WORD_BYTES || b_bytes > MAX_WORD_BYTES) return a_bytes > b_bytes ? a_bytes : b_bytes;
    /* d[i][j]: distance of the first i bytes of a to the first j of b; three rows are enough for swaps. */
    size_t rows[3][MAX_WORD_BYTES + 1];
    for (size_t j = 0; j <= b_bytes; ++j)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_bytes; ++i) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *before2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_bytes; ++j) {
            char ca = lower_ascii(a[i - 1]), cb = lower_ascii(b[j - 1]);
            size_t best = min_of(before[j], now[j - 1]) + 1;
            best = min_of(best, before[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == lower_ascii(b[j - 2]) && cb == lower_ascii(a[i - 2]))
                best = min_of(best, before2[j - 2] + 1);
            now[j] = best;
        }
    }
    return rows[a_bytes % 3][b_bytes];
}

const char *td_text_nearest(const char *word, const char *const *candidates, size_t n_candidates)
{
    const char *nearest = NULL;
    size_t bytes = strlen(word);
    /* The best so far must be beaten; at first, being one too far. A word of one letter is near to nothing.
     */
    size_t best = bytes < 2 ? 1 : (bytes < 6 ? 1 : bytes / 3) + 1;
    for (size_t i = 0; i < n_candidates; ++i) {
        size_t distance = td_text_distance(word, candidates[i]);
        if (distance >= best) continue;
        best = distance;
        nearest = candidates[i];
    }
    return nearest;
}

static void format_plainly(char out[TD_TEXT_FORMAT_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* snprintf in the C locale, for this thread only. */
static void format_plainly(char out[TD_TEXT_FORMAT_BYTES], const char *format, ...)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t former = uselocale(plain);
    va_list args;
    va_start(args, format);
    vsnprintf(out, TD_TEXT_FORMAT_BYTES, format, args);
    va_end(args);
    uselocale(former);
    if (plain) freelocale(plain);
}

/* One decimal, none if it is zero: "1.5 GiB", "16 GiB". */
static void format_with_unit(double value, const char *unit, char out[TD_TEXT_FORMAT_BYTES])
{
    double tenths = round(value * 10);
    format_plainly(out, fmod(tenths, 10) == 0 ? "%.0f %s" : "%.1f %s", tenths / 10, unit);
}

void td_text_format_bytes(uint64_t bytes, char out[TD_TEXT_FORMAT_BYTES])
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;
    /* 1023.95 would be shown as 1024. */
    while (value >= (unit ? 1023.95 : 1024)) {
        value /= 1024;
        unit++;
    }
    format_with_unit(value, UNITS[unit], out);
}

void td_text_format_duration(double seconds, char out[TD_TEXT_FORMAT_BYTES])
{
    if (!(seconds >= 0 && seconds < MAX_DURATION_S)) {
        format_plainly(out, "?");
    } else if (seconds > 0 && seconds < 0.99995e-3) {
        format_with_unit(seconds * 1e6, "us", out);
    } else if (seconds > 0 && seconds < 0.99995) {
        format_with_unit(seconds * 1e3, "ms", out);
    } else if (seconds < 59.95) {
        format_with_unit(seconds, "s", out);
    } else if (seconds < 3599.5) {
        int whole = (int)lround(seconds);
        format_plainly(out, "%d min %02d s", whole / 60, whole % 60);
    } else if (seconds < 86370) {
        int minutes = (int)lround(seconds / 60);
        format_plainly(out, "%d h %02d min", minutes / 60, minutes % 60);
    } else {
        double hours = round(seconds / 3600);
        format_plainly(out, "%.0f d %02.0f h", floor(hours / 24), fmod(hours, 24));
    }
}

static double read_double(const char *text, char **end)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = plain ? strtod_l(text, end, plain) : strtod(text, end);
    if (plain) freelocale(plain);
    return value;
}

void td_text_format_double(double value, char out[TD_TEXT_FORMAT_BYTES])
{
    if (fabs(value) < MAX_WHOLE_DOUBLE && value == rint(value)) {
        format_plainly(out, "%.0f", value);
        return;
    }
    /* 17 digits always read back; most numbers people write need few. */
    for (int digits = 1; digits <= 17; ++digits) {
        format_plainly(out, "%.*g", digits, value);
        if (read_double(out, NULL) == value) return;
    }
}

void td_text_slug(const char *text, char *out, size_t capacity)
{
    size_t used = 0;
    bool gap = false;
    for (; *text && used + 1 < capacity; ++text) {
        char c = lower_ascii(*text);
        if (!td_text_is_digit(c) && !(c >= 'a' && c <= 'z')) {
            gap = used > 0;
            continue;
        }
        if (gap) {
            if (used + 2 >= capacity) break;
            out[used++] = '-';
        }
        gap = false;
        out[used++] = c;
    }
    if (used == 0)
        snprintf(out, capacity, "unnamed");
    else
        out[used] = '\0';
}

void td_text_base64(const void *data, size_t bytes, char *out)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = data;
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        uint32_t word = (uint32_t)from[i] << 16;
        if (left > 1) word |= (uint32_t)from[i + 1] << 8;
        if (left > 2) word |= from[i + 2];
        *out++ = DIGITS[word >> 18];
        *out++ = DIGITS[word >> 12 & 63];
        *out++ = left > 1 ? DIGITS[word >> 6 & 63] : '=';
        *out++ = left > 2 ? DIGITS[word & 63] : '=';
    }
}

bool td_text_contains(const char *text, const char *needle)
{
    size_t bytes = strlen(needle);
    for (;; ++text) {
        size_t same = 0;
        while (same < bytes && lower_ascii(text[same]) == lower_ascii(needle[same]))
            same++;
        if (same == bytes) return true;
        if (!*text) return false;
    }
}

td_status td_text_parse_u64(const char *text, uint64_t *out)
{
    errno = 0;
    char *end = NULL;
    unsigned long long value = td_text_is_digit(*text) ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno == ERANGE || value > UINT64_MAX) {
        return TD_FAIL(TD_ERR_CONFIG,
                       "'%.*s' is not a whole number from 0 to %ju; write digits only, such as 42",
                       MAX_SHOWN_BYTES, text, (uintmax_t)UINT64_MAX);
    }
    *out = value;
    return TD_OK;
}

td_status td_text_parse_i64(const char *text, int64_t *out)
{
    errno = 0;
    char *end = NULL;
    long long value = td_text_is_digit(text[text[0] == '-']) ? strtoll(text, &end, 10) : 0;
    if (!end || *end || errno == ERANGE) {
        return TD_FAIL(TD_ERR_CONFIG,
                       "'%.*s' is not a whole number from %jd to %jd; write digits only, such as -3 or 42",
                       MAX_SHOWN_BYTES, text, (intmax_t)INT64_MIN, (intmax_t)INT64_MAX);
    }
    *out = value;
    return TD_OK;
}

td_status td_text_parse_double(const char *text, double *out)
{
    char *end = NULL;
    bool plain = text[strspn(text, "0123456789+-.eE")] == '\0';
    double value = plain ? read_double(text, &end) : 0;
    if (!plain || end == text || *end || isinf(value)) {
        return TD_FAIL(TD_ERR_CONFIG, "'%.*s' is not a number in range; write it like 42, 0.5 or 3e-4",
                       MAX_SHOWN_BYTES, text);
    }
    *out = value;
    return TD_OK;
}

size_t td_text_utf8_next(const char *text, size_t bytes, uint32_t *codepoint)
{
    const unsigned char *in = (const unsigned char *)text;
    size_t length = in[0] < 0x80   ? 1
                    : in[0] < 0xC2 ? 0
                    : in[0] < 0xE0 ? 2
                    : in[0] < 0xF0 ? 3
                    : in[0] < 0xF5 ? 4
                                   : 0;
    uint32_t value = length == 1 ? in[0] : in[0] & (0x7Fu >> length);
    bool valid = length > 0 && length <= bytes;
    for (size_t i = 1; valid && i < length; ++i) {
        valid = (in[i] & 0xC0) == 0x80;
        value = value << 6 | (in[i] & 0x3F);
    }
    /* Longer than needed, halves of UTF-16 pairs, past the last plane. */
    if (length == 3) valid = valid && value >= 0x800 && (value < 0xD800 || value > 0xDFFF);
    if (length == 4) valid = valid && value >= 0x10000 && value <= 0x10FFFF;
    *codepoint = valid ? value : 0xFFFD;
    return valid ? length : 1;
}

bool td_text_is_control(uint32_t codepoint)
{
    return codepoint < 0x20 || (codepoint >= 0x7F && codepoint < 0xA0) || codepoint == 0x61C ||
           codepoint == 0x200E || codepoint == 0x200F || (codepoint >= 0x2028 && codepoint <= 0x202E) ||
           (codepoint >= 0x2066 && codepoint <= 0x2069);
}
