/* `tandem bench kernels`; see bench_kernels.h. A run is a recorded list of so many launches that it takes
 * tens of milliseconds, as a training step holds many; the copy or product beside it likewise. Launches take
 * turns through so many sets of buffers that no cache holds them, because a step's tensors do not fit there
 * either; on request there is one set only. Which ops there are is bench_kernels_table.c's. */
#include "tools/bench_kernels.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/stats.h"
#include "device/blocking.h"
#include "linalg/gemm.h"
#include "tools/bench_kernels_internal.h"

#define RUN_SECONDS 0.05 /* waking the threads of a CPU driver takes some ms */
#define REPEATS_MOST 500u
#define NOISE_WORDS (UINT64_C(1) << 18)
#define SETS_BYTES 128e6 /* several times the caches of common devices */
#define SETS_MOST 64.0

/* ---------------------------------------------------------------- buffers of a row */

static void note_failure(td_kernel_bench *bench)
{
    if (bench->has_failed) return;
    bench->has_failed = true;
    bench->error = *td_error_last();
}

/* The next buffer of the row; *is_new: its contents are still to be made. */
static td_span take_span(td_kernel_bench *bench, uint64_t words, bool *is_new)
{
    td_span span = {0};
    td_status status = TD_OK;
    *is_new = false;
    if (bench->next < bench->n_spans) return bench->spans[bench->next++];
    TD_TRY(td_alloc_grow(&bench->spans, &bench->span_capacity, bench->n_spans + 1, sizeof *bench->spans));
    TD_TRY(td_memory_alloc(bench->memory, TD_MEMORY_DEVICE, 4 * words, &span));
    *is_new = true;
    bench->spans[bench->n_spans++] = td_span_part(span, 0, 4 * words);
    return bench->spans[bench->next++];
fail:
    note_failure(bench);
    return (td_span){0};
}

td_span td_kernel_bench_same(td_kernel_bench *bench, uint64_t words, uint32_t word)
{
    bool is_new;
    const td_span span = take_span(bench, words, &is_new);
    if (is_new && td_list_fill(bench->fills, span, word) != TD_OK) note_failure(bench);
    return span;
}

/* Filled too: memory never written may be one page of zeros. */
td_span td_kernel_bench_empty(td_kernel_bench *bench, uint64_t words)
{
    return td_kernel_bench_same(bench, words, 0);
}

td_span td_kernel_bench_noise(td_kernel_bench *bench, uint64_t words)
{
    bool is_new;
    const td_span span = take_span(bench, words, &is_new);
    for (uint64_t at = 0; is_new && at < words; at += NOISE_WORDS) {
        const uint64_t bytes = 4 * (words - at < NOISE_WORDS ? words - at : NOISE_WORDS);
        if (td_list_copy(bench->fills, td_span_part(span, 4 * at, bytes),
                         td_span_part(bench->noise, 0, bytes)) != TD_OK)
            note_failure(bench);
    }
    return span;
}

td_span td_kernel_bench_words(td_kernel_bench *bench, uint64_t words, const uint32_t *contents)
{
    bool is_new;
    td_span host;
    const td_span span = take_span(bench, words, &is_new);
    if (!is_new) return span;
    if (td_memory_alloc(bench->memory, TD_MEMORY_HOST, 4 * words, &host) != TD_OK) {
        note_failure(bench);
        return span;
    }
    memcpy(td_span_host(host), contents, 4 * words);
    if (td_list_copy(bench->fills, span, td_span_part(host, 0, 4 * words)) != TD_OK) note_failure(bench);
    return span;
}

/* Random numbers below `below`, or with run > 0 climbing ones. */
static td_span take_numbers(td_kernel_bench *bench, uint64_t words, uint32_t run, uint32_t below)
{
    td_span span = {0};
    uint32_t *contents = NULL;
    if (bench->next < bench->n_spans) return bench->spans[bench->next++];
    if (TD_NEW_ARRAY(&contents, words) != TD_OK) {
        note_failure(bench);
        return span;
    }
    for (uint64_t i = 0; i < words; i++)
        contents[i] = (uint32_t)(run ? i % run * below / run : td_rng_below(1, 1, i, below));
    span = td_kernel_bench_words(bench, words, contents);
    free(contents);
    return span;
}

td_span td_kernel_bench_index(td_kernel_bench *bench, uint64_t words, uint32_t below)
{
    return take_numbers(bench, words, 0, below);
}

td_span td_kernel_bench_climb(td_kernel_bench *bench, uint64_t words, uint32_t run, uint32_t below)
{
    return take_numbers(bench, words, run, below);
}

void td_kernel_bench_shape(td_kernel_bench *bench, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bench->shape, sizeof bench->shape, format, arguments);
    va_end(arguments);
}

/* ---------------------------------------------------------------- lists */

typedef struct timed_list {
    td_kernel_bench bench;
    td_status (*record)(td_kernel_bench *bench);
    uint32_t repeats, sets;
    double *seconds; /* [rounds] of one launch */
} timed_list;

static td_status record(timed_list *timed, uint32_t repeats)
{
    td_kernel_bench *bench = &timed->bench;
    td_status status = TD_OK;
    td_list_destroy(bench->list);
    bench->list = NULL;
    timed->repeats = repeats;
    TD_TRY(td_list_create(bench->device, TD_QUEUE_COMPUTE, &bench->list));
    for (uint32_t i = 0; i < repeats && status == TD_OK; i++) {
        if (i % timed->sets == 0) bench->next = 0;
        status = timed->record(bench);
    }
    TD_FAIL_IF(bench->has_failed, bench->error.status, "%s", bench->error.message);
    TD_TRY(status);
    TD_TRY(td_list_finish(bench->list));
fail:
    return status;
}

static td_status make_noise(td_kernel_bench *bench)
{
    float *noise;
    TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_HOST, 4 * NOISE_WORDS, &bench->noise));
    noise = td_span_host(bench->noise);
    for (uint64_t i = 0; i < NOISE_WORDS; i++)
        noise[i] = td_rng_float(1, 0, i) - 0.5f;
    return TD_OK;
}

/* How many sets of buffers the launches of a row go through. */
static uint32_t count_sets(const td_kernel_bench *bench, bool cached)
{
    if (cached || bench->flops > 0) return 1;
    return (uint32_t)fmax(1, fmin(ceil(SETS_BYTES / bench->bytes), SETS_MOST));
}

/* A list of `record`ed launches that takes RUN_SECONDS, its buffers filled and itself run once. */
static td_status open_timed(timed_list *timed, bool cached)
{
    td_kernel_bench *bench = &timed->bench;
    double seconds = 0;
    timed->sets = 1;
    TD_CHECK(td_memory_create(bench->device, "bench", 0, &bench->memory));
    TD_CHECK(make_noise(bench));
    TD_CHECK(td_list_create(bench->device, TD_QUEUE_COMPUTE, &bench->fills));
    TD_CHECK(record(timed, 1));
    timed->sets = count_sets(bench, cached);
    TD_CHECK(record(timed, timed->sets));
    TD_CHECK(td_list_finish(bench->fills));
    TD_CHECK(td_blocking_run(bench->fills, &seconds));
    TD_CHECK(td_blocking_run(bench->list, &seconds)); /* may build kernels */
    TD_CHECK(td_blocking_run(bench->list, &seconds));
    const double repeats = ceil(RUN_SECONDS * timed->sets / seconds);
    TD_CHECK(record(timed, repeats < REPEATS_MOST ? (uint32_t)repeats : REPEATS_MOST));
    return td_blocking_run(bench->list, &seconds);
}

static void close_timed(timed_list *timed)
{
    td_list_destroy(timed->bench.list);
    td_list_destroy(timed->bench.fills);
    td_memory_destroy(timed->bench.memory);
    free(timed->bench.spans);
    timed->bench.spans = NULL;
    timed->bench.list = timed->bench.fills = NULL;
    timed->bench.memory = NULL;
}

/* ---------------------------------------------------------------- what ops are compared with */

/* Reads one half of the traffic and writes the other. */
static td_status record_copy(td_kernel_bench *bench)
{
    const td_copy_params params = {.n = (uint32_t)(bench->bytes / 8)};
    const td_span from = td_kernel_bench_noise(bench, params.n), to = td_kernel_bench_empty(bench, params.n);
    return td_list_dispatch(bench->list, TD_K_copy, (td_span[]){from, to}, &params,
                            td_grid_elements(td_device_class(bench->device), params.n),
                            (td_cost){.bytes = bench->bytes});
}

static td_status record_product(td_kernel_bench *bench)
{
    const uint32_t n = bench->sizes.decode_k;
    td_gemm_desc desc = {.m = n, .n = n, .k = n, .batch = 1};
    uint64_t workspace_bytes = 0;
    const td_status status = td_gemm_workspace(&desc, bench->device, &workspace_bytes);
    if (status != TD_OK) return status;
    bench->flops = 2.0 * n * n * n;
    desc.a = td_kernel_bench_noise(bench, (uint64_t)n * n);
    desc.b = td_kernel_bench_noise(bench, (uint64_t)n * n);
    desc.c = td_kernel_bench_empty(bench, (uint64_t)n * n);
    if (workspace_bytes) desc.workspace = td_kernel_bench_empty(bench, (workspace_bytes + 3) / 4);
    return td_gemm(bench->list, &desc);
}

/* ---------------------------------------------------------------- rows */

static td_status measure_rounds(timed_list *const lists[2], uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++) {
        for (int i = 0; i < 2; i++) {
            double seconds = 0;
            TD_CHECK(td_blocking_run(lists[i]->bench.list, &seconds));
            lists[i]->seconds[round] = seconds / lists[i]->repeats;
        }
    }
    return TD_OK;
}

static void summarize(timed_list *own, timed_list *other, uint32_t rounds, td_bench_kernels_row *row)
{
    const td_stats stats = td_stats_of(own->seconds, rounds);
    const bool is_product = own->bench.flops > 0;
    row->ms = 1e3 * stats.median;
    row->spread = stats.spread;
    row->least_ms = 1e3 * stats.min;
    snprintf(row->shape, sizeof row->shape, "%s", own->bench.shape);
    row->of = is_product ? "gemm" : "copy";
    if (is_product)
        row->gflops = 1e-9 * own->bench.flops / stats.median;
    else
        row->gbps = 1e-9 * own->bench.bytes / stats.median;
    /* What disturbs a computer for a while disturbs both runs of a round alike. */
    for (uint32_t i = 0; i < rounds; i++)
        other->seconds[i] /= own->seconds[i];
    row->share =
        td_stats_of(other->seconds, rounds).median * (is_product ? own->bench.flops / other->bench.flops : 1);
}

static td_status measure_row(td_device *device, const td_kernel_sizes *sizes, const td_kernel_row *table_row,
                             const td_bench_kernels_options *options, td_bench_kernels_row *row)
{
    const uint32_t rounds = options->rounds;
    timed_list own = {.bench = {.device = device, .sizes = *sizes}, .record = table_row->record};
    timed_list other = {.bench = {.device = device, .sizes = *sizes}};
    td_status status = TD_OK;
    row->op = table_row->op;
    TD_TRY(TD_NEW_ARRAY(&own.seconds, rounds));
    TD_TRY(TD_NEW_ARRAY(&other.seconds, rounds));
    TD_TRY(open_timed(&own, options->cached));
    other.record = own.bench.flops > 0 ? record_product : record_copy;
    other.bench.bytes = own.bench.bytes;
    TD_TRY(open_timed(&other, options->cached));
    TD_TRY(measure_rounds((timed_list *const[]){&own, &other}, rounds));
    summarize(&own, &other, rounds, row);
fail:
    close_timed(&own);
    close_timed(&other);
    free(own.seconds);
    free(other.seconds);
    return status;
}

static td_kernel_sizes choose_sizes(const td_device_info *info)
{
    static const td_kernel_sizes STEP = {.items = 8,
                                         .frames = 400,
                                         .channels = 384,
                                         .hidden = 1536,
                                         .conv_channels = 192,
                                         .heads = 4,
                                         .head_size = 64,
                                         .tokens = 100,
                                         .vocabulary = 6681,
                                         .classes = 1024,
                                         .parameters = 4000000,
                                         .decode_n = 4096,
                                         .decode_k = 1024};
    static const td_kernel_sizes SMALL = {.items = 2,
                                          .frames = 40,
                                          .channels = 64,
                                          .hidden = 128,
                                          .conv_channels = 32,
                                          .heads = 2,
                                          .head_size = 32,
                                          .tokens = 10,
                                          .vocabulary = 100,
                                          .classes = 64,
                                          .parameters = 50000,
                                          .decode_n = 128,
                                          .decode_k = 64};
    return info->api == TD_API_VULKAN && info->type == TD_DEVICE_CPU ? SMALL : STEP;
}

static bool is_wanted(const td_bench_kernels_options *options, const td_kernel_row *row)
{
    return !options->ops || fnmatch(options->ops, row->op, 0) == 0;
}

static td_status check_wanted(const td_bench_kernels_options *options)
{
    size_t wanted = 0;
    for (size_t i = 0; i < td_kernel_row_count; i++)
        wanted += is_wanted(options, &td_kernel_rows[i]);
    TD_REFUSE_IF(
        !wanted, TD_ERR_CONFIG,
        "no op is named '%s'; bench.ops takes a pattern such as 'layer_norm*', and without it all are shown",
        options->ops);
    return TD_OK;
}

td_status td_bench_kernels_run(td_registry *registry, const td_device_info *info,
                               const td_bench_kernels_options *options, td_bench_kernels_report report,
                               void *context)
{
    const td_kernel_sizes sizes = choose_sizes(info);
    td_device *device = NULL;
    td_status status = TD_OK;
    TD_FAIL_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
               "the simulated device computes nothing, so there is nothing to measure");
    TD_TRY(check_wanted(options));
    TD_TRY(td_device_open(registry, info, &device));
    for (size_t i = 0; i < td_kernel_row_count; i++) {
        td_bench_kernels_row row = {0};
        if (!is_wanted(options, &td_kernel_rows[i])) continue;
        TD_TRY(measure_row(device, &sizes, &td_kernel_rows[i], options, &row));
        report(context, &row);
    }
fail:
    td_device_close(device);
    return status;
}
