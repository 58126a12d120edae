/* What XTTS is given to read, against Coqui's package: sentences in 17 languages, with numbers, ordinals, money, dates,
 * times, abbreviations and signs. tests/oracle/make_xtts_texts.py writes the table and docs/xtts_texts.md from it. Where
 * both agree they must stay so; where they differ the table has what we say, so that no reading changes unseen.
 *
 *   test_readings read < LINES    "LANGUAGE<tab>TEXT": prints what is read, for the scripts that compare
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "text/normalize.h"
#include "text/romanize.h"

/* Of 340; so that a table in which nothing agrees is no success. */
enum { LEAST_SAME = 158 };

static td_normalizer *normalizers[TD_LANG_COUNT];
static td_romanizer *romanizers[TD_LANG_COUNT];

static td_status read_text(const char *language, const char *text, td_buffer *out)
{
    td_lang lang;
    const char *spoken;
    td_buffer_clear(out);
    TD_CHECK(td_lang_parse(language, &lang));
    if (!normalizers[lang]) TD_CHECK(td_normalizer_create(lang, &normalizers[lang]));
    if (!romanizers[lang]) TD_CHECK(td_romanizer_create(lang, &romanizers[lang]));
    TD_CHECK(td_normalizer_run(normalizers[lang], text, strlen(text), &spoken));
    return td_romanizer_run(romanizers[lang], spoken, strlen(spoken), out);
}

static void close_all(td_buffer *out)
{
    for (size_t i = 0; i < TD_LANG_COUNT; i++) {
        td_normalizer_destroy(normalizers[i]);
        td_romanizer_destroy(romanizers[i]);
    }
    td_buffer_free(out);
}

static void test_readings_are_as_in_the_table(void **state)
{
    (void)state;
    char line[2048], *at;
    td_buffer out = {0};
    size_t n = 0, n_same = 0, wrong = 0;
    FILE *file = fopen(GOLDEN_DIR "/xtts_texts.tsv", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        at = line;
        line[strcspn(line, "\n")] = 0;
        const char *language = strsep(&at, "\t"), *written = strsep(&at, "\t"), *package = strsep(&at, "\t");
        const char *expected = at ? at : package;
        assert_non_null(package);
        const td_status status = read_text(language, written, &out);
        const char *got = status == TD_OK ? out.data : td_status_name(status);
        if (strcmp(got, expected) != 0) {
            print_error("%s: \"%s\" is read \"%s\", not \"%s\"\n", language, written, got, expected);
            wrong++;
        }
        n++;
        n_same += !at;
    }
    fclose(file);
    close_all(&out);
    assert_int_equal(wrong, 0);
    assert_int_equal(n, 20 * (TD_LANG_HI + 1)); /* the languages that XTTS-v2 speaks */
    assert_true(n_same >= LEAST_SAME);
}

static int read_lines(void)
{
    char line[4096], *at;
    td_buffer out = {0};
    while (fgets(line, sizeof line, stdin)) {
        at = line;
        line[strcspn(line, "\n")] = 0;
        const char *language = strsep(&at, "\t");
        const td_status status = read_text(language, at ? at : "", &out);
        puts(status == TD_OK ? out.data : td_status_name(status));
    }
    close_all(&out);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readings_are_as_in_the_table)};
    if (argc > 1 && strcmp(argv[1], "read") == 0) return read_lines();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
