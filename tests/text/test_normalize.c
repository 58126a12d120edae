/* Every rule of every language, results that stay as they are, bad input, the memo (src/text/normalize.c and
 * the files below it). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/pool.h"
#include "support/share.h"
#include "text/normalize.h"
#include "text/normalize_cases.h"
#include "text/spell.h"

enum { N_CASES = sizeof normalize_cases / sizeof normalize_cases[0] };

static td_normalizer *normalizers[TD_LANG_COUNT];

/* Owned, free(). */
static char *normalize(td_lang lang, const char *text)
{
    const char *out = NULL;
    td_status status = td_normalizer_run(normalizers[lang], text, strlen(text), &out);
    if (status != TD_OK) fail_msg("%s: %s", text, td_error_last()->message);
    return strdup(out);
}

static void assert_stays(td_lang lang, const char *text)
{
    char *once = normalize(lang, text);
    char *twice = normalize(lang, once);
    if (strcmp(once, twice) != 0) {
        fail_msg("%s: \"%s\" gives \"%s\", and that \"%s\"", td_lang_code(lang), text, once, twice);
    }
    free(once);
    free(twice);
}

static void test_cases(void **state)
{
    (void)state;
    int counts[TD_LANG_COUNT] = {0};
    int wrong = 0;
    for (size_t i = 0; i < N_CASES; ++i) {
        char *out = normalize(normalize_cases[i].lang, normalize_cases[i].written);
        if (strcmp(out, normalize_cases[i].read) != 0) {
            print_error("%s: \"%s\" is read \"%s\", not \"%s\"\n", td_lang_code(normalize_cases[i].lang),
                        normalize_cases[i].written, out, normalize_cases[i].read);
            ++wrong;
        }
        free(out);
        ++counts[normalize_cases[i].lang];
    }
    assert_int_equal(wrong, 0);
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        assert_true(counts[i] >= (i <= TD_LANG_PT ? 15 : i <= TD_LANG_HI ? 5 : 2));
    }
}

static void test_results_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; ++i) {
        for (int lang = 0; lang < TD_LANG_COUNT; ++lang) {
            assert_stays((td_lang)lang, normalize_cases[i].written);
        }
    }
}

/* What the tables say must not itself be in need of the tables. */
static void test_tables_stay(void **state)
{
    (void)state;
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        td_lang lang = (td_lang)i;
        const td_lang_rules *rules = td_lang_get_rules(lang);
        char text[256];
        for (const td_lang_word *word = rules->words; word->key != NULL; ++word) {
            snprintf(text, sizeof text, "%s.", word->said);
            char *out = normalize(lang, text);
            assert_string_equal(out, text);
            free(out);
            snprintf(text, sizeof text, "5 %s 5", word->key);
            assert_stays(lang, text);
        }
        for (const td_lang_unit *unit = rules->units; unit->key != NULL; ++unit) {
            for (int count = 0; count < 6; ++count) {
                snprintf(text, sizeof text, "%d%s %s. %d,%d %s.", count, unit->key, unit->key, count, count,
                         unit->key);
                assert_stays(lang, text);
            }
        }
        for (const td_lang_money *money = rules->money; money->symbols != NULL; ++money) {
            snprintf(text, sizeof text, "%s 5.55. 1,01 %s %s.", money->symbols, money->symbols,
                     money->symbols);
            assert_stays(lang, text);
        }
    }
}

/* Random strings of the characters that rules look at. */
static void test_any_text_stays(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "1",  "2",  "0", "19", "999", "1999", ".",        ",",  ":",   "-",   "/",  " ",  "  ",  "$",
        "€",  "%",  "'", "\"", "(",   ")",    "!",        "?",  "&",   "#",   "+",  "=",  "°",   "km",
        "m",  "s",  "e", "º",  "te",  "h",    "mr.",      "p.", "z.",  "b.",  "am", "st", "etc", "—",
        "…",  "²",  "½", "«",  "»",   "́",     "\t",       "ß",  "İ",   "ı",   "й",  "г.", "年",  "点",
        "〇", "시", "।", "١",  "،",   "😀",    "\xC2\xAD", "th", "no.", "us$", "a",  "№",
    };
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    uint32_t random = 12345;
    const int rounds = 20000 / (int)test_share();
    for (int round = 0; round < rounds; ++round) {
        char text[128] = "";
        for (int i = 0; i < 10; ++i) {
            random = random * 1664525u + 1013904223u;
            strcat(text, parts[(random >> 8) % N_PARTS]);
        }
        assert_stays((td_lang)(round % TD_LANG_COUNT), text);
    }
}

static void test_odd_input(void **state)
{
    (void)state;
    static const struct {
        const char *written;
        const char *read;
    } odd[] = {
        {"", ""},
        {" \t\r\n ", ""},
        {"...", "..."},
        {"?!", "?!"},
        {"$", "dollar"},
        {"-", "-"},
        {"1.2.3.4", "one point two point three point four"},
        {"12:99", "twelve:ninety-nine"},
        {"\x01\x7F", ""},
        {"a\xEF\xBB\xBF"
         "b",
         "ab"},
        {"00:00", "zero o'clock"},
        {"10\xC2\xB2", "ten two"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; ++i) {
        char *out = normalize(TD_LANG_EN, odd[i].written);
        assert_string_equal(out, odd[i].read);
        free(out);
        for (int lang = 0; lang < TD_LANG_COUNT; ++lang) {
            assert_stays((td_lang)lang, odd[i].written);
        }
    }
}

static void test_huge_input(void **state)
{
    (void)state;
    static const char *const fillings[] = {"1",    "111,", "1,", "1.", "1/", "a ", "-", "mr.",
                                           "111.", "$",    "9:", "1-", "é",  "\"", "1 "};
    /* The size is to show time that grows with its square; a sanitizer looks for something else. */
    const size_t most = test_share() > 1 ? 1 << 15 : 1 << 20;
    char *text = malloc(most + 16);
    for (size_t i = 0; i < sizeof fillings / sizeof fillings[0]; ++i) {
        size_t step = strlen(fillings[i]);
        size_t bytes = 0;
        for (; bytes < most; bytes += step) {
            memcpy(text + bytes, fillings[i], step);
        }
        text[bytes++] = '1'; /* what looked like groups of three was none */
        const char *out = NULL;
        assert_int_equal(td_normalizer_run(normalizers[TD_LANG_EN], text, bytes, &out), TD_OK);
        assert_int_equal(td_normalizer_run(normalizers[TD_LANG_FR], text, bytes, &out), TD_OK);
    }
    free(text);
    char digits[101];
    memset(digits, '7', 100);
    digits[100] = '\0';
    char *out = normalize(TD_LANG_EN, digits);
    assert_int_equal(strlen(out), 100 * 6 - 1);
    free(out);
}

/* Every rule set that a table names exists, and no number comes back in digits. */
static void test_rulesets(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 2, 21, 100, 1999, 21999, 1000000, 123456789012, 999999999999999};
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        const td_lang_rules *rules = td_lang_get_rules((td_lang)i);
        const char *names[32] = {rules->numbers, rules->masculine, rules->feminine,
                                 rules->neuter,  rules->year,      rules->clock_ruleset};
        size_t n_names = 6;
        const td_lang_ordinal *tables[] = {rules->suffix_ordinals, rules->dot_ordinals, rules->years_after};
        for (int table = 0; table < 3; ++table) {
            for (const td_lang_ordinal *row = tables[table]; row != NULL && row->mark != NULL; ++row) {
                assert_true(n_names < 32);
                names[n_names++] = row->ruleset;
            }
        }
        td_speller *speller = NULL;
        td_buffer words = {0};
        assert_int_equal(td_speller_create((td_lang)i, &speller), TD_OK);
        for (size_t name = 0; name < n_names; ++name) {
            for (size_t value = 0; value < sizeof values / sizeof values[0]; ++value) {
                td_buffer_clear(&words);
                td_status status = td_speller_say(speller, names[name], values[value], &words);
                if (status != TD_OK) fail_msg("%s", td_error_last()->message);
                if (strpbrk(words.data, "0123456789#") != NULL) fail_msg("%s: %s", names[name], words.data);
                assert_true(words.size > 0);
            }
        }
        td_buffer_free(&words);
        td_speller_destroy(speller);
    }
}

static void test_bad_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        const char *where;
    } bad[] = {
        {"abc\xFF", 4, "byte 3"},  {"\xC3", 1, "byte 0"},         {"ok \xE2\x82", 5, "byte 3"},
        {"\xC0\x80", 2, "byte 0"}, {"\xED\xA0\x80", 3, "byte 0"}, {"a\0b", 3, "byte 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        const char *out = NULL;
        assert_int_equal(td_normalizer_run(normalizers[TD_LANG_EN], bad[i].text, bad[i].bytes, &out),
                         TD_ERR_FORMAT);
        assert_non_null(strstr(td_error_last()->message, bad[i].where));
    }
}

#define STRIDE 8 /* a normaliser for each case takes long where threads are watched */

static td_status normalize_one(void *ctx, size_t task)
{
    (void)ctx;
    const size_t index = task * STRIDE;
    td_normalizer *normalizer = NULL;
    const char *out = NULL;
    td_status status = TD_OK;
    TD_TRY(td_normalizer_create(normalize_cases[index].lang, &normalizer));
    const char *written = normalize_cases[index].written;
    TD_TRY(td_normalizer_run(normalizer, written, strlen(written), &out));
    TD_FAIL_IF(strcmp(out, normalize_cases[index].read) != 0, TD_ERR_INTEGRITY, "%s became %s", written, out);
fail:
    td_normalizer_destroy(normalizer);
    return status;
}

static void test_threads(void **state)
{
    (void)state;
    td_pool *pool = NULL;
    assert_int_equal(td_pool_create(4, &pool), TD_OK);
    td_status status = td_pool_map(pool, N_CASES / STRIDE, normalize_one, NULL);
    if (status != TD_OK) fail_msg("%s", td_error_last()->message);
    td_pool_destroy(pool);
}

static void test_language_names(void **state)
{
    (void)state;
    td_lang lang = TD_LANG_COUNT;
    assert_int_equal(td_lang_parse("zh-cn", &lang), TD_OK);
    assert_int_equal(lang, TD_LANG_ZH);
    assert_int_equal(td_lang_parse("PT_BR", &lang), TD_OK);
    assert_int_equal(lang, TD_LANG_PT);
    assert_int_equal(td_lang_parse("english", &lang), TD_ERR_CONFIG);
    assert_int_equal(td_lang_parse("", &lang), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "hi"));
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        if (td_normalizer_create((td_lang)i, &normalizers[i]) != TD_OK) {
            print_error("%s\n", td_error_last()->message);
            return 1;
        }
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        td_normalizer_destroy(normalizers[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),       cmocka_unit_test(test_results_stay),
        cmocka_unit_test(test_tables_stay), cmocka_unit_test(test_any_text_stays),
        cmocka_unit_test(test_odd_input),   cmocka_unit_test(test_huge_input),
        cmocka_unit_test(test_bad_utf8),    cmocka_unit_test(test_rulesets),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_language_names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
