/* Queues and timeline points (src/device/queue.c) on every device and between every two of them: order, waits
 * native and foreign, host tasks, time-outs, waiting that burns no core, failure that travels, times on the
 * host's clock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/backend.h"
#include "support.h"

#define CLOCK_TOLERANCE_NS (2 * MS) /* of a device's clock on the host's */

static td_queue *compute_of(const bed *b, size_t i)
{
    return td_device_queue(b->device[i], TD_QUEUE_COMPUTE);
}

static td_queue *copy_of(const bed *b, size_t i)
{
    return td_device_queue(b->device[i], TD_QUEUE_COPY);
}

static td_point submit_task(td_queue *queue, td_list *list, td_point wait, void (*task)(void *),
                            void *context)
{
    td_point reached = {0};
    const td_submission submission = {
        .list = list, .waits = &wait, .n_waits = 1, .host_task = task, .host_context = context};
    check(td_queue_submit(queue, &submission, &reached));
    return reached;
}

/* ---------------------------------------------------------------- one queue */

/* Each submission moves a mark one block on; only in order does it arrive at the end. */
static void test_a_queue_keeps_order(void **state)
{
    (void)state;
    enum { STEPS = 64, WORDS = 1024 };
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span span = take(b.memory[i], TD_MEMORY_DEVICE, (STEPS + 1) * 4 * WORDS);
        td_list *lists[STEPS + 1];
        td_point points[STEPS + 1];
        uint32_t got[WORDS];
        for (uint64_t s = 0; s <= STEPS; s++) {
            const td_span here = td_span_part(span, s * 4 * WORDS, 4 * WORDS);
            lists[s] = new_list(b.device[i], TD_QUEUE_COMPUTE);
            if (s == 0) {
                check(td_list_fill(lists[s], here, 0xA5A5A5A5u));
            } else {
                check(td_list_copy(lists[s], here, td_span_part(span, (s - 1) * 4 * WORDS, 4 * WORDS)));
            }
            check(td_list_finish(lists[s]));
        }
        for (uint64_t s = 0; s <= STEPS; s++) {
            points[s] = submit(compute_of(&b, i), lists[s], NULL, 0);
            assert_int_equal(points[s].value, points[0].value + s);
        }
        await(points[STEPS]);
        for (uint64_t s = 0; s <= STEPS; s++) {
            bool reached = false;
            check(td_point_poll(points[s], &reached));
            assert_true(reached);
            td_list_destroy(lists[s]);
        }
        read_span(&b, i, td_span_part(span, STEPS * 4 * WORDS, 4 * WORDS), got);
        for (int w = 0; w < WORDS; w++)
            assert_int_equal(got[w], 0xA5A5A5A5u);
    }
    bed_close(&b);
}

typedef struct submitter {
    td_queue *queue;
    uint64_t values[200];
    bool failed;
} submitter;

static void *submit_many(void *argument)
{
    submitter *s = argument;
    for (int i = 0; i < 200; i++) {
        td_point point = {0};
        s->failed |= td_queue_submit(s->queue, &(td_submission){0}, &point) != TD_OK;
        s->values[i] = point.value;
    }
    return NULL;
}

/* Points of one queue are numbered without gaps or doubles, whoever submits. */
static void test_threads_share_a_queue(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        submitter threads[THREADS] = {{0}};
        pthread_t handles[THREADS];
        bool seen[THREADS * 200] = {false};
        const uint64_t before = submit(compute_of(&b, i), NULL, NULL, 0).value;
        for (int t = 0; t < THREADS; t++) {
            threads[t].queue = compute_of(&b, i);
            assert_int_equal(pthread_create(&handles[t], NULL, submit_many, &threads[t]), 0);
        }
        for (int t = 0; t < THREADS; t++)
            pthread_join(handles[t], NULL);
        for (int t = 0; t < THREADS; t++) {
            assert_false(threads[t].failed);
            for (int s = 0; s < 200; s++) {
                const uint64_t place = threads[t].values[s] - before - 1;
                assert_true(place < THREADS * 200 && !seen[place]);
                seen[place] = true;
            }
        }
        check(td_queue_finish(compute_of(&b, i)));
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- host tasks */

typedef struct relay {
    const uint32_t *from; /* what the task finds */
    uint32_t *to;         /* where it puts that plus one */
} relay;

static void pass_on(void *context)
{
    const relay *r = context;
    *r->to = *r->from + 1;
}

/* host: the task's room; device: where the list takes it. A list brings the device's word back to `back`. */
typedef struct station {
    td_span host, device, back;
    td_list *list;
} station;

static station set_up_station(const bed *b, size_t i)
{
    station s = {.host = take(b->memory[i], TD_MEMORY_HOST, 4),
                 .device = take(b->memory[i], TD_MEMORY_DEVICE, 4),
                 .back = take(b->memory[i], TD_MEMORY_HOST, 4),
                 .list = new_list(b->device[i], TD_QUEUE_COMPUTE)};
    *(uint32_t *)td_span_host(s.host) = 0;
    *(uint32_t *)td_span_host(s.back) = 0;
    check(td_list_copy(s.list, s.device, s.host));
    check(td_list_copy(s.list, s.back, s.device));
    check(td_list_finish(s.list));
    return s;
}

/* A token goes round: task adds one to what came back before, the list takes it to the device and back. Any
 * task or list that runs too early or too late breaks the count. */
static void test_host_tasks_run_between_waits_and_list(void **state)
{
    (void)state;
    enum { ROUNDS = 100 };
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        station s = set_up_station(&b, i);
        relay r = {.from = td_span_host(s.back), .to = td_span_host(s.host)};
        td_point last = {0};
        for (int round = 0; round < ROUNDS; round++)
            last = submit_task(compute_of(&b, i), s.list, last, pass_on, &r);
        await(last);
        assert_int_equal(*r.from, ROUNDS);
        td_list_destroy(s.list);
    }
    bed_close(&b);
}

/* The same through a queue that must wait for a slow device first: everything behind is deferred too. */
static void test_work_behind_deferred_work_keeps_order(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, "latency_us=50000");
    for (size_t i = 0; i < b.n_real && announce(&b, i); i++) {
        station s = set_up_station(&b, i);
        const td_span word = s.device;
        td_list *later = new_list(b.device[i], TD_QUEUE_COMPUTE);
        check(td_list_fill(later, word, 77));
        check(td_list_finish(later));
        *(uint32_t *)td_span_host(s.host) = 5;
        const td_point slow = submit(compute_of(&b, b.sim), NULL, NULL, 0);
        const td_point first = submit(compute_of(&b, i), s.list, &slow, 1);
        const td_point second = submit(compute_of(&b, i), later, NULL, 0); /* waits for nothing itself */
        bool reached = true;
        check(td_point_poll(second, &reached));
        assert_false(reached);
        await(second);
        check(td_point_poll(first, &reached));
        assert_true(reached);
        uint32_t got = 0;
        read_span(&b, i, word, &got);
        assert_int_equal(got, 77);
        assert_int_equal(*(uint32_t *)td_span_host(s.back), 5);
        td_list_destroy(s.list);
        td_list_destroy(later);
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- waits between devices */

/* Device i's list brings a word to its host memory; device j's task, waiting for that, finds it there; then
 * j's list takes it on, and i's next round waits for j. */
static void pass_between(const bed *b, size_t i, size_t j)
{
    enum { ROUNDS = 20 };
    station here = set_up_station(b, i);
    station there = set_up_station(b, j);
    relay go = {.from = td_span_host(here.back), .to = td_span_host(there.host)};
    relay come = {.from = td_span_host(there.back), .to = td_span_host(here.host)};
    td_point last = {0};
    for (int round = 0; round < ROUNDS; round++) {
        last = submit_task(compute_of(b, i), here.list, last, pass_on, &come);
        last = submit_task(compute_of(b, j), there.list, last, pass_on, &go);
    }
    await(last);
    assert_int_equal(*come.from, 2 * ROUNDS);
    td_list_destroy(here.list);
    td_list_destroy(there.list);
}

static void test_waits_between_every_pair(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (i != j && announce_pair(&b, i, j)) pass_between(&b, i, j);
        }
    }
    bed_close(&b);
}

/* COMPUTE and COPY of one device: a mark written by one queue is carried on by the other. */
static void test_waits_between_queues_of_a_device(void **state)
{
    (void)state;
    enum { ROUNDS = 50, BYTES = 1 << 18 };
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span one = take(b.memory[i], TD_MEMORY_DEVICE, BYTES);
        const td_span two = take(b.memory[i], TD_MEMORY_DEVICE, BYTES);
        td_point done = {0};
        td_list *lists[2 * ROUNDS];
        for (uint32_t r = 0; r < ROUNDS; r++) {
            lists[2 * r] = new_list(b.device[i], TD_QUEUE_COMPUTE);
            check(td_list_fill(lists[2 * r], one, r));
            check(td_list_finish(lists[2 * r]));
            lists[2 * r + 1] = new_list(b.device[i], TD_QUEUE_COPY);
            check(td_list_copy(lists[2 * r + 1], two, one));
            check(td_list_finish(lists[2 * r + 1]));
            done = submit(compute_of(&b, i), lists[2 * r], &done, 1);
            done = submit(copy_of(&b, i), lists[2 * r + 1], &done, 1);
            if (r % 10 == 9) {
                uint32_t got[2] = {0};
                read_span(&b, i, td_span_part(two, 0, 4), &got[0]);
                read_span(&b, i, td_span_part(two, BYTES - 4, 4), &got[1]);
                assert_true(got[0] == r && got[1] == r);
            }
        }
        await(done);
        for (int r = 0; r < 2 * ROUNDS; r++)
            td_list_destroy(lists[r]);
    }
    bed_close(&b);
}

/* Counts steps; notes if one comes out of turn. */
typedef struct turn {
    atomic_uint *next;
    unsigned own;
    bool wrong;
} turn;

static void take_turn(void *context)
{
    turn *t = context;
    t->wrong = atomic_fetch_add(t->next, 1) != t->own;
}

static void run_chain(const bed *b, bool with_tasks)
{
    enum { LINKS = 1000 };
    static turn turns[LINKS];
    atomic_uint next = 0;
    td_point last = {0};
    for (unsigned k = 0; k < LINKS; k++) {
        td_queue *queue = compute_of(b, k % b->count);
        turns[k] = (turn){.next = &next, .own = k};
        last =
            with_tasks ? submit_task(queue, NULL, last, take_turn, &turns[k]) : submit(queue, NULL, &last, 1);
    }
    await(last);
    for (unsigned k = 0; with_tasks && k < LINKS; k++)
        assert_false(turns[k].wrong);
}

static void test_a_chain_of_a_thousand_waits(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    run_chain(&b, false);
    run_chain(&b, true);
    bed_close(&b);
}

/* More waits than fit a native submission, of all devices at once. */
static void test_many_waits_in_one_submission(void **state)
{
    (void)state;
    enum { WAITS = 40 };
    bed b;
    bed_open(&b, "latency_us=1000");
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_point waits[WAITS] = {{0}};
        for (size_t w = 1; w < WAITS; w++) {
            td_queue *queue = w % 2 ? compute_of(&b, w % b.count) : copy_of(&b, w % b.count);
            waits[w] = submit(queue, NULL, NULL, 0);
        }
        await(submit(compute_of(&b, i), NULL, waits, WAITS));
        for (size_t w = 0; w < WAITS; w++) {
            bool reached = false;
            check(td_point_poll(waits[w], &reached));
            assert_true(reached);
        }
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- polling and time-outs */

static void test_polls_and_timeouts(void **state)
{
    (void)state;
    bed b;
    bool reached = false;
    bed_open(&b, "latency_us=300000");
    check(td_point_wait((td_point){0}, 0));
    check(td_point_poll((td_point){0}, &reached));
    assert_true(reached);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_point slow = submit(compute_of(&b, b.sim), NULL, NULL, 0);
        const td_point behind = submit(copy_of(&b, i), NULL, &slow, 1);
        const td_point points[] = {slow, behind};
        for (int p = 0; p < 2; p++) {
            (void)TD_FAIL(TD_ERR_IO, "an older failure");
            check(td_point_poll(points[p], &reached));
            assert_false(reached);
            assert_int_equal(td_error_last()->status, TD_ERR_IO); /* a poll leaves no record */
            refuse(TD_ERR_TIMEOUT, "the work goes on", td_point_wait(points[p], 0));
            const uint64_t begin_ns = td_clock_ns();
            refuse(TD_ERR_TIMEOUT, "the work goes on", td_point_wait(points[p], 20 * MS));
            assert_true(td_clock_ns() - begin_ns >= 19 * MS);
        }
        await(behind);
        check(td_point_poll(slow, &reached));
        assert_true(reached);
        check(td_point_wait(slow, 0));
    }
    bed_close(&b);
}

static void test_points_that_never_were(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_point last = submit(compute_of(&b, i), NULL, NULL, 0);
        const td_point never = {compute_of(&b, i), last.value + 5};
        bool reached = true;
        refuse(TD_ERR_ARGUMENT, "never handed out", td_point_wait(never, TD_WAIT_FOREVER));
        refuse(TD_ERR_ARGUMENT, "never handed out", td_point_poll(never, &reached));
        assert_false(reached);
        for (size_t j = 0; j < b.count; j++) { /* its own queue, too */
            const td_submission submission = {.waits = &never, .n_waits = 1};
            td_point point = {compute_of(&b, i), 1};
            refuse(TD_ERR_ARGUMENT, "never handed out",
                   td_queue_submit(compute_of(&b, j), &submission, &point));
            assert_null(point.queue);
            await(submit(compute_of(&b, j), NULL, NULL, 0)); /* the queue has not failed by it */
        }
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- waiting costs nothing */

static void test_waiting_burns_no_core(void **state)
{
    (void)state;
    bed b;
    td_point waiting[2 * BED_MAX];
    size_t n = 0;
    bed_open(&b, "latency_us=1000000");
    for (size_t i = 0; i < b.n_real; i++)
        await(submit(compute_of(&b, i), NULL, NULL, 0)); /* first use is paid for */
    const uint64_t cpu_ns = td_clock_cpu_ns();
    const uint64_t begin_ns = td_clock_ns();
    const td_point slow = submit(compute_of(&b, b.sim), NULL, NULL, 0);
    for (size_t i = 0; i < b.n_real; i++) {
        waiting[n] = submit(compute_of(&b, i), NULL, &slow, 1);
        waiting[n + 1] = submit(copy_of(&b, i), NULL, &waiting[n], 1);
        n += 2;
    }
    for (size_t i = 0; i < n; i++)
        await(waiting[i]);
    const uint64_t burnt_ns = td_clock_cpu_ns() - cpu_ns;
    assert_true(td_clock_ns() - begin_ns >= 1000 * MS);
    print_message("    %zu queues waited 1 s, all together for %.1f ms of CPU time\n", n,
                  1e-6 * (double)burnt_ns);
    assert_true(burnt_ns < 50 * MS);
    bed_close(&b);
}

/* ---------------------------------------------------------------- failure */

/* sim:0 is lost while device i waits for it, device j waits for i, and i has more queued. */
static void lose_what_others_wait_for(size_t i, size_t j)
{
    bed b;
    bed_open(&b, "latency_us=2000000,lose_submit=2");
    announce_pair(&b, i, j);
    const td_span word = take(b.memory[i], TD_MEMORY_DEVICE, 4);
    td_list *list = new_list(b.device[i], TD_QUEUE_COMPUTE);
    check(td_list_fill(list, word, 1));
    check(td_list_finish(list));
    const uint64_t begin_ns = td_clock_ns();
    const td_point slow = submit(compute_of(&b, b.sim), NULL, NULL, 0);
    const td_point waiting = submit(compute_of(&b, i), list, &slow, 1);
    const td_point behind = submit(compute_of(&b, i), list, NULL, 0);
    const td_point far = submit(compute_of(&b, j), NULL, &waiting, 1);
    refuse(TD_ERR_DEVICE_LOST, "simulated device 0",
           td_queue_submit(copy_of(&b, b.sim), &(td_submission){0}, NULL));
    assert_true(td_device_is_lost(b.device[b.sim]));
    refuse(TD_ERR_CANCELLED, "simulated device 0", td_point_wait(waiting, PATIENCE_NS));
    refuse(TD_ERR_CANCELLED, "simulated device 0", td_point_wait(behind, PATIENCE_NS));
    refuse(TD_ERR_CANCELLED, "simulated device 0", td_point_wait(far, PATIENCE_NS));
    bool reached = true;
    refuse(TD_ERR_CANCELLED, "", td_point_poll(far, &reached));
    assert_false(reached);
    refuse(TD_ERR_CANCELLED, "", td_queue_submit(compute_of(&b, i), &(td_submission){.list = list}, NULL));
    refuse(TD_ERR_CANCELLED, "", td_queue_finish(compute_of(&b, i)));
    const td_submission late = {.waits = &slow, .n_waits = 1};
    if (copy_of(&b, i) != compute_of(&b, i)) { /* the other queue learns of it when it asks, and works on */
        refuse(TD_ERR_CANCELLED, "simulated device 0", td_queue_submit(copy_of(&b, i), &late, NULL));
        await(submit(copy_of(&b, i), NULL, NULL, 0));
    }
    assert_false(td_device_is_lost(b.device[i]));
    assert_true(td_clock_ns() - begin_ns < 1500 * MS); /* nobody sat the two seconds out */
    td_list_destroy(list);
    bed_close(&b);
}

static void test_failure_travels(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    const size_t n_real = b.n_real;
    bed_close(&b);
    for (size_t i = 0; i < n_real; i++)
        lose_what_others_wait_for(i, (i + 1) % n_real == i ? n_real + 1 : (i + 1) % n_real);
}

static void set_flag(void *context)
{
    *(bool *)context = true;
}

/* The task of a cancelled submission does not run; closing in the middle of it all hangs nowhere. */
static void test_cancelled_tasks_do_not_run(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, "latency_us=2000000,lose_submit=2");
    bool ran[BED_MAX] = {false};
    const td_point slow = submit(compute_of(&b, b.sim), NULL, NULL, 0);
    for (size_t i = 0; i < b.n_real; i++)
        submit_task(compute_of(&b, i), NULL, slow, set_flag, &ran[i]);
    refuse(TD_ERR_DEVICE_LOST, "", td_queue_submit(copy_of(&b, b.sim), &(td_submission){0}, NULL));
    bed_close(&b);
    for (size_t i = 0; i < BED_MAX; i++)
        assert_false(ran[i]);
}

/* ---------------------------------------------------------------- times */

static void assert_between(uint64_t early_ns, uint64_t value_ns, uint64_t late_ns)
{
    assert_true(value_ns + CLOCK_TOLERANCE_NS >= early_ns);
    assert_true(value_ns <= late_ns + CLOCK_TOLERANCE_NS);
}

/* A list that keeps a device busy for a moment. */
static td_list *make_work(const bed *b, size_t i)
{
    const td_span from = take(b->memory[i], TD_MEMORY_DEVICE, 4 * MIB);
    const td_span to = take(b->memory[i], TD_MEMORY_DEVICE, 4 * MIB);
    td_list *list = new_list(b->device[i], TD_QUEUE_COMPUTE);
    check(td_list_fill(list, from, 1));
    check(td_list_copy(list, to, from));
    check(td_list_finish(list));
    return list;
}

static void test_times_lie_on_the_hosts_clock(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_list *list = make_work(&b, i);
        assert_true(td_device_get_info(b.device[i])->caps.timestamps);
        uint64_t last_ns = 0;
        for (int round = 0; round < 10; round++) {
            const uint64_t before_ns = td_clock_ns();
            const td_point done = submit(compute_of(&b, i), list, NULL, 0);
            await(done);
            const uint64_t after_ns = td_clock_ns();
            const td_times times = times_of(done);
            assert_true(before_ns <= times.submitted_ns && times.submitted_ns <= after_ns);
            assert_true(times.started_ns < times.finished_ns);
            assert_between(before_ns, times.started_ns, after_ns);
            assert_between(before_ns, times.finished_ns, after_ns);
            assert_true(times.started_ns + CLOCK_TOLERANCE_NS >= last_ns);
            last_ns = times.finished_ns;
        }
        td_list_destroy(list);
    }
    bed_close(&b);
}

static void test_times_of_two_devices_agree(void **state)
{
    (void)state;
    bed b;
    td_list *lists[BED_MAX];
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++)
        lists[i] = make_work(&b, i);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (i == j) continue;
            announce_pair(&b, i, j);
            const td_point first = submit(compute_of(&b, i), lists[i], NULL, 0);
            const td_point second = submit(compute_of(&b, j), lists[j], &first, 1);
            await(second);
            assert_true(times_of(second).started_ns + CLOCK_TOLERANCE_NS >= times_of(first).finished_ns);
        }
    }
    for (size_t i = 0; i < b.count; i++)
        td_list_destroy(lists[i]);
    bed_close(&b);
}

static void test_times_that_cannot_be_had(void **state)
{
    (void)state;
    bed b;
    td_times times;
    bed_open(&b, "latency_us=100000");
    refuse(TD_ERR_ARGUMENT, "", td_point_times((td_point){0}, &times));
    const td_point slow = submit(compute_of(&b, b.sim), NULL, NULL, 0);
    refuse(TD_ERR_ARGUMENT, "wait for it first", td_point_times(slow, &times));
    for (size_t i = 0; i < b.n_real && announce(&b, i); i++) {
        const td_point first = submit(compute_of(&b, i), NULL, NULL, 0);
        td_point last = first;
        for (int s = 1; s < TD_TIMES_KEPT; s++)
            last = submit(compute_of(&b, i), NULL, NULL, 0);
        await(last);
        times_of(first); /* just kept */
        await(submit(compute_of(&b, i), NULL, NULL, 0));
        refuse(TD_ERR_NOT_FOUND, "last 256", td_point_times(first, &times));
    }
    bed_close(&b);
}

static void test_devices_without_timestamps(void **state)
{
    (void)state;
    const td_device_info *infos[BED_MAX];
    td_device *devices[BED_MAX];
    td_registry *registry = NULL;
    td_registry_options options = options_of_environment();
    size_t n_real = 0;
    options.no_timestamps = true;
    check(td_registry_open(&options, &registry));
    const size_t count = list_devices(registry, infos, &n_real);
    check(td_devices_open(registry, infos, count, devices));
    for (size_t i = 0; i < count; i++) {
        td_times times;
        const td_point done = submit(td_device_queue(devices[i], TD_QUEUE_COMPUTE), NULL, NULL, 0);
        await(done);
        refuse(TD_ERR_UNSUPPORTED, "without timestamps", td_point_times(done, &times));
        td_device_close(devices[i]);
    }
    td_registry_close(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_queue_keeps_order),
        cmocka_unit_test(test_threads_share_a_queue),
        cmocka_unit_test(test_host_tasks_run_between_waits_and_list),
        cmocka_unit_test(test_work_behind_deferred_work_keeps_order),
        cmocka_unit_test(test_waits_between_every_pair),
        cmocka_unit_test(test_waits_between_queues_of_a_device),
        cmocka_unit_test(test_a_chain_of_a_thousand_waits),
        cmocka_unit_test(test_many_waits_in_one_submission),
        cmocka_unit_test(test_polls_and_timeouts),
        cmocka_unit_test(test_points_that_never_were),
        cmocka_unit_test(test_waiting_burns_no_core),
        cmocka_unit_test(test_failure_travels),
        cmocka_unit_test(test_cancelled_tasks_do_not_run),
        cmocka_unit_test(test_times_lie_on_the_hosts_clock),
        cmocka_unit_test(test_times_of_two_devices_agree),
        cmocka_unit_test(test_times_that_cannot_be_had),
        cmocka_unit_test(test_devices_without_timestamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
