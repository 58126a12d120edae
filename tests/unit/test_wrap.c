/* Wrapping and cutting of text (src/base/wrap.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/wrap.h"

static void expect_wrapped(const char *words, size_t column, size_t indent, size_t columns,
                           const char *wanted)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    td_wrap_write(file, words, column, indent, columns);
    fclose(file);
    assert_string_equal(text, wanted);
    free(text);
}

static void expect_cut(const char *whole, size_t columns, const char *wanted)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    td_wrap_cut(file, whole, columns);
    fclose(file);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_width_counts_characters(void **state)
{
    (void)state;
    assert_int_equal(td_wrap_width(""), 0);
    assert_int_equal(td_wrap_width("Gerät…"), 6);
}

static void test_words_are_wrapped(void **state)
{
    (void)state;
    expect_wrapped("", 0, 2, 10, "\n");
    expect_wrapped("one two three", 0, 2, 0, "one two three\n");
    expect_wrapped("one two three", 0, 2, 13, "one two three\n");
    expect_wrapped("one two three", 0, 2, 12, "one two\n  three\n");
    expect_wrapped("one two three", 6, 6, 10, "one\n      two\n      three\n");
    expect_wrapped("  one   two ", 0, 0, 80, "one two\n");
    expect_wrapped("äöü äöü", 0, 0, 7, "äöü äöü\n");
    expect_wrapped("äöü äöü", 0, 0, 6, "äöü\näöü\n");
    expect_wrapped("unbreakable x", 0, 1, 4, "unbreakable\n x\n");
}

static void test_text_is_cut(void **state)
{
    (void)state;
    expect_cut("Gerät", 5, "Gerät");
    expect_cut("Gerät", 4, "Ger…");
    expect_cut("Gerät", 0, "Gerät");
    expect_cut("Gerät", 1, "…");
    expect_cut("ääää", 3, "ää…");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_width_counts_characters),
        cmocka_unit_test(test_words_are_wrapped),
        cmocka_unit_test(test_text_is_cut),
    };
    return cmocka_run_group_tests_name("wrap", tests, NULL, NULL);
}
