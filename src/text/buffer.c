/* Growing byte string (buffer.h). */
#include "text/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

td_status td_buffer_reserve(td_buffer *buffer, size_t bytes)
{
    if (bytes >= SIZE_MAX - buffer->size) {
        return TD_FAIL(TD_ERR_HOST_MEMORY, "a text of %zu bytes cannot grow by %zu more", buffer->size,
                       bytes);
    }
    size_t need = buffer->size + bytes + 1;
    return need <= buffer->capacity ? TD_OK : td_alloc_grow(&buffer->data, &buffer->capacity, need, 1);
}

td_status td_buffer_append(td_buffer *buffer, const void *data, size_t bytes)
{
    if (buffer->capacity - buffer->size <= bytes) {
        td_status status = td_buffer_reserve(buffer, bytes);
        if (status != TD_OK) return status;
    }
    if (bytes > 0) memcpy(buffer->data + buffer->size, data, bytes);
    buffer->size += bytes;
    buffer->data[buffer->size] = '\0';
    return TD_OK;
}

void td_buffer_clear(td_buffer *buffer)
{
    buffer->size = 0;
    if (buffer->data != NULL) buffer->data[0] = '\0';
}

void td_buffer_free(td_buffer *buffer)
{
    free(buffer->data);
    *buffer = (td_buffer){0};
}
