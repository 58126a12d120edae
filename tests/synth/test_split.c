/* Where texts are cut: ends of sentences, clauses, spaces, anywhere; never inside a character. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "synth/split.h"

/* The pieces with '|' behind each, and their ends as digits. */
static void expect(td_lang lang, size_t max_characters, const char *text, const char *pieces,
                   const char *ends)
{
    char got[512] = "", got_ends[64] = "";
    td_piece piece;
    for (size_t at = 0; td_split_next(text, lang, max_characters, &at, &piece);) {
        const size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%.*s|", (int)piece.bytes, text + piece.first);
        snprintf(got_ends + strlen(got_ends), 8, "%d", (int)piece.end);
        assert_true(piece.bytes > 0);
    }
    assert_string_equal(got, pieces);
    assert_string_equal(got_ends, ends);
}

static void test_sentences(void **state)
{
    (void)state;
    expect(TD_LANG_EN, 100, "one two. three? \"four!\" five", "one two.|three?|\"four!\"|five|", "2222");
    expect(TD_LANG_EN, 100, "a b... c", "a b...|c|", "22");
    expect(TD_LANG_EN, 100, "no.space here.", "no.space here.|", "2");
    expect(TD_LANG_EN, 100, "  ", "", "");
    expect(TD_LANG_EN, 100, "", "", "");
    expect(TD_LANG_ZH, 100, "你好.再见!", "你好.|再见!|", "22");
}

static void test_long_sentences(void **state)
{
    (void)state;
    expect(TD_LANG_EN, 20, "one two three, four five six seven.", "one two three,|four five six seven.|",
           "12");
    expect(TD_LANG_EN, 12, "one two three four five", "one two|three four|five|", "002");
    /* A comma near the start would leave a stump. */
    expect(TD_LANG_EN, 16, "oh, two three four five", "oh, two three|four five|", "02");
    expect(TD_LANG_EN, 4, "abcdefghij", "abcd|efgh|ij|", "002");
    expect(TD_LANG_DE, 3, "äöüßäöü", "äöü|ßäö|ü|", "002");
    expect(TD_LANG_EN, 1, "ab c", "a|b|c|", "002");
}

static void expect_middle(td_lang lang, const char *text, size_t cut, td_piece_end end)
{
    td_piece_end got;
    assert_int_equal(td_split_middle(text, lang, &got), cut);
    if (cut) assert_int_equal(got, end);
}

static void test_finding_06_middle(void **state)
{
    (void)state;
    expect_middle(TD_LANG_EN, "one, two three, four five", 15, TD_PIECE_CLAUSE);
    expect_middle(TD_LANG_EN, "o, two three four five", 12, TD_PIECE_WITHIN);
    expect_middle(TD_LANG_EN, "a bcdefghijklm", 1, TD_PIECE_WITHIN);
    expect_middle(TD_LANG_EN, "abcdef,", 3, TD_PIECE_WITHIN);
    expect_middle(TD_LANG_EN, "\303\251a", 2, TD_PIECE_WITHIN);
    expect_middle(TD_LANG_ZH, "你好,再见", 7, TD_PIECE_CLAUSE);
    expect_middle(TD_LANG_EN, "\303\251", 0, TD_PIECE_WITHIN);
    expect_middle(TD_LANG_EN, "", 0, TD_PIECE_WITHIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sentences),
                                       cmocka_unit_test(test_long_sentences),
                                       cmocka_unit_test(test_finding_06_middle)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
