/* A queue of the simulated device: one worker that takes submissions in order, waits for the points they
 * need, truly copies and fills bytes, and then sleeps until the modelled end. Kernels compute nothing.
 *
 * Times are modelled, not observed: a submission starts at the latest of its being submitted, the end of the
 * one before, and the ends of the points it waits for, whenever the worker happens to wake up. So the delays
 * of the host's scheduler do not add up, and a run has the proportions that the model gives. A point is never
 * reached before its end; where the real bytes take longer than the model allows, the end is the real one.
 *
 * A failed queue has let go of its work: once anyone sees the failure, the worker touches no list or buffer.
 * Covered by tests/device/test_sim.c and tests/faults/test_faults_sim.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/thread.h"
#include "device/sim/sim.h"

#define NS_PER_US 1e3
#define NS_PER_S UINT64_C(1000000000)
#define LARGE_FILL_BYTES (UINT64_C(1) << 20)
#define CAUSE_BYTES 256

typedef struct sim_work {
    struct sim_work *next;
    td_list *list; /* borrowed until its value is reached or the queue has failed */
    uint64_t value;
    uint64_t submitted_ns;
    size_t n_waits;
    td_point waits[TD_MAX_NATIVE_WAITS];
} sim_work;

typedef struct sim_interval {
    uint64_t start_ns, end_ns;
} sim_interval;

/* State below `group` is guarded by the group's mutex. */
struct sim_queue {
    td_queue base;
    sim_group *group;
    pthread_t worker;
    uint64_t random_stream;
    sim_work *head, *tail; /* owned; not yet begun */
    bool busy;             /* the worker holds a submission */
    bool stop;
    td_status failure;       /* for good */
    char cause[CAUSE_BYTES]; /* of a failure that began in another queue, known before that queue is asked */
    uint64_t reached;        /* last value done */
    uint64_t last_end_ns;    /* of the value reached last */
    sim_interval times[TD_TIMES_KEPT];
};

/* ---------------------------------------------------------------- waiting; group's mutex held throughout */

/* Sleeps until something changes or the deadline has passed (UINT64_MAX: never); false for the latter. */
static bool sleep_until(sim_group *group, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) return pthread_cond_wait(&group->changed, &group->mutex) == 0;
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                   .tv_nsec = (long)(deadline_ns % NS_PER_S)};
    return pthread_cond_timedwait(&group->changed, &group->mutex, &until) != ETIMEDOUT;
}

static bool has_failed(const sim_queue *queue)
{
    return queue->failure != TD_OK && !queue->busy;
}

static void drop_work(sim_queue *queue)
{
    while (queue->head) {
        sim_work *work = queue->head;
        queue->head = work->next;
        free(work);
    }
    queue->tail = NULL;
}

/* Fails the queue and returns when its worker has let go of its work. Not for the worker itself. */
static void fail_queue(sim_queue *queue, td_status failure)
{
    if (queue->failure == TD_OK) queue->failure = failure;
    drop_work(queue);
    pthread_cond_broadcast(&queue->group->changed);
    while (queue->busy)
        pthread_cond_wait(&queue->group->changed, &queue->group->mutex);
}

/* Records why the queue has failed, and returns it. */
static td_status report_failure(const sim_queue *queue, const char *call)
{
    td_device *device = queue->base.device;
    switch (queue->failure) {
    case TD_ERR_DEVICE_LOST:
        return td_device_mark_lost(device, "SIM_DEVICE_LOST", call);
    case TD_ERR_CANCELLED:
        return TD_FAIL_NATIVE(TD_ERR_CANCELLED, "SIM_CANCELLED",
                              "%s of %s: the work was given up, because of what it waits for: %s", call,
                              device->info.name, queue->cause);
    default:
        return TD_FAIL_NATIVE(TD_ERR_DRIVER, "SIM_WAIT_FAILED",
                              "%s of %s failed, as the model's fail_wait says; the queue takes no more work",
                              call, device->info.name);
    }
}

/* ---------------------------------------------------------------- running commands; no lock held */

static unsigned char *span_bytes(td_span span)
{
    return ((const sim_buffer *)span.buffer)->storage + span.offset;
}

static bool is_on(const td_device *device, td_span span)
{
    return span.buffer->device == device && span.buffer->kind == TD_MEMORY_DEVICE;
}

/* Zeros without touching memory: whole pages of a device buffer, which is anonymous memory of ours, are given
 * back and read as zeros. So plans of models far larger than the computer can be made. Returns how many bytes
 * from the start are zero now. */
static uint64_t drop_pages(unsigned char *bytes, uint64_t n)
{
    const uint64_t page = 4096;
    const uint64_t head = (page - (uintptr_t)bytes % page) % page;
    if (n < LARGE_FILL_BYTES) return 0;
    const uint64_t whole = (n - head) / page * page;
    if (madvise(bytes + head, whole, MADV_DONTNEED) != 0) return 0;
    memset(bytes, 0, head);
    return head + whole;
}

/* Truly does the command, and returns the time that the model gives it. 1 GB/s is 1 byte per nanosecond. */
static double run_command(const sim_model *model, const td_device *device, const td_command *command)
{
    const td_span to = command->spans[0], from = command->spans[1];
    switch (command->kind) {
    case TD_COMMAND_COPY: {
        memmove(span_bytes(to), span_bytes(from), to.bytes);
        const bool inside = is_on(device, to) && is_on(device, from);
        return inside ? 2.0 * (double)to.bytes / model->gbps : (double)to.bytes / model->copy_gbps;
    }
    case TD_COMMAND_FILL: {
        unsigned char *bytes = span_bytes(to);
        uint64_t i = 0;
        if (command->word == 0 && is_on(device, to)) i = drop_pages(bytes, to.bytes);
        for (; i < to.bytes; i += sizeof command->word)
            memcpy(bytes + i, &command->word, sizeof command->word);
        return (double)to.bytes / (is_on(device, to) ? model->gbps : model->copy_gbps);
    }
    case TD_COMMAND_DISPATCH:
    case TD_COMMAND_NATIVE:
        break;
    }
    return command->cost_ns;
}

/* Runs a submission's list and returns its modelled time. */
static double run_list(const sim_queue *queue, const sim_work *work)
{
    const sim_model *model = &queue->group->model;
    const td_list *list = work->list;
    const double latency_ns = model->latency_us * NS_PER_US;
    double total_ns = latency_ns;
    if (list) {
        if (list->n_segments > 1) total_ns += latency_ns * (double)(list->n_segments - 1);
        for (size_t i = 0; i < list->n_commands; ++i)
            total_ns += latency_ns + run_command(model, queue->base.device, &list->commands[i]);
    }
    const double draw = td_rng_double(model->seed, queue->random_stream, work->value);
    return total_ns * (1 + model->jitter * (2 * draw - 1));
}

/* ---------------------------------------------------------------- the worker; group's mutex held */

/* The queue cannot go on without another that has failed. */
static void give_up(sim_queue *queue, const sim_queue *other)
{
    const char *name = other->base.device->info.name;
    queue->failure = TD_ERR_CANCELLED;
    if (other->failure == TD_ERR_CANCELLED)
        memcpy(queue->cause, other->cause, sizeof queue->cause);
    else if (other->failure == TD_ERR_DEVICE_LOST)
        snprintf(queue->cause, sizeof queue->cause, "device %s was lost in submit", name);
    else
        snprintf(queue->cause, sizeof queue->cause, "a queue of %s failed, as the model's fail_wait says",
                 name);
}

/* Waits for what the work needs and returns in *start_ns when it may begin; false if it never may. */
static bool await_points(sim_queue *queue, const sim_work *work, uint64_t *start_ns)
{
    uint64_t start = work->submitted_ns > queue->last_end_ns ? work->submitted_ns : queue->last_end_ns;
    for (size_t i = 0; i < work->n_waits; ++i) {
        const sim_queue *other = (const sim_queue *)work->waits[i].queue;
        const uint64_t value = work->waits[i].value;
        while (other->reached < value && !has_failed(other) && queue->failure == TD_OK)
            sleep_until(queue->group, UINT64_MAX);
        if (queue->failure != TD_OK) return false;
        if (other->reached < value) {
            give_up(queue, other);
            return false;
        }
        /* A value that is out of the ring ended so long ago that it cannot be the latest. */
        const bool kept = other->reached - value < TD_TIMES_KEPT;
        const uint64_t end_ns = kept ? other->times[value % TD_TIMES_KEPT].end_ns : 0;
        if (end_ns > start) start = end_ns;
    }
    *start_ns = start;
    return true;
}

/* Does one submission, unless the queue fails meanwhile. */
static void run_work(sim_queue *queue, const sim_work *work)
{
    sim_interval interval;
    if (!await_points(queue, work, &interval.start_ns)) return;
    pthread_mutex_unlock(&queue->group->mutex);
    const double modelled_ns = run_list(queue, work);
    const uint64_t real_end_ns = td_clock_ns();
    pthread_mutex_lock(&queue->group->mutex);
    interval.end_ns = interval.start_ns + (uint64_t)modelled_ns;
    if (interval.end_ns < real_end_ns) interval.end_ns = real_end_ns;
    while (queue->failure == TD_OK && td_clock_ns() < interval.end_ns)
        sleep_until(queue->group, interval.end_ns);
    if (queue->failure != TD_OK) return;
    queue->times[work->value % TD_TIMES_KEPT] = interval;
    queue->last_end_ns = interval.end_ns;
    queue->reached = work->value;
}

static void *serve(void *argument)
{
    sim_queue *queue = argument;
    sim_group *group = queue->group;
    pthread_mutex_lock(&group->mutex);
    while (!queue->stop) {
        sim_work *work = queue->head;
        if (!work) {
            sleep_until(group, UINT64_MAX);
            continue;
        }
        queue->head = work->next;
        if (!queue->head) queue->tail = NULL;
        queue->busy = true;
        run_work(queue, work);
        free(work);
        queue->busy = false;
        if (queue->failure != TD_OK) drop_work(queue);
        pthread_cond_broadcast(&group->changed);
    }
    pthread_mutex_unlock(&group->mutex);
    return NULL;
}

/* ---------------------------------------------------------------- life */

td_status td_sim_queue_start(sim_device *device, td_queue_kind kind, td_queue **out)
{
    sim_group *group = device->group;
    sim_queue *queue = NULL;
    td_status status = TD_OK;
    TD_TRY(td_alloc_grow(&group->queues, &group->queue_capacity, group->n_queues + 1, sizeof *group->queues));
    TD_TRY(TD_NEW(&queue));
    queue->base.device = &device->base;
    queue->base.kind = kind;
    queue->group = group;
    queue->random_stream = (uint64_t)device->base.info.ordinal * TD_QUEUE_KIND_COUNT + (uint64_t)kind;
    TD_TRY(td_thread_start(&queue->worker, device->base.info.name, serve, queue));
    group->queues[group->n_queues++] = queue;
    *out = &queue->base;
    return TD_OK;
fail:
    free(queue);
    return status;
}

void td_sim_queue_stop(td_queue *base)
{
    sim_queue *queue = (sim_queue *)base;
    pthread_mutex_lock(&queue->group->mutex);
    fail_queue(queue, TD_ERR_CANCELLED);
    queue->stop = true;
    pthread_cond_broadcast(&queue->group->changed);
    pthread_mutex_unlock(&queue->group->mutex);
    pthread_join(queue->worker, NULL);
}

/* ---------------------------------------------------------------- what the generic layer calls */

/* The device is gone: no queue of it does anything more. Group's mutex held. */
static void lose_device(sim_device *device)
{
    for (size_t i = 0; i < TD_QUEUE_KIND_COUNT; ++i)
        fail_queue((sim_queue *)device->base.queues[i], TD_ERR_DEVICE_LOST);
}

td_status td_sim_submit(td_queue *base, const td_native_submission *submission)
{
    sim_queue *queue = (sim_queue *)base;
    sim_group *group = queue->group;
    sim_work *work = NULL;
    td_status status = TD_NEW(&work);
    if (status != TD_OK) return status;
    work->list = submission->list;
    work->value = submission->value;
    work->submitted_ns = td_clock_ns();
    work->n_waits = submission->n_waits;
    for (size_t i = 0; i < submission->n_waits; ++i)
        work->waits[i] = submission->waits[i];

    pthread_mutex_lock(&group->mutex);
    if (SIM_FAULT_FIRES(group, lose_submit)) lose_device((sim_device *)base->device);
    if (queue->failure != TD_OK) {
        status = report_failure(queue, "submit");
        free(work);
    } else {
        *(queue->tail ? &queue->tail->next : &queue->head) = work;
        queue->tail = work;
        pthread_cond_broadcast(&group->changed);
    }
    pthread_mutex_unlock(&group->mutex);
    return status;
}

td_status td_sim_wait(td_queue *base, uint64_t value, uint64_t timeout_ns)
{
    sim_queue *queue = (sim_queue *)base;
    sim_group *group = queue->group;
    const uint64_t now_ns = td_clock_ns();
    const uint64_t deadline_ns = timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
    td_status status = TD_OK;
    pthread_mutex_lock(&group->mutex);
    /* Polls do not count: how many there are depends on the scheduler. */
    const bool fault = timeout_ns > 0 && SIM_FAULT_FIRES(group, fail_wait);
    if (fault) fail_queue(queue, TD_ERR_DRIVER);
    while (queue->reached < value && !has_failed(queue) && timeout_ns > 0 &&
           sleep_until(group, deadline_ns)) {
    }
    if (fault || (queue->reached < value && has_failed(queue)))
        status = report_failure(queue, "wait");
    else if (queue->reached < value)
        status = TD_ERR_TIMEOUT;
    pthread_mutex_unlock(&group->mutex);
    return status;
}

bool td_sim_can_wait(const td_queue *waiter, const td_queue *signaller)
{
    return waiter->device->share_group == signaller->device->share_group;
}

td_status td_sim_times(td_queue *base, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    sim_queue *queue = (sim_queue *)base;
    pthread_mutex_lock(&queue->group->mutex);
    const bool kept = value > 0 && value <= queue->reached && queue->reached - value < TD_TIMES_KEPT;
    const sim_interval interval = queue->times[value % TD_TIMES_KEPT];
    pthread_mutex_unlock(&queue->group->mutex);
    if (!kept) {
        return TD_FAIL(TD_ERR_NOT_FOUND, "%s remembers the times of its last %d submissions only",
                       base->device->info.name, TD_TIMES_KEPT);
    }
    *start_ns = interval.start_ns;
    *end_ns = interval.end_ns;
    return TD_OK;
}
