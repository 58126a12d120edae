/* See bytes.h. */
#include "serve/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void td_bytes_add(td_bytes *bytes, const void *data, size_t size)
{
    if (bytes->has_failed || size == 0) return;
    if (bytes->first > bytes->size / 2) { /* what was taken does not pile up */
        bytes->size -= bytes->first;
        memmove(bytes->data, bytes->data + bytes->first, bytes->size);
        bytes->first = 0;
    }
    if (td_alloc_grow(&bytes->data, &bytes->capacity, bytes->size + size, 1) != TD_OK) {
        bytes->has_failed = true;
        return;
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void td_bytes_print(td_bytes *bytes, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line)
        bytes->has_failed = true;
    else
        td_bytes_add(bytes, line, (size_t)n);
}

size_t td_bytes_take(td_bytes *bytes, void *out, size_t most)
{
    const size_t left = bytes->size - bytes->first, n = left < most ? left : most;
    if (n) memcpy(out, bytes->data + bytes->first, n);
    bytes->first += n;
    return n;
}

void td_bytes_free(td_bytes *bytes)
{
    free(bytes->data);
    *bytes = (td_bytes){0};
}
