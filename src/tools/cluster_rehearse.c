/* Simulated ranks that make the steps which cluster_forecast.c predicts. See cluster_forecast.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "tools/cluster_forecast.h"
#include "tools/planner.h"

/* What is truly copied takes time on this computer too, and that must not be what is seen: where it would be,
 * everything is run slower by one factor. */
#define SLOWEST_COPY_GBPS 0.5 /* of simulated links, so that this computer's copies are faster */
#define COPIES_PER_STEP 6.0 /* of all gradients of a rank: down, exchanged, summed, gathered, up, and some */
#define HOST_GBPS 2.0       /* of this computer for them all */
#define HOST_SHARE 0.25     /* of a step that it may be busy with them */
#define LONGEST_S 15.0
#define LONG_MS 200.0     /* a step that this computer's delays do not matter to */
#define LONGEST_MS 1500.0 /* one that is worth waiting for */

#define DEVICE_LATENCY_US 5.0 /* of TANDEM_SIM, if not given */

enum { MOST_RANKS = 8, MOST_STEPS = 16, WARM_UP = 2 };

/* ---------------------------------------------------------------- pace */

/* The keys of a device that tell how fast it is. */
static bool is_pace(const char *pair, double *latency_us)
{
    static const char *const KEYS[] = {"gflops=", "gbps=", "copy_gbps=", "latency_us="};
    enum { N_KEYS = sizeof KEYS / sizeof KEYS[0], LATENCY = N_KEYS - 1 };
    for (size_t k = 0; k < N_KEYS; ++k) {
        if (strncmp(pair, KEYS[k], strlen(KEYS[k])) != 0) continue;
        if (k == LATENCY) *latency_us = strtod(pair + strlen(KEYS[k]), NULL);
        return true;
    }
    return false;
}

/* The same device, slower by a factor. *out: td_planner_close(), also after a failure. */
static td_status open_slow(const char *device, double factor, td_planner *out)
{
    char text[512];
    const size_t capacity = sizeof text;
    double latency_us = DEVICE_LATENCY_US;
    size_t used = 0;
    for (const char *at = device; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        if (!is_pace(at, &latency_us) && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%.*s,", (int)length, at);
        at += length + (at[length] == ',');
    }
    TD_CHECK(td_planner_open(device, out));
    const td_device_caps caps = td_device_get_info(out->device)->caps;
    td_planner_close(out);
    if (used < capacity)
        (void)snprintf(text + used, capacity - used, "gflops=%.9g,gbps=%.9g,copy_gbps=%.9g,latency_us=%.9g",
                       caps.estimated_gflops / factor, caps.estimated_gbps / factor, caps.link_gbps / factor,
                       latency_us * factor);
    return td_planner_open(text, out);
}

/* Short steps are run slower: what this computer takes for bytes that it truly copies counts for less then. */
td_status td_rank_times_simulate(const char *device, const td_train_settings *settings,
                                 const td_batch_shape *shape, td_rank_times *out)
{
    td_planner planner = {0};
    td_status status = TD_OK;
    double pace;
    *out = (td_rank_times){0};
    TD_TRY(td_planner_open(device, &planner));
    TD_TRY(td_rank_times_measure(planner.memory, settings, shape, out));
    pace = fmin(fmax(out->copy_gbps / SLOWEST_COPY_GBPS, LONG_MS / out->last_ms), LONGEST_MS / out->last_ms);
    if (pace > 1) {
        td_rank_times_free(out);
        td_planner_close(&planner);
        TD_TRY(open_slow(device, pace, &planner));
        TD_TRY(td_rank_times_measure(planner.memory, settings, shape, out));
    }
    pace = fmax(pace, 1);
    out->first_ms /= pace;
    out->more_ms /= pace;
    out->last_ms /= pace;
    out->update_ms /= pace;
    out->copy_ms /= pace;
    out->copy_gbps *= pace;
    for (size_t b = 0; b < out->n_buckets; ++b) {
        out->buckets[b].ready_ms /= pace;
        out->buckets[b].read_ms /= pace;
    }
fail:
    td_planner_close(&planner);
    return status;
}

/* ---------------------------------------------------------------- a rank */

typedef struct rank_thread {
    const td_rehearsal_request *request;
    td_network *network;
    td_device *device;
    uint32_t rank;
    pthread_t thread;
    bool started;
    uint64_t ends_ns[MOST_STEPS + WARM_UP]; /* of updates */
    td_error error;
} rank_thread;

/* The step behind the one that is waited for is submitted already, as in training. */
static td_status make_steps(rank_thread *t, td_ready_step *step)
{
    const uint32_t grad_accum = t->request->settings->grad_accum > 0 ? t->request->settings->grad_accum : 1;
    const uint32_t steps = t->request->steps + WARM_UP;
    td_point updated[2] = {{0}};
    for (uint32_t i = 0; i <= steps; ++i) {
        td_times times;
        if (i < steps)
            TD_CHECK(td_ready_run(step, grad_accum, i, t->request->network.ranks > 1, &updated[i % 2]));
        if (i == 0) continue;
        TD_CHECK(td_point_wait(updated[(i - 1) % 2], TD_WAIT_FOREVER));
        TD_CHECK(td_point_times(updated[(i - 1) % 2], &times));
        t->ends_ns[i - 1] = times.finished_ns;
    }
    return TD_OK;
}

static void *run_rank(void *context)
{
    rank_thread *t = context;
    td_memory *memory = NULL;
    td_cluster *cluster = NULL;
    td_ready_step step = {0};
    td_status status = TD_OK;
    TD_TRY(td_network_join(t->network, t->rank, &cluster));
    TD_TRY(td_memory_create(t->device, "model", 0, &memory));
    TD_TRY(td_ready_open_rank(memory, t->request->settings, &t->request->shape, cluster, &step));
    TD_TRY(td_cluster_barrier(cluster));
    TD_TRY(make_steps(t, &step));
fail:
    if (status != TD_OK) {
        t->error = *td_error_last();
        td_network_fail(t->network); /* before what was begun is waited for */
    }
    (void)td_queue_finish(td_device_queue(t->device, TD_QUEUE_COMPUTE));
    td_ready_close(&step);
    td_memory_destroy(memory);
    td_network_leave(cluster);
    return NULL;
}

double td_cluster_rehearsal_pace(const td_cluster_forecast *f)
{
    const double copied = COPIES_PER_STEP * (double)f->gradient_bytes * (double)f->network.ranks;
    const double host_ms = 1e-6 * copied / HOST_GBPS;
    return fmax(1, fmax(f->times.copy_gbps / SLOWEST_COPY_GBPS, host_ms / HOST_SHARE / f->asked.step_ms));
}

bool td_cluster_can_rehearse(const td_cluster_forecast *f, uint32_t steps)
{
    const double seconds = 1e-3 * f->asked.step_ms * td_cluster_rehearsal_pace(f) * (steps + WARM_UP);
    return f->network.ranks <= MOST_RANKS && seconds <= LONGEST_S;
}

/* ---------------------------------------------------------------- all ranks */

static td_status run_ranks(rank_thread *ranks, uint32_t n, td_network *network)
{
    td_status status = TD_OK;
    for (uint32_t r = 0; r < n; ++r) {
        TD_TRY(td_thread_start(&ranks[r].thread, "a simulated rank", run_rank, &ranks[r]));
        ranks[r].started = true;
    }
fail:
    if (status != TD_OK) td_network_fail(network);
    for (uint32_t r = 0; r < n; ++r)
        if (ranks[r].started) pthread_join(ranks[r].thread, NULL);
    for (uint32_t r = 0; r < n && status == TD_OK; ++r)
        if (ranks[r].error.status != TD_OK) status = td_error_adopt(&ranks[r].error);
    return status;
}

td_status td_cluster_rehearse(const td_rehearsal_request *request, double *step_ms)
{
    td_planner planner = {0}; /* only its registry is used, by all */
    td_rehearsal_request slow = *request;
    td_network *network = NULL;
    rank_thread *ranks = NULL;
    td_status status = TD_OK;
    const uint32_t n = (uint32_t)request->network.ranks;
    const double pace = fmax(1, request->pace);
    TD_FAIL_IF(n > MOST_RANKS || request->steps > MOST_STEPS, TD_ERR_ARGUMENT,
               "at most %d ranks and %d steps", MOST_RANKS, MOST_STEPS);
    slow.network.gbps /= pace;
    slow.network.sum_gbps /= pace;
    slow.network.latency_us *= pace;
    TD_TRY(open_slow(request->device, pace, &planner));
    TD_TRY(td_network_create(&slow.network, &network));
    TD_TRY(TD_NEW_ARRAY(&ranks, n));
    for (uint32_t r = 0; r < n; ++r) {
        ranks[r] = (rank_thread){.request = &slow, .network = network, .rank = r};
        TD_TRY(td_device_open(planner.registry, td_device_get_info(planner.device), &ranks[r].device));
    }
    TD_TRY(run_ranks(ranks, n, network));
    *step_ms = INFINITY;
    for (uint32_t i = WARM_UP; i < request->steps + WARM_UP; ++i)
        *step_ms = fmin(*step_ms, 1e-6 * (double)(ranks[0].ends_ns[i] - ranks[0].ends_ns[i - 1]) / pace);
fail:
    for (uint32_t r = 0; ranks != NULL && r < n; ++r)
        td_device_close(ranks[r].device);
    free(ranks);
    td_network_destroy(network);
    td_planner_close(&planner);
    return status;
}
