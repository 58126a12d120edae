/* See adapt.h. */
#include "text/adapt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include <unicode/utf8.h>

#include "base/error.h"
#include "base/text.h"
#include "text/phones.h"
#include "text/unicode.h"

enum { MOST_UNITS = 32, NAMED = 20, NAME_BYTES = 64 }; /* no code point decomposes to more than 18 units */

/* One call of td_adapt_text. */
typedef struct adapter {
    const td_tokenizer *tokenizer;
    td_buffer *out;
    size_t start; /* of the call's part of `out` */
    bool space;   /* one is due before the next letter */
} adapter;

/* What to write for a character, the first that is known; "" is a space, NULL nothing. Letters of the Latin alphabet
 * are here for voices whose texts lacked them: others that stand for a like sound. */
typedef struct substitute {
    uint32_t codepoint;
    const char *texts[3];
} substitute;

static const substitute SUBSTITUTES[] = {
    {'\'', {NULL}},        {0x2019, {"'", NULL}}, {0x02BC, {"'", NULL}},    {';', {",", ".", ""}},
    {':', {",", ".", ""}}, {'!', {".", ",", ""}}, {'?', {".", ",", ""}},    {'.', {",", ""}},
    {',', {""}},           {0x060C, {",", ""}},   {0x061B, {";", ",", ""}}, {0x061F, {"?", ".", ""}},
    {0x0964, {".", ""}},   {0xDF, {"ss"}},        {0xE6, {"ae"}},           {0xF0, {"d"}},
    {0xF8, {"o"}},         {0xFE, {"th"}},        {0x111, {"d"}},           {0x131, {"i"}},
    {0x142, {"l"}},        {0x153, {"oe"}},       {'c', {"k", "s"}},        {'f', {"v", "ph"}},
    {'j', {"y", "i"}},     {'k', {"c", "q"}},     {'q', {"k", "c"}},        {'v', {"w", "f"}},
    {'w', {"v", "u"}},     {'x', {"ks", "cs"}},   {'y', {"i", "j"}},        {'z', {"s", "ts"}},
};

static bool knows(const adapter *a, uint32_t codepoint)
{
    return td_tokenizer_knows(a->tokenizer, codepoint);
}

static bool knows_text(const adapter *a, const char *text)
{
    for (; *text; text++)
        if (!knows(a, (unsigned char)*text)) return false;
    return true;
}

/* Appends a character that is known. A space that is due comes before anything but a mark behind a word. */
static td_status put_known(adapter *a, uint32_t codepoint)
{
    const bool is_tight = codepoint < 0x80 && strchr(".,;:!?", (int)codepoint) != NULL;
    const bool has_some = a->out->size > a->start;
    if (a->space && has_some && !is_tight && knows(a, ' ')) TD_CHECK(td_buffer_append(a->out, " ", 1));
    a->space = false;
    return td_unicode_append(a->out, codepoint);
}

static td_status put_text(adapter *a, const char *text)
{
    a->space |= !*text;
    for (; *text; text++)
        TD_CHECK(put_known(a, (unsigned char)*text));
    return TD_OK;
}

/* By the table. *done: whether it has the character, and what it has is known. */
static td_status put_substitute(adapter *a, uint32_t codepoint, bool *done)
{
    *done = false;
    for (size_t i = 0; i < sizeof SUBSTITUTES / sizeof SUBSTITUTES[0]; i++) {
        const substitute *s = &SUBSTITUTES[i];
        if (s->codepoint != codepoint) continue;
        const bool is_letter = td_unicode_is_letter(codepoint);
        *done = !is_letter;
        for (size_t k = 0; k < 3 && s->texts[k]; k++) {
            if (!knows_text(a, s->texts[k])) continue;
            *done = true;
            return put_text(a, s->texts[k]);
        }
    }
    return TD_OK;
}

/* A form of a character, without its marks if they are not wanted, in simple case folding where that is needed: all
 * of it is known, or nothing is put. */
static td_status put_form(adapter *a, const UChar32 *form, int32_t count, bool keeps_marks, bool *done)
{
    uint32_t known[MOST_UNITS];
    size_t n = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!keeps_marks && (U_GET_GC_MASK(form[i]) & U_GC_M_MASK)) continue;
        uint32_t c = (uint32_t)form[i];
        if (!knows(a, c)) c = (uint32_t)u_foldCase(form[i], U_FOLD_CASE_DEFAULT);
        if (!knows(a, c)) return TD_OK;
        known[n++] = c;
    }
    *done = n > 0;
    for (size_t i = 0; i < n; i++)
        TD_CHECK(put_known(a, known[i]));
    return TD_OK;
}

/* By Unicode: the compatible form, then its letters without their marks. */
static td_status put_compatible(adapter *a, uint32_t codepoint, bool *done)
{
    const UChar32 given = (UChar32)codepoint;
    UChar from[2], to[MOST_UNITS];
    UChar32 form[MOST_UNITS];
    int32_t n_from = 0, n_to, n = 0;
    UErrorCode code = U_ZERO_ERROR;
    u_strFromUTF32(from, 2, &n_from, &given, 1, &code);
    for (int keeps_marks = 1; keeps_marks >= 0 && !*done; keeps_marks--) {
        n_to = unorm2_normalize(keeps_marks ? unorm2_getNFKCInstance(&code) : unorm2_getNFKDInstance(&code),
                                from, n_from, to, MOST_UNITS, &code);
        u_strToUTF32(form, MOST_UNITS, &n, to, n_to, &code);
        TD_REFUSE_IF(U_FAILURE(code), TD_ERR_FORMAT, "ICU could not decompose U+%04X: %s",
                     (unsigned)codepoint, u_errorName(code));
        TD_CHECK(put_form(a, form, n, keeps_marks, done));
    }
    return TD_OK;
}

td_status td_left_outs_count(td_left_outs *l, uint32_t codepoint)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->at[i].codepoint != codepoint) continue;
        l->at[i].count++;
        return TD_OK;
    }
    TD_CHECK(td_alloc_grow(&l->at, &l->capacity, l->count + 1, sizeof *l->at));
    l->at[l->count++] = (td_left_out){codepoint, 1};
    return TD_OK;
}

static bool knows_phone(const void *context, uint32_t codepoint)
{
    return knows(context, codepoint);
}

/* The nearest sound for one that the voice has not learnt. */
static td_status put_phone(adapter *a, uint32_t codepoint, bool *done)
{
    const uint32_t nearest = td_phone_nearest(codepoint, knows_phone, a);
    *done = nearest != 0 || td_phone_is_shade(codepoint);
    return nearest != 0 ? put_known(a, nearest) : TD_OK;
}

static td_status put_unknown(adapter *a, uint32_t codepoint, td_left_outs *left_outs)
{
    const uint32_t class = U_GET_GC_MASK((UChar32)codepoint);
    bool done = false;
    if (td_tokenizer_kind(a->tokenizer) == TD_TOKENS_PHONEMES) TD_CHECK(put_phone(a, codepoint, &done));
    if (!done) TD_CHECK(put_substitute(a, codepoint, &done));
    if (!done) TD_CHECK(put_compatible(a, codepoint, &done));
    if (done) return TD_OK;
    if (class & (U_GC_P_MASK | U_GC_Z_MASK | U_GC_C_MASK))
        a->space = true; /* quotes, brackets and hyphens part words and are not heard */
    else
        TD_CHECK(td_left_outs_count(left_outs, codepoint));
    return TD_OK;
}

td_status td_adapt_text(const td_tokenizer *tokenizer, const char *text, size_t bytes, td_buffer *out,
                        td_left_outs *left_outs)
{
    adapter a = {.tokenizer = tokenizer, .out = out, .start = out->size};
    TD_CHECK(td_buffer_append(out, "", 0));
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (codepoint == ' ')
            a.space = true;
        else
            TD_CHECK(knows(&a, codepoint) ? put_known(&a, codepoint) : put_unknown(&a, codepoint, left_outs));
    }
    return TD_OK;
}

static void describe_one(const td_left_out *l, char to[NAME_BYTES])
{
    unsigned char shown[U8_MAX_LENGTH + 1] = "";
    char times[32] = "";
    size_t length = 0;
    U8_APPEND_UNSAFE(shown, length, l->codepoint);
    if (l->count > 1) snprintf(times, sizeof times, " %zu times", l->count);
    snprintf(to, NAME_BYTES, "'%s' (U+%04X)%s", (const char *)shown, (unsigned)l->codepoint, times);
}

void td_left_outs_describe(const td_left_outs *left_outs, char *to, size_t bytes)
{
    size_t used = 0;
    to[0] = 0;
    for (size_t i = 0; i < left_outs->count; i++) {
        char one[NAME_BYTES];
        describe_one(&left_outs->at[i], one);
        if (i == NAMED || used + strlen(one) + NAME_BYTES > bytes) {
            snprintf(to + used, bytes - used, ", and %zu others", left_outs->count - i);
            return;
        }
        used += (size_t)snprintf(to + used, bytes - used, "%s%s", i ? ", " : "", one);
    }
}

void td_left_outs_free(td_left_outs *left_outs)
{
    free(left_outs->at);
    *left_outs = (td_left_outs){0};
}
