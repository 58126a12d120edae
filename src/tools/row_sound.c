/* See row_sound.h. Frames are 10 ms apart and at least 20 ms long. */
#include "tools/row_sound.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "audio/spectrum.h"
#include "base/error.h"

#define PI 3.14159265358979323846

enum {
    FRAMES_A_SECOND = 100,
    PRINT_STEPS = 32, /* times */
    PRINT_BANDS = TD_SOUND_PRINT_BITS / PRINT_STEPS,
};

static const double QUIET_DB = 40, SILENCE_DB = -70, NEVER_DB = -120, MOST_OVER_NOISE_DB = 80;
static const double LOWEST_HZ = 60, HIGHEST_HZ = 8000;
static const double NOISE_SHARE = 0.1;  /* of the frames, in each band the quietest: what is always there */
static const double FLOOR_SHARE = 1e-6; /* of the loudest band: less says nothing */

/* Clipping: so long a wave stays within so little of one value, this near to its extreme. */
static const double FLAT_S = 0.00015, FLAT_STEP = 1.0 / 32768, FLAT_NEAR = 0.95;

/* Bandwidth: an edge is a fall by so much from what is below it to all that is above it. */
static const double EDGE_DB = 20, EDGE_FROM_HZ = 2500, EDGE_BELOW_HZ = 600, EDGE_GAP_HZ = 150,
                    EDGE_ABOVE_HZ = 400;

typedef struct look {
    const float *samples;
    float mean; /* of them: an offset is no sound */
    size_t count;
    uint32_t rate_hz, n_fft, hop;
    size_t n_frames, n_loud, first, last; /* loud: not quiet; the first and last of them */
    double *energy_db;                    /* [n_frames] */
    float (*bands)[TD_SOUND_BANDS];       /* [n_frames] powers */
    double *average;                      /* [n_fft / 2 + 1]: mean power of the loud frames */
    double edges_hz[TD_SOUND_BANDS + 2];
    float loudest; /* of all bands */
} look;

static double to_db(double power)
{
    return power > 1e-12 ? 10 * log10(power) : NEVER_DB;
}

/* ---------------------------------------------------------------- waves */

/* Samples of flat tops: runs near the positive or negative extreme that do not move. */
static size_t count_flat(const look *l, double low, double high)
{
    const size_t least = (size_t)ceil(FLAT_S * l->rate_hz) > 3 ? (size_t)ceil(FLAT_S * l->rate_hz) : 3;
    size_t total = 0, run = 1;
    for (size_t i = 1; i <= l->count; ++i) {
        const double x = l->samples[i - 1];
        const bool is_extreme = (x > 0 && x >= FLAT_NEAR * high) || (x < 0 && x <= FLAT_NEAR * low);
        if (i < l->count && is_extreme && fabs((double)l->samples[i] - x) <= FLAT_STEP) {
            ++run;
            continue;
        }
        if (run >= least && is_extreme) total += run;
        run = 1;
    }
    return total;
}

static void look_at_wave(look *l, td_row_sound *out)
{
    double low = 0, high = 0, sum = 0;
    for (size_t i = 0; i < l->count; ++i) {
        const double x = l->samples[i];
        low = x < low ? x : low;
        high = x > high ? x : high;
        sum += x;
    }
    const double peak = high > -low ? high : -low;
    out->seconds = (double)l->count / l->rate_hz;
    out->peak_db = to_db(peak * peak);
    out->offset = sum / (double)l->count;
    l->mean = (float)out->offset;
    /* The steps of a quiet recording are themselves flat. */
    out->flat_share = peak > 0.02 ? (double)count_flat(l, low, high) / (double)l->count : 0;
}

/* ---------------------------------------------------------------- frames */

static double to_mel(double hz)
{
    return 1127 * log(1 + hz / 700);
}

static void set_edges(look *l)
{
    const double top = l->rate_hz / 2.0 < HIGHEST_HZ ? l->rate_hz / 2.0 : HIGHEST_HZ;
    for (size_t b = 0; b < TD_SOUND_BANDS + 2; ++b) {
        const double mel =
            to_mel(LOWEST_HZ) + (to_mel(top) - to_mel(LOWEST_HZ)) * (double)b / (TD_SOUND_BANDS + 1);
        l->edges_hz[b] = 700 * (exp(mel / 1127) - 1);
    }
}

/* Triangles over the bins. */
static void sum_bands(const look *l, const float *power, float out[TD_SOUND_BANDS])
{
    for (size_t b = 0; b < TD_SOUND_BANDS; ++b) {
        const double *e = l->edges_hz + b;
        const double hz = (double)l->rate_hz / l->n_fft;
        double sum = 0;
        for (size_t k = (size_t)(e[0] / hz) + 1; k <= l->n_fft / 2 && (double)k * hz < e[2]; ++k) {
            const double at = (double)k * hz;
            sum += power[k] * (at < e[1] ? (at - e[0]) / (e[1] - e[0]) : (e[2] - at) / (e[2] - e[1]));
        }
        out[b] = (float)sum;
    }
}

/* Energies first: they tell which frames are quiet. */
static void measure_energies(look *l)
{
    double most = NEVER_DB;
    for (size_t f = 0; f < l->n_frames; ++f) {
        double sum = 0;
        const size_t first = f * l->hop, end = first + l->hop < l->count ? first + l->hop : l->count;
        for (size_t i = first; i < end; ++i) {
            const double x = l->samples[i] - l->mean;
            sum += x * x;
        }
        l->energy_db[f] = to_db(sum / (double)(end - first));
        most = l->energy_db[f] > most ? l->energy_db[f] : most;
    }
    const double limit = most - QUIET_DB > SILENCE_DB ? most - QUIET_DB : SILENCE_DB;
    l->first = l->n_frames;
    for (size_t f = 0; f < l->n_frames; ++f) {
        if (l->energy_db[f] <= limit) {
            l->energy_db[f] = -HUGE_VAL; /* marks it */
            continue;
        }
        if (l->n_loud++ == 0) l->first = f;
        l->last = f;
    }
}

static bool is_loud(const look *l, size_t frame)
{
    return l->energy_db[frame] > -HUGE_VAL;
}

static td_status measure_spectra(look *l)
{
    td_status status = TD_OK;
    td_spectrum *spectrum = NULL;
    float *piece = NULL, *scratch = NULL, *power = NULL;
    TD_TRY(td_spectrum_create(l->n_fft, &spectrum));
    TD_TRY(TD_NEW_ARRAY(&piece, l->n_fft));
    TD_TRY(TD_NEW_ARRAY(&scratch, 2 * (size_t)l->n_fft));
    TD_TRY(TD_NEW_ARRAY(&power, l->n_fft / 2 + 1));
    for (size_t f = 0; f < l->n_frames; ++f) {
        const size_t left = l->count - f * l->hop, n = left < l->n_fft ? left : l->n_fft;
        for (size_t i = 0; i < n; ++i)
            piece[i] = l->samples[f * l->hop + i] - l->mean;
        memset(piece + n, 0, (l->n_fft - n) * sizeof *piece);
        td_spectrum_run(spectrum, piece, scratch, power);
        sum_bands(l, power, l->bands[f]);
        for (size_t b = 0; b < TD_SOUND_BANDS; ++b)
            l->loudest = l->bands[f][b] > l->loudest ? l->bands[f][b] : l->loudest;
        for (size_t k = 0; is_loud(l, f) && k <= l->n_fft / 2; ++k)
            l->average[k] += power[k] / (double)l->n_loud;
    }
fail:
    free(power);
    free(scratch);
    free(piece);
    td_spectrum_destroy(spectrum);
    return status;
}

/* ---------------------------------------------------------------- noise and bandwidth */

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static td_status judge_noise(const look *l, td_row_sound *out)
{
    double noise = 0, speech = 0;
    float *values;
    TD_CHECK(TD_NEW_ARRAY(&values, l->n_frames));
    for (size_t b = 0; b < TD_SOUND_BANDS; ++b) {
        for (size_t f = 0; f < l->n_frames; ++f) {
            values[f] = l->bands[f][b];
            speech += is_loud(l, f) ? values[f] / (double)l->n_loud : 0;
        }
        qsort(values, l->n_frames, sizeof *values, compare_floats);
        noise += values[(size_t)(NOISE_SHARE * (double)(l->n_frames - 1))];
    }
    free(values);
    const double db = noise > 0 ? 10 * log10(speech / noise) : MOST_OVER_NOISE_DB;
    out->over_noise_db = db < MOST_OVER_NOISE_DB ? db : MOST_OVER_NOISE_DB;
    return TD_OK;
}

/* Mean level below an edge less the greatest level above it. */
static double measure_fall(const look *l, size_t edge, const double *most_above)
{
    const double hz = (double)l->rate_hz / l->n_fft;
    const size_t from = edge - (size_t)(EDGE_BELOW_HZ / hz), to = edge - (size_t)(EDGE_GAP_HZ / hz);
    double below = 0;
    for (size_t k = from; k <= to; ++k)
        below += to_db(l->average[k]) / (double)(to - from + 1);
    return below - to_db(most_above[edge + (size_t)(EDGE_GAP_HZ / hz)]);
}

/* Where a recording at a lower rate, or a lossy format, ends: nothing natural falls so fast to stay so low. */
static td_status find_bandwidth(const look *l, td_row_sound *out)
{
    const size_t n = l->n_fft / 2 + 1;
    const double hz = (double)l->rate_hz / l->n_fft;
    double fall = EDGE_DB, *most_above;
    out->bandwidth_hz = l->rate_hz / 2.0;
    TD_CHECK(TD_NEW_ARRAY(&most_above, n + 1));
    for (size_t k = n; k-- > 0;)
        most_above[k] = l->average[k] > most_above[k + 1] ? l->average[k] : most_above[k + 1];
    for (size_t edge = (size_t)(EDGE_FROM_HZ / hz); (double)edge * hz + EDGE_ABOVE_HZ < l->rate_hz / 2.0;
         ++edge) {
        const double here = measure_fall(l, edge, most_above);
        if (here <= fall) continue;
        fall = here;
        out->bandwidth_hz = (double)edge * hz;
    }
    free(most_above);
    return TD_OK;
}

/* ---------------------------------------------------------------- fingerprint and cepstra */

static double get_log(const look *l, double power)
{
    return log(power + FLOOR_SHARE * (double)l->loudest + 1e-20);
}

/* How the tilt between neighbouring bands changes over time: no gain and no steady filter alters its sign. */
static td_status make_print(const look *l, td_row_sound *out)
{
    double(*level)[PRINT_BANDS + 1];
    TD_CHECK(TD_NEW_ARRAY(&level, PRINT_STEPS + 1));
    const size_t span = l->last - l->first + 1;
    for (size_t s = 0; s <= PRINT_STEPS; ++s) {
        const size_t from = l->first + s * span / (PRINT_STEPS + 1);
        const size_t to = l->first + (s + 1) * span / (PRINT_STEPS + 1);
        for (size_t b = 0; b <= PRINT_BANDS; ++b)
            for (size_t f = from; f < to || f == from; ++f)
                level[s][b] += get_log(l, l->bands[f][b]) / (double)(to > from ? to - from : 1);
    }
    for (size_t s = 0; s < PRINT_STEPS; ++s)
        for (size_t b = 0; b < PRINT_BANDS; ++b) {
            const size_t bit = s * PRINT_BANDS + b;
            const double change = level[s + 1][b] - level[s + 1][b + 1] - level[s][b] + level[s][b + 1];
            if (change > 0) out->print[bit / 64] |= (uint64_t)1 << bit % 64;
        }
    free((void *)level);
    return TD_OK;
}

static td_status make_cepstra(const look *l, td_sound_frames *out)
{
    TD_CHECK(TD_NEW_ARRAY(&out->cepstra, l->n_loud));
    for (size_t f = 0; f < l->n_frames; ++f) {
        if (!is_loud(l, f)) continue;
        double logs[TD_SOUND_BANDS];
        for (size_t b = 0; b < TD_SOUND_BANDS; ++b)
            logs[b] = get_log(l, l->bands[f][b]);
        for (size_t c = 0; c < TD_SOUND_CEPSTRA; ++c) { /* without the first, which is the level */
            double sum = 0;
            for (size_t b = 0; b < TD_SOUND_BANDS; ++b)
                sum += logs[b] * cos(PI * (double)(c + 1) * ((double)b + 0.5) / TD_SOUND_BANDS);
            out->cepstra[out->count][c] = (float)sum;
        }
        ++out->count;
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- all of it */

static td_status allocate(look *l)
{
    l->hop = l->rate_hz / FRAMES_A_SECOND;
    l->n_fft = 64;
    while (l->n_fft < 2 * l->hop)
        l->n_fft *= 2;
    l->n_frames = (l->count + l->hop - 1) / l->hop;
    TD_CHECK(TD_NEW_ARRAY(&l->energy_db, l->n_frames));
    TD_CHECK(TD_NEW_ARRAY(&l->bands, l->n_frames));
    return TD_NEW_ARRAY(&l->average, l->n_fft / 2 + 1);
}

static void tell_frames(const look *l, td_row_sound *out)
{
    double power = 0;
    for (size_t f = 0; f < l->n_frames; ++f)
        power += is_loud(l, f) ? pow(10, l->energy_db[f] / 10) : 0;
    out->level_db = l->n_loud > 0 ? to_db(power / (double)l->n_loud) : NEVER_DB;
    out->speech_s = (double)l->n_loud / FRAMES_A_SECOND;
    out->start_s = (double)l->first / FRAMES_A_SECOND;
    out->end_s = l->n_loud > 0 ? (double)(l->n_frames - 1 - l->last) / FRAMES_A_SECOND : 0;
}

td_status td_row_sound_look(const float *samples, size_t count, uint32_t rate_hz, td_row_sound *out,
                            td_sound_frames *frames)
{
    td_status status = TD_OK;
    look l = {.samples = samples, .count = count, .rate_hz = rate_hz};
    *out = (td_row_sound){.bandwidth_hz = rate_hz / 2.0};
    if (frames != NULL) *frames = (td_sound_frames){0};
    TD_TRY(allocate(&l));
    set_edges(&l);
    look_at_wave(&l, out);
    measure_energies(&l);
    tell_frames(&l, out);
    if (l.n_loud == 0) goto fail; /* silence has neither noise nor words */
    TD_TRY(measure_spectra(&l));
    TD_TRY(judge_noise(&l, out));
    TD_TRY(find_bandwidth(&l, out));
    TD_TRY(make_print(&l, out));
    if (frames != NULL) TD_TRY(make_cepstra(&l, frames));
fail:
    free(l.average);
    free((void *)l.bands);
    free(l.energy_db);
    return status;
}
