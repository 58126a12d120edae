/* Queues and timeline points, the part that is the same for every backend: numbering, waiting for points
 * of other devices, failure, times on the host's clock.
 *
 * A point that the queue's own driver can wait for goes into the native submission. Any other point (of
 * another API, another context, or one whose work has not reached its driver yet) is waited for on the host
 * by the waiting queue's thread, and the submission enters the driver after that. So a submission never
 * blocks its caller, no driver needs to know another, and nothing polls. docs/adr/0003 says why.
 *
 * A queue that fails stays failed: its later work would compute on what never came.
 * Covered by tests/device/test_queue.c and tests/faults.
 */
#include "device/queue_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

#define CLOCK_MAP_AGE_NS UINT64_C(2000000000) /* clocks drift by microseconds in this time */

struct td_deferred {
    td_deferred *next;
    td_list *list;
    void (*host_task)(void *context);
    void *host_context;
    uint64_t value;
    size_t n_waits;
    td_point waits[];
};

static const char *kind_name(td_queue_kind kind)
{
    return kind == TD_QUEUE_COMPUTE ? "compute" : "copy";
}

/* ---------------------------------------------------------------- failure */

/* The first failure is the one that counts. Call with the mutex held. */
static void fail_queue(td_queue *queue, const td_error *error)
{
    if (queue->failure.status == TD_OK) queue->failure = *error;
    pthread_cond_broadcast(&queue->changed);
}

/* This thread's record says what a submission waited for in vain; turns it into the queue's failure. */
static td_status cancel(const td_queue *queue)
{
    const td_error *cause = td_error_last();
    if (cause->status == TD_ERR_CANCELLED) return TD_ERR_CANCELLED;
    return TD_FAIL_NATIVE(TD_ERR_CANCELLED, cause->native, "%s queue of %s gave up its work: %s",
                          kind_name(queue->kind), queue->device->info.name, cause->message);
}

/* ---------------------------------------------------------------- waiting */

static uint64_t deadline_after(uint64_t timeout_ns)
{
    const uint64_t now = td_clock_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* Sleeps on the queue's condition; false once the deadline has passed. Mutex held. */
static bool sleep_on(td_queue *queue, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) return pthread_cond_wait(&queue->changed, &queue->mutex) == 0;
    return td_condition_wait(&queue->changed, &queue->mutex, deadline_ns);
}

/* Until the backend has been handed the point's submission. */
static td_status wait_entered(td_point point, uint64_t deadline_ns)
{
    td_queue *queue = point.queue;
    if (atomic_load(&queue->entered) >= point.value) return TD_OK;
    td_status status = TD_OK;
    pthread_mutex_lock(&queue->mutex);
    while (atomic_load(&queue->entered) < point.value) {
        if (queue->failure.status != TD_OK) {
            status = td_error_adopt(&queue->failure);
            break;
        }
        if (!sleep_on(queue, deadline_ns) && atomic_load(&queue->entered) < point.value) {
            status = queue->failure.status != TD_OK ? td_error_adopt(&queue->failure) : TD_ERR_TIMEOUT;
            break;
        }
    }
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

static bool is_past(td_point point)
{
    return !point.queue || point.value == 0;
}

static td_status check_issued(td_point point)
{
    const td_queue *queue = point.queue;
    if (is_past(point) || point.value <= atomic_load(&queue->issued)) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "point %llu of the %s queue of %s was never handed out",
                   (unsigned long long)point.value, kind_name(queue->kind), queue->device->info.name);
}

/* As td_point_wait, but a time-out leaves no error record: polling is not a failure. */
static td_status await(td_point point, uint64_t timeout_ns)
{
    td_queue *queue = point.queue;
    if (is_past(point)) return TD_OK;
    td_status status = check_issued(point);
    if (status != TD_OK) return status;
    const uint64_t deadline_ns = deadline_after(timeout_ns);
    status = wait_entered(point, deadline_ns);
    if (status != TD_OK) return status;
    uint64_t left_ns = UINT64_MAX;
    if (deadline_ns != UINT64_MAX) {
        const uint64_t now = td_clock_ns();
        left_ns = now < deadline_ns ? deadline_ns - now : 0;
    }
    status = queue->device->ops->wait(queue, point.value, left_ns);
    if (status != TD_OK && status != TD_ERR_TIMEOUT) {
        pthread_mutex_lock(&queue->mutex);
        fail_queue(queue, td_error_last());
        pthread_mutex_unlock(&queue->mutex);
    }
    return status;
}

td_status td_point_wait(td_point point, uint64_t timeout_ns)
{
    const td_status status = await(point, timeout_ns);
    if (status != TD_ERR_TIMEOUT) return status;
    return TD_FAIL(
        TD_ERR_TIMEOUT, "%s queue of %s has not reached point %llu in the time given; the work goes on",
        kind_name(point.queue->kind), point.queue->device->info.name, (unsigned long long)point.value);
}

td_status td_point_poll(td_point point, bool *reached)
{
    const td_status status = await(point, 0);
    *reached = status == TD_OK;
    return status == TD_ERR_TIMEOUT ? TD_OK : status;
}

td_status td_queue_finish(td_queue *queue)
{
    return td_point_wait((td_point){queue, atomic_load(&queue->issued)}, TD_WAIT_FOREVER);
}

/* ---------------------------------------------------------------- submitting */

/* Hands one submission to the backend. Mutex held. */
static td_status enter(td_queue *queue, td_list *list, const td_point *waits, size_t n_waits, uint64_t value)
{
    if (atomic_load(&queue->device->lost)) return td_device_tell_lost(queue->device);
    const td_native_submission native = {.list = list, .waits = waits, .n_waits = n_waits, .value = value};
    const td_status status = queue->device->ops->submit(queue, &native);
    if (status == TD_OK) {
        atomic_store(&queue->entered, value);
        pthread_cond_broadcast(&queue->changed);
    }
    return status;
}

static td_status run_deferred(const td_deferred *item)
{
    for (size_t i = 0; i < item->n_waits; i++)
        TD_CHECK(td_point_wait(item->waits[i], TD_WAIT_FOREVER));
    if (item->host_task) item->host_task(item->host_context);
    return TD_OK;
}

static void drop_deferred(td_queue *queue)
{
    while (queue->head) {
        td_deferred *item = queue->head;
        queue->head = item->next;
        free(item);
    }
    queue->tail = NULL;
    pthread_cond_broadcast(&queue->changed);
}

/* The thread keeps what it works on at the head, so an empty queue is one whose thread is idle. */
void td_queue_drain(td_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->head)
        pthread_cond_wait(&queue->changed, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
    const uint64_t entered = atomic_load(&queue->entered);
    if (entered) (void)queue->device->ops->wait(queue, entered, UINT64_MAX);
}

/* The queue's thread: takes deferred submissions in order. */
static void *serve_deferred(void *argument)
{
    td_queue *queue = argument;
    pthread_mutex_lock(&queue->mutex);
    for (;;) {
        while (!queue->head && !queue->stop)
            pthread_cond_wait(&queue->changed, &queue->mutex);
        td_deferred *item = queue->head;
        if (!item) break;
        pthread_mutex_unlock(&queue->mutex);
        td_status status = run_deferred(item);
        pthread_mutex_lock(&queue->mutex);
        if (queue->failure.status == TD_OK) {
            status = status == TD_OK ? enter(queue, item->list, NULL, 0, item->value) : cancel(queue);
            if (status != TD_OK) fail_queue(queue, td_error_last());
        }
        if (queue->failure.status != TD_OK) {
            drop_deferred(queue);
            continue;
        }
        queue->head = item->next;
        if (!queue->head) queue->tail = NULL;
        free(item);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

/* Mutex held. */
static td_status defer(td_queue *queue, const td_submission *submission, uint64_t value)
{
    td_deferred *item = NULL;
    td_status status = TD_OK;
    TD_TRY(td_alloc_zeroed(1, sizeof *item + submission->n_waits * sizeof item->waits[0], &item));
    item->list = submission->list;
    item->host_task = submission->host_task;
    item->host_context = submission->host_context;
    item->value = value;
    item->n_waits = submission->n_waits;
    if (item->n_waits) memcpy(item->waits, submission->waits, item->n_waits * sizeof item->waits[0]);
    if (!queue->has_thread) {
        TD_TRY(td_thread_start(&queue->thread, queue->device->info.name, serve_deferred, queue));
        queue->has_thread = true;
    }
    if (queue->tail)
        queue->tail->next = item;
    else
        queue->head = item;
    queue->tail = item;
    pthread_cond_broadcast(&queue->changed);
    return TD_OK;
fail:
    free(item);
    return status;
}

/* Sorts a submission's waits: past and in-order ones fall away, native ones go into `native`. *deferred is
 * set if any other is left. A wait that has already failed fails the call. */
static td_status sort_waits(const td_queue *queue, const td_submission *submission,
                            td_point native[TD_MAX_NATIVE_WAITS], size_t *n_native, bool *deferred)
{
    *n_native = 0;
    *deferred = submission->host_task != NULL;
    for (size_t i = 0; i < submission->n_waits; i++) {
        const td_point wait = submission->waits[i];
        td_status status = check_issued(wait);
        if (status != TD_OK) return status;
        if (is_past(wait) || wait.queue == queue) continue;
        bool reached;
        status = td_point_poll(wait, &reached);
        if (status != TD_OK) return cancel(queue);
        if (reached) continue;
        if (*n_native < TD_MAX_NATIVE_WAITS && queue->device->ops->can_wait(queue, wait.queue) &&
            atomic_load(&wait.queue->entered) >= wait.value)
            native[(*n_native)++] = wait;
        else
            *deferred = true;
    }
    return TD_OK;
}

static td_status check_submission(const td_queue *queue, const td_submission *submission)
{
    const td_list *list = submission->list;
    if (!list) return TD_OK;
    if (!list->finished) return TD_FAIL(TD_ERR_ARGUMENT, "a list was submitted before td_list_finish");
    if (list->device != queue->device || td_device_queue(list->device, list->kind) != queue) {
        return TD_FAIL(
            TD_ERR_ARGUMENT, "a list recorded for the %s queue of %s was submitted to the %s queue of %s",
            kind_name(list->kind), list->device->info.name, kind_name(queue->kind), queue->device->info.name);
    }
    return TD_OK;
}

td_status td_queue_submit(td_queue *queue, const td_submission *submission, td_point *reached)
{
    td_point native[TD_MAX_NATIVE_WAITS];
    size_t n_native = 0;
    bool deferred = false;
    td_status status = TD_OK;
    if (reached) *reached = (td_point){NULL, 0};
    TD_TRY(check_submission(queue, submission));
    TD_TRY(sort_waits(queue, submission, native, &n_native, &deferred));

    pthread_mutex_lock(&queue->mutex);
    const uint64_t value = atomic_load(&queue->issued) + 1;
    queue->submitted_ns[value % TD_TIMES_KEPT] = td_clock_ns();
    if (queue->failure.status != TD_OK)
        status = td_error_adopt(&queue->failure);
    else if (deferred || queue->head)
        status = defer(queue, submission, value);
    else
        status = enter(queue, submission->list, native, n_native, value);
    if (status == TD_OK) {
        atomic_store(&queue->issued, value);
        if (submission->list) submission->list->last_use = (td_point){queue, value};
        if (reached) *reached = (td_point){queue, value};
    } else if (status == TD_ERR_DEVICE_LOST) {
        fail_queue(queue, td_error_last());
    }
    pthread_mutex_unlock(&queue->mutex);
fail:
    return status;
}

/* ---------------------------------------------------------------- times */

/* The device's clock on the host's, refreshed when it has aged. */
static td_status map_clock(td_device *device, td_clock_map *out)
{
    td_status status = TD_OK;
    pthread_mutex_lock(&device->clock_mutex);
    if (device->clock_made_ns == 0 || td_clock_ns() - device->clock_made_ns > CLOCK_MAP_AGE_NS) {
        TD_TRY(device->ops->calibrate(device, &device->clock_map));
        device->clock_made_ns = td_clock_ns();
    }
    *out = device->clock_map;
fail:
    pthread_mutex_unlock(&device->clock_mutex);
    return status;
}

static uint64_t to_host_ns(const td_clock_map *map, uint64_t device_ns)
{
    const double since = (double)((int64_t)(device_ns - map->device_ref_ns)) * map->scale;
    return map->host_ref_ns + (uint64_t)(int64_t)since;
}

td_status td_point_times(td_point point, td_times *out)
{
    td_queue *queue = point.queue;
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    td_clock_map map;
    bool reached = false;
    TD_REFUSE_IF(is_past(point), TD_ERR_ARGUMENT, "the point {NULL, 0} has no times");
    TD_REFUSE_IF(!queue->device->info.caps.timestamps, TD_ERR_UNSUPPORTED, "%s was opened without timestamps",
                 queue->device->info.name);
    TD_CHECK(td_point_poll(point, &reached));
    TD_REFUSE_IF(!reached, TD_ERR_ARGUMENT,
                 "times were asked of a point that is not reached yet; wait for it first");
    TD_REFUSE_IF(point.value + TD_TIMES_KEPT <= atomic_load(&queue->issued), TD_ERR_NOT_FOUND,
                 "times are kept for the last %d submissions only", TD_TIMES_KEPT);
    TD_CHECK(queue->device->ops->times(queue, point.value, &start_ns, &end_ns));
    TD_CHECK(map_clock(queue->device, &map));
    pthread_mutex_lock(&queue->mutex);
    out->submitted_ns = queue->submitted_ns[point.value % TD_TIMES_KEPT];
    pthread_mutex_unlock(&queue->mutex);
    out->started_ns = to_host_ns(&map, start_ns);
    out->finished_ns = to_host_ns(&map, end_ns);
    return TD_OK;
}

/* ---------------------------------------------------------------- life */

void td_queue_start(td_queue *queue)
{
    td_condition_open(&queue->changed);
    pthread_mutex_init(&queue->mutex, NULL);
    queue->ready = true;
}

void td_queue_stop(td_queue *queue)
{
    if (!queue || !queue->ready) return;
    if (td_queue_finish(queue) != TD_OK) td_queue_drain(queue);
    pthread_mutex_lock(&queue->mutex);
    queue->stop = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    if (queue->has_thread) pthread_join(queue->thread, NULL);
    drop_deferred(queue);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->mutex);
    queue->ready = false;
}
