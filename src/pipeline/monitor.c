/* Notes of stages, and the times behind them. See monitor.h. */
#include "pipeline/monitor.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Points whose times are not known yet. */
typedef struct note {
    uint64_t number;
    td_stage stage;
    size_t n_points;
    td_point points[TD_MONITOR_MAX_POINTS];
} note;

enum { SLACK = 64 }; /* batches that may be on their way beside those that are kept */

struct td_monitor {
    size_t capacity;
    bool is_single;
    pthread_mutex_t lock;
    td_batch_times *times; /* [capacity + SLACK], batch n at n % that */
    note *notes;
    size_t n_notes, note_capacity;
    uint64_t n_trained; /* one behind the newest batch whose training has ended */
    atomic_bool is_paused;
};

const char *td_stage_name(td_stage stage)
{
    static const char *const NAMES[TD_STAGE_COUNT] = {
#define TD_STAGE_NAME(upper, name) [TD_STAGE_##upper] = #name,
        TD_STAGE_LIST(TD_STAGE_NAME)
#undef TD_STAGE_NAME
    };
    return NAMES[stage];
}

td_status td_monitor_create(size_t capacity, bool is_single, td_monitor **out)
{
    td_monitor *monitor = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&monitor));
    pthread_mutex_init(&monitor->lock, NULL);
    monitor->capacity = capacity;
    monitor->is_single = is_single;
    TD_TRY(TD_NEW_ARRAY(&monitor->times, capacity + SLACK));
    *out = monitor;
    return TD_OK;
fail:
    td_monitor_destroy(monitor);
    return status;
}

void td_monitor_destroy(td_monitor *monitor)
{
    if (!monitor) return;
    pthread_mutex_destroy(&monitor->lock);
    free(monitor->times);
    free(monitor->notes);
    free(monitor);
}

/* ---------------------------------------------------------------- notes */

/* The place of a batch, emptied if another was there before. Lock held. */
static td_batch_times *find_times(td_monitor *monitor, uint64_t number)
{
    td_batch_times *times = &monitor->times[number % (monitor->capacity + SLACK)];
    if (times->number != number) *times = (td_batch_times){.number = number};
    return times;
}

void td_monitor_pause(td_monitor *monitor, bool is_paused)
{
    atomic_store(&monitor->is_paused, is_paused);
}

static bool is_off(const td_monitor *monitor)
{
    return !monitor || atomic_load(&monitor->is_paused);
}

void td_monitor_note(td_monitor *monitor, td_stage stage, uint64_t number, const td_point *points,
                     size_t n_points)
{
    if (is_off(monitor) || n_points == 0 || n_points > TD_MONITOR_MAX_POINTS) return;
    pthread_mutex_lock(&monitor->lock);
    if (td_alloc_grow(&monitor->notes, &monitor->note_capacity, monitor->n_notes + 1,
                      sizeof *monitor->notes) == TD_OK) { /* without memory there is one figure less */
        note *added = &monitor->notes[monitor->n_notes++];
        *added = (note){.number = number, .stage = stage, .n_points = n_points};
        memcpy(added->points, points, n_points * sizeof *points);
    }
    pthread_mutex_unlock(&monitor->lock);
}

void td_monitor_note_host(td_monitor *monitor, td_stage stage, uint64_t number, td_interval interval)
{
    if (is_off(monitor)) return;
    pthread_mutex_lock(&monitor->lock);
    find_times(monitor, number)->stages[stage] = interval;
    pthread_mutex_unlock(&monitor->lock);
}

void td_monitor_note_wait(td_monitor *monitor, uint64_t number, uint64_t waited_ns)
{
    if (is_off(monitor)) return;
    pthread_mutex_lock(&monitor->lock);
    find_times(monitor, number)->waited_ns = waited_ns;
    pthread_mutex_unlock(&monitor->lock);
}

void td_monitor_note_reduce(td_monitor *monitor, uint64_t number, td_interval interval)
{
    if (is_off(monitor)) return;
    pthread_mutex_lock(&monitor->lock);
    find_times(monitor, number)->reduce = interval;
    pthread_mutex_unlock(&monitor->lock);
}

void td_monitor_note_gather(td_monitor *monitor, uint64_t number, td_interval interval)
{
    if (is_off(monitor)) return;
    pthread_mutex_lock(&monitor->lock);
    find_times(monitor, number)->gather = interval;
    pthread_mutex_unlock(&monitor->lock);
}

/* False while one of the points is ahead. Points that failed, or that a queue has forgotten, tell nothing. */
static bool ask_times(const note *n, td_interval *out)
{
    td_interval whole = {.start_ns = UINT64_MAX};
    for (size_t i = 0; i < n->n_points; ++i) {
        bool reached = false;
        td_times times;
        if (!n->points[i].queue) continue;
        if (td_point_poll(n->points[i], &reached) == TD_OK && !reached) return false;
        const bool is_again = i > 0 && n->points[i].queue == n->points[i - 1].queue &&
                              n->points[i].value == n->points[i - 1].value;
        if (!reached || is_again || td_point_times(n->points[i], &times) != TD_OK) continue;
        if (times.started_ns < whole.start_ns) whole.start_ns = times.started_ns;
        if (times.finished_ns > whole.end_ns) whole.end_ns = times.finished_ns;
        whole.busy_ns += times.finished_ns - times.started_ns;
    }
    *out = whole.end_ns > 0 ? whole : (td_interval){0};
    return true;
}

void td_monitor_collect(td_monitor *monitor)
{
    if (!monitor) return;
    pthread_mutex_lock(&monitor->lock);
    size_t left = 0;
    for (size_t i = 0; i < monitor->n_notes; ++i) {
        const note n = monitor->notes[i];
        td_interval interval;
        if (!ask_times(&n, &interval)) {
            monitor->notes[left++] = n;
            continue;
        }
        find_times(monitor, n.number)->stages[n.stage] = interval;
        if (n.stage == TD_STAGE_TRAIN && n.number >= monitor->n_trained) monitor->n_trained = n.number + 1;
    }
    monitor->n_notes = left;
    pthread_mutex_unlock(&monitor->lock);
}

size_t td_monitor_read(td_monitor *monitor, td_batch_times *out)
{
    size_t n = 0;
    pthread_mutex_lock(&monitor->lock);
    const uint64_t end = monitor->n_trained;
    for (uint64_t number = end > monitor->capacity ? end - monitor->capacity : 0; number < end; ++number) {
        const td_batch_times *times = &monitor->times[number % (monitor->capacity + SLACK)];
        if (times->number == number && times->stages[TD_STAGE_TRAIN].end_ns > 0) out[n++] = *times;
    }
    pthread_mutex_unlock(&monitor->lock);
    return n;
}

/* ---------------------------------------------------------------- figures */

static double to_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static int compare_start(const void *a, const void *b)
{
    const uint64_t x = ((const td_interval *)a)->start_ns, y = ((const td_interval *)b)->start_ns;
    return (x > y) - (x < y);
}

/* Nanoseconds that at least one of the intervals covers. Sorts them. */
static double count_covered(td_interval *intervals, size_t n)
{
    uint64_t covered = 0, at = 0;
    qsort(intervals, n, sizeof *intervals, compare_start);
    for (size_t i = 0; i < n; ++i) {
        const uint64_t start = intervals[i].start_ns > at ? intervals[i].start_ns : at;
        if (intervals[i].end_ns <= start) continue;
        covered += intervals[i].end_ns - start;
        at = intervals[i].end_ns;
    }
    return (double)covered;
}

/* Adds intervals of the stages whose bits are set in `stages` to the `count` that `out` has. */
static size_t gather(const td_batch_times *times, size_t n, unsigned stages, td_interval *out, size_t count)
{
    for (size_t i = 0; i < n; ++i) {
        for (int s = 0; s < TD_STAGE_COUNT; ++s)
            if ((stages >> s & 1) && times[i].stages[s].end_ns > 0) out[count++] = times[i].stages[s];
    }
    return count;
}

/* Each step uses one batch, whenever that was prepared: a buffer may be many steps ahead. */
static double measure_busy(const td_batch_times *times, size_t n, unsigned stages)
{
    const uint64_t from = times[0].stages[TD_STAGE_TRAIN].end_ns;
    const uint64_t to = times[n - 1].stages[TD_STAGE_TRAIN].end_ns;
    double busy = 0;
    for (size_t i = 1; i < n; ++i) {
        for (int s = 0; s < TD_STAGE_COUNT; ++s)
            if (stages >> s & 1) busy += (double)times[i].stages[s].busy_ns;
    }
    return fmin(1, busy / (double)(to - from));
}

/* |a and b| = |a| + |b| - |a or b| */
static double measure_overlap(const td_batch_times *times, size_t n, size_t first, td_interval *room)
{
    const unsigned train = 1u << TD_STAGE_TRAIN;
    const unsigned others = 1u << TD_STAGE_PREPARE | 1u << TD_STAGE_TRANSFER;
    size_t count = gather(times, n, train, room, 0);
    const double a = count_covered(room, count);
    count = gather(times + first, n - first, others, room, count);
    const double either = count_covered(room, count);
    const double b = count_covered(room, gather(times + first, n - first, others, room, 0));
    return b > 0 ? fmax(0, (a + b - either) / b) : 0;
}

/* Threads load batches side by side: their time together, brought to that of the clock. */
static double find_load_scale(const td_batch_times *times, size_t n, td_interval *room)
{
    double busy = 0;
    const size_t count = gather(times, n, 1u << TD_STAGE_LOAD, room, 0);
    for (size_t i = 0; i < count; ++i)
        busy += (double)room[i].busy_ns;
    return busy > 0 ? fmin(1, count_covered(room, count) / busy) : 1;
}

static void measure_stages(const td_batch_times *times, size_t n, double load_scale, double *room,
                           td_pipeline_figures *out)
{
    for (int s = 0; s < TD_STAGE_COUNT; ++s) {
        const double scale = s == TD_STAGE_LOAD ? load_scale : 1;
        size_t count = 0;
        for (size_t i = 0; i < n; ++i)
            if (times[i].stages[s].end_ns > 0) room[count++] = scale * to_ms(times[i].stages[s].busy_ns);
        out->stage_ms[s] = td_stats_of(room, count);
        if (out->stage_ms[s].mean > out->stage_ms[out->slowest].mean) out->slowest = (td_stage)s;
    }
}

static void measure_steps(const td_batch_times *times, size_t n, double *room, td_pipeline_figures *out)
{
    double waited_ms = 0, total_ms = 0;
    for (size_t i = 1; i < n; ++i) {
        room[i - 1] =
            to_ms(times[i].stages[TD_STAGE_TRAIN].end_ns - times[i - 1].stages[TD_STAGE_TRAIN].end_ns);
        total_ms += room[i - 1];
        waited_ms += to_ms(times[i].waited_ns);
    }
    out->step_ms = td_stats_of(room, n - 1);
    out->cv = out->step_ms.cv;
    out->waited_share = total_ms > 0 ? waited_ms / total_ms : 0;
    for (size_t i = 1; i < n; ++i) {
        const td_interval *train = &times[i].stages[TD_STAGE_TRAIN];
        const double step = to_ms(train->end_ns - times[i - 1].stages[TD_STAGE_TRAIN].end_ns);
        room[i - 1] = fmax(0, step - to_ms(train->busy_ns));
    }
    out->idle_ms = td_stats_of(room, n - 1);
}

bool td_pipeline_figures_of(const td_batch_times *times, size_t n, size_t first, bool is_single,
                            td_pipeline_figures *out)
{
    *out = (td_pipeline_figures){0};
    if (n < first + 2) return false;
    const td_batch_times *counted = times + first;
    const size_t n_counted = n - first;
    td_interval *intervals = calloc(n * TD_STAGE_COUNT, sizeof *intervals);
    double *room = calloc(n_counted, sizeof *room);
    const bool is_known =
        intervals && room &&
        times[n - 1].stages[TD_STAGE_TRAIN].end_ns > counted[0].stages[TD_STAGE_TRAIN].end_ns;
    if (is_known) {
        const unsigned train = 1u << TD_STAGE_TRAIN, prepare = 1u << TD_STAGE_PREPARE;
        out->steps = n_counted;
        measure_stages(counted, n_counted, find_load_scale(counted, n_counted, intervals), room, out);
        measure_steps(counted, n_counted, room, out);
        out->data_utilisation = measure_busy(counted, n_counted, is_single ? prepare | train : prepare);
        out->model_utilisation = measure_busy(counted, n_counted, is_single ? prepare | train : train);
        out->overlap = measure_overlap(times, n, first, intervals);
    }
    free(intervals);
    free(room);
    return is_known;
}

/* ---------------------------------------------------------------- verdicts */

static const double MOST_VARIATION = 0.30, BUSY = 0.90;

bool td_pipeline_varies(const td_pipeline_figures *f)
{
    return f->cv > MOST_VARIATION;
}

/* Only what varies of the time in which the device does nothing for a step is starvation. */
bool td_pipeline_waits_unevenly(const td_pipeline_figures *f)
{
    return td_pipeline_varies(f) && f->model_utilisation < BUSY &&
           f->idle_ms.std > MOST_VARIATION * f->step_ms.mean;
}
