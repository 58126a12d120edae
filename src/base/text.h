/* Small text work: nearest name for "did you mean", sizes and durations for people, slugs, base64, strict
 * number parsing, UTF-8 stepping. Independent of the locale: numbers always have a point. Covered by
 * tests/unit/test_text.c.
 */
#ifndef TD_BASE_TEXT_H
#define TD_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum { TD_TEXT_FORMAT_BYTES = 32 };

/* Insertions, deletions, substitutions and swaps of neighbours that turn a into b, ignoring ASCII case. Texts
 * longer than 64 bytes count as wholly different (the longer length). */
size_t td_text_distance(const char *a, const char *b);

/* The candidate nearest to `word` if it is near enough to be a typing mistake (one edit per three
 * letters, at least one); the first of equals; otherwise NULL. Borrowed from `candidates`. */
const char *td_text_nearest(const char *word, const char *const *candidates, size_t n_candidates);

/* "512 B", "1.5 GiB". */
void td_text_format_bytes(uint64_t bytes, char out[TD_TEXT_FORMAT_BYTES]);

/* "850 us", "12.3 ms", "4.2 s", "2 min 05 s", "3 h 07 min", "2 d 04 h"; "?" for what is negative, not
 * finite or past 1e12 s. */
void td_text_format_duration(double seconds, char out[TD_TEXT_FORMAT_BYTES]);

/* The shortest digits that read back as the same finite double: "0.1", "1e-07". */
void td_text_format_double(double value, char out[TD_TEXT_FORMAT_BYTES]);

/* Lower-case ASCII letters and digits, everything else one '-' between them: "Radeon(TM) RX" ->
 * "radeon-tm-rx". Cut to `capacity`; "unnamed" if nothing is left. */
void td_text_slug(const char *text, char *out, size_t capacity);

static inline bool td_text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Base64 of RFC 4648 with its padding: writes td_text_base64_bytes(bytes) characters, and no end of text. */
static inline size_t td_text_base64_bytes(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

void td_text_base64(const void *data, size_t bytes, char *out);

/* Whether `needle` occurs in `text`, ignoring ASCII case. The empty needle does. */
bool td_text_contains(const char *text, const char *needle);

/* The whole text must be one decimal number in range: no spaces, no rest, no hexadecimal, no inf or nan.
 * Failure is TD_ERR_CONFIG with the text in the message, and *out untouched. */
td_status td_text_parse_u64(const char *text, uint64_t *out);
td_status td_text_parse_i64(const char *text, int64_t *out);
td_status td_text_parse_double(const char *text, double *out);

/* Decodes one character at `text` (at most `bytes` > 0 bytes) and returns its length. A byte that starts no
 * valid UTF-8 sequence gives U+FFFD and length 1. */
size_t td_text_utf8_next(const char *text, size_t bytes, uint32_t *codepoint);

/* Whether a character steers a terminal or the order of the text around it instead of being seen: C0, DEL, C1,
 * line and paragraph separators, marks and overrides of direction. */
bool td_text_is_control(uint32_t codepoint);

#endif
