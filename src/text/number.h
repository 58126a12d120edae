/* Finds numbers in folded text: groups, decimals, dates, times of day. Pure functions on zero-terminated
 * text; nothing is said here. Covered by tests/text/test_normalize.c.
 */
#ifndef TD_TEXT_NUMBER_H
#define TD_TEXT_NUMBER_H

#include <stdint.h>

#include "text/lang.h"

typedef struct td_number {
    const char *whole; /* digits, perhaps with separators of groups */
    const char *whole_end;
    const char *fraction; /* digits after the decimal mark, or NULL */
    const char *end;
    size_t n_digits; /* of the whole part */
    uint64_t value;  /* of the whole part, if it has at most 18 digits */
    bool grouped;
    bool chained; /* more dots and digits follow: 1.2.3 */
} td_number;

/* `text` starts with a digit, or with a point and a digit. */
td_number td_number_scan(const char *text, const td_lang_rules *rules);

/* Whole and fraction, near enough to choose a plural. */
double td_number_double(const td_number *number);

/* 12.05.1999, 12/05/99, 1999-05-12: three runs with one mark, one of them of four digits. Returns the end, or
 * NULL. */
const char *td_number_scan_date(const char *text, unsigned parts[3]);

/* 14:30 or 14h30, also 14.30 where `dotted`. Returns the end, or NULL if this is not a time of day. */
const char *td_number_scan_clock(const char *text, bool dotted, unsigned *hour, unsigned *minute);

/* Length of the run of ASCII digits at `text`. */
size_t td_number_run(const char *text);

/* Value of the first `digits` digits, saturating. */
uint64_t td_number_value(const char *text, size_t digits);

#endif
