/* See join.h. */
#include "synth/join.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define FADE_S 0.005
#define HIGHEST_PEAK 0.98f
#define HALF_TURN 3.14159265f

/* A raised cosine at both ends of a piece of `total` samples, of which these are those from `first` on; a piece
 * shorter than two of them has shorter ones. */
static void fade(float *samples, size_t count, size_t first, size_t total, size_t fade_samples)
{
    const size_t n = fade_samples < total / 2 ? fade_samples : total / 2;
    for (size_t i = 0; i < count; i++) {
        const size_t from_start = first + i, from_end = total - 1 - from_start;
        const size_t nearest = from_start < from_end ? from_start : from_end;
        if (nearest < n) samples[i] *= 0.5f - 0.5f * cosf(HALF_TURN * (float)nearest / (float)n);
    }
}

td_status td_join_add_part(td_join *join, const float *samples, size_t count, size_t first, size_t total,
                           double pause_s)
{
    const size_t pause = (size_t)(pause_s * join->rate);
    if (count + pause == 0) return TD_OK;
    TD_CHECK(td_alloc_grow(&join->samples, &join->capacity, join->count + count + pause, sizeof *samples));
    float *to = join->samples + join->count;
    if (count) memcpy(to, samples, count * sizeof *samples);
    fade(to, count, first, total, (size_t)(FADE_S * join->rate));
    memset(to + count, 0, pause * sizeof *to);
    join->count += count + pause;
    return TD_OK;
}

td_status td_join_add(td_join *join, const float *samples, size_t count, double pause_s)
{
    return td_join_add_part(join, samples, count, 0, count, pause_s);
}

void td_join_level_on(td_join *join, float *gain)
{
    float peak = 0;
    for (size_t i = 0; i < join->count; i++)
        peak = fmaxf(peak, fabsf(join->samples[i]));
    if (peak * *gain > 1) *gain = HIGHEST_PEAK / peak;
    for (size_t i = 0; *gain != 1 && i < join->count; i++)
        join->samples[i] *= *gain;
}

void td_join_level(td_join *join)
{
    float gain = 1;
    td_join_level_on(join, &gain);
}
