/* The simulated device: bytes are true, times follow the model, waiting is free, faults come where the script
 * says, and a wrong model string is refused. Through the public interface alone. Times are checked strictly
 * from below and loosely from above, because the computer may be busy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "device/dispatch.h"
#include "tandem/device.h"
#include "tandem/memory.h"
#include "tandem/queue.h"

#define MS UINT64_C(1000000)
#define BUSY_MS 2000 /* how late a busy computer may be */

enum { DEVICES = 2 };

typedef struct bench {
    td_registry *registry;
    td_device *device[DEVICES];
    td_memory *memory[DEVICES];
    td_queue *compute[DEVICES], *copy[DEVICES];
} bench;

/* ---------------------------------------------------------------- helpers */

static void check(td_status status)
{
    if (status != TD_OK) print_error("%s: %s\n", td_status_name(status), td_error_last()->message);
    assert_int_equal(status, TD_OK);
}

static td_status open_registry(const char *model, td_registry **out)
{
    const td_registry_options options = {
        .sim_model = model,
        .cache_dir = "/dev/null/nowhere",
        .opencl_library = "/dev/null/nowhere",
        .vulkan_library = "/dev/null/nowhere",
    };
    return td_registry_open(&options, out);
}

static bench set_up(const char *model)
{
    bench b = {0};
    const td_device_info *infos[DEVICES];
    check(open_registry(model, &b.registry));
    check(td_registry_select(b.registry, "sim", &infos[0]));
    check(td_registry_select(b.registry, "sim:1", &infos[1]));
    check(td_devices_open(b.registry, infos, DEVICES, b.device));
    for (int i = 0; i < DEVICES; ++i) {
        check(td_memory_create(b.device[i], i ? "model" : "data", 0, &b.memory[i]));
        b.compute[i] = td_device_queue(b.device[i], TD_QUEUE_COMPUTE);
        b.copy[i] = td_device_queue(b.device[i], TD_QUEUE_COPY);
    }
    return b;
}

static void tear_down(bench *b)
{
    for (int i = 0; i < DEVICES; ++i) {
        td_memory_destroy(b->memory[i]);
        td_device_close(b->device[i]);
    }
    td_registry_close(b->registry);
}

static td_span take(td_memory *memory, td_memory_kind kind, uint64_t bytes)
{
    td_span span;
    check(td_memory_alloc(memory, kind, bytes, &span));
    return span;
}

static td_point submit(td_queue *queue, td_list *list, const td_point *waits, size_t n_waits)
{
    td_point reached;
    const td_submission submission = {.list = list, .waits = waits, .n_waits = n_waits};
    check(td_queue_submit(queue, &submission, &reached));
    return reached;
}

/* A finished list of one copy. */
static td_list *make_copy(td_device *device, td_span to, td_span from)
{
    td_list *list;
    check(td_list_create(device, TD_QUEUE_COPY, &list));
    check(td_list_copy(list, to, from));
    check(td_list_finish(list));
    return list;
}

/* A finished list of one kernel that costs `flops` and would fill `span`. */
static td_list *make_dispatch(td_device *device, td_span span, double flops)
{
    td_list *list;
    const td_fill_params params = {.n = (uint32_t)(span.bytes / 4), .word = 0xFFFFFFFFu};
    check(td_list_create(device, TD_QUEUE_COMPUTE, &list));
    check(td_list_dispatch(list, TD_K_fill, &span, &params,
                           td_grid_elements(td_device_class(device), params.n), (td_cost){.flops = flops}));
    check(td_list_finish(list));
    return list;
}

static td_times times_of(td_point point)
{
    td_times times;
    check(td_point_times(point, &times));
    return times;
}

static void assert_took(td_times times, uint64_t least_ns)
{
    assert_true(times.submitted_ns <= times.started_ns);
    assert_true(times.finished_ns - times.started_ns >= least_ns);
    assert_true(times.finished_ns - times.started_ns <= least_ns + BUSY_MS * MS);
}

/* ---------------------------------------------------------------- bytes */

static void test_bytes_are_true(void **state)
{
    (void)state;
    enum { WORDS = 12345, FROM = 100, TO = 356 };
    const uint64_t bytes = WORDS * 4;
    bench b = set_up(NULL);
    td_span in = take(b.memory[0], TD_MEMORY_HOST, bytes), out = take(b.memory[1], TD_MEMORY_HOST, bytes);
    td_span first = take(b.memory[0], TD_MEMORY_DEVICE, bytes);
    td_span second = take(b.memory[1], TD_MEMORY_DEVICE, bytes);
    uint32_t *sent = td_span_host(in), *got = td_span_host(out);
    assert_null(td_span_host(first));
    for (uint32_t i = 0; i < WORDS; ++i)
        sent[i] = td_rng_u32(7, 0, i);
    memset(got, 0xAA, bytes);

    td_list *upload, *across;
    check(td_list_create(b.device[0], TD_QUEUE_COPY, &upload));
    check(td_list_copy(upload, first, in));
    check(td_list_fill(upload, td_span_part(first, FROM * 4, (TO - FROM) * 4), 0xC0FFEE11u));
    check(td_list_finish(upload));
    check(td_list_create(b.device[1], TD_QUEUE_COPY, &across));
    check(td_list_copy(across, second, first));
    check(td_list_copy(across, out, second));
    check(td_list_finish(across));

    td_point loaded = submit(b.copy[0], upload, NULL, 0);
    check(td_point_wait(submit(b.copy[1], across, &loaded, 1), TD_WAIT_FOREVER));
    for (uint32_t i = 0; i < WORDS; ++i)
        assert_int_equal(got[i], i >= FROM && i < TO ? 0xC0FFEE11u : td_rng_u32(7, 0, i));
    td_list_destroy(upload);
    td_list_destroy(across);
    tear_down(&b);
}

static void test_host_memory_in_place(void **state)
{
    (void)state;
    enum { BYTES = 8192 };
    bench b = set_up("host_import=1");
    unsigned char *block = aligned_alloc(4096, BYTES);
    assert_non_null(block);
    memset(block, 1, BYTES);
    td_span span;
    check(td_memory_import(b.memory[0], block, BYTES, &span));
    assert_ptr_equal(td_span_host(span), block);
    td_list *list;
    check(td_list_create(b.device[0], TD_QUEUE_COPY, &list));
    check(td_list_fill(list, td_span_part(span, 4096, 4), 0x55555555u));
    check(td_list_finish(list));
    check(td_point_wait(submit(b.copy[0], list, NULL, 0), TD_WAIT_FOREVER));
    assert_int_equal(block[4095], 1);
    assert_int_equal(block[4096], 0x55);
    assert_int_equal(block[4100], 1);
    td_list_destroy(list);
    td_memory_free(b.memory[0], span);
    free(block);
    tear_down(&b);
}

static void test_abilities_follow_the_model(void **state)
{
    (void)state;
    bench b = set_up("memory_mb=256,max_alloc_mb=512,binding_mb=32,copy_queue=0,gflops=7,gbps=9");
    const td_device_info *info = td_device_get_info(b.device[1]);
    assert_int_equal(info->type, TD_DEVICE_SIM);
    assert_int_equal(info->ordinal, 1);
    assert_int_equal(info->caps.memory_bytes, UINT64_C(256) << 20);
    assert_int_equal(info->caps.max_alloc_bytes, UINT64_C(256) << 20); /* no more than all of it */
    assert_int_equal(info->caps.max_binding_bytes, UINT64_C(32) << 20);
    assert_false(info->caps.host_import);
    assert_true(info->caps.estimated_gflops == 7 && info->caps.estimated_gbps == 9);
    assert_ptr_equal(b.copy[0], b.compute[0]);
    assert_int_equal(td_device_class(b.device[0]), TD_CLASS_GPU);
    tear_down(&b);
}

/* ---------------------------------------------------------------- time */

static void test_copies_take_their_time(void **state)
{
    (void)state;
    const uint64_t bytes = 4 << 20;
    bench b = set_up("copy_gbps=0.1,gbps=0.4,latency_us=0");
    td_span host = take(b.memory[0], TD_MEMORY_HOST, bytes);
    td_span one = take(b.memory[0], TD_MEMORY_DEVICE, bytes),
            two = take(b.memory[0], TD_MEMORY_DEVICE, bytes);
    memset(td_span_host(host), 0, bytes);
    td_list *upload = make_copy(b.device[0], one, host), *inside = make_copy(b.device[0], two, one);

    const uint64_t begin_ns = td_clock_ns();
    td_point uploaded = submit(b.copy[0], upload, NULL, 0);
    td_point moved = submit(b.copy[0], inside, NULL, 0);
    check(td_point_wait(moved, TD_WAIT_FOREVER));
    const uint64_t end_ns = td_clock_ns();

    td_times up = times_of(uploaded), in = times_of(moved);
    assert_took(up, bytes * 10); /* 0.1 bytes per ns */
    assert_took(in, bytes * 5);  /* read and written: twice at 0.4 */
    assert_true(in.started_ns >= up.finished_ns);
    assert_true(begin_ns <= up.submitted_ns && in.finished_ns <= end_ns);
    td_list_destroy(upload);
    td_list_destroy(inside);
    tear_down(&b);
}

static void test_kernels_take_time_and_compute_nothing(void **state)
{
    (void)state;
    bench b = set_up("gflops=2,latency_us=1000");
    td_span host = take(b.memory[0], TD_MEMORY_HOST, 4096);
    memset(td_span_host(host), 0x11, 4096);
    td_list *list = make_dispatch(b.device[0], host, 40e6);
    td_point done = submit(b.compute[0], list, NULL, 0);
    check(td_point_wait(done, TD_WAIT_FOREVER));
    assert_took(times_of(done), 22 * MS); /* 20 ms of arithmetic, latency of submission and command */
    for (int i = 0; i < 4096; ++i)
        assert_int_equal(((unsigned char *)td_span_host(host))[i], 0x11);
    td_list_destroy(list);
    tear_down(&b);
}

static void test_queues_overlap(void **state)
{
    (void)state;
    bench b = set_up("latency_us=100000");
    td_point points[4];
    for (int i = 0; i < DEVICES; ++i) {
        points[2 * i] = submit(b.compute[i], NULL, NULL, 0);
        points[2 * i + 1] = submit(b.copy[i], NULL, NULL, 0);
    }
    uint64_t last_start = 0, first_end = UINT64_MAX;
    for (int i = 0; i < 4; ++i) {
        check(td_point_wait(points[i], TD_WAIT_FOREVER));
        const td_times times = times_of(points[i]);
        assert_took(times, 100 * MS);
        if (times.started_ns > last_start) last_start = times.started_ns;
        if (times.finished_ns < first_end) first_end = times.finished_ns;
    }
    assert_true(last_start < first_end);
    tear_down(&b);
}

static void test_waiting_burns_no_core(void **state)
{
    (void)state;
    bench b = set_up("latency_us=1000000");
    const uint64_t cpu_ns = td_clock_cpu_ns();
    td_point first = submit(b.compute[0], NULL, NULL, 0);
    td_point second = submit(b.compute[1], NULL, &first, 1);
    assert_int_equal(td_point_wait(second, 10 * MS), TD_ERR_TIMEOUT);
    check(td_point_wait(first, TD_WAIT_FOREVER));
    assert_took(times_of(first), 1000 * MS);
    assert_true(td_clock_cpu_ns() - cpu_ns < 50 * MS);
    check(td_point_wait(second, TD_WAIT_FOREVER));
    assert_true(times_of(second).started_ns >= times_of(first).finished_ns);
    tear_down(&b);
}

enum { DRAWS = 6 };

static void measure_draws(const char *model, uint64_t out[DRAWS])
{
    bench b = set_up(model);
    td_point points[DRAWS];
    for (int i = 0; i < DRAWS; ++i)
        points[i] = submit(b.compute[0], NULL, NULL, 0);
    for (int i = 0; i < DRAWS; ++i) {
        check(td_point_wait(points[i], TD_WAIT_FOREVER));
        const td_times times = times_of(points[i]);
        out[i] = times.finished_ns - times.started_ns;
        assert_true(out[i] >= 10 * MS);
    }
    tear_down(&b);
}

static int count_equal(const uint64_t a[DRAWS], const uint64_t b[DRAWS])
{
    int equal = 0;
    for (int i = 0; i < DRAWS; ++i)
        equal += a[i] == b[i];
    return equal;
}

/* A draw is exact to the nanosecond unless the computer was too busy to keep the modelled time. */
static void test_jitter_repeats(void **state)
{
    (void)state;
    uint64_t a[DRAWS], again[DRAWS], other[DRAWS];
    measure_draws("latency_us=20000,jitter=0.5,seed=42", a);
    measure_draws("latency_us=20000,jitter=0.5,seed=42", again);
    measure_draws("latency_us=20000,jitter=0.5,seed=43", other);
    assert_true(count_equal(a, again) >= DRAWS / 2);
    assert_int_equal(count_equal(a, other), 0);
    assert_true(a[0] != a[1] && a[1] != a[2]);
}

static void test_many_submissions(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    bench b = set_up("latency_us=0");
    td_span span = take(b.memory[0], TD_MEMORY_DEVICE, 64);
    td_list *list = make_dispatch(b.device[0], span, 0);
    td_point first = submit(b.compute[0], list, NULL, 0), last = first;
    for (int i = 0; i < COUNT; ++i)
        last = submit(b.compute[0], list, NULL, 0);
    check(td_point_wait(last, TD_WAIT_FOREVER));
    assert_int_equal(last.value, COUNT + 1);
    td_times times;
    assert_int_equal(td_point_times(first, &times), TD_ERR_NOT_FOUND);
    times_of((td_point){last.queue, last.value - 255});
    td_list_destroy(list);
    tear_down(&b);
}

/* ---------------------------------------------------------------- faults */

static void test_memory_is_limited(void **state)
{
    (void)state;
    bench b = set_up("memory_mb=100,max_alloc_mb=60");
    td_span span, other;
    check(td_memory_alloc(b.memory[0], TD_MEMORY_DEVICE, UINT64_C(60) << 20, &span));
    assert_int_equal(td_memory_alloc(b.memory[0], TD_MEMORY_DEVICE, UINT64_C(60) << 20, &other),
                     TD_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(td_error_last()->message, "memory_mb"));
    check(td_memory_alloc(b.memory[1], TD_MEMORY_DEVICE, UINT64_C(60) << 20, &other)); /* has its own */
    td_memory_free(b.memory[0], span);
    check(td_memory_alloc(b.memory[0], TD_MEMORY_DEVICE, UINT64_C(60) << 20, &span));
    tear_down(&b);
}

static void test_fail_alloc(void **state)
{
    (void)state;
    const uint64_t more_than_a_chunk = UINT64_C(65) << 20;
    bench b = set_up("fail_alloc=2");
    td_span span;
    check(td_memory_alloc(b.memory[0], TD_MEMORY_DEVICE, 4096, &span));
    assert_int_equal(td_memory_alloc(b.memory[1], TD_MEMORY_DEVICE, more_than_a_chunk, &span),
                     TD_ERR_DEVICE_MEMORY);
    assert_string_equal(td_error_last()->native, "SIM_OUT_OF_MEMORY");
    check(td_memory_alloc(b.memory[1], TD_MEMORY_DEVICE, more_than_a_chunk, &span));
    tear_down(&b);
}

/* A device that refuses a whole chunk is asked for what is needed. */
static void test_refused_chunk_shrinks(void **state)
{
    (void)state;
    bench b = set_up("fail_alloc=1");
    td_span span;
    td_memory_stats stats;
    check(td_memory_alloc(b.memory[0], TD_MEMORY_DEVICE, 4096, &span));
    td_memory_get_stats(b.memory[0], &stats);
    assert_int_equal(stats.reserved_bytes, 4096);
    tear_down(&b);
}

static void test_fail_compile(void **state)
{
    (void)state;
    bench b = set_up("fail_compile=1");
    td_span span = take(b.memory[0], TD_MEMORY_DEVICE, 4096);
    td_list *list;
    check(td_list_create(b.device[0], TD_QUEUE_COPY, &list));
    check(td_list_fill(list, span, 0));
    assert_int_equal(td_list_finish(list), TD_ERR_BUILD);
    td_list_destroy(list);
    list = make_dispatch(b.device[0], span, 0);
    td_list_destroy(list);
    tear_down(&b);
}

static void test_fail_wait(void **state)
{
    (void)state;
    bench b = set_up("fail_wait=2,latency_us=500000");
    check(td_point_wait(submit(b.copy[0], NULL, NULL, 0), TD_WAIT_FOREVER));
    td_point point = submit(b.compute[0], NULL, NULL, 0);
    const uint64_t begin_ns = td_clock_ns();
    assert_int_equal(td_point_wait(point, TD_WAIT_FOREVER), TD_ERR_DRIVER);
    assert_int_equal(td_point_wait(point, TD_WAIT_FOREVER), TD_ERR_DRIVER);
    assert_true(td_clock_ns() - begin_ns < 400 * MS);
    assert_false(td_device_is_lost(b.device[0]));
    assert_int_equal(td_queue_submit(b.compute[0], &(td_submission){0}, NULL), TD_ERR_DRIVER);
    submit(b.copy[0], NULL, NULL, 0); /* the other queue goes on */
    tear_down(&b);
}

static void test_lost_device(void **state)
{
    (void)state;
    bench b = set_up("lose_submit=4,latency_us=700000");
    const uint64_t begin_ns = td_clock_ns();
    td_point queued = submit(b.compute[0], NULL, NULL, 0), behind = submit(b.compute[0], NULL, NULL, 0);
    td_point waiting = submit(b.compute[1], NULL, &queued, 1);
    assert_int_equal(td_queue_submit(b.copy[0], &(td_submission){0}, NULL), TD_ERR_DEVICE_LOST);
    assert_non_null(strstr(td_error_last()->message, td_device_get_info(b.device[0])->name));
    assert_true(td_device_is_lost(b.device[0]));
    assert_int_equal(td_point_wait(queued, TD_WAIT_FOREVER), TD_ERR_DEVICE_LOST);
    assert_int_equal(td_point_wait(behind, TD_WAIT_FOREVER), TD_ERR_DEVICE_LOST);
    assert_int_equal(td_queue_submit(b.compute[0], &(td_submission){0}, NULL), TD_ERR_DEVICE_LOST);
    assert_int_equal(td_point_wait(waiting, TD_WAIT_FOREVER), TD_ERR_CANCELLED);
    assert_true(td_clock_ns() - begin_ns < 600 * MS);
    assert_false(td_device_is_lost(b.device[1]));
    td_point apart = submit(b.copy[1], NULL, NULL, 0);
    check(td_point_wait(apart, TD_WAIT_FOREVER));
    tear_down(&b);
}

static void test_wrong_models_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *says;
    } WRONG[] = {
        {"gflop=3", "'gflops'"},
        {"latency=3", "no key 'latency'"},
        {"gbps=3,copy_gpbs=4", "'copy_gbps'"},
        {"gflops", "'gflops' is not key=value"},
        {"gflops=", "gflops="},
        {"gflops=fast", "gflops=fast"},
        {"gflops=-1", "gflops=-1"},
        {"gflops=nan", "gflops=nan"},
        {"gflops=0", "gflops=0"},
        {"jitter=1.5", "between 0 and 1"},
        {"copy_queue=2", "between 0 and 1"},
        {"memory_mb=1.5", "whole number"},
        {"memory_mb=0", "memory_mb=0"},
        {"seed=1,seed=2", "seed is given twice"},
        {"gbps=3,", "''"},
        {",", "''"},
        {"gbps = 3", "'gbps'"},
        {"gflops=0000000000000000000000000000000000000000000000000000000000001", "too long"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; ++i) {
        td_registry *registry = NULL;
        assert_int_equal(open_registry(WRONG[i].model, &registry), TD_ERR_CONFIG);
        assert_null(registry);
        if (!strstr(td_error_last()->message, WRONG[i].says)) fail_msg("%s", td_error_last()->message);
    }
    bench b = set_up("");
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_true),
        cmocka_unit_test(test_host_memory_in_place),
        cmocka_unit_test(test_abilities_follow_the_model),
        cmocka_unit_test(test_copies_take_their_time),
        cmocka_unit_test(test_kernels_take_time_and_compute_nothing),
        cmocka_unit_test(test_queues_overlap),
        cmocka_unit_test(test_waiting_burns_no_core),
        cmocka_unit_test(test_jitter_repeats),
        cmocka_unit_test(test_many_submissions),
        cmocka_unit_test(test_memory_is_limited),
        cmocka_unit_test(test_fail_alloc),
        cmocka_unit_test(test_refused_chunk_shrinks),
        cmocka_unit_test(test_fail_compile),
        cmocka_unit_test(test_fail_wait),
        cmocka_unit_test(test_lost_device),
        cmocka_unit_test(test_wrong_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
