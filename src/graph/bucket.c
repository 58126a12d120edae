/* See bucket.h. */
#include "graph/bucket.h"

#include <stdlib.h>

#include "graph/store.h"

struct td_buckets {
    td_store *store;
    td_list **sums; /* by bucket; NULL until wanted */
    uint32_t learner;
    td_bucket *items;
    size_t count, capacity;
    uint64_t elements;
};

/* Entries of a segment lie one behind the other: whoever begins where the one before has ended is next. */
static const td_placed_entry *find_at(const td_store *store, uint32_t segment, uint64_t offset,
                                      size_t *number)
{
    for (size_t i = 0; i < store->n_entries; i++) {
        const td_placed_entry *e = &store->entries[i];
        if (e->segment != segment || e->offset != offset) continue;
        *number = i;
        return e;
    }
    return NULL;
}

/* How far an entry reaches, with the gap behind it. */
static uint64_t find_end(const td_store *store, const td_placed_entry *entry)
{
    uint64_t end = store->segments[entry->segment].elements;
    for (size_t i = 0; i < store->n_entries; i++) {
        const td_placed_entry *e = &store->entries[i];
        if (e->segment == entry->segment && e->offset > entry->offset && e->offset < end) end = e->offset;
    }
    return end;
}

static td_status cut_segment(td_buckets *b, uint32_t segment, uint64_t least)
{
    const td_store *store = b->store;
    td_bucket next = {.segment = segment, .first_entry = SIZE_MAX};
    for (uint64_t at = 0; at < store->segments[segment].elements;) {
        size_t number = 0;
        const td_placed_entry *entry = find_at(store, segment, at, &number);
        TD_REFUSE_IF(!entry, TD_ERR_ARGUMENT, "the store has a gap in segment %u", segment);
        at = find_end(store, entry);
        next.count = at - next.first;
        if (number < next.first_entry) next.first_entry = number;
        if (next.count < least && at < store->segments[segment].elements) continue;
        TD_CHECK(td_alloc_grow(&b->items, &b->capacity, b->count + 1, sizeof *b->items));
        b->items[b->count++] = next;
        b->elements += next.count;
        next = (td_bucket){.segment = segment, .first = at, .first_entry = SIZE_MAX};
    }
    return TD_OK;
}

static int by_last_entry(const void *pa, const void *pb)
{
    const td_bucket *a = pa, *b = pb;
    return a->first_entry > b->first_entry ? -1 : 1; /* never equal: an entry is in one bucket */
}

td_status td_buckets_create(td_store *store, uint32_t learner, uint64_t bytes, td_buckets **out)
{
    td_status status = TD_OK;
    td_buckets *b = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&b));
    b->store = store;
    b->learner = learner;
    for (size_t s = 0; s < store->n_segments; s++)
        if (store->segments[s].learner == learner && store->segments[s].blocks[TD_BLOCK_GRADIENT].buffer)
            TD_TRY(cut_segment(b, (uint32_t)s, bytes / 4));
    TD_FAIL_IF(b->count == 0, TD_ERR_ARGUMENT, "learner %u has no gradients", learner);
    qsort(b->items, b->count, sizeof *b->items, by_last_entry);
    *out = b;
    return TD_OK;
fail:
    td_buckets_destroy(b);
    return status;
}

void td_buckets_destroy(td_buckets *buckets)
{
    if (!buckets) return;
    for (size_t i = 0; buckets->sums && i < buckets->count; i++)
        td_list_destroy(buckets->sums[i]);
    free(buckets->sums);
    free(buckets->items);
    free(buckets);
}

td_status td_buckets_want_sums(td_buckets *buckets)
{
    if (buckets->sums) return TD_OK;
    TD_CHECK(td_store_want_sums(buckets->store, buckets->learner));
    TD_CHECK(TD_NEW_ARRAY(&buckets->sums, buckets->count));
    for (size_t i = 0; i < buckets->count; i++) {
        const td_bucket *b = &buckets->items[i];
        TD_CHECK(td_list_create(buckets->store->device, TD_QUEUE_COMPUTE, &buckets->sums[i]));
        TD_CHECK(
            td_store_record_sum(buckets->sums[i], &buckets->store->segments[b->segment], b->first, b->count));
        TD_CHECK(td_list_finish(buckets->sums[i]));
    }
    return TD_OK;
}

td_list *td_buckets_sum(const td_buckets *buckets, size_t i)
{
    return buckets->sums ? buckets->sums[i] : NULL;
}

size_t td_buckets_count(const td_buckets *buckets)
{
    return buckets->count;
}

uint32_t td_buckets_learner(const td_buckets *buckets)
{
    return buckets->learner;
}

const td_bucket *td_buckets_at(const td_buckets *buckets, size_t i)
{
    return &buckets->items[i];
}

uint64_t td_buckets_elements(const td_buckets *buckets)
{
    return buckets->elements;
}

td_span td_buckets_span(const td_buckets *buckets, size_t i, td_block block, uint64_t first, uint64_t count)
{
    const td_bucket *bucket = &buckets->items[i];
    const uint64_t each = block == TD_BLOCK_HALF ? 2 : 4;
    const td_span whole = buckets->store->segments[bucket->segment].blocks[block];
    if (!whole.buffer) return (td_span){0};
    return td_span_part(whole, each * (bucket->first + first), each * count);
}

void td_travel_add(td_travel *sum, const td_travel *one)
{
    if (sum->last_end_ns == 0 || one->last_start_ns < sum->last_start_ns)
        sum->last_start_ns = one->last_start_ns;
    if (one->last_end_ns > sum->last_end_ns) sum->last_end_ns = one->last_end_ns;
    sum->n_steps = one->n_steps;
    sum->way_ns += one->way_ns;
    sum->wait_ns += one->wait_ns;
    sum->bytes += one->bytes;
}

td_status td_bucket_await(td_cluster *cluster, td_point copied)
{
    enum { PULSE_NS = 500000000 };
    td_times times;
    td_status status;
    while ((status = td_point_wait(copied, PULSE_NS)) == TD_ERR_TIMEOUT)
        TD_CHECK(td_cluster_do_pulse(cluster));
    if (status != TD_OK || !td_cluster_is_modelled(cluster)) return status;
    TD_CHECK(td_point_times(copied, &times));
    td_cluster_do_note_ready(cluster, times.finished_ns);
    return TD_OK;
}

size_t td_buckets_find(const td_buckets *buckets, size_t entry)
{
    const td_placed_entry *e = &buckets->store->entries[entry];
    for (size_t i = 0; i < buckets->count; i++) {
        const td_bucket *b = &buckets->items[i];
        if (b->segment == e->segment && e->offset >= b->first && e->offset < b->first + b->count) return i;
    }
    return buckets->count;
}
