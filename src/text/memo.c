/* Bounded memory of answers (memo.h): a direct-mapped table whose slots share a few locks. */
#include "text/memo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

enum { N_LOCKS = 64 };

typedef struct pair {
    size_t key_bytes;
    size_t value_bytes;
    char bytes[]; /* the key, then the value */
} pair;

struct td_memo {
    size_t n_slots;
    size_t pair_bytes;
    pthread_mutex_t locks[N_LOCKS]; /* slot i is guarded by lock i % N_LOCKS */
    pair *slots[];
};

td_status td_memo_create(size_t slots, size_t pair_bytes, td_memo **out)
{
    size_t n = slots > 0 ? slots : 1;
    if (n > (SIZE_MAX - sizeof(td_memo)) / sizeof(pair *)) {
        return TD_FAIL(TD_ERR_ARGUMENT, "a memo of %zu slots does not fit in memory", slots);
    }
    td_status status = td_alloc_zeroed(1, sizeof(td_memo) + n * sizeof(pair *), out);
    if (status != TD_OK) return status;
    (*out)->n_slots = n;
    (*out)->pair_bytes = pair_bytes;
    for (int i = 0; i < N_LOCKS; ++i) {
        pthread_mutex_init(&(*out)->locks[i], NULL);
    }
    return TD_OK;
}

void td_memo_destroy(td_memo *memo)
{
    if (memo == NULL) return;
    for (size_t i = 0; i < memo->n_slots; ++i) {
        free(memo->slots[i]);
    }
    for (int i = 0; i < N_LOCKS; ++i) {
        pthread_mutex_destroy(&memo->locks[i]);
    }
    free(memo);
}

bool td_memo_get(td_memo *memo, const void *key, size_t key_bytes, td_buffer *value)
{
    size_t slot = (size_t)(td_hash64(key, key_bytes) % memo->n_slots);
    pthread_mutex_t *lock = &memo->locks[slot % N_LOCKS];
    pthread_mutex_lock(lock);
    const pair *found = memo->slots[slot];
    bool hit = found != NULL && found->key_bytes == key_bytes && memcmp(found->bytes, key, key_bytes) == 0;
    if (hit) {
        td_buffer_clear(value);
        hit = td_buffer_append(value, found->bytes + key_bytes, found->value_bytes) == TD_OK;
    }
    pthread_mutex_unlock(lock);
    return hit;
}

void td_memo_put(td_memo *memo, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    if (key_bytes > memo->pair_bytes || value_bytes > memo->pair_bytes - key_bytes) return;
    pair *fresh = malloc(sizeof *fresh + key_bytes + value_bytes);
    if (fresh == NULL) return;
    fresh->key_bytes = key_bytes;
    fresh->value_bytes = value_bytes;
    memcpy(fresh->bytes, key, key_bytes);
    memcpy(fresh->bytes + key_bytes, value, value_bytes);
    size_t slot = (size_t)(td_hash64(key, key_bytes) % memo->n_slots);
    pthread_mutex_t *lock = &memo->locks[slot % N_LOCKS];
    pthread_mutex_lock(lock);
    pair *old = memo->slots[slot];
    memo->slots[slot] = fresh;
    pthread_mutex_unlock(lock);
    free(old);
}
