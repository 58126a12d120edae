/* Answers come back as they were put, stay within bounds and survive several threads (src/text/memo.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/pool.h"
#include "text/memo.h"

static void test_put_and_get(void **state)
{
    (void)state;
    td_memo *memo = NULL;
    td_buffer value = {0};
    assert_int_equal(td_memo_create(1000, 16, &memo), TD_OK);
    assert_false(td_memo_get(memo, "key", 3, &value));
    td_memo_put(memo, "key", 3, "value", 5);
    assert_true(td_memo_get(memo, "key", 3, &value));
    assert_string_equal(value.data, "value");
    td_memo_put(memo, "key", 3, "", 0);
    assert_true(td_memo_get(memo, "key", 3, &value));
    assert_string_equal(value.data, "");
    assert_false(td_memo_get(memo, "ke", 2, &value));
    td_memo_put(memo, "long", 4, "0123456789abc", 13); /* 17 bytes */
    assert_false(td_memo_get(memo, "long", 4, &value));
    td_memo_put(memo, "long", 4, "0123456789ab", 12);
    assert_true(td_memo_get(memo, "long", 4, &value));
    td_buffer_free(&value);
    td_memo_destroy(memo);
    td_memo_destroy(NULL);
}

static void test_newer_replaces_older(void **state)
{
    (void)state;
    td_memo *memo = NULL;
    td_buffer value = {0};
    assert_int_equal(td_memo_create(1, 100, &memo), TD_OK);
    td_memo_put(memo, "a", 1, "1", 1);
    td_memo_put(memo, "b", 1, "2", 1);
    assert_false(td_memo_get(memo, "a", 1, &value));
    assert_true(td_memo_get(memo, "b", 1, &value));
    assert_string_equal(value.data, "2");
    td_buffer_free(&value);
    td_memo_destroy(memo);
}

static td_status use_memo(void *ctx, size_t index)
{
    char key[16];
    td_buffer value = {0};
    td_status status = TD_OK;
    int bytes = snprintf(key, sizeof key, "%zu", index % 50);
    td_memo_put(ctx, key, (size_t)bytes, key, (size_t)bytes);
    if (td_memo_get(ctx, key, (size_t)bytes, &value)) {
        TD_FAIL_IF(strcmp(value.data, key) != 0, TD_ERR_INTEGRITY, "%s became %s", key, value.data);
    }
fail:
    td_buffer_free(&value);
    return status;
}

static void test_threads(void **state)
{
    (void)state;
    td_pool *pool = NULL;
    td_memo *memo = NULL;
    assert_int_equal(td_pool_create(4, &pool), TD_OK);
    assert_int_equal(td_memo_create(20, 100, &memo), TD_OK);
    assert_int_equal(td_pool_map(pool, 20000, use_memo, memo), TD_OK);
    td_memo_destroy(memo);
    td_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_get),
        cmocka_unit_test(test_newer_replaces_older),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
