/* See reduce.h. */
#include "train/reduce.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

typedef struct way {
    struct td_reducer *reducer;
    uint64_t elements;
    td_span host;
    td_list *down, *up;
    td_point copied;
    uint64_t job, start_ns, end_ns; /* of the cluster's thread, from when it was there */
} way;

struct td_reducer {
    td_reducer_settings s;
    td_span host;
    void *scratch; /* of the cluster's thread */
    way *ways;     /* by bucket */
    size_t n_ways;
    td_travel stats;
};

/* ---------------------------------------------------------------- life */

static td_status record_way(td_reducer *r, size_t i, uint64_t *at)
{
    way *w = &r->ways[i];
    td_device *device = td_memory_device(r->s.memory);
    w->reducer = r;
    w->elements = td_buckets_at(r->s.buckets, i)->count;
    w->host = td_span_part(r->host, *at, 4 * w->elements);
    *at += 4 * w->elements;
    const td_span gradient = td_buckets_span(r->s.buckets, i, TD_BLOCK_GRADIENT, 0, w->elements);
    TD_CHECK(td_list_create(device, TD_QUEUE_COPY, &w->down));
    TD_CHECK(td_list_copy(w->down, w->host, gradient));
    TD_CHECK(td_list_finish(w->down));
    TD_CHECK(td_list_create(device, TD_QUEUE_COMPUTE, &w->up));
    TD_CHECK(td_list_copy(w->up, gradient, w->host));
    return td_list_finish(w->up);
}

td_status td_reducer_create(const td_reducer_settings *settings, td_reducer **out)
{
    td_status status = TD_OK;
    td_reducer *r = NULL;
    uint64_t at = 0, largest = 0;
    *out = NULL;
    TD_TRY(TD_NEW(&r));
    r->s = *settings;
    r->n_ways = td_buckets_count(settings->buckets);
    TD_TRY(TD_NEW_ARRAY(&r->ways, r->n_ways));
    TD_TRY(td_memory_alloc(settings->memory, TD_MEMORY_HOST, 4 * td_buckets_elements(settings->buckets),
                           &r->host));
    for (size_t i = 0; i < r->n_ways; ++i) {
        TD_TRY(record_way(r, i, &at));
        if (r->ways[i].elements > largest) largest = r->ways[i].elements;
    }
    TD_TRY(td_alloc_zeroed(td_cluster_scratch_bytes(settings->cluster, largest), 1, &r->scratch));
    *out = r;
    return TD_OK;
fail:
    td_reducer_destroy(r);
    return status;
}

void td_reducer_destroy(td_reducer *r)
{
    if (r == NULL) return;
    for (size_t i = 0; i < r->n_ways; ++i)
        if (r->ways[i].job > 0) (void)td_cluster_wait(r->s.cluster, r->ways[i].job);
    for (size_t i = 0; i < r->n_ways; ++i) {
        td_list_destroy(r->ways[i].down);
        td_list_destroy(r->ways[i].up);
    }
    td_memory_free(r->s.memory, r->host);
    free(r->scratch);
    free(r->ways);
    free(r);
}

/* ---------------------------------------------------------------- a step */

/* On the cluster's thread. */
static td_status sum_bucket(td_cluster *cluster, void *context)
{
    way *w = context;
    float *values = td_span_host(w->host);
    const td_reducer *r = w->reducer;
    TD_CHECK(td_bucket_await(cluster, w->copied));
    w->start_ns = td_clock_ns();
    TD_CHECK(td_cluster_do_reduce_scatter(cluster, r->s.format, w->elements, values, r->scratch));
    TD_CHECK(td_cluster_do_all_gather(cluster, r->s.format, w->elements, values, r->scratch));
    w->end_ns = td_clock_ns();
    return TD_OK;
}

td_status td_reducer_begin(td_reducer *r, const td_point *ready)
{
    td_queue *queue = td_device_queue(td_memory_device(r->s.memory), TD_QUEUE_COPY);
    for (size_t i = 0; i < r->n_ways; ++i) {
        way *w = &r->ways[i];
        const td_submission down = {.list = w->down, .waits = &ready[i], .n_waits = 1};
        TD_CHECK(td_queue_submit(queue, &down, &w->copied));
        TD_CHECK(td_cluster_give(r->s.cluster, &(td_cluster_job){sum_bucket, w}, &w->job));
    }
    return TD_OK;
}

td_status td_reducer_finish(td_reducer *r)
{
    td_queue *queue = td_device_queue(td_memory_device(r->s.memory), TD_QUEUE_COMPUTE);
    TD_CHECK(td_point_wait(r->ways[r->n_ways - 1].copied, TD_WAIT_FOREVER)); /* the backward pass has ended */
    const uint64_t start_ns = td_clock_ns();
    for (size_t i = 0; i < r->n_ways; ++i) {
        TD_CHECK(td_cluster_wait(r->s.cluster, r->ways[i].job));
        TD_CHECK(td_queue_submit(queue, &(td_submission){.list = r->ways[i].up}, NULL));
        r->stats.way_ns += r->ways[i].end_ns - r->ways[i].start_ns;
        r->stats.bytes += 4 * r->ways[i].elements;
    }
    r->stats.wait_ns += td_clock_ns() - start_ns;
    r->stats.last_start_ns = r->ways[0].start_ns;
    r->stats.last_end_ns = r->ways[r->n_ways - 1].end_ns;
    ++r->stats.n_steps;
    return TD_OK;
}

td_travel td_reducers_count(td_reducer *const *reducers, size_t n)
{
    td_travel sum = {0};
    for (size_t i = 0; i < n && reducers[i] != NULL; ++i)
        td_travel_add(&sum, &reducers[i]->stats);
    return sum;
}
