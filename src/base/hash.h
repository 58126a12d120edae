/* Checksums and cache keys: XXH3 of libxxhash. Stable across machines and versions for the same bytes, not
 * meant against an adversary. Covered by tests/unit/test_hash.c.
 */
#ifndef TD_BASE_HASH_H
#define TD_BASE_HASH_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

typedef struct td_digest {
    uint64_t low;
    uint64_t high;
} td_digest;

uint64_t td_hash64(const void *data, size_t bytes);
td_digest td_hash128(const void *data, size_t bytes);

/* Incremental 128-bit hash. Caller-owned storage (for libxxhash's state), nothing to free. */
typedef struct td_hasher {
    alignas(64) unsigned char state[576];
} td_hasher;

void td_hasher_init(td_hasher *hasher);

/* Raw bytes: pieces give the same digest as the whole in one go. */
void td_hasher_bytes(td_hasher *hasher, const void *data, size_t bytes);

/* Length first, then the bytes, so that ("ab", "c") and ("a", "bc") are different keys. NULL hashes as "". */
void td_hasher_string(td_hasher *hasher, const char *text);

/* Digest of what was added so far; more may be added afterwards. */
td_digest td_hasher_digest(const td_hasher *hasher);

#endif
