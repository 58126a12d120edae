/* See shard.h. */
#include "graph/shard.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/blocking.h"
#include "graph/store.h"
#include "ops/move.h"

/* One bucket on its way between ranks. */
typedef struct passage {
    struct td_shards *shards;
    size_t bucket;
    uint64_t first, count; /* this rank's part */
    uint64_t at;           /* of it, in the moments of this rank */
    td_span host;          /* of the whole bucket */
    td_list *down, *up;
    td_point copied;
    uint64_t job;
    bool is_away;              /* what the others have of it is not on the device yet */
    uint64_t start_ns, end_ns; /* of the cluster's thread, from when it was copied */
} passage;

struct td_shards {
    td_cluster *cluster;
    td_store *store;
    const td_buckets *buckets;
    td_span moments[2]; /* of this rank, bucket after bucket */
    uint64_t elements;  /* of them */
    td_span host;       /* parameters on their way */
    void *scratch;
    passage *passages; /* by bucket */
    size_t count;
    size_t n_away;
    bool rests;
    td_list *follower; /* borrowed, or NULL */
    td_travel stats;
    float *gathered[2]; /* rank 0 alone: all moments, segment after segment */
    uint64_t *segment_at;
    uint64_t n_gathered;
};

/* ---------------------------------------------------------------- life */

static td_status open_passage(td_shards *s, size_t i, uint64_t *at)
{
    passage *p = &s->passages[i];
    const td_bucket *bucket = td_buckets_at(s->buckets, i);
    const td_span weights = td_buckets_span(s->buckets, i, TD_BLOCK_WEIGHT, 0, bucket->count);
    const td_span half = td_buckets_span(s->buckets, i, TD_BLOCK_HALF, 0, bucket->count);
    *p = (passage){
        .shards = s, .bucket = i, .at = s->elements, .host = td_span_part(s->host, *at, 4 * bucket->count)};
    p->count =
        td_cluster_shard(bucket->count, td_cluster_size(s->cluster), td_cluster_rank(s->cluster), &p->first);
    s->elements += p->count;
    *at += 4 * bucket->count;
    TD_CHECK(td_list_create(s->store->device, TD_QUEUE_COMPUTE, &p->down));
    if (p->count > 0)
        TD_CHECK(td_list_copy(p->down, td_span_part(p->host, 4 * p->first, 4 * p->count),
                              td_span_part(weights, 4 * p->first, 4 * p->count)));
    TD_CHECK(td_list_finish(p->down));
    TD_CHECK(td_list_create(s->store->device, TD_QUEUE_COMPUTE, &p->up));
    TD_CHECK(td_list_copy(p->up, weights, p->host));
    if (half.buffer)
        TD_CHECK(td_op_cast_half(p->up, td_dtype_format(s->store->options.half), (uint32_t)bucket->count,
                                 weights, half));
    return td_list_finish(p->up);
}

static td_status take_moments(td_shards *s)
{
    td_status status = TD_OK;
    td_list *list = NULL;
    const uint64_t bytes = s->elements > 0 ? 4 * s->elements : 4;
    TD_TRY(td_list_create(s->store->device, TD_QUEUE_COMPUTE, &list));
    for (size_t k = 0; k < 2; k++) {
        TD_TRY(td_memory_alloc(s->store->memory, TD_MEMORY_DEVICE, bytes, &s->moments[k]));
        s->store->bytes += bytes;
        TD_TRY(td_list_fill(list, td_span_part(s->moments[k], 0, bytes), 0));
    }
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_shards_create(td_cluster *cluster, td_store *store, const td_buckets *buckets, td_shards **out)
{
    td_status status = TD_OK;
    td_shards *s = NULL;
    uint64_t at = 0, largest = 0;
    *out = NULL;
    TD_TRY(TD_NEW(&s));
    s->cluster = cluster;
    s->store = store;
    s->buckets = buckets;
    TD_TRY(TD_NEW_ARRAY(&s->passages, td_buckets_count(buckets)));
    TD_TRY(TD_NEW_ARRAY(&s->segment_at, store->n_segments));
    TD_TRY(td_memory_alloc(store->memory, TD_MEMORY_HOST, 4 * td_buckets_elements(buckets), &s->host));
    for (; s->count < td_buckets_count(buckets); s->count++) {
        TD_TRY(open_passage(s, s->count, &at));
        const uint64_t n = td_buckets_at(buckets, s->count)->count;
        if (n > largest) largest = n;
    }
    for (size_t i = 0; i < store->n_segments; i++) {
        s->segment_at[i] = s->n_gathered;
        s->n_gathered += store->segments[i].elements;
    }
    TD_TRY(take_moments(s));
    for (size_t k = 0; td_cluster_rank(cluster) == 0 && k < 2; k++)
        TD_TRY(TD_NEW_ARRAY(&s->gathered[k], s->n_gathered));
    TD_TRY(td_alloc_zeroed(td_cluster_scratch_bytes(cluster, largest), 1, &s->scratch));
    store->shards[td_buckets_learner(buckets)] = s;
    *out = s;
    return TD_OK;
fail:
    td_shards_destroy(s);
    return status;
}

void td_shards_destroy(td_shards *s)
{
    if (!s) return;
    for (size_t i = 0; i < TD_MAX_LEARNERS; i++)
        if (s->store->shards[i] == s) s->store->shards[i] = NULL;
    for (size_t i = 0; i < s->count; i++) {
        if (s->passages[i].job > 0) (void)td_cluster_wait(s->cluster, s->passages[i].job);
        td_list_destroy(s->passages[i].down);
        td_list_destroy(s->passages[i].up);
    }
    for (size_t k = 0; k < 2; k++) {
        td_memory_free(s->store->memory, s->moments[k]);
        free(s->gathered[k]);
    }
    td_memory_free(s->store->memory, s->host);
    free(s->scratch);
    free(s->passages);
    free(s->segment_at);
    free(s);
}

uint64_t td_shards_part(const td_shards *s, size_t bucket, uint64_t *first, td_span *moment1,
                        td_span *moment2)
{
    const passage *p = &s->passages[bucket];
    *first = p->first;
    *moment1 = td_span_part(s->moments[0], 4 * p->at, 4 * p->count);
    *moment2 = td_span_part(s->moments[1], 4 * p->at, 4 * p->count);
    return p->count;
}

const td_buckets *td_shards_buckets(const td_shards *shards)
{
    return shards->buckets;
}

/* ---------------------------------------------------------------- parameters */

/* On the cluster's thread. */
static td_status gather_weights(td_cluster *cluster, void *context)
{
    passage *p = context;
    TD_CHECK(td_bucket_await(cluster, p->copied));
    p->start_ns = td_clock_ns();
    TD_CHECK(td_cluster_do_all_gather(cluster, TD_WIRE_FP32,
                                      td_buckets_at(p->shards->buckets, p->bucket)->count,
                                      td_span_host(p->host), p->shards->scratch));
    p->end_ns = td_clock_ns();
    return TD_OK;
}

/* Buckets are in the order in which a backward pass ends with them: a forward pass begins with the last. */
td_status td_shards_begin(td_shards *s)
{
    td_queue *queue = td_device_queue(s->store->device, TD_QUEUE_COMPUTE);
    for (size_t i = s->count; !s->rests && i-- > 0;) {
        passage *p = &s->passages[i];
        TD_CHECK(td_queue_submit(queue, &(td_submission){.list = p->down}, &p->copied));
        TD_CHECK(td_cluster_give(s->cluster, &(td_cluster_job){gather_weights, p}, &p->job));
        p->is_away = true;
        s->n_away++;
    }
    if (s->n_away == 0 && s->follower)
        return td_queue_submit(queue, &(td_submission){.list = s->follower}, NULL);
    return TD_OK;
}

/* From when on a device that has come to `before` waits. */
static uint64_t find_idle(td_point before, uint64_t now_ns)
{
    td_times times;
    bool reached = true;
    if (!before.queue) return 0;
    if (td_point_poll(before, &reached) != TD_OK || !reached) return now_ns;
    return td_point_times(before, &times) == TD_OK ? times.finished_ns : 0;
}

/* All have come. */
static td_status end_step(td_shards *s, td_queue *queue)
{
    s->stats.last_start_ns = s->passages[s->count - 1].start_ns;
    s->stats.last_end_ns = s->passages[0].end_ns;
    s->stats.n_steps++;
    if (!s->follower) return TD_OK;
    return td_queue_submit(queue, &(td_submission){.list = s->follower}, NULL);
}

td_status td_shards_await(td_shards *s, size_t bucket, td_point before)
{
    td_queue *queue = td_device_queue(s->store->device, TD_QUEUE_COMPUTE);
    passage *p = &s->passages[bucket];
    if (!p->is_away) return TD_OK;
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_cluster_wait(s->cluster, p->job));
    const uint64_t end_ns = td_clock_ns(), idle_ns = find_idle(before, end_ns);
    TD_CHECK(td_queue_submit(queue, &(td_submission){.list = p->up}, NULL));
    p->is_away = false;
    s->stats.wait_ns += end_ns > idle_ns ? end_ns - (idle_ns > start_ns ? idle_ns : start_ns) : 0;
    s->stats.way_ns += p->end_ns - p->start_ns;
    s->stats.bytes += p->host.bytes;
    return --s->n_away == 0 ? end_step(s, queue) : TD_OK;
}

td_status td_shards_finish(td_shards *s, td_point before)
{
    for (size_t i = s->count; s->n_away > 0 && i-- > 0;)
        TD_CHECK(td_shards_await(s, i, before));
    return TD_OK;
}

void td_shards_follow(td_shards *shards, td_list *list)
{
    shards->follower = list;
}

void td_shards_rest(td_shards *shards, bool rests)
{
    shards->rests = rests;
}

td_travel td_shards_count(td_shards *const *shards, size_t n)
{
    td_travel sum = {0};
    for (size_t i = 0; i < n; i++)
        if (shards[i]) td_travel_add(&sum, &shards[i]->stats);
    return sum;
}

td_status td_store_settle(td_store *store)
{
    for (size_t i = 0; i < TD_MAX_LEARNERS; i++)
        if (store->shards[i]) TD_CHECK(td_shards_finish(store->shards[i], (td_point){0}));
    return TD_OK;
}

/* ---------------------------------------------------------------- checkpoints */

static size_t block_number(td_block block)
{
    return block == TD_BLOCK_MOMENT1 ? 0 : 1;
}

const float *td_shards_moment(const td_shards *s, size_t entry, td_block block)
{
    const td_placed_entry *e = &s->store->entries[entry];
    const float *all = s->gathered[block_number(block)];
    if (!all || td_buckets_find(s->buckets, entry) == s->count) return NULL;
    return all + s->segment_at[e->segment] + e->offset;
}

typedef struct gathering {
    const float *mine;
    size_t *counts;
    float *all;
} gathering;

static td_status run_gathering(td_cluster *cluster, void *context)
{
    const gathering *g = context;
    return td_cluster_do_gather(cluster, g->mine, g->counts, g->all, 0);
}

/* One bucket's moments; `mine` has those of this rank. */
static td_status gather_bucket(td_shards *s, size_t i, const float *mine, float *all)
{
    td_status status = TD_OK;
    const uint32_t size = td_cluster_size(s->cluster);
    const td_bucket *bucket = td_buckets_at(s->buckets, i);
    uint64_t first, number;
    gathering g = {.mine = mine + s->passages[i].at};
    TD_TRY(TD_NEW_ARRAY(&g.counts, size));
    for (uint32_t r = 0; r < size; r++)
        g.counts[r] = 4 * td_cluster_shard(bucket->count, size, r, &first);
    if (all) g.all = all + s->segment_at[bucket->segment] + bucket->first;
    TD_TRY(td_cluster_give(s->cluster, &(td_cluster_job){run_gathering, &g}, &number));
    TD_TRY(td_cluster_wait(s->cluster, number));
fail:
    free(g.counts);
    return status;
}

td_status td_shards_gather(td_shards *s)
{
    td_status status = TD_OK;
    float *mine = NULL;
    TD_TRY(TD_NEW_ARRAY(&mine, s->elements + 1));
    for (size_t k = 0; k < 2; k++) {
        if (s->elements > 0)
            TD_TRY(td_blocking_read(s->store->memory, td_span_part(s->moments[k], 0, 4 * s->elements),
                                    (td_point){0}, mine));
        for (size_t i = 0; i < s->count; i++)
            TD_TRY(gather_bucket(s, i, mine, s->gathered[k]));
    }
fail:
    free(mine);
    return status;
}

td_status td_shards_load(td_shards *s, size_t entry, td_block block, const float *values)
{
    const td_placed_entry *e = &s->store->entries[entry];
    const size_t i = td_buckets_find(s->buckets, entry);
    if (i == s->count) return TD_OK;
    const passage *p = &s->passages[i];
    /* both in elements of the segment */
    const uint64_t part = td_buckets_at(s->buckets, i)->first + p->first;
    const uint64_t end = e->offset + td_shape_size(e->entry.shape);
    const uint64_t from = part > e->offset ? part : e->offset;
    const uint64_t to = part + p->count < end ? part + p->count : end;
    if (from >= to) return TD_OK;
    return td_blocking_write(
        s->store->memory,
        td_span_part(s->moments[block_number(block)], 4 * (p->at + from - part), 4 * (to - from)),
        values + (from - e->offset));
}
