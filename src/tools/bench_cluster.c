/* See bench_cluster.h. */
#include "tools/bench_cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/step_work.h"

enum { WARM_UP = 2, ROUNDS = 3, SMALL_CALLS = 50 };

typedef struct bench {
    const td_bench_cluster_options *options;
    td_device *device;
    td_memory *memory;
    td_ready_step step;
    double *ms; /* room for repetitions */
} bench;

static void close_bench(bench *b)
{
    if (b->device != NULL) (void)td_queue_finish(td_device_queue(b->device, TD_QUEUE_COMPUTE));
    td_ready_close(&b->step);
    td_memory_destroy(b->memory);
    td_device_close(b->device);
    free(b->ms);
}

static td_status open_bench(bench *b, td_registry *registry, const td_device_info *info)
{
    const td_bench_cluster_options *o = b->options;
    TD_CHECK(TD_NEW_ARRAY(&b->ms, o->steps + WARM_UP + SMALL_CALLS));
    TD_CHECK(td_device_open(registry, info, &b->device));
    TD_CHECK(td_memory_create(b->device, "model", 0, &b->memory));
    TD_CHECK(td_ready_open_rank(b->memory, o->settings, &o->shape, o->cluster, &b->step));
    TD_CHECK(td_store_init(b->step.store, TD_STEP_WORK_SEED));
    for (size_t l = 0; l < b->step.n_learners; ++l)
        TD_CHECK(td_step_work_fill(b->step.graphs[l], b->step.plans[l], &o->shape));
    return TD_OK;
}

static td_travel count_all(const bench *b)
{
    return td_reducers_count(b->step.reducers, b->step.n_learners);
}

/* ---------------------------------------------------------------- measurements; all begin together */

/* As training does: a step is submitted before the one ahead of it has ended. Waits for the last. */
static td_status make_steps(bench *b, uint32_t steps, bool reduces)
{
    td_point updated[2] = {{0}};
    for (uint32_t i = 0; i < steps; ++i) {
        TD_CHECK(td_ready_run(&b->step, b->options->settings->grad_accum, i, reduces, &updated[i % 2]));
        TD_CHECK(td_point_wait(updated[(i + 1) % 2], TD_WAIT_FOREVER));
    }
    return td_point_wait(updated[(steps - 1) % 2], TD_WAIT_FOREVER);
}

static td_status time_steps(bench *b, bool reduces, double *mean)
{
    const uint32_t steps = b->options->steps;
    TD_CHECK(make_steps(b, WARM_UP, reduces));
    TD_CHECK(td_cluster_barrier(b->options->cluster));
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(make_steps(b, steps, reduces));
    *mean = 1e-6 * (double)(td_clock_ns() - start_ns) / steps;
    return TD_OK;
}

/* Sums while nothing is computed: every bucket is there at once. */
static td_status time_sums(bench *b, double *median)
{
    const td_bench_cluster_options *o = b->options;
    size_t most = 0;
    td_point *ready = NULL;
    td_status status = TD_OK;
    for (size_t l = 0; l < b->step.n_learners; ++l)
        if (td_buckets_count(b->step.buckets[l]) > most) most = td_buckets_count(b->step.buckets[l]);
    TD_TRY(TD_NEW_ARRAY(&ready, most));
    for (uint32_t i = 0; i < o->steps + WARM_UP; ++i) {
        const td_travel before = count_all(b);
        TD_TRY(td_cluster_barrier(o->cluster));
        for (size_t l = 0; l < b->step.n_learners; ++l)
            TD_TRY(td_reducer_begin(b->step.reducers[l], ready));
        for (size_t l = 0; l < b->step.n_learners; ++l)
            TD_TRY(td_reducer_finish(b->step.reducers[l]));
        b->ms[i] = 1e-6 * (double)(count_all(b).way_ns - before.way_ns);
    }
    *median = td_stats_of(b->ms + WARM_UP, o->steps).median;
fail:
    free(ready);
    return status;
}

static td_status time_small(bench *b, uint32_t n_ranks, double *median)
{
    td_status status = TD_OK;
    uint64_t *all = NULL;
    TD_TRY(TD_NEW_ARRAY(&all, n_ranks));
    for (uint32_t i = 0; i < SMALL_CALLS; ++i) {
        const uint64_t start = td_clock_ns();
        TD_TRY(td_cluster_all_gather(b->options->cluster, &start, sizeof start, all));
        b->ms[i] = 1e-6 * (double)(td_clock_ns() - start);
    }
    *median = td_stats_of(b->ms, SMALL_CALLS).median;
fail:
    free(all);
    return status;
}

static td_status measure(bench *b, uint32_t n_ranks, td_bench_rank *out)
{
    td_travel before = {0}, after = {0}, gathered_before = {0}, gathered = {0};
    const double steps = b->options->steps + WARM_UP;
    out->alone_ms = out->step_ms = INFINITY;
    for (int i = 0; i < ROUNDS; ++i) { /* in turns: a computer that slows down does so for both */
        double ms;
        TD_CHECK(time_steps(b, false, &ms));
        out->alone_ms = fmin(out->alone_ms, ms);
        if (n_ranks == 1) continue;
        before = count_all(b);
        gathered_before = td_shards_count(b->step.shards, b->step.n_learners);
        TD_CHECK(time_steps(b, true, &ms));
        TD_CHECK(td_store_settle(b->step.store));
        after = count_all(b);
        gathered = td_shards_count(b->step.shards, b->step.n_learners);
        out->step_ms = fmin(out->step_ms, ms);
    }
    if (n_ranks == 1) {
        out->step_ms = out->alone_ms;
        return TD_OK;
    }
    out->reduce_ms = 1e-6 * (double)(after.way_ns - before.way_ns) / steps;
    out->wait_ms = 1e-6 * (double)(after.wait_ns - before.wait_ns) / steps;
    out->gather_ms = 1e-6 * (double)(gathered.way_ns - gathered_before.way_ns) / steps;
    out->gather_wait_ms = 1e-6 * (double)(gathered.wait_ns - gathered_before.wait_ns) / steps;
    TD_CHECK(time_sums(b, &out->bare_ms));
    return time_small(b, n_ranks, &out->small_ms);
}

/* ---------------------------------------------------------------- figures */

static void summarise(const bench *b, td_bench_cluster_result *out)
{
    const double n = out->n_ranks, wire = b->options->settings->reduce_format == TD_WIRE_BF16 ? 0.5 : 1;
    double rates = 0, reduce = 0, wait = 0, bare = 0, small = 0, gather = 0, gather_wait = 0;
    for (size_t l = 0; l < b->step.n_learners; ++l)
        out->bytes += 4 * td_buckets_elements(b->step.buckets[l]);
    for (uint32_t r = 0; r < out->n_ranks; ++r) {
        const td_bench_rank *rank = &out->ranks[r];
        rates += 1 / rank->alone_ms;
        reduce += rank->reduce_ms;
        wait += rank->wait_ms;
        gather += rank->gather_ms;
        gather_wait += rank->gather_wait_ms;
        bare += rank->bare_ms / n;
        small += rank->small_ms / n;
        out->step_ms = fmax(out->step_ms, rank->step_ms);
    }
    out->efficiency = n / out->step_ms / rates;
    const bool alone = out->n_ranks == 1;
    out->overlap = alone ? NAN : fmax(0, 1 - wait / reduce);
    out->gather_overlap = gather > 0 ? fmax(0, 1 - gather_wait / gather) : NAN;
    out->reduce_gbps = alone ? NAN : 1e-6 * 2 * wire * (double)out->bytes * (n - 1) / n / bare;
    out->latency_us = alone ? NAN : 1e3 * small / (n - 1);
}

td_status td_bench_cluster_run(td_registry *registry, const td_device_info *info,
                               const td_bench_cluster_options *options, td_bench_cluster_result *out)
{
    bench b = {.options = options};
    td_bench_rank mine = {.host = "?"};
    td_status status = TD_OK;
    *out = (td_bench_cluster_result){.n_ranks = td_cluster_size(options->cluster)};
    TD_TRY(TD_NEW_ARRAY(&out->ranks, out->n_ranks));
    (void)gethostname(mine.host, sizeof mine.host - 1);
    (void)snprintf(mine.device, sizeof mine.device, "%s", info->selector);
    TD_TRY(open_bench(&b, registry, info));
    TD_TRY(measure(&b, out->n_ranks, &mine));
    TD_TRY(td_cluster_all_gather(options->cluster, &mine, sizeof mine, out->ranks));
    summarise(&b, out);
fail:
    close_bench(&b);
    return status;
}

void td_bench_cluster_free(td_bench_cluster_result *result)
{
    free(result->ranks);
    *result = (td_bench_cluster_result){0};
}
