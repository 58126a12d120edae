/* Thread pool whose results do not depend on the number of threads: the same calls succeed or fail in the
 * same way with 1 thread or 64. The calling thread works too, so a task may itself call map or stream on
 * the same pool without a deadlock. Several threads may use one pool at once.
 * Covered by tests/unit/test_pool.c.
 */
#ifndef TD_BASE_POOL_H
#define TD_BASE_POOL_H

#include <stddef.h>

#include "tandem/status.h"

typedef struct td_pool td_pool;

/* Does item `index`. On failure it leaves the details in its thread's error record, as every function. */
typedef td_status (*td_pool_task)(void *ctx, size_t index);

/* *out: owned, td_pool_destroy(). n_threads counts the calling thread (1 = no extra thread); 0 = one per core
 * this process may use. */
td_status td_pool_create(size_t n_threads, td_pool **out);

/* No map or stream may be running. */
void td_pool_destroy(td_pool *pool);

size_t td_pool_threads(const td_pool *pool);

/* Cores that this process may use; at least 1. */
size_t td_pool_cores(void);

/* Runs run(ctx, 0 .. count-1), started in index order, and returns when none is running any more. If some
 * fail, the result (status and error record of the calling thread) is that of the lowest failing index; later
 * indices that have not started are left out. */
td_status td_pool_map(td_pool *pool, size_t count, td_pool_task run, void *ctx);

/* Runs produce(ctx, i) on any thread, and consume(ctx, i) on the calling thread strictly in index order, each
 * after its produce. produce(i) starts only after consume(i - look_ahead) has returned, so a ring of
 * `look_ahead` (>= 1) slots indexed by i % look_ahead holds all results in flight.
 * The first failure in index order ends the stream: everything before it has been consumed, nothing at or
 * after it is; results produced ahead stay in the caller's slots, for the caller to free. */
td_status td_pool_stream(td_pool *pool, size_t count, size_t look_ahead, td_pool_task produce,
                         td_pool_task consume, void *ctx);

#endif
