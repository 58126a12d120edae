/* base/trace.h: what is written is what was noted, on named tracks, from the first event on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/trace.h"

static void test_a_trace_has_tracks_and_events(void **state)
{
    static const char *const TRACKS[] = {"one", "two"};
    const char *path = "test_trace.json";
    td_trace trace = {0};
    char *text;
    size_t bytes;
    (void)state;
    assert_int_equal(td_trace_add(&trace, 1, "later", 5000000, 7500000), TD_OK);
    assert_int_equal(td_trace_add(&trace, 0, "first", 1000000, 2000000), TD_OK);
    assert_int_equal(td_trace_write(&trace, TRACKS, 2, path), TD_OK);
    assert_int_equal(td_file_read(path, 1 << 16, &text, &bytes), TD_OK);
    assert_non_null(strstr(text, "\"name\": \"thread_name\", \"args\": {\"name\": \"two\"}"));
    assert_non_null(strstr(text, "\"tid\": 2, \"name\": \"later\", \"ts\": 4000, \"dur\": 2500}"));
    assert_non_null(strstr(text, "\"tid\": 1, \"name\": \"first\", \"ts\": 0, \"dur\": 1000}"));
    free(text);
    remove(path);
    td_trace_clear(&trace);
    assert_int_equal(trace.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_trace_has_tracks_and_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
