/* Memory of one role: chunks taken from the device, ranges cut from them best-fit, an enforced limit.
 *
 * The limit is about what the device really gave (reserved), not about what was handed out, since that is
 * what another program or the other role cannot have. A chunk is given back as soon as nothing is left in
 * it. Covered by tests/device/test_memory.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/backend.h"

#define MIN_ALIGN 256u /* covers vector loads of every kernel */
#define DEVICE_CHUNK_BYTES (UINT64_C(64) << 20)
#define HOST_CHUNK_BYTES (UINT64_C(16) << 20)

/* Free ranges of a chunk, in order of offset, never touching each other. */
typedef struct free_range {
    uint64_t offset, bytes;
} free_range;

typedef struct chunk {
    struct chunk *next;
    td_buffer *buffer;
    size_t n_used; /* ranges handed out */
    free_range *free;
    size_t n_free, free_capacity; /* room for n_used + 1, so that freeing needs no memory */
} chunk;

struct td_memory {
    td_device *device;
    char role[32];
    uint64_t align;
    pthread_mutex_t mutex;
    chunk *chunks[TD_MEMORY_KIND_COUNT];
    chunk *imports;
    td_memory_stats stats;
};

td_status td_memory_create(td_device *device, const char *role, uint64_t limit_bytes, td_memory **out)
{
    td_memory *memory = NULL;
    *out = NULL;
    const td_status status = TD_NEW(&memory);
    if (status != TD_OK) return status;
    memory->device = device;
    snprintf(memory->role, sizeof memory->role, "%s", role);
    memory->align = device->info.caps.offset_align > MIN_ALIGN ? device->info.caps.offset_align : MIN_ALIGN;
    memory->stats.limit_bytes = limit_bytes;
    pthread_mutex_init(&memory->mutex, NULL);
    *out = memory;
    return TD_OK;
}

static void destroy_chunk(chunk *dead)
{
    if (!dead) return;
    if (dead->buffer) dead->buffer->device->ops->buffer_destroy(dead->buffer);
    free(dead->free);
    free(dead);
}

static void destroy_chunks(chunk *list)
{
    while (list) {
        chunk *next = list->next;
        destroy_chunk(list);
        list = next;
    }
}

void td_memory_destroy(td_memory *memory)
{
    if (!memory) return;
    for (int kind = 0; kind < TD_MEMORY_KIND_COUNT; kind++)
        destroy_chunks(memory->chunks[kind]);
    destroy_chunks(memory->imports);
    pthread_mutex_destroy(&memory->mutex);
    free(memory);
}

/* ---------------------------------------------------------------- accounts */

static void raise_peak(uint64_t *peak, uint64_t value)
{
    if (value > *peak) *peak = value;
}

static void note_chunk(td_memory *memory, const td_buffer *buffer, int sign)
{
    td_memory_stats *stats = &memory->stats;
    const uint64_t change = sign > 0 ? buffer->bytes : UINT64_C(0) - buffer->bytes;
    if (buffer->imported) {
        stats->imported_bytes += change;
        return;
    }
    if (buffer->kind == TD_MEMORY_HOST) {
        stats->host_bytes += change;
        raise_peak(&stats->peak_host_bytes, stats->host_bytes);
        return;
    }
    stats->reserved_bytes += change;
    stats->chunks += (uint32_t)sign;
    raise_peak(&stats->peak_reserved_bytes, stats->reserved_bytes);
}

static void note_range(td_memory *memory, const td_buffer *buffer, uint64_t bytes, int sign)
{
    if (buffer->imported || buffer->kind != TD_MEMORY_DEVICE) return;
    memory->stats.used_bytes += sign > 0 ? bytes : UINT64_C(0) - bytes;
    raise_peak(&memory->stats.peak_used_bytes, memory->stats.used_bytes);
}

/* ---------------------------------------------------------------- ranges of a chunk */

/* The smallest free range that fits, over all chunks of a kind: least splitting of large ones. */
static chunk *find_fit(chunk *list, uint64_t bytes, size_t *index)
{
    chunk *best = NULL;
    for (chunk *c = list; c; c = c->next) {
        for (size_t i = 0; i < c->n_free; i++) {
            if (c->free[i].bytes < bytes) continue;
            if (best && best->free[*index].bytes <= c->free[i].bytes) continue;
            best = c;
            *index = i;
        }
    }
    return best;
}

static td_span cut_range(chunk *from, size_t index, uint64_t bytes)
{
    free_range *range = &from->free[index];
    const td_span span = {.buffer = from->buffer, .offset = range->offset, .bytes = bytes};
    range->offset += bytes;
    range->bytes -= bytes;
    if (range->bytes == 0) {
        memmove(range, range + 1, (from->n_free - index - 1) * sizeof *range);
        from->n_free--;
    }
    return span;
}

/* Puts a range back and joins it with its neighbours. */
static void return_range(chunk *to, uint64_t offset, uint64_t bytes)
{
    size_t at = 0;
    while (at < to->n_free && to->free[at].offset < offset)
        at++;
    const bool joins_left = at > 0 && to->free[at - 1].offset + to->free[at - 1].bytes == offset;
    const bool joins_right = at < to->n_free && offset + bytes == to->free[at].offset;
    if (joins_left && joins_right) {
        to->free[at - 1].bytes += bytes + to->free[at].bytes;
        memmove(&to->free[at], &to->free[at + 1], (to->n_free - at - 1) * sizeof *to->free);
        to->n_free--;
    } else if (joins_left) {
        to->free[at - 1].bytes += bytes;
    } else if (joins_right) {
        to->free[at].offset = offset;
        to->free[at].bytes += bytes;
    } else {
        memmove(&to->free[at + 1], &to->free[at], (to->n_free - at) * sizeof *to->free);
        to->free[at] = (free_range){offset, bytes};
        to->n_free++;
    }
}

static bool is_empty(const chunk *c)
{
    return c->n_used == 0;
}

/* ---------------------------------------------------------------- chunks */

static uint64_t largest_chunk(const td_device_caps *caps)
{
    return caps->max_alloc_bytes < caps->max_binding_bytes ? caps->max_alloc_bytes : caps->max_binding_bytes;
}

static td_status refuse_size(const td_memory *memory, uint64_t bytes)
{
    char need[TD_TEXT_FORMAT_BYTES];
    char most[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(bytes, need);
    td_text_format_bytes(largest_chunk(&memory->device->info.caps), most);
    return TD_FAIL(TD_ERR_LIMIT,
                   "the %s role asked for one block of %s, but %s allows at most %s; use a smaller batch or "
                   "length, or another device",
                   memory->role, need, memory->device->info.name, most);
}

static td_status refuse_limit(const td_memory *memory, uint64_t bytes)
{
    char need[TD_TEXT_FORMAT_BYTES];
    char held[TD_TEXT_FORMAT_BYTES];
    char limit[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(bytes, need);
    td_text_format_bytes(memory->stats.reserved_bytes, held);
    td_text_format_bytes(memory->stats.limit_bytes, limit);
    return TD_FAIL(TD_ERR_LIMIT,
                   "the %s role on %s needs %s more and holds %s, past its limit of %s; raise "
                   "pipeline.%s_gpu_memory or use a smaller batch",
                   memory->role, memory->device->info.name, need, held, limit, memory->role);
}

/* How much to take from the device for a request: a whole chunk where the limits leave room for one. */
static td_status size_chunk(const td_memory *memory, td_memory_kind kind, uint64_t bytes, uint64_t *out)
{
    const uint64_t most = largest_chunk(&memory->device->info.caps) / memory->align * memory->align;
    if (bytes > most) return refuse_size(memory, bytes);
    uint64_t wanted = kind == TD_MEMORY_DEVICE ? DEVICE_CHUNK_BYTES : HOST_CHUNK_BYTES;
    if (wanted > most) wanted = most;
    const td_memory_stats *stats = &memory->stats;
    if (kind == TD_MEMORY_DEVICE && stats->limit_bytes) {
        const uint64_t left =
            stats->limit_bytes > stats->reserved_bytes ? stats->limit_bytes - stats->reserved_bytes : 0;
        if (bytes > left) return refuse_limit(memory, bytes);
        if (wanted > left) wanted = left / memory->align * memory->align;
    }
    *out = wanted > bytes ? wanted : bytes;
    return TD_OK;
}

static td_status take_chunk(td_memory *memory, td_memory_kind kind, uint64_t bytes, chunk **out)
{
    chunk *taken = NULL;
    uint64_t chunk_bytes = 0;
    td_status status = TD_OK;
    TD_TRY(size_chunk(memory, kind, bytes, &chunk_bytes));
    TD_TRY(TD_NEW(&taken));
    TD_TRY(td_alloc_grow(&taken->free, &taken->free_capacity, 1, sizeof *taken->free));
    status = memory->device->ops->buffer_create(memory->device, kind, chunk_bytes, &taken->buffer);
    if (status == TD_ERR_DEVICE_MEMORY &&
        chunk_bytes > bytes) { /* the device may still have what is needed */
        chunk_bytes = bytes;
        status = memory->device->ops->buffer_create(memory->device, kind, chunk_bytes, &taken->buffer);
    }
    TD_TRY(status);
    taken->free[0] = (free_range){0, chunk_bytes};
    taken->n_free = 1;
    taken->next = memory->chunks[kind];
    memory->chunks[kind] = taken;
    note_chunk(memory, taken->buffer, +1);
    *out = taken;
    return TD_OK;
fail:
    destroy_chunk(taken);
    return status;
}

static void drop_chunk(td_memory *memory, chunk **link)
{
    chunk *dead = *link;
    *link = dead->next;
    note_chunk(memory, dead->buffer, -1);
    destroy_chunk(dead);
}

/* ---------------------------------------------------------------- public */

td_status td_memory_alloc(td_memory *memory, td_memory_kind kind, uint64_t bytes, td_span *out)
{
    td_status status = TD_OK;
    *out = (td_span){0};
    if (bytes == 0 || bytes > UINT64_MAX - memory->align) {
        return TD_FAIL(TD_ERR_ARGUMENT, "the %s role asked for a block of %llu bytes", memory->role,
                       (unsigned long long)bytes);
    }
    const uint64_t rounded = td_round_up(bytes, memory->align);
    pthread_mutex_lock(&memory->mutex);
    size_t index = 0;
    chunk *from = find_fit(memory->chunks[kind], rounded, &index);
    if (!from) TD_TRY(take_chunk(memory, kind, rounded, &from));
    TD_TRY(td_alloc_grow(&from->free, &from->free_capacity, from->n_used + 2, sizeof *from->free));
    *out = cut_range(from, index, rounded);
    from->n_used++;
    note_range(memory, from->buffer, rounded, +1);
    out->bytes = bytes;
fail:
    pthread_mutex_unlock(&memory->mutex);
    return status;
}

td_status td_memory_import(td_memory *memory, void *host, uint64_t bytes, td_span *out)
{
    const td_device_caps *caps = &memory->device->info.caps;
    chunk *imported = NULL;
    td_status status = TD_OK;
    *out = (td_span){0};
    TD_FAIL_IF(!caps->host_import, TD_ERR_UNSUPPORTED, "%s cannot use host memory in place",
               memory->device->info.name);
    TD_FAIL_IF(bytes == 0 || (uintptr_t)host % caps->host_import_align || bytes % caps->host_import_align,
               TD_ERR_ARGUMENT,
               "host memory to be used in place must be aligned to %llu bytes in address and size",
               (unsigned long long)caps->host_import_align);
    TD_TRY(TD_NEW(&imported));
    TD_TRY(memory->device->ops->buffer_import(memory->device, host, bytes, &imported->buffer));
    pthread_mutex_lock(&memory->mutex);
    imported->next = memory->imports;
    memory->imports = imported;
    note_chunk(memory, imported->buffer, +1);
    pthread_mutex_unlock(&memory->mutex);
    *out = (td_span){imported->buffer, 0, bytes};
    return TD_OK;
fail:
    destroy_chunk(imported);
    return status;
}

static chunk **find_owner(td_memory *memory, const td_buffer *buffer)
{
    chunk **link = buffer->imported ? &memory->imports : &memory->chunks[buffer->kind];
    while (*link && (*link)->buffer != buffer)
        link = &(*link)->next;
    return link;
}

void td_memory_free(td_memory *memory, td_span span)
{
    if (!memory || !span.buffer) return;
    pthread_mutex_lock(&memory->mutex);
    chunk **link = find_owner(memory, span.buffer);
    if (*link) {
        if (span.buffer->imported) {
            drop_chunk(memory, link);
        } else {
            const uint64_t rounded = td_round_up(span.bytes, memory->align);
            return_range(*link, span.offset, rounded);
            (*link)->n_used--;
            note_range(memory, span.buffer, rounded, -1);
            if (is_empty(*link)) drop_chunk(memory, link);
        }
    }
    pthread_mutex_unlock(&memory->mutex);
}

void td_memory_get_stats(const td_memory *memory, td_memory_stats *out)
{
    td_memory *unlocked = (td_memory *)memory; /* the mutex is not part of the visible state */
    pthread_mutex_lock(&unlocked->mutex);
    *out = memory->stats;
    pthread_mutex_unlock(&unlocked->mutex);
}

td_device *td_memory_device(const td_memory *memory)
{
    return memory->device;
}

void *td_span_host(td_span span)
{
    return span.buffer && span.buffer->host ? (char *)span.buffer->host + span.offset : NULL;
}

td_span td_span_part(td_span span, uint64_t offset, uint64_t bytes)
{
    return (td_span){.buffer = span.buffer, .offset = span.offset + offset, .bytes = bytes};
}
