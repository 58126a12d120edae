/* See cluster.h: the thread that makes the module's calls, and what is built on them. Covered by
 * tests/cluster. */
#include "cluster/cluster.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "cluster/launch.h"
#include "cluster/sum.h"

enum {
    MAX_JOBS = 256,
    SHARD_ALIGN = 64,
    MAX_BROADCAST = 1 << 28,
    MAX_MESSAGE = 1 << 30,
    FAILED_CODE = 1,
    PATIENCE_S = 5
};

struct td_cluster {
    const td_cluster_calls *calls; /* NULL: alone */
    td_cluster_seat seat;          /* on a modelled network; {0}: on none */
    int rank, size, local_rank;
    int *bytes, *at;           /* [size]: pieces of a call, of the thread alone */
    int *sent_bytes, *sent_at; /* [size] */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    td_cluster_job jobs[MAX_JOBS];
    uint64_t n_given, n_done;
    bool ends, works;
    td_error error; /* first failure */
    int failed_s;   /* since then */
};

/* ---------------------------------------------------------------- the thread */

/* A call of the module that failed. */
static td_status refuse(const td_cluster *c, int error, const char *what)
{
    char text[160] = "";
    if (error == 0) return TD_OK;
    c->calls->describe(error, text, sizeof text);
    return TD_FAIL_NATIVE(TD_ERR_DRIVER, text, "rank %d: %s failed in %s: %s", c->rank, what, c->calls->name,
                          text);
}

static void keep_failure(td_cluster *c, td_status status)
{
    pthread_mutex_lock(&c->lock);
    if (status != TD_OK && c->error.status == TD_OK) c->error = *td_error_last();
    pthread_mutex_unlock(&c->lock);
}

td_status td_cluster_do_pulse(td_cluster *c)
{
    if (c->calls == NULL || c->calls->pulse == NULL) return TD_OK;
    return refuse(c, c->calls->pulse(), "waiting");
}

/* Sleeps until there is something to do, or it is time for a sign of life. Lock held. */
static void rest(td_cluster *c)
{
    if (td_condition_wait(&c->changed, &c->lock, td_clock_ns() + 1000000000u)) return;
    const bool is_sound = c->error.status == TD_OK;
    /* this rank may be busy for minutes, compiling or validating, before it hears of a failure, or in clearing up */
    const bool is_late = !is_sound && ++c->failed_s == PATIENCE_S && c->calls->pulse != NULL;
    pthread_mutex_unlock(&c->lock);
    if (is_sound) keep_failure(c, td_cluster_do_pulse(c));
    if (is_late) {
        td_log_error("%s", c->error.message);
        c->calls->end(FAILED_CODE);
    }
    pthread_mutex_lock(&c->lock);
}

static void do_jobs(td_cluster *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->n_done < c->n_given || !c->ends) {
        if (c->n_done == c->n_given) {
            rest(c);
            continue;
        }
        const td_cluster_job job = c->jobs[c->n_done % MAX_JOBS];
        const bool is_sound = c->error.status == TD_OK;
        c->works = true;
        pthread_mutex_unlock(&c->lock);
        if (is_sound) keep_failure(c, job.run(c, job.context));
        pthread_mutex_lock(&c->lock);
        c->works = false;
        ++c->n_done;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
}

static void *work(void *context)
{
    td_cluster *c = context;
    if (c->seat.enter != NULL) c->seat.enter(c->seat.context);
    keep_failure(c, refuse(c, c->calls->open(&c->rank, &c->size, &c->local_rank), "joining the others"));
    pthread_mutex_lock(&c->lock);
    c->n_done = 1; /* opening counts as the first job */
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    do_jobs(c);
    if (c->error.status == TD_OK) (void)c->calls->close();
    return NULL;
}

td_status td_cluster_give(td_cluster *c, const td_cluster_job *job, uint64_t *number)
{
    if (c->calls == NULL) {
        *number = c->n_given = ++c->n_done;
        return job->run(c, job->context);
    }
    pthread_mutex_lock(&c->lock);
    while (c->n_given - c->n_done == MAX_JOBS)
        pthread_cond_wait(&c->changed, &c->lock);
    const td_error error = c->error;
    if (error.status == TD_OK) {
        c->jobs[c->n_given % MAX_JOBS] = *job;
        *number = ++c->n_given;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return error.status == TD_OK ? TD_OK : td_error_adopt(&error);
}

td_status td_cluster_wait(td_cluster *c, uint64_t number)
{
    if (c->calls == NULL) return TD_OK;
    pthread_mutex_lock(&c->lock);
    while (c->n_done < number)
        pthread_cond_wait(&c->changed, &c->lock);
    const td_error error = c->error;
    pthread_mutex_unlock(&c->lock);
    return error.status == TD_OK ? TD_OK : td_error_adopt(&error);
}

/* ---------------------------------------------------------------- life */

/* Launchers end all ranks when the first one ends. One of each computer tells what is missing there, so that the
 * others give it time. */
static td_status find_module(td_cluster *c)
{
    const td_status status = td_cluster_load_module(&c->calls);
    if (status != TD_OK && td_cluster_launch().local_rank > 0)
        (void)nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    return status;
}

static td_status join(td_cluster *c)
{
    if (c->calls == NULL) TD_CHECK(find_module(c));
    c->n_given = 1;
    c->rank = (int)td_cluster_launch().rank; /* to be named by, should joining fail */
    TD_CHECK(td_thread_start(&c->thread, "talking to other ranks", work, c));
    c->started = true;
    TD_CHECK(td_cluster_wait(c, 1));
    const size_t size = (size_t)c->size;
    TD_CHECK(TD_NEW_ARRAY(&c->bytes, size));
    TD_CHECK(TD_NEW_ARRAY(&c->at, size));
    TD_CHECK(TD_NEW_ARRAY(&c->sent_bytes, size));
    return TD_NEW_ARRAY(&c->sent_at, size);
}

static td_status create(td_cluster **out)
{
    TD_CHECK(TD_NEW(out));
    (*out)->size = 1;
    pthread_mutex_init(&(*out)->lock, NULL);
    td_condition_open(&(*out)->changed);
    return TD_OK;
}

td_status td_cluster_open_modelled(const td_cluster_seat *seat, td_cluster **out)
{
    td_status status = TD_OK;
    td_cluster *c = NULL;
    *out = NULL;
    TD_TRY(create(&c));
    c->seat = *seat;
    c->calls = seat->calls;
    TD_TRY(join(c));
    *out = c;
    return TD_OK;
fail:
    td_cluster_close(c, true);
    return status;
}

td_status td_cluster_open(td_cluster_kind kind, td_cluster **out)
{
    td_status status = TD_OK;
    td_cluster *c = NULL;
    const td_launch launch = td_cluster_launch();
    char host[64] = "?";
    *out = NULL;
    TD_FAIL_IF(kind == TD_CLUSTER_MPI && launch.launcher == NULL, TD_ERR_CONFIG,
               "cluster.kind is mpi, but no launcher started several processes; start with `mpirun -n 2 "
               "tandem train ...`, or set cluster.kind = auto");
    TD_TRY(create(&c));
    if (kind != TD_CLUSTER_NONE && launch.launcher != NULL && join(c) != TD_OK) {
        (void)gethostname(host, sizeof host - 1);
        TD_TRY(td_error_context("rank %u (on %s), started by %s", launch.rank, host, launch.launcher));
    }
    *out = c;
    return TD_OK;
fail:
    td_cluster_close(c, true);
    return status;
}

/* The thread may be in a call that never ends, waiting for a rank that is gone: then it is left there. */
static void stop_thread(td_cluster *c, bool failed)
{
    pthread_mutex_lock(&c->lock);
    const bool is_stuck = c->n_done < c->n_given && failed;
    failed |= c->error.status != TD_OK;
    if (failed && c->error.status == TD_OK) c->error.status = TD_ERR_CANCELLED;
    c->ends = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (!is_stuck) pthread_join(c->thread, NULL);
    if (failed && c->size > 1) c->calls->end(FAILED_CODE);
}

void td_cluster_close(td_cluster *c, bool failed)
{
    if (c == NULL) return;
    if (c->started) stop_thread(c, failed);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->bytes);
    free(c->at);
    free(c->sent_bytes);
    free(c->sent_at);
    free(c);
}

uint32_t td_cluster_rank(const td_cluster *cluster)
{
    return (uint32_t)cluster->rank;
}

uint32_t td_cluster_size(const td_cluster *cluster)
{
    return (uint32_t)cluster->size;
}

uint32_t td_cluster_local_rank(const td_cluster *cluster)
{
    return (uint32_t)cluster->local_rank;
}

bool td_cluster_is_modelled(const td_cluster *cluster)
{
    return cluster->seat.enter != NULL;
}

void td_cluster_do_note_ready(td_cluster *cluster, uint64_t ns)
{
    if (cluster->seat.note_ready != NULL) cluster->seat.note_ready(ns);
}

const char *td_cluster_name(const td_cluster *cluster)
{
    return cluster->calls != NULL ? cluster->calls->name : "alone";
}

/* ---------------------------------------------------------------- calls that wait */

static td_status give_and_wait(td_cluster *c, const td_cluster_job *job)
{
    uint64_t number;
    TD_CHECK(td_cluster_give(c, job, &number));
    return td_cluster_wait(c, number);
}

typedef struct block {
    void *data, *all;
    size_t bytes;
    int root;
} block;

static td_status do_broadcast(td_cluster *c, void *context)
{
    const block *b = context;
    for (size_t at = 0; at < b->bytes; at += MAX_BROADCAST) {
        const size_t left = b->bytes - at;
        TD_CHECK(refuse(c,
                        c->calls->broadcast((char *)b->data + at,
                                            (int)(left < MAX_BROADCAST ? left : MAX_BROADCAST), b->root),
                        "a broadcast"));
    }
    return TD_OK;
}

td_status td_cluster_broadcast(td_cluster *c, void *data, size_t bytes, uint32_t root)
{
    block b = {.data = data, .bytes = bytes, .root = (int)root};
    if (c->calls == NULL) return TD_OK;
    return give_and_wait(c, &(td_cluster_job){do_broadcast, &b});
}

static td_status do_all_gather(td_cluster *c, void *context)
{
    const block *b = context;
    TD_REFUSE_IF(b->bytes > MAX_MESSAGE / (size_t)c->size, TD_ERR_LIMIT,
                 "%zu bytes of each rank are too many", b->bytes);
    for (int r = 0; r < c->size; ++r) {
        c->bytes[r] = (int)b->bytes;
        c->at[r] = r * (int)b->bytes;
    }
    return refuse(c, c->calls->all_gather(b->data, (int)b->bytes, b->all, (td_pieces){c->bytes, c->at}),
                  "gathering");
}

td_status td_cluster_all_gather(td_cluster *c, const void *mine, size_t bytes, void *all)
{
    block b = {.data = (void *)mine, .all = all, .bytes = bytes};
    if (c->calls != NULL) return give_and_wait(c, &(td_cluster_job){do_all_gather, &b});
    memcpy(all, mine, bytes);
    return TD_OK;
}

static td_status do_barrier(td_cluster *c, void *context)
{
    (void)context;
    return refuse(c, c->calls->barrier(), "waiting for the others");
}

td_status td_cluster_barrier(td_cluster *c)
{
    return c->calls != NULL ? give_and_wait(c, &(td_cluster_job){do_barrier, NULL}) : TD_OK;
}

/* ---------------------------------------------------------------- sums */

uint64_t td_cluster_shard(uint64_t n, uint32_t size, uint32_t rank, uint64_t *first)
{
    const uint64_t blocks = (n + SHARD_ALIGN - 1) / SHARD_ALIGN;
    uint64_t end = (blocks * (rank + 1) / size) * SHARD_ALIGN;
    *first = (blocks * rank / size) * SHARD_ALIGN;
    if (end > n) end = n;
    if (*first > end) *first = end;
    return end - *first;
}

void td_cluster_share_out(const double *seconds, uint32_t n, uint32_t total, uint32_t *counts)
{
    for (uint32_t r = 0; r < n; ++r)
        counts[r] = 1;
    for (uint32_t left = total - n; left > 0; --left) {
        uint32_t next = 0; /* who would finish one more first */
        for (uint32_t r = 1; r < n; ++r)
            if ((counts[r] + 1) * seconds[r] < (counts[next] + 1) * seconds[next]) next = r;
        ++counts[next];
    }
}

static size_t wire_bytes(td_wire_format format)
{
    return format == TD_WIRE_BF16 ? 2 : 4;
}

/* What is sent, where it is not sent as it lies, then a shard of each rank, each a little longer than any. */
static uint64_t most_in_shard(const td_cluster *c, uint64_t n)
{
    return n / (uint64_t)c->size + UINT64_C(2) * SHARD_ALIGN;
}

/* Of n numbers in 16 bits, so that what lies behind them is aligned. */
static size_t packed_bytes(uint64_t n)
{
    return (size_t)((2 * n + SHARD_ALIGN - 1) / SHARD_ALIGN * SHARD_ALIGN);
}

size_t td_cluster_scratch_bytes(const td_cluster *c, uint64_t n)
{
    return (size_t)(packed_bytes(n) + 4 * most_in_shard(c, n) * (uint64_t)c->size);
}

static void list_shards(const td_cluster *c, uint64_t n, size_t each, int *bytes, int *at)
{
    for (int r = 0; r < c->size; ++r) {
        uint64_t first;
        bytes[r] = (int)(each * td_cluster_shard(n, (uint32_t)c->size, (uint32_t)r, &first));
        at[r] = (int)(each * first);
    }
}

/* Numbers on their way: this rank's shard, bytes of each, and room for what comes. */
typedef struct passage {
    uint64_t first, count;
    size_t each;
    char *parts;
} passage;

static td_status find_passage(const td_cluster *c, td_wire_format format, uint64_t n, void *scratch,
                              passage *out)
{
    TD_REFUSE_IF(4 * n > MAX_MESSAGE, TD_ERR_LIMIT,
                 "a bucket of %llu numbers is too large; lower cluster.bucket_mb", (unsigned long long)n);
    out->count = td_cluster_shard(n, (uint32_t)c->size, (uint32_t)c->rank, &out->first);
    out->each = wire_bytes(format);
    out->parts = (char *)scratch + packed_bytes(n);
    return TD_OK;
}

td_status td_cluster_do_reduce_scatter(td_cluster *c, td_wire_format format, uint64_t n, float *values,
                                       void *scratch)
{
    passage p;
    const void *sent = values;
    if (c->calls == NULL) return TD_OK;
    TD_CHECK(find_passage(c, format, n, scratch, &p));
    if (format == TD_WIRE_BF16) {
        td_wire_pack(values, n, scratch);
        sent = scratch;
    }
    list_shards(c, n, p.each, c->sent_bytes, c->sent_at);
    for (int r = 0; r < c->size; ++r) {
        c->bytes[r] = (int)(p.each * p.count);
        c->at[r] = r * (int)(p.each * p.count);
    }
    TD_CHECK(refuse(c,
                    c->calls->exchange(sent, (td_pieces){c->sent_bytes, c->sent_at}, p.parts,
                                       (td_pieces){c->bytes, c->at}),
                    "exchanging gradients"));
    td_wire_sum(p.parts, format, (uint32_t)c->size, p.count, values + p.first);
    return TD_OK;
}

td_status td_cluster_do_all_gather(td_cluster *c, td_wire_format format, uint64_t n, float *values,
                                   void *scratch)
{
    passage p;
    const bool is_packed = format == TD_WIRE_BF16;
    if (c->calls == NULL) return TD_OK;
    TD_CHECK(find_passage(c, format, n, scratch, &p));
    if (is_packed)
        td_wire_pack(values + p.first, p.count, scratch);
    else
        memcpy(p.parts, values + p.first, 4 * p.count);
    list_shards(c, n, p.each, c->bytes, c->at);
    TD_CHECK(refuse(c,
                    c->calls->all_gather(is_packed ? scratch : p.parts, (int)(p.each * p.count),
                                         is_packed ? (void *)p.parts : values, (td_pieces){c->bytes, c->at}),
                    "gathering what was summed"));
    if (is_packed) td_wire_unpack(p.parts, n, values);
    return TD_OK;
}

td_status td_cluster_do_gather(td_cluster *c, const void *mine, const size_t *counts, void *all,
                               uint32_t root)
{
    size_t used = 0;
    if (c->calls == NULL) {
        memcpy(all, mine, counts[0]);
        return TD_OK;
    }
    for (int r = 0; r < c->size; ++r) {
        TD_REFUSE_IF(used + counts[r] > MAX_MESSAGE, TD_ERR_LIMIT, "too much to gather at once");
        c->bytes[r] = (int)counts[r];
        c->at[r] = (int)used;
        used += counts[r];
    }
    return refuse(c, c->calls->gather(mine, c->bytes[c->rank], all, (td_pieces){c->bytes, c->at}, (int)root),
                  "gathering");
}
