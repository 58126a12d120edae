/* Joined pieces: their lengths and pauses, no step at any edge, nothing beyond full scale. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>

#include "synth/join.h"

enum { RATE = 22050, PIECE = 4000 };

static void test_no_clicks(void **state)
{
    td_join join = {.rate = RATE};
    float piece[PIECE];
    (void)state;
    for (size_t i = 0; i < PIECE; i++)
        piece[i] = 0.8f; /* the worst edge there is */
    check(td_join_add(&join, piece, PIECE, 0.1));
    check(td_join_add(&join, piece, PIECE, 0));
    check(td_join_add(&join, piece, 0, 0));
    assert_int_equal(join.count, 2 * PIECE + RATE / 10);
    float before = 0;
    for (size_t i = 0; i < join.count; i++) {
        assert_true(fabsf(join.samples[i] - before) < 0.02f);
        before = join.samples[i];
    }
    assert_true(fabsf(before) < 0.02f);
    assert_true(join.samples[PIECE / 2] == 0.8f);
    for (size_t i = PIECE; i < PIECE + RATE / 10; i++)
        assert_true(join.samples[i] == 0);
    free(join.samples);
}

static void test_short_pieces_and_level(void **state)
{
    td_join join = {.rate = RATE};
    const float loud[] = {3, 3, 3, -3, 3};
    float peak = 0;
    (void)state;
    check(td_join_add(&join, loud, 1, 0));
    check(td_join_add(&join, loud, 5, 0));
    td_join_level(&join);
    for (size_t i = 0; i < join.count; i++)
        peak = fmaxf(peak, fabsf(join.samples[i]));
    assert_true(peak > 0.97f && peak < 0.99f);
    free(join.samples);
}

/* What leaves early: as it is until a sample would be beyond full scale, turned down from there on. */
static void test_level_on(void **state)
{
    td_join join = {.rate = RATE};
    float piece[PIECE], gain = 1;
    (void)state;
    for (size_t i = 0; i < PIECE; i++)
        piece[i] = 0.5f;
    check(td_join_add(&join, piece, PIECE, 0));
    td_join_level_on(&join, &gain);
    assert_true(join.samples[PIECE / 2] == 0.5f && gain == 1);
    piece[PIECE / 2] = 2;
    join.count = 0;
    check(td_join_add(&join, piece, PIECE, 0));
    td_join_level_on(&join, &gain);
    assert_true(fabsf(join.samples[PIECE / 2] - 0.98f) < 1e-6f && fabsf(gain - 0.49f) < 1e-6f);
    piece[PIECE / 2] = 0.5f;
    join.count = 0;
    check(td_join_add(&join, piece, PIECE, 0));
    td_join_level_on(&join, &gain);
    assert_true(fabsf(join.samples[PIECE / 2] - 0.245f) < 1e-6f);
    free(join.samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_clicks),
                                       cmocka_unit_test(test_short_pieces_and_level),
                                       cmocka_unit_test(test_level_on)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
