/* Texts to tokens: as in training, in pieces the voice can take, with what it has not learnt in other
 * letters, left out or refused. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "synth/script.h"
#include "text/phonemes.h"

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

/* Signs that the language has no word for are told as well; those it has one for, and brackets, are not. */
static void test_signs(void **state)
{
    static const char TEXT[] = "a & b \342\206\222 [c] \342\206\222 `d` \360\237\230\200";
    const td_checkpoint_info info = make_info("parallel");
    td_script script;
    (void)state;
    check(td_script_make(&info, &(td_script_options){0}, TEXT, strlen(TEXT), &script));
    assert_string_equal(script.pieces[0].text, "a and b c d");
    td_script_free(&script);
    refuse(TD_ERR_FORMAT, "'\342\206\222' (U+2192) 2 times, '\360\237\230\200' (U+1F600)",
           td_script_make(&info, &(td_script_options){.is_strict = true},
                          "a \342\206\222\342\206\222 \360\237\230\200", 13, &script));
}

/* Symbols of the table that no training text had are not said. */
static void test_unseen(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    td_script script;
    (void)state;
    info.unseen = "?x";
    check(td_script_make(&info, &(td_script_options){0}, "Exit?", 5, &script));
    assert_string_equal(script.pieces[0].text, "eksit.");
    td_script_free(&script);
    refuse(TD_ERR_FORMAT, "'x' (U+0078)",
           td_script_make(&info, &(td_script_options){.is_strict = true}, "exit", 4, &script));
}

static void test_ssml(void **state)
{
    static const char TEXT[] =
        "<speak>One <prosody rate=\"80%\">two.</prosody> three, <break time=\"1s\"/><p>four</p> five"
        "<break/></speak>";
    static const struct {
        const char *text;
        td_piece_end end;
        double rate, pause_s;
    } PIECES[] = {{"one", TD_PIECE_WITHIN, 1, -1},
                  {"two.", TD_PIECE_SENTENCE, 0.8, -1},
                  {"three,", TD_PIECE_PARAGRAPH, 1, 1},
                  {"four", TD_PIECE_PARAGRAPH, 1, -1},
                  {"five", TD_PIECE_PARAGRAPH, 1, 0.2}};
    td_checkpoint_info info = make_info("parallel");
    td_script script;
    (void)state;
    check(td_script_make(&info, &(td_script_options){0}, TEXT, strlen(TEXT), &script));
    assert_int_equal(script.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(script.pieces[i].text, PIECES[i].text);
        assert_int_equal(script.pieces[i].end, PIECES[i].end);
        assert_true(script.pieces[i].rate == PIECES[i].rate);
        assert_true(script.pieces[i].pause_s == PIECES[i].pause_s);
    }
    bool is_split;
    check(td_script_split(&script, 2,
                          &is_split)); /* the pause stays behind the last half, the rate with both */
    check(td_script_split(&script, 1, &is_split));
    assert_true(is_split && script.pieces[1].rate == 0.8 && script.pieces[2].rate == 0.8);
    assert_true(script.pieces[3].pause_s == -1 && script.pieces[4].pause_s == 1);
    td_script_free(&script);
    refuse(TD_ERR_CONFIG, "nothing to say",
           td_script_make(&info, &(td_script_options){0}, "<speak/>", 8, &script));
    info = make_info("autoregressive");
    check(td_script_make(&info, &(td_script_options){0}, TEXT, strlen(TEXT), &script));
    assert_true(script.pieces[1].rate == 1); /* it cannot keep another */
    td_script_free(&script);
}

/* Phonemes of a lexicon reach the tokens of a voice that has them; those around them stay as they are. */
static void test_lexicon(void **state)
{
    static const char WORDS[] = "gif\t/d\312\222\311\252f/\nabc\tone two\n";
    td_checkpoint_info info = make_info("parallel");
    td_lexicon *lexicon;
    td_script script, plain;
    (void)state;
    check(td_lexicon_parse(WORDS, strlen(WORDS), "words", &lexicon));
    const td_script_options options = {.lexicon = lexicon, .is_strict = true};
    check(td_script_make(&info, &options, "ABC!", 3, &script));
    assert_string_equal(script.pieces[0].text, "one two");
    td_script_free(&script);
    refuse(TD_ERR_FORMAT, "trained with letters", td_script_make(&info, &options, "a gif", 5, &script));
    info.token_kind = TD_TOKENS_PHONEMES;
    info.symbols = " .abdefhklmnopstuvwz\303\260\311\231\311\252\312\222\313\210";
    if (td_phonemes_check() != TD_OK) skip();
    check(td_script_make(&info, &options, "The GIF.", 8, &script));
    check(td_script_make(&info, &(td_script_options){0}, "the.", 4, &plain));
    assert_int_equal(script.pieces[0].tokens.count,
                     plain.pieces[0].tokens.count + 5); /* a space and four sounds */
    const int32_t *ids = script.pieces[0].tokens.ids + script.pieces[0].tokens.count - 6;
    const uint32_t expected[] = {'d', 0x292, 0x26A, 'f', '.'};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(ids[i], td_symbols_find(script.symbols, expected[i]));
    td_script_free(&plain);
    td_script_free(&script);
    td_lexicon_destroy(lexicon);
}

static void test_refusals(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    td_script script;
    char *much = calloc(1, TD_SCRIPT_MAX_BYTES + 2);
    (void)state;
    assert_non_null(much);
    memset(much, 'a', TD_SCRIPT_MAX_BYTES + 1);
    refuse(TD_ERR_CONFIG, "nothing to say",
           td_script_make(&info, &(td_script_options){.is_strict = true}, "", 0, &script));
    refuse(TD_ERR_CONFIG, "nothing to say",
           td_script_make(&info, &(td_script_options){.is_strict = true}, " ...\n!", 6, &script));
    refuse(TD_ERR_CONFIG, "at most",
           td_script_make(&info, &(td_script_options){.is_strict = true}, much, TD_SCRIPT_MAX_BYTES + 1,
                          &script));
    refuse(TD_ERR_FORMAT, "';' (U+003B)",
           td_script_make(&info, &(td_script_options){.is_strict = true}, "a; b", 4, &script));
    refuse(TD_ERR_FORMAT, "U+00E9",
           td_script_make(&info, &(td_script_options){.is_strict = true}, "caf\303\251", 5, &script));
    refuse(TD_ERR_FORMAT, "UTF-8",
           td_script_make(&info, &(td_script_options){.is_strict = true}, "\377", 1, &script));
    refuse(TD_ERR_CONFIG, "xx",
           td_script_make(&info, &(td_script_options){.language = "xx", .is_strict = true}, "a", 1, &script));
    set_key(&info, "n_symbols", "10");
    refuse(TD_ERR_FORMAT, "another voice",
           td_script_make(&info, &(td_script_options){.is_strict = true}, "z", 1, &script));
    assert_null(script.pieces);
    free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signs),
                                       cmocka_unit_test(test_unseen),
                                       cmocka_unit_test(test_ssml),
                                       cmocka_unit_test(test_lexicon),
                                       cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_finding_05_other_letters),
                                       cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_finding_06_more_tokens),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
