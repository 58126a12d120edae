/* Texts in the symbols that a voice knows: what stands for what, and what is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "text/adapt.h"
#include "text/phonemes.h"

static void expect_of(td_token_kind kind, const char *symbols, const char *unseen, const char *text,
                      const char *adapted, const char *left_out)
{
    td_symbols *table = NULL;
    td_tokenizer *tokenizer = NULL;
    td_buffer out = {0};
    td_left_outs left_outs = {0};
    char names[256];
    assert_int_equal(td_symbols_parse(symbols, &table), TD_OK);
    assert_int_equal(td_symbols_hide(table, unseen), TD_OK);
    assert_int_equal(td_tokenizer_create(kind, table, &tokenizer), TD_OK);
    assert_int_equal(td_adapt_text(tokenizer, text, strlen(text), &out, &left_outs), TD_OK);
    td_left_outs_describe(&left_outs, names, sizeof names);
    assert_string_equal(out.data, adapted);
    assert_string_equal(names, left_out);
    td_left_outs_free(&left_outs);
    td_buffer_free(&out);
    td_tokenizer_destroy(tokenizer);
    td_symbols_destroy(table);
}

static void expect(const char *symbols, const char *text, const char *adapted, const char *left_out)
{
    expect_of(TD_TOKENS_CHARACTERS, symbols, "", text, adapted, left_out);
}

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define PLAIN " ,." LETTERS

static void test_known_stays(void **state)
{
    (void)state;
    expect(PLAIN, "hello, world.", "hello, world.", "");
    expect(" '-;" LETTERS "\303\251", "don't; caf\303\251 twenty-one", "don't; caf\303\251 twenty-one", "");
}

static void test_marks(void **state)
{
    (void)state;
    expect(PLAIN, "he is twenty-one.", "he is twenty one.", "");
    expect(PLAIN, "don't", "dont", "");
    expect(PLAIN, "\"well\", he said; \"go!\"", "well, he said, go.", "");
    expect(PLAIN, "one (or two): three?", "one or two, three.", "");
    expect(PLAIN, "print(three) - (four)", "print three four", "");
    expect(" ." LETTERS, "so; it, goes", "so. it goes", "");
    expect(" " LETTERS, "so; it goes!", "so it goes", "");
    expect(LETTERS, "so it", "soit", "");
}

static void test_letters(void **state)
{
    (void)state;
    expect(PLAIN, "caf\303\251 na\303\257ve", "cafe naive", "");
    expect(PLAIN, "stra\303\237e, \305\202\303\263d\305\272, \303\246on", "strasse, lodz, aeon", "");
    expect(PLAIN, "\357\254\201n \357\275\201 \342\205\243", "fin a iv",
           ""); /* ligature, full width, Roman 4 */
    expect(PLAIN, "ABC", "abc", "");
}

static void test_left_out(void **state)
{
    (void)state;
    expect(PLAIN, "a \346\274\242 b \346\274\242\320\266", "a b",
           "'\346\274\242' (U+6F22) 2 times, '\320\266' (U+0436)");
    expect("abc", "xyz", "", "'x' (U+0078), 'y' (U+0079), 'z' (U+007A)");
    expect(
        "0", LETTERS, "",
        "'a' (U+0061), 'b' (U+0062), 'c' (U+0063), 'd' (U+0064), 'e' (U+0065), 'f' (U+0066), 'g' (U+0067), "
        "'h' (U+0068), 'i' (U+0069), 'j' (U+006A), 'k' (U+006B), 'l' (U+006C), 'm' (U+006D), 'n' (U+006E), "
        "and 12 others");
}

/* In the table, and never heard in training: as if they were not there. */
static void test_unseen(void **state)
{
    (void)state;
    expect_of(TD_TOKENS_CHARACTERS, " !,." LETTERS, "!xzg", "exit, zigzag!", "eksit, sisa.",
              "'g' (U+0067) 2 times");
}

/* Sounds stand for sounds, shades of them are not missed. */
static void test_phonemes(void **state)
{
    (void)state;
    if (td_phonemes_check() != TD_OK) skip();
    expect_of(TD_TOKENS_PHONEMES, " abdeiklmnostu\311\231\311\271", "",
              "\313\210\311\221\313\220\312\201 z\311\233", "a\311\271 se", "");
    expect_of(TD_TOKENS_PHONEMES, " ae", "e", "\311\233x", "a", "'x' (U+0078)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unseen),      cmocka_unit_test(test_phonemes),
                                       cmocka_unit_test(test_known_stays), cmocka_unit_test(test_marks),
                                       cmocka_unit_test(test_letters),     cmocka_unit_test(test_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
