/* Channels: how a slot's bytes get from one device to another.
 *
 *   alias    one device             the two ends are one range; nothing moves
 *   shared   CPU driver, CPU driver one host block, used in place by both; nothing moves
 *   device   one context            source ──copy──► destination, inside the driver
 *   direct   CPU driver, any other  host block used in place by the CPU ──copy── pinned memory of the other
 *   ring     any, any               source ──copy──► pinned chunk ──copy──► destination, chunks in rotation
 *
 * A path is a sequence of hops, each a recorded copy on one device's copy queue; hops are joined by
 * timeline points alone, so a send only submits work. Covered by tests/device/test_channel.c.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "device/backend.h"
#include "device/blocking.h"

#define DEFAULT_SLOTS 2u
#define DEFAULT_RING_CHUNKS 3u
#define DEFAULT_CHUNK_BYTES (UINT64_C(4) << 20)
#define SIZE_STEP UINT64_C(65536) /* sends are rounded up to this, so that few lists serve all sizes */
#define MAX_RING 8u

/* A recorded copy: hop number `number` of a slot, at an offset, of so many bytes. Where the destination of a
 * ring could not use the source's pinned memory in place, the second hop first moves the chunk over on the
 * host. */
typedef struct hop {
    uint32_t number, slot;
    uint64_t offset, bytes;
    td_list *list;
    void *move_to; /* NULL: no move */
    const void *move_from;
} hop;

typedef struct channel_slot {
    td_span ends[2]; /* source, destination */
    td_span pinned;  /* direct: the hop's host side */
    void *block;     /* shared: the host block, owned */
    td_point arrived;
    uint64_t sent_bytes;
} channel_slot;

typedef struct owned_span {
    td_memory *memory;
    td_span span;
} owned_span;

struct td_channel {
    td_path path;
    td_memory *ends[2]; /* source, destination */
    uint64_t slot_bytes;
    channel_slot *slots;
    uint32_t n_slots;
    uint32_t n_hops;

    uint32_t ring_chunks;
    uint64_t chunk_bytes;
    td_span ring[2];              /* source's and destination's view of the pinned chunks */
    bool ring_moves;              /* the two views are different memory */
    td_point ring_free[MAX_RING]; /* when chunk i was last read */

    owned_span *owned; /* in order of taking */
    size_t n_owned, owned_capacity;
    hop **hops; /* each owned, so that work under way may point to it */
    size_t n_hops_made, hops_capacity;
    struct {
        atomic_uint_fast64_t sends, payload_bytes, copied_bytes;
    } counts; /* the sender adds, anybody may look */
};

static const char *const PATH_NAMES[TD_PATH_COUNT] = {"auto", "alias", "shared", "device", "direct", "ring"};

const char *td_path_name(td_path path)
{
    return (unsigned)path < TD_PATH_COUNT ? PATH_NAMES[path] : "unknown";
}

/* ---------------------------------------------------------------- choosing a path */

/* The host's memory is this device's memory. */
static bool uses_host_in_place(const td_device *device)
{
    return device->info.type == TD_DEVICE_CPU && device->info.caps.host_import;
}

static bool can_use(td_path path, const td_device *source, const td_device *destination)
{
    switch (path) {
    case TD_PATH_ALIAS:
        return source == destination;
    case TD_PATH_SHARED:
        return source != destination && uses_host_in_place(source) && uses_host_in_place(destination);
    case TD_PATH_DEVICE:
        return source == destination ||
               (source->share_group && source->share_group == destination->share_group);
    case TD_PATH_DIRECT:
        return source != destination && (uses_host_in_place(source) || uses_host_in_place(destination));
    default:
        return true;
    }
}

static td_status choose_path(td_path wanted, const td_device *source, const td_device *destination,
                             td_path *out)
{
    static const td_path BEST_FIRST[] = {TD_PATH_ALIAS, TD_PATH_SHARED, TD_PATH_DEVICE, TD_PATH_DIRECT,
                                         TD_PATH_RING};
    *out = wanted;
    if (wanted == TD_PATH_AUTO) {
        size_t i = 0;
        while (!can_use(BEST_FIRST[i], source, destination))
            i++; /* the ring always can be used */
        *out = BEST_FIRST[i];
        return TD_OK;
    }
    if (can_use(wanted, source, destination)) return TD_OK;
    return TD_FAIL(TD_ERR_UNSUPPORTED, "%s to %s cannot use the path \"%s\"; use \"auto\"", source->info.name,
                   destination->info.name, td_path_name(wanted));
}

/* ---------------------------------------------------------------- setting it up */

/* A block of memory, or the host's in place where `host` is given. Makes room first, so that what was taken
 * can always be noted. */
static td_status take(td_channel *channel, td_memory *memory, td_memory_kind kind, void *host, uint64_t bytes,
                      td_span *out)
{
    TD_CHECK(td_alloc_grow(&channel->owned, &channel->owned_capacity, channel->n_owned + 1,
                           sizeof *channel->owned));
    TD_CHECK(host ? td_memory_import(memory, host, bytes, out) : td_memory_alloc(memory, kind, bytes, out));
    channel->owned[channel->n_owned++] = (owned_span){memory, *out};
    return TD_OK;
}

static void release_spans(td_channel *channel)
{
    while (channel->n_owned > 0) {
        const owned_span *last = &channel->owned[--channel->n_owned];
        td_memory_free(last->memory, last->span);
    }
    for (uint32_t i = 0; channel->slots && i < channel->n_slots; i++) {
        free(channel->slots[i].block);
        channel->slots[i] = (channel_slot){0};
    }
    memset(channel->ring, 0, sizeof channel->ring);
    channel->n_hops = 0;
}

static uint64_t import_align(const td_memory *memory)
{
    const uint64_t align = td_memory_device(memory)->info.caps.host_import_align;
    return align > 4096 ? align : 4096;
}

static td_status set_up_shared(td_channel *channel, channel_slot *slot)
{
    const uint64_t a = import_align(channel->ends[0]);
    const uint64_t b = import_align(channel->ends[1]);
    const uint64_t align = a > b ? a : b;
    const uint64_t bytes = td_round_up(channel->slot_bytes, align);
    TD_REFUSE_IF(posix_memalign(&slot->block, align, bytes) != 0, TD_ERR_HOST_MEMORY,
                 "no host memory for a block of %llu bytes shared by two devices; use a smaller batch",
                 (unsigned long long)bytes);
    for (int end = 0; end < 2; end++)
        TD_CHECK(take(channel, channel->ends[end], TD_MEMORY_HOST, slot->block, bytes, &slot->ends[end]));
    return TD_OK;
}

/* A pinned block of one device's memory, and the other device's view of the same bytes. */
static td_status pin_for_both(td_channel *channel, td_memory *owner, td_memory *guest, uint64_t bytes,
                              td_span *pinned, td_span *view)
{
    const uint64_t align = import_align(guest);
    td_span whole = {0};
    bytes = td_round_up(bytes, align);
    TD_CHECK(
        take(channel, owner, TD_MEMORY_HOST, NULL, bytes + align, &whole)); /* room to align the address */
    const uintptr_t address = (uintptr_t)td_span_host(whole);
    *pinned = td_span_part(whole, td_round_up(address, align) - address, bytes);
    return take(channel, guest, TD_MEMORY_HOST, td_span_host(*pinned), bytes, view);
}

/* Which end is the CPU driver that uses the block in place; the other one makes the hop. */
static int direct_cpu_end(const td_channel *channel)
{
    return uses_host_in_place(td_memory_device(channel->ends[0])) ? 0 : 1;
}

static td_status set_up_direct(td_channel *channel, channel_slot *slot)
{
    const int cpu = direct_cpu_end(channel);
    const uint64_t bytes = td_round_up(channel->slot_bytes, SIZE_STEP);
    TD_CHECK(pin_for_both(channel, channel->ends[!cpu], channel->ends[cpu], bytes, &slot->pinned,
                          &slot->ends[cpu]));
    return take(channel, channel->ends[!cpu], TD_MEMORY_DEVICE, NULL, bytes, &slot->ends[!cpu]);
}

static td_status set_up_device(td_channel *channel, channel_slot *slot)
{
    const uint64_t bytes = td_round_up(channel->slot_bytes, SIZE_STEP);
    for (int end = 0; end < 2; end++)
        TD_CHECK(take(channel, channel->ends[end], TD_MEMORY_DEVICE, NULL, bytes, &slot->ends[end]));
    return TD_OK;
}

static td_status set_up_ring(td_channel *channel)
{
    const uint64_t ring_bytes = channel->ring_chunks * channel->chunk_bytes;
    td_memory *source = channel->ends[0];
    td_memory *destination = channel->ends[1];
    if (td_memory_device(source) == td_memory_device(destination)) {
        TD_CHECK(take(channel, source, TD_MEMORY_HOST, NULL, ring_bytes, &channel->ring[0]));
        channel->ring[1] = channel->ring[0];
        return TD_OK;
    }
    if (td_memory_device(destination)->info.caps.host_import &&
        pin_for_both(channel, source, destination, ring_bytes, &channel->ring[0], &channel->ring[1]) == TD_OK)
        return TD_OK;
    if (!channel->ring[0].buffer)
        TD_CHECK(take(channel, source, TD_MEMORY_HOST, NULL, ring_bytes, &channel->ring[0]));
    TD_CHECK(take(channel, destination, TD_MEMORY_HOST, NULL, ring_bytes, &channel->ring[1]));
    channel->ring_moves = true;
    return TD_OK;
}

static td_status set_up_alias(td_channel *channel, channel_slot *slot)
{
    TD_CHECK(take(channel, channel->ends[0], TD_MEMORY_DEVICE, NULL, channel->slot_bytes, &slot->ends[0]));
    slot->ends[1] = slot->ends[0];
    return TD_OK;
}

static td_status set_up_path(td_channel *channel)
{
    static td_status (*const SET_UP_SLOT[TD_PATH_COUNT])(td_channel *, channel_slot *) = {
        [TD_PATH_ALIAS] = set_up_alias,   [TD_PATH_SHARED] = set_up_shared, [TD_PATH_DEVICE] = set_up_device,
        [TD_PATH_DIRECT] = set_up_direct, [TD_PATH_RING] = set_up_device,
    };
    static const uint32_t HOPS[TD_PATH_COUNT] = {
        [TD_PATH_DEVICE] = 1, [TD_PATH_DIRECT] = 1, [TD_PATH_RING] = 2};
    channel->n_hops = HOPS[channel->path];
    for (uint32_t i = 0; i < channel->n_slots; i++)
        TD_CHECK(SET_UP_SLOT[channel->path](channel, &channel->slots[i]));
    if (channel->path == TD_PATH_RING) TD_CHECK(set_up_ring(channel));
    return TD_OK;
}

/* Not a failure if the driver refuses memory in place: the ring does not need it. */
static td_status set_up(td_channel *channel, td_path wanted)
{
    td_status status = TD_OK;
    TD_TRY(choose_path(wanted, td_memory_device(channel->ends[0]), td_memory_device(channel->ends[1]),
                       &channel->path));
    status = set_up_path(channel);
    const bool refused = status == TD_ERR_DRIVER || status == TD_ERR_UNSUPPORTED;
    if (refused && wanted == TD_PATH_AUTO && channel->path != TD_PATH_RING) {
        td_log_warn("the path \"%s\" between two devices is refused, a ring of pinned memory is used: %s",
                    td_path_name(channel->path), td_error_last()->message);
        release_spans(channel);
        channel->path = TD_PATH_RING;
        status = set_up_path(channel);
    }
fail:
    return status;
}

td_status td_channel_create(td_memory *source, td_memory *destination, uint64_t slot_bytes,
                            const td_channel_options *options, td_channel **out)
{
    static const td_channel_options DEFAULTS = {0};
    if (!options) options = &DEFAULTS;
    td_channel *channel = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(slot_bytes == 0 || slot_bytes % 4, TD_ERR_ARGUMENT,
               "a channel's slot of %llu bytes is not made of whole words", (unsigned long long)slot_bytes);
    TD_FAIL_IF(options->ring_chunks > MAX_RING, TD_ERR_ARGUMENT,
               "a ring of %u chunks; at most %u are possible", options->ring_chunks, MAX_RING);
    TD_TRY(TD_NEW(&channel));
    channel->ends[0] = source;
    channel->ends[1] = destination;
    channel->slot_bytes = slot_bytes;
    channel->n_slots = options->slots ? options->slots : DEFAULT_SLOTS;
    channel->ring_chunks = options->ring_chunks ? options->ring_chunks : DEFAULT_RING_CHUNKS;
    channel->chunk_bytes =
        td_round_up(options->chunk_bytes ? options->chunk_bytes : DEFAULT_CHUNK_BYTES, SIZE_STEP);
    TD_TRY(TD_NEW_ARRAY(&channel->slots, channel->n_slots));
    TD_TRY(set_up(channel, options->path));
    *out = channel;
    return TD_OK;
fail:
    td_channel_destroy(channel);
    return status;
}

static void destroy_hop(hop *dead)
{
    if (!dead) return;
    td_list_destroy(dead->list);
    free(dead);
}

void td_channel_destroy(td_channel *channel)
{
    if (!channel) return;
    for (size_t i = 0; i < channel->n_hops_made; i++)
        destroy_hop(channel->hops[i]);
    release_spans(channel);
    free(channel->owned);
    free(channel->hops);
    free(channel->slots);
    free(channel);
}

static td_span slot_span(const td_channel *channel, int end, uint32_t slot, uint64_t bytes)
{
    return td_span_part(channel->slots[slot].ends[end], 0, bytes);
}

td_span td_channel_source(const td_channel *channel, uint32_t slot)
{
    return slot_span(channel, 0, slot, channel->slot_bytes);
}

td_span td_channel_destination(const td_channel *channel, uint32_t slot)
{
    return slot_span(channel, 1, slot, channel->slot_bytes);
}

/* ---------------------------------------------------------------- sending */

/* The device whose copy queue makes hop `number`. */
static td_device *hop_device(const td_channel *channel, uint32_t number)
{
    int end = 0;
    if (channel->path == TD_PATH_DIRECT) end = !direct_cpu_end(channel);
    if (channel->path == TD_PATH_RING) end = (int)number;
    return td_memory_device(channel->ends[end]);
}

/* What a hop copies; `in_ring` is its slot in the ring. */
static void hop_spans(const td_channel *channel, const hop *made, uint64_t in_ring, td_span *to,
                      td_span *from)
{
    const channel_slot *slot = &channel->slots[made->slot];
    *from = td_span_part(slot->ends[0], made->offset, made->bytes);
    *to = td_span_part(slot->ends[1], made->offset, made->bytes);
    if (channel->path == TD_PATH_RING)
        *(made->number == 0 ? to : from) = td_span_part(channel->ring[made->number], in_ring, made->bytes);
    else if (channel->path == TD_PATH_DIRECT)
        *(direct_cpu_end(channel) == 0 ? from : to) = td_span_part(slot->pinned, made->offset, made->bytes);
}

static td_status record_hop(const td_channel *channel, hop *made)
{
    const uint64_t in_ring =
        made->offset / channel->chunk_bytes % channel->ring_chunks * channel->chunk_bytes;
    td_span to;
    td_span from;
    hop_spans(channel, made, in_ring, &to, &from);
    if (channel->ring_moves && made->number == 1) {
        made->move_from = (char *)td_span_host(channel->ring[0]) + in_ring;
        made->move_to = (char *)td_span_host(channel->ring[1]) + in_ring;
    }
    TD_CHECK(td_list_create(hop_device(channel, made->number), TD_QUEUE_COPY, &made->list));
    TD_CHECK(td_list_copy(made->list, to, from));
    return td_list_finish(made->list);
}

/* The hop with these numbers, recorded at its first use. */
static td_status find_hop(td_channel *channel, uint32_t number, uint32_t slot, uint64_t offset,
                          uint64_t bytes, hop **out)
{
    hop *made = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < channel->n_hops_made; i++) {
        *out = channel->hops[i];
        if ((*out)->number == number && (*out)->slot == slot && (*out)->offset == offset &&
            (*out)->bytes == bytes)
            return TD_OK;
    }
    TD_TRY(td_alloc_grow(&channel->hops, &channel->hops_capacity, channel->n_hops_made + 1, sizeof made));
    TD_TRY(TD_NEW(&made));
    *made = (hop){.number = number, .slot = slot, .offset = offset, .bytes = bytes};
    TD_TRY(record_hop(channel, made));
    channel->hops[channel->n_hops_made++] = made;
    *out = made;
    return TD_OK;
fail:
    destroy_hop(made);
    return status;
}

static void move_chunk(void *context)
{
    const hop *moved = context;
    memcpy(moved->move_to, moved->move_from, moved->bytes);
}

/* Submits a hop behind two points. */
static td_status submit_hop(td_channel *channel, uint32_t number, uint32_t slot, uint64_t offset,
                            uint64_t bytes, td_point first, td_point second, td_point *done)
{
    const td_point waits[] = {first, second};
    td_submission submission = {.waits = waits, .n_waits = 2};
    hop *found = NULL;
    TD_CHECK(find_hop(channel, number, slot, offset, bytes, &found));
    submission.list = found->list;
    if (found->move_to) {
        submission.host_task = move_chunk;
        submission.host_context = found;
    }
    TD_CHECK(td_queue_submit(td_device_queue(hop_device(channel, number), TD_QUEUE_COPY), &submission, done));
    channel->counts.copied_bytes += found->move_to ? 2 * bytes : bytes;
    return TD_OK;
}

/* Both hops of one chunk. */
static td_status send_chunk(td_channel *channel, uint32_t slot, uint64_t offset, uint64_t bytes,
                            td_point ready, td_point consumed, td_point *arrived)
{
    td_point *ring_free = &channel->ring_free[offset / channel->chunk_bytes % channel->ring_chunks];
    td_point pinned;
    TD_CHECK(submit_hop(channel, 0, slot, offset, bytes, ready, *ring_free, &pinned));
    TD_CHECK(submit_hop(channel, 1, slot, offset, bytes, pinned, consumed, arrived));
    *ring_free = *arrived;
    return TD_OK;
}

td_status td_channel_send(td_channel *channel, uint32_t slot, uint64_t bytes, td_point ready,
                          td_point consumed, td_point *arrived)
{
    td_point done = ready;
    TD_REFUSE_IF(slot >= channel->n_slots || bytes == 0 || bytes > channel->slot_bytes, TD_ERR_ARGUMENT,
                 "%llu bytes were sent in slot %u of a channel with %u slots of %llu",
                 (unsigned long long)bytes, slot, channel->n_slots, (unsigned long long)channel->slot_bytes);
    const uint64_t rounded = td_round_up(bytes, SIZE_STEP); /* the spans have room for it */
    if (channel->path == TD_PATH_RING) {
        for (uint64_t offset = 0; offset < rounded; offset += channel->chunk_bytes) {
            const uint64_t left = rounded - offset;
            TD_CHECK(send_chunk(channel, slot, offset,
                                left < channel->chunk_bytes ? left : channel->chunk_bytes, ready, consumed,
                                &done));
        }
    } else if (channel->n_hops == 1) {
        TD_CHECK(submit_hop(channel, 0, slot, 0, rounded, ready, consumed, &done));
    }
    channel->slots[slot].arrived = done;
    channel->slots[slot].sent_bytes = bytes;
    channel->counts.sends++;
    channel->counts.payload_bytes += bytes;
    *arrived = done;
    return TD_OK;
}

td_point td_channel_reusable(const td_channel *channel, uint32_t slot, td_point consumed)
{
    return channel->n_hops ? channel->slots[slot].arrived : consumed;
}

/* ---------------------------------------------------------------- checking */

/* Hash of a span's first bytes; device memory is brought to the host first. */
static td_status hash_span(td_memory *memory, td_span span, uint64_t *out)
{
    void *copy = td_span_host(span);
    td_status status = TD_OK;
    if (!td_span_host(span)) {
        const td_span words = td_span_part(span, 0, td_round_up(span.bytes, 4));
        TD_TRY(td_alloc_zeroed(words.bytes, 1, &copy));
        TD_TRY(td_blocking_read(memory, words, (td_point){0}, copy));
    }
    *out = td_hash64(copy, span.bytes);
fail:
    if (!td_span_host(span)) free(copy);
    return status;
}

td_status td_channel_verify(td_channel *channel, uint32_t slot)
{
    uint64_t hashes[2] = {0, 0};
    TD_REFUSE_IF(slot >= channel->n_slots || channel->slots[slot].sent_bytes == 0, TD_ERR_ARGUMENT,
                 "slot %u of a channel was verified before anything was sent in it", slot);
    const uint64_t bytes = channel->slots[slot].sent_bytes;
    TD_CHECK(td_point_wait(channel->slots[slot].arrived, TD_WAIT_FOREVER));
    for (int end = 0; end < 2; end++)
        TD_CHECK(hash_span(channel->ends[end], slot_span(channel, end, slot, bytes), &hashes[end]));
    TD_REFUSE_IF(
        hashes[0] != hashes[1], TD_ERR_INTEGRITY,
        "%llu bytes in slot %u from %s to %s by the path \"%s\" arrived damaged (hash %016llx became "
        "%016llx); update the drivers, and see docs/devices.md",
        (unsigned long long)bytes, slot, td_memory_device(channel->ends[0])->info.name,
        td_memory_device(channel->ends[1])->info.name, td_path_name(channel->path),
        (unsigned long long)hashes[0], (unsigned long long)hashes[1]);
    return TD_OK;
}

td_path td_channel_get_path(const td_channel *channel)
{
    return channel->path;
}

void td_channel_get_stats(const td_channel *channel, td_channel_stats *out)
{
    *out = (td_channel_stats){.sends = channel->counts.sends,
                              .payload_bytes = channel->counts.payload_bytes,
                              .copied_bytes = channel->counts.copied_bytes};
}
