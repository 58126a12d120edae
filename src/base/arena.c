/* A chain of blocks, the newest first, with a bump position in the newest. Covered by
 * tests/unit/test_arena.c. */
#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { DEFAULT_BLOCK_BYTES = 64 * 1024, MAX_ALIGN_BYTES = 4096 };

typedef struct block {
    struct block *next;
    size_t size_bytes;
    alignas(max_align_t) unsigned char data[];
} block;

struct td_arena {
    size_t block_bytes;
    block *newest;     /* NULL until the first allocation */
    size_t used_bytes; /* in newest */
};

td_status td_arena_create(size_t block_bytes, td_arena **out)
{
    td_status status = TD_NEW(out);
    if (status == TD_OK) (*out)->block_bytes = block_bytes ? block_bytes : DEFAULT_BLOCK_BYTES;
    return status;
}

void td_arena_destroy(td_arena *arena)
{
    if (!arena) return;
    for (block *b = arena->newest; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(arena);
}

/* Bytes to skip at `used` so that the address is aligned; the block's own alignment may be smaller. */
static size_t find_padding(const block *b, size_t used_bytes, size_t align)
{
    uintptr_t address = (uintptr_t)b->data + used_bytes;
    return (size_t)(-address & (align - 1));
}

static bool block_fits(const block *b, size_t used_bytes, size_t bytes, size_t align)
{
    if (!b) return false;
    size_t room = b->size_bytes - used_bytes;
    size_t padding = find_padding(b, used_bytes, align);
    return padding <= room && bytes <= room - padding;
}

/* Starts a block that holds `need_bytes`. */
static td_status add_block(td_arena *arena, size_t need_bytes)
{
    size_t size_bytes = need_bytes > arena->block_bytes ? need_bytes : arena->block_bytes;
    block *fresh = size_bytes <= SIZE_MAX - sizeof(block) ? malloc(sizeof(block) + size_bytes) : NULL;
    if (!fresh) {
        return TD_FAIL(TD_ERR_HOST_MEMORY,
                       "no host memory for an arena block of %zu bytes; close other programs or add swap",
                       size_bytes);
    }
    fresh->next = arena->newest;
    fresh->size_bytes = size_bytes;
    arena->newest = fresh;
    arena->used_bytes = 0;
    return TD_OK;
}

td_status td_arena_alloc(td_arena *arena, size_t count, size_t size, size_t align, void *out)
{
    assert(align && (align & (align - 1)) == 0 && align <= MAX_ALIGN_BYTES);
    td_status status = TD_OK;
    void *memory = NULL;
    TD_FAIL_IF(size && count > (SIZE_MAX - MAX_ALIGN_BYTES) / size, TD_ERR_HOST_MEMORY,
               "no host memory for %zu objects of %zu bytes: the product is past the address space; "
               "check the sizes asked for",
               count, size);
    size_t bytes = count * size;
    if (!block_fits(arena->newest, arena->used_bytes, bytes, align))
        TD_TRY(add_block(arena, bytes + align - 1));
    arena->used_bytes += find_padding(arena->newest, arena->used_bytes, align);
    memory = memset(arena->newest->data + arena->used_bytes, 0, bytes);
    arena->used_bytes += bytes;
fail:
    memcpy(out, &memory, sizeof memory);
    return status;
}

td_status td_arena_strdup(td_arena *arena, const char *text, char **out)
{
    return td_arena_printf(arena, out, "%s", text);
}

td_status td_arena_printf(td_arena *arena, char **out, const char *format, ...)
{
    va_list args, measure;
    va_start(args, format);
    va_copy(measure, args);
    int length = vsnprintf(NULL, 0, format, measure);
    va_end(measure);
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(length < 0, TD_ERR_ARGUMENT, "the text for format \"%s\" cannot be made; check its arguments",
               format);
    TD_TRY(td_arena_alloc(arena, (size_t)length + 1, 1, 1, out));
    vsnprintf(*out, (size_t)length + 1, format, args);
fail:
    va_end(args);
    return status;
}
