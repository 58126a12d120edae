/* Channels (src/device/channel.c) between every two devices, a device and itself among them, by every path
 * that the two can use: sizes from a word to megabytes, several slots and sends in flight, reuse by points
 * alone, accounts, refusals, and damage that verification must find.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/backend.h"
#include "support.h"

#define LARGEST_BYTES (UINT64_C(5) * 1000 * 1000 + 4)

static const uint64_t SIZES[] = {4, 1020, 65536, 65540, 3333332, LARGEST_BYTES};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };

/* A small chunk, so that a send goes round the ring several times. */
static const td_channel_options SMALL_RING = {.path = TD_PATH_RING, .ring_chunks = 2, .chunk_bytes = 1 << 18};

static bool is_host_cpu(const bed *b, size_t i)
{
    const td_device_info *info = td_device_get_info(b->device[i]);
    return info->type == TD_DEVICE_CPU && info->caps.host_import;
}

static bool share_a_context(const bed *b, size_t i, size_t j)
{
    return i == j || (b->device[i]->share_group && b->device[i]->share_group == b->device[j]->share_group);
}

/* Written from the description in channel.h, not from the code. */
static bool can_use(const bed *b, size_t i, size_t j, td_path path)
{
    switch (path) {
    case TD_PATH_ALIAS:
        return i == j;
    case TD_PATH_SHARED:
        return i != j && is_host_cpu(b, i) && is_host_cpu(b, j);
    case TD_PATH_DEVICE:
        return share_a_context(b, i, j);
    case TD_PATH_DIRECT:
        return i != j && (is_host_cpu(b, i) || is_host_cpu(b, j));
    default:
        return true;
    }
}

static td_path best_path(const bed *b, size_t i, size_t j)
{
    td_path path = TD_PATH_ALIAS;
    while (!can_use(b, i, j, path))
        path++;
    return path;
}

static td_channel *new_channel(const bed *b, size_t i, size_t j, uint64_t slot_bytes,
                               td_channel_options options)
{
    td_channel *channel = NULL;
    check(td_channel_create(b->memory[i], b->memory[j], slot_bytes, &options, &channel));
    return channel;
}

/* Random words into the first bytes of a slot's source. */
static void load_slot(const bed *b, size_t i, const td_channel *channel, uint32_t slot, uint64_t bytes,
                      uint64_t stream, uint32_t *words)
{
    fill_words(words, bytes / 4, stream);
    write_span(b, i, td_span_part(td_channel_source(channel, slot), 0, bytes), words);
}

static void expect_slot(const bed *b, size_t j, const td_channel *channel, uint32_t slot, uint64_t bytes,
                        const uint32_t *words)
{
    uint32_t *got = malloc(bytes);
    assert_non_null(got);
    read_span(b, j, td_span_part(td_channel_destination(channel, slot), 0, bytes), got);
    assert_memory_equal(got, words, bytes);
    free(got);
}

static td_point send(td_channel *channel, uint32_t slot, uint64_t bytes, td_point ready, td_point consumed)
{
    td_point arrived = {0};
    check(td_channel_send(channel, slot, bytes, ready, consumed, &arrived));
    return arrived;
}

/* ---------------------------------------------------------------- bytes, by every path */

static void send_every_size(const bed *b, size_t i, size_t j, td_channel_options options)
{
    static uint32_t words[LARGEST_BYTES / 4];
    td_channel_stats stats;
    uint64_t payload = 0;
    options.slots = 1;
    td_channel *channel = new_channel(b, i, j, LARGEST_BYTES, options);
    assert_int_equal(td_channel_get_path(channel), options.path);
    for (size_t s = 0; s < N_SIZES; s++) {
        load_slot(b, i, channel, 0, SIZES[s], s, words);
        await(send(channel, 0, SIZES[s], (td_point){0}, (td_point){0}));
        expect_slot(b, j, channel, 0, SIZES[s], words);
        check(td_channel_verify(channel, 0));
        payload += SIZES[s];
    }
    td_channel_get_stats(channel, &stats);
    assert_int_equal(stats.sends, N_SIZES);
    assert_int_equal(stats.payload_bytes, payload);
    const bool moves = options.path != TD_PATH_ALIAS && options.path != TD_PATH_SHARED;
    const uint64_t hops = options.path == TD_PATH_RING ? 2 : 1;
    assert_true(moves ? stats.copied_bytes >= hops * payload : stats.copied_bytes == 0);
    td_channel_destroy(channel);
}

static void try_every_path(const bed *b, size_t i, size_t j)
{
    for (td_path path = TD_PATH_ALIAS; path < TD_PATH_COUNT; path++) {
        td_channel_options options = {.path = path};
        td_channel *channel = NULL;
        if (!can_use(b, i, j, path)) {
            refuse(TD_ERR_UNSUPPORTED, td_path_name(path),
                   td_channel_create(b->memory[i], b->memory[j], 4096, &options, &channel));
            assert_null(channel);
            continue;
        }
        send_every_size(b, i, j, options);
    }
    send_every_size(b, i, j, SMALL_RING);
}

static void test_every_path_of_every_pair(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (is_new_pair(&b, i, j) && announce_pair(&b, i, j)) try_every_path(&b, i, j);
        }
    }
    bed_close(&b);
}

/* A device like a GPU that can import: the ring's memory is one block for both. Without, bytes are moved once
 * more on the host. */
static void test_the_ring_with_and_without_import(void **state)
{
    (void)state;
    static const char *const MODELS[] = {"host_import=0", "host_import=1", "copy_queue=0"};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++) {
        bed b;
        bed_open(&b, MODELS[m]);
        print_message("    %s\n", MODELS[m]);
        for (size_t i = 0; i < b.n_real; i++) {
            td_channel_stats stats;
            send_every_size(&b, i, b.sim, SMALL_RING);
            send_every_size(&b, b.sim, i, SMALL_RING);
            td_channel *channel = new_channel(&b, i, b.sim, MIB, SMALL_RING);
            await(send(channel, 0, MIB, (td_point){0}, (td_point){0}));
            td_channel_get_stats(channel, &stats);
            assert_int_equal(stats.copied_bytes, m == 1 ? 2 * MIB : 3 * MIB);
            td_channel_destroy(channel);
        }
        bed_close(&b);
    }
}

static void test_the_path_chosen(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count && announce_pair(&b, i, j); j++) {
            td_channel_stats stats;
            td_channel *channel = new_channel(&b, i, j, LARGEST_BYTES, (td_channel_options){0});
            const td_path path = td_channel_get_path(channel);
            assert_int_equal(path, best_path(&b, i, j));
            await(send(channel, 1, LARGEST_BYTES, (td_point){0}, (td_point){0})); /* two slots by default */
            check(td_channel_verify(channel, 1));
            td_channel_get_stats(channel, &stats);
            if (i < b.n_real && j < b.n_real && i != j) { /* two CPU drivers: nothing is copied */
                assert_int_equal(path, TD_PATH_SHARED);
                assert_int_equal(stats.copied_bytes, 0);
                assert_ptr_equal(td_span_host(td_channel_source(channel, 1)),
                                 td_span_host(td_channel_destination(channel, 1)));
            } else if ((i < b.n_real) !=
                       (j < b.n_real)) { /* a CPU driver and something like a GPU: one hop */
                assert_int_equal(path, TD_PATH_DIRECT);
                assert_true(stats.copied_bytes >= LARGEST_BYTES &&
                            stats.copied_bytes < LARGEST_BYTES + 65536);
            }
            td_channel_destroy(channel);
        }
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- many in flight */

enum { SLOTS = 4, ROUNDS = 6, STREAM_WORDS = 50021 };

/* Lists that put `word` all over a slot's source, and that carry its destination to a place of its own. */
static td_list *make_producer(const bed *b, size_t i, td_span source, uint32_t word)
{
    td_list *list = new_list(b->device[i], TD_QUEUE_COMPUTE);
    check(td_list_fill(list, source, word));
    check(td_list_finish(list));
    return list;
}

static td_list *make_consumer(const bed *b, size_t j, td_span into, td_span destination)
{
    td_list *list = new_list(b->device[j], TD_QUEUE_COMPUTE);
    check(td_list_copy(list, into, destination));
    check(td_list_finish(list));
    return list;
}

/* Producer and consumer run freely, joined by points alone; every message must come whole and in its turn. */
static void stream_through(const bed *b, size_t i, size_t j, td_channel_options options)
{
    const uint64_t bytes = 4 * STREAM_WORDS;
    td_list *lists[2 * SLOTS * ROUNDS];
    td_span results[SLOTS * ROUNDS];
    td_point consumed[SLOTS] = {{0}};
    options.slots = SLOTS;
    td_channel *channel = new_channel(b, i, j, bytes, options);
    for (uint32_t k = 0; k < SLOTS * ROUNDS; k++) {
        const uint32_t slot = k % SLOTS;
        results[k] = take(b->memory[j], TD_MEMORY_DEVICE, bytes);
        lists[2 * k] = make_producer(b, i, td_channel_source(channel, slot), 1000 + k);
        lists[2 * k + 1] = make_consumer(b, j, results[k], td_channel_destination(channel, slot));
    }
    for (uint32_t k = 0; k < SLOTS * ROUNDS; k++) {
        const uint32_t slot = k % SLOTS;
        td_queue *producer = td_device_queue(b->device[i], TD_QUEUE_COMPUTE);
        td_queue *consumer = td_device_queue(b->device[j], TD_QUEUE_COMPUTE);
        const td_point free_again = td_channel_reusable(channel, slot, consumed[slot]);
        const td_point ready = submit(producer, lists[2 * k], &free_again, 1);
        const td_point arrived = send(channel, slot, bytes, ready, consumed[slot]);
        consumed[slot] = submit(consumer, lists[2 * k + 1], &arrived, 1);
    }
    for (int slot = 0; slot < SLOTS; slot++)
        await(consumed[slot]);
    static uint32_t got[STREAM_WORDS];
    for (uint32_t k = 0; k < SLOTS * ROUNDS; k++) {
        read_span(b, j, results[k], got);
        for (uint32_t w = 0; w < STREAM_WORDS; w++) {
            if (got[w] != 1000 + k) fail_msg("word %u of message %u is %u", w, k, got[w]);
        }
        td_memory_free(b->memory[j], results[k]);
        td_list_destroy(lists[2 * k]);
        td_list_destroy(lists[2 * k + 1]);
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        check(td_channel_verify(channel, slot));
    td_channel_destroy(channel);
}

static void test_streams_between_every_pair(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (!is_new_pair(&b, i, j)) continue;
            announce_pair(&b, i, j);
            for (td_path path = TD_PATH_ALIAS; path < TD_PATH_COUNT; path++) {
                if (can_use(&b, i, j, path)) stream_through(&b, i, j, (td_channel_options){.path = path});
            }
            stream_through(
                &b, i, j, (td_channel_options){.path = TD_PATH_RING, .ring_chunks = 1, .chunk_bytes = 65536});
        }
    }
    bed_close(&b);
}

/* Drivers that are given no host memory in place, as those of GPUs: the ring, or one context. */
static void test_between_devices_as_gpus(void **state)
{
    (void)state;
    bed b;
    bed_open_real(&b, BED_AS_GPUS);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count && announce_pair(&b, i, j); j++) {
            td_channel *channel = new_channel(&b, i, j, 4096, (td_channel_options){0});
            const td_path path = td_channel_get_path(channel);
            assert_int_equal(path, i == j                      ? TD_PATH_ALIAS
                                   : share_a_context(&b, i, j) ? TD_PATH_DEVICE
                                                               : TD_PATH_RING);
            td_channel_destroy(channel);
            try_every_path(&b, i, j);
            stream_through(&b, i, j, (td_channel_options){.path = TD_PATH_RING});
        }
    }
    bed_close(&b);
}

/* A send is done after both of its points, however slow either is. */
static void test_sends_wait_for_producer_and_consumer(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, "latency_us=50000");
    for (size_t i = 0; i < b.n_real; i++) {
        for (size_t j = 0; j < b.n_real && announce_pair(&b, i, j); j++) {
            for (td_path path = TD_PATH_DEVICE; path < TD_PATH_COUNT; path++) {
                if (!can_use(&b, i, j, path)) continue;
                td_channel *channel = new_channel(&b, i, j, MIB, (td_channel_options){.path = path});
                for (int which = 0; which < 2; which++) {
                    const td_point slow =
                        submit(td_device_queue(b.device[b.sim], TD_QUEUE_COMPUTE), NULL, NULL, 0);
                    const td_point none = {0};
                    bool reached = false;
                    await(send(channel, 0, MIB, which ? slow : none, which ? none : slow));
                    check(td_point_poll(slow, &reached));
                    assert_true(reached);
                }
                td_channel_destroy(channel);
            }
        }
    }
    bed_close(&b);
}

/* Slots share the ring: sends of several slots, started together, must not meet in a chunk. */
static void test_slots_keep_apart(void **state)
{
    (void)state;
    enum { MANY = 16, WORDS = 30011 };
    static uint32_t words[MANY][WORDS];
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (!is_new_pair(&b, i, j)) continue;
            announce_pair(&b, i, j);
            td_channel_options options = SMALL_RING;
            options.slots = MANY;
            td_channel *channel = new_channel(&b, i, j, sizeof words[0], options);
            td_point arrived[MANY];
            for (uint32_t s = 0; s < MANY; s++)
                load_slot(&b, i, channel, s, sizeof words[s], 100 + s, words[s]);
            for (uint32_t s = 0; s < MANY; s++)
                arrived[s] = send(channel, s, sizeof words[s], (td_point){0}, (td_point){0});
            for (uint32_t s = MANY; s-- > 0;) {
                await(arrived[s]);
                expect_slot(&b, j, channel, s, sizeof words[s], words[s]);
            }
            td_channel_destroy(channel);
        }
    }
    bed_close(&b);
}

/* ---------------------------------------------------------------- damage */

static void overwrite_word(const bed *b, size_t j, td_span span, uint64_t offset)
{
    uint32_t word = 0;
    const td_span part = td_span_part(span, offset, 4);
    read_span(b, j, part, &word);
    word ^= 1;
    if (td_span_host(part)) {
        memcpy(td_span_host(part), &word, 4);
    } else {
        write_span(b, j, part, &word);
    }
}

/* One bit anywhere in what was sent is found, one behind it is not looked at. Ends that are one block cannot
 * differ. */
static void test_damage_is_found(void **state)
{
    (void)state;
    const uint64_t sent = 300000;
    static uint32_t words[400000 / 4];
    size_t through_host = 0;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (!is_new_pair(&b, i, j)) continue;
            announce_pair(&b, i, j);
            const td_channel_options paths[] = {{.path = TD_PATH_RING},
                                                {.path = i != j ? best_path(&b, i, j) : TD_PATH_DEVICE}};
            for (int p = 0; p < 2; p++) {
                if (paths[p].path == TD_PATH_SHARED) continue;
                td_channel *channel = new_channel(&b, i, j, sizeof words, paths[p]);
                const td_span end = td_channel_destination(channel, 0);
                load_slot(&b, i, channel, 0, sizeof words, 1, words);
                await(send(channel, 0, sent, (td_point){0}, (td_point){0}));
                overwrite_word(&b, j, end, sent); /* behind */
                check(td_channel_verify(channel, 0));
                static const uint64_t PLACES[] = {0, 150000, 299996};
                for (int place = 0; place < 3; place++) {
                    overwrite_word(&b, j, end, PLACES[place]);
                    refuse(TD_ERR_INTEGRITY, "slot 0|300000 bytes|hash", td_channel_verify(channel, 0));
                    overwrite_word(&b, j, end, PLACES[place]);
                    check(td_channel_verify(channel, 0));
                }
                through_host += td_span_host(end) != NULL;
                td_channel_destroy(channel);
            }
        }
    }
    assert_true(b.n_real == 0 || through_host > 0);
    bed_close(&b);
}

/* ---------------------------------------------------------------- refusals, accounts, failure */

static void test_wrong_arguments(void **state)
{
    (void)state;
    bed b;
    td_channel *channel = NULL;
    td_point arrived = {0};
    const td_point none = {0};
    bed_open(&b, NULL);
    td_memory *source = b.memory[b.sim];
    td_memory *destination = b.memory[b.sim + 1];
    refuse(TD_ERR_ARGUMENT, "0 bytes", td_channel_create(source, destination, 0, NULL, &channel));
    refuse(TD_ERR_ARGUMENT, "6 bytes", td_channel_create(source, destination, 6, NULL, &channel));
    refuse(TD_ERR_ARGUMENT, "ring of 9",
           td_channel_create(source, destination, 8, &(td_channel_options){.ring_chunks = 9}, &channel));
    assert_null(channel);
    td_channel_destroy(NULL);
    check(td_channel_create(source, destination, 4096, NULL, &channel));
    refuse(TD_ERR_ARGUMENT, "slot 2", td_channel_send(channel, 2, 4, none, none, &arrived));
    refuse(TD_ERR_ARGUMENT, "0 bytes", td_channel_send(channel, 0, 0, none, none, &arrived));
    refuse(TD_ERR_ARGUMENT, "4100 bytes", td_channel_send(channel, 0, 4100, none, none, &arrived));
    refuse(TD_ERR_ARGUMENT, "before anything was sent", td_channel_verify(channel, 0));
    refuse(TD_ERR_ARGUMENT, "slot 7", td_channel_verify(channel, 7));
    td_channel_destroy(channel);
    for (int path = 0; path < TD_PATH_COUNT; path++)
        assert_true(td_path_name((td_path)path)[0] != '\0');
    assert_string_equal(td_path_name(TD_PATH_COUNT), "unknown");
    bed_close(&b);
}

static uint64_t held_bytes(const bed *b, size_t i)
{
    td_memory_stats stats;
    td_memory_get_stats(b->memory[i], &stats);
    return stats.reserved_bytes + stats.host_bytes + stats.imported_bytes;
}

static void test_memory_is_charged_and_given_back(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; i++) {
        for (size_t j = 0; j < b.count; j++) {
            if (!is_new_pair(&b, i, j)) continue;
            announce_pair(&b, i, j);
            for (td_path path = TD_PATH_ALIAS; path < TD_PATH_COUNT; path++) {
                if (!can_use(&b, i, j, path)) continue;
                td_channel *channel = new_channel(&b, i, j, 2 * MIB, (td_channel_options){.path = path});
                assert_true(held_bytes(&b, i) >= 4 * MIB); /* two slots */
                assert_true(held_bytes(&b, j) >= 4 * MIB);
                td_channel_destroy(channel);
                assert_int_equal(held_bytes(&b, i) + held_bytes(&b, j), 0);
            }
        }
    }
    bed_close(&b);
}

/* A role's limit is told, whichever end it is, and nothing stays taken. */
static void test_a_limit_too_small(void **state)
{
    (void)state;
    bed b;
    td_channel *channel = NULL;
    td_memory *tight = NULL;
    const td_channel_options ring = {.path = TD_PATH_RING};
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count && announce(&b, i); i++) {
        const size_t other = (i + 1) % b.count;
        check(td_memory_create(b.device[i], "model", MIB, &tight));
        refuse(TD_ERR_LIMIT, "model role|limit of 1 MiB",
               td_channel_create(tight, b.memory[other], 4 * MIB, &ring, &channel));
        refuse(TD_ERR_LIMIT, "model role|limit of 1 MiB",
               td_channel_create(b.memory[other], tight, 4 * MIB, &ring, &channel));
        assert_null(channel);
        assert_int_equal(held_bytes(&b, other), 0);
        td_memory_destroy(tight);
    }
    bed_close(&b);
}

/* A send behind a producer that fails is cancelled; nothing hangs, also when it is destroyed at once. */
static void test_sends_behind_a_lost_device(void **state)
{
    (void)state;
    bed probe;
    bed_open(&probe, NULL);
    const size_t n_real = probe.n_real;
    bed_close(&probe);
    for (size_t i = 0; i < n_real; i++) {
        bed b;
        bed_open(&b, "latency_us=1000000,lose_submit=2");
        announce_pair(&b, i, b.sim + 1);
        td_queue *producer = td_device_queue(b.device[b.sim], TD_QUEUE_COMPUTE);
        const td_point ready = submit(producer, NULL, NULL, 0);
        td_channel *channel = new_channel(&b, i, b.sim + 1, MIB, (td_channel_options){.path = TD_PATH_RING});
        td_point arrived = send(channel, 0, MIB, ready, (td_point){0});
        refuse(TD_ERR_DEVICE_LOST, "", td_queue_submit(producer, &(td_submission){0}, NULL));
        refuse(TD_ERR_CANCELLED, "simulated device 0", td_point_wait(arrived, PATIENCE_NS));
        refuse(TD_ERR_CANCELLED, "", td_channel_verify(channel, 0));
        td_channel_destroy(channel);
        bed_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_path_of_every_pair),
        cmocka_unit_test(test_the_ring_with_and_without_import),
        cmocka_unit_test(test_the_path_chosen),
        cmocka_unit_test(test_streams_between_every_pair),
        cmocka_unit_test(test_between_devices_as_gpus),
        cmocka_unit_test(test_sends_wait_for_producer_and_consumer),
        cmocka_unit_test(test_slots_keep_apart),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_memory_is_charged_and_given_back),
        cmocka_unit_test(test_a_limit_too_small),
        cmocka_unit_test(test_sends_behind_a_lost_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
