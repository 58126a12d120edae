/* Numbers of 16 bits: every one of them to fp32 and back, and rounding against a search of the nearest. */
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "torch/convert.h"

/* In double, from the definition of the format. */
static double decode(uint32_t bits, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1u << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1u << mantissa_bits), (int)exponent - bias - mantissa_bits);
}

static void test_every_number_to_fp32_and_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const float half = td_fp16_to_float((uint16_t)i), brain = td_bf16_to_float((uint16_t)i);
        const double true_half = decode(i, 5, 10), true_brain = decode(i, 8, 7);
        assert_true(isnan(true_half) ? isnan(half)
                                     : (double)half == true_half && !signbit(half) == !signbit(true_half));
        assert_true(isnan(true_brain) ? isnan(brain) : (double)brain == true_brain);
        if (!isnan(half)) assert_int_equal(td_fp16_from_float(half), i);
        if (!isnan(brain)) assert_int_equal(td_bf16_from_float(brain), i);
        if (isnan(half)) assert_true(isnan(td_fp16_to_float(td_fp16_from_float(half))));
    }
}

/* Halves and quarters of the way between neighbours: the nearer one, and of equals the even one. */
static void test_rounding(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7bff; i++) {
        const double a = decode(i, 5, 10), b = decode(i + 1, 5, 10);
        assert_int_equal(td_fp16_from_float((float)(a + (b - a) * 0.25)), i);
        assert_int_equal(td_fp16_from_float((float)(a + (b - a) * 0.5)), i % 2 ? i + 1 : i);
        assert_int_equal(td_fp16_from_float((float)(a + (b - a) * 0.75)), i + 1);
    }
    for (uint32_t i = 0x0080; i < 0x7f7f; i++) { /* fp32 has numbers between all but the subnormal ones */
        const double a = decode(i, 8, 7), b = decode(i + 1, 8, 7);
        assert_int_equal(td_bf16_from_float((float)(a + (b - a) * 0.25)), i);
        assert_int_equal(td_bf16_from_float((float)(a + (b - a) * 0.5)), i % 2 ? i + 1 : i);
        assert_int_equal(td_bf16_from_float((float)(a + (b - a) * 0.75)), i + 1);
    }
    assert_int_equal(td_fp16_from_float(65519), 0x7bff);
    assert_int_equal(td_fp16_from_float(65520), 0x7c00);
    assert_int_equal(td_fp16_from_float(-1e10F), 0xfc00);
}

static void test_elements(void **state)
{
    (void)state;
    const double from[3] = {0.5, -1e300, 3};
    float to[3];
    unsigned char place[1 + sizeof from];
    memcpy(place + 1, from, sizeof from);
    td_convert(place + 1, TD_SAFETENSORS_F64, TD_SAFETENSORS_F32, 3, to); /* at an odd address */
    assert_true(to[0] == 0.5F && to[1] == -INFINITY && to[2] == 3);
    assert_true(td_convert_can(TD_SAFETENSORS_BF16, TD_SAFETENSORS_F16));
    assert_true(td_convert_can(TD_SAFETENSORS_I64, TD_SAFETENSORS_I64));
    assert_false(td_convert_can(TD_SAFETENSORS_I64, TD_SAFETENSORS_F32));
    assert_false(td_convert_can(TD_SAFETENSORS_F32, TD_SAFETENSORS_F64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_to_fp32_and_back),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
