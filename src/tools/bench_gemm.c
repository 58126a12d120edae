/* `tandem bench gemm`; see bench_gemm.h. A run is a recorded list of so many products that it takes tens of
 * milliseconds, as a training step holds many; OpenBLAS makes as many calls in its turn. */
#include "tools/bench_gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/stats.h"
#include "device/blocking.h"
#include "linalg/gemm_internal.h"
#include "tools/openblas_peer.h"

#define RUN_SECONDS 0.03
#define REPEATS_MOST 2000u
#define SAMPLES 2048u

typedef struct gemm_bench {
    td_device *device;
    td_openblas_peers *peers; /* NULL: not asked for */
    const td_bench_gemm_options *options;
    td_memory *memory; /* of one row */
    td_list *list;
    uint32_t repeats;
    double *seconds; /* [1 + peers][rounds] of one product */
    float *a, *b;
} gemm_bench;

/* ---------------------------------------------------------------- lists */

static td_status record(gemm_bench *bench, const td_gemm_desc *desc, uint32_t repeats)
{
    td_list_destroy(bench->list);
    bench->list = NULL;
    bench->repeats = repeats;
    TD_CHECK(td_list_create(bench->device, TD_QUEUE_COMPUTE, &bench->list));
    for (uint32_t i = 0; i < repeats; i++)
        TD_CHECK(td_gemm(bench->list, desc));
    return td_list_finish(bench->list);
}

/* ---------------------------------------------------------------- operands and error */

static td_status upload(const gemm_bench *bench, td_span host, td_span to, float *values, uint64_t elements,
                        uint64_t stream)
{
    for (uint64_t i = 0; i < elements; i++)
        values[i] = td_rng_float(1, stream, i) - 0.5f;
    memcpy(td_span_host(host), values, elements * sizeof(float));
    return td_blocking_copy(bench->device, td_span_part(to, 0, elements * sizeof(float)),
                            td_span_part(host, 0, elements * sizeof(float)));
}

static td_status make_operands(gemm_bench *bench, td_gemm_desc *d, td_span *host)
{
    const td_gemm_extent spans = td_gemm_extents(d);
    const uint64_t most_ab = spans.a > spans.b ? spans.a : spans.b;
    const uint64_t most = most_ab > spans.c ? most_ab : spans.c;
    uint64_t workspace = 0;
    TD_CHECK(td_gemm_workspace(d, bench->device, &workspace));
    TD_CHECK(TD_NEW_ARRAY(&bench->a, spans.a));
    TD_CHECK(TD_NEW_ARRAY(&bench->b, spans.b));
    TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_DEVICE, sizeof(float) * spans.a, &d->a));
    TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_DEVICE, sizeof(float) * spans.b, &d->b));
    TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_DEVICE, sizeof(float) * spans.c, &d->c));
    if (workspace) TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_DEVICE, workspace, &d->workspace));
    TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_HOST, sizeof(float) * most, host));
    TD_CHECK(upload(bench, *host, d->a, bench->a, spans.a, 0));
    return upload(bench, *host, d->b, bench->b, spans.b, 1);
}

static double exact_element(const gemm_bench *bench, const td_gemm_desc *d, uint64_t z, uint64_t i,
                            uint64_t j)
{
    const float *a = bench->a + z * d->stride_a + (d->layout == TD_GEMM_TN ? i : i * d->k);
    const float *b = bench->b + z * d->stride_b + (d->layout == TD_GEMM_NT ? j * d->k : j);
    const uint64_t a_step = d->layout == TD_GEMM_TN ? d->m : 1;
    const uint64_t b_step = d->layout == TD_GEMM_NT ? 1 : d->n;
    double sum = 0;
    for (uint64_t q = 0; q < d->k; q++)
        sum += (double)a[q * a_step] * (double)b[q * b_step];
    return sum;
}

/* Elements all over C, its last one among them. */
static td_status measure_error(const gemm_bench *bench, const td_gemm_desc *d, td_span host, double *out)
{
    const uint64_t elements = (uint64_t)d->batch * d->m * d->n;
    const uint64_t samples = elements < SAMPLES ? elements : SAMPLES;
    const td_span got = td_span_part(host, 0, sizeof(float) * elements);
    const float *values = td_span_host(host);
    double error = 0;
    double largest = 0;
    TD_CHECK(td_blocking_copy(bench->device, got, td_span_part(d->c, 0, sizeof(float) * elements)));
    for (uint64_t s = 0; s < samples; s++) {
        const uint64_t at = elements == samples ? s : s == 0 ? elements - 1 : td_rng_below(2, 0, s, elements);
        const double want =
            exact_element(bench, d, at / ((uint64_t)d->m * d->n), at / d->n % d->m, at % d->n);
        const double off = fabs((double)values[at] - want);
        if (!(off <= error)) error = off; /* NaN stays */
        if (fabs(want) > largest) largest = fabs(want);
    }
    *out = largest > 0 ? error / largest : error;
    return TD_OK;
}

/* ---------------------------------------------------------------- rows */

static td_status measure_rounds(gemm_bench *bench, const td_bench_gemm_row *row)
{
    const uint32_t rounds = bench->options->rounds;
    const size_t peers = bench->peers ? td_openblas_count(bench->peers) : 0;
    for (uint32_t round = 0; round < rounds; round++) {
        double seconds = 0;
        TD_CHECK(td_blocking_run(bench->list, &seconds));
        bench->seconds[round] = seconds / bench->repeats;
        for (size_t p = 0; p < peers; p++)
            TD_CHECK(td_openblas_run(bench->peers, p, &row->shape, row->layout, bench->repeats,
                                     &bench->seconds[(p + 1) * rounds + round]));
    }
    return TD_OK;
}

static void summarize(const gemm_bench *bench, td_bench_gemm_row *row)
{
    const uint32_t rounds = bench->options->rounds;
    const double flops = 2.0 * row->shape.batch * row->shape.m * row->shape.n * row->shape.k;
    const td_stats own = td_stats_of(bench->seconds, rounds);
    row->gflops = 1e-9 * flops / own.median;
    row->spread = own.spread;
    for (size_t p = 0; bench->peers && p < td_openblas_count(bench->peers); p++) {
        const double gflops = 1e-9 * flops / td_stats_of(&bench->seconds[(p + 1) * rounds], rounds).median;
        if (gflops <= row->openblas_gflops) continue;
        row->openblas_gflops = gflops;
        snprintf(row->openblas_core, sizeof row->openblas_core, "%s", td_openblas_core(bench->peers, p));
    }
    row->ratio = row->openblas_gflops > 0 ? row->gflops / row->openblas_gflops : 0;
}

static td_status name_choice(const gemm_bench *bench, const td_gemm_desc *desc, td_bench_gemm_row *row)
{
    td_gemm_problem problem;
    const td_status status = td_gemm_problem_make(desc, bench->device, &problem);
    if (status != TD_OK) return status;
    const td_gemm_variant_info *way = td_gemm_variant_get(td_gemm_choose(&problem).variant);
    row->provider = td_gemm_provider_name(way->provider);
    row->variant = way->name;
    return TD_OK;
}

static td_status measure_row(gemm_bench *bench, td_bench_gemm_row *row)
{
    td_gemm_desc desc = td_gemm_shape_desc(&row->shape, row->layout);
    td_span host;
    double seconds = 0;
    td_status status = TD_OK;
    desc.provider = bench->options->provider;
    TD_TRY(td_memory_create(bench->device, "bench", 0, &bench->memory));
    TD_TRY(make_operands(bench, &desc, &host));
    TD_TRY(name_choice(bench, &desc, row));
    TD_TRY(record(bench, &desc, 1));
    TD_TRY(td_blocking_run(bench->list, &seconds)); /* the first run may build kernels */
    TD_TRY(td_blocking_run(bench->list, &seconds));
    TD_TRY(measure_error(bench, &desc, host, &row->max_rel_err));
    const double repeats = ceil(RUN_SECONDS / seconds);
    TD_TRY(record(bench, &desc, repeats < REPEATS_MOST ? (uint32_t)repeats : REPEATS_MOST));
    TD_TRY(td_blocking_run(bench->list, &seconds));
    TD_TRY(measure_rounds(bench, row));
    summarize(bench, row);
fail:
    td_list_destroy(bench->list);
    bench->list = NULL;
    td_memory_destroy(bench->memory);
    bench->memory = NULL;
    free(bench->a);
    free(bench->b);
    bench->a = bench->b = NULL;
    return status;
}

td_status td_bench_gemm_run(td_registry *registry, const td_device_info *info,
                            const td_bench_gemm_options *options, td_bench_gemm_report report, void *context)
{
    gemm_bench bench = {.options = options};
    const uint32_t cores = info->caps.compute_units ? info->caps.compute_units : 1;
    td_status status = TD_OK;
    TD_FAIL_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
               "the simulated device computes nothing, so there is nothing to measure");
    if (options->against_openblas) {
        TD_FAIL_IF(info->type != TD_DEVICE_CPU, TD_ERR_CONFIG,
                   "OpenBLAS computes on the CPU and %s does not; compare it with a CPU device", info->name);
        TD_TRY(td_openblas_start(cores, &bench.peers));
    }
    TD_TRY(TD_NEW_ARRAY(&bench.seconds, (size_t)options->rounds * (1 + TD_OPENBLAS_MAX_PEERS)));
    TD_TRY(td_device_open(registry, info, &bench.device));
    for (size_t i = 0; i < options->n_shapes; i++) {
        for (int layout = 0; layout < TD_GEMM_LAYOUT_COUNT; layout++) {
            td_bench_gemm_row row = {.shape = options->shapes[i], .layout = (td_gemm_layout)layout};
            if (!options->layouts[layout]) continue;
            TD_TRY(measure_row(&bench, &row));
            report(context, &row);
        }
    }
fail:
    td_device_close(bench.device);
    td_openblas_stop(bench.peers);
    free(bench.seconds);
    return status;
}
