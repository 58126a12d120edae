/* A bounded memory of answers (bytes -> bytes) for pure functions: a slot per hash, the newer pair replaces
 * the older. Any number of threads; a forgotten answer is computed again, so results never depend on it.
 * Covered by tests/text/test_memo.c.
 */
#ifndef TD_TEXT_MEMO_H
#define TD_TEXT_MEMO_H

#include <stdbool.h>

#include "text/buffer.h"

typedef struct td_memo td_memo;

/* *out: owned, td_memo_destroy(). Holds at most `slots` pairs of at most `pair_bytes` bytes each; longer ones
 * are not kept. */
td_status td_memo_create(size_t slots, size_t pair_bytes, td_memo **out);
void td_memo_destroy(td_memo *memo);

/* Replaces the content of `value` and returns true if the key is known. Want of memory is a miss. */
bool td_memo_get(td_memo *memo, const void *key, size_t key_bytes, td_buffer *value);
void td_memo_put(td_memo *memo, const void *key, size_t key_bytes, const void *value, size_t value_bytes);

#endif
