/* Pictures: read back by libpng; colours of rising lightness. */
#include "data/fixture.h"

#include <math.h>
#include <png.h>

#include "train/picture.h"

/* Lightness by the luminance of sRGB. */
static double lightness(const uint8_t rgb[3])
{
    static const double WEIGHTS[3] = {0.2126, 0.7152, 0.0722};
    double light = 0;
    for (int c = 0; c < 3; ++c) {
        const double x = rgb[c] / 255.0;
        light += WEIGHTS[c] * (x <= 0.04045 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4));
    }
    return light > 0.008856 ? 116 * cbrt(light) - 16 : 903.3 * light;
}

static void test_colors_are_even(void **state)
{
    (void)state;
    uint8_t rgb[3];
    for (int i = 0; i <= 20; ++i) {
        td_picture_color(i / 20.0, rgb);
        const double expected = 6 + 90 * (i / 20.0);
        assert_true(fabs(lightness(rgb) - expected) < 6); /* colours a screen lacks are cut */
    }
    td_picture_color(NAN, rgb);
    assert_true(lightness(rgb) < 12);
}

static void test_round_trip(void **state)
{
    (void)state;
    const float values[6] = {0, 1, 2, 3, NAN, 4}; /* three columns, two rows */
    const td_heat grid = {values, 3, 2, 2, 1, 0, 0, 2};
    td_picture picture;
    png_image image = {.version = PNG_IMAGE_VERSION};
    uint8_t pixels[4][6][3], low[3], high[3];
    assert_int_equal(td_picture_encode(&grid, &picture), TD_OK);
    assert_int_equal(picture.width, 6);
    assert_int_equal(picture.height, 4);
    assert_true(png_image_begin_read_from_memory(&image, picture.png, picture.bytes));
    assert_int_equal(image.width, 6);
    assert_int_equal(image.height, 4);
    image.format = PNG_FORMAT_RGB;
    assert_true(png_image_finish_read(&image, NULL, pixels, 0, NULL));
    td_picture_color(0, low);
    td_picture_color(1, high);
    assert_memory_equal(pixels[3][0], low, 3); /* row 0 is at the bottom */
    assert_memory_equal(pixels[0][5], high, 3);
    assert_memory_equal(pixels[3][5], low, 3); /* not a number */
    free(picture.png);
    assert_int_equal(td_picture_encode(&(td_heat){values, 0, 2, 1, 1, 0, 0, 1}, &picture), TD_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_colors_are_even),
                                       cmocka_unit_test(test_round_trip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
