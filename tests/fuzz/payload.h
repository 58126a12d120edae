/* Gives readers of the blob cache whatever bytes a fuzz target wants, as if a checksum had admitted them: the
 * linker puts this in the place of td_blob_cache_load (--wrap). Included by one file of a program. */
#ifndef TD_TESTS_FUZZ_PAYLOAD_H
#define TD_TESTS_FUZZ_PAYLOAD_H

#include <stdlib.h>
#include <string.h>

#include "base/blob_cache.h"

static const uint8_t *payload; /* NULL: the true cache */
static size_t payload_bytes;

bool __real_td_blob_cache_load(td_blob_cache *cache, const char *kind, td_digest key, void **data,
                               size_t *bytes);
bool __wrap_td_blob_cache_load(td_blob_cache *cache, const char *kind, td_digest key, void **data,
                               size_t *bytes);

bool __wrap_td_blob_cache_load(td_blob_cache *cache, const char *kind, td_digest key, void **data,
                               size_t *bytes)
{
    if (payload == NULL) return __real_td_blob_cache_load(cache, kind, key, data, bytes);
    *data = malloc(payload_bytes ? payload_bytes : 1);
    if (*data == NULL) abort();
    memcpy(*data, payload, payload_bytes);
    *bytes = payload_bytes;
    return true;
}

#endif
