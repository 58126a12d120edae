/* Symbol tables: order, specials, text form, refusal of damaged ones (src/text/symbols.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_text_form),
        cmocka_unit_test(test_bad_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
