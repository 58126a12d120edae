/* Numbers as they are read aloud: which of a date, time, amount, percentage, measure, ordinal, year, range or
 * plain number stands here, and its words (normalize_internal.h). Covered by tests/text/test_normalize.c.
 */
#include <string.h>

#include "base/text.h"
#include "text/normalize_internal.h"

bool td_expand_is_number(const char *text)
{
    return td_text_is_digit(*text) || (*text == '.' && td_text_is_digit(text[1]));
}

static void say(td_normalizer *n, const char *text)
{
    if (text != NULL) td_normalize_say(n, text, strlen(text));
}

static const char *skip_space(const char *text)
{
    return text + (*text == ' ');
}

static void say_digits(td_normalizer *n, const char *digits, const char *end)
{
    for (; digits < end && n->status == TD_OK; ++digits)
        if (td_text_is_digit(*digits)) say(n, td_speller_digit(n->speller, *digits - '0'));
}

static void say_value(td_normalizer *n, const char *ruleset, uint64_t value)
{
    td_buffer_clear(&n->words);
    if (n->status == TD_OK) n->status = td_speller_say(n->speller, ruleset, value, &n->words);
    if (n->status == TD_OK) td_normalize_say(n, n->words.data, n->words.size);
}

static bool is_sayable(const td_number *number)
{
    bool padded = number->n_digits > 1 && *number->whole == '0';
    return number->n_digits > 0 && number->n_digits <= TD_SPELL_MAX_DIGITS && !padded;
}

static void say_whole(td_normalizer *n, const td_number *number, const char *ruleset)
{
    if (is_sayable(number))
        say_value(n, ruleset, number->value);
    else
        say_digits(n, number->whole, number->whole_end);
}

static void say_number(td_normalizer *n, const td_number *number, const char *ruleset)
{
    say_whole(n, number, number->fraction == NULL ? ruleset : NULL);
    if (number->fraction == NULL) return;
    say(n, n->rules->point);
    say_digits(n, number->fraction, number->end);
}

static const char *choose_gender(const td_normalizer *n, char gender)
{
    return gender == 'm'   ? n->rules->masculine
           : gender == 'f' ? n->rules->feminine
           : gender == 'n' ? n->rules->neuter
                           : NULL;
}

/* The form of a counted noun, out of one, two or four ('|'); *bytes: its length. */
static const char *choose_form(const td_normalizer *n, const char *forms, const td_number *number,
                               size_t *bytes)
{
    size_t n_forms = 1;
    for (const char *bar = forms; (bar = strchr(bar, '|')) != NULL; ++bar)
        ++n_forms;
    td_plural plural = td_speller_plural(n->speller, td_number_double(number));
    size_t index = n_forms == 4   ? (number->fraction != NULL ? 3 : (size_t)plural)
                   : n_forms == 2 ? (plural == TD_PLURAL_ONE ? 0 : 1)
                                  : 0;
    for (; index > 0; --index)
        forms = strchr(forms, '|') + 1;
    *bytes = strcspn(forms, "|");
    return forms;
}

static void say_counted(td_normalizer *n, const td_number *number, td_lang_noun noun)
{
    size_t bytes = 0;
    say_number(n, number, choose_gender(n, noun.gender));
    const char *form = choose_form(n, noun.forms, number, &bytes);
    td_normalize_say(n, form, bytes);
}

static void finish(td_normalizer *n, const char *end)
{
    n->at = end;
    n->number_end = end;
}

/* --- dates and times --- */

static bool try_date(td_normalizer *n)
{
    unsigned parts[3];
    const char *end = td_number_scan_date(n->at, parts);
    if (end == NULL) return false;
    for (int i = 0; i < 3; ++i)
        say_value(n, parts[i] >= 1100 && parts[i] < 2100 ? n->rules->year : NULL, parts[i]);
    finish(n, end);
    return true;
}

/* Says `clock` with the hour, the minute and the noun form that the hour asks for. */
static void say_clock(td_normalizer *n, const char *clock, unsigned hour, unsigned minute)
{
    td_number count = {.value = hour};
    while (*clock != '\0') {
        size_t bytes = strcspn(clock, "{[");
        size_t from = strspn(clock, " ");
        size_t words = bytes;
        while (words > from && clock[words - 1] == ' ')
            --words;
        if (words > from) td_normalize_say(n, clock + from, words - from);
        if (n->rules->joined && bytes > 0 && clock[bytes - 1] == ' ') n->space = true;
        clock += bytes;
        if (*clock == '[') {
            size_t all = strcspn(clock, "]");
            char forms[64];
            memcpy(forms, clock + 1, all - 1);
            forms[all - 1] = '\0';
            const char *form = choose_form(n, forms, &count, &bytes);
            td_normalize_say(n, form, bytes);
            clock += all + 1;
        } else if (*clock == '{') {
            bool is_minute = clock[1] == 'm';
            if (is_minute && minute < 10) say(n, n->rules->clock_zero);
            say_value(n, is_minute ? NULL : n->rules->clock_ruleset, is_minute ? minute : hour);
            clock += 3;
            if (n->rules->joined && *clock == ' ') n->space = true;
        }
    }
}

static bool try_clock(td_normalizer *n)
{
    const td_lang_rules *rules = n->rules;
    const char *tail = NULL;
    const char *after = n->at + strspn(n->at, "0123456789.");
    bool dotted = td_normalize_match_list(n, skip_space(after), rules->clock_tail, &tail);
    unsigned hour = 0;
    unsigned minute = 0;
    const char *end = td_number_scan_clock(n->at, dotted, &hour, &minute);
    if (end == NULL || (*end == ':' && td_text_is_digit(end[1]) && td_number_run(end + 1) != 2)) return false;
    if (td_normalize_match_list(n, skip_space(end), rules->clock_tail, &tail)) end = tail;
    n->number_end = end;
    const char *ignored = NULL;
    const td_lang_word *half = td_normalize_match_word(n, skip_space(end), &ignored);
    bool bare = half != NULL && half->when == TD_WHEN_AFTER_NUMBER; /* "3:00 pm" has no o'clock */
    say_clock(n, minute > 0 ? rules->clock : bare ? "{h}" : rules->clock_hour, hour, minute);
    if (*end == ':' && td_text_is_digit(end[1])) ++end;
    finish(n, end);
    return true;
}

/* --- money, measures, percentages --- */

static void say_money(td_normalizer *n, const td_number *number, const td_lang_money *money)
{
    bool cents =
        money->minor.forms != NULL && number->fraction != NULL && number->end - number->fraction == 2;
    if (!cents) {
        say_counted(n, number, money->major);
        return;
    }
    td_number whole = *number;
    whole.fraction = NULL;
    td_number part = {.whole = number->fraction, .whole_end = number->end, .end = number->end, .n_digits = 2};
    part.value = td_number_value(number->fraction, 2);
    if (part.value < 10) {
        part.n_digits = 1;
        ++part.whole;
    }
    if (whole.value > 0 || whole.n_digits > TD_SPELL_MAX_DIGITS || part.value == 0) {
        say_counted(n, &whole, money->major);
        if (part.value == 0) return;
        say(n, n->rules->money_joint);
    }
    say_counted(n, &part, money->minor);
}

/* "$5 million": the scale comes before the noun. */
static bool try_scaled_money(td_normalizer *n, const td_number *number, const td_lang_money *money)
{
    const char *scale = skip_space(number->end);
    const char *end = NULL;
    if (!td_normalize_match_list(n, scale, n->rules->scales, &end)) return false;
    td_number millions = {.value = 1000000};
    size_t bytes = 0;
    say_number(n, number, NULL);
    td_normalize_say(n, scale, (size_t)(end - scale));
    say(n, n->rules->scale_joint);
    const char *form = choose_form(n, money->major.forms, &millions, &bytes);
    td_normalize_say(n, form, bytes);
    finish(n, end);
    return true;
}

static const td_lang_unit *match_unit(const td_normalizer *n, const char *text, const char **end)
{
    const td_lang_unit *best = NULL;
    for (const td_lang_unit *unit = n->rules->units; unit->key != NULL; ++unit) {
        const char *stop = NULL;
        if (unit->key[0] != text[0] || !td_normalize_match(n, text, unit->key, &stop)) continue;
        if (td_text_is_digit(*stop)) continue;
        if (best == NULL || stop > *end) {
            best = unit;
            *end = stop;
        }
    }
    return best;
}

static bool try_measure(td_normalizer *n, const td_number *number)
{
    const char *mark = skip_space(number->end);
    const char *end = NULL;
    if (*mark == '%' && n->rules->percent_before != NULL) {
        say(n, n->rules->percent_before);
        say_number(n, number, NULL);
        finish(n, mark + 1);
        return true;
    }
    const td_lang_money *money = td_normalize_match_money(n, mark, &end);
    const td_lang_unit *unit = money == NULL ? match_unit(n, mark, &end) : NULL;
    if (money != NULL)
        say_money(n, number, money);
    else if (unit != NULL)
        say_counted(n, number, unit->noun);
    else
        return false;
    finish(n, end);
    return true;
}

/* --- ordinals and years --- */

static bool equals_word(const char *word, size_t bytes, const char *other)
{
    return strlen(other) == bytes && memcmp(word, other, bytes) == 0;
}

static bool is_listed(const char *word, size_t bytes, const char *list)
{
    while (bytes > 0 && list != NULL && *list != '\0') {
        size_t length = strcspn(list, " ");
        if (length == bytes && memcmp(word, list, bytes) == 0) return true;
        list += length + (list[length] == ' ');
    }
    return false;
}

/* The word right before `at`, with at most one space between; *bytes: its length, 0 = none. */
static const char *find_word_before(const td_normalizer *n, const char *at, size_t *bytes)
{
    const char *end = at > n->text && at[-1] == ' ' ? at - 1 : at;
    const char *start = end;
    while (start > n->text && ((start[-1] >= 'a' && start[-1] <= 'z') || (start[-1] & 0x80) != 0))
        --start;
    *bytes = (size_t)(end - start);
    return start;
}

static bool starts_with_letter(const char *text)
{
    uint32_t codepoint = 0;
    td_text_utf8_next(text, strnlen(text, 4) + 1, &codepoint);
    return td_unicode_is_letter(codepoint);
}

static void say_ordinal(td_normalizer *n, const td_number *number, const char *ruleset)
{
    uint64_t rest = number->value % 100;
    if (ruleset != NULL || n->rules->ordinals == NULL || rest == 0) {
        say_whole(n, number, ruleset);
        return;
    }
    if (number->value >= 100) say_value(n, NULL, number->value - rest);
    if (rest >= 20) say(n, n->rules->ordinals[19 + rest / 10 - 2]);
    if (rest < 20) say(n, n->rules->ordinals[rest - 1]);
    if (rest > 20 && rest % 10 > 0) say(n, n->rules->ordinals[rest % 10 - 1]);
}

static bool try_suffix_ordinal(td_normalizer *n, const td_number *number)
{
    const td_lang_ordinal *best = NULL;
    const char *end = NULL;
    for (const td_lang_ordinal *row = n->rules->suffix_ordinals; row != NULL && row->mark != NULL; ++row) {
        const char *stop = NULL;
        if (td_normalize_match(n, number->end, row->mark, &stop) && (best == NULL || stop > end)) {
            best = row;
            end = stop;
        }
    }
    if (best == NULL || number->fraction != NULL || !is_sayable(number)) return false;
    say_ordinal(n, number, best->ruleset);
    finish(n, end);
    return true;
}

/* "am 3. Mai", "3 maja": a day before its month, or a dot after an article. */
static bool try_dot_ordinal(td_normalizer *n, const td_number *number)
{
    if (n->rules->dot_ordinals == NULL || number->fraction != NULL || number->n_digits > 3) return false;
    bool dot = *number->end == '.';
    const char *next = skip_space(number->end + dot);
    const char *ignored = NULL;
    if (next == number->end + dot || !starts_with_letter(next) || !is_sayable(number)) return false;
    bool day = number->value >= 1 && number->value <= 31 &&
               td_normalize_match_list(n, next, n->rules->months, &ignored);
    if (!dot && !(day && n->rules->day_ordinals)) return false;
    size_t bytes = 0;
    const char *before = find_word_before(n, number->whole, &bytes);
    const td_lang_ordinal *row = n->rules->dot_ordinals;
    while (row->mark != NULL && strcmp(row->mark, "*") != 0 &&
           !(row->mark[0] == '\0' ? day : equals_word(before, bytes, row->mark)))
        ++row;
    if (row->mark == NULL) return false;
    say_ordinal(n, number, row->ruleset);
    finish(n, number->end + dot);
    n->day_end = n->at;
    return true;
}

/* The rule set by which to read the number as a year, or NULL if it is none. */
static const char *find_year(const td_normalizer *n, const td_number *number)
{
    const td_lang_rules *rules = n->rules;
    if (rules->year == NULL || number->n_digits != 4 || number->grouped || number->fraction != NULL)
        return NULL;
    if (!rules->joined && (number->value < 1100 || number->value >= 2100)) return NULL;
    for (const td_lang_ordinal *row = rules->years_after; row != NULL && row->mark != NULL; ++row) {
        const char *ignored = NULL;
        if (td_normalize_match(n, skip_space(number->end), row->mark, &ignored)) return row->ruleset;
    }
    if (n->year_next) return rules->year;
    if (number->whole > n->text && number->whole[-1] == '(' && *number->end == ')') return rules->year;
    if (n->day_end != NULL && number->whole == n->day_end + strspn(n->day_end, ", ")) return rules->year;
    size_t bytes = 0;
    const char *before = find_word_before(n, number->whole, &bytes);
    bool listed = is_listed(before, bytes, rules->year_before) || is_listed(before, bytes, rules->months);
    return listed ? rules->year : NULL;
}

/* "1990s", "80's": the plural of the words. */
static bool try_decade(td_normalizer *n, const td_number *number)
{
    const char *end = number->end + (*number->end == '\'');
    const char *stop = NULL;
    bool whole = number->fraction == NULL && number->value % 10 == 0 && is_sayable(number);
    if (!n->rules->decades || !whole || !td_normalize_match(n, end, "s", &stop)) return false;
    bool year = number->n_digits == 4 && number->value >= 1100 && number->value < 2100;
    say_value(n, year ? n->rules->year : NULL, number->value);
    if (n->status == TD_OK && n->out.data[n->out.size - 1] == 'y') {
        --n->out.size;
        n->status = td_buffer_append(&n->out, "ies", 3);
    } else if (n->status == TD_OK) {
        n->status = td_buffer_append(&n->out, "s", 1);
    }
    finish(n, stop);
    return true;
}

/* --- plain numbers --- */

/* 1.2.3.4: each run by itself. */
static void say_chain(td_normalizer *n)
{
    for (bool first = true;; first = false) {
        size_t digits = td_number_run(n->at);
        td_number run = {.whole = n->at, .whole_end = n->at + digits, .n_digits = digits};
        run.value = td_number_value(n->at, digits);
        if (!first && n->rules->decimal == '.') say(n, n->rules->point);
        say_whole(n, &run, NULL);
        finish(n, n->at + digits);
        if (*n->at != '.' || !td_text_is_digit(n->at[1]) || n->status != TD_OK) return;
        ++n->at;
    }
}

/* "10-20", "1/2": what is said between two numbers. */
static void join_next(td_normalizer *n, const td_number *number, bool year)
{
    if (!td_text_is_digit(n->at[0] != '\0' ? n->at[1] : '\0')) return;
    if (*n->at == '/') {
        say(n, n->rules->over);
        ++n->at;
    } else if (*n->at == '-' && n->rules->range != NULL) {
        td_number next = td_number_scan(n->at + 1, n->rules);
        if (!is_sayable(&next) || !is_sayable(number) || next.value <= number->value) return;
        say(n, n->rules->range);
        n->year_next = year;
        ++n->at;
    }
}

static void say_plain(td_normalizer *n, const td_number *number)
{
    const char *ignored = NULL;
    bool hour = td_normalize_match_list(n, skip_space(number->end), n->rules->clock_tail, &ignored);
    say_number(n, number, hour ? n->rules->clock_ruleset : NULL);
    finish(n, number->end);
    size_t bytes = 0;
    const char *before = find_word_before(n, number->whole, &bytes);
    if (is_listed(before, bytes, n->rules->months)) n->day_end = number->end;
}

void td_expand_number(td_normalizer *n, const td_lang_money *money)
{
    if (money == NULL && (try_date(n) || try_clock(n))) return;
    td_number number = td_number_scan(n->at, n->rules);
    if (number.chained) {
        say_chain(n);
        return;
    }
    if (money != NULL) {
        if (try_scaled_money(n, &number, money)) return;
        say_money(n, &number, money);
        finish(n, number.end);
        return;
    }
    if (try_suffix_ordinal(n, &number) || try_decade(n, &number)) return;
    const char *year = find_year(n, &number);
    td_number next = {0};
    if (*number.end == '-' && td_text_is_digit(number.end[1]))
        next = td_number_scan(number.end + 1, n->rules);
    if (n->rules->year != NULL && !n->rules->joined && next.n_digits == 4 && number.n_digits == 4 &&
        number.value >= 1100 && next.value < 2100 && next.value > number.value)
        year = n->rules->year;
    n->year_next = false;
    if (year != NULL) {
        say_value(n, year, number.value);
        finish(n, number.end);
    } else if (try_dot_ordinal(n, &number) || try_measure(n, &number)) {
        return;
    } else {
        say_plain(n, &number);
    }
    join_next(n, &number, year != NULL);
}
