/* JSON writer: exact text, escaping, numbers, misuse, file output (src/base/json.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "base/json.h"
#include "base/rng.h"

static td_json *make(int indent)
{
    td_json *json = NULL;
    assert_int_equal(td_json_create(NULL, indent, &json), TD_OK);
    return json;
}

static void finish_equal(td_json *json, const char *expected)
{
    const char *text;
    assert_int_equal(td_json_finish(json, &text), TD_OK);
    assert_string_equal(text, expected);
    td_json_destroy(json);
}

static void write_sample(td_json *json)
{
    td_json_begin_object(json);
    td_json_key(json, "name");
    td_json_string(json, "x");
    td_json_key(json, "list");
    td_json_begin_array(json);
    td_json_int(json, -1);
    td_json_begin_object(json);
    td_json_end_object(json);
    td_json_begin_array(json);
    td_json_end_array(json);
    td_json_bool(json, true);
    td_json_bool(json, false);
    td_json_null(json);
    td_json_end_array(json);
    td_json_key(json, "max");
    td_json_uint(json, UINT64_MAX);
    td_json_end_object(json);
}

static void test_structure_on_one_line(void **state)
{
    (void)state;
    td_json *json = make(0);
    write_sample(json);
    finish_equal(
        json, "{\"name\": \"x\", \"list\": [-1, {}, [], true, false, null], \"max\": 18446744073709551615}");
}

static void test_structure_indented(void **state)
{
    (void)state;
    td_json *json = make(2);
    write_sample(json);
    finish_equal(json, "{\n  \"name\": \"x\",\n  \"list\": [\n    -1,\n    {},\n    [],\n    true,\n    "
                       "false,\n    null\n  ],\n"
                       "  \"max\": 18446744073709551615\n}");
}

static void check_string(const char *text, const char *expected)
{
    td_json *json = make(0);
    td_json_string(json, text);
    finish_equal(json, expected);
}

static void test_strings_are_escaped(void **state)
{
    (void)state;
    check_string("", "\"\"");
    check_string("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    check_string("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    check_string("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
    check_string("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
    check_string("bfnrt", "\"bfnrt\"");
    check_string(NULL, "null");
    td_json *json = make(0);
    td_json_begin_object(json);
    td_json_key(json, "k\"\n");
    td_json_int(json, INT64_MIN);
    td_json_end_object(json);
    finish_equal(json, "{\"k\\\"\\n\": -9223372036854775808}");
}

static void test_invalid_utf8_is_replaced(void **state)
{
    (void)state;
#define R "\xEF\xBF\xBD"
    check_string("a\xFFz", "\"a" R "z\"");
    check_string("\xC3", "\"" R "\"");                   /* cut short */
    check_string("\xC0\xAF", "\"" R R "\"");             /* longer than needed */
    check_string("\xED\xA0\x80", "\"" R R R "\"");       /* half of a pair */
    check_string("\xF4\x90\x80\x80", "\"" R R R R "\""); /* past the last character */
    check_string("\xE2\x82\"", "\"" R R "\\\"\"");       /* the quote is not swallowed */
    check_string(R, "\"" R "\"");
}

static void check_double(double value, const char *expected)
{
    td_json *json = make(0);
    td_json_double(json, value);
    finish_equal(json, expected);
}

static void test_doubles_are_short_and_exact(void **state)
{
    (void)state;
    check_double(0, "0");
    check_double(0.1, "0.1");
    check_double(-2.5, "-2.5");
    check_double(1e300, "1e+300");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(DBL_MIN, "2.2250738585072014e-308");
    check_double(NAN, "null");
    check_double(INFINITY, "null");
    check_double(-INFINITY, "null");
    for (uint64_t i = 0; i < 2000; ++i) {
        uint32_t words[4];
        td_rng_block(1, 2, i, words);
        double value;
        memcpy(&value, words, sizeof value);
        if (!isfinite(value)) continue;
        td_json *json = make(0);
        td_json_double(json, value);
        const char *text;
        assert_int_equal(td_json_finish(json, &text), TD_OK);
        assert_true(strtod(text, NULL) == value);
        td_json_destroy(json);
    }
}

/* One letter per call: { } [ ] k(ey) v(alue). */
static td_status play(const char *calls)
{
    td_json *json = make(0);
    for (; *calls; ++calls) {
        if (*calls == '{') td_json_begin_object(json);
        if (*calls == '}') td_json_end_object(json);
        if (*calls == '[') td_json_begin_array(json);
        if (*calls == ']') td_json_end_array(json);
        if (*calls == 'k') td_json_key(json, "k");
        if (*calls == 'v') td_json_int(json, 1);
    }
    const char *text = "unset";
    td_status status = td_json_finish(json, &text);
    if (status != TD_OK) {
        assert_null(text);
        assert_non_null(strstr(td_error_last()->message, "JSON"));
        assert_int_equal(td_json_finish(json, NULL), status);
    }
    td_json_destroy(json);
    return status;
}

static void test_misuse_is_reported_at_the_end(void **state)
{
    (void)state;
    const char *const good[] = {"v", "{}", "[]", "[vv]", "{kv}", "{k{k[v]}kv}", "[[[[]]]]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; ++i)
        assert_int_equal(play(good[i]), TD_OK);
    const char *const bad[] = {"",     "vv", "{",  "[",    "}",   "]",   "{v}", "{kk}", "{k}",  "k",
                               "[kv]", "[}", "{]", "{kv]", "[v}", "[]]", "{}v", "[v",   "{kvv}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
        assert_int_equal(play(bad[i]), TD_ERR_ARGUMENT);
    char deep[200];
    for (size_t depth = 64; depth <= 65; ++depth) {
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        deep[2 * depth] = '\0';
        assert_int_equal(play(deep), depth <= 64 ? TD_OK : TD_ERR_ARGUMENT);
    }
}

static void test_the_first_misuse_is_the_one_reported(void **state)
{
    (void)state;
    td_json *json = make(0);
    td_json_begin_array(json);
    td_json_key(json, "k");
    td_json_end_object(json);
    assert_int_equal(td_json_finish(json, NULL), TD_ERR_ARGUMENT);
    assert_non_null(strstr(td_error_last()->message, "a key where none may stand"));
    td_json_destroy(json);
    td_json_destroy(NULL);
}

static void test_file_output_is_the_same_text(void **state)
{
    (void)state;
    enum { N = 50000 }; /* several times the internal buffer */
    char *written = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&written, &bytes);
    td_json *json, *memory = make(1);
    assert_int_equal(td_json_create(file, 1, &json), TD_OK);
    td_json *both[] = {json, memory};
    for (int k = 0; k < 2; ++k) {
        td_json_begin_array(both[k]);
        for (int i = 0; i < N; ++i)
            td_json_int(both[k], i);
        td_json_end_array(both[k]);
    }
    const char *text = "unset", *expected;
    assert_int_equal(td_json_finish(json, &text), TD_OK);
    assert_null(text);
    assert_int_equal(td_json_finish(memory, &expected), TD_OK);
    fclose(file);
    assert_int_equal(bytes, strlen(expected) + 1);
    assert_memory_equal(written, expected, bytes - 1);
    assert_int_equal(written[bytes - 1], '\n');
    free(written);
    td_json_destroy(json);
    td_json_destroy(memory);
}

static void test_a_full_disk_is_an_error(void **state)
{
    (void)state;
    FILE *file = fopen("/dev/full", "w");
    assert_non_null(file);
    td_json *json;
    assert_int_equal(td_json_create(file, 0, &json), TD_OK);
    td_json_int(json, 1);
    assert_int_equal(td_json_finish(json, NULL), TD_ERR_IO);
    assert_string_equal(td_error_last()->native, "ENOSPC");
    td_json_destroy(json);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure_on_one_line),
        cmocka_unit_test(test_structure_indented),
        cmocka_unit_test(test_strings_are_escaped),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
        cmocka_unit_test(test_doubles_are_short_and_exact),
        cmocka_unit_test(test_misuse_is_reported_at_the_end),
        cmocka_unit_test(test_the_first_misuse_is_the_one_reported),
        cmocka_unit_test(test_file_output_is_the_same_text),
        cmocka_unit_test(test_a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
