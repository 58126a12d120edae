/* Learning rates against formulas written down independently, joints, limits, refused settings
 * (src/train/schedule.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/schedule.h"

static const td_schedule NOAM = {.kind = TD_SCHEDULE_NOAM, .lr = 1e-3, .warmup_steps = 100};
static const td_schedule COSINE = {
    .kind = TD_SCHEDULE_COSINE, .lr = 2e-3, .min_lr = 4e-5, .warmup_steps = 50, .decay_steps = 1000};
static const td_schedule EXPONENTIAL = {.kind = TD_SCHEDULE_EXPONENTIAL,
                                        .lr = 1e-3,
                                        .min_lr = 1e-6,
                                        .warmup_steps = 10,
                                        .decay_steps = 100,
                                        .decay_rate = 0.5};
static const td_schedule CONSTANT = {.kind = TD_SCHEDULE_CONSTANT, .lr = 5e-6, .warmup_steps = 4};

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) fail_msg("%.17g is not %.17g", got, expected);
}

static void test_warm_up_is_linear(void **state)
{
    (void)state;
    const td_schedule all[] = {NOAM, COSINE, EXPONENTIAL, CONSTANT};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        const uint64_t warmup = all[i].warmup_steps;
        for (uint64_t step = 0; step < warmup; ++step)
            assert_near(td_schedule_lr(&all[i], step), all[i].lr / (double)warmup * (double)(step + 1));
        assert_near(td_schedule_lr(&all[i], warmup - 1), all[i].lr);
    }
}

static void test_noam(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 5000; ++n) {
        double rising = (double)n * pow(100, -1.5);
        double falling = 1 / sqrt((double)n);
        assert_near(td_schedule_lr(&NOAM, n - 1), 1e-3 * 10 * (rising < falling ? rising : falling));
    }
}

static void test_cosine(void **state)
{
    (void)state;
    assert_near(td_schedule_lr(&COSINE, 49), 2e-3);
    assert_near(td_schedule_lr(&COSINE, 49 + 250), 4e-5 + 1.96e-3 * (0.5 + sqrt(0.125)));
    assert_near(td_schedule_lr(&COSINE, 49 + 500), (2e-3 + 4e-5) / 2);
    assert_near(td_schedule_lr(&COSINE, 49 + 1000), 4e-5);
    assert_near(td_schedule_lr(&COSINE, 49 + 123456), 4e-5);
    assert_near(td_schedule_lr(&COSINE, UINT64_MAX), 4e-5);
    for (uint64_t t = 0; t <= 1000; ++t) { /* cos^2(x/2) for (1 + cos x)/2 */
        double root = cos(acos(-1) * (double)t / 2000);
        double got = td_schedule_lr(&COSINE, 49 + t);
        if (!(fabs(got - (4e-5 + 1.96e-3 * root * root)) <= 1e-15)) fail_msg("t=%d: %.17g", (int)t, got);
    }
}

/* Periods by walking through them. */
static void check_restarts(double multiplier, uint64_t decay_steps, uint64_t steps)
{
    td_schedule s = COSINE;
    s.restart_multiplier = multiplier;
    s.decay_steps = decay_steps;
    double start = 0;
    double length = (double)decay_steps;
    int n_periods = 0;
    for (uint64_t t = 0; t < steps; ++t) {
        while ((double)t >= start + length * (1 - 1e-9)) {
            start += length;
            length *= multiplier;
            ++n_periods;
        }
        double phase = fmax(0, ((double)t - start) / length);
        double expected = s.min_lr + (s.lr - s.min_lr) * (1 + cos(acos(-1) * phase)) / 2;
        double got = td_schedule_lr(&s, 49 + t);
        if (!(fabs(got - expected) <= 1e-9 * s.lr))
            fail_msg("multiplier %g, t=%d: %.17g is not %.17g", multiplier, (int)t, got, expected);
    }
    assert_true(n_periods >= 3);
}

static void test_restarts(void **state)
{
    (void)state;
    check_restarts(1, 100, 1000);
    check_restarts(1, 7, 100000);
    check_restarts(2, 100, 200000);
    check_restarts(2, 1, 100000);
    check_restarts(3, 7, 200000);
    check_restarts(1.5, 64, 200000);
    check_restarts(1.1, 10, 200000);
    check_restarts(1.000001, 50, 200000);
    check_restarts(100, 1, 200000);
}

static void test_exponential(void **state)
{
    (void)state;
    assert_near(td_schedule_lr(&EXPONENTIAL, 9), 1e-3);
    assert_near(td_schedule_lr(&EXPONENTIAL, 9 + 100), 5e-4);
    assert_near(td_schedule_lr(&EXPONENTIAL, 9 + 300), 1.25e-4);
    assert_near(td_schedule_lr(&EXPONENTIAL, 9 + 50), 1e-3 * sqrt(0.5));
    assert_near(td_schedule_lr(&EXPONENTIAL, 9 + 996), 1e-3 * exp2(-9.96));
    assert_near(td_schedule_lr(&EXPONENTIAL, 9 + 997), 1e-6); /* 2^-9.97 < 1/1000: the floor */
    assert_near(td_schedule_lr(&EXPONENTIAL, UINT64_MAX), 1e-6);
}

static void test_constant_and_no_warm_up(void **state)
{
    (void)state;
    assert_near(td_schedule_lr(&CONSTANT, 4), 5e-6);
    assert_near(td_schedule_lr(&CONSTANT, UINT64_MAX), 5e-6);
    const td_schedule kinds[] = {COSINE, EXPONENTIAL, CONSTANT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        td_schedule s = kinds[i];
        s.warmup_steps = 0;
        assert_int_equal(td_schedule_check(&s), TD_OK);
        assert_near(td_schedule_lr(&s, 0), s.lr); /* the first update has the whole rate */
    }
}

/* No jump from a step to the next larger than the steepest slope, restarts' own jumps aside. */
static void test_continuity(void **state)
{
    (void)state;
    const td_schedule all[] = {NOAM, COSINE, EXPONENTIAL, CONSTANT};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        td_schedule s = all[i];
        s.warmup_steps = 1000;
        s.decay_steps = 1000;
        assert_int_equal(td_schedule_check(&s), TD_OK);
        for (uint64_t step = 0; step < 20000; ++step) {
            double jump = td_schedule_lr(&s, step + 1) - td_schedule_lr(&s, step);
            if (!(fabs(jump) <= s.lr * 1.6e-3)) fail_msg("kind %d jumps after %d", (int)i, (int)step);
            assert_true(step < 999 ? jump > 0 : jump <= 0);
        }
    }
}

/* Whatever passes the check stays above 0 and at most lr, in floats too. */
static void test_extremes_stay_usable(void **state)
{
    (void)state;
    const double rates[] = {1e-12, 1e-3, 100};
    const uint64_t counts[] = {1, 3, 1000000000000};
    const double multipliers[] = {0, 1, 1 + 2.3e-16, 1.01, 2, 100};
    int n_checked = 0;
    for (size_t i = 0; i < (size_t)4 * 3 * 3 * 3 * 6 * 2; ++i) {
        td_schedule s = {.kind = (td_schedule_kind)(i % 4),
                         .lr = rates[i / 4 % 3],
                         .min_lr = 1e-12,
                         .warmup_steps = counts[i / 12 % 3],
                         .decay_steps = counts[i / 36 % 3],
                         .restart_multiplier = multipliers[i / 108 % 6],
                         .decay_rate = i / 648 ? 1 : 1e-300};
        assert_int_equal(td_schedule_check(&s), TD_OK);
        for (unsigned bit = 0; bit < 64; ++bit) {
            for (uint64_t step = (UINT64_C(1) << bit) - 1, n = 0; n < 3; ++n, ++step) {
                double lr = td_schedule_lr(&s, step);
                if (!((float)lr > 0 && lr <= s.lr * (1 + 1e-15)))
                    fail_msg("set %d at 2^%u gives %g", (int)i, bit, lr);
                ++n_checked;
            }
        }
        double last = td_schedule_lr(&s, UINT64_MAX);
        assert_true((float)last > 0 && last <= s.lr * (1 + 1e-15));
    }
    assert_int_equal(n_checked, 1296 * 64 * 3);
}

static void assert_refused(td_schedule s, const char *word)
{
    assert_int_equal(td_schedule_check(&s), TD_ERR_CONFIG);
    const char *message = td_error_last()->message;
    if (!strstr(message, word) || !strstr(message, "put ")) fail_msg("no '%s' in: %s", word, message);
}

static td_schedule with_lr(td_schedule s, double lr)
{
    s.lr = lr;
    return s;
}

static td_schedule with_min_lr(td_schedule s, double min_lr)
{
    s.min_lr = min_lr;
    return s;
}

static td_schedule with_decay(td_schedule s, uint64_t decay_steps, double rate)
{
    s.decay_steps = decay_steps;
    s.decay_rate = rate;
    return s;
}

static td_schedule with_warm_up(td_schedule s, uint64_t warmup_steps)
{
    s.warmup_steps = warmup_steps;
    return s;
}

static td_schedule with_restarts(td_schedule s, double multiplier)
{
    s.restart_multiplier = multiplier;
    return s;
}

static void test_refusals(void **state)
{
    (void)state;
    const double bad_rates[] = {0, -1e-3, 1e-13, 2e9, INFINITY, -INFINITY, NAN};
    const td_schedule all[] = {NOAM, COSINE, EXPONENTIAL, CONSTANT};
    for (size_t k = 0; k < 4; ++k) {
        assert_int_equal(td_schedule_check(&all[k]), TD_OK);
        for (size_t i = 0; i < sizeof bad_rates / sizeof bad_rates[0]; ++i)
            assert_refused(with_lr(all[k], bad_rates[i]), ": lr is");
        assert_refused(with_warm_up(all[k], UINT64_C(1000000000001)), "warmup_steps is 1000000000001");
    }
    for (size_t i = 0; i < sizeof bad_rates / sizeof bad_rates[0]; ++i) {
        assert_refused(with_min_lr(COSINE, bad_rates[i]), "cosine: min_lr is");
        assert_refused(with_min_lr(EXPONENTIAL, bad_rates[i]), "exponential: min_lr is");
    }
    assert_refused(with_min_lr(COSINE, 2.1e-3), "above lr");
    assert_refused(with_warm_up(NOAM, 0), "noam: warmup_steps is 0");
    assert_refused(with_decay(COSINE, 0, 0), "cosine: decay_steps is 0");
    assert_refused(with_decay(EXPONENTIAL, 0, 0.5), "exponential: decay_steps is 0");
    const double bad_decays[] = {0, -0.5, 1.0001, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad_decays / sizeof bad_decays[0]; ++i)
        assert_refused(with_decay(EXPONENTIAL, 100, bad_decays[i]), "decay_rate is");
    const double bad_multipliers[] = {0.8, 0.9999999, -1, 100.1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bad_multipliers / sizeof bad_multipliers[0]; ++i)
        assert_refused(with_restarts(COSINE, bad_multipliers[i]), "restart_multiplier is");
    const td_schedule unknown = {.kind = TD_SCHEDULE_COUNT, .lr = 1e-3};
    assert_int_equal(td_schedule_check(&unknown), TD_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_up_is_linear),
        cmocka_unit_test(test_noam),
        cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_constant_and_no_warm_up),
        cmocka_unit_test(test_continuity),
        cmocka_unit_test(test_extremes_stay_usable),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
