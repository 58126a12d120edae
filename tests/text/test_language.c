/* Detection on sentences of every language, texts that are hardly any, and several threads (language.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/pool.h"
#include "text/detect_sentences.h"
#include "text/language.h"

enum { N_SENTENCES = sizeof detect_sentences / sizeof detect_sentences[0], PER_LANGUAGE = 20 };

static td_lang detect(td_detector *detector, const char *text)
{
    td_lang lang = TD_LANG_COUNT;
    assert_int_equal(td_detector_run(detector, text, strlen(text), TD_LANG_NL, &lang), TD_OK);
    return lang;
}

enum { N_FOUND = TD_LANG_HI + 1 }; /* those behind must be told */

static void test_sentences(void **state)
{
    td_detector *detector = *state;
    int right[TD_LANG_COUNT] = {0};
    assert_int_equal(N_SENTENCES, N_FOUND * PER_LANGUAGE);
    for (size_t i = 0; i < N_SENTENCES; ++i) {
        td_lang lang = detect(detector, detect_sentences[i].text);
        right[detect_sentences[i].lang] += lang == detect_sentences[i].lang;
        if (lang != detect_sentences[i].lang) {
            print_message("%s taken for %s: %s\n", td_lang_code(detect_sentences[i].lang), td_lang_code(lang),
                          detect_sentences[i].text);
        }
    }
    for (int i = 0; i < N_FOUND; ++i) {
        if (right[i] * 100 < 95 * PER_LANGUAGE)
            fail_msg("%s: only %d right", td_lang_code((td_lang)i), right[i]);
    }
}

static void test_hardly_text(void **state)
{
    td_detector *detector = *state;
    assert_int_equal(detect(detector, ""), TD_LANG_NL);
    assert_int_equal(detect(detector, " 123, ... !"), TD_LANG_NL);
    assert_int_equal(detect(detector, "漢字"), TD_LANG_ZH);
    assert_int_equal(detect(detector, "漢字です"), TD_LANG_JA);
    assert_int_equal(detect(detector, "OK, 안녕하세요 여러분"), TD_LANG_KO);
    td_lang lang = TD_LANG_EN;
    assert_int_equal(td_detector_run(detector, "ab\xFF", 3, TD_LANG_EN, &lang), TD_ERR_FORMAT);
    assert_non_null(strstr(td_error_last()->message, "byte 2"));
}

static td_status check_one(void *ctx, size_t index)
{
    td_lang lang = TD_LANG_COUNT;
    const char *text = detect_sentences[index % N_SENTENCES].text;
    td_status status = td_detector_run(ctx, text, strlen(text), TD_LANG_EN, &lang);
    if (status == TD_OK && index % N_SENTENCES == 0 && lang != TD_LANG_EN) {
        status = TD_FAIL(TD_ERR_INTEGRITY, "sentence %zu changed its language", index);
    }
    return status;
}

static void test_threads(void **state)
{
    (void)state;
    td_pool *pool = NULL;
    td_detector *detector = NULL;
    assert_int_equal(td_pool_create(4, &pool), TD_OK);
    assert_int_equal(td_detector_create(NULL, &detector), TD_OK);
    assert_int_equal(td_pool_map(pool, 4 * N_SENTENCES, check_one, detector), TD_OK);
    td_detector_destroy(detector);
    td_pool_destroy(pool);
}

static void test_missing_folder(void **state)
{
    (void)state;
    td_detector *detector = NULL;
    assert_int_equal(td_detector_create("/nowhere", &detector), TD_ERR_NOT_FOUND);
    assert_non_null(strstr(td_error_last()->message, "/nowhere"));
    td_detector_destroy(NULL);
}

static int setup(void **state)
{
    return td_detector_create(NULL, (td_detector **)state) != TD_OK;
}

static int teardown(void **state)
{
    td_detector_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_hardly_text),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_missing_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
