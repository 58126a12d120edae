/* Host bump arena: many small allocations with one common end. Memory comes zeroed and aligned; single
 * allocations are never freed, all of them are when the arena is destroyed.
 * Not thread-safe: one arena, one thread at a time. Covered by tests/unit/test_arena.c.
 */
#ifndef TD_BASE_ARENA_H
#define TD_BASE_ARENA_H

#include <stdalign.h>
#include <stddef.h>

#include "tandem/status.h"

typedef struct td_arena td_arena;

/* *out: owned, td_arena_destroy(). Memory is taken from the system `block_bytes` at a time (0 = 64 KiB);
 * a larger allocation gets a block of its own. */
td_status td_arena_create(size_t block_bytes, td_arena **out);
void td_arena_destroy(td_arena *arena);

/* Stores in *out (a pointer of any type) zeroed room for count * size bytes, valid as long as the
 * arena. `align` is a power of two up to 4096. On failure *out is NULL and the arena unchanged. */
td_status td_arena_alloc(td_arena *arena, size_t count, size_t size, size_t align, void *out);
#define TD_ARENA_NEW_ARRAY(arena, out, count)                                                                \
    td_arena_alloc((arena), (count), sizeof **(out), alignof(max_align_t), (out))

/* A copy of `text`, or of the formatted text; same lifetime as td_arena_alloc(). */
td_status td_arena_strdup(td_arena *arena, const char *text, char **out);
td_status td_arena_printf(td_arena *arena, char **out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
