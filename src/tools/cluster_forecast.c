/* Predictions. See cluster_forecast.h; simulated ranks are in cluster_rehearse.c. */
#include "tools/cluster_forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/step_work.h"

enum { RUNS = 8, MOST_ACCUM = 4096 };

#define LONG_MS 200.0 /* such a step is run thrice: waking late hardly matters */

/* Bytes that the update moves for a parameter: the norm reads its gradient, AdamW reads and writes the rest, an
 * average is read and written with the parameter. What moments are cut for is AdamW alone. */
#define NORM_BYTES 4.0
#define ADAMW_BYTES 28.0
#define AVERAGE_BYTES 12.0

/* ---------------------------------------------------------------- one rank */

static td_status read_times(td_point point, td_times *out)
{
    TD_CHECK(td_point_wait(point, TD_WAIT_FOREVER));
    return td_point_times(point, out);
}

static double to_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? 1e-6 * (double)(to_ns - from_ns) : 0;
}

/* Points of one step that was submitted. */
typedef struct step_points {
    td_point first[2], last[2]; /* where its first and its last micro-batch begin and end */
    td_point updates[TD_MAX_LEARNERS];
    td_point *ready, *reads; /* [n_buckets]; owned */
} step_points;

/* One run of all plans; ready, reads: when their buckets are final, and first read; NULL: not wanted. */
static td_status submit_plans(const td_ready_step *step, bool adds, td_point ends[2], td_point *ready,
                              td_point *reads)
{
    for (size_t l = 0; l < step->n_learners; ++l) {
        const size_t n = td_buckets_count(step->buckets[l]);
        TD_CHECK(td_plan_run(step->plans[l], &(td_run){.adds = adds}, NULL));
        if (l == 0) ends[0] = td_plan_points(step->plans[l])[0];
        ends[1] = td_plan_points(step->plans[l])[TD_RUN_POINTS - 1];
        if (ready == NULL) continue;
        memcpy(ready, td_plan_ready(step->plans[l]), n * sizeof *ready);
        memcpy(reads, td_plan_reads(step->plans[l]), n * sizeof *reads);
        ready += n;
        reads += n;
    }
    return TD_OK;
}

static td_status submit_step(const td_ready_step *step, bool adds, step_points *out)
{
    if (adds) TD_CHECK(submit_plans(step, false, out->first, NULL, NULL));
    TD_CHECK(submit_plans(step, adds, out->last, out->ready, out->reads));
    for (size_t l = 0; l < step->n_learners; ++l)
        TD_CHECK(td_optimizer_step(td_learner_optimizer(step->learners[l]), 0, &out->updates[l]));
    return TD_OK;
}

/* Of two points: from the start of the first to the end of the second. */
static td_status read_span(const td_point ends[2], uint64_t *start_ns, double *ms)
{
    td_times from, to;
    TD_CHECK(read_times(ends[0], &from));
    TD_CHECK(read_times(ends[1], &to));
    *start_ns = from.started_ns;
    *ms = to_ms(from.started_ns, to.finished_ns);
    return TD_OK;
}

/* Waits for a step; the least of all counts, since a computer that is busy can only add to it. */
static td_status read_step(const step_points *points, size_t n_learners, td_rank_times *out)
{
    double ms = 0, update_ms = 0;
    uint64_t start_ns;
    if (out->grad_accum > 1) {
        TD_CHECK(read_span(points->first, &start_ns, &ms));
        out->first_ms = fmin(out->first_ms, ms);
    }
    TD_CHECK(read_span(points->last, &start_ns, &ms));
    out->last_ms = fmin(out->last_ms, ms);
    for (size_t b = 0; b < out->n_buckets; ++b) {
        td_times times;
        TD_CHECK(read_times(points->ready[b], &times));
        out->buckets[b].ready_ms = fmin(out->buckets[b].ready_ms, to_ms(start_ns, times.finished_ns));
        times.finished_ns = start_ns;
        if (points->reads[b].queue != NULL) TD_CHECK(read_times(points->reads[b], &times));
        out->buckets[b].read_ms = fmin(out->buckets[b].read_ms, to_ms(start_ns, times.finished_ns));
    }
    for (size_t l = 0; l < n_learners; ++l) {
        const td_point update[2] = {points->updates[l], points->updates[l]};
        TD_CHECK(read_span(update, &start_ns, &ms));
        update_ms += ms;
    }
    out->update_ms = fmin(out->update_ms, update_ms);
    return TD_OK;
}

/* A step is submitted before the one ahead of it is waited for, so that the device never waits for this thread. */
static td_status run_steps(const td_ready_step *step, td_rank_times *out)
{
    step_points points[2] = {{.ready = NULL}, {.ready = NULL}};
    td_status status = TD_OK;
    for (size_t i = 0; i < 2; ++i) {
        TD_TRY(TD_NEW_ARRAY(&points[i].ready, out->n_buckets));
        TD_TRY(TD_NEW_ARRAY(&points[i].reads, out->n_buckets));
    }
    out->first_ms = out->last_ms = out->update_ms = INFINITY;
    TD_TRY(submit_step(step, out->grad_accum > 1, &points[0]));
    for (int i = 1; i < RUNS && (i < 3 || out->last_ms < LONG_MS); ++i) {
        TD_TRY(submit_step(step, out->grad_accum > 1, &points[i % 2]));
        TD_TRY(read_step(&points[(i - 1) % 2], step->n_learners, out));
    }
    out->more_ms = out->last_ms;
    if (out->grad_accum == 1) out->first_ms = 0;
fail:
    for (size_t i = 0; i < 2; ++i) {
        free(points[i].ready);
        free(points[i].reads);
    }
    return status;
}

/* The shortest of some copies to the host. */
static td_status time_copy(td_memory *memory, uint64_t bytes, double *ms)
{
    td_device *device = td_memory_device(memory);
    td_span from = {0}, to = {0};
    td_list *list = NULL;
    td_status status = TD_OK;
    *ms = INFINITY;
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, bytes, &from));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_HOST, bytes, &to));
    TD_TRY(td_list_create(device, TD_QUEUE_COPY, &list));
    TD_TRY(td_list_copy(list, to, from));
    TD_TRY(td_list_finish(list));
    for (int i = 0; i < RUNS; ++i) {
        td_point copied;
        td_times times;
        TD_TRY(
            td_queue_submit(td_device_queue(device, TD_QUEUE_COPY), &(td_submission){.list = list}, &copied));
        TD_TRY(read_times(copied, &times));
        *ms = fmin(*ms, to_ms(times.started_ns, times.finished_ns));
    }
fail:
    td_list_destroy(list);
    td_memory_free(memory, from);
    td_memory_free(memory, to);
    return status;
}

static td_status measure_copies(td_memory *memory, td_rank_times *out)
{
    enum { SMALL = 256 };
    uint64_t largest = 0;
    double ms;
    for (size_t b = 0; b < out->n_buckets; ++b)
        if (4 * out->buckets[b].elements > largest) largest = 4 * out->buckets[b].elements;
    TD_CHECK(time_copy(memory, SMALL, &out->copy_ms));
    TD_CHECK(time_copy(memory, largest, &ms));
    out->copy_gbps = ms > out->copy_ms ? 1e-6 * (double)(largest - SMALL) / (ms - out->copy_ms) : INFINITY;
    return TD_OK;
}

td_status td_rank_times_measure(td_memory *memory, const td_train_settings *settings,
                                const td_batch_shape *shape, td_rank_times *out)
{
    td_ready_step step = {0};
    td_cluster *alone = NULL;
    td_train_settings s = *settings;
    td_status status = TD_OK;
    const double average = settings->average ? AVERAGE_BYTES : 0;
    *out = (td_rank_times){.grad_accum = s.grad_accum > 0 ? s.grad_accum : 1,
                           .shards = s.shard_optimizer,
                           .format = s.reduce_format,
                           .whole_update = (NORM_BYTES + average) / (NORM_BYTES + ADAMW_BYTES + average)};
    s.plan.cuts_reads =
        s.shard_optimizer; /* when parameters are read is told; that they travel is predicted */
    s.shard_optimizer = false;
    TD_TRY(td_cluster_open(TD_CLUSTER_NONE, &alone));
    TD_TRY(td_ready_open_rank(memory, &s, shape, alone, &step));
    for (size_t l = 0; l < step.n_learners; ++l) {
        TD_TRY(td_step_work_fill(step.graphs[l], step.plans[l], shape));
        out->n_buckets += td_buckets_count(step.buckets[l]);
    }
    TD_TRY(TD_NEW_ARRAY(&out->buckets, out->n_buckets));
    for (size_t l = 0, at = 0; l < step.n_learners; ++l)
        for (size_t b = 0; b < td_buckets_count(step.buckets[l]); ++b)
            out->buckets[at++] =
                (struct td_rank_bucket){INFINITY, INFINITY, td_buckets_at(step.buckets[l], b)->count};
    TD_TRY(run_steps(&step, out));
    TD_TRY(measure_copies(memory, out));
fail:
    td_ready_close(&step);
    td_cluster_close(alone, false);
    return status;
}

void td_rank_times_free(td_rank_times *times)
{
    free(times->buckets);
    *times = (td_rank_times){0};
}

/* ---------------------------------------------------------------- many */

static double copy_ms(const td_rank_times *t, double bytes)
{
    return t->copy_ms + 1e-6 * bytes / t->copy_gbps;
}

/* One way of a bucket: every rank sends its shard to all others, or gets theirs. */
static double travel_ms(const td_network_model *network, uint32_t ranks, double bytes)
{
    return 1e-6 * td_network_exchange_ns(network, ranks, bytes * (ranks - 1) / ranks);
}

/* Gradients: down, to be summed, up. Returns when all are back, counted from the start of the step. */
static double predict_sums(const td_rank_times *t, const td_network_model *network, uint32_t ranks,
                           double start_ms, td_cluster_figures *out)
{
    double down = 0, net = 0, up = start_ms + t->last_ms;
    for (size_t b = 0; b < t->n_buckets; ++b) {
        const double bytes = 4.0 * (double)t->buckets[b].elements;
        const double wire = t->format == TD_WIRE_BF16 ? bytes / 2 : bytes;
        const double busy = 2 * travel_ms(network, ranks, wire) + 1e-6 * td_network_sum_ns(network, wire);
        down = fmax(down, start_ms + t->buckets[b].ready_ms) + copy_ms(t, bytes);
        net = fmax(net, down) + busy;
        up = fmax(up, net) + copy_ms(t, bytes);
        out->reduce_ms += busy;
    }
    out->wait_ms = fmax(0, net - down);
    out->overlap = out->reduce_ms > 0 ? fmax(0, 1 - out->wait_ms / out->reduce_ms) : 1;
    return up;
}

/* When parameters of a bucket have come, counted from the update. The last buckets go first. */
static double predict_arrival(const td_rank_times *t, const td_network_model *network, uint32_t ranks,
                              size_t bucket)
{
    double copied = 0, net = 0;
    for (size_t b = t->n_buckets; b-- > bucket;) {
        const double bytes = 4.0 * (double)t->buckets[b].elements;
        copied += copy_ms(t, bytes / ranks);
        net = fmax(net, copied) + travel_ms(network, ranks, bytes);
    }
    return net;
}

/* The bucket that a forward pass reads after `last` (n_buckets: none yet): those that it reads at the same time in the
 * order in which they come. */
static size_t find_next_read(const td_rank_times *t, size_t last)
{
    size_t next = t->n_buckets;
    for (size_t b = t->n_buckets; b-- > 0;) {
        const double read = t->buckets[b].read_ms;
        if (last < t->n_buckets &&
            (read < t->buckets[last].read_ms || (read == t->buckets[last].read_ms && b >= last)))
            continue;
        if (next == t->n_buckets || read < t->buckets[next].read_ms) next = b;
    }
    return next;
}

/* Parameters of shards to all ranks, behind the update, while the next forward pass goes on to where it reads them.
 * Returns by how much that pass, with the copies that the device makes for it, is longer. */
static double predict_gather(const td_rank_times *t, const td_network_model *network, uint32_t ranks,
                             td_cluster_figures *out)
{
    double at = 0, done = 0; /* the device, and what it has of the pass */
    for (size_t b = 0; b < t->n_buckets; ++b) {
        at += copy_ms(t, 4.0 * (double)t->buckets[b].elements / ranks);
        out->gather_ms += travel_ms(network, ranks, 4.0 * (double)t->buckets[b].elements);
    }
    for (size_t i = 0, b = t->n_buckets; i < t->n_buckets; ++i) {
        b = find_next_read(t, b);
        const double come = predict_arrival(t, network, ranks, b);
        at += t->buckets[b].read_ms - done;
        done = t->buckets[b].read_ms;
        out->gather_wait_ms += fmax(0, come - at);
        at = fmax(at, come) + copy_ms(t, 4.0 * (double)t->buckets[b].elements);
    }
    return at - done;
}

td_cluster_figures td_cluster_predict(const td_rank_times *t, const td_network_model *network, uint32_t ranks)
{
    td_cluster_figures f = {.ranks = ranks, .overlap = 1, .efficiency = 1};
    double start_ms = t->grad_accum > 1 ? t->first_ms + (t->grad_accum - 2) * t->more_ms : 0;
    const double alone_ms = start_ms + t->last_ms + t->update_ms;
    f.step_ms = alone_ms;
    if (ranks == 1) return f;
    if (t->shards) start_ms += predict_gather(t, network, ranks, &f); /* of the step before */
    const double summed = predict_sums(t, network, ranks, start_ms, &f);
    const double share = t->shards ? t->whole_update + (1 - t->whole_update) / ranks : 1;
    f.step_ms = summed + share * t->update_ms;
    f.efficiency = alone_ms / f.step_ms;
    return f;
}

/* What more micro-batches would do, from the times of this step: a further one takes as long as the last. */
static double efficiency_with(const td_cluster_forecast *f, uint32_t grad_accum)
{
    td_rank_times times = f->times;
    if (times.grad_accum == 1) times.first_ms = times.last_ms;
    times.grad_accum = grad_accum;
    return td_cluster_predict(&times, &f->network, (uint32_t)f->network.ranks).efficiency;
}

static void judge(td_cluster_forecast *f)
{
    double fastest = 0;
    for (size_t i = 0; i < TD_CLUSTER_DOUBLINGS; ++i) {
        const td_cluster_figures *row = &f->rows[i];
        if (row->efficiency >= TD_CLUSTER_PAYS) f->pays_to = row->ranks;
        if (row->ranks * row->efficiency <= fastest) continue;
        fastest = row->ranks * row->efficiency;
        f->fastest = row->ranks;
    }
    for (uint32_t n = f->times.grad_accum; n <= MOST_ACCUM && f->enough_accum == 0; n *= 2)
        if (efficiency_with(f, n) >= TD_CLUSTER_GOOD) f->enough_accum = n;
}

void td_cluster_forecast_make(const td_network_model *network, td_cluster_forecast *out)
{
    out->network = *network;
    for (size_t b = 0; b < out->times.n_buckets; ++b)
        out->gradient_bytes += 4 * out->times.buckets[b].elements;
    out->asked = td_cluster_predict(&out->times, network, (uint32_t)network->ranks);
    for (size_t i = 0; i < TD_CLUSTER_DOUBLINGS; ++i)
        out->rows[i] = td_cluster_predict(&out->times, network, 1u << i);
    judge(out);
}
