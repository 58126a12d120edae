/* The per-thread error record and checked allocation. See error.h and include/tandem/status.h.
 * Covered by tests/unit/test_status.c. */
#include "base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local td_error last_error;

static const struct {
    const char *name;
    const char *text;
} STATUS_TABLE[TD_STATUS_COUNT] = {
#define TD_STATUS_ROW(name, text) [name] = {#name, text},
    TD_STATUS_LIST(TD_STATUS_ROW)
#undef TD_STATUS_ROW
};

static bool is_known(td_status status)
{
    return (unsigned)status < TD_STATUS_COUNT;
}

const char *td_status_name(td_status status)
{
    return is_known(status) ? STATUS_TABLE[status].name : "TD_ERR_UNKNOWN";
}

const char *td_status_text(td_status status)
{
    return is_known(status) ? STATUS_TABLE[status].text : "This status code is not known to this version.";
}

const td_error *td_error_last(void)
{
    return &last_error;
}

td_status td_error_set(td_status status, const char *native, const char *file, int line, const char *format,
                       ...)
{
    /* Formatted aside first: an argument may point into the record that is being replaced. */
    char message[sizeof last_error.message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    last_error.status = status;
    last_error.file = file;
    last_error.line = line;
    memcpy(last_error.message, message, sizeof message);
    snprintf(last_error.native, sizeof last_error.native, "%s", native ? native : "");
    return status;
}

td_status td_error_adopt(const td_error *error)
{
    if (error != &last_error) last_error = *error;
    return last_error.status;
}

td_status td_error_context(const char *format, ...)
{
    char context[256];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    char message[sizeof last_error.message + sizeof context + 2];
    snprintf(message, sizeof message, "%s: %s", context, last_error.message);
    snprintf(last_error.message, sizeof last_error.message, "%.*s", (int)sizeof last_error.message - 1,
             message);
    return last_error.status;
}

td_status td_alloc_zeroed(size_t count, size_t size, void *out)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    memcpy(out, &memory, sizeof memory);
    if (memory) return TD_OK;
    return TD_FAIL(TD_ERR_HOST_MEMORY,
                   "no host memory for %zu objects of %zu bytes; close other programs or add swap", count,
                   size);
}

td_status td_alloc_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return TD_OK;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted < need) wanted = need;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = wanted <= SIZE_MAX / size ? realloc(old, wanted * size) : NULL;
    if (!grown) {
        return TD_FAIL(
            TD_ERR_HOST_MEMORY,
            "no host memory to grow a table to %zu entries of %zu bytes; close other programs or add swap",
            wanted, size);
    }
    memset((char *)grown + *capacity * size, 0, (wanted - *capacity) * size);
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return TD_OK;
}
