/* The side thread: order, failures that are handed out once, waiting. */
#include "data/fixture.h"

#include "base/clock.h"
#include "base/error.h"
#include "train/side.h"

typedef struct note {
    char *to;
    char letter;
    bool fails;
} note;

static td_status write_note(void *context)
{
    const note *n = context;
    td_clock_sleep_until(td_clock_ns() + 2000000);
    if (n->fails) return TD_FAIL(TD_ERR_IO, "letter %c failed", n->letter);
    n->to[strlen(n->to)] = n->letter;
    return TD_OK;
}

static td_status give(td_side *side, note content)
{
    note *n = calloc(1, sizeof *n);
    assert_non_null(n);
    *n = content;
    return td_side_give(side, write_note, n);
}

static void test_order_and_end(void **state)
{
    (void)state;
    char text[8] = "";
    td_side *side;
    assert_int_equal(td_side_create(&side), TD_OK);
    for (const char *c = "abcd"; *c != '\0'; ++c)
        assert_int_equal(give(side, (note){text, *c, false}), TD_OK);
    assert_int_equal(td_side_wait(side), TD_OK);
    assert_string_equal(text, "abcd");
    assert_int_equal(give(side, (note){text, 'e', false}), TD_OK);
    td_side_destroy(side); /* does what was given */
    assert_string_equal(text, "abcde");
    td_side_destroy(NULL);
}

static void test_failure_is_told_once(void **state)
{
    (void)state;
    char text[8] = "";
    td_side *side;
    assert_int_equal(td_side_create(&side), TD_OK);
    assert_int_equal(give(side, (note){text, 'a', true}), TD_OK);
    assert_int_equal(td_side_wait(side), TD_ERR_IO);
    assert_string_equal(td_error_last()->message, "letter a failed");
    assert_int_equal(td_side_check(side), TD_OK);
    assert_int_equal(give(side, (note){text, 'b', true}), TD_OK);
    while (give(side, (note){text, 'c', false}) == TD_OK)
        td_clock_sleep_until(td_clock_ns() + 1000000);
    assert_string_equal(td_error_last()->message, "letter b failed");
    assert_int_equal(td_side_wait(side), TD_OK);
    td_side_destroy(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_end),
        cmocka_unit_test(test_failure_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
