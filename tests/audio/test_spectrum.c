/* Power spectra of frames, compared with sums in double. */
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "audio/spectrum.h"

#define PI 3.14159265358979323846

static double sum_power(const float *x, uint32_t n, uint32_t k)
{
    double re = 0, im = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const double windowed = x[i] * (0.5 - 0.5 * cos(2 * PI * i / n));
        re += windowed * cos(2 * PI * (double)k * i / n);
        im -= windowed * sin(2 * PI * (double)k * i / n);
    }
    return re * re + im * im;
}

static void test_equals_the_sums(void **state)
{
    static const uint32_t SIZES[] = {8, 64, 512, 2048};
    (void)state;
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; ++s) {
        const uint32_t n = SIZES[s];
        td_spectrum *spectrum;
        float *x = calloc(n, sizeof *x), *scratch = calloc(2 * (size_t)n, sizeof *x);
        float *power = calloc(n / 2 + 1, sizeof *x);
        double most = 0;
        check(td_spectrum_create(n, &spectrum));
        for (uint32_t i = 0; i < n; ++i) {
            x[i] = (float)(sin(0.7 * i) + 0.3 * cos(0.011 * i * i));
            power[i / 2] = NAN;
        }
        power[n / 2] = NAN;
        td_spectrum_run(spectrum, x, scratch, power);
        for (uint32_t k = 0; k <= n / 2; ++k)
            most = fmax(most, sum_power(x, n, k));
        for (uint32_t k = 0; k <= n / 2; ++k)
            if (!(fabs(power[k] - sum_power(x, n, k)) <= 1e-5 * most)) fail_msg("%u points, bin %u", n, k);
        td_spectrum_destroy(spectrum);
        free(power);
        free(scratch);
        free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_the_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
