/* Command lists (src/device/list.c) on every device: what is refused and with which status, where barriers
 * and submission boundaries fall, and that replaying a list does the same each time. Barriers and segments
 * are read from the inside.
 */
#include <stdlib.h>
#include <string.h>

#include "device/backend.h"
#include "support.h"

/* ---------------------------------------------------------------- what is refused */

/* Two blocks of the device under test, and one of a device that shares nothing with it. */
typedef struct stage {
    td_device *device;
    td_list *list;
    td_span a, b, foreign;
} stage;

static stage set_stage(const bed *b, size_t i, td_queue_kind kind)
{
    stage s = {.device = b->device[i], .list = new_list(b->device[i], kind)};
    s.a = take(b->memory[i], TD_MEMORY_DEVICE, 4096);
    s.b = take(b->memory[i], TD_MEMORY_HOST, 4096);
    for (size_t j = 0; j < b->count; j++) {
        const void *group = b->device[j]->share_group;
        if (i != j && (!group || group != s.device->share_group)) {
            s.foreign = take(b->memory[j], TD_MEMORY_DEVICE, 4096);
        }
    }
    assert_non_null(s.foreign.buffer);
    return s;
}

static void refuse_copies(const stage *s)
{
    const td_span none = {0};
    const td_span past = {s->a.buffer, s->a.buffer->bytes - 16, 32};
    const td_span far = {s->a.buffer, UINT64_MAX - 3, 8};
    td_list *list = s->list;
    refuse(TD_ERR_ARGUMENT, "destination|empty", td_list_copy(list, none, s->a));
    refuse(TD_ERR_ARGUMENT, "source|empty", td_list_copy(list, s->a, none));
    refuse(TD_ERR_ARGUMENT, "empty", td_list_copy(list, td_span_part(s->a, 0, 0), td_span_part(s->b, 0, 0)));
    refuse(TD_ERR_ARGUMENT, "destination|of a buffer of",
           td_list_copy(list, past, td_span_part(s->b, 0, 32)));
    refuse(TD_ERR_ARGUMENT, "source", td_list_copy(list, td_span_part(s->b, 0, 8), far));
    refuse(TD_ERR_ARGUMENT, "source|channel", td_list_copy(list, s->a, s->foreign));
    refuse(TD_ERR_ARGUMENT, "destination|channel", td_list_copy(list, s->foreign, s->a));
    refuse(TD_ERR_ARGUMENT, "words",
           td_list_copy(list, td_span_part(s->a, 2, 64), td_span_part(s->b, 0, 64)));
    refuse(TD_ERR_ARGUMENT, "source|words",
           td_list_copy(list, td_span_part(s->a, 0, 64), td_span_part(s->b, 1, 64)));
    refuse(TD_ERR_ARGUMENT, "words",
           td_list_copy(list, td_span_part(s->a, 0, 63), td_span_part(s->b, 0, 63)));
    refuse(TD_ERR_ARGUMENT, "64|128",
           td_list_copy(list, td_span_part(s->a, 0, 128), td_span_part(s->b, 0, 64)));
    refuse(TD_ERR_ARGUMENT, "overlap", td_list_copy(list, s->a, s->a));
    refuse(TD_ERR_ARGUMENT, "overlap",
           td_list_copy(list, td_span_part(s->a, 0, 64), td_span_part(s->a, 60, 64)));
}

static void refuse_fills(const stage *s)
{
    const td_span past = {s->a.buffer, s->a.buffer->bytes, 4};
    refuse(TD_ERR_ARGUMENT, "empty", td_list_fill(s->list, (td_span){0}, 0));
    refuse(TD_ERR_ARGUMENT, "fill", td_list_fill(s->list, past, 0));
    refuse(TD_ERR_ARGUMENT, "channel", td_list_fill(s->list, s->foreign, 0));
    refuse(TD_ERR_ARGUMENT, "words", td_list_fill(s->list, td_span_part(s->a, 2, 4), 0));
    refuse(TD_ERR_ARGUMENT, "words", td_list_fill(s->list, td_span_part(s->a, 0, 6), 0));
}

static td_status dispatch_fill(td_list *list, td_span span, td_grid grid)
{
    const td_fill_params params = {.n = 1};
    return td_list_dispatch(list, TD_K_fill, &span, &params, grid, (td_cost){0});
}

static void refuse_dispatches(const stage *s)
{
    const td_device_caps *caps = &td_device_get_info(s->device)->caps;
    const td_grid one = {1, 1, 1};
    const uint32_t most = caps->max_group_count;
    td_list *list = s->list;
    refuse(TD_ERR_LIMIT, "fill|0 x 1 x 1", dispatch_fill(list, s->a, (td_grid){0, 1, 1}));
    refuse(TD_ERR_LIMIT, "fill|1 x 0 x 1", dispatch_fill(list, s->a, (td_grid){1, 0, 1}));
    refuse(TD_ERR_LIMIT, "fill|1 x 1 x 0", dispatch_fill(list, s->a, (td_grid){1, 1, 0}));
    if (most < UINT32_MAX) {
        refuse(TD_ERR_LIMIT, "fill", dispatch_fill(list, s->a, (td_grid){most + 1, 1, 1}));
        refuse(TD_ERR_LIMIT, "fill", dispatch_fill(list, s->a, (td_grid){1, most + 1, 1}));
        refuse(TD_ERR_LIMIT, "fill", dispatch_fill(list, s->a, (td_grid){1, 1, most + 1}));
    }
    refuse(TD_ERR_ARGUMENT, "buffer 0 of kernel fill|empty", dispatch_fill(list, (td_span){0}, one));
    refuse(TD_ERR_ARGUMENT, "buffer 0 of kernel fill|channel", dispatch_fill(list, s->foreign, one));
    if (caps->offset_align > 4) {
        refuse(TD_ERR_ARGUMENT, "buffer 0 of kernel fill|multiples of",
               dispatch_fill(list, td_span_part(s->a, 4, 64), one));
    }
    const td_copy_params params = {.n = 1};
    const td_span spans[] = {s->a, {0}};
    refuse(TD_ERR_ARGUMENT, "buffer 1 of kernel copy|empty",
           td_list_dispatch(list, TD_K_copy, spans, &params, one, (td_cost){0}));
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const stage s = set_stage(&b, i, TD_QUEUE_COMPUTE);
        refuse_copies(&s);
        refuse_fills(&s);
        refuse_dispatches(&s);
        assert_int_equal(s.list->n_commands, 0); /* nothing wrong was recorded, and the list still works */
        check(td_list_fill(s.list, s.a, 7));
        run_once(s.device, TD_QUEUE_COMPUTE, s.list);
        td_list_destroy(s.list);
    }
    bed_close(&b);
}

static void test_wrong_order_of_calls(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    td_list_destroy(NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const stage s = set_stage(&b, i, TD_QUEUE_COPY);
        const td_submission submission = {.list = s.list};
        td_queue *copy = td_device_queue(s.device, TD_QUEUE_COPY);
        td_queue *compute = td_device_queue(s.device, TD_QUEUE_COMPUTE);
        td_point point = {copy, 99};
        if (td_device_get_info(s.device)->caps.copy_queue) {
            refuse(TD_ERR_ARGUMENT, "fill|copy queue", dispatch_fill(s.list, s.a, (td_grid){1, 1, 1}));
        } else {
            assert_ptr_equal(copy, compute);
        }
        check(td_list_fill(s.list, s.a, 1));
        refuse(TD_ERR_ARGUMENT, "td_list_finish", td_queue_submit(copy, &submission, &point));
        assert_null(point.queue);
        check(td_list_finish(s.list));
        refuse(TD_ERR_ARGUMENT, "twice", td_list_finish(s.list));
        refuse(TD_ERR_ARGUMENT, "finished", td_list_fill(s.list, s.a, 2));
        refuse(TD_ERR_ARGUMENT, "finished", td_list_copy(s.list, s.a, s.b));
        assert_int_equal(s.list->n_commands, 1);
        if (copy != compute)
            refuse(TD_ERR_ARGUMENT, "copy queue|compute queue", td_queue_submit(compute, &submission, NULL));
        td_queue *other = td_device_queue(s.foreign.buffer->device, TD_QUEUE_COPY);
        refuse(TD_ERR_ARGUMENT, "submitted to", td_queue_submit(other, &submission, NULL));
        await(submit(copy, s.list, NULL, 0));
        td_list_destroy(s.list);
    }
    bed_close(&b);
}

/* A kernel's argument may cover only so much, whatever the buffer's size. */
static void test_binding_limit(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, "binding_mb=1");
    const td_span most = take(b.memory[b.sim], TD_MEMORY_DEVICE, MIB);
    const td_span more = {most.buffer, most.offset, most.bytes + 4};
    const stage s = {.device = b.device[b.sim], .list = new_list(b.device[b.sim], TD_QUEUE_COMPUTE)};
    td_buffer *buffer = most.buffer;
    buffer->bytes += 4; /* as if memory.c cut larger chunks */
    refuse(TD_ERR_LIMIT, "buffer 0 of kernel fill|1048580|split",
           dispatch_fill(s.list, more, (td_grid){1, 1, 1}));
    buffer->bytes -= 4;
    check(dispatch_fill(s.list, most, (td_grid){1, 1, 1}));
    td_list_destroy(s.list);
    bed_close(&b);
}

/* ---------------------------------------------------------------- barriers and segments */

static void test_barriers(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span x = take(b.memory[i], TD_MEMORY_DEVICE, 4096);
        const td_span y = take(b.memory[i], TD_MEMORY_DEVICE, 4096);
        const td_span z = take(b.memory[i], TD_MEMORY_DEVICE, 4096);
        const td_span sum[] = {x, y, z};
        const td_add_params params = {.n = 1024};
        td_list *list = new_list(b.device[i], TD_QUEUE_COMPUTE);
        check(td_list_fill(list, td_span_part(x, 0, 2048), 0x3f800000u));
        check(td_list_fill(list, td_span_part(x, 2048, 2048), 0x40000000u)); /* beside it */
        record_fill_kernel(list, b.device[i], y, 0x40400000u, 0);            /* another range */
        check(td_list_dispatch(list, TD_K_add, sum, &params,
                               td_grid_elements(td_device_class(b.device[i]), 1024), (td_cost){0}));
        check(td_list_fill(list, y, 0));                                               /* write after read */
        check(td_list_copy(list, td_span_part(x, 0, 1024), td_span_part(z, 0, 1024))); /* settled already */
        check(td_list_copy(list, td_span_part(y, 0, 4), td_span_part(x, 1020, 4)));    /* read after write */
        check(td_list_finish(list));
        static const bool EXPECTED[] = {false, false, false, true, true, false, true};
        for (size_t c = 0; c < list->n_commands; c++)
            assert_int_equal(list->commands[c].barrier_before, EXPECTED[c]);
        assert_int_equal(list->n_barriers, 3);
        assert_int_equal(list->n_segments, 1);
        await(submit(td_device_queue(b.device[i], TD_QUEUE_COMPUTE), list, NULL, 0));
        float got[1024];
        read_span(&b, i, z, got);
        for (int e = 0; i < b.n_real && e < 1024; e++)
            assert_true(got[e] == (e < 512 ? 4.0f : 5.0f));
        read_span(&b, i, x, got);
        for (int e = 0; i < b.n_real && e < 256; e++)
            assert_true(got[e] == 4.0f);
        td_list_destroy(list);
    }
    bed_close(&b);
}

/* How many segments `count` kernels of so many milliseconds each make. */
static size_t count_segments(const bed *b, size_t i, td_span span, int count, double each_ms)
{
    const double flops = each_ms * 1e6 * td_device_get_info(b->device[i])->caps.estimated_gflops;
    td_list *list = new_list(b->device[i], TD_QUEUE_COMPUTE);
    for (int k = 0; k < count; k++)
        record_fill_kernel(list, b->device[i], span, (uint32_t)k, flops);
    check(td_list_finish(list));
    const size_t segments = list->n_segments;
    size_t starts = 0;
    double longest_ns = 0;
    double segment_ns = 0;
    for (size_t c = 0; c < list->n_commands; c++) {
        const td_command *command = &list->commands[c];
        starts += command->starts_segment;
        segment_ns = command->starts_segment ? command->cost_ns : segment_ns + command->cost_ns;
        if (segment_ns > longest_ns) longest_ns = segment_ns;
    }
    assert_int_equal(starts + 1, segments);
    if (each_ms < 200) assert_true(longest_ns <= 250e6);
    if (i < b->n_real) { /* it only looks long, and it works in pieces too */
        uint32_t word = 0;
        await(submit(td_device_queue(b->device[i], TD_QUEUE_COMPUTE), list, NULL, 0));
        read_span(b, i, td_span_part(span, span.bytes - 4, 4), &word);
        assert_int_equal(word, count - 1);
    }
    td_list_destroy(list);
    return segments;
}

static void test_long_lists_are_split(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span span = take(b.memory[i], TD_MEMORY_DEVICE, 4096);
        assert_true(td_device_get_info(b.device[i])->caps.estimated_gflops > 0);
        assert_true(td_device_get_info(b.device[i])->caps.estimated_gbps > 0);
        assert_int_equal(count_segments(&b, i, span, 10, 100), 5);
        assert_int_equal(count_segments(&b, i, span, 2, 100), 1);
        assert_int_equal(count_segments(&b, i, span, 3, 1000), 3); /* a kernel cannot be cut */
        assert_int_equal(count_segments(&b, i, span, 200, 0), 1);
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- bytes */

static void test_copies_and_fills_touch_their_words_only(void **state)
{
    (void)state;
    enum { WORDS = 4096 };
    static const struct {
        uint32_t to, from, words; /* of a copy, then a fill behind it */
    } RANGES[] = {{0, 0, 1}, {1, 3, 1}, {63, 65, 129}, {1000, 1, 997}, {WORDS - 1, 0, 1}, {0, 0, WORDS}};
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span from = take(b.memory[i], TD_MEMORY_DEVICE, 4 * WORDS);
        const td_span to = take(b.memory[i], TD_MEMORY_DEVICE, 4 * WORDS);
        for (size_t r = 0; r < sizeof RANGES / sizeof *RANGES; r++) {
            static uint32_t source[WORDS], target[WORDS], got[WORDS];
            fill_words(source, WORDS, 1);
            fill_words(target, WORDS, 2);
            write_span(&b, i, from, source);
            write_span(&b, i, to, target);
            td_list *list = new_list(b.device[i], TD_QUEUE_COPY);
            check(td_list_copy(list, td_span_part(to, 4 * RANGES[r].to, 4 * RANGES[r].words),
                               td_span_part(from, 4 * RANGES[r].from, 4 * RANGES[r].words)));
            check(td_list_fill(list, td_span_part(from, 4 * RANGES[r].to, 4 * RANGES[r].words), 0xFEDCBA98u));
            run_once(b.device[i], TD_QUEUE_COPY, list);
            td_list_destroy(list);
            memcpy(target + RANGES[r].to, source + RANGES[r].from, 4 * RANGES[r].words);
            read_span(&b, i, to, got);
            assert_memory_equal(got, target, sizeof got);
            for (uint32_t w = 0; w < RANGES[r].words; w++)
                source[RANGES[r].to + w] = 0xFEDCBA98u;
            read_span(&b, i, from, got);
            assert_memory_equal(got, source, sizeof got);
        }
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- replay */

enum { REPLAYS = 100 };

static void replay(td_device *device, td_queue_kind kind, td_list *list)
{
    td_point last = {0};
    check(td_list_finish(list));
    for (int r = 0; r < REPLAYS; r++)
        last = submit(td_device_queue(device, kind), list, NULL, 0);
    await(last);
    assert_int_equal(list->last_use.value, last.value);
}

/* x += y, y unchanged: a hundred replays count to a hundred, on every element of a size that is awkward. */
static void test_replaying_a_sum(void **state)
{
    (void)state;
    enum { N = 10007 };
    static float got[N];
    bed b;
    bed_open_real(&b, BED_AS_IS);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span x = take(b.memory[i], TD_MEMORY_DEVICE, sizeof got);
        const td_span y = take(b.memory[i], TD_MEMORY_DEVICE, sizeof got);
        const td_span sum[] = {x, y, x};
        const td_add_params params = {.n = N};
        td_list *list = new_list(b.device[i], TD_QUEUE_COMPUTE);
        td_list *clear = new_list(b.device[i], TD_QUEUE_COMPUTE);
        check(td_list_fill(clear, x, 0));
        run_once(b.device[i], TD_QUEUE_COMPUTE, clear);
        record_fill_kernel(list, b.device[i], y, 0x3f800000u, 0); /* 1.0f */
        check(td_list_dispatch(list, TD_K_add, sum, &params,
                               td_grid_elements(td_device_class(b.device[i]), N), (td_cost){0}));
        replay(b.device[i], TD_QUEUE_COMPUTE, list);
        read_span(&b, i, x, got);
        for (int e = 0; e < N; e++)
            assert_true(got[e] == (float)REPLAYS);
        td_list_destroy(clear);
        td_list_destroy(list);
    }
    bed_close(&b);
}

/* Three blocks change places through a fourth: every copy depends on the one before. */
static void test_replaying_a_rotation(void **state)
{
    (void)state;
    enum { WORDS = 5003 };
    static uint32_t blocks[3][WORDS], got[WORDS];
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_span span[4];
        for (int s = 0; s < 4; s++)
            span[s] = take(b.memory[i], s == 1 ? TD_MEMORY_HOST : TD_MEMORY_DEVICE, sizeof got);
        for (int s = 0; s < 3; s++) {
            fill_words(blocks[s], WORDS, (uint64_t)s);
            write_span(&b, i, span[s], blocks[s]);
        }
        td_list *list = new_list(b.device[i], TD_QUEUE_COPY);
        check(td_list_copy(list, span[3], span[0]));
        check(td_list_copy(list, span[0], span[1]));
        check(td_list_copy(list, span[1], span[2]));
        check(td_list_copy(list, span[2], span[3]));
        replay(b.device[i], TD_QUEUE_COPY, list);
        assert_int_equal(list->n_barriers, 3);
        for (int s = 0; s < 3; s++) {
            read_span(&b, i, span[s], got);
            assert_memory_equal(got, blocks[(s + REPLAYS) % 3], sizeof got);
        }
        td_list_destroy(list);
    }
    bed_close(&b);
}

/* An empty list is legal; a list may be destroyed right after it was submitted. */
static void test_odd_lives(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_span span = take(b.memory[i], TD_MEMORY_DEVICE, MIB);
        td_list *empty = new_list(b.device[i], TD_QUEUE_COMPUTE);
        run_once(b.device[i], TD_QUEUE_COMPUTE, empty);
        td_list_destroy(empty);
        td_list *never_finished = new_list(b.device[i], TD_QUEUE_COMPUTE);
        check(td_list_fill(never_finished, span, 1));
        td_list_destroy(never_finished);
        for (uint32_t r = 0; r < 20; r++) {
            td_list *list = new_list(b.device[i], TD_QUEUE_COMPUTE);
            check(td_list_fill(list, span, r));
            check(td_list_finish(list));
            submit(td_device_queue(b.device[i], TD_QUEUE_COMPUTE), list, NULL, 0);
            td_list_destroy(list);
        }
        uint32_t last = 0;
        read_span(&b, i, td_span_part(span, MIB - 4, 4), &last);
        assert_int_equal(last, 19);
    }
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_wrong_order_of_calls),
        cmocka_unit_test(test_binding_limit),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_long_lists_are_split),
        cmocka_unit_test(test_copies_and_fills_touch_their_words_only),
        cmocka_unit_test(test_replaying_a_sum),
        cmocka_unit_test(test_replaying_a_rotation),
        cmocka_unit_test(test_odd_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
