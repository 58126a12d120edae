/* See decode.h. libsndfile decodes, soxr resamples; mixing, checks and trimming are here. */
#include "audio/decode.h"

#include <math.h>
#include <soxr.h>
#include <stdlib.h>
#include <string.h>

#include "audio/sound_file.h"
#include "base/error.h"

#define CHUNK_SAMPLES 65536u /* of all channels together, read at once */
#define FULL_SCALE 0.9999f   /* 32767 of 16 bits is beyond it */
#define MOST_SAMPLES (UINT64_C(1) << 31)

enum { BLOCK = 256, LANES = 8 };

typedef struct decoder {
    const char *path;
    const td_decode_options *options;
    td_sound_file sound;
    SF_INFO info;
    soxr_t resampler; /* NULL: the rate is right already */
    float *chunk;     /* [chunk_frames, channels], mixed down in place; NULL: read to where it stays */
    size_t chunk_frames;
    size_t capacity;
    double dc_sum, squares; /* of the mono signal */
    float peak;
    td_audio *out; /* samples: also those of options->into, until the end */
} decoder;

/* ---------------------------------------------------------------- opening */

static td_status open_resampler(decoder *d)
{
    if ((uint32_t)d->info.samplerate == d->options->rate) return TD_OK;
    return td_sound_resampler((uint32_t)d->info.samplerate, d->options->rate, d->path, &d->resampler);
}

/* ---------------------------------------------------------------- samples */

static td_status reserve(decoder *d, size_t more)
{
    const uint64_t need = (uint64_t)d->out->count + more;
    const double seconds = (double)need / d->options->rate;
    TD_REFUSE_IF(need >= MOST_SAMPLES, TD_ERR_LIMIT, "%s: more than 2^31 samples; split the file", d->path);
    /* The resampler may hold a little more than it gives in the end. */
    TD_REFUSE_IF(d->options->max_s > 0 && seconds > d->options->max_s + 1, TD_ERR_LIMIT,
                 "%s: longer than %g s; split it or raise the limit", d->path, d->options->max_s);
    TD_REFUSE_IF(d->options->into && need > d->options->room, TD_ERR_LIMIT,
                 "%s: more than %zu samples, for which there is room", d->path, d->options->room);
    if (!d->options->into)
        TD_CHECK(td_alloc_grow(&d->out->samples, &d->capacity, (size_t)need, sizeof(float)));
    return TD_OK;
}

/* Mean of the channels into the front of the chunk; sets NaN and infinities to 0 and counts them. */
static void mix_down(decoder *d, float *samples, size_t frames)
{
    const size_t channels = (size_t)d->info.channels;
    const float share = 1.0f / (float)channels;
    td_audio_report *report = &d->out->report;
    for (size_t i = 0; i < frames; i++) {
        float sum = 0;
        for (size_t c = 0; c < channels; c++) {
            const float x = samples[i * channels + c];
            if (!isfinite(x)) {
                report->bad_samples++;
                continue;
            }
            if (fabsf(x) >= FULL_SCALE) report->clipped_samples++;
            sum += x;
        }
        samples[i] = sum * share;
        d->dc_sum += (double)samples[i];
        d->squares += (double)samples[i] * (double)samples[i];
        d->peak = fmaxf(d->peak, fabsf(samples[i]));
    }
}

/* One channel, BLOCK samples, in lanes that vector units take. False, with nothing done, for a block that has
 * something to count: mix_down is exact, and slow. */
static bool sum_block(decoder *d, const float *samples)
{
    float sums[LANES] = {0}, squares[LANES] = {0}, peaks[LANES] = {0};
    for (size_t i = 0; i < BLOCK; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            const float x = samples[i + k], size = fabsf(x);
            sums[k] += x;
            squares[k] += x * x;
            peaks[k] = size > peaks[k] ? size : peaks[k];
        }
    }
    double sum = 0, square = 0;
    float peak = 0;
    for (size_t k = 0; k < LANES; k++) {
        sum += (double)sums[k];
        square += (double)squares[k];
        peak = peaks[k] > peak ? peaks[k] : peak;
    }
    if (!(peak < FULL_SCALE) || !isfinite(square)) return false;
    d->dc_sum += sum;
    d->squares += square;
    d->peak = peak > d->peak ? peak : d->peak;
    return true;
}

static void inspect(decoder *d, float *samples, size_t frames)
{
    size_t at = 0;
    for (; d->info.channels == 1 && at + BLOCK <= frames; at += BLOCK)
        if (!sum_block(d, samples + at)) mix_down(d, samples + at, BLOCK);
    mix_down(d, samples + at * (size_t)d->info.channels, frames - at);
}

/* frames 0: the end, what the resampler still holds comes out. */
static td_status append(decoder *d, size_t frames)
{
    td_audio *out = d->out;
    if (!d->resampler) {
        TD_CHECK(reserve(d, frames));
        if (d->chunk && frames) memcpy(out->samples + out->count, d->chunk, frames * sizeof(float));
        out->count += frames;
        return TD_OK;
    }
    for (size_t taken = 0;;) {
        const double ratio = (double)d->options->rate / d->info.samplerate;
        size_t room = (size_t)((double)(frames - taken) * ratio) + 4096;
        size_t used = 0, made = 0;
        if (d->options->into && room > d->options->room - out->count) room = d->options->room - out->count;
        if (d->options->into && room == 0 && frames == 0) return TD_OK; /* it is full, and nothing is left */
        TD_CHECK(reserve(d, room ? room : 1));
        const soxr_error_t error =
            soxr_process(d->resampler, frames ? d->chunk + taken : NULL, frames - taken, &used,
                         out->samples + out->count, room, &made);
        TD_REFUSE_IF(error, TD_ERR_HOST_MEMORY, "%s: resampling failed: %s", d->path, error);
        out->count += made;
        taken += used;
        if (frames ? taken == frames : made == 0) return TD_OK;
    }
    return TD_OK;
}

/* Where the next samples go, and how many there may be. */
static td_status find_room(decoder *d, float **to, size_t *frames)
{
    *to = d->chunk;
    *frames = d->chunk_frames;
    if (d->chunk) return TD_OK;
    if (d->options->into)
        *frames = d->options->room - d->out->count;
    else
        TD_CHECK(td_alloc_grow(&d->out->samples, &d->capacity, d->out->count + *frames, sizeof(float)));
    *to = d->out->samples + d->out->count;
    return TD_OK;
}

static td_status read_all(decoder *d)
{
    td_audio_report *report = &d->out->report;
    for (;;) {
        float *to, beyond;
        size_t frames;
        TD_CHECK(find_room(d, &to, &frames));
        const bool is_full = frames == 0;
        const sf_count_t got =
            sf_readf_float(d->sound.file, is_full ? &beyond : to, is_full ? 1 : (sf_count_t)frames);
        if (got <= 0) break;
        report->source_frames += (uint64_t)got;
        if (!is_full) inspect(d, to, (size_t)got);
        TD_CHECK(append(d, (size_t)got));
    }
    if (d->sound.error != 0) return td_sound_file_fail(&d->sound, d->path);
    TD_REFUSE_IF(sf_error(d->sound.file) != SF_ERR_NO_ERROR, TD_ERR_FORMAT,
                 "%s: damaged after %llu samples: %s", d->path, (unsigned long long)report->source_frames,
                 sf_strerror(d->sound.file));
    TD_REFUSE_IF(report->source_frames == 0, TD_ERR_FORMAT, "%s: holds no samples; record or copy it again",
                 d->path);
    TD_REFUSE_IF(report->source_frames < (uint64_t)d->sound.announced, TD_ERR_FORMAT,
                 "%s: cut short: it ends after %llu samples, and its header announces more; copy it again",
                 d->path, (unsigned long long)report->source_frames);
    TD_REFUSE_IF(d->options->finite && report->bad_samples > 0, TD_ERR_FORMAT,
                 "%s: %llu samples are not finite (NaN or infinite)", d->path,
                 (unsigned long long)report->bad_samples);
    if (d->resampler) TD_CHECK(append(d, 0));
    report->dc = d->dc_sum / (double)report->source_frames;
    return TD_OK;
}

/* ---------------------------------------------------------------- afterwards */

static void measure(const float *samples, size_t count, double *peak, double *rms)
{
    double squares = 0;
    *peak = 0;
    for (size_t i = 0; i < count; i++) {
        const double size = fabs((double)samples[i]);
        if (size > *peak) *peak = size;
        squares += size * size;
    }
    *rms = count ? sqrt(squares / (double)count) : 0;
}

/* Mean square of block b of `block` samples; the last one may be shorter. */
static double power_of(const td_audio *audio, size_t block, size_t b)
{
    const size_t first = b * block;
    const size_t end = first + block < audio->count ? first + block : audio->count;
    double peak, rms;
    measure(audio->samples + first, end - first, &peak, &rms);
    return rms * rms;
}

static void trim(td_audio *audio, double trim_db, double margin_s)
{
    const size_t block = audio->rate / 100;
    const size_t blocks = (audio->count + block - 1) / block;
    const double margin = fmax(margin_s, 0) * audio->rate;
    double loudest = 0;
    size_t first = 0, last = blocks;
    for (size_t b = 0; b < blocks; b++)
        loudest = fmax(loudest, power_of(audio, block, b));
    const double least = loudest * pow(10, -trim_db / 10);
    if (loudest == 0) return; /* silence has no beginning */
    while (power_of(audio, block, first) < least)
        first++;
    while (power_of(audio, block, last - 1) < least)
        last--;
    const double start = fmax((double)(first * block) - margin, 0);
    const double end = fmin((double)(last * block) + margin, (double)audio->count);
    audio->report.trimmed_start = (uint64_t)start;
    audio->report.trimmed_end = audio->count - (uint64_t)end;
    audio->count = (size_t)end - (size_t)start;
    memmove(audio->samples, audio->samples + (size_t)start, audio->count * sizeof(float));
}

td_status td_audio_decode(const char *path, const td_decode_options *options, td_audio *out)
{
    td_decode_options own = *options;
    decoder d = {.path = path, .options = &own, .sound = {.fd = -1}, .out = out};
    td_status status = TD_OK;
    *out = (td_audio){.rate = options->rate, .samples = options->into};
    TD_FAIL_IF(options->rate && (options->rate < TD_DECODE_RATE_MIN || options->rate > TD_DECODE_RATE_MAX),
               TD_ERR_ARGUMENT, "%s: a wanted rate of %u Hz; %d to %d can be", path, options->rate,
               TD_DECODE_RATE_MIN, TD_DECODE_RATE_MAX);
    TD_TRY(td_sound_file_require(path, &d.sound));
    d.info = d.sound.info;
    if (!own.rate) own.rate = out->rate = (uint32_t)d.info.samplerate;
    out->report.source_rate = (uint32_t)d.info.samplerate;
    out->report.channels = (uint32_t)d.info.channels;
    d.chunk_frames = CHUNK_SAMPLES / (size_t)d.info.channels;
    TD_TRY(open_resampler(&d));
    if (d.resampler || d.info.channels > 1) TD_TRY(TD_NEW_ARRAY(&d.chunk, CHUNK_SAMPLES));
    TD_TRY(read_all(&d));
    TD_FAIL_IF(out->count == 0, TD_ERR_FORMAT, "%s: too short: no sample is left at %u Hz", path, out->rate);
    TD_FAIL_IF(options->max_s > 0 && (double)out->count > options->max_s * out->rate, TD_ERR_LIMIT,
               "%s: %.1f s, longer than %g s; split it or raise the limit", path,
               (double)out->count / out->rate, options->max_s);
    out->report.peak = (double)d.peak;
    out->report.rms = sqrt(d.squares / (double)out->count);
    if (d.resampler) measure(out->samples, out->count, &out->report.peak, &out->report.rms);
    if (options->trim_db > 0) trim(out, options->trim_db, options->margin_s);
fail:
    free(d.chunk);
    soxr_delete(d.resampler);
    td_sound_file_close(&d.sound);
    if (options->into) out->samples = NULL;
    if (status != TD_OK) td_audio_free(out);
    return status;
}

void td_audio_free(td_audio *audio)
{
    free(audio->samples);
    *audio = (td_audio){0};
}
