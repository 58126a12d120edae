/* Chinese, Japanese and Korean in Latin letters, and marks (src/text/romanize.c). Readings of whole sentences, against
 * Coqui's package, are in test_readings.c. */
#include "support/expect.h"

#include <stdlib.h>
#include <string.h>

#include "text/romanize.h"

static void expect_reading(td_lang lang, const char *text, const char *expected)
{
    td_romanizer *r;
    td_buffer out = {0};
    check(td_romanizer_create(lang, &r));
    check(td_romanizer_run(r, text, strlen(text), &out));
    assert_string_equal(out.data, expected);
    td_romanizer_destroy(r);
    td_buffer_free(&out);
}

static void test_chinese(void **state)
{
    (void)state;
    expect_reading(TD_LANG_ZH, "你好", "ni3hao3");
    expect_reading(TD_LANG_ZH, "绿色的女人", "lv4se4de5nv3ren2");
    expect_reading(TD_LANG_ZH, "我们喜欢音乐.", "wo3men5xi3huan1yin1yue4,");
    expect_reading(TD_LANG_ZH, "他快乐", "ta1kuai4le4"); /* not as in the word before */
    expect_reading(TD_LANG_ZH, "银行在地下", "yin2hang2zai4di4xia4");
    expect_reading(TD_LANG_ZH, "二〇二一", "er4ling2er4yi1");
    expect_reading(TD_LANG_ZH, "ok, abc!", "ok, abc,");
    expect_reading(TD_LANG_ZH, "", "");
}

static void test_japanese(void **state)
{
    (void)state;
    expect_reading(TD_LANG_JA, "わたしは がくせい です.", "watashi wa gakusei desu.");
    expect_reading(TD_LANG_JA, "みずをのみます", "mizu wo nomimasu");
    expect_reading(TD_LANG_JA, "かわへ いく", "kawa e iku");
    expect_reading(TD_LANG_JA, "は", "ha"); /* alone it is no particle */
    expect_reading(TD_LANG_JA, "しんいち こんにちわ しゅっちょう まっちゃ",
                   "shin'ichi konnichiwa shutchou matcha");
    expect_reading(TD_LANG_JA, "コーヒー ヴァイオリン ティー あっ!", "koohii vaiorin tii a!");
    expect_reading(TD_LANG_JA, "八百三十六円です", "happyakusanjuuroku en desu");
    expect_reading(TD_LANG_JA, "はい,abc.", "hai, abc.");
}

/* Each consonant between vowels is one syllable's alone: a hyphen says which where letters do not. */
static void test_korean(void **state)
{
    (void)state;
    expect_reading(TD_LANG_KO, "안녕하세요", "annyeonghase-yo");
    expect_reading(TD_LANG_KO, "물엿", "mul-yeos");
    expect_reading(TD_LANG_KO, "굳이", "gud-i");
    expect_reading(TD_LANG_KO, "없었습니다", "eobs-eoss-seubnida");
    expect_reading(TD_LANG_KO, "가까이 abc 아", "ga-kka-i abc a");
    expect_reading(TD_LANG_KO, "날씨", "nal-ssi");
}

static void test_marks(void **state)
{
    (void)state;
    expect_reading(TD_LANG_HI, "हाँ. नहीं...", "हाँ। नहीं...");
    expect_reading(TD_LANG_AR, "نعم, هل؟ لا?", "نعم، هل؟ لا؟");
    expect_reading(TD_LANG_EN, "\"yes,\" she said.", "yes, she said.");
}

static void test_kanji_are_refused(void **state)
{
    (void)state;
    td_romanizer *r;
    td_buffer out = {0};
    const char *text = "きょうは 天気が いい";
    check(td_romanizer_create(TD_LANG_JA, &r));
    refuse(TD_ERR_FORMAT, "'天'|kana|romaji|lexicon", td_romanizer_run(r, text, strlen(text), &out));
    td_romanizer_destroy(r);
    td_buffer_free(&out);
}

/* Longer than what ICU is given at once. */
static void test_long_words(void **state)
{
    (void)state;
    enum { N = 500 };
    char text[3 * N + 1] = "", expected[2 * N + 1] = "";
    for (size_t i = 0; i < N; i++) {
        strcat(text, "か");
        strcat(expected, "ka");
    }
    expect_reading(TD_LANG_JA, text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chinese),
        cmocka_unit_test(test_japanese),
        cmocka_unit_test(test_korean),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_kanji_are_refused),
        cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
