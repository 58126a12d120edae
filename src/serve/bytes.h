/* Bytes that come in at one end and go out at the other. Covered by tests/serve. */
#ifndef TD_SERVE_BYTES_H
#define TD_SERVE_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/* Begins as {0}; td_bytes_free(). What is not taken yet lies from `first` to `size`. */
typedef struct td_bytes {
    unsigned char *data;
    size_t first, size, capacity;
    bool has_failed; /* there was no memory */
} td_bytes;

void td_bytes_add(td_bytes *bytes, const void *data, size_t size);
void td_bytes_print(td_bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Moves up to `most` into `out`; returns how many. */
size_t td_bytes_take(td_bytes *bytes, void *out, size_t most);
void td_bytes_free(td_bytes *bytes);

#endif
