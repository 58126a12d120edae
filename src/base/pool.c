/* Thread pool with ordered results. Each map or stream is a job on the caller's stack, linked into the pool's
 * list while it runs; workers claim its indices in rising order. A failure at index i lowers the job's end to
 * i, and all lower indices were claimed before and run to completion, so the lowest failure is found whatever
 * the timing. One lock guards everything: tasks are meant to be milliseconds, not microseconds. Covered by
 * tests/unit/test_pool.c. */
#include "base/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"

typedef struct job {
    struct job *next;
    td_pool_task run;
    void *ctx;
    size_t claimed; /* indices below are running or done */
    size_t end;     /* indices at or past it are never claimed; a failure lowers it */
    size_t limit;   /* stream: indices at or past it must wait for the consumer */
    size_t running;
    bool *done;     /* stream: ring of look_ahead flags, by index; NULL for map */
    size_t n_done;  /* length of the ring */
    td_error error; /* of index `end`, once that has been lowered */
    bool failed;
} job;

struct td_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;     /* workers wait: a job came, a window moved, or the pool stops */
    pthread_cond_t progress; /* callers wait: a task ended */
    job *jobs;
    bool stop;
    size_t n_workers;
    pthread_t *workers;
};

static bool has_claimable(const job *j)
{
    return j->claimed < j->end && j->claimed < j->limit;
}

/* Lock held. Keeps the failure if it is the lowest so far; the record is of this thread. */
static void keep_failure(job *j, size_t index, td_status status)
{
    if (index >= j->end) return;
    j->end = index;
    j->failed = true;
    if (td_error_last()->status != status)
        TD_FAIL(status, "task %zu failed: %s", index, td_status_text(status));
    j->error = *td_error_last();
}

/* Lock held on entry and on return; runs one index of the job without it. */
static void run_one(td_pool *pool, job *j)
{
    size_t index = j->claimed++;
    j->running++;
    pthread_mutex_unlock(&pool->lock);
    td_status status = j->run(j->ctx, index);
    pthread_mutex_lock(&pool->lock);
    j->running--;
    if (status != TD_OK) keep_failure(j, index, status);
    if (j->done) j->done[index % j->n_done] = true;
    pthread_cond_broadcast(&pool->progress);
}

static void *work(void *arg)
{
    td_pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        job *j = pool->jobs;
        while (j && !has_claimable(j))
            j = j->next;
        if (j)
            run_one(pool, j);
        else
            pthread_cond_wait(&pool->work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

size_t td_pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (size_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set has room for */
    return online > 0 ? (size_t)online : 1;
}

td_status td_pool_create(size_t n_threads, td_pool **out)
{
    if (n_threads == 0) n_threads = td_pool_cores();
    td_status status = TD_OK;
    td_pool *pool = NULL;
    TD_TRY(TD_NEW(&pool));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->progress, NULL);
    TD_TRY(TD_NEW_ARRAY(&pool->workers, n_threads - 1));
    while (pool->n_workers < n_threads - 1) {
        char what[64];
        snprintf(what, sizeof what, "a pool of %zu", n_threads);
        TD_TRY(td_thread_start(&pool->workers[pool->n_workers], what, work, pool));
        pool->n_workers++;
    }
    *out = pool;
    return TD_OK;
fail:
    td_pool_destroy(pool);
    *out = NULL;
    return status;
}

void td_pool_destroy(td_pool *pool)
{
    if (!pool) return;
    assert(!pool->jobs);
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_workers; ++i)
        pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->progress);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

size_t td_pool_threads(const td_pool *pool)
{
    return pool->n_workers + 1;
}

/* Lock held. At the tail: the oldest job is served first. */
static void add_job(td_pool *pool, job *j)
{
    job **link = &pool->jobs;
    while (*link)
        link = &(*link)->next;
    *link = j;
    pthread_cond_broadcast(&pool->work);
}

/* Lock held. */
static void remove_job(td_pool *pool, job *j)
{
    job **link = &pool->jobs;
    while (*link != j)
        link = &(*link)->next;
    *link = j->next;
}

/* Lock held. Helps until nothing is left to claim, then waits for the tasks that others still run. */
static void drain_job(td_pool *pool, job *j)
{
    while (has_claimable(j) || j->running)
        if (has_claimable(j))
            run_one(pool, j);
        else
            pthread_cond_wait(&pool->progress, &pool->lock);
}

td_status td_pool_map(td_pool *pool, size_t count, td_pool_task run, void *ctx)
{
    job j = {.run = run, .ctx = ctx, .end = count, .limit = count};
    pthread_mutex_lock(&pool->lock);
    add_job(pool, &j);
    drain_job(pool, &j);
    remove_job(pool, &j);
    pthread_mutex_unlock(&pool->lock);
    return j.failed ? td_error_adopt(&j.error) : TD_OK;
}

/* Lock held on entry and on return. Consumes index `i`, which is done, and opens its slot for producers. */
static void consume_one(td_pool *pool, job *j, td_pool_task consume, size_t i)
{
    j->done[i % j->n_done] = false;
    pthread_mutex_unlock(&pool->lock);
    td_status status = consume(j->ctx, i);
    pthread_mutex_lock(&pool->lock);
    if (status != TD_OK) keep_failure(j, i, status);
    j->limit++;
    pthread_cond_broadcast(&pool->work);
}

td_status td_pool_stream(td_pool *pool, size_t count, size_t look_ahead, td_pool_task produce,
                         td_pool_task consume, void *ctx)
{
    assert(look_ahead > 0);
    job j = {.run = produce, .ctx = ctx, .end = count, .limit = look_ahead, .n_done = look_ahead};
    td_status status = TD_NEW_ARRAY(&j.done, look_ahead);
    if (status != TD_OK) return status;
    pthread_mutex_lock(&pool->lock);
    add_job(pool, &j);
    for (size_t i = 0; i < j.end;)
        if (j.done[i % look_ahead])
            consume_one(pool, &j, consume, i++);
        else if (has_claimable(&j))
            run_one(pool, &j);
        else
            pthread_cond_wait(&pool->progress, &pool->lock);
    /* After a failure some tasks may still run ahead: they must end before the job leaves the stack. */
    drain_job(pool, &j);
    remove_job(pool, &j);
    pthread_mutex_unlock(&pool->lock);
    free(j.done);
    return j.failed ? td_error_adopt(&j.error) : TD_OK;
}
