/* The version: one for the headers, the library and the build (include/tandem/version.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tandem/version.h"

static void test_headers_library_and_build_agree(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR, TANDEM_VERSION_PATCH);
    assert_string_equal(TANDEM_VERSION, text);
    assert_string_equal(td_version(), text);
    assert_string_equal(BUILD_VERSION, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_library_and_build_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
