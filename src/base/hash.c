/* XXH3 over libxxhash. Covered by tests/unit/test_hash.c. */
#include "base/hash.h"

#include <assert.h>
#include <string.h>

/* The size of the state is public only under this name; the functions used are all in the stable interface.
 */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static_assert(sizeof(XXH3_state_t) <= sizeof(td_hasher) && alignof(XXH3_state_t) <= alignof(td_hasher),
              "td_hasher must have room for libxxhash's state");

uint64_t td_hash64(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

td_digest td_hash128(const void *data, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (td_digest){.low = hash.low64, .high = hash.high64};
}

void td_hasher_init(td_hasher *hasher)
{
    memset(hasher, 0, sizeof *hasher);
    XXH3_128bits_reset((XXH3_state_t *)hasher->state);
}

void td_hasher_bytes(td_hasher *hasher, const void *data, size_t bytes)
{
    XXH3_128bits_update((XXH3_state_t *)hasher->state, data, bytes);
}

void td_hasher_string(td_hasher *hasher, const char *text)
{
    uint64_t length = text ? strlen(text) : 0;
    unsigned char prefix[8];
    for (int i = 0; i < 8; ++i)
        prefix[i] = (unsigned char)(length >> (8 * i));
    td_hasher_bytes(hasher, prefix, sizeof prefix);
    td_hasher_bytes(hasher, text, (size_t)length);
}

td_digest td_hasher_digest(const td_hasher *hasher)
{
    XXH128_hash_t hash = XXH3_128bits_digest((const XXH3_state_t *)hasher->state);
    return (td_digest){.low = hash.low64, .high = hash.high64};
}
