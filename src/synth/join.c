/* See join.h. */
#include "synth/join.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

#define FADE_S 0.005
#define HIGHEST_PEAK 0.98f
#define HALF_TURN 3.14159265f

/* A raised cosine at both ends; a piece shorter than two of them has shorter ones. */
static void fade(float *samples, size_t count, size_t fade_samples)
{
    const size_t n = fade_samples < count / 2 ? fade_samples : count / 2;
    for (size_t i = 0; i < n; i++) {
        const float gain = 0.5f - 0.5f * cosf(HALF_TURN * (float)i / (float)n);
        samples[i] *= gain;
        samples[count - 1 - i] *= gain;
    }
}

td_status td_join_add(td_join *join, const float *samples, size_t count, double pause_s)
{
    const size_t pause = (size_t)(pause_s * join->rate);
    td_status status = TD_OK;
    if (count + pause == 0) return TD_OK;
    TD_TRY(td_alloc_grow(&join->samples, &join->capacity, join->count + count + pause, sizeof *samples));
    float *to = join->samples + join->count;
    if (count) memcpy(to, samples, count * sizeof *samples);
    fade(to, count, (size_t)(FADE_S * join->rate));
    memset(to + count, 0, pause * sizeof *to);
    join->count += count + pause;
fail:
    return status;
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
