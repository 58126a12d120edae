/* What XTTS hears: resampling and the speaker encoder's spectrogram against the public package's, and rules of the
 * resampler that can be known without it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/sinc.h"
#include "families/xtts/reference.h"
#include "fixture.h"

static void test_recordings_are_heard_as_by_the_package(void **state)
{
    (void)state;
    for (size_t k = 0; k < GOLDEN_CASES; k++) {
        golden g;
        float *heard, *low;
        size_t n, m;
        golden_open(&g, golden_cases[k]);
        check(td_xtts_hear(&g.c, g.paths[g.n_references - 1], &heard, &n));
        /* where its filter has many phases, the package's fp32 taps are off by 5e-6 */
        golden_compare_strided(&g, "reference_22k", heard, n, k == 0 ? 1e-6 : 1e-5);
        check(td_sinc_resample(heard, n, 22050, 16000, &low, &m));
        golden_compare_strided(&g, "reference_16k", low, m, 1e-5);
        free(heard);
        free(low);
        golden_close(&g);
    }
}

static void test_a_long_recording_is_cut_and_scaled(void **state)
{
    golden g;
    float *heard, *whole, peak = 0;
    size_t n, m;
    (void)state;
    golden_open(&g, "b");
    check(td_xtts_hear(&g.c, g.paths[0], &whole, &m));
    g.c.max_ref_len = 0.5f;
    g.c.sound_norm_refs = true;
    check(td_xtts_hear(&g.c, g.paths[0], &heard, &n));
    assert_int_equal(n, 11025);
    for (size_t i = 0; i < n; i++)
        peak = fmaxf(peak, fabsf(heard[i]));
    assert_true(fabsf(peak - 0.75f) < 1e-6f);
    free(heard);
    free(whole);
    golden_close(&g);
}

/* A sine that both rates can hold comes out as a sine, and as many samples as promised. */
static void test_a_sine_survives(void **state)
{
    static const uint32_t rates[][2] = {
        {44100, 22050}, {16000, 22050}, {22050, 16000}, {8000, 8000}, {48000, 22050}};
    (void)state;
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        const uint32_t from = rates[k][0], to = rates[k][1];
        const size_t n = 4001;
        float *x = calloc(n, sizeof *x), *y;
        size_t m;
        for (size_t i = 0; i < n; i++)
            x[i] = (float)sin(2 * 3.14159265358979 * 1000 * (double)i / from);
        check(td_sinc_resample(x, n, from, to, &y, &m));
        assert_int_equal(m, (n * (uint64_t)to + from - 1) / from);
        for (size_t i = 100; i + 100 < m; i++)
            if (!(fabs((double)y[i] - sin(2 * 3.14159265358979 * 1000 * (double)i / to)) < 0.01))
                fail_msg("%u to %u Hz: sample %zu is %g", from, to, i, (double)y[i]);
        free(x);
        free(y);
    }
}

static void test_bad_rates_and_short_recordings_are_refused(void **state)
{
    const float x[8] = {0}, window[4] = {1, 1, 1, 1};
    float *out;
    size_t n;
    uint32_t frames;
    (void)state;
    refuse(TD_ERR_ARGUMENT, "0", td_sinc_resample(x, 8, 0, 100, &out, &n));
    refuse(TD_ERR_FORMAT, "8 samples|too short",
           td_xtts_listen(&(td_xtts_ear){.window = window, .n_window = 4, .bands = 1}, x, 8, &out, &frames));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recordings_are_heard_as_by_the_package),
                                       cmocka_unit_test(test_a_long_recording_is_cut_and_scaled),
                                       cmocka_unit_test(test_a_sine_survives),
                                       cmocka_unit_test(test_bad_rates_and_short_recordings_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
