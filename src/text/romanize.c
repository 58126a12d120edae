/* Chinese, Japanese and Korean in Latin letters (romanize.h). Chinese and kana are read by ICU's rules, after the
 * tables of readings; Hangul is arithmetic.
 */
#include "text/romanize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>
#include <unicode/utrans.h>

#include "base/error.h"
#include "base/text.h"
#include "text/unicode.h"

enum { MOST_UNITS = 1024, MOST_RULES = 1024 };

struct td_romanizer {
    td_lang lang;
    UTransliterator *rules; /* of Chinese characters or of kana; NULL for others */
};

/* ICU's hiragana, with the long vowels of katakana written twice. Rules before it: sounds that it spells otherwise. */
static const char KANA_RULES[] =
    "::Katakana-Hiragana;"
    "ゔぁ > va; ゔぃ > vi; ゔぇ > ve; ゔぉ > vo; ゔ > vu; うぃ > wi; うぇ > we; うぉ > wo;"
    "つぁ > tsa; つぃ > tsi; つぇ > tse; つぉ > tso; てぃ > ti; でぃ > di; とぅ > tu; どぅ > du;"
    "でゅ > dyu; ん } [なにぬねの] > n; づ > zu; ぢ > ji; っ } [^[:Hiragana:]] > ;"
    "::Hiragana-Latin;";

static td_status open_rules(td_lang lang, UTransliterator **out)
{
    UChar rules[MOST_RULES];
    UParseError place;
    UErrorCode code = U_ZERO_ERROR;
    if (lang == TD_LANG_ZH) {
        *out = utrans_openU(u"Han-Latin", -1, UTRANS_FORWARD, NULL, 0, &place, &code);
    } else if (lang == TD_LANG_JA) {
        u_strFromUTF8(rules, MOST_RULES, NULL, KANA_RULES, -1, &code);
        *out = utrans_openU(u"kana", -1, UTRANS_FORWARD, rules, -1, &place, &code);
    }
    if (U_SUCCESS(code)) return TD_OK;
    return TD_FAIL_NATIVE(TD_ERR_UNSUPPORTED, u_errorName(code),
                          "ICU cannot write '%s' in Latin letters: install ICU with its full data",
                          td_lang_code(lang));
}

td_status td_romanizer_create(td_lang lang, td_romanizer **out)
{
    td_status status = TD_OK;
    td_romanizer *r = NULL;
    TD_TRY(TD_NEW(&r));
    r->lang = lang;
    TD_TRY(open_rules(lang, &r->rules));
    *out = r;
    r = NULL;
fail:
    td_romanizer_destroy(r);
    return status;
}

void td_romanizer_destroy(td_romanizer *romanizer)
{
    if (romanizer == NULL) return;
    if (romanizer->rules != NULL) utrans_close(romanizer->rules);
    free(romanizer);
}

/* What the rules make of a short text, in `units`. */
static td_status transliterate(const td_romanizer *r, const char *text, size_t bytes, UChar units[MOST_UNITS],
                               int32_t *count)
{
    UErrorCode code = U_ZERO_ERROR;
    u_strFromUTF8(units, MOST_UNITS / 4, count, text, (int32_t)bytes, &code);
    int32_t end = *count;
    utrans_transUChars(r->rules, units, count, MOST_UNITS, 0, &end, &code);
    TD_REFUSE_IF(U_FAILURE(code), TD_ERR_FORMAT, "ICU could not write a text in Latin letters: %s",
                 u_errorName(code));
    return TD_OK;
}

/* The longest word of the table that the text begins with, or NULL. */
static const td_reading *find_reading(const td_reading *words, const char *text, size_t bytes)
{
    const td_reading *best = NULL;
    size_t most = 0;
    for (const td_reading *row = words; row->word != NULL; ++row) {
        const size_t length = strlen(row->word);
        if (length <= most || length > bytes || memcmp(row->word, text, length) != 0) continue;
        best = row;
        most = length;
    }
    return best;
}

static bool is_of_script(uint32_t codepoint, UScriptCode script)
{
    UErrorCode code = U_ZERO_ERROR;
    return uscript_getScript((UChar32)codepoint, &code) == script;
}

/* ---------------------------------------------------------------- Chinese */

/* "hǎo" as "hao3", "lǜ" as "lv4", "ma" as "ma5". */
static td_status append_numbered(const UChar *syllable, int32_t count, td_buffer *out)
{
    static const UChar TONES[] = {0x0304, 0x0301, 0x030C, 0x0300, 0};
    enum { DIAERESIS = 0x0308, MOST = 64 };
    UChar parts[MOST];
    char tone = '5';
    UErrorCode code = U_ZERO_ERROR;
    const int32_t n = unorm2_normalize(unorm2_getNFDInstance(&code), syllable, count, parts, MOST, &code);
    TD_REFUSE_IF(U_FAILURE(code), TD_ERR_FORMAT, "ICU could not decompose a syllable: %s", u_errorName(code));
    for (int32_t i = 0; i < n; ++i) {
        const UChar *mark = u_strchr(TONES, parts[i]);
        if (mark != NULL)
            tone = (char)('1' + (mark - TONES));
        else if (parts[i] == DIAERESIS && out->size > 0)
            out->data[out->size - 1] = 'v';
        else
            TD_CHECK(td_unicode_append(out, parts[i]));
    }
    return td_buffer_append(out, &tone, 1);
}

static td_status romanize_chinese(const td_romanizer *r, const char *text, size_t bytes, td_buffer *out)
{
    UChar units[MOST_UNITS];
    int32_t count = 0;
    for (size_t at = 0, step = 0; at < bytes; at += step) {
        uint32_t codepoint = 0;
        step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        const td_reading *known = find_reading(td_pinyin_words, text + at, bytes - at);
        if (known != NULL) {
            step = strlen(known->word);
            TD_CHECK(td_buffer_append(out, known->said, strlen(known->said)));
        } else if (is_of_script(codepoint, USCRIPT_HAN)) {
            TD_CHECK(transliterate(r, text + at, step, units, &count));
            TD_CHECK(append_numbered(units, count, out));
        } else if (u_ispunct((UChar32)codepoint)) {
            TD_CHECK(td_buffer_append(out, ",", 1)); /* the only mark that the model has seen */
        } else {
            TD_CHECK(td_buffer_append(out, text + at, step));
        }
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- Japanese */

static bool is_kana(uint32_t codepoint)
{
    enum { LONG_VOWEL = 0x30FC };
    return codepoint == LONG_VOWEL || is_of_script(codepoint, USCRIPT_HIRAGANA) ||
           is_of_script(codepoint, USCRIPT_KATAKANA);
}

static size_t measure_kana(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint32_t codepoint = 0;
        const size_t step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (!is_kana(codepoint)) break;
        at += step;
    }
    return at;
}

static td_status append_kana(const td_romanizer *r, const char *text, size_t bytes, td_buffer *out)
{
    enum { CHUNK = 192 }; /* bytes: 64 kana */
    UChar units[MOST_UNITS];
    int32_t count = 0;
    for (size_t at = 0; at < bytes; at += CHUNK) {
        TD_CHECK(transliterate(r, text + at, bytes - at < CHUNK ? bytes - at : CHUNK, units, &count));
        for (int32_t i = 0; i < count; ++i)
            TD_CHECK(td_unicode_append(out, units[i]));
    }
    return TD_OK;
}

/* A word: the particles at its end, "wa", "e" and "wo", are words of their own. */
static td_status append_word(const td_romanizer *r, const char *text, size_t bytes, td_buffer *out)
{
    static const td_reading PARTICLES[] = {{"は", " wa"}, {"へ", " e"}, {"を", " wo"}, {NULL, NULL}};
    enum { KANA = 3 };
    const td_reading *particle = bytes > KANA ? find_reading(PARTICLES, text + bytes - KANA, KANA) : NULL;
    if (particle == NULL) return append_kana(r, text, bytes, out);
    TD_CHECK(append_kana(r, text, bytes - KANA, out));
    return td_buffer_append(out, particle->said, strlen(particle->said));
}

/* "を" is never anything but a particle, so a word ends there. */
static td_status append_words(const td_romanizer *r, const char *text, size_t bytes, td_buffer *out)
{
    static const char WO[] = "を";
    for (size_t at = 0, end = 0; at < bytes; at = end) {
        do
            end += strlen(WO);
        while (end < bytes && memcmp(text + end - strlen(WO), WO, strlen(WO)) != 0);
        TD_CHECK(append_word(r, text + at, end - at, out));
        if (end < bytes) TD_CHECK(td_buffer_append(out, " ", 1));
    }
    return TD_OK;
}

/* Words of the table and marks bring spaces with them: one is enough, and none at an end or before a mark. */
static void tidy_spaces(td_buffer *out, size_t start)
{
    size_t kept = start;
    for (size_t i = start; i < out->size; ++i) {
        const char next = out->data[i + 1];
        const bool is_idle = kept == start || next == '\0' || strchr(" .,;:!?", next) != NULL;
        if (out->data[i] != ' ' || !is_idle) out->data[kept++] = out->data[i];
    }
    out->data[kept] = '\0';
    out->size = kept;
}

static td_status romanize_japanese(const td_romanizer *r, const char *text, size_t bytes, td_buffer *out)
{
    const size_t start = out->size;
    for (size_t at = 0, step = 0; at < bytes; at += step) {
        uint32_t codepoint = 0;
        step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        const td_reading *known = find_reading(td_romaji_words, text + at, bytes - at);
        if (known != NULL) {
            step = strlen(known->word);
            TD_CHECK(td_buffer_append(out, known->said, strlen(known->said)));
            continue;
        }
        TD_REFUSE_IF(
            is_of_script(codepoint, USCRIPT_HAN), TD_ERR_FORMAT,
            "'%.*s' is a kanji, and how it is read takes a dictionary, which is not built in; write the "
            "text in kana with spaces between words, or in romaji, or give a lexicon with such readings",
            (int)step, text + at);
        const size_t kana = measure_kana(text + at, bytes - at);
        if (kana > 0) step = kana;
        TD_CHECK(kana > 0 ? append_words(r, text + at, kana, out) : td_buffer_append(out, text + at, step));
        if (codepoint < 0x80 && u_ispunct((UChar32)codepoint)) TD_CHECK(td_buffer_append(out, " ", 1));
    }
    tidy_spaces(out, start);
    return TD_OK;
}

/* ---------------------------------------------------------------- Korean */

static const char *const INITIALS[] = {"g",  "kk", "n", "d",  "tt", "l", "m", "b", "pp", "s",
                                       "ss", "",   "j", "jj", "ch", "k", "t", "p", "h",  NULL};
static const char *const VOWELS[] = {"a",  "ae", "ya", "yae", "eo", "e",  "yeo", "ye", "o",  "wa", "wae",
                                     "oe", "yo", "u",  "wo",  "we", "wi", "yu",  "eu", "ui", "i"};
static const char *const FINALS[] = {"",   "g",  "kk", "gs", "n",  "nj", "nh", "d", "l",  "lg",
                                     "lm", "lb", "ls", "lt", "lp", "lh", "m",  "b", "bs", "s",
                                     "ss", "ng", "j",  "ch", "k",  "t",  "p",  "h", NULL};

static bool is_listed(const char *const *list, const char *text, size_t bytes)
{
    for (; *list != NULL; ++list)
        if (strlen(*list) == bytes && memcmp(*list, text, bytes) == 0) return true;
    return false;
}

/* Whether the letters between two vowels could be the end of one syllable and the beginning of the next in more ways
 * than one. */
static bool is_ambiguous(const char *final, const char *initial)
{
    char letters[8];
    int ways = 0;
    snprintf(letters, sizeof letters, "%s%s", final, initial);
    const size_t n = strlen(letters);
    for (size_t i = 0; i < n; ++i)
        ways += is_listed(FINALS, letters, i) && is_listed(INITIALS, letters + i, n - i);
    return ways > 1;
}

/* A hyphen parts two syllables where letters alone would not tell where one ends. */
static td_status append_syllable(uint32_t index, const char *final_before, td_buffer *out)
{
    const char *const parts[] = {INITIALS[index / 588], VOWELS[index / 28 % 21], FINALS[index % 28]};
    if (final_before != NULL && (parts[0][0] == '\0' || is_ambiguous(final_before, parts[0])))
        TD_CHECK(td_buffer_append(out, "-", 1));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
        TD_CHECK(td_buffer_append(out, parts[i], strlen(parts[i])));
    return TD_OK;
}

static td_status romanize_korean(const char *text, size_t bytes, td_buffer *out)
{
    enum { FIRST = 0xAC00, COUNT = 19 * 588 };
    const char *final_before = NULL;
    for (size_t at = 0, step = 0; at < bytes; at += step) {
        uint32_t codepoint = 0;
        step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        const bool is_hangul = codepoint >= FIRST && codepoint < FIRST + COUNT;
        TD_CHECK(is_hangul ? append_syllable(codepoint - FIRST, final_before, out)
                           : td_buffer_append(out, text + at, step));
        final_before = is_hangul ? FINALS[(codepoint - FIRST) % 28] : NULL;
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- marks */

/* What the normaliser writes for marks of these scripts, and what the model learnt. */
static const struct {
    td_lang lang;
    char mark;
    const char *own;
} MARKS[] = {{TD_LANG_HI, '.', "।"}, {TD_LANG_AR, '?', "؟"}, {TD_LANG_AR, ',', "،"}, {TD_LANG_AR, ';', "؛"}};

static const char *find_mark(td_lang lang, char mark)
{
    for (size_t i = 0; i < sizeof MARKS / sizeof *MARKS; ++i)
        if (MARKS[i].lang == lang && MARKS[i].mark == mark) return MARKS[i].own;
    return NULL;
}

/* Quotes are left out: they are not heard, and a voice that has to end with one goes on. */
static td_status rewrite_marks(td_lang lang, const char *text, size_t bytes, td_buffer *out)
{
    for (size_t at = 0; at < bytes; ++at) {
        const char *own = find_mark(lang, text[at]);
        const bool is_run =
            (at > 0 && text[at - 1] == text[at]) || (at + 1 < bytes && text[at + 1] == text[at]);
        if (own != NULL && !is_run)
            TD_CHECK(td_buffer_append(out, own, strlen(own)));
        else if (text[at] != '"')
            TD_CHECK(td_buffer_append(out, text + at, 1));
    }
    return TD_OK;
}

td_status td_romanizer_run(td_romanizer *romanizer, const char *text, size_t bytes, td_buffer *out)
{
    td_status status = TD_OK;
    td_buffer marked = {0};
    TD_TRY(td_buffer_append(out, "", 0));
    if (romanizer->lang == TD_LANG_ZH) return romanize_chinese(romanizer, text, bytes, out);
    TD_TRY(td_buffer_append(&marked, "", 0));
    TD_TRY(rewrite_marks(romanizer->lang, text, bytes, &marked));
    if (romanizer->lang == TD_LANG_JA)
        TD_TRY(romanize_japanese(romanizer, marked.data, marked.size, out));
    else if (romanizer->lang == TD_LANG_KO)
        TD_TRY(romanize_korean(marked.data, marked.size, out));
    else
        TD_TRY(td_buffer_append(out, marked.data, marked.size));
fail:
    td_buffer_free(&marked);
    return status;
}
