/* See bench_decode.h. */
#include "tools/bench_decode.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/stats.h"
#include "device/blocking.h"
#include "nn/stack.h"

/* As XTTS-v2 has them. */
#define HEAD 64u
#define CODES 1026u
#define CODES_PER_S (22050.0 / 1024)
#define NORM_EPS 1e-5f

#define COPY_BYTES (UINT64_C(256) << 20)
#define COPY_EVERY 20u /* codes */
#define WARM_UP 2u

typedef struct bench {
    const td_bench_decode_options *options;
    td_device *device;
    td_memory *memory, *copy_memory;
    td_stack *stack;
    td_list *copy, *read;
    double *seconds, *copy_seconds, *read_seconds;
    uint32_t n_copies; /* and reads */
    bool is_simulated;
} bench;

/* ---------------------------------------------------------------- weights */

/* All layers have the same numbers, each in a place of its own. */
static td_status fill(bench *b)
{
    const td_stack_options *o = td_stack_get(b->stack);
    float *values = NULL;
    td_status status = TD_OK;
    size_t most = 0;
    for (int t = 0; t < TD_STACK_TENSOR_COUNT; t++)
        if (td_stack_count(b->stack, (td_stack_tensor)t) > most)
            most = td_stack_count(b->stack, (td_stack_tensor)t);
    TD_TRY(TD_NEW_ARRAY(&values, most));
    for (size_t i = 0; i < most; i++)
        values[i] = 0.04f * (td_rng_float(1, 0, i) - 0.5f);
    for (int t = 0; t < TD_STACK_TENSOR_COUNT; t++)
        for (uint32_t layer = 0; layer < (t < TD_STACK_LAYER_TENSORS ? o->layers : 1); layer++)
            TD_TRY(td_stack_put(b->stack, layer, (td_stack_tensor)t, values));
fail:
    free(values);
    return status;
}

static td_status open_stack(bench *b)
{
    const td_bench_decode_options *o = b->options;
    const td_stack_options stack = {.shape = {.width = o->width,
                                              .heads = o->width / HEAD,
                                              .inside = 4 * o->width,
                                              .capacity = o->prompt + o->codes + WARM_UP,
                                              .codes = CODES,
                                              .format = o->format,
                                              .eps = NORM_EPS},
                                    .layers = o->layers,
                                    .positions = o->codes + WARM_UP + 1};
    TD_REFUSE_IF(o->width % HEAD != 0, TD_ERR_CONFIG,
                 "a width of %u is not a multiple of %u, a head's channels", o->width, HEAD);
    TD_CHECK(td_memory_create(b->device, "decoder", 0, &b->memory));
    TD_CHECK(td_stack_create(b->memory, &stack, &b->stack));
    TD_CHECK(td_stack_make_room(b->stack, o->texts, stack.shape.capacity));
    return b->is_simulated ? TD_OK : fill(b);
}

/* ---------------------------------------------------------------- measuring */

/* Memory that nobody wrote is one page of zeros to some systems, which a processor reads from its cache. */
static td_status fill_rivals(const bench *b, const td_span spans[2])
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(b->device, TD_QUEUE_COMPUTE, &list));
    for (int i = 0; i < 2; i++)
        TD_TRY(td_list_fill(list, spans[i], 0));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* Of one buffer into another, and of one alone into a few sums: decoding reads, and hardly writes. */
static td_status open_rivals(bench *b)
{
    const td_kernel_class kernel_class = td_device_class(b->device);
    const td_copy_params copy = {.n = (uint32_t)(COPY_BYTES / 4)};
    const td_reduce_sum_params sum = td_reduce_sum_first(kernel_class, copy.n);
    td_span spans[2];
    TD_CHECK(td_memory_create(b->device, "copy", 0, &b->copy_memory));
    TD_CHECK(td_list_create(b->device, TD_QUEUE_COMPUTE, &b->copy));
    TD_CHECK(td_list_create(b->device, TD_QUEUE_COMPUTE, &b->read));
    for (int i = 0; i < 2; i++) {
        TD_CHECK(td_memory_alloc(b->copy_memory, TD_MEMORY_DEVICE, COPY_BYTES, &spans[i]));
        spans[i] = td_span_part(spans[i], 0, COPY_BYTES);
    }
    TD_CHECK(fill_rivals(b, spans));
    TD_CHECK(td_list_dispatch(b->copy, TD_K_copy, spans, &copy, td_grid_elements(kernel_class, copy.n),
                              (td_cost){.bytes = 2.0 * (double)COPY_BYTES}));
    return td_list_dispatch(b->read, TD_K_reduce_sum, spans, &sum, td_grid_reduce_sum(&sum),
                            (td_cost){.flops = (double)copy.n, .bytes = (double)COPY_BYTES});
}

static td_status time_rivals(bench *b)
{
    TD_CHECK(td_blocking_run(b->copy, &b->copy_seconds[b->n_copies]));
    return td_blocking_run(b->read, &b->read_seconds[b->n_copies++]);
}

static uint32_t find_best(const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < CODES; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static td_status measure(bench *b)
{
    const td_bench_decode_options *o = b->options;
    td_stack_thought thoughts[TD_DECODE_MAX_TEXTS];
    td_stack_code codes[TD_DECODE_MAX_TEXTS] = {{0}};
    for (uint32_t i = 0; i < WARM_UP + o->codes; i++) {
        const uint64_t start = td_clock_ns();
        for (uint32_t t = 0; t < o->texts; t++)
            codes[t] = (td_stack_code){.code = codes[t].code, .position = i, .row = o->prompt + i, .slot = t};
        TD_CHECK(td_stack_next(b->stack, codes, o->texts, thoughts));
        for (uint32_t t = 0; t < o->texts; t++)
            codes[t].code = find_best(thoughts[t].logits);
        if (i >= WARM_UP) b->seconds[i - WARM_UP] = 1e-9 * (double)(td_clock_ns() - start);
        if (i % COPY_EVERY == 0) TD_CHECK(time_rivals(b));
        if (i == 0) b->n_copies = 0; /* the first of both made their code ready */
    }
    return b->n_copies == 0 ? time_rivals(b) : TD_OK;
}

static void judge(const bench *b, td_bench_decode_result *out)
{
    const td_bench_decode_options *o = b->options;
    const td_stats codes = td_stats_of(b->seconds, o->codes),
                   copies = td_stats_of(b->copy_seconds, b->n_copies),
                   reads = td_stats_of(b->read_seconds, b->n_copies);
    /* a model takes the same time each time, and this computer at times wakes up late */
    const double code_s = b->is_simulated ? codes.min : codes.median,
                 copy_s = b->is_simulated ? copies.min : copies.median,
                 read_s = b->is_simulated ? reads.min : reads.median;
    td_memory_stats memory;
    td_memory_get_stats(b->memory, &memory);
    *out = (td_bench_decode_result){
        .ms = 1e3 * code_s,
        .spread = codes.spread,
        .codes_per_s = o->texts / code_s,
        .bytes_per_code =
            (double)td_stack_bytes(b->stack, o->texts, o->prompt + WARM_UP + o->codes / 2) / o->texts,
        .copy_gbps = 2e-9 * (double)COPY_BYTES / copy_s,
        .read_gbps = 1e-9 * (double)COPY_BYTES / read_s,
        .launches_per_code = td_stack_launches(b->stack),
        .peak_bytes = memory.peak_reserved_bytes};
    out->gbps = 1e-9 * out->bytes_per_code * out->codes_per_s;
    out->share_of_copy = out->gbps / out->copy_gbps;
    out->share_of_read = out->gbps / out->read_gbps;
    out->realtime_factor = out->codes_per_s / CODES_PER_S;
}

td_status td_bench_decode_run(td_registry *registry, const td_device_info *info,
                              const td_bench_decode_options *options, td_bench_decode_result *out)
{
    bench b = {.options = options, .is_simulated = info->type == TD_DEVICE_SIM};
    td_status status = TD_OK;
    TD_TRY(td_device_open(registry, info, &b.device));
    TD_TRY(TD_NEW_ARRAY(&b.seconds, options->codes));
    TD_TRY(TD_NEW_ARRAY(&b.copy_seconds, options->codes / COPY_EVERY + 2));
    TD_TRY(TD_NEW_ARRAY(&b.read_seconds, options->codes / COPY_EVERY + 2));
    TD_TRY(open_stack(&b));
    TD_TRY(open_rivals(&b));
    TD_TRY(measure(&b));
    judge(&b, out);
fail:
    td_list_destroy(b.copy);
    td_list_destroy(b.read);
    td_stack_destroy(b.stack);
    td_memory_destroy(b.copy_memory);
    td_memory_destroy(b.memory);
    td_device_close(b.device);
    free(b.seconds);
    free(b.copy_seconds);
    free(b.read_seconds);
    return status;
}
