/* Distances, suggestions, formatting, parsing, UTF-8 (src/base/text.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/error.h"
#include "base/print.h"
#include "base/text.h"
#include "support/temp_dir.h"

static void test_distances(void **state)
{
    (void)state;
    const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {{"", "", 0},
                 {"", "abc", 3},
                 {"same", "same", 0},
                 {"SaMe", "sAmE", 0},
                 {"kitten", "sitting", 3},
                 {"ab", "ba", 1},
                 {"abcd", "acbd", 1},
                 {"train", "tarin", 1},
                 {"ca", "abc", 3},
                 {"batch", "bacth", 1},
                 {"a", "b", 1},
                 {"epochs", "epoch", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        assert_int_equal(td_text_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(td_text_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    char longest[65], longer[66];
    memset(longest, 'x', 64);
    memset(longer, 'x', 65);
    longest[64] = longer[65] = '\0';
    assert_int_equal(td_text_distance(longest, "x"), 63);
    assert_int_equal(td_text_distance(longer, longest), 65);
}

static void test_suggestions(void **state)
{
    (void)state;
    const char *const names[] = {"batch_size", "epochs", "lr", "learning_rate", "device", "data"};
    const size_t n = sizeof names / sizeof *names;
    assert_string_equal(td_text_nearest("bach_size", names, n), "batch_size");
    assert_string_equal(td_text_nearest("BATCH-SIZE", names, n), "batch_size");
    assert_string_equal(td_text_nearest("epcohs", names, n), "epochs");
    assert_string_equal(td_text_nearest("rl", names, n), "lr");
    assert_string_equal(td_text_nearest("learningrat", names, n), "learning_rate");
    assert_string_equal(td_text_nearest("data", names, n), "data");
    assert_null(td_text_nearest("zebra", names, n));
    assert_null(td_text_nearest("x", names, n));
    assert_null(td_text_nearest("", names, n));
    assert_null(td_text_nearest("deice_xyz", names, n));
    assert_null(td_text_nearest("data", names, 0));
    const char *const equals[] = {"cat", "bat", "hat"};
    assert_string_equal(td_text_nearest("rat", equals, 3), "cat");
}

static void check_bytes(uint64_t bytes, const char *expected)
{
    char out[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(bytes, out);
    assert_string_equal(out, expected);
}

static void test_byte_sizes(void **state)
{
    (void)state;
    check_bytes(0, "0 B");
    check_bytes(1023, "1023 B");
    check_bytes(1024, "1 KiB");
    check_bytes(1536, "1.5 KiB");
    check_bytes(1024 * 1024 - 1, "1 MiB"); /* never "1024 KiB" */
    check_bytes(128ull << 20, "128 MiB");
    check_bytes(3ull << 29, "1.5 GiB");
    check_bytes(UINT64_MAX, "16 EiB");
}

static void check_duration(double seconds, const char *expected)
{
    char out[TD_TEXT_FORMAT_BYTES];
    td_text_format_duration(seconds, out);
    assert_string_equal(out, expected);
}

static void test_durations(void **state)
{
    (void)state;
    check_duration(0, "0 s");
    check_duration(850e-6, "850 us");
    check_duration(0.00099999, "1 ms");
    check_duration(0.0123, "12.3 ms");
    check_duration(0.99999, "1 s");
    check_duration(4.2, "4.2 s");
    check_duration(59.96, "1 min 00 s");
    check_duration(125, "2 min 05 s");
    check_duration(3599.6, "1 h 00 min");
    check_duration(3 * 3600 + 7 * 60, "3 h 07 min");
    check_duration(86399, "1 d 00 h");
    check_duration(2 * 86400 + 4 * 3600, "2 d 04 h");
    check_duration(1e300, "?");
    check_duration(-1, "?");
    check_duration(NAN, "?");
    check_duration(INFINITY, "?");
}

static void test_slugs(void **state)
{
    (void)state;
    const struct {
        const char *text, *slug;
        size_t capacity;
    } cases[] = {{"AMD Radeon(TM) RX 580", "amd-radeon-tm-rx-580", 64},
                 {"--a--b--", "a-b", 64},
                 {"\xC3\xA9t\xC3\xA9", "t", 64},
                 {"()", "unnamed", 64},
                 {"", "unnamed", 64},
                 {"abcdef", "abc", 4},
                 {"ab cd", "ab", 4},
                 {"ab cd", "ab-c", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char out[65];
        memset(out, '#', sizeof out);
        td_text_slug(cases[i].text, out, cases[i].capacity);
        assert_string_equal(out, cases[i].slug);
        assert_int_equal(out[cases[i].capacity], '#');
    }
}

/* The examples of RFC 4648, section 10, and the two digits that are not letters. */
static void test_base64(void **state)
{
    (void)state;
    const struct {
        const char *data, *text;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xfb\xff", "+/8="}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char text[16] = {0};
        const size_t bytes = strlen(cases[i].data);
        td_text_base64(cases[i].data, bytes, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(td_text_base64_bytes(bytes), strlen(text));
    }
}

static void test_contains(void **state)
{
    (void)state;
    assert_true(td_text_contains("NVIDIA GeForce", "geforce"));
    assert_true(td_text_contains("pthread-AMD EPYC", "amd"));
    assert_true(td_text_contains("aab", "ab"));
    assert_true(td_text_contains("abc", ""));
    assert_true(td_text_contains("", ""));
    assert_false(td_text_contains("", "a"));
    assert_false(td_text_contains("abc", "abcd"));
    assert_false(td_text_contains("GeForce", "radeon"));
}

static void test_whole_numbers(void **state)
{
    (void)state;
    uint64_t u = 7;
    assert_int_equal(td_text_parse_u64("0", &u), TD_OK);
    assert_int_equal(u, 0);
    assert_int_equal(td_text_parse_u64("18446744073709551615", &u), TD_OK);
    assert_int_equal(u, UINT64_MAX);
    assert_int_equal(td_text_parse_u64("007", &u), TD_OK);
    assert_int_equal(u, 7);
    const char *const bad[] = {
        "", " 1", "1 ", "+1", "-1", "1x", "0x10", "1.0", "1e3", "x", "18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        assert_int_equal(td_text_parse_u64(bad[i], &u), TD_ERR_CONFIG);
        assert_int_equal(u, 7);
        assert_non_null(strstr(td_error_last()->message, bad[i]));
    }
    int64_t v = 7;
    assert_int_equal(td_text_parse_i64("-9223372036854775808", &v), TD_OK);
    assert_int_equal(v, INT64_MIN);
    assert_int_equal(td_text_parse_i64("9223372036854775807", &v), TD_OK);
    assert_int_equal(v, INT64_MAX);
    const char *const bad_signed[] = {
        "", "-", "--1", "+1", "- 1", " 1", "1 ", "-1x", "9223372036854775808", "-9223372036854775809"};
    for (size_t i = 0; i < sizeof bad_signed / sizeof *bad_signed; ++i) {
        assert_int_equal(td_text_parse_i64(bad_signed[i], &v), TD_ERR_CONFIG);
        assert_int_equal(v, INT64_MAX);
    }
}

static void test_real_numbers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},      {"3e-4", 3e-4}, {"-.5", -0.5}, {"5.", 5},
                {"+1.5", 1.5}, {"1E3", 1000},  {"1e-400", 0}};
    double value = 7;
    for (size_t i = 0; i < sizeof good / sizeof *good; ++i) {
        assert_int_equal(td_text_parse_double(good[i].text, &value), TD_OK);
        assert_true(value == good[i].value);
    }
    value = 7;
    const char *const bad[] = {"",    " 1",    "1 ", "1,5", "1.5x", "inf", "nan", "-inf",
                               "0x1", "1e400", "e5", "--1", "1e",   ".",   "-",   "1.2.3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        assert_int_equal(td_text_parse_double(bad[i], &value), TD_ERR_CONFIG);
        assert_true(value == 7);
    }
}

static void test_shortest_doubles(void **state)
{
    (void)state;
    const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {100, "100"},
                 {-123456.5, "-123456.5"},
                 {1e15, "1e+15"},
                 {5e-324, "5e-324"},
                 {1e-7, "1e-07"},
                 {-0.0, "-0"},
                 {DBL_MAX, "1.7976931348623157e+308"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char out[TD_TEXT_FORMAT_BYTES];
        td_text_format_double(cases[i].value, out);
        assert_string_equal(out, cases[i].text);
    }
}

/* A locale whose decimal point is a comma, made here because a bare system has none: the compiled form of a
 * locale's LC_NUMERIC (magic, number of fields, their offsets, their values). */
static bool set_comma_locale(void)
{
    static const uint32_t HEAD[] = {0x20031114, 6, 32, 34, 35, 36, 40, 44};
    static const char VALUES[] = ",\0\0\0,\0\0\0\0\0\0\0ANSI_X3.4-1968";
    FILE *file = mkdir(temp_path("comma"), 0777) == 0 ? fopen(temp_path("comma/LC_NUMERIC"), "wb") : NULL;
    if (!file) return false;
    fwrite(HEAD, sizeof HEAD, 1, file);
    fwrite(VALUES, sizeof VALUES, 1, file);
    fclose(file);
    setenv("LOCPATH", temp_dir, 1);
    return setlocale(LC_NUMERIC, "comma") && strcmp(localeconv()->decimal_point, ",") == 0;
}

static void test_locale_does_not_matter(void **state)
{
    (void)state;
    if (!set_comma_locale()) {
        print_message("the C library does not take the test's locale\n");
        skip();
    }
    char out[TD_TEXT_FORMAT_BYTES], duration[TD_TEXT_FORMAT_BYTES], after[TD_TEXT_FORMAT_BYTES];
    double value = 0;
    td_text_format_double(0.5, out);
    td_text_format_duration(1.5, duration);
    td_status status = td_text_parse_double("2.5", &value);
    snprintf(after, sizeof after, "%.1f", 0.5); /* the program's own locale is left as it was */
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(out, "0.5");
    assert_string_equal(duration, "1.5 s");
    assert_int_equal(status, TD_OK);
    assert_true(value == 2.5);
    assert_string_equal(after, "0,5");
}

static void test_utf8_stepping(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t bytes, length;
        uint32_t codepoint;
    } cases[] = {{"a", 1, 1, 'a'},
                 {"\xC3\xA9", 2, 2, 0xE9},
                 {"\xE2\x82\xAC", 3, 3, 0x20AC},
                 {"\xF0\x9F\x98\x80", 4, 4, 0x1F600},
                 {"\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF},
                 {"\xE2\x82\xAC", 2, 1, 0xFFFD}, /* cut by the length */
                 {"\x80", 1, 1, 0xFFFD},
                 {"\xC1\xBF", 2, 1, 0xFFFD},
                 {"\xE0\x9F\xBF", 3, 1, 0xFFFD},
                 {"\xED\xA0\x80", 3, 1, 0xFFFD},
                 {"\xF0\x8F\xBF\xBF", 4, 1, 0xFFFD},
                 {"\xF4\x90\x80\x80", 4, 1, 0xFFFD},
                 {"\xF8\x88\x80\x80", 4, 1, 0xFFFD},
                 {"\xEF\xBF\xBD", 3, 3, 0xFFFD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        uint32_t codepoint;
        assert_int_equal(td_text_utf8_next(cases[i].text, cases[i].bytes, &codepoint), cases[i].length);
        assert_int_equal(codepoint, cases[i].codepoint);
    }
}

/* Whatever steers a terminal is shown; what is text stays, line ends and tabs too. */
static void test_finding_14_control_characters_are_shown(void **state)
{
    (void)state;
    const struct {
        const char *text, *shown;
    } cases[] = {{"Grüße, 你好\n\tok", "Grüße, 你好\n\tok"},
                 {"\x1b[31mred\r\a\x7f", "\\x1b[31mred\\x0d\\x07\\x7f"},
                 {"\xc2\x9b"
                  "2J",
                  "U+009B2J"},
                 {"a\xe2\x80\xae"
                  "b\xe2\x81\xa6",
                  "aU+202EbU+2066"},
                 {"\x9b"
                  "2J\xff",
                  "\\x9b2J\\xff"},
                 {"\xef\xbf\xbd", "\xef\xbf\xbd"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char *text;
        size_t bytes;
        FILE *file = open_memstream(&text, &bytes);
        td_fprintf(file, "%s", cases[i].text);
        fclose(file);
        assert_string_equal(text, cases[i].shown);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_byte_sizes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_slugs),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_contains),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_shortest_doubles),
        cmocka_unit_test_setup_teardown(test_locale_does_not_matter, temp_dir_make, temp_dir_remove),
        cmocka_unit_test(test_utf8_stepping),
        cmocka_unit_test(test_finding_14_control_characters_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
