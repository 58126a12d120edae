/* Matrices as bytes: the nearest byte by a computation of its own, ties, zeros, and back. */
#include <math.h>

#include "nn/bytes.h"
#include "support/rig.h"

enum { IN = 37, OUT = 21 };

/* Column 3 is zero; column 4 has a scale of 1 and values half-way between bytes. */
static void make_matrix(float *values)
{
    for (size_t i = 0; i < IN; i++)
        for (size_t j = 0; j < OUT; j++) {
            const float wave = (float)sin(0.7 * (double)(i * OUT + j));
            values[i * OUT + j] = j == 3 ? 0 : j == 4 ? (float)i + 0.5f : wave * (float)(j + 1);
        }
    values[4] = -127;
}

static void test_each_is_the_nearest(void **state)
{
    float values[IN * OUT], scales[OUT], back[IN * OUT];
    int8_t bytes[IN * OUT];
    (void)state;
    make_matrix(values);
    td_bytes_find_scales(values, IN, OUT, scales);
    td_bytes_make(values, IN, OUT, scales, bytes);
    td_bytes_widen(bytes, IN, OUT, scales, back);
    for (size_t j = 0; j < OUT; j++) {
        double most = 0;
        for (size_t i = 0; i < IN; i++)
            most = fmax(most, fabs((double)values[i * OUT + j]));
        const float scale = most > 0 ? (float)most / 127 : 1;
        assert_true(scales[j] == scale);
        for (size_t i = 0; i < IN; i++) {
            const size_t at = i * OUT + j;
            const int wanted = (int)nearbyint((double)(values[at] / scale));
            if (bytes[at] != wanted) fail_msg("%g became %d, not %d", (double)values[at], bytes[at], wanted);
            assert_true(back[at] == (float)bytes[at] * scale);
        }
    }
    assert_int_equal(bytes[4], -127);
    assert_int_equal(bytes[OUT + 4], 2);     /* 1.5 */
    assert_int_equal(bytes[2 * OUT + 4], 2); /* 2.5 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_is_the_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
