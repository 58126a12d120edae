/* See analyze.h. Stages are measured one after another, each as training would run it. */
#include "tools/analyze.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/blocking.h"

enum { MEL_ROUNDS = 5 };

#define HIGH_CV 1.0     /* of decoding times */
#define LEAST_GAIN 1.05 /* less is noise */

static double since_s(uint64_t start_ns)
{
    return 1e-9 * (double)(td_clock_ns() - start_ns);
}

/* ---------------------------------------------------------------- text */

static td_status time_texts(const td_load_rig *rig, td_analysis *out)
{
    td_status status = TD_OK;
    td_dataset *d = NULL;
    td_dataset_settings settings = rig->data.settings.dataset;
    settings.report = NULL;
    settings.without_audio = true;
    if (settings.cache_dir != NULL) { /* the rig's own opening has filled it */
        const uint64_t start_ns = td_clock_ns();
        TD_TRY(td_dataset_open(&settings, rig->data.pool, &d));
        out->text_cached_s = since_s(start_ns);
        td_dataset_close(d);
        d = NULL;
    }
    settings.cache_dir = NULL;
    const uint64_t start_ns = td_clock_ns();
    TD_TRY(td_dataset_open(&settings, rig->data.pool, &d));
    out->text_cold_s = since_s(start_ns);
fail:
    td_dataset_close(d);
    return status;
}

/* ---------------------------------------------------------------- decoding */

static int compare_files(const void *a, const void *b)
{
    const td_analyze_file *x = a, *y = b;
    return (x->ms < y->ms) - (x->ms > y->ms);
}

/* A recording that fails is the loader's to tell; here it does not count. */
static td_status time_decoding(const td_load_rig *rig, size_t max_files, td_analysis *out)
{
    td_status status = TD_OK;
    const td_dataset *d = rig->data.dataset;
    const size_t n_files = d->n_train < max_files ? d->n_train : max_files;
    const td_decode_options options = {.rate = td_mel_get_config(rig->data.mel)->rate};
    td_analyze_file *files = NULL;
    double *ms = NULL;
    TD_TRY(TD_NEW_ARRAY(&files, n_files + 1));
    TD_TRY(TD_NEW_ARRAY(&ms, n_files + 1));
    for (size_t i = 0; i < n_files; ++i) {
        const uint32_t row = d->train[i * d->n_train / n_files];
        char path[TD_FILE_PATH_BYTES];
        td_audio audio;
        TD_TRY(td_dataset_clip_path(d, row, path));
        const uint64_t start_ns = td_clock_ns();
        if (td_audio_decode(path, &options, &audio) != TD_OK) continue;
        ms[out->n_files] = 1e3 * since_s(start_ns);
        files[out->n_files] = (td_analyze_file){
            .row = row, .ms = ms[out->n_files], .audio_s = (double)audio.count / audio.rate};
        ++out->n_files;
        td_audio_free(&audio);
    }
    out->decode_ms = td_stats_of(ms, out->n_files);
    qsort(files, out->n_files, sizeof *files, compare_files);
    out->n_slowest = out->n_files < TD_ANALYZE_SLOWEST ? out->n_files : TD_ANALYZE_SLOWEST;
    memcpy(out->slowest, files, out->n_slowest * sizeof *files);
fail:
    free(files);
    free(ms);
    return status;
}

/* ---------------------------------------------------------------- mel */

/* A batch of silence of the usual length; the kernels' time does not depend on what they hear. */
static td_status time_mel(const td_load_rig *rig, td_analysis *out)
{
    const td_mel_config *c = td_mel_get_config(rig->data.mel);
    const uint32_t n = rig->data.settings.batch_size;
    const double mean_s = out->free_run.audio_s / (double)out->free_run.n_items;
    const uint32_t samples = (uint32_t)(mean_s * c->rate) + 1, frames = td_mel_frames(c, samples);
    td_span host = {0}, ranges = {0};
    td_mel_args args = {.items = n, .max_frames = frames};
    td_list *list = NULL;
    double ms[MEL_ROUNDS];
    td_status status = TD_OK;
    const uint64_t pcm_bytes = 4 * (uint64_t)n * samples, frame_bytes = 4 * (uint64_t)n * frames;
    TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_HOST, pcm_bytes, &host));
    TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_HOST, 8 * (uint64_t)n, &ranges));
    TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_DEVICE, pcm_bytes, &args.pcm));
    TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_DEVICE, 8 * (uint64_t)n, &args.ranges));
    TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_DEVICE, frame_bytes * c->n_mels, &args.mel));
    TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_DEVICE, frame_bytes, &args.energy));
    if (td_data_wants(&rig->data.settings, "pitch"))
        TD_TRY(td_memory_alloc(rig->memory, TD_MEMORY_DEVICE, frame_bytes, &args.pitch));
    memset(td_span_host(host), 0, pcm_bytes);
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t *range = (uint32_t *)td_span_host(ranges) + (size_t)2 * i;
        range[0] = i * samples;
        range[1] = samples;
    }
    TD_TRY(td_list_create(rig->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, td_span_part(args.pcm, 0, pcm_bytes), td_span_part(host, 0, pcm_bytes)));
    TD_TRY(td_list_copy(list, td_span_part(args.ranges, 0, 8 * (uint64_t)n),
                        td_span_part(ranges, 0, 8 * (uint64_t)n)));
    TD_TRY(td_mel_record(rig->data.mel, list, &args));
    TD_TRY(td_list_finish(list));
    for (size_t i = 0; i < MEL_ROUNDS; ++i) {
        TD_TRY(td_blocking_run(list, &ms[i]));
        ms[i] *= 1e3;
    }
    out->mel_ms = td_stats_of(ms, MEL_ROUNDS).median;
    out->audio_s_per_batch = mean_s * n;
fail:
    td_list_destroy(list);
    td_memory_free(rig->memory, host);
    td_memory_free(rig->memory, ranges);
    td_memory_free(rig->memory, args.pcm);
    td_memory_free(rig->memory, args.ranges);
    td_memory_free(rig->memory, args.mel);
    td_memory_free(rig->memory, args.energy);
    td_memory_free(rig->memory, args.pitch);
    return status;
}

/* ---------------------------------------------------------------- workers and cache */

static double rate_of(const td_load_run *run)
{
    return run->epoch_s.median > 0 ? (double)run->n_items / run->epoch_s.median : 0;
}

static td_status sweep_workers(const td_load_rig *rig, size_t max_batches, td_analysis *out)
{
    td_status status = TD_OK;
    td_pool *pool = NULL;
    td_load_run run;
    size_t n_cores = 0;
    TD_TRY(td_pool_create(0, &pool));
    n_cores = td_pool_threads(pool);
    for (size_t workers = 1; workers <= 2 * n_cores && out->n_sweep < TD_ANALYZE_SWEEP; workers *= 2) {
        td_pool_destroy(pool);
        pool = NULL;
        TD_TRY(td_pool_create(workers, &pool));
        TD_TRY(td_load_rig_run(rig, &(td_load_plan){.pool = pool, .n_epochs = 1, .max_batches = max_batches},
                               &run));
        out->sweep[out->n_sweep++] = (td_analyze_workers){.workers = workers, .samples_per_s = rate_of(&run)};
    }
fail:
    td_pool_destroy(pool);
    return status;
}

static td_status run_cached(const td_load_rig *rig, size_t max_batches, td_analysis *out)
{
    td_status status = TD_OK;
    td_mel_cache *cache = NULL;
    TD_TRY(td_data_open_cache(&rig->data, &cache));
    out->cache = td_mel_cache_count(cache).kind;
    /* Without a shuffle in between, a shortened epoch repeats its batches only if it is run again. */
    if (out->cache != TD_MEL_CACHE_NONE) {
        const td_load_plan plan = {.cache = cache, .n_epochs = 1, .max_batches = max_batches};
        TD_TRY(td_load_rig_run(rig, &plan, &out->cached_run));
        TD_TRY(td_load_rig_run(rig, &plan, &out->cached_run));
    }
fail:
    td_mel_cache_close(cache);
    return status;
}

/* ---------------------------------------------------------------- advice */

static void __attribute__((format(printf, 4, 5)))
advise(td_analysis *a, double gain, const char *option, const char *format, ...)
{
    if (!(gain >= LEAST_GAIN) || a->n_advice == TD_ANALYZE_ADVICE) return;
    td_analyze_advice *to = &a->advice[a->n_advice++];
    va_list list;
    to->gain = gain;
    snprintf(to->option, sizeof to->option, "%s", option);
    va_start(list, format);
    vsnprintf(to->reason, sizeof to->reason, format, list);
    va_end(list);
}

static int compare_advice(const void *a, const void *b)
{
    const td_analyze_advice *x = a, *y = b;
    return (x->gain < y->gain) - (x->gain > y->gain);
}

/* A gain is how many times more steps a second it gives, at the step time that was assumed. */
static double step_gain(const td_analysis *a, double step_ms, double samples_per_s)
{
    const double per_batch = (double)a->free_run.n_items / (double)a->free_run.n_batches;
    const double now_ms = 1e3 * per_batch / rate_of(&a->free_run);
    const double then_ms = samples_per_s > 0 ? 1e3 * per_batch / samples_per_s : now_ms;
    return (now_ms > step_ms ? now_ms : step_ms) / (then_ms > step_ms ? then_ms : step_ms);
}

static void judge(const td_analyze_options *o, td_analysis *a)
{
    char option[64];
    const double now = rate_of(&a->free_run);
    const td_analyze_workers *best = &a->sweep[0];
    for (size_t i = 1; i < a->n_sweep; ++i)
        if (a->sweep[i].samples_per_s > best->samples_per_s) best = &a->sweep[i];
    snprintf(option, sizeof option, "--num-workers %zu", best->workers);
    if (best->workers != a->workers)
        advise(a, step_gain(a, o->step_ms, best->samples_per_s), option,
               "%zu workers load %.0f samples/s, the present %zu load %.0f", best->workers,
               best->samples_per_s, a->workers, now);
    if (a->cache != TD_MEL_CACHE_NONE) {
        snprintf(option, sizeof option, "--mel-cache %s", td_mel_cache_kind_name(a->cache));
        advise(a, step_gain(a, o->step_ms, rate_of(&a->cached_run)), option,
               "from the second epoch on %.0f samples/s come from the mel cache, %.0f from disk",
               rate_of(&a->cached_run), now);
    } else {
        advise(a, step_gain(a, o->step_ms, 1e9), "--mel-cache disk",
               "every epoch decodes and makes its mels again; kept mels need neither");
    }
    const double decode_ms = a->decode_ms.mean / (double)a->workers; /* of a sample, all workers together */
    if (a->mel_ms > o->step_ms && decode_ms > 0)
        advise(a, step_gain(a, o->step_ms, 1e3 / decode_ms), "--data-device SEL",
               "mel alone takes %.0f ms a batch, longer than a step of %.0f ms; a faster device does less",
               a->mel_ms, o->step_ms);
    const double saved_ms = (a->decode_ms.mean - a->decode_ms.median) / (double)a->workers;
    if (a->decode_ms.cv > HIGH_CV && saved_ms < 1e3 / now)
        advise(a, step_gain(a, o->step_ms, 1e3 / (1e3 / now - saved_ms)), "",
               "decoding times vary (CV %.1f): put the slowest files in a faster range or format",
               a->decode_ms.cv);
    qsort(a->advice, a->n_advice, sizeof *a->advice, compare_advice);
}

td_status td_analyze_run(const td_load_rig *rig, const td_analyze_options *options, td_analysis *out)
{
    const size_t most = options->max_batches;
    *out = (td_analysis){
        .n_rows = rig->data.dataset->n_train, .workers = rig->data.workers, .cache = TD_MEL_CACHE_NONE};
    TD_CHECK(time_texts(rig, out));
    TD_CHECK(time_decoding(rig, options->max_files, out));
    TD_CHECK(td_load_rig_run(rig, &(td_load_plan){.n_warm = 1, .n_epochs = 1, .max_batches = most},
                             &out->free_run));
    TD_CHECK(time_mel(rig, out));
    TD_CHECK(td_load_rig_run(rig,
                             &(td_load_plan){.n_epochs = 1, .step_ms = options->step_ms, .max_batches = most},
                             &out->paced_run));
    TD_CHECK(sweep_workers(rig, most, out));
    if (options->load.mel_cache != TD_MEL_CACHE_NONE) TD_CHECK(run_cached(rig, most, out));
    judge(options, out);
    return TD_OK;
}
