/* The walk over folded text (normalize.h): words and signs by table, numbers by expand.c, the rest copied.
 * Whether a word starts here is judged by what was put out, so that a second run judges the same.
 */
#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "text/normalize_internal.h"

td_status td_normalizer_create(td_lang lang, td_normalizer **out)
{
    td_status status = TD_OK;
    td_normalizer *n = NULL;
    TD_TRY(TD_NEW(&n));
    n->lang = lang;
    n->rules = td_lang_get_rules(lang);
    TD_TRY(td_folder_create(lang, &n->folder));
    TD_TRY(td_speller_create(lang, &n->speller));
    *out = n;
    n = NULL;
fail:
    td_normalizer_destroy(n);
    return status;
}

void td_normalizer_destroy(td_normalizer *normalizer)
{
    if (normalizer == NULL) return;
    td_folder_destroy(normalizer->folder);
    td_speller_destroy(normalizer->speller);
    td_buffer_free(&normalizer->out);
    td_buffer_free(&normalizer->words);
    free(normalizer);
}

static bool is_ascii_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

static void put(td_normalizer *n, const char *text, size_t bytes)
{
    bool tight = strchr(".,;:!?)", text[0]) != NULL;
    if (n->space && n->out.size > 0 && !tight && n->status == TD_OK)
        n->status = td_buffer_append(&n->out, " ", 1);
    n->space = false;
    if (n->status == TD_OK) n->status = td_buffer_append(&n->out, text, bytes);
}

/* Whether the output ends in a letter or mark. */
static bool ends_in_letter(const td_normalizer *n)
{
    if (n->out.size == 0) return false;
    char last = n->out.data[n->out.size - 1];
    if ((last & 0x80) == 0) return is_ascii_letter(last);
    return td_unicode_is_letter(td_unicode_before(n->out.data, n->out.size));
}

void td_normalize_say(td_normalizer *n, const char *text, size_t bytes)
{
    if (bytes == 0) return;
    if (!n->rules->joined && !n->space && ends_in_letter(n)) n->space = true;
    put(n, text, bytes);
    n->spoken = true;
}

void td_normalize_copy(td_normalizer *n, const char *text, size_t bytes)
{
    if (n->spoken && !n->rules->joined && !n->space) {
        uint32_t codepoint = 0;
        td_text_utf8_next(text, bytes, &codepoint);
        n->space = td_unicode_is_letter(codepoint);
    }
    put(n, text, bytes);
    n->spoken = false;
}

bool td_normalize_match(const td_normalizer *n, const char *text, const char *key, const char **end)
{
    const char *at = text;
    for (const char *k = key; *k != '\0'; ++k, ++at) {
        if (k > key && k[-1] == '.' && *at == ' ' && *k != ' ') ++at;
        if (*at != *k) return false;
    }
    *end = at;
    if (!td_unicode_is_letter(td_unicode_before(key, strlen(key)))) return true;
    if (*at == '\'' || is_ascii_letter(*at)) return false;
    if (n->rules->joined || (*at & 0x80) == 0) return true;
    uint32_t next = 0;
    td_text_utf8_next(at, strlen(at), &next);
    return !td_unicode_is_letter(next);
}

bool td_normalize_match_list(const td_normalizer *n, const char *text, const char *list, const char **end)
{
    bool found = false;
    while (list != NULL && *list != '\0') {
        char word[64];
        size_t bytes = strcspn(list, " ");
        memcpy(word, list, bytes);
        word[bytes] = '\0';
        const char *stop = NULL;
        if (td_normalize_match(n, text, word, &stop) && (!found || stop > *end)) {
            *end = stop;
            found = true;
        }
        list += bytes + (list[bytes] == ' ');
    }
    return found;
}

const td_lang_money *td_normalize_match_money(const td_normalizer *n, const char *text, const char **end)
{
    for (const td_lang_money *money = n->rules->money; money->symbols != NULL; ++money)
        if (td_normalize_match_list(n, text, money->symbols, end)) return money;
    return NULL;
}

static bool is_after_number(const td_normalizer *n, const char *text)
{
    return n->number_end != NULL && (text == n->number_end || (text == n->number_end + 1 && text[-1] == ' '));
}

const td_lang_word *td_normalize_match_word(const td_normalizer *n, const char *text, const char **end)
{
    const td_lang_word *best = NULL;
    for (const td_lang_word *word = n->rules->words; word->key != NULL; ++word) {
        const char *stop = NULL;
        if (word->key[0] != text[0] || !td_normalize_match(n, text, word->key, &stop)) continue;
        if (word->when == TD_WHEN_BEFORE_NUMBER && !td_expand_is_number(stop + (*stop == ' '))) continue;
        if (word->when == TD_WHEN_AFTER_NUMBER && !is_after_number(n, text)) continue;
        if (best == NULL || stop > *end) {
            best = word;
            *end = stop;
        }
    }
    return best;
}

/* An abbreviation at the very end keeps its dot, for it ends the sentence too. */
static void say_word(td_normalizer *n, const td_lang_word *word, const char *end)
{
    td_normalize_say(n, word->said, strlen(word->said));
    bool last = end[strspn(end, "\"')")] == '\0';
    if (last && word->key[strlen(word->key) - 1] == '.') td_normalize_copy(n, ".", 1);
    n->at = end;
}

static bool is_word_start(const td_normalizer *n)
{
    if (n->space || n->spoken || n->out.size == 0) return true;
    return n->out.data[n->out.size - 1] != '.' && !ends_in_letter(n);
}

/* "$5", "-5", "-$5", "%5": marks that belong to the number after them. */
static bool try_number(td_normalizer *n)
{
    const char *at = n->at;
    if (td_expand_is_number(at)) {
        /* The point of ".5" counts only where no word or number ends right before it. */
        if (*at == '.' && !(is_word_start(n) && !n->spoken)) return false;
        td_expand_number(n, NULL);
        return true;
    }
    bool first = at == n->text || strchr(" (\"", at[-1]) != NULL;
    bool minus = *at == '-' && first;
    const char *end = at + minus;
    const td_lang_money *money = NULL;
    if ((unsigned char)*end >= 0x80 || *end == '$' || (is_ascii_letter(*end) && is_word_start(n)))
        money = td_normalize_match_money(n, end, &end);
    if (money != NULL && *end == ' ') ++end;
    bool percent = n->rules->percent_before != NULL && *end == '%' && money == NULL;
    if (percent) ++end;
    if (end == at || !td_expand_is_number(end)) return false;
    if (minus) td_normalize_say(n, n->rules->minus, strlen(n->rules->minus));
    if (percent) td_normalize_say(n, n->rules->percent_before, strlen(n->rules->percent_before));
    n->at = end;
    td_expand_number(n, money);
    return true;
}

/* Letters up to the next thing that may need a decision. */
static size_t measure_letters(const char *text)
{
    size_t bytes = 0;
    while (is_ascii_letter(text[bytes]))
        ++bytes;
    if (bytes > 0) return bytes;
    uint32_t codepoint = 0;
    return td_text_utf8_next(text, strnlen(text, 4), &codepoint);
}

static void walk(td_normalizer *n)
{
    while (*n->at != '\0' && n->status == TD_OK) {
        const char *end = NULL;
        if (*n->at == ' ' || *n->at == '/') {
            n->space = true;
            ++n->at;
            continue;
        }
        if (try_number(n)) continue;
        bool letter = is_ascii_letter(*n->at);
        const td_lang_word *word = NULL;
        if (!letter || is_word_start(n)) {
            uint32_t codepoint = (unsigned char)*n->at;
            if (codepoint >= 0x80) td_text_utf8_next(n->at, strnlen(n->at, 4), &codepoint);
            bool may = !td_unicode_is_letter(codepoint) || is_word_start(n);
            word = may ? td_normalize_match_word(n, n->at, &end) : NULL;
            const td_lang_money *money = NULL;
            if (word == NULL && !td_unicode_is_letter(codepoint))
                money = td_normalize_match_money(n, n->at, &end);
            if (money != NULL) {
                td_normalize_say(n, money->major.forms, strcspn(money->major.forms, "|"));
                n->at = end;
                continue;
            }
        }
        if (word != NULL) {
            say_word(n, word, end);
            continue;
        }
        size_t bytes = measure_letters(n->at);
        td_normalize_copy(n, n->at, bytes);
        n->at += bytes;
    }
}

td_status td_normalizer_run(td_normalizer *normalizer, const char *text, size_t bytes, const char **out)
{
    td_normalizer *n = normalizer;
    td_status status = TD_OK;
    const td_buffer *folded = NULL;
    td_buffer_clear(&n->out);
    TD_TRY(td_folder_run(n->folder, text, bytes, &folded));
    n->status = td_buffer_reserve(&n->out, folded->size);
    n->text = n->at = folded->data;
    n->number_end = n->day_end = NULL;
    n->space = n->spoken = n->year_next = false;
    walk(n);
    if (n->status == TD_OK) n->status = td_buffer_append(&n->out, "", 0);
    TD_TRY(n->status);
    *out = n->out.data;
fail:
    return status;
}

bool td_normalizer_drops(const td_normalizer *normalizer, uint32_t codepoint)
{
    return td_folder_drops(normalizer->folder, codepoint);
}
