/* On-disk cache of binary blobs (device binaries, pipeline caches, tuning results, self-test verdicts). It
 * never fails its caller: anything wrong with a file is a miss with one warning that names it, and the file
 * is replaced by the next store; a folder that cannot be used gives one warning in the cache's life, and work
 * goes on. Safe for several threads and several processes at once. Covered by tests/unit/test_blob_cache.c.
 */
#ifndef TD_BASE_BLOB_CACHE_H
#define TD_BASE_BLOB_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "tandem/status.h"

typedef struct td_blob_cache td_blob_cache;

typedef struct td_blob_cache_stats {
    uint64_t hits;
    uint64_t misses;
    uint64_t stores; /* that reached the disk */
} td_blob_cache_stats;

/* *out: owned, td_blob_cache_close(). `dir` is copied, and created by the first store; NULL = a cache that
 * never hits and stores nothing. Fails only when host memory runs out. */
td_status td_blob_cache_open(const char *dir, td_blob_cache **out);
void td_blob_cache_close(td_blob_cache *cache);

/* On a hit true and *data (owned, free(); aligned for any type) of *bytes bytes; otherwise false, NULL and 0.
 * `kind` is a short word of a-z, 0-9 and '_'; the file is <kind>-<32 hex digits>.blob. */
bool td_blob_cache_load(td_blob_cache *cache, const char *kind, td_digest key, void **data, size_t *bytes);
void td_blob_cache_store(td_blob_cache *cache, const char *kind, td_digest key, const void *data,
                         size_t bytes);

td_blob_cache_stats td_blob_cache_count(const td_blob_cache *cache);

#endif
