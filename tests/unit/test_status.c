/* Status codes, the per-thread record and checked allocation (src/base/error.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/error.h"

static void test_every_code_has_name_and_sentence(void **state)
{
    (void)state;
    for (int code = 0; code < TD_STATUS_COUNT; ++code) {
        const char *name = td_status_name((td_status)code);
        const char *text = td_status_text((td_status)code);
        assert_non_null(name);
        assert_int_equal(strncmp(name, "TD_", 3), 0);
        assert_string_not_equal(name, td_status_name((td_status)-1));
        assert_true(strlen(text) > 10);
        assert_int_equal(text[strlen(text) - 1], '.');
        for (int other = 0; other < code; ++other) {
            assert_string_not_equal(name, td_status_name((td_status)other));
            assert_string_not_equal(text, td_status_text((td_status)other));
        }
    }
    assert_string_equal(td_status_name(TD_ERR_LIMIT), "TD_ERR_LIMIT");
}

static void test_unknown_codes_are_answered(void **state)
{
    (void)state;
    const int codes[] = {-1, TD_STATUS_COUNT, 1 << 30};
    for (size_t i = 0; i < 3; ++i) {
        assert_string_equal(td_status_name((td_status)codes[i]), "TD_ERR_UNKNOWN");
        assert_true(strlen(td_status_text((td_status)codes[i])) > 10);
    }
}

static void test_record_holds_the_details(void **state)
{
    (void)state;
    int line = __LINE__ + 1;
    assert_int_equal(TD_FAIL_NATIVE(TD_ERR_DRIVER, "CL_OUT_OF_RESOURCES", "queue %d", 7), TD_ERR_DRIVER);
    const td_error *error = td_error_last();
    assert_int_equal(error->status, TD_ERR_DRIVER);
    assert_string_equal(error->message, "queue 7");
    assert_string_equal(error->native, "CL_OUT_OF_RESOURCES");
    assert_int_equal(error->line, line);
    assert_non_null(strstr(error->file, "test_status.c"));
    TD_FAIL(TD_ERR_IO, "again: %s", error->message);
    assert_string_equal(error->message, "again: queue 7");
    assert_string_equal(error->native, "");
}

static void test_long_messages_are_cut_not_overrun(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    TD_FAIL_NATIVE(TD_ERR_IO, text, "%s", text);
    assert_int_equal(strlen(td_error_last()->message), sizeof td_error_last()->message - 1);
    assert_int_equal(strlen(td_error_last()->native), sizeof td_error_last()->native - 1);
    td_error_context("%s", text);
    assert_int_equal(strlen(td_error_last()->message), sizeof td_error_last()->message - 1);
}

static void test_context_goes_before_the_message(void **state)
{
    (void)state;
    TD_FAIL(TD_ERR_FORMAT, "bad magic");
    assert_int_equal(td_error_context("line %d", 3), TD_ERR_FORMAT);
    assert_string_equal(td_error_last()->message, "line 3: bad magic");
}

static void *fail_elsewhere(void *arg)
{
    td_error *copy = arg;
    if (td_error_last()->status == TD_OK) TD_FAIL(TD_ERR_TIMEOUT, "of the other thread");
    *copy = *td_error_last();
    return NULL;
}

static void test_threads_have_their_own_record(void **state)
{
    (void)state;
    td_error other;
    pthread_t thread;
    TD_FAIL(TD_ERR_CONFIG, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other.status, TD_ERR_TIMEOUT);
    assert_int_equal(td_error_last()->status, TD_ERR_CONFIG);
    assert_string_equal(td_error_last()->message, "of this thread");
    assert_int_equal(td_error_adopt(&other), TD_ERR_TIMEOUT);
    assert_string_equal(td_error_last()->message, "of the other thread");
}

static td_status run_macros(bool fail_first, bool fail_second, int *reached)
{
    td_status status = TD_OK;
    TD_TRY(fail_first ? TD_FAIL(TD_ERR_IO, "first") : TD_OK);
    *reached = 1;
    TD_FAIL_IF(fail_second, TD_ERR_LIMIT, "second");
    *reached = 2;
fail:
    return status;
}

static void test_macros_leave_at_the_first_failure(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(run_macros(true, true, &reached), TD_ERR_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(run_macros(false, true, &reached), TD_ERR_LIMIT);
    assert_int_equal(reached, 1);
    assert_int_equal(run_macros(false, false, &reached), TD_OK);
    assert_int_equal(reached, 2);
}

static void test_allocation_is_zeroed_and_checked(void **state)
{
    (void)state;
    uint64_t *words = NULL;
    assert_int_equal(TD_NEW_ARRAY(&words, 1000), TD_OK);
    for (int i = 0; i < 1000; ++i)
        assert_int_equal(words[i], 0);
    free(words);
    assert_int_equal(TD_NEW_ARRAY(&words, SIZE_MAX / 4), TD_ERR_HOST_MEMORY);
    assert_null(words);
    assert_int_equal(TD_NEW_ARRAY(&words, 0), TD_OK);
    assert_non_null(words);
    free(words);
}

static void test_growing_keeps_and_zeroes(void **state)
{
    (void)state;
    uint32_t *items = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < 1000; ++i) {
        assert_int_equal(td_alloc_grow(&items, &capacity, i + 1, sizeof *items), TD_OK);
        assert_true(capacity > i);
        assert_int_equal(items[i], 0);
        items[i] = i + 1;
    }
    size_t before = capacity;
    assert_int_equal(td_alloc_grow(&items, &capacity, SIZE_MAX / 2, sizeof *items), TD_ERR_HOST_MEMORY);
    assert_int_equal(capacity, before);
    for (uint32_t i = 0; i < 1000; ++i)
        assert_int_equal(items[i], i + 1);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_has_name_and_sentence),
        cmocka_unit_test(test_unknown_codes_are_answered),
        cmocka_unit_test(test_record_holds_the_details),
        cmocka_unit_test(test_long_messages_are_cut_not_overrun),
        cmocka_unit_test(test_context_goes_before_the_message),
        cmocka_unit_test(test_threads_have_their_own_record),
        cmocka_unit_test(test_macros_leave_at_the_first_failure),
        cmocka_unit_test(test_allocation_is_zeroed_and_checked),
        cmocka_unit_test(test_growing_keeps_and_zeroes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
