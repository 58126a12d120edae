/* Memory of a role (src/device/memory.c): random taking and giving back against a model, accounts to the
 * byte, limits and their messages, chunks given back, host memory in place. Through the public interface; the
 * sizes of chunks are read from the inside.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"
#include "device/backend.h"
#include "support.h"

static uint64_t alignment_of(const td_device *device)
{
    const uint32_t own = td_device_get_info(device)->caps.offset_align;
    return own > 256 ? own : 256;
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

static td_memory_stats stats_of(const td_memory *memory)
{
    td_memory_stats stats;
    td_memory_get_stats(memory, &stats);
    return stats;
}

static td_memory *new_memory(td_device *device, uint64_t limit_bytes)
{
    td_memory *memory = NULL;
    check(td_memory_create(device, "data", limit_bytes, &memory));
    return memory;
}

/* ---------------------------------------------------------------- random, against a model */

enum { MAX_LIVE = 64 };

typedef struct live_span {
    td_span span;
    td_memory_kind kind;
    uint32_t mark; /* what its words hold, where the host can see them */
} live_span;

typedef struct model {
    td_memory *memory;
    uint64_t align;
    live_span live[MAX_LIVE];
    size_t count;
    uint64_t used_bytes, peak_used_bytes;
    uint64_t draws;
} model;

static uint64_t draw(model *m, uint64_t bound)
{
    return td_rng_below(11, 0, m->draws++, bound);
}

/* Small ones mostly, some of megabytes. */
static uint64_t draw_size(model *m)
{
    const uint64_t order = draw(m, 10);
    if (order < 5) return 1 + draw(m, 700);
    if (order < 9) return 1 + draw(m, 100 << 10);
    return 1 + draw(m, 3 << 20);
}

/* Every 61st word and the last: enough to see one block reach into another. */
static uint64_t next_marked(uint64_t word, uint64_t words)
{
    return word + 61 < words || word + 1 >= words ? word + 61 : words - 1;
}

static void mark_words(const live_span *l)
{
    uint32_t *words = td_span_host(l->span);
    const uint64_t n = words ? l->span.bytes / 4 : 0;
    for (uint64_t i = 0; i < n; i = next_marked(i, n))
        words[i] = l->mark;
}

static void check_words(const live_span *l)
{
    const uint32_t *words = td_span_host(l->span);
    const uint64_t n = words ? l->span.bytes / 4 : 0;
    for (uint64_t i = 0; i < n; i = next_marked(i, n)) {
        if (words[i] != l->mark) fail_msg("a block was overwritten by another");
    }
}

static void check_apart(const model *m, td_span span)
{
    assert_int_equal(span.offset % m->align, 0);
    assert_true(span.offset + round_up(span.bytes, m->align) <= span.buffer->bytes);
    for (size_t i = 0; i < m->count; i++) {
        const td_span other = m->live[i].span;
        assert_true(other.buffer != span.buffer || other.offset + other.bytes <= span.offset ||
                    span.offset + span.bytes <= other.offset);
    }
}

static void take_one(model *m)
{
    live_span l = {.kind = draw(m, 4) ? TD_MEMORY_DEVICE : TD_MEMORY_HOST, .mark = (uint32_t)m->draws};
    const uint64_t bytes = draw_size(m);
    const td_memory_stats before = stats_of(m->memory);
    const td_status status = td_memory_alloc(m->memory, l.kind, bytes, &l.span);
    if (status == TD_ERR_LIMIT) {
        const td_memory_stats after = stats_of(m->memory);
        assert_memory_equal(&before, &after, sizeof before);
        assert_true(round_up(bytes, m->align) + before.reserved_bytes > before.limit_bytes);
        return;
    }
    check(status);
    assert_int_equal(l.span.bytes, bytes);
    assert_int_equal(l.span.buffer->kind, l.kind);
    assert_true((td_span_host(l.span) != NULL) == (l.kind == TD_MEMORY_HOST));
    check_apart(m, l.span);
    mark_words(&l);
    m->live[m->count++] = l;
    if (l.kind == TD_MEMORY_DEVICE) m->used_bytes += round_up(bytes, m->align);
    if (m->used_bytes > m->peak_used_bytes) m->peak_used_bytes = m->used_bytes;
}

static void give_one_back(model *m)
{
    const size_t i = (size_t)draw(m, m->count);
    check_words(&m->live[i]);
    if (m->live[i].kind == TD_MEMORY_DEVICE) m->used_bytes -= round_up(m->live[i].span.bytes, m->align);
    td_memory_free(m->memory, m->live[i].span);
    m->live[i] = m->live[--m->count];
}

/* What the chunks of the live spans come to: no chunk is empty, so these are all. */
static uint64_t sum_chunks(const model *m, td_memory_kind kind, uint32_t *chunks)
{
    const td_buffer *seen[MAX_LIVE];
    uint64_t bytes = 0;
    *chunks = 0;
    for (size_t i = 0; i < m->count; i++) {
        const td_buffer *buffer = m->live[i].span.buffer;
        uint32_t k = 0;
        while (k < *chunks && seen[k] != buffer)
            k++;
        if (m->live[i].kind != kind || k < *chunks) continue;
        seen[(*chunks)++] = buffer;
        bytes += buffer->bytes;
    }
    return bytes;
}

static void check_accounts(const model *m)
{
    uint32_t chunks = 0;
    uint32_t host_chunks = 0;
    const td_memory_stats stats = stats_of(m->memory);
    assert_int_equal(stats.used_bytes, m->used_bytes);
    assert_int_equal(stats.peak_used_bytes, m->peak_used_bytes);
    assert_int_equal(stats.reserved_bytes, sum_chunks(m, TD_MEMORY_DEVICE, &chunks));
    assert_int_equal(stats.chunks, chunks);
    assert_int_equal(stats.host_bytes, sum_chunks(m, TD_MEMORY_HOST, &host_chunks));
    assert_true(stats.peak_reserved_bytes >= stats.reserved_bytes);
    assert_true(stats.peak_host_bytes >= stats.host_bytes);
    assert_true(!stats.limit_bytes || stats.peak_reserved_bytes <= stats.limit_bytes);
    assert_int_equal(stats.imported_bytes, 0);
}

static void walk_randomly(td_device *device, uint64_t limit_bytes, int steps)
{
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->memory = new_memory(device, limit_bytes);
    m->align = alignment_of(device);
    for (int step = 0; step < steps; step++) {
        const bool grow = m->count == 0 || (m->count < MAX_LIVE && draw(m, 2));
        if (grow) {
            take_one(m);
        } else {
            give_one_back(m);
        }
        check_accounts(m);
    }
    assert_true(m->peak_used_bytes > MIB);
    while (m->count)
        give_one_back(m);
    check_accounts(m); /* nothing is left */
    td_memory_destroy(m->memory);
    free(m);
}

static void test_random_walk(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++)
        walk_randomly(b.device[i], 24 * MIB + 777, i < b.n_real ? 2000 : 10000);
    walk_randomly(b.device[b.sim], 0, 10000);
    bed_close(&b);
}

/* ---------------------------------------------------------------- limits */

static void test_the_limit_is_named(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_memory *memory = new_memory(b.device[i], 3 * MIB);
        td_span span;
        take(memory, TD_MEMORY_DEVICE, 2 * MIB);
        const td_memory_stats before = stats_of(memory);
        refuse(TD_ERR_LIMIT, "data role|needs 2 MiB|limit of 3 MiB|pipeline.data_gpu_memory",
               td_memory_alloc(memory, TD_MEMORY_DEVICE, 2 * MIB, &span));
        assert_non_null(strstr(td_error_last()->message, td_device_get_info(b.device[i])->name));
        assert_null(span.buffer);
        const td_memory_stats after = stats_of(memory);
        assert_memory_equal(&before, &after, sizeof before);
        take(memory, TD_MEMORY_DEVICE, MIB); /* to the last byte */
        refuse(TD_ERR_LIMIT, "limit", td_memory_alloc(memory, TD_MEMORY_DEVICE, 1, &span));
        take(memory, TD_MEMORY_HOST, 4 * MIB); /* the limit is about the device's memory */
        td_memory_destroy(memory);
    }
    bed_close(&b);
}

/* No block is larger than what one kernel argument may cover. */
static void test_the_largest_block(void **state)
{
    (void)state;
    bed b;
    td_span span;
    bed_open(&b, "max_alloc_mb=96,binding_mb=32");
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_device_caps *caps = &td_device_get_info(b.device[i])->caps;
        const uint64_t most =
            caps->max_binding_bytes < caps->max_alloc_bytes ? caps->max_binding_bytes : caps->max_alloc_bytes;
        char text[TD_TEXT_FORMAT_BYTES];
        td_text_format_bytes(most, text);
        refuse(TD_ERR_LIMIT, text, td_memory_alloc(b.memory[i], TD_MEMORY_DEVICE, most + 1, &span));
        assert_non_null(strstr(td_error_last()->message, "smaller batch"));
        refuse(TD_ERR_LIMIT, "test role",
               td_memory_alloc(b.memory[i], TD_MEMORY_DEVICE, UINT64_C(1) << 60, &span));
        assert_int_equal(stats_of(b.memory[i]).reserved_bytes, 0);
    }
    span = take(b.memory[b.sim], TD_MEMORY_DEVICE, 32 * MIB);
    assert_int_equal(span.buffer->bytes, 32 * MIB);
    take(b.memory[b.sim], TD_MEMORY_DEVICE, 256);
    assert_int_equal(stats_of(b.memory[b.sim]).chunks, 2);
    bed_close(&b);
}

static void test_wrong_sizes(void **state)
{
    (void)state;
    bed b;
    td_span span;
    bed_open(&b, NULL);
    refuse(TD_ERR_ARGUMENT, "0 bytes", td_memory_alloc(b.memory[b.sim], TD_MEMORY_DEVICE, 0, &span));
    refuse(TD_ERR_ARGUMENT, "", td_memory_alloc(b.memory[b.sim], TD_MEMORY_DEVICE, UINT64_MAX, &span));
    td_memory_free(b.memory[b.sim], (td_span){0});
    td_memory_free(NULL, (td_span){0});
    td_memory_destroy(NULL);
    bed_close(&b);
}

/* ---------------------------------------------------------------- chunks */

static void test_chunks_are_given_back(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        td_memory *memory = new_memory(b.device[i], 0);
        const td_span first = take(memory, TD_MEMORY_DEVICE, 1000);
        const td_span second = take(memory, TD_MEMORY_DEVICE, MIB);
        const uint64_t reserved = stats_of(memory).reserved_bytes;
        assert_ptr_equal(first.buffer, second.buffer);
        td_memory_free(memory, first);
        assert_int_equal(stats_of(memory).reserved_bytes, reserved);
        td_memory_free(memory, second);
        assert_int_equal(stats_of(memory).reserved_bytes, 0);
        assert_int_equal(stats_of(memory).chunks, 0);
        assert_int_equal(stats_of(memory).used_bytes, 0);
        assert_int_equal(stats_of(memory).peak_reserved_bytes, reserved);
        td_memory_destroy(memory);
    }
    bed_close(&b);
}

/* Three neighbours, given back in every order, are one range again: the limit leaves no other room. */
static void test_neighbours_are_joined(void **state)
{
    (void)state;
    static const int ORDERS[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    bed b;
    bed_open(&b, NULL);
    for (int order = 0; order < 6; order++) {
        td_memory *memory = new_memory(b.device[b.sim], 4 * 4096);
        td_span span[4];
        for (int i = 0; i < 4; i++)
            span[i] = take(memory, TD_MEMORY_DEVICE, 4096);
        for (int i = 0; i < 3; i++)
            td_memory_free(memory, span[ORDERS[order][i]]);
        const td_span joined = take(memory, TD_MEMORY_DEVICE, 3 * 4096);
        assert_int_equal(joined.offset, span[0].offset);
        assert_int_equal(stats_of(memory).peak_used_bytes, 4 * 4096);
        td_memory_destroy(memory);
    }
    bed_close(&b);
}

/* The smallest hole that fits is taken. */
static void test_best_fit(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    td_memory *memory = new_memory(b.device[b.sim], 8 * 4096);
    td_span span[6];
    static const uint64_t PAGES[6] = {3, 1, 1, 1, 1, 1};
    for (int i = 0; i < 6; i++)
        span[i] = take(memory, TD_MEMORY_DEVICE, PAGES[i] * 4096);
    td_memory_free(memory, span[0]);
    td_memory_free(memory, span[3]);
    assert_int_equal(take(memory, TD_MEMORY_DEVICE, 4000).offset, span[3].offset);
    assert_int_equal(take(memory, TD_MEMORY_DEVICE, 2 * 4096).offset, span[0].offset);
    td_memory_destroy(memory);
    bed_close(&b);
}

/* ---------------------------------------------------------------- host memory in place */

static void test_import(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_device_caps *caps = &td_device_get_info(b.device[i])->caps;
        const uint64_t align = caps->host_import_align;
        td_span span;
        char *block = NULL;
        if (!caps->host_import) {
            refuse(TD_ERR_UNSUPPORTED, "in place", td_memory_import(b.memory[i], &b, 4096, &span));
            continue;
        }
        assert_int_equal(posix_memalign((void **)&block, align > 4096 ? align : 4096, 4 * align), 0);
        memset(block, 0, 4 * align);
        if (align > 1) {
            refuse(TD_ERR_ARGUMENT, "aligned", td_memory_import(b.memory[i], block + 4, align, &span));
            refuse(TD_ERR_ARGUMENT, "aligned", td_memory_import(b.memory[i], block, align + 4, &span));
        }
        refuse(TD_ERR_ARGUMENT, "", td_memory_import(b.memory[i], block, 0, &span));
        assert_null(span.buffer);
        check(td_memory_import(b.memory[i], block, 4 * align, &span));
        assert_ptr_equal(td_span_host(span), block);
        assert_ptr_equal(td_span_host(td_span_part(span, 64, 4)), block + 64);
        td_memory_stats stats = stats_of(b.memory[i]);
        assert_int_equal(stats.imported_bytes, 4 * align);
        assert_int_equal(stats.reserved_bytes, 0);
        td_memory_free(b.memory[i], span);
        assert_int_equal(stats_of(b.memory[i]).imported_bytes, 0);
        free(block);
    }
    bed_close(&b);
}

/* The driver sees what the host wrote, and the host what the driver wrote, with nothing but the wait. */
static void test_imported_bytes_are_shared(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, "host_import=1");
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const td_device_caps *caps = &td_device_get_info(b.device[i])->caps;
        const uint64_t bytes = round_up(8192, caps->host_import_align);
        td_span span;
        uint32_t *block = NULL;
        if (!caps->host_import) continue;
        assert_int_equal(posix_memalign((void **)&block, bytes, bytes), 0);
        fill_words(block, bytes / 4, i);
        const uint32_t first = block[0];
        check(td_memory_import(b.memory[i], block, bytes, &span));
        td_list *list = new_list(b.device[i], TD_QUEUE_COPY);
        check(td_list_copy(list, td_span_part(span, 4096, 4), td_span_part(span, 0, 4)));
        check(td_list_fill(list, td_span_part(span, 0, 8), 0xABCDEF01u));
        run_once(b.device[i], TD_QUEUE_COPY, list);
        assert_int_equal(block[1024], first);
        assert_int_equal(block[0], 0xABCDEF01u);
        assert_int_equal(block[1], 0xABCDEF01u);
        td_list_destroy(list);
        td_memory_free(b.memory[i], span);
        free(block);
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- threads */

static void *take_and_give(void *argument)
{
    td_memory *memory = argument;
    for (int i = 0; i < 2000; i++) {
        td_span a = {0};
        td_span c = {0};
        const td_memory_kind kind = i % 3 ? TD_MEMORY_DEVICE : TD_MEMORY_HOST;
        if (td_memory_alloc(memory, kind, 1 + (uint64_t)i * 37 % 9000, &a) != TD_OK) return argument;
        if (td_memory_alloc(memory, kind, 300, &c) != TD_OK) return argument;
        td_memory_free(memory, a);
        td_memory_free(memory, c);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    bed b;
    pthread_t threads[THREADS];
    bed_open(&b, NULL);
    td_memory *memory = b.memory[b.sim];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, memory), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    const td_memory_stats stats = stats_of(memory);
    assert_int_equal(stats.used_bytes + stats.reserved_bytes + stats.host_bytes + stats.chunks, 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walk),
        cmocka_unit_test(test_the_limit_is_named),
        cmocka_unit_test(test_the_largest_block),
        cmocka_unit_test(test_wrong_sizes),
        cmocka_unit_test(test_chunks_are_given_back),
        cmocka_unit_test(test_neighbours_are_joined),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_import),
        cmocka_unit_test(test_imported_bytes_are_shared),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
