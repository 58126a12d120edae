/* Philox against the published known answers of its authors' Random123 library, and the statistics of what is
 * drawn from it (src/base/rng.c, src/base/philox.kh). Seeds are fixed, so the bounds are never a matter of
 * luck. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/rng.h"

static void test_known_answers(void **state)
{
    (void)state;
    const struct {
        uint64_t seed, stream, block;
        uint32_t words[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        uint32_t words[4];
        td_rng_block(cases[i].seed, cases[i].stream, cases[i].block, words);
        for (int w = 0; w < 4; ++w)
            assert_int_equal(words[w], cases[i].words[w]);
    }
}

static void test_words_are_the_blocks_in_order(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 40; ++index) {
        uint32_t words[4];
        td_rng_block(5, 6, index / 4, words);
        assert_int_equal(td_rng_u32(5, 6, index), words[index % 4]);
        assert_true(td_rng_float(5, 6, index) == (float)(words[index % 4] >> 8) / 16777216.0f);
    }
    uint32_t words[4];
    td_rng_block(5, 6, 3, words);
    assert_true(td_rng_double(5, 6, 6) ==
                (double)(((uint64_t)words[1] << 32 | words[0]) >> 11) / 9007199254740992.0);
    assert_true(td_rng_double(5, 6, 7) ==
                (double)(((uint64_t)words[3] << 32 | words[2]) >> 11) / 9007199254740992.0);
}

/* Mean and variance of n uniform draws; their standard errors are sqrt(1/12/n) and about sqrt(1/180/n). */
static void test_uniform_statistics(void **state)
{
    (void)state;
    enum { N = 100000, BINS = 64 };
    double sum[2] = {0}, square[2] = {0};
    int bins[BINS] = {0};
    for (uint64_t i = 0; i < N; ++i) {
        double values[2] = {td_rng_float(11, 1, i), td_rng_double(11, 2, i)};
        for (int k = 0; k < 2; ++k) {
            assert_true(values[k] >= 0 && values[k] < 1);
            sum[k] += values[k];
            square[k] += values[k] * values[k];
        }
        bins[(int)(values[0] * BINS)]++;
    }
    for (int k = 0; k < 2; ++k) {
        double mean = sum[k] / N;
        assert_true(fabs(mean - 0.5) < 4 * sqrt(1.0 / 12 / N));
        assert_true(fabs(square[k] / N - mean * mean - 1.0 / 12) < 4 * sqrt(1.0 / 180 / N));
    }
    double chi2 = 0;
    for (int b = 0; b < BINS; ++b)
        chi2 += pow(bins[b] - (double)N / BINS, 2) / ((double)N / BINS);
    assert_true(chi2 > 30 && chi2 < 110); /* 63 degrees of freedom, p about 1e-4 on both sides */
}

static void test_seeds_and_streams_are_unrelated(void **state)
{
    (void)state;
    enum { N = 20000 };
    double seeds = 0, streams = 0, neighbours = 0;
    for (uint64_t i = 0; i < N; ++i) {
        double x = td_rng_double(1, 1, i) - 0.5;
        seeds += x * (td_rng_double(2, 1, i) - 0.5);
        streams += x * (td_rng_double(1, 2, i) - 0.5);
        neighbours += x * (td_rng_double(1, 1, i + 1) - 0.5);
    }
    double bound = 4 * (1.0 / 12) * sqrt(N);
    assert_true(fabs(seeds) < bound);
    assert_true(fabs(streams) < bound);
    assert_true(fabs(neighbours) < bound);
    /* The upper halves of seed, stream and block count too. */
    uint32_t plain = td_rng_u32(1, 1, 4);
    assert_int_not_equal(td_rng_u32(1 | 1ull << 40, 1, 4), plain);
    assert_int_not_equal(td_rng_u32(1, 1 | 1ull << 40, 4), plain);
    assert_int_not_equal(td_rng_u32(1, 1, 4 | 1ull << 40), plain);
}

static void test_bounded_integers_are_even(void **state)
{
    (void)state;
    enum { N = 60000 };
    const uint64_t bounds[] = {1, 2, 3, 7, 10, 48};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; ++b) {
        int counts[48] = {0};
        for (uint64_t i = 0; i < N; ++i) {
            uint64_t value = td_rng_below(3, bounds[b], i, bounds[b]);
            assert_true(value < bounds[b]);
            counts[value]++;
        }
        double expected = (double)N / (double)bounds[b];
        for (uint64_t v = 0; v < bounds[b]; ++v)
            assert_true(fabs(counts[v] - expected) < 5 * sqrt(expected));
    }
    assert_int_equal(td_rng_below(3, 0, 0, 0), 0);
}

/* With a bound of 3/4 * 2^64 a plain multiplication gives every third value twice as often, and rejection
 * throws away a fourth of the draws, so this sees both the bias and the retries. */
static void test_rejection_removes_the_bias(void **state)
{
    (void)state;
    enum { N = 60000 };
    const uint64_t bound = 3ull << 62;
    int counts[3] = {0}, remainders[3] = {0}, differ = 0;
    for (uint64_t i = 0; i < N; ++i) {
        uint64_t value = td_rng_below(4, 0, i, bound);
        assert_true(value < bound);
        counts[value / (1ull << 62)]++;
        remainders[value % 3]++;
        uint32_t words[4];
        td_rng_block(4, 0, i, words);
        uint64_t bits = (uint64_t)words[1] << 32 | words[0];
        differ += bits / 4 * 3 + bits % 4 * 3 / 4 != value;
    }
    for (int k = 0; k < 3; ++k) {
        assert_true(fabs(counts[k] - N / 3.0) < 5 * sqrt(N / 3.0));
        assert_true(fabs(remainders[k] - N / 3.0) < 5 * sqrt(N / 3.0));
    }
    assert_in_range(differ, N / 5, N / 3);
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Moments, and the Kolmogorov-Smirnov distance to the normal distribution. */
static void test_normal_statistics(void **state)
{
    (void)state;
    enum { N = 100000 };
    float *values = malloc(N * sizeof *values);
    assert_non_null(values);
    double moments[4] = {0}, pairs = 0;
    for (uint64_t i = 0; i < N; ++i) {
        values[i] = td_rng_normal(21, 0, i);
        assert_true(fabsf(values[i]) < 5.8f);
        for (int k = 0; k < 4; ++k)
            moments[k] += pow(values[i], k + 1) / N;
        if (i % 2) pairs += values[i] * values[i - 1];
    }
    assert_true(fabs(moments[0]) < 4 / sqrt(N));
    assert_true(fabs(moments[1] - 1) < 4 * sqrt(2.0 / N));
    assert_true(fabs(moments[2]) < 4 * sqrt(15.0 / N));
    assert_true(fabs(moments[3] - 3) < 4 * sqrt(96.0 / N));
    assert_true(fabs(pairs) < 4 * sqrt(N / 2.0));
    qsort(values, N, sizeof *values, compare_floats);
    double distance = 0;
    for (int i = 0; i < N; ++i) {
        double expected = 0.5 * erfc(-values[i] / sqrt(2));
        distance = fmax(distance, fmax(fabs(expected - (double)i / N), fabs(expected - (i + 1.0) / N)));
    }
    assert_true(distance < 2.0 / sqrt(N));
    free(values);
}

static void test_shuffle_is_a_permutation_and_repeats(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct {
        uint32_t id;
        char tag[3];
    } items[N];
    uint32_t order[2][N];
    for (int round = 0; round < 2; ++round) {
        bool seen[N] = {false};
        int moved = 0;
        for (uint32_t i = 0; i < N; ++i) {
            items[i].id = i;
            items[i].tag[2] = (char)(i % 100);
        }
        td_rng_shuffle(9, 1, items, N, sizeof *items);
        for (uint32_t i = 0; i < N; ++i) {
            assert_true(items[i].id < N && !seen[items[i].id]);
            assert_int_equal(items[i].tag[2], items[i].id % 100);
            seen[items[i].id] = true;
            moved += items[i].id != i;
            order[round][i] = items[i].id;
        }
        assert_true(moved > N - 20);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    for (uint32_t i = 0; i < N; ++i)
        order[1][i] = i;
    td_rng_shuffle(9, 2, order[1], N, sizeof order[1][0]);
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    td_rng_shuffle(9, 2, order[1], 0, sizeof order[1][0]);
}

static void test_shuffle_reaches_every_order_evenly(void **state)
{
    (void)state;
    enum { N = 24000 };
    int counts[256] = {0};
    for (uint64_t stream = 0; stream < N; ++stream) {
        unsigned char items[4] = {0, 1, 2, 3};
        td_rng_shuffle(10, stream, items, 4, 1);
        counts[items[0] * 64 + items[1] * 16 + items[2] * 4 + items[3]]++;
    }
    int orders = 0;
    for (int i = 0; i < 256; ++i) {
        if (counts[i] == 0) continue;
        orders++;
        assert_in_range(counts[i], 1000 - 160, 1000 + 160);
    }
    assert_int_equal(orders, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_words_are_the_blocks_in_order),
        cmocka_unit_test(test_uniform_statistics),
        cmocka_unit_test(test_seeds_and_streams_are_unrelated),
        cmocka_unit_test(test_bounded_integers_are_even),
        cmocka_unit_test(test_rejection_removes_the_bias),
        cmocka_unit_test(test_normal_statistics),
        cmocka_unit_test(test_shuffle_is_a_permutation_and_repeats),
        cmocka_unit_test(test_shuffle_reaches_every_order_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
