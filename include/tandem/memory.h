/* SPDX-License-Identifier: MIT
 *
 * Memory of one role on one device: chunks within the device's limits, ranges cut from them, every
 * byte accounted, an enforced limit, the peak known. Covered by tests/device/test_memory.c.
 * Threads: a td_memory may be used from any thread.
 */
#ifndef TANDEM_MEMORY_H
#define TANDEM_MEMORY_H

#include "tandem/device.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_memory td_memory;
typedef struct td_buffer td_buffer;

/* A byte range of one buffer; a small value, owns nothing. */
typedef struct td_span {
    td_buffer *buffer;
    uint64_t offset;
    uint64_t bytes;
} td_span;

typedef enum td_memory_kind {
    TD_MEMORY_DEVICE, /* fastest for kernels; the host cannot see it */
    TD_MEMORY_HOST,   /* pinned host memory, always mapped; copies to and from it are asynchronous */
    TD_MEMORY_KIND_COUNT
} td_memory_kind;

typedef struct td_memory_stats {
    uint64_t limit_bytes;    /* 0: none */
    uint64_t used_bytes;     /* handed out, device kind, alignment included */
    uint64_t reserved_bytes; /* taken from the device in chunks */
    uint64_t peak_used_bytes;
    uint64_t peak_reserved_bytes; /* what the limit is about */
    uint64_t host_bytes;          /* pinned host memory taken */
    uint64_t peak_host_bytes;
    uint64_t imported_bytes; /* host memory used in place */
    uint32_t chunks;
} td_memory_stats;

/* `role` names it in messages ("data", "model"); limit_bytes 0 means no limit. *out is owned. */
td_status td_memory_create(td_device *device, const char *role, uint64_t limit_bytes, td_memory **out);

/* Frees every chunk; no work that uses them may be under way. */
void td_memory_destroy(td_memory *memory);

/* A range of at least `bytes` (> 0), aligned for any use. TD_ERR_LIMIT names the limit, the need and
 * what to change; TD_ERR_DEVICE_MEMORY when the device itself refuses. Nothing is taken on failure. */
td_status td_memory_alloc(td_memory *memory, td_memory_kind kind, uint64_t bytes, td_span *out);

/* Uses host memory in place as a buffer; pointer and size must be multiples of caps.host_import_align.
 * The block is borrowed until the span is freed. TD_ERR_UNSUPPORTED where caps.host_import is false. */
td_status td_memory_import(td_memory *memory, void *host, uint64_t bytes, td_span *out);

/* Gives a range of this memory back. A zero span is ignored. */
void td_memory_free(td_memory *memory, td_span span);

void td_memory_get_stats(const td_memory *memory, td_memory_stats *out);
td_device *td_memory_device(const td_memory *memory); /* borrowed */

/* Address of a HOST or imported span, NULL for device memory. Valid until the span is freed. */
void *td_span_host(td_span span);

/* The part [offset, offset+bytes) of a span; must lie inside it. Cannot fail. */
td_span td_span_part(td_span span, uint64_t offset, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
