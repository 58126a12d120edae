/* Tidying of text (fold.h). The rules work on the output, so that running them again changes nothing. */
#include "text/fold.h"

#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>

#include "base/error.h"
#include "base/text.h"

enum {
    MAX_SIGNS = 64,
    INVERTED_EXCLAMATION = 0xA1,
    OPENING_GUILLEMET = 0xAB, /* French sets a space inside */
    CLOSING_GUILLEMET = 0xBB,
    INVERTED_QUESTION = 0xBF,
};

struct td_folder {
    const char *locale;
    uint32_t signs[MAX_SIGNS]; /* that the tables have a word for */
    size_t n_signs;
    td_unicode unicode;
    td_buffer lower;
    td_buffer out;
    bool space; /* one is due before the next character */
    bool dash;  /* the last character was a dash */
    bool gap;   /* something invisible was dropped right before */
    bool glue;  /* the last character was an opening quote: no space after it */
};

/* Sorted by code point. */
static const struct {
    uint16_t codepoint;
    char text[6];
} spellings[] = {
    {0x005B, "("},   {0x005D, ")"},   {0x00AB, "\""},  {0x00B2, "2"},   {0x00B3, "3"},  {0x00BB, "\""},
    {0x00BC, "1/4"}, {0x00BD, "1/2"}, {0x00BE, "3/4"}, {0x055D, ","},   {0x060C, ","},  {0x061B, ";"},
    {0x061F, "?"},   {0x066A, "%"},   {0x066B, "."},   {0x066C, ","},   {0x06D4, "."},  {0x0964, "."},
    {0x0965, "."},   {0x2010, "-"},   {0x2011, "-"},   {0x2012, "-"},   {0x2013, "-"},  {0x2014, "--"},
    {0x2015, "--"},  {0x2018, "'"},   {0x2019, "'"},   {0x201A, "'"},   {0x201B, "'"},  {0x201C, "\""},
    {0x201D, "\""},  {0x201E, "\""},  {0x201F, "\""},  {0x2026, "..."}, {0x2032, "'"},  {0x2033, "\""},
    {0x2039, "\""},  {0x203A, "\""},  {0x2044, "/"},   {0x2103, "°c"},  {0x2109, "°f"}, {0x2212, "-"},
    {0x3001, ","},   {0x3002, "."},   {0x3008, "\""},  {0x3009, "\""},  {0x300A, "\""}, {0x300B, "\""},
    {0x300C, "\""},  {0x300D, "\""},  {0x300E, "\""},  {0x300F, "\""},  {0x3010, "("},  {0x3011, ")"},
    {0x301C, "-"},   {0xFF61, "."},   {0xFF64, ","},   {0xFFE1, "£"},   {0xFFE5, "¥"},
};

static const char *find_spelling(uint32_t codepoint)
{
    size_t low = 0;
    size_t high = sizeof spellings / sizeof spellings[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (spellings[middle].codepoint == codepoint) return spellings[middle].text;
        if (spellings[middle].codepoint < codepoint)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool is_digit(uint32_t codepoint)
{
    return codepoint >= '0' && codepoint <= '9';
}

static bool is_known_sign(const td_folder *folder, uint32_t codepoint)
{
    for (size_t i = 0; i < folder->n_signs; ++i)
        if (folder->signs[i] == codepoint) return true;
    return false;
}

/* Every character of a key that is neither a letter, a digit nor a mark which is kept anyway. */
static void learn_signs(td_folder *folder, const char *key)
{
    size_t bytes = strlen(key);
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint = 0;
        at += td_text_utf8_next(key + at, bytes - at, &codepoint);
        bool plain = td_unicode_is_letter(codepoint) || is_digit(codepoint) ||
                     (codepoint < 0x80 && strchr(" .'-/", (int)codepoint) != NULL);
        if (!plain && folder->n_signs < MAX_SIGNS && !is_known_sign(folder, codepoint))
            folder->signs[folder->n_signs++] = codepoint;
    }
}

td_status td_folder_create(td_lang lang, td_folder **out)
{
    td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    const td_lang_rules *rules = td_lang_get_rules(lang);
    (*out)->locale = lang == TD_LANG_TR ? "tr" : "";
    for (const td_lang_word *word = rules->words; word->key != NULL; ++word)
        learn_signs(*out, word->key);
    for (const td_lang_money *money = rules->money; money->symbols != NULL; ++money)
        learn_signs(*out, money->symbols);
    return TD_OK;
}

void td_folder_destroy(td_folder *folder)
{
    if (folder == NULL) return;
    td_unicode_free(&folder->unicode);
    td_buffer_free(&folder->lower);
    td_buffer_free(&folder->out);
    free(folder);
}

static char get_last(const td_folder *folder)
{
    return folder->out.size > 0 ? folder->out.data[folder->out.size - 1] : ' ';
}

/* What ends in a letter or a digit, with no space due. */
static bool ends_in_word(const td_folder *folder, bool letters_only)
{
    if (folder->space || folder->out.size == 0) return false;
    uint32_t last = td_unicode_before(folder->out.data, folder->out.size);
    return td_unicode_is_letter(last) || (!letters_only && is_digit(last));
}

/* Appends one character; `next` is the byte after it in the text, 0 at the end. */
static td_status put(td_folder *folder, const char *character, size_t bytes, char next)
{
    char first = character[0];
    if (folder->glue) folder->space = false;
    folder->glue = false;
    folder->gap = false;
    if (first == '-' && get_last(folder) == '-') {
        /* Two or more dashes are one between spaces. */
        if (folder->dash && !folder->space) {
            td_buffer *out = &folder->out;
            out->size -= out->size > 1 && out->data[out->size - 2] == ' ' ? 2 : 1;
            td_status status = td_buffer_append(out, " -", out->size > 0 ? 2 : 0);
            if (status == TD_OK && out->size == 0) status = td_buffer_append(out, "-", 1);
            folder->space = true;
            return status;
        }
        if (folder->dash) return TD_OK;
    }
    bool tight = strchr(".,;:!?)", first) != NULL && !(first == '.' && is_digit((unsigned char)next));
    if (folder->space && folder->out.size > 0 && !tight) {
        td_status status = td_buffer_append(&folder->out, " ", 1);
        if (status != TD_OK) return status;
    }
    folder->space = false;
    folder->dash = first == '-';
    if (strchr(",;:!?", first) != NULL && get_last(folder) == first) return TD_OK;
    return td_buffer_append(&folder->out, character, bytes);
}

static td_status put_spelling(td_folder *folder, const char *text, char next)
{
    td_status status = TD_OK;
    /* 10² is not 102, and 3½ not 31/2. */
    if (is_digit((unsigned char)text[0]) && is_digit((unsigned char)get_last(folder))) folder->space = true;
    for (size_t bytes = strlen(text), step = 0; bytes > 0 && status == TD_OK; text += step, bytes -= step) {
        uint32_t codepoint = 0;
        step = td_text_utf8_next(text, bytes, &codepoint);
        if (codepoint > 0x7F && !is_known_sign(folder, codepoint))
            folder->space = true;
        else
            status = put(folder, text, step, bytes > step ? text[step] : next);
    }
    return status;
}

/* A bar between two words or numbers stays ("km/h", "1/2"), any other is a space. */
static td_status put_bar(td_folder *folder, const char *rest, size_t bytes)
{
    uint32_t next = 0;
    if (bytes > 0) td_text_utf8_next(rest, bytes, &next);
    bool mark = (U_GET_GC_MASK((UChar32)next) & U_GC_M_MASK) != 0; /* will be dropped */
    bool stays = ends_in_word(folder, false) && !mark && (td_unicode_is_letter(next) || is_digit(next));
    if (stays) return put(folder, "/", 1, 'x');
    folder->space = true;
    return TD_OK;
}

static td_status put_codepoint(td_folder *folder, uint32_t codepoint, const char *text, size_t bytes,
                               char next)
{
    if (codepoint >= 0xFF01 && codepoint <= 0xFF5E) {
        codepoint -= 0xFEE0;
        char ascii[2] = {(char)codepoint, 0};
        if (codepoint != '/') return put_codepoint(folder, codepoint, ascii, 1, next);
    }
    if (codepoint < 0x80 && (td_unicode_is_letter(codepoint) || is_digit(codepoint) ||
                             strchr(".,;:!?'\"()-", (int)codepoint) != NULL))
        return put(folder, text, bytes, next);
    const char *spelling = find_spelling(codepoint);
    if (codepoint == CLOSING_GUILLEMET) folder->space = false;
    if (spelling != NULL) {
        td_status status = put_spelling(folder, spelling, next);
        folder->glue = codepoint == OPENING_GUILLEMET;
        return status;
    }
    if (codepoint == INVERTED_EXCLAMATION || codepoint == INVERTED_QUESTION)
        return put(folder, text, bytes, next);
    if (is_known_sign(folder, codepoint)) return put(folder, text, bytes, next);
    uint32_t class = codepoint < 0x80 ? U_GC_CC_MASK : U_GET_GC_MASK((UChar32)codepoint);
    if (class & (U_GC_L_MASK | U_GC_NL_MASK)) return put(folder, text, bytes, next);
    if (class & U_GC_M_MASK) {
        /* Behind a gap it would join the letter only in the next run. */
        return ends_in_word(folder, true) && !folder->gap ? put(folder, text, bytes, next) : TD_OK;
    }
    if (class & U_GC_ND_MASK) {
        char digit[2] = {(char)('0' + u_charDigitValue((UChar32)codepoint)), 0};
        return put(folder, digit, 1, next);
    }
    if (class & U_GC_CF_MASK)
        folder->gap = true;
    else
        folder->space = true;
    return TD_OK;
}

bool td_folder_drops(const td_folder *folder, uint32_t codepoint)
{
    const uint32_t class = U_GET_GC_MASK((UChar32)codepoint);
    const bool is_quote = codepoint == '`' || codepoint == 0xB4;
    const bool is_wide = codepoint >= 0xFF01 && codepoint <= 0xFF5E;
    if (is_quote || is_wide || find_spelling(codepoint) != NULL || is_known_sign(folder, codepoint))
        return false;
    return (class & (U_GC_S_MASK | U_GC_NO_MASK | U_GC_CO_MASK | U_GC_CN_MASK)) != 0;
}

/* Lower case and NFC of the whole text; ASCII needs no ICU, except for Turkish. */
static td_status lower_text(td_folder *folder, const char *text, size_t bytes)
{
    bool ascii = false;
    TD_CHECK(td_unicode_check(text, bytes, &ascii));
    td_buffer_clear(&folder->lower);
    if (!ascii || folder->locale[0] != '\0')
        return td_unicode_fold(&folder->unicode, text, bytes, folder->locale, &folder->lower);
    TD_CHECK(td_buffer_append(&folder->lower, text, bytes));
    for (size_t i = 0; i < bytes; ++i) {
        char *c = &folder->lower.data[i];
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c | 0x20);
    }
    return TD_OK;
}

td_status td_folder_run(td_folder *folder, const char *text, size_t bytes, const td_buffer **out)
{
    td_status status = TD_OK;
    TD_TRY(lower_text(folder, text, bytes));
    td_buffer_clear(&folder->out);
    TD_TRY(td_buffer_reserve(&folder->out, folder->lower.size));
    folder->space = false;
    folder->dash = false;
    folder->glue = false;
    folder->gap = false;
    const char *in = folder->lower.data;
    size_t size = folder->lower.size;
    for (size_t at = 0; at < size;) {
        char byte = in[at];
        if (byte == ' ') {
            folder->space = true;
            ++at;
            continue;
        }
        uint32_t codepoint = (unsigned char)byte;
        size_t step = 1;
        if (codepoint >= 0x80) step = td_text_utf8_next(in + at, size - at, &codepoint);
        char next = in[at + step];
        bool bar = codepoint == '/' || codepoint == 0x2044 || codepoint == 0xFF0F;
        status = bar ? put_bar(folder, in + at + step, size - at - step)
                     : put_codepoint(folder, codepoint, in + at, step, next);
        if (status != TD_OK) goto fail;
        at += step;
    }
    TD_TRY(td_buffer_append(&folder->out, "", 0));
    *out = &folder->out;
fail:
    return status;
}
