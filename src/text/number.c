/* Numbers in text (number.h). */
#include "text/number.h"

#include <string.h>

#include "base/text.h"

enum { MAX_GROUPS = 12 };

size_t td_number_run(const char *text)
{
    size_t n = 0;
    while (td_text_is_digit(text[n]))
        ++n;
    return n;
}

uint64_t td_number_value(const char *text, size_t digits)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
        if (value > (UINT64_MAX - 9) / 10) return UINT64_MAX;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    return value;
}

/* The end of "1.234.567" at `text` if its marks make whole groups; else the end of the first run. */
static const char *scan_groups(const char *text, char mark, bool indian)
{
    size_t first = td_number_run(text);
    const char *at = text + first;
    if (first == 0 || first > 3 || (text[0] == '0')) return at;
    const char *whole = at; /* the end of the last run of three */
    for (int groups = 0; *at == mark && td_text_is_digit(at[1]); ++groups) {
        if (groups == MAX_GROUPS) return text + first;
        size_t run = td_number_run(at + 1);
        at += 1 + run;
        if (run == 3)
            whole = at;
        else if (!(indian && run == 2))
            break;
    }
    /* A run of another length after the groups: this was not a grouping ("1.234.5" is a version). */
    return at == whole ? whole : text + first;
}

td_number td_number_scan(const char *text, const td_lang_rules *rules)
{
    td_number number = {.whole = text, .whole_end = text + td_number_run(text)};
    char group = rules->decimal == '.' ? ',' : '.';
    const char marks[] = {group, rules->space_groups ? ' ' : group, '\''};
    for (size_t i = 0; i < sizeof marks && !number.grouped; ++i) {
        const char *end = scan_groups(text, marks[i], rules->indian_groups);
        number.grouped = end != number.whole_end;
        number.whole_end = end;
    }
    /* Two decimal points are none: "1,250,000" is grouped, whatever the language. */
    const char *foreign = scan_groups(text, rules->decimal, false);
    if (!number.grouped && foreign - text > 2 * (ptrdiff_t)strlen(",250")) {
        number.grouped = true;
        number.whole_end = foreign;
    }
    for (const char *at = number.whole; at < number.whole_end; ++at) {
        if (!td_text_is_digit(*at)) continue;
        if (++number.n_digits <= 18) number.value = number.value * 10 + (uint64_t)(*at - '0');
    }
    number.end = number.whole_end;
    bool decimal = *number.end == rules->decimal || (*number.end == '.' && !number.grouped);
    if (decimal && td_text_is_digit(number.end[1])) {
        number.fraction = number.end + 1;
        number.end = number.fraction + td_number_run(number.fraction);
    }
    number.chained = *number.end == '.' && td_text_is_digit(number.end[1]);
    return number;
}

double td_number_double(const td_number *number)
{
    double result = (double)number->value;
    double scale = 0.1;
    for (const char *at = number->fraction; at != NULL && at < number->end; ++at) {
        result += scale * (*at - '0');
        scale /= 10;
    }
    return result;
}

const char *td_number_scan_date(const char *text, unsigned parts[3])
{
    size_t runs[3];
    char mark = 0;
    for (int i = 0; i < 3; ++i) {
        if (i == 1) mark = *text;
        if (i > 0 && (*text++ != mark || mark == '\0' || strchr("./-", mark) == NULL)) return NULL;
        runs[i] = td_number_run(text);
        if (runs[i] == 0 || runs[i] > 4) return NULL;
        parts[i] = (unsigned)td_number_value(text, runs[i]);
        text += runs[i];
    }
    bool year_last = runs[0] <= 2 && runs[1] <= 2 && runs[2] == 4;
    bool year_first = runs[0] == 4 && runs[1] <= 2 && runs[2] <= 2;
    bool more = *text == mark && td_text_is_digit(text[1]);
    bool days = year_first ? parts[1] <= 12 && parts[2] <= 31 : parts[0] <= 31 && parts[1] <= 31;
    return (year_last || year_first) && !more && days ? text : NULL;
}

const char *td_number_scan_clock(const char *text, bool dotted, unsigned *hour, unsigned *minute)
{
    size_t hours = td_number_run(text);
    if (hours == 0 || hours > 2) return NULL;
    char mark = text[hours];
    const char *minutes = text + hours + 1;
    if (mark != ':' && mark != 'h' && !(dotted && mark == '.')) return NULL;
    if (td_number_run(minutes) != 2) return NULL;
    *hour = (unsigned)td_number_value(text, hours);
    *minute = (unsigned)td_number_value(minutes, 2);
    return *hour < 24 && *minute < 60 ? minutes + 2 : NULL;
}
