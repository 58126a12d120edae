/* What is measured of recordings, how texts are fitted to sounds, and where limits lie: made-up signals and counts. */
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tools/row_checks.h"
#include "tools/row_fit.h"

#define PI 3.14159265358979323846

enum { RATE = 22050, COUNT = 2 * RATE };

/* Two seconds of bursts: rich below 9 kHz, half of the time quiet. Owned. */
static float *make_bursts(void)
{
    float *x = calloc(COUNT, sizeof *x);
    assert_non_null(x);
    for (int i = RATE / 4; i < COUNT - RATE / 4; ++i) {
        const double t = (double)i / RATE, pitch = 110 + 30 * sin(5 * t);
        double sum = 0;
        for (int h = 1; h * pitch < 9000; ++h)
            sum += sin(2 * PI * h * pitch * t + h * h) / h * (1 + sin(0.3 * h + 11 * t));
        x[i] = (float)(0.1 * sum * (sin(2 * PI * 2 * t) < 0));
    }
    return x;
}

static td_row_sound look(const float *x)
{
    td_row_sound sound;
    check(td_row_sound_look(x, COUNT, RATE, &sound, NULL));
    return sound;
}

static int count_different(const td_row_sound *a, const td_row_sound *b)
{
    int n = 0;
    for (int w = 0; w < TD_SOUND_PRINT_WORDS; ++w)
        n += __builtin_popcountll(a->print[w] ^ b->print[w]);
    return n;
}

static void test_sound_of_bursts(void **state)
{
    (void)state;
    float *x = make_bursts(), *y = calloc(COUNT, sizeof *y), *z = make_bursts();
    const td_row_sound plain = look(x);
    assert_true(fabs(plain.seconds - 2) < 1e-9 && fabs(plain.start_s - 0.25) < 0.03 && plain.end_s >= 0.24);
    assert_true(plain.speech_s > 0.5 && plain.speech_s < 1.2);
    assert_true(plain.flat_share == 0 && plain.over_noise_db == 80 && plain.bandwidth_hz > 8500);
    for (int i = 0; i < COUNT; ++i)
        y[i] = 0.5f * x[i] + 0.1f;
    const td_row_sound moved = look(y);
    assert_true(fabs(moved.offset - 0.1) < 0.01);
    assert_true(fabs(moved.level_db - plain.level_db + 6.02) < 0.1);
    assert_in_range(count_different(&plain, &moved), 0, 20);
    for (int i = 0; i < COUNT; ++i)
        z[i] = x[COUNT - 1 - i];
    const td_row_sound turned = look(z);
    assert_in_range(count_different(&plain, &turned), 120, TD_SOUND_PRINT_BITS);
    free(z);
    free(y);
    free(x);
}

static void test_flaws(void **state)
{
    (void)state;
    float *x = make_bursts(), *y = calloc(COUNT, sizeof *y);
    float peak = 0;
    for (int i = 0; i < COUNT; ++i)
        peak = fmaxf(peak, fabsf(x[i]));
    for (int i = 0; i < COUNT; ++i)
        y[i] = fmaxf(-0.4f * peak, fminf(0.4f * peak, x[i]));
    assert_true(look(y).flat_share > 0.001);
    for (int i = 0; i < COUNT; ++i)
        y[i] = x[i] + 0.02f * (td_rng_float(7, 0, (uint64_t)i) - 0.5f);
    const double noisy = look(y).over_noise_db;
    assert_true(noisy > 5 && noisy < 35);
    memset(y, 0, COUNT * sizeof *y);
    const td_row_sound silence = look(y);
    assert_true(silence.peak_db <= -119 && silence.speech_s == 0 && silence.flat_share == 0);
    y[0] = 0.5f;
    td_row_sound one;
    check(td_row_sound_look(y, 1, 8000, &one, NULL)); /* a single sample */
    free(y);
    free(x);
}

/* ---------------------------------------------------------------- texts and sounds */

enum { ROWS = 120, LETTERS = 40 };

/* Each letter has a sound of its own, and one that it shares; each lasts 4 to 8 frames. */
static void speak(uint64_t row, const char *text, td_fit_bag *bag)
{
    for (size_t i = 0; i < LETTERS; ++i) {
        const double frames = 4 + 4 * td_rng_double(3, 1 + row, i);
        for (size_t p = 0; p < TD_FIT_PARTS; ++p) {
            const double weight = td_fit_weight(p, ((double)i + 0.5) / LETTERS);
            bag->counts[p][text[i] - 'a'] += (float)(frames * weight);
            bag->counts[p][26 + (text[i] - 'a') % 6] += (float)(2 * weight);
        }
    }
}

static void make_rows(char texts[ROWS][LETTERS + 1], td_fit_row rows[ROWS])
{
    for (size_t i = 0; i < ROWS; ++i) {
        for (size_t j = 0; j < LETTERS; ++j)
            texts[i][j] = (char)('a' + td_rng_below(3, 0, i * LETTERS + j, 26));
        rows[i] = (td_fit_row){.text = texts[i]};
        speak(i, texts[i], &rows[i].bag);
    }
}

static void test_fit_finds_swapped_texts(void **state)
{
    static char texts[ROWS][LETTERS + 1];
    static td_fit_row rows[ROWS];
    td_pool *pool;
    (void)state;
    check(td_pool_create(2, &pool));
    make_rows(texts, rows);
    rows[10].text = texts[70];
    rows[70].text = texts[10];
    rows[33].bag = (td_fit_bag){0};
    check(td_fit_run(rows, ROWS, pool));
    for (size_t i = 0; i < ROWS; ++i) {
        if (i == 33)
            assert_true(isnan(rows[i].better));
        else if (i == 10 || i == 70)
            assert_true(rows[i].better > 0.05);
        else
            assert_true(rows[i].better <= 0.01);
    }
    for (size_t i = 0; i < ROWS; ++i) /* no relation at all: nothing is said */
        rows[i].text = texts[(i + 17) % ROWS];
    check(td_fit_run(rows, ROWS, pool));
    for (size_t i = 0; i < ROWS; ++i)
        assert_true(isnan(rows[i].better));
    check(td_fit_run(rows, 20, pool)); /* too few */
    assert_true(isnan(rows[0].better));
    td_pool_destroy(pool);
}

/* ---------------------------------------------------------------- limits */

static void test_limits(void **state)
{
    (void)state;
    double values[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1000};
    const td_row_check low = {.side = TD_CHECK_LOW, .sigmas = 1, .never = 100, .always = -100};
    td_check_limits limits = td_row_check_limits(&low, values, 11);
    assert_true(limits.usual == 6 && fabs(limits.low - (6 - 1.4826 * 3)) < 1e-9 && limits.high == HUGE_VAL);
    assert_true(td_row_check_excess(&limits, 5) == 0 && td_row_check_excess(&limits, -5) > 1);
    assert_true(td_row_check_excess(&limits, NAN) == 0);
    double more[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1000};
    const td_row_check high = {.side = TD_CHECK_HIGH, .tail = 2, .never = 1, .always = 13};
    limits = td_row_check_limits(&high, more, 11);
    assert_true(limits.high == 12); /* 6 + 2 (9 - 6) */
    const td_row_check fixed = {.side = TD_CHECK_HIGH, .never = 0.5, .always = 0.5};
    limits = td_row_check_limits(&fixed, more, 11);
    assert_true(limits.high == 0.5);
    limits = td_row_check_limits(&fixed, more, 0);
    assert_true(isnan(limits.usual) && td_row_check_excess(&limits, 5) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_of_bursts),
        cmocka_unit_test(test_flaws),
        cmocka_unit_test(test_fit_finds_swapped_texts),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
