/* Forms as browsers and curl send them, and forms that are almost so. */
#include <stdlib.h>
#include <string.h>

#include "serve/multipart.h"
#include "support/expect.h"

#define TYPE "multipart/form-data; boundary=xYz"
#define PART(name, value) "--xYz\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define END "--xYz--\r\n"

static void test_forms(void **state)
{
    static const char BODY[] = PART("name", "ben") "--xYz\r\nContent-Type: audio/wav\r\n"
                                                   "content-disposition: form-data; name=\"audio_sample\"; "
                                                   "filename=\"a; name=b.wav\"\r\n\r\n"
                                                   "RI\0FF\r\n--xY\r\n" PART("empty", "") END;
    td_parts parts;
    (void)state;
    check(td_multipart_parse(TYPE, BODY, sizeof BODY - 1, &parts));
    assert_int_equal(parts.count, 3);
    assert_memory_equal(td_multipart_find(&parts, "name")->data, "ben", 3);
    const td_part *sample = td_multipart_find(&parts, "audio_sample");
    assert_int_equal(sample->bytes, 11);
    assert_memory_equal(sample->data, "RI\0FF\r\n--xY", 11);
    assert_int_equal(td_multipart_find(&parts, "empty")->bytes, 0);
    assert_null(td_multipart_find(&parts, "other"));
    check(td_multipart_parse("Multipart/Form-Data; charset=x; boundary=\"a b\"", "--a b--", 7, &parts));
    assert_int_equal(parts.count, 0);
}

static void test_refused(void **state)
{
    static const struct {
        const char *words, *type, *body;
    } CASES[] = {
        {"must be multipart", NULL, ""},
        {"must be multipart", "application/json", "{}"},
        {"no boundary", "multipart/form-data", ""},
        {"1 to 70", "multipart/form-data; boundary=", ""},
        {"1 to 70", "multipart/form-data; boundary=\"x", ""},
        {"1 to 70",
         "multipart/form-data; boundary="
         "12345678901234567890123456789012345678901234567890123456789012345678901",
         ""},
        {"not allowed", "multipart/form-data; boundary=a\x01", ""},
        {"does not begin", TYPE, ""},
        {"does not begin", TYPE, "\r\n" PART("a", "b") END},
        {"ends no line", TYPE, "--xYz "},
        {"has no end", TYPE, "--xYz\r\nContent-Disposition: form-data"},
        {"without Content-Disposition", TYPE, "--xYz\r\n\r\nb\r\n" END},
        {"without a colon", TYPE, "--xYz\r\nhello\r\n\r\nb\r\n" END},
        {"name in quotes", TYPE, "--xYz\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n" END},
        {"name in quotes", TYPE, "--xYz\r\nContent-Disposition: file; name=\"a\"\r\n\r\nb\r\n" END},
        {"an escape", TYPE, PART("a\\\"b", "c") END},
        {"no letter", TYPE, PART("", "c") END},
        {"longer than", TYPE,
         PART("1234567890123456789012345678901234567890123456789012345678901234", "c") END},
        {"two parts", TYPE, PART("a", "b") PART("a", "c") END},
        {"cut off", TYPE, "--xYz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb"},
        {"follows", TYPE, PART("a", "b") "--xYz--more"},
        {"more than 8 lines", TYPE,
         "--xYz\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n" END},
    };
    td_parts parts;
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const td_status status =
            td_multipart_parse(CASES[i].type, CASES[i].body, strlen(CASES[i].body), &parts);
        if (status == TD_OK || !strstr(td_error_last()->message, CASES[i].words))
            fail_msg("case %zu (%s): %s", i, CASES[i].words, status ? td_error_last()->message : "taken");
    }
}

/* Cut at any byte, a form is refused and nothing behind it is read. */
static void test_cut(void **state)
{
    static const char BODY[] = PART("name", "ben") PART("b", "c") "--xYz--";
    td_parts parts;
    (void)state;
    for (size_t n = 0; n < sizeof BODY - 1; n++) {
        char *exact = malloc(n + 1);
        assert_non_null(exact);
        memcpy(exact, BODY, n);
        assert_int_not_equal(td_multipart_parse(TYPE, exact, n, &parts), TD_OK);
        free(exact);
    }
    check(td_multipart_parse(TYPE, BODY, sizeof BODY - 1, &parts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
