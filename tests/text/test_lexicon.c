/* A user's own pronunciations: which words are found, what is said for them, and where a file is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "text/lexicon.h"
#include "text/normalize.h"

static const char LINES[] =
    "\xEF\xBB\xBF# a comment\n\ngif\tjiff\r\nC++\tsee plus plus\nnew york\tnoo york\nnew\tnoo\n"
    "tomato\t/t\xC9\x99m\xCB\x88\xC9\x91to/\nStra\xC3\x9F"
    "e\tstraht\n";

static td_lexicon *open_lexicon(void)
{
    td_lexicon *lexicon;
    assert_int_equal(td_lexicon_parse(LINES, strlen(LINES), "words.txt", &lexicon), TD_OK);
    return lexicon;
}

static void expect(const char *text, const char *respelled, size_t n_stayed)
{
    td_lexicon *lexicon = open_lexicon();
    td_buffer out = {0};
    size_t stayed = 0;
    assert_int_equal(td_lexicon_apply(lexicon, false, text, strlen(text), &out, &stayed), TD_OK);
    assert_string_equal(out.data, respelled);
    assert_int_equal(stayed, n_stayed);
    td_buffer_free(&out);
    td_lexicon_destroy(lexicon);
}

static void test_respelling(void **state)
{
    (void)state;
    expect("A GIF, two gifs, a gif's end; gif", "A jiff, two gifs, a jiff's end; jiff", 0);
    expect("C++ and c++11 and xC++", "see plus plus and see plus plus11 and xC++", 0);
    expect("New York is new; renew Newport", "noo york is noo; renew Newport", 0);
    expect("new yorker", "noo yorker", 0);
    expect("STRA\xC3\x9F"
           "E",
           "straht", 0);
    expect("a tomato. Tomatoes", "a tomato. Tomatoes", 1);
    expect("", "", 0);
}

/* A letter in the place of a word passes the normaliser, and stands for the phonemes. */
static void test_phonemes(void **state)
{
    static const char TEXT[] = "A Tomato, 2 \xF0\xA0\x80\x80.";
    td_lexicon *lexicon = open_lexicon();
    td_normalizer *normalizer;
    td_buffer out = {0};
    const char *said;
    size_t stayed = 0;
    (void)state;
    assert_int_equal(td_lexicon_apply(lexicon, true, TEXT, strlen(TEXT), &out, &stayed), TD_OK);
    assert_int_equal(stayed, 0);
    assert_string_equal(out.data,
                        "A \xF0\xA0\x80\x80, 2 \xEF\xBF\xBD."); /* the text's own is not taken for it */
    assert_string_equal(td_lexicon_phonemes(lexicon, 0x20000), "t\xC9\x99m\xCB\x88\xC9\x91to");
    assert_null(td_lexicon_phonemes(lexicon, 0x20001));
    assert_null(td_lexicon_phonemes(lexicon, 'a'));
    assert_int_equal(td_normalizer_create(TD_LANG_EN, &normalizer), TD_OK);
    assert_int_equal(td_normalizer_run(normalizer, out.data, out.size, &said), TD_OK);
    assert_string_equal(said, "a \xF0\xA0\x80\x80, two.");
    td_normalizer_destroy(normalizer);
    td_buffer_free(&out);
    td_lexicon_destroy(lexicon);
}

static void refuse(const char *lines, const char *message)
{
    td_lexicon *lexicon;
    assert_int_equal(td_lexicon_parse(lines, strlen(lines), "words.txt", &lexicon), TD_ERR_FORMAT);
    assert_null(lexicon);
    if (!strstr(td_error_last()->message, message)) print_message("%s\n", td_error_last()->message);
    assert_non_null(strstr(td_error_last()->message, message));
}

static void test_mistakes(void **state)
{
    td_lexicon *lexicon;
    char word[130] = "";
    (void)state;
    refuse("a\tb\nword\n", "words.txt:2: no tab");
    refuse("\n\t b", "words.txt:2: no word");
    refuse("a\t \n", "words.txt:1: nothing behind");
    refuse("a\tb\tc\n", "words.txt:1: more than one tab");
    refuse("a\t/b\n", "words.txt:1: phonemes stand between two bars");
    refuse("a\t/\n", "words.txt:1: phonemes stand between two bars");
    refuse("a\t/b/c/\n", "words.txt:1: phonemes stand between two bars");
    refuse("a\t/ /\n", "words.txt:1: no phonemes");
    refuse("gif\ta\nb\tb\nGIF\tc\n", "words.txt:3: the word has a line already: 1");
    refuse("a\tb\n\xFF\tc\n", "words.txt:2: byte 0");
    memset(word, 'a', 101);
    strcat(word, "\tb");
    refuse(word, "words.txt:1: a word of 101 characters");
    assert_int_equal(td_lexicon_parse("a\0", 2, "x", &lexicon), TD_ERR_FORMAT);
    assert_int_equal(td_lexicon_open("/nowhere/words.txt", &lexicon), TD_ERR_NOT_FOUND);
    assert_null(lexicon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_respelling), cmocka_unit_test(test_phonemes),
                                       cmocka_unit_test(test_mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
