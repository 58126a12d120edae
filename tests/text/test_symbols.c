/* Symbol tables: order, specials, text form, refusal of damaged ones (src/text/symbols.c);
 * alphabets of languages (src/text/alphabet.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/text.h"
#include "text/alphabet.h"
#include "text/normalize.h"
#include "text/symbols.h"

static td_symbols *collect(const char *first, const char *second)
{
    td_symbol_set *set = NULL;
    td_symbols *symbols = NULL;
    assert_int_equal(td_symbol_set_create(&set), TD_OK);
    assert_int_equal(td_symbol_set_add(set, first, strlen(first)), TD_OK);
    assert_int_equal(td_symbol_set_add(set, second, strlen(second)), TD_OK);
    assert_int_equal(td_symbols_create(set, &symbols), TD_OK);
    td_symbol_set_destroy(set);
    return symbols;
}

static void test_order(void **state)
{
    (void)state;
    td_symbols *symbols = collect("baab é", "z😀字");
    assert_string_equal(td_symbols_text(symbols), " abzé字😀");
    assert_int_equal(td_symbols_count(symbols), TD_SYMBOL_FIRST + 7);
    assert_int_equal(td_symbols_find(symbols, ' '), TD_SYMBOL_FIRST);
    assert_int_equal(td_symbols_find(symbols, 'b'), TD_SYMBOL_FIRST + 2);
    assert_int_equal(td_symbols_find(symbols, 0xE9), TD_SYMBOL_FIRST + 4);
    assert_int_equal(td_symbols_find(symbols, 0x1F600), TD_SYMBOL_FIRST + 6);
    assert_int_equal(td_symbols_find(symbols, 'c'), TD_SYMBOL_UNKNOWN);
    assert_int_equal(td_symbols_find(symbols, 0xEA), TD_SYMBOL_UNKNOWN);
    td_symbols_destroy(symbols);
    symbols = collect("z😀字", "é baab");
    assert_string_equal(td_symbols_text(symbols), " abzé字😀");
    td_symbols_destroy(symbols);
}

static void test_text_form(void **state)
{
    (void)state;
    td_symbols *symbols = collect("the quick brown fox", "żółć \xF4\x8F\xBF\xBF");
    td_symbols *again = NULL;
    assert_int_equal(td_symbols_parse(td_symbols_text(symbols), &again), TD_OK);
    assert_string_equal(td_symbols_text(again), td_symbols_text(symbols));
    for (uint32_t codepoint = 0; codepoint < 0x110000; ++codepoint) {
        assert_int_equal(td_symbols_find(again, codepoint), td_symbols_find(symbols, codepoint));
    }
    td_symbols_destroy(symbols);
    td_symbols_destroy(again);
    td_symbols_destroy(NULL);
}

static void test_bad_text(void **state)
{
    (void)state;
    td_symbols *symbols = NULL;
    assert_int_equal(td_symbols_parse("ba", &symbols), TD_ERR_FORMAT);
    assert_non_null(strstr(td_error_last()->message, "byte 1"));
    assert_int_equal(td_symbols_parse("aa", &symbols), TD_ERR_FORMAT);
    assert_int_equal(td_symbols_parse("a\xFF", &symbols), TD_ERR_FORMAT);
    assert_int_equal(td_symbols_parse("", &symbols), TD_OK);
    assert_int_equal(td_symbols_count(symbols), TD_SYMBOL_FIRST);
    td_symbols_destroy(symbols);
}

static void expect_alphabet(td_token_kind kind, td_lang lang, const char *expected)
{
    td_symbol_set *set;
    td_symbols *symbols;
    assert_int_equal(td_symbol_set_create(&set), TD_OK);
    assert_int_equal(td_alphabet_add(kind, lang, set), TD_OK);
    assert_int_equal(td_symbols_create(set, &symbols), TD_OK);
    assert_string_equal(td_symbols_text(symbols), expected);
    td_symbols_destroy(symbols);
    td_symbol_set_destroy(set);
}

#define MARKS " !\"'(),-.:;?"
#define ASCII MARKS "abcdefghijklmnopqrstuvwxyz"

static void test_alphabets(void **state)
{
    (void)state;
    expect_alphabet(TD_TOKENS_CHARACTERS, TD_LANG_EN, ASCII);
    expect_alphabet(TD_TOKENS_CHARACTERS, TD_LANG_DE, ASCII "ßäöü");
    expect_alphabet(TD_TOKENS_CHARACTERS, TD_LANG_ES, ASCII "¡¿áéíñóúü");
    expect_alphabet(TD_TOKENS_CHARACTERS, TD_LANG_FR, ASCII "àâæçèéêëîïôùûüÿœ");
    expect_alphabet(TD_TOKENS_PHONEMES, TD_LANG_EN,
                    MARKS "abdefhijklmnopstuvwxzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒʔˈˌː\u0329θᵻ");
}

/* Every language has one, of a size that a table can have, and with it no text of its number words is unknown. */
static void test_every_alphabet(void **state)
{
    (void)state;
    for (int lang = 0; lang < TD_LANG_COUNT; ++lang) {
        td_symbol_set *set;
        td_symbols *symbols;
        td_normalizer *normalizer;
        const char *words;
        assert_int_equal(td_symbol_set_create(&set), TD_OK);
        assert_int_equal(td_alphabet_add(TD_TOKENS_CHARACTERS, (td_lang)lang, set), TD_OK);
        assert_int_equal(td_symbols_create(set, &symbols), TD_OK);
        assert_in_range(td_symbols_count(symbols), 30, 250);
        assert_int_equal(td_normalizer_create((td_lang)lang, &normalizer), TD_OK);
        assert_int_equal(td_normalizer_run(normalizer, "21 1234 0.75 16", 15, &words), TD_OK);
        for (size_t at = 0, bytes = strlen(words); at < bytes;) {
            uint32_t codepoint;
            at += td_text_utf8_next(words + at, bytes - at, &codepoint);
            assert_int_not_equal(td_symbols_find(symbols, codepoint), TD_SYMBOL_UNKNOWN);
        }
        td_normalizer_destroy(normalizer);
        td_symbols_destroy(symbols);
        td_symbol_set_destroy(set);
    }
}

static void test_hidden(void **state)
{
    td_symbols *symbols;
    (void)state;
    assert_int_equal(td_symbols_parse("abcé", &symbols), TD_OK);
    assert_int_equal(td_symbols_hide(symbols, "béx"), TD_OK);
    assert_int_equal(td_symbols_find(symbols, 'a'), TD_SYMBOL_FIRST);
    assert_int_equal(td_symbols_find(symbols, 'b'), TD_SYMBOL_UNKNOWN);
    assert_int_equal(td_symbols_find(symbols, 'c'), TD_SYMBOL_FIRST + 2);
    assert_int_equal(td_symbols_find(symbols, 0xE9), TD_SYMBOL_UNKNOWN);
    assert_int_equal(td_symbols_find(symbols, 'x'), TD_SYMBOL_UNKNOWN);
    assert_int_equal(td_symbols_count(symbols), TD_SYMBOL_FIRST + 4);
    assert_string_equal(td_symbols_text(symbols), "abcé");
    assert_int_equal(td_symbols_hide(symbols, "\xFF"), TD_ERR_FORMAT);
    td_symbols_destroy(symbols);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_text_form),
        cmocka_unit_test(test_bad_text),       cmocka_unit_test(test_alphabets),
        cmocka_unit_test(test_every_alphabet), cmocka_unit_test(test_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
