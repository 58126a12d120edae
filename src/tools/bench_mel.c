/* See bench_mel.h. The clips are a gliding buzz in noise; each batch is uploaded again. */
#include "tools/bench_mel.h"

#include <math.h>
#include <stdlib.h>

#include "audio/mel.h"
#include "audio/mel_tables.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/stats.h"
#include "device/blocking.h"

#define PI 3.14159265358979323846
#define CHECKED_FRAMES 24u
#define GRIFFIN_CLIPS 4u

typedef struct mel_bench {
    const td_bench_mel_options *options;
    td_device *device;
    td_memory *memory;
    td_mel *mel;
    td_span host_pcm, host_mel, ranges, gl_ranges, workspace, signals;
    td_mel_args args;
    uint32_t samples, frames; /* of a clip */
    td_list *list, *griffin;
} mel_bench;

static td_status take(const mel_bench *b, td_memory_kind kind, uint64_t words, td_span *out)
{
    const td_status status = td_memory_alloc(b->memory, kind, 4 * words, out);
    if (status == TD_OK) *out = td_span_part(*out, 0, 4 * words);
    return status;
}

static void fill_clips(const mel_bench *b)
{
    float *pcm = td_span_host(b->host_pcm);
    for (uint32_t clip = 0; clip < b->options->clips; clip++) {
        double phase = 0;
        for (uint32_t i = 0; i < b->samples; i++) {
            phase += (100 + 5 * clip + 30 * sin(2e-4 * i)) / b->options->config.rate;
            const double buzz = phase - floor(phase) - 0.5;
            const double noise = (double)td_rng_float(1, clip, i) - 0.5;
            pcm[(size_t)clip * b->samples + i] = (float)(0.5 * buzz + 0.1 * noise);
        }
    }
}

static td_status make_buffers(mel_bench *b)
{
    const uint32_t clips = b->options->clips, bands = b->options->config.n_mels;
    const uint64_t total = (uint64_t)clips * b->samples;
    b->args = (td_mel_args){.items = clips, .max_frames = b->frames};
    TD_CHECK(take(b, TD_MEMORY_HOST, total, &b->host_pcm));
    TD_CHECK(take(b, TD_MEMORY_HOST, (uint64_t)clips * b->frames * bands, &b->host_mel));
    TD_CHECK(take(b, TD_MEMORY_HOST, 2 * (uint64_t)clips, &b->ranges));
    TD_CHECK(take(b, TD_MEMORY_HOST, UINT64_C(2) * GRIFFIN_CLIPS, &b->gl_ranges));
    TD_CHECK(take(b, TD_MEMORY_DEVICE, total, &b->args.pcm));
    TD_CHECK(take(b, TD_MEMORY_DEVICE, 2 * (uint64_t)clips, &b->args.ranges));
    TD_CHECK(take(b, TD_MEMORY_DEVICE, (uint64_t)clips * b->frames * bands, &b->args.mel));
    uint32_t *pcm_ranges = td_span_host(b->ranges), *gl_ranges = td_span_host(b->gl_ranges);
    for (uint32_t i = 0; i < clips; i++) {
        pcm_ranges[(size_t)2 * i] = i * b->samples;
        pcm_ranges[2 * i + 1] = b->samples;
    }
    for (uint32_t i = 0; i < GRIFFIN_CLIPS; i++) {
        gl_ranges[(size_t)2 * i] = i * b->samples;
        gl_ranges[2 * i + 1] = b->frames;
    }
    fill_clips(b);
    return TD_OK;
}

static td_status record(mel_bench *b)
{
    TD_CHECK(td_list_create(b->device, TD_QUEUE_COMPUTE, &b->list));
    TD_CHECK(td_list_copy(b->list, b->args.pcm, b->host_pcm));
    TD_CHECK(td_list_copy(b->list, b->args.ranges, b->ranges));
    TD_CHECK(td_mel_record(b->mel, b->list, &b->args));
    return td_list_finish(b->list);
}

/* ---------------------------------------------------------------- error */

/* Band by band of one frame that lies within its clip: transform, filterbank, logarithm. */
static double check_frame(const mel_bench *b, const td_mel_tables *t, uint32_t clip, uint32_t frame)
{
    const td_mel_config *c = &b->options->config;
    const float *pcm = (const float *)td_span_host(b->host_pcm) + (size_t)clip * b->samples +
                       (size_t)frame * c->hop_samples - c->n_fft / 2;
    const float *got =
        (const float *)td_span_host(b->host_mel) + ((size_t)clip * b->frames + frame) * c->n_mels;
    const uint32_t *bands = t->words + c->n_fft / 2;
    double worst = 0;
    for (uint32_t m = 0; m < c->n_mels; m++) {
        double sum = 0;
        for (uint32_t i = 0; i < bands[3 * m + 1]; i++) {
            const double turn = 2 * PI * (bands[(size_t)3 * m] + i) / c->n_fft;
            double re = 0, im = 0;
            for (uint32_t n = 0; n < c->n_fft; n++) {
                const double x = (double)pcm[n] * (double)t->floats[n];
                re += x * cos(turn * n);
                im += x * sin(turn * n);
            }
            const double power = re * re + im * im;
            sum += (double)t->floats[bands[3 * m + 2] + i] * (c->power ? power : sqrt(power));
        }
        const double want = log(fmax(sum, (double)c->floor));
        const double error = fabs((double)got[m] * (double)c->scale + (double)c->mean - want);
        if (!(error <= worst)) worst = error; /* NaN stays */
    }
    return worst;
}

static td_status measure_error(const mel_bench *b, double *out)
{
    const td_mel_config *c = &b->options->config;
    const uint32_t edge = c->n_fft / 2 / c->hop_samples + 1;
    td_mel_tables tables = {0};
    td_list *list = NULL;
    double seconds = 0;
    td_status status = TD_OK;
    *out = 0;
    TD_TRY(td_mel_tables_make(c, &tables));
    TD_TRY(td_list_create(b->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, b->host_mel, b->args.mel));
    TD_TRY(td_list_finish(list));
    TD_TRY(td_blocking_run(list, &seconds));
    for (uint32_t i = 0; i < CHECKED_FRAMES && b->frames > 2 * edge; i++) {
        const uint32_t clip = (uint32_t)td_rng_below(2, 0, 2 * i + 1, b->options->clips);
        const uint32_t frame = edge + (uint32_t)td_rng_below(2, 0, 2 * i + 2, b->frames - 2 * edge);
        const double error = check_frame(b, &tables, clip, frame);
        if (!(error <= *out)) *out = error;
    }
fail:
    td_list_destroy(list);
    td_mel_tables_free(&tables);
    return status;
}

/* ---------------------------------------------------------------- speed */

static td_status measure_griffin_lim(mel_bench *b, td_bench_mel_result *out)
{
    const uint32_t clips = b->options->clips < GRIFFIN_CLIPS ? b->options->clips : GRIFFIN_CLIPS;
    const td_span gl_ranges = td_span_part(b->args.ranges, 0, 8 * (uint64_t)clips);
    double seconds = 0;
    if (b->frames < 2) return TD_OK;
    TD_CHECK(take(b, TD_MEMORY_DEVICE,
                  td_griffin_lim_workspace(b->mel, td_device_class(b->device), clips, b->frames),
                  &b->workspace));
    TD_CHECK(take(b, TD_MEMORY_DEVICE, (uint64_t)clips * b->samples, &b->signals));
    TD_CHECK(td_list_create(b->device, TD_QUEUE_COMPUTE, &b->griffin));
    TD_CHECK(td_list_copy(b->griffin, gl_ranges, td_span_part(b->gl_ranges, 0, 8 * (uint64_t)clips)));
    TD_CHECK(td_griffin_lim_record(b->mel, b->griffin,
                                   &(td_griffin_lim_args){.items = clips,
                                                          .max_frames = b->frames,
                                                          .mel = b->args.mel,
                                                          .ranges = gl_ranges,
                                                          .samples = b->signals,
                                                          .workspace = b->workspace}));
    TD_CHECK(td_list_finish(b->griffin));
    TD_CHECK(td_blocking_run(b->griffin, &seconds)); /* the first run may build kernels */
    TD_CHECK(td_blocking_run(b->griffin, &seconds));
    out->griffin_lim_factor = clips * b->options->seconds / seconds;
    return TD_OK;
}

static td_status measure_speed(const mel_bench *b, td_bench_mel_result *out)
{
    const td_bench_mel_options *o = b->options;
    double *seconds = NULL;
    double warm_up = 0;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&seconds, o->rounds));
    TD_TRY(td_blocking_run(b->list, &warm_up));
    for (uint32_t i = 0; i < o->rounds; i++)
        TD_TRY(td_blocking_run(b->list, &seconds[i]));
    const td_stats stats = td_stats_of(seconds, o->rounds);
    out->ms = 1e3 * stats.median;
    out->spread = stats.spread;
    out->realtime_factor = o->clips * o->seconds / stats.median;
fail:
    free(seconds);
    return status;
}

td_status td_bench_mel_run(td_registry *registry, const td_device_info *info,
                           const td_bench_mel_options *options, td_bench_mel_result *out)
{
    const double samples = options->seconds * options->config.rate;
    mel_bench b = {.options = options};
    td_status status = TD_OK;
    *out = (td_bench_mel_result){0};
    TD_FAIL_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
               "the simulated device computes nothing, so there is nothing to measure");
    TD_FAIL_IF(!(samples >= 1 && samples * options->clips < 1e9), TD_ERR_CONFIG,
               "%u clips of %g s; at least one sample each, and fewer than 1e9 in all", options->clips,
               options->seconds);
    b.samples = (uint32_t)samples;
    b.frames = td_mel_frames(&options->config, b.samples);
    TD_TRY(td_device_open(registry, info, &b.device));
    TD_TRY(td_memory_create(b.device, "bench", 0, &b.memory));
    TD_TRY(td_mel_create(b.memory, &options->config, &b.mel));
    TD_TRY(make_buffers(&b));
    TD_TRY(record(&b));
    TD_TRY(measure_speed(&b, out));
    TD_TRY(measure_error(&b, &out->max_abs_err));
    TD_TRY(measure_griffin_lim(&b, out));
fail:
    td_list_destroy(b.list);
    td_list_destroy(b.griffin);
    td_mel_destroy(b.mel);
    td_memory_destroy(b.memory);
    td_device_close(b.device);
    return status;
}
