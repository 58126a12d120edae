/* Numbers in words (spell.h). ICU's words are folded like the text, freed of soft hyphens and of double
 * spaces, and repaired where the tables say so.
 */
#include "text/spell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unicode/unum.h>
#include <unicode/upluralrules.h>
#include <unicode/ustring.h>

#include "base/error.h"

enum { MAX_WORDS_UNITS = 1024, MEMORY_SLOTS = 256, MEMORY_BYTES = 48 };

static const char PLAIN_NUMBERS[] = "%spellout-numbering"; /* every language has it */

struct td_speller {
    td_lang lang;
    const td_lang_rules *rules;
    UNumberFormat *format;
    UPluralRules *plurals;
    const char *ruleset; /* in force */
    td_unicode unicode;
    td_buffer words;
    char digits[10][32];
    struct {
        const char *ruleset;
        uint64_t value;
        char words[MEMORY_BYTES]; /* "" = empty slot */
    } memory[MEMORY_SLOTS];       /* small numbers come again and again */
};

static td_status open_formats(td_speller *speller)
{
    const char *code = td_lang_code(speller->lang);
    UErrorCode error = U_ZERO_ERROR;
    speller->format = unum_open(UNUM_SPELLOUT, NULL, 0, code, NULL, &error);
    if (U_SUCCESS(error)) speller->plurals = uplrules_open(code, &error);
    if (U_FAILURE(error)) {
        return TD_FAIL_NATIVE(TD_ERR_UNSUPPORTED, u_errorName(error),
                              "ICU cannot open number words for '%s': install ICU with its full data", code);
    }
    /* Without rules of its own a language silently gets English. */
    const char *actual = unum_getLocaleByType(speller->format, ULOC_ACTUAL_LOCALE, &error);
    if (U_FAILURE(error) || strncmp(actual, code, 2) != 0) {
        return TD_FAIL(TD_ERR_UNSUPPORTED, "ICU has no number words for '%s': install ICU with its full data",
                       code);
    }
    return TD_OK;
}

td_status td_speller_create(td_lang lang, td_speller **out)
{
    td_status status = TD_OK;
    td_speller *speller = NULL;
    td_buffer word = {0};
    TD_TRY(TD_NEW(&speller));
    speller->lang = lang;
    speller->rules = td_lang_get_rules(lang);
    TD_TRY(open_formats(speller));
    for (int digit = 0; digit < 10; ++digit) {
        td_buffer_clear(&word);
        TD_TRY(td_speller_say(speller, NULL, (uint64_t)digit, &word));
        TD_FAIL_IF(word.size >= sizeof speller->digits[0], TD_ERR_LIMIT, "the word for %d is too long",
                   digit);
        memcpy(speller->digits[digit], word.data, word.size + 1);
    }
    *out = speller;
    speller = NULL;
fail:
    td_buffer_free(&word);
    td_speller_destroy(speller);
    return status;
}

void td_speller_destroy(td_speller *speller)
{
    if (speller == NULL) return;
    if (speller->format != NULL) unum_close(speller->format);
    if (speller->plurals != NULL) uplrules_close(speller->plurals);
    td_unicode_free(&speller->unicode);
    td_buffer_free(&speller->words);
    free(speller);
}

const char *td_speller_digit(const td_speller *speller, int digit)
{
    return speller->digits[digit];
}

td_plural td_speller_plural(const td_speller *speller, double value)
{
    UChar word[16] = {0};
    UErrorCode error = U_ZERO_ERROR;
    uplrules_select(speller->plurals, value, word, 15, &error);
    return word[0] == 'f'                     ? TD_PLURAL_FEW
           : word[0] == 'o' && word[1] == 'n' ? TD_PLURAL_ONE
                                              : TD_PLURAL_OTHER;
}

static td_status choose_ruleset(td_speller *speller, const char *ruleset)
{
    if (ruleset == speller->ruleset) return TD_OK;
    UChar name[64];
    UErrorCode error = U_ZERO_ERROR;
    u_uastrncpy(name, ruleset, 63);
    name[63] = 0;
    unum_setTextAttribute(speller->format, UNUM_DEFAULT_RULESET, name, -1, &error);
    if (U_FAILURE(error)) {
        return TD_FAIL_NATIVE(TD_ERR_UNSUPPORTED, u_errorName(error), "ICU has no rule set %s for '%s'",
                              ruleset, td_lang_code(speller->lang));
    }
    speller->ruleset = ruleset;
    return TD_OK;
}

/* Replaces each wrong phrase in place, wherever it stands; a right one is never longer and has no wrong one in it. */
static void repair_words(const td_lang_rules *rules, td_buffer *words)
{
    for (const char *const *pair = rules->repairs; pair != NULL && *pair != NULL; pair += 2) {
        const size_t wrong = strlen(pair[0]);
        const size_t right = strlen(pair[1]);
        for (char *found = words->data; (found = strstr(found, pair[0])) != NULL; found += right) {
            memcpy(found, pair[1], right);
            memmove(found + right, found + wrong, strlen(found + wrong) + 1);
            words->size -= wrong - right;
        }
    }
}

/* Where a rule set ends, ICU writes digits. */
static bool has_digits(const td_buffer *words)
{
    return strpbrk(words->data, "0123456789") != NULL;
}

/* The last resort: one digit after another. */
static td_status spell_digits(td_speller *speller, uint64_t value)
{
    char digits[24];
    td_status status = TD_OK;
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    td_buffer_clear(&speller->words);
    for (const char *digit = digits; *digit != '\0' && status == TD_OK; ++digit) {
        const char *word = speller->digits[*digit - '0'];
        if (digit > digits) status = td_buffer_append(&speller->words, " ", 1);
        if (status == TD_OK) status = td_buffer_append(&speller->words, word, strlen(word));
    }
    return status;
}

/* Asks ICU; the answer is left in speller->words. */
static td_status ask_icu(td_speller *speller, const char *ruleset, uint64_t value)
{
    UChar raw[MAX_WORDS_UNITS];
    UErrorCode error = U_ZERO_ERROR;
    TD_CHECK(choose_ruleset(speller, ruleset));
    int32_t units = unum_formatInt64(speller->format, (int64_t)value, raw, MAX_WORDS_UNITS, NULL, &error);
    TD_REFUSE_IF(U_FAILURE(error), TD_ERR_UNSUPPORTED, "ICU cannot say %llu in '%s'",
                 (unsigned long long)value, td_lang_code(speller->lang));
    int32_t kept = 0;
    for (int32_t i = 0; i < units; ++i) {
        bool twice = raw[i] == ' ' && kept > 0 && raw[kept - 1] == ' ';
        if (raw[i] != 0x00AD && !twice) raw[kept++] = raw[i];
    }
    td_buffer_clear(&speller->words);
    TD_CHECK(td_unicode_fold_wide(&speller->unicode, raw, kept, "", &speller->words));
    repair_words(speller->rules, &speller->words);
    return TD_OK;
}

/* By the rule set, else as a plain number, else by digits; left in speller->words. */
static td_status spell_number(td_speller *speller, const char *ruleset, uint64_t value)
{
    td_status status = ask_icu(speller, ruleset, value);
    if (status == TD_OK && has_digits(&speller->words)) status = ask_icu(speller, PLAIN_NUMBERS, value);
    if (status == TD_OK && has_digits(&speller->words)) status = spell_digits(speller, value);
    return status;
}

td_status td_speller_say(td_speller *speller, const char *ruleset, uint64_t value, td_buffer *out)
{
    if (ruleset == NULL) ruleset = speller->rules->numbers;
    if (ruleset == NULL) ruleset = PLAIN_NUMBERS;
    size_t slot = (size_t)((value ^ (uint64_t)(uintptr_t)ruleset >> 3) % MEMORY_SLOTS);
    char *known = speller->memory[slot].words;
    if (known[0] != '\0' && speller->memory[slot].value == value && speller->memory[slot].ruleset == ruleset)
        return td_buffer_append(out, known, strlen(known));
    TD_CHECK(spell_number(speller, ruleset, value));
    if (speller->words.size < MEMORY_BYTES) {
        memcpy(known, speller->words.data, speller->words.size + 1);
        speller->memory[slot].value = value;
        speller->memory[slot].ruleset = ruleset;
    }
    return td_buffer_append(out, speller->words.data, speller->words.size);
}
