/* See alphabet.h. Letters are ICU's exemplar characters of the language. */
#include "text/alphabet.h"

#include <string.h>

#include <unicode/uchar.h>
#include <unicode/ulocdata.h>
#include <unicode/uset.h>
#include <unicode/ustring.h>

#include "base/error.h"
#include "base/text.h"
#include "text/normalize.h"
#include "text/phonemes.h"
#include "text/unicode.h"

enum { MOST_UNITS = 32 };

static const char MARKS[] = " \"'(),-.:;!?";

/* Every word that numbers are made of. */
static const char NUMBERS[] =
    "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 30 33 40 44 50 55 60 66 70 77 "
    "80 88 90 99 100 200 300 400 500 600 700 800 900 999 1000 2000 10000 100000 1000000 "
    "2000000 1000000000 2000000000 1.5 -3";

/* A letter as normalised text has it, of a script that can be listed. */
static bool is_wanted(UChar32 c)
{
    const bool is_listed = !u_hasBinaryProperty(c, UCHAR_IDEOGRAPHIC) && !(c >= 0xAC00 && c <= 0xD7A3);
    return is_listed && td_unicode_is_letter((uint32_t)c) && u_tolower(c) == c;
}

static td_status add_codepoint(td_symbol_set *set, UChar32 c, td_buffer *scratch)
{
    if (!is_wanted(c)) return TD_OK;
    td_buffer_clear(scratch);
    TD_CHECK(td_unicode_append(scratch, (uint32_t)c));
    return td_symbol_set_add(set, scratch->data, scratch->size);
}

/* One item of ICU's set: a range of characters, or a letter that is written with several. */
static td_status add_item(const USet *letters, int32_t i, td_symbol_set *set, td_buffer *scratch)
{
    UChar several[MOST_UNITS];
    UChar32 first, last, letter[MOST_UNITS];
    int32_t count = 0;
    UErrorCode code = U_ZERO_ERROR;
    const int32_t n = uset_getItem(letters, i, &first, &last, several, MOST_UNITS, &code);
    u_strToUTF32(letter, MOST_UNITS, &count, several, n, &code);
    if (U_FAILURE(code)) return TD_OK; /* longer than any letter */
    for (UChar32 c = first; n == 0 && c <= last; c++)
        TD_CHECK(add_codepoint(set, c, scratch));
    for (int32_t k = 0; k < count; k++)
        TD_CHECK(add_codepoint(set, letter[k], scratch));
    return TD_OK;
}

static td_status add_letters(td_lang lang, td_symbol_set *set)
{
    UErrorCode code = U_ZERO_ERROR;
    td_buffer scratch = {0};
    USet *letters = NULL;
    td_status status = TD_OK;
    ULocaleData *data = ulocdata_open(td_lang_code(lang), &code);
    if (U_SUCCESS(code)) letters = ulocdata_getExemplarSet(data, NULL, 0, ULOCDATA_ES_STANDARD, &code);
    TD_FAIL_IF(U_FAILURE(code), TD_ERR_UNSUPPORTED,
               "ICU has no letters of '%s' (%s): install ICU with its full data", td_lang_code(lang),
               u_errorName(code));
    for (int32_t i = 0; i < uset_getItemCount(letters); i++)
        TD_TRY(add_item(letters, i, set, &scratch));
fail:
    td_buffer_free(&scratch);
    if (letters) uset_close(letters);
    if (data) ulocdata_close(data);
    return status;
}

static td_status add_numbers(td_lang lang, td_symbol_set *set)
{
    td_normalizer *normalizer = NULL;
    const char *words;
    td_status status = TD_OK;
    TD_TRY(td_normalizer_create(lang, &normalizer));
    TD_TRY(td_normalizer_run(normalizer, NUMBERS, strlen(NUMBERS), &words));
    TD_TRY(td_symbol_set_add(set, words, strlen(words)));
fail:
    td_normalizer_destroy(normalizer);
    return status;
}

td_status td_alphabet_add(td_token_kind kind, td_lang lang, td_symbol_set *set)
{
    TD_CHECK(td_symbol_set_add(set, MARKS, strlen(MARKS)));
    if (kind == TD_TOKENS_PHONEMES) {
        const char *phonemes = td_phonemes_inventory(lang);
        return td_symbol_set_add(set, phonemes, strlen(phonemes));
    }
    if (lang == TD_LANG_ES) TD_CHECK(td_symbol_set_add(set, "¡¿", strlen("¡¿")));
    TD_CHECK(add_letters(lang, set));
    return add_numbers(lang, set);
}
