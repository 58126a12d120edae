/* See row_checks.h. */
#include "tools/row_checks.h"

#include <math.h>
#include <stdlib.h>

#include "base/stats.h"

enum { MIN_CHARACTERS = 12 }; /* shorter texts say too little about the speed of speech */

static const double TAIL_AT = 0.8;        /* further out, the faults themselves would decide */
static const double FULL_BAND_HZ = 11025; /* of 22050 Hz, which voices are trained at; more is not missed */

/* ---------------------------------------------------------------- measures */

static double measure_text(const td_checked_row *r)
{
    return 100 * r->better;
}

static double measure_rate(const td_checked_row *r)
{
    return r->is_heard && r->sound.speech_s > 0 && r->characters >= MIN_CHARACTERS
               ? r->characters / r->sound.speech_s
               : NAN;
}

static double measure_clipping(const td_checked_row *r)
{
    if (!r->is_heard) return NAN;
    return 100 * (r->sound.flat_share > r->clipped_share ? r->sound.flat_share : r->clipped_share);
}

static bool has_speech(const td_checked_row *r)
{
    return r->is_heard && r->sound.speech_s > 0;
}

static double measure_noise(const td_checked_row *r)
{
    return has_speech(r) ? r->sound.over_noise_db : NAN;
}

static double measure_level(const td_checked_row *r)
{
    return has_speech(r) ? r->sound.level_db : NAN;
}

static double measure_peak(const td_checked_row *r)
{
    return r->is_heard ? r->sound.peak_db : NAN;
}

static double measure_band(const td_checked_row *r)
{
    if (!has_speech(r)) return NAN;
    return (r->sound.bandwidth_hz < FULL_BAND_HZ ? r->sound.bandwidth_hz : FULL_BAND_HZ) / 1000;
}

static double measure_silence(const td_checked_row *r)
{
    if (!has_speech(r)) return NAN;
    return r->sound.start_s > r->sound.end_s ? r->sound.start_s : r->sound.end_s;
}

static double measure_offset(const td_checked_row *r)
{
    return r->is_heard ? 100 * fabs(r->sound.offset) : NAN;
}

static double measure_language(const td_checked_row *r)
{
    return r->found != r->told ? r->lead : 0;
}

static double measure_same_sound(const td_checked_row *r)
{
    return r->same_sound != UINT32_MAX;
}

static double measure_same_text(const td_checked_row *r)
{
    return r->same_text != UINT32_MAX && r->same_sound == UINT32_MAX;
}

/* ---------------------------------------------------------------- the table */

/* The order is that of findings of equal excess. */
static const td_row_check CHECKS[] = {
    {.name = "text",
     .unit = "% of other texts fit better",
     .what = "text and sound disagree",
     .advice = "listen, and write down what is said; else leave the row out",
     .leaves_out = true,
     .measure = measure_text,
     .side = TD_CHECK_HIGH,
     .tail = 20,
     .never = 1,
     .always = 20},
    {.name = "language",
     .tells = TD_TELLS_LANGUAGE,
     .what = "text of another language",
     .advice = "leave it out, or tell the languages of rows in a column `language`",
     .leaves_out = true,
     .measure = measure_language,
     .side = TD_CHECK_HIGH,
     .never = 7,
     .always = 7},
    {.name = "same_recording",
     .tells = TD_TELLS_SAME_SOUND,
     .what = "recording of an earlier row",
     .advice =
         "leave it out: a row that is there twice counts twice, and may validate what was learnt by heart",
     .leaves_out = true,
     .measure = measure_same_sound,
     .side = TD_CHECK_HIGH,
     .never = 0.5,
     .always = 0.5},
    {.name = "clipping",
     .unit = "% of the samples in flat tops",
     .what = "clipped",
     .advice = "record it again at a lower gain, or leave it out: what was cut off cannot be brought back",
     .remark = "most recordings are clipped: record at a lower gain",
     .leaves_out = true,
     .measure = measure_clipping,
     .side = TD_CHECK_HIGH,
     .never = 0.05,
     .always = 0.05,
     .poor = 0.05},
    {.name = "noise",
     .unit = "dB above the noise",
     .what = "noisy",
     .advice = "leave it out, or record it again: a voice learns the noise too",
     .remark = "speech stands little above the noise: a quieter room or a nearer microphone helps all of it",
     .leaves_out = true,
     .measure = measure_noise,
     .side = TD_CHECK_LOW,
     .sigmas = 5,
     .least = 10,
     .never = 30,
     .always = 10,
     .poor = 20},
    {.name = "bandwidth",
     .unit = "kHz",
     .what = "dull: the spectrum ends early",
     .advice =
         "find the recording at its full rate, or leave it out: voices of mixed bandwidth sound unsteady",
     .remark =
         "the recordings were made at a lower rate, or went through a lossy format: nothing is above the "
         "usual bandwidth, and a voice will not have it either",
     .leaves_out = true,
     .measure = measure_band,
     .side = TD_CHECK_LOW,
     .sigmas = 3,
     .least_share = 0.2,
     .never = 100,
     .poor = 8.5},
    {.name = "silent",
     .unit = "dB at its loudest",
     .what = "hardly any sound",
     .advice = "leave it out",
     .leaves_out = true,
     .measure = measure_peak,
     .side = TD_CHECK_LOW,
     .never = -40,
     .always = -40},
    {.name = "rate",
     .unit = "characters a second",
     .what = "text too long or too short for its recording",
     .advice = "listen: words are missing, cut off, or not in the text",
     .leaves_out = true,
     .measure = measure_rate,
     .side = TD_CHECK_BOTH,
     .sigmas = 6,
     .least_share = 0.5,
     .always = HUGE_VAL},
    {.name = "loudness",
     .unit = "dB",
     .what = "much louder or quieter than others",
     .advice = "bring it to the usual level, with sox or ffmpeg",
     .measure = measure_level,
     .side = TD_CHECK_BOTH,
     .sigmas = 6,
     .least = 6,
     .always = HUGE_VAL},
    {.name = "silence",
     .unit = "s of silence at one end",
     .what = "long silence before or behind the words",
     .advice = "cut it; 0.1 to 0.3 s are enough",
     .measure = measure_silence,
     .side = TD_CHECK_HIGH,
     .sigmas = 6,
     .least = 0.5,
     .never = 1,
     .always = HUGE_VAL},
    {.name = "offset",
     .unit = "% of full scale off centre",
     .what = "off centre (DC offset)",
     .advice = "filter below 20 Hz, with sox or ffmpeg",
     .measure = measure_offset,
     .side = TD_CHECK_HIGH,
     .never = 1,
     .always = 1},
    {.name = "same_text",
     .tells = TD_TELLS_SAME_TEXT,
     .what = "text of an earlier row of the speaker",
     .advice = "a second take is welcome; where it is a mistake, correct the text",
     .measure = measure_same_text,
     .side = TD_CHECK_HIGH,
     .never = 0.5,
     .always = 0.5},
};

size_t td_row_check_count(void)
{
    return sizeof CHECKS / sizeof CHECKS[0];
}

const td_row_check *td_row_check_at(size_t i)
{
    return &CHECKS[i];
}

/* ---------------------------------------------------------------- limits */

static double keep_between(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

td_check_limits td_row_check_limits(const td_row_check *check, double *values, size_t count)
{
    td_check_limits out = {.usual = NAN, .low = -HUGE_VAL, .high = HUGE_VAL};
    if (count == 0) return out;
    out.usual = td_stats_of(values, count).median;
    const double tail = check->tail * fabs(values[(size_t)(TAIL_AT * (double)(count - 1))] - out.usual);
    for (size_t i = 0; i < count; ++i)
        values[i] = fabs(values[i] - out.usual);
    const double sigma = 1.4826 * td_stats_of(values, count).median;
    const double reach =
        fmax(fmax(check->sigmas * sigma, check->least), fmax(check->least_share * fabs(out.usual), tail));
    if (check->side == TD_CHECK_HIGH)
        out.high = keep_between(out.usual + reach, check->never, check->always);
    else if (check->side == TD_CHECK_LOW)
        out.low = keep_between(out.usual - reach, check->always, check->never);
    else {
        out.low = out.usual - reach;
        out.high = out.usual + reach;
    }
    return out;
}

double td_row_check_excess(const td_check_limits *limits, double value)
{
    const double limit = value > limits->high ? limits->high : limits->low;
    if (!(value > limits->high) && !(value < limits->low)) return 0;
    const double span = fabs(limit - limits->usual), least = 0.01 * fabs(limit) + 1e-6;
    return 1 + fabs(value - limit) / (span > least ? span : least);
}
