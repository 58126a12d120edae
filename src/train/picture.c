/* See picture.h. Colours are made in CIE L*a*b* (D65), where equal steps of L* look equal, and brought to
 * sRGB by the formulas of CIE 15 and IEC 61966-2-1. */
#include "train/picture.h"

#include <math.h>
#include <png.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

enum { N_COLORS = 256, MAX_SIDE = 16384 };

/* ---------------------------------------------------------------- colours */

static double invert_lab(double t)
{
    const double delta = 6.0 / 29;
    return t > delta ? t * t * t : 3 * delta * delta * (t - 4.0 / 29);
}

/* A share of light to the byte that a screen is given. */
static uint8_t encode_light(double light)
{
    const double x = light < 0 ? 0 : light > 1 ? 1 : light;
    const double coded = x <= 0.0031308 ? 12.92 * x : 1.055 * pow(x, 1 / 2.4) - 0.055;
    return (uint8_t)lround(255 * coded);
}

void td_picture_color(double share, uint8_t rgb[3])
{
    const double pi = 3.14159265358979323846;
    const double s = share > 0 ? share < 1 ? share : 1 : 0;
    const double lightness = 6 + 90 * s;
    const double chroma = 12 + 48 * sin(pi * (0.1 + 0.75 * s));
    const double hue = pi * (305 - 205 * s) / 180;
    const double fy = (lightness + 16) / 116;
    const double x = 0.95047 * invert_lab(fy + chroma * cos(hue) / 500);
    const double y = invert_lab(fy);
    const double z = 1.08883 * invert_lab(fy - chroma * sin(hue) / 200);
    rgb[0] = encode_light(3.2406 * x - 1.5372 * y - 0.4986 * z);
    rgb[1] = encode_light(-0.9689 * x + 1.8758 * y + 0.0415 * z);
    rgb[2] = encode_light(0.0557 * x - 0.2040 * y + 1.0570 * z);
}

/* ---------------------------------------------------------------- pixels */

static float value_at(const td_heat *grid, uint32_t column, uint32_t row)
{
    return grid->values[column * grid->column_step + row * grid->row_step];
}

static void find_range(const td_heat *grid, float *low, float *high)
{
    *low = grid->low;
    *high = grid->high;
    if (grid->low < grid->high) return;
    bool any = false;
    for (uint32_t y = 0; y < grid->rows; ++y) {
        for (uint32_t x = 0; x < grid->columns; ++x) {
            const float v = value_at(grid, x, y);
            if (!isfinite(v)) continue;
            if (!any || v < *low) *low = v;
            if (!any || v > *high) *high = v;
            any = true;
        }
    }
}

static void paint(const td_heat *grid, uint32_t scale, uint8_t *pixels)
{
    uint8_t colors[N_COLORS][3];
    float low, high;
    const size_t width = (size_t)grid->columns * scale;
    for (int i = 0; i < N_COLORS; ++i)
        td_picture_color((double)i / (N_COLORS - 1), colors[i]);
    find_range(grid, &low, &high);
    const float range = high > low ? high - low : 1;
    for (size_t py = 0; py < (size_t)grid->rows * scale; ++py) {
        const uint32_t y = grid->rows - 1 - (uint32_t)(py / scale);
        for (size_t px = 0; px < width; ++px) {
            const float share = (value_at(grid, (uint32_t)(px / scale), y) - low) / range;
            const int index = !(share > 0) ? 0
                              : share < 1  ? (int)(share * (N_COLORS - 1) + 0.5F)
                                           : N_COLORS - 1;
            for (int c = 0; c < 3; ++c)
                pixels[3 * (py * width + px) + (size_t)c] = colors[index][c];
        }
    }
}

td_status td_picture_encode(const td_heat *grid, td_picture *out)
{
    td_status status = TD_OK;
    uint8_t *pixels = NULL;
    const uint32_t scale = grid->scale > 0 ? grid->scale : 1;
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    png_alloc_size_t bytes = 0;
    *out = (td_picture){0};
    TD_FAIL_IF(grid->columns == 0 || grid->rows == 0 || grid->columns > MAX_SIDE / scale ||
                   grid->rows > MAX_SIDE / scale,
               TD_ERR_ARGUMENT, "a picture of %u by %u values cannot be drawn", grid->columns, grid->rows);
    out->width = image.width = grid->columns * scale;
    out->height = image.height = grid->rows * scale;
    TD_TRY(TD_NEW_ARRAY(&pixels, (size_t)3 * image.width * image.height));
    paint(grid, scale, pixels);
    bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    TD_TRY(TD_NEW_ARRAY(&out->png, bytes));
    TD_FAIL_IF(png_image_write_to_memory(&image, out->png, &bytes, 0, pixels, 0, NULL) == 0,
               TD_ERR_HOST_MEMORY, "a picture could not be packed: %s", image.message);
    out->bytes = bytes;
fail:
    free(pixels);
    if (status != TD_OK) {
        free(out->png);
        *out = (td_picture){0};
    }
    return status;
}
