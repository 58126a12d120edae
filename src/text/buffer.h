/* A growing byte string, always zero-terminated once something was appended. Not thread-safe.
 * Covered by every test of tests/text.
 */
#ifndef TD_TEXT_BUFFER_H
#define TD_TEXT_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* Starts as {0}. `data` is owned by the buffer and moves when it grows. */
typedef struct td_buffer {
    char *data;
    size_t size; /* without the zero byte */
    size_t capacity;
} td_buffer;

/* Makes room for `bytes` more and the zero byte; the content stays. */
td_status td_buffer_reserve(td_buffer *buffer, size_t bytes);

/* On failure the old content stays. */
td_status td_buffer_append(td_buffer *buffer, const void *data, size_t bytes);

/* The empty string, memory kept. */
void td_buffer_clear(td_buffer *buffer);
void td_buffer_free(td_buffer *buffer);

#endif
