/* Summaries against values worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/stats.h"

static void assert_near(double got, double expected)
{
    assert_true(fabs(got - expected) <= 1e-12 * (1 + fabs(expected)));
}

static void test_known_values(void **state)
{
    (void)state;
    double values[] = {4, 1, 3, 2, 10};
    const td_stats stats = td_stats_of(values, 5);
    assert_near(stats.mean, 4);
    assert_near(stats.std, sqrt(12.5));
    assert_near(stats.min, 1);
    assert_near(stats.max, 10);
    assert_near(stats.median, 3);
    assert_near(stats.p95, 8.8);
    assert_near(stats.cv, sqrt(12.5) / 4);
    assert_near(stats.spread, 0.5 * (4 - 2) / 3);
}

static void test_even_count_interpolates(void **state)
{
    (void)state;
    double values[] = {2, 1};
    assert_near(td_stats_of(values, 2).median, 1.5);
}

static void test_one_and_none(void **state)
{
    (void)state;
    double one[] = {7};
    const td_stats stats = td_stats_of(one, 1);
    assert_near(stats.median, 7);
    assert_near(stats.std, 0);
    assert_near(stats.p95, 7);
    assert_near(td_stats_of(NULL, 0).mean, 0);
}

static void test_chosen_members_as_json(void **state)
{
    (void)state;
    double values[] = {1, 2, 3};
    const td_stats stats = td_stats_of(values, 3);
    const char *text;
    td_json *json;
    assert_int_equal(td_json_create(NULL, 0, &json), TD_OK);
    td_json_begin_object(json);
    td_stats_put_json(json, "ms", &stats, "max mean");
    td_json_end_object(json);
    assert_int_equal(td_json_finish(json, &text), TD_OK);
    assert_string_equal(text, "{\"ms\": {\"max\": 3, \"mean\": 2}}");
    td_json_destroy(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_even_count_interpolates),
        cmocka_unit_test(test_one_and_none),
        cmocka_unit_test(test_chosen_members_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
