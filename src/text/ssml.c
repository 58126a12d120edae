/* See ssml.h. One pass over the text with a stack of open elements. */
#include "text/ssml.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "text/buffer.h"
#include "text/unicode.h"

enum { MAX_DEPTH = 10, NAME_BYTES = 32, VALUE_BYTES = 32, ENTITY_BYTES = 12, SHOWN_BYTES = 200 };

#define NO_PAUSE (-1.0)

typedef struct element {
    char name[NAME_BYTES]; /* its beginning, if it is longer */
    size_t name_at, name_bytes;
    double rate; /* of its content */
} element;

typedef struct reader {
    const char *text;
    size_t bytes, at;
    element open[MAX_DEPTH];
    size_t depth;
    td_buffer said; /* of the part at hand */
    td_ssml *out;
} reader;

/* One attribute; too long a value is cut, which is never a value that means something. */
typedef struct attribute {
    char name[NAME_BYTES], value[VALUE_BYTES];
    size_t value_at;
} attribute;

static td_status refuse(const reader *r, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static td_status refuse(const reader *r, size_t at, const char *format, ...)
{
    char what[SHOWN_BYTES];
    size_t line = 1, column = 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < at && i < r->bytes; i++) {
        const bool is_first = ((unsigned char)r->text[i] & 0xC0) != 0x80;
        line += r->text[i] == '\n';
        column = r->text[i] == '\n' ? 1 : column + is_first;
    }
    return TD_FAIL(TD_ERR_FORMAT, "SSML, line %zu, column %zu: %s", line, column, what);
}

/* ---------------------------------------------------------------- characters */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name(char c)
{
    return c != 0 && !is_space(c) && strchr("<>/=\"'&", c) == NULL;
}

static bool has(const reader *r, const char *what)
{
    const size_t n = strlen(what);
    return r->bytes - r->at >= n && memcmp(r->text + r->at, what, n) == 0;
}

static char peek(const reader *r)
{
    return r->at < r->bytes ? r->text[r->at] : 0;
}

static void skip_spaces(reader *r)
{
    while (is_space(peek(r)))
        r->at++;
}

/* Up to and with `what`; false if it does not come. */
static bool skip_past(reader *r, const char *what)
{
    for (; r->at < r->bytes; r->at++) {
        if (!has(r, what)) continue;
        r->at += strlen(what);
        return true;
    }
    return false;
}

static size_t skip_name(reader *r, char name[NAME_BYTES])
{
    const size_t first = r->at;
    while (is_name(peek(r)))
        r->at++;
    const size_t n = r->at - first;
    snprintf(name, NAME_BYTES, "%.*s", (int)(n < NAME_BYTES ? n : NAME_BYTES - 1), r->text + first);
    return n;
}

/* ---------------------------------------------------------------- parts */

static double get_rate(const reader *r)
{
    return r->depth > 0 ? r->open[r->depth - 1].rate : 1;
}

static bool has_words(const td_buffer *said)
{
    for (size_t i = 0; i < said->size; i++)
        if (!is_space(said->data[i])) return true;
    return false;
}

/* Ends the part at hand, with a pause if it is not below 0. Without words it only adds that to the part before. */
static td_status end_part(reader *r, double pause_s, td_ssml_end end)
{
    td_ssml *out = r->out;
    const bool is_empty = !has_words(&r->said);
    if (is_empty && out->count > 0) {
        td_ssml_part *last = &out->parts[out->count - 1];
        if (pause_s >= 0) last->pause_s = pause_s + (last->pause_s > 0 ? last->pause_s : 0);
        if (end > last->end) last->end = end;
        td_buffer_clear(&r->said);
        return TD_OK;
    }
    if (is_empty && pause_s < 0) return TD_OK;
    TD_CHECK(td_alloc_grow(&out->parts, &out->capacity, out->count + 1, sizeof *out->parts));
    TD_CHECK(td_buffer_append(&r->said, "", 0));
    out->parts[out->count++] =
        (td_ssml_part){.text = r->said.data, .rate = get_rate(r), .pause_s = pause_s, .end = end};
    r->said = (td_buffer){0};
    return TD_OK;
}

static void note_ignored(reader *r, const char *element_name, const char *attribute_name)
{
    char one[2 * NAME_BYTES + 4];
    char *to = r->out->ignored;
    const size_t used = strlen(to), room = sizeof r->out->ignored;
    snprintf(one, sizeof one, "<%s%s%s>", element_name, *attribute_name ? " " : "", attribute_name);
    if (strstr(to, one) || used + strlen(one) + 3 > room) return;
    snprintf(to + used, room - used, "%s%s", used ? ", " : "", one);
}

/* ---------------------------------------------------------------- text and entities */

static bool is_character(unsigned long c)
{
    return (c >= ' ' || c == '\t' || c == '\n' || c == '\r') && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
}

/* At '&'. */
static td_status read_entity(reader *r)
{
    static const struct {
        const char *name;
        char c;
    } NAMED[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    char name[ENTITY_BYTES] = "";
    const size_t first = r->at++;
    size_t n = 0;
    while (n + 1 < sizeof name && peek(r) && strchr(";<&", peek(r)) == NULL && !is_space(peek(r)))
        name[n++] = r->text[r->at++];
    if (peek(r) != ';')
        return refuse(r, first, "an '&' that begins no entity; write &amp; for the sign itself");
    r->at++;
    for (size_t i = 0; i < sizeof NAMED / sizeof NAMED[0]; i++)
        if (strcmp(NAMED[i].name, name) == 0) return td_unicode_append(&r->said, (uint32_t)NAMED[i].c);
    const bool is_hex = name[0] == '#' && name[1] == 'x';
    const char *digits = name + 1 + is_hex;
    const bool is_number = name[0] == '#' && *digits &&
                           strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789") == strlen(digits);
    const unsigned long number = is_number ? strtoul(digits, NULL, is_hex ? 16 : 10) : 0;
    if (!is_number || !is_character(number))
        return refuse(r, first, "'&%s;' is not known; there are &amp; &lt; &gt; &quot; &apos; and numbers",
                      name);
    return td_unicode_append(&r->said, (uint32_t)number);
}

/* Characters up to the next mark. Lines mean nothing in SSML. */
static td_status read_text(reader *r)
{
    const size_t first = r->at;
    while (r->at < r->bytes && r->text[r->at] != '<' && r->text[r->at] != '&')
        r->at++;
    const size_t from = r->said.size;
    TD_CHECK(td_buffer_append(&r->said, r->text + first, r->at - first));
    for (size_t i = from; i < r->said.size; i++)
        if (is_space(r->said.data[i])) r->said.data[i] = ' ';
    return TD_OK;
}

/* ---------------------------------------------------------------- values */

static td_status read_time(const reader *r, const attribute *a, double *out)
{
    static const char WANTED[] = "a time such as 300ms or 1.5s, at most 60s";
    char number[VALUE_BYTES];
    const size_t n = strlen(a->value);
    const size_t unit = n > 2 && strcmp(a->value + n - 2, "ms") == 0  ? 2
                        : n > 1 && strcmp(a->value + n - 1, "s") == 0 ? 1
                                                                      : 0;
    snprintf(number, sizeof number, "%.*s", (int)(n - unit), a->value);
    if (unit == 0 || td_text_parse_double(number, out) != TD_OK || *out < 0)
        return refuse(r, a->value_at, "'%s' is not %s", a->value, WANTED);
    if (unit == 2) *out /= 1000;
    if (*out > TD_SSML_MOST_PAUSE_S) return refuse(r, a->value_at, "'%s' is not %s", a->value, WANTED);
    return TD_OK;
}

typedef struct word_value {
    const char *word;
    double value;
} word_value;

static bool find_word(const word_value *words, size_t n, const char *word, double *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i].word, word) != 0) continue;
        *out = words[i].value;
        return true;
    }
    return false;
}

/* "slow", "80%", "+20%", "1.2"; a factor of what holds around it. */
static td_status read_rate(const reader *r, const attribute *a, double *rate)
{
    static const word_value WORDS[] = {{"x-slow", 0.5}, {"slow", 0.75}, {"medium", 1},
                                       {"default", 1},  {"fast", 1.25}, {"x-fast", 1.75}};
    char number[VALUE_BYTES];
    double factor;
    const size_t n = strlen(a->value);
    const bool is_percent = n > 1 && a->value[n - 1] == '%';
    const bool is_change = is_percent && strchr("+-", a->value[0]) != NULL;
    const size_t first = a->value[0] == '+';
    snprintf(number, sizeof number, "%.*s", (int)(n - is_percent - first), a->value + first);
    if (!find_word(WORDS, sizeof WORDS / sizeof WORDS[0], a->value, &factor)) {
        if (td_text_parse_double(number, &factor) != TD_OK)
            return refuse(r, a->value_at, "'%s' is not a rate such as 80%%, 1.2 or slow", a->value);
        if (is_percent) factor = is_change ? 1 + factor / 100 : factor / 100;
    }
    *rate *= factor;
    if (!(*rate >= TD_SSML_LEAST_RATE && *rate <= TD_SSML_MOST_RATE))
        return refuse(r, a->value_at, "a rate of %g; it is %g to %g times the usual one", *rate,
                      TD_SSML_LEAST_RATE, TD_SSML_MOST_RATE);
    return TD_OK;
}

static td_status read_strength(const reader *r, const attribute *a, double *pause_s)
{
    static const word_value WORDS[] = {{"none", 0},     {"x-weak", 0.05}, {"weak", 0.1},
                                       {"medium", 0.2}, {"strong", 0.5},  {"x-strong", 1}};
    if (find_word(WORDS, sizeof WORDS / sizeof WORDS[0], a->value, pause_s)) return TD_OK;
    return refuse(r, a->value_at, "'%s' is not a strength: none, x-weak, weak, medium, strong, x-strong",
                  a->value);
}

/* ---------------------------------------------------------------- elements */

/* name="value", with the reader at the name. */
static td_status read_attribute(reader *r, attribute *a)
{
    const size_t first = r->at;
    if (skip_name(r, a->name) == 0) return refuse(r, first, "an attribute or '>' is missing here");
    skip_spaces(r);
    if (peek(r) != '=')
        return refuse(r, r->at, "attribute '%s' has no value; write %s=\"...\"", a->name, a->name);
    r->at++;
    skip_spaces(r);
    const char quote = peek(r);
    if (quote != '"' && quote != '\'') return refuse(r, r->at, "the value of '%s' is not in quotes", a->name);
    const size_t begin = a->value_at = ++r->at;
    while (peek(r) && peek(r) != quote && peek(r) != '<')
        r->at++;
    if (peek(r) != quote) return refuse(r, begin, "the value of '%s' does not end", a->name);
    const size_t n = r->at++ - begin;
    snprintf(a->value, sizeof a->value, "%.*s", (int)(n < VALUE_BYTES ? n : VALUE_BYTES - 1),
             r->text + begin);
    return TD_OK;
}

/* What an attribute of an element means. */
static td_status take_attribute(reader *r, const element *e, const attribute *a, double *rate,
                                double *pause_s)
{
    if (strcmp(e->name, "break") == 0) {
        if (strcmp(a->name, "time") == 0) return read_time(r, a, pause_s);
        if (strcmp(a->name, "strength") == 0 && *pause_s < 0) return read_strength(r, a, pause_s);
        if (strcmp(a->name, "strength") == 0) return TD_OK; /* the time decides */
    }
    if (strcmp(e->name, "prosody") == 0 && strcmp(a->name, "rate") == 0) return read_rate(r, a, rate);
    const bool is_known = strcmp(e->name, "break") == 0 || strcmp(e->name, "prosody") == 0;
    if (is_known) note_ignored(r, e->name, a->name);
    return TD_OK;
}

/* Attributes up to '>' or '/>'. */
static td_status read_attributes(reader *r, const element *e, double *rate, double *pause_s, bool *is_closed)
{
    attribute a;
    for (;;) {
        skip_spaces(r);
        *is_closed = has(r, "/>");
        if (*is_closed || peek(r) == '>') break;
        if (r->at >= r->bytes) return refuse(r, e->name_at, "<%s does not end; a '>' is missing", e->name);
        TD_CHECK(read_attribute(r, &a));
        TD_CHECK(take_attribute(r, e, &a, rate, pause_s));
    }
    r->at += *is_closed ? 2 : 1;
    return TD_OK;
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* What parts of the text an element's edge ends. */
static td_ssml_end get_edge(const char *name)
{
    return strcmp(name, "p") == 0   ? TD_SSML_PARAGRAPH
           : strcmp(name, "s") == 0 ? TD_SSML_SENTENCE
                                    : TD_SSML_WITHIN;
}

static bool ends_parts(const char *name)
{
    static const char *const NAMES[] = {"p", "s", "prosody"};
    return is_one_of(name, NAMES, sizeof NAMES / sizeof NAMES[0]);
}

/* At '<' of a start tag. */
static td_status open_element(reader *r)
{
    static const char *const KNOWN[] = {"speak", "break", "prosody", "p", "s"};
    static const double USUAL_BREAK_S = 0.2;
    const size_t first = r->at++;
    element e = {.name_at = r->at};
    double rate = get_rate(r), pause_s = NO_PAUSE;
    bool is_closed;
    e.name_bytes = skip_name(r, e.name);
    if (e.name_bytes == 0)
        return refuse(r, first, "a '<' that begins no element; write &lt; for the sign itself");
    if (strcmp(e.name, "speak") == 0 && r->depth > 0) return refuse(r, first, "<speak> inside <speak>");
    if (!is_one_of(e.name, KNOWN, sizeof KNOWN / sizeof KNOWN[0])) note_ignored(r, e.name, "");
    TD_CHECK(read_attributes(r, &e, &rate, &pause_s, &is_closed));
    if (strcmp(e.name, "break") == 0)
        TD_CHECK(end_part(r, pause_s < 0 ? USUAL_BREAK_S : pause_s, TD_SSML_WITHIN));
    if (ends_parts(e.name)) TD_CHECK(end_part(r, NO_PAUSE, get_edge(e.name)));
    if (is_closed && r->depth > 0) return TD_OK;
    if (r->depth == MAX_DEPTH) return refuse(r, first, "elements inside more than %d others", MAX_DEPTH);
    e.rate = rate;
    r->open[r->depth++] = e;
    if (is_closed) r->depth--; /* <speak/> */
    return TD_OK;
}

/* At '</'. */
static td_status close_element(reader *r)
{
    char name[NAME_BYTES];
    const size_t first = r->at;
    r->at += 2;
    const size_t at = r->at, n = skip_name(r, name);
    const element *e = &r->open[r->depth - 1];
    if (n != e->name_bytes || memcmp(r->text + at, r->text + e->name_at, n) != 0)
        return refuse(r, first, "</%s> where </%s> is due", name, e->name);
    skip_spaces(r);
    if (peek(r) != '>') return refuse(r, r->at, "</%s does not end; a '>' is missing", name);
    r->at++;
    if (ends_parts(name) || r->depth == 1) TD_CHECK(end_part(r, NO_PAUSE, get_edge(name)));
    r->depth--;
    return TD_OK;
}

/* At '<'. */
static td_status read_markup(reader *r)
{
    const size_t first = r->at;
    if (has(r, "<!--")) {
        r->at += 4;
        return skip_past(r, "-->") ? TD_OK : refuse(r, first, "a comment that does not end");
    }
    if (has(r, "<![CDATA[")) {
        const size_t begin = r->at += 9;
        if (!skip_past(r, "]]>")) return refuse(r, first, "a CDATA section that does not end");
        TD_CHECK(td_buffer_append(&r->said, r->text + begin, r->at - 3 - begin));
        return TD_OK;
    }
    if (has(r, "<!")) return refuse(r, first, "a DTD; it is not read");
    if (has(r, "<?"))
        return skip_past(r, "?>") ? TD_OK : refuse(r, first, "an instruction that does not end");
    return has(r, "</") ? close_element(r) : open_element(r);
    return TD_OK;
}

/* ---------------------------------------------------------------- all of it */

/* Behind a byte order mark, spaces and an XML declaration. */
static void skip_prolog(reader *r)
{
    if (has(r, "\xEF\xBB\xBF")) r->at += 3;
    skip_spaces(r);
    while (has(r, "<?xml") && skip_past(r, "?>"))
        skip_spaces(r);
}

bool td_ssml_is(const char *text, size_t bytes)
{
    reader r = {.text = text, .bytes = bytes};
    skip_prolog(&r);
    if (!has(&r, "<speak")) return false;
    r.at += strlen("<speak");
    return r.at == bytes || is_space(peek(&r)) || peek(&r) == '>' || peek(&r) == '/';
}

td_status td_ssml_read(const char *text, size_t bytes, td_ssml *out)
{
    reader r = {.text = text, .bytes = bytes, .out = out};
    td_status status = TD_OK;
    *out = (td_ssml){0};
    TD_TRY(td_unicode_check(text, bytes, NULL));
    skip_prolog(&r);
    TD_TRY(open_element(&r));
    while (r.depth > 0 && r.at < bytes) {
        const char c = text[r.at];
        TD_TRY(c == '<' ? read_markup(&r) : c == '&' ? read_entity(&r) : read_text(&r));
    }
    if (r.depth > 0) {
        const element *e = &r.open[r.depth - 1];
        status = refuse(&r, e->name_at, "<%s> is not closed; </%s> is missing", e->name, e->name);
        goto fail;
    }
    while (r.at < bytes && (is_space(text[r.at]) || has(&r, "<!--"))) {
        if (is_space(text[r.at]))
            r.at++;
        else
            TD_TRY(read_markup(&r));
    }
    if (r.at < bytes) status = refuse(&r, r.at, "something behind </speak>");
fail:
    td_buffer_free(&r.said);
    if (status != TD_OK) td_ssml_free(out);
    return status;
}

void td_ssml_free(td_ssml *ssml)
{
    for (size_t i = 0; i < ssml->count; i++)
        free(ssml->parts[i].text);
    free(ssml->parts);
    *ssml = (td_ssml){0};
}
