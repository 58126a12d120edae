/* Texts to tokens: as in training, in pieces the voice can take, with what it has not learnt in other
 * letters, left out or refused. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "synth/script.h"

static void expect_pieces(const char *text, const char *const *pieces, size_t count)
{
    const td_checkpoint_info info = make_info("parallel");
    td_script script;
    check(td_script_make(&info, &(td_script_options){.language = "auto"}, text, strlen(text), &script));
    assert_int_equal(script.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(script.pieces[i].text, pieces[i]);
        assert_int_equal(script.pieces[i].tokens.count, strlen(pieces[i]) + 2);
        assert_int_equal(script.pieces[i].tokens.ids[0], TD_SYMBOL_BOS);
    }
    td_script_free(&script);
}

static void test_pieces(void **state)
{
    static const char *const PIECES[] = {"doctor smith has two cats.", "he left.", "the end"};
    static const char *const MARKS[] = {"so?..."};
    (void)state;
    expect_pieces("Dr. Smith has 2 cats. He left.\n  \nThe end", PIECES, 3);
    expect_pieces("... So? ...", MARKS, 1);
}

static void test_finding_05_other_letters(void **state)
{
    static const char *const PIECES[] = {"he is twenty one.", "dont go ok, said the cafe.", "stop"};
    td_checkpoint_info info = make_info("parallel");
    td_script script;
    (void)state;
    expect_pieces("He is 21. \342\200\234Don\342\200\231t go (ok);\342\200\235 said the caf\303\251. "
                  "\346\274\242! Stop",
                  PIECES, 3);
    refuse(TD_ERR_CONFIG, "'\346\274\242' (U+6F22) 2 times",
           td_script_make(&info, &(td_script_options){0}, "\346\274\242\346\274\242", 6, &script));
    assert_null(script.pieces);
}

static void test_ends(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    static const char TEXT[] = "One\ntwo. Three.\n\nFour.";
    td_script script;
    (void)state;
    check(td_script_make(&info, &(td_script_options){.is_strict = true}, TEXT, strlen(TEXT), &script));
    assert_int_equal(script.count, 3);
    assert_string_equal(script.pieces[0].text, "one two.");
    assert_int_equal(script.pieces[0].end, TD_PIECE_SENTENCE);
    assert_int_equal(script.pieces[1].end, TD_PIECE_PARAGRAPH);
    td_script_free(&script);
}

/* Without any place to cut, and with many. */
static void test_long(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    enum { LENGTH = 20000 };
    char *text = malloc(LENGTH + 1);
    td_script script;
    (void)state;
    assert_non_null(text);
    set_key(&info, "max_tokens", "50");
    for (int is_spaced = 0; is_spaced < 2; is_spaced++) {
        size_t letters = 0;
        for (size_t i = 0; i < LENGTH; i++)
            text[i] = is_spaced && i % 7 == 6 ? ' ' : 'a';
        text[LENGTH] = 0;
        check(td_script_make(&info, &(td_script_options){.is_strict = true}, text, LENGTH, &script));
        for (size_t i = 0; i < script.count; i++) {
            assert_true(script.pieces[i].tokens.count <= 50);
            for (const char *c = script.pieces[i].text; *c; c++)
                letters += *c == 'a';
        }
        assert_int_equal(letters, is_spaced ? LENGTH - LENGTH / 7 : LENGTH);
        td_script_free(&script);
    }
    free(text);
}

/* Where letters become more of them, a piece may become too long for the voice. */
static void test_finding_06_more_tokens(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    char text[2 * 45 + 1] = "";
    td_script script;
    size_t letters = 0;
    (void)state;
    set_key(&info, "max_tokens", "50");
    for (size_t i = 0; i < 45; i++)
        strcat(text, "\303\237");
    check(td_script_make(&info, &(td_script_options){0}, text, strlen(text), &script));
    assert_int_equal(script.count, 2);
    for (size_t i = 0; i < script.count; i++) {
        assert_true(script.pieces[i].tokens.count <= 50);
        letters += strlen(script.pieces[i].text);
    }
    assert_int_equal(letters, 90);
    assert_int_equal(script.pieces[0].end, TD_PIECE_WITHIN);
    assert_int_equal(script.pieces[1].end, TD_PIECE_PARAGRAPH);
    td_script_free(&script);
}

static void test_refusals(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    td_script script;
    char *much = calloc(1, TD_SCRIPT_MAX_BYTES + 2);
    (void)state;
    assert_non_null(much);
    memset(much, 'a', TD_SCRIPT_MAX_BYTES + 1);
    refuse(TD_ERR_CONFIG, "nothing to say", td_script_make(&info, &(td_script_options){.is_strict = true}, "", 0, &script));
    refuse(TD_ERR_CONFIG, "nothing to say", td_script_make(&info, &(td_script_options){.is_strict = true}, " ...\n!", 6, &script));
    refuse(TD_ERR_CONFIG, "at most",
           td_script_make(&info, &(td_script_options){.is_strict = true}, much, TD_SCRIPT_MAX_BYTES + 1, &script));
    refuse(TD_ERR_FORMAT, "';' (U+003B)", td_script_make(&info, &(td_script_options){.is_strict = true}, "a; b", 4, &script));
    refuse(TD_ERR_FORMAT, "U+00E9", td_script_make(&info, &(td_script_options){.is_strict = true}, "caf\303\251", 5, &script));
    refuse(TD_ERR_FORMAT, "UTF-8", td_script_make(&info, &(td_script_options){.is_strict = true}, "\377", 1, &script));
    refuse(TD_ERR_CONFIG, "xx", td_script_make(&info, &(td_script_options){.language = "xx", .is_strict = true}, "a", 1, &script));
    set_key(&info, "n_symbols", "10");
    refuse(TD_ERR_FORMAT, "another voice", td_script_make(&info, &(td_script_options){.is_strict = true}, "z", 1, &script));
    assert_null(script.pieces);
    free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_finding_05_other_letters),
                                       cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_finding_06_more_tokens),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
