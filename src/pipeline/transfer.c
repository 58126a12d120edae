/* The transfer's thread and its queue. See transfer.h. */
#include "pipeline/transfer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

typedef struct slot {
    td_list *list;  /* packs the last batch; NULL before the first */
    td_batch batch; /* on the model device */
    bool is_taken;  /* from being filled to being released */
    td_point used;  /* the last user's */
} slot;

struct td_transfer {
    td_transfer_settings settings;
    td_channel *channel;
    slot *slots; /* n_ready, as many as the channel's */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards what follows, and is_taken and used of slots */
    pthread_cond_t changed;
    bool stop, is_over;
    uint64_t first; /* number of the first batch; they are consecutive, so a number tells the slot */
    uint64_t n_published, n_taken;
    td_error error;
    td_transfer_stats stats;
};

/* ---------------------------------------------------------------- the thread */

/* Sleeps until the slot is released; false when the transfer is to end. */
static bool take_slot(td_transfer *transfer, slot *s)
{
    const uint64_t start_ns = td_clock_ns();
    pthread_mutex_lock(&transfer->lock);
    while (s->is_taken && !transfer->stop)
        pthread_cond_wait(&transfer->changed, &transfer->lock);
    s->is_taken = true;
    transfer->stats.full_ns += td_clock_ns() - start_ns;
    const bool goes_on = !transfer->stop;
    pthread_mutex_unlock(&transfer->lock);
    return goes_on;
}

/* Copies the batch into the channel's slot on the data device. *packed: when it is there. */
static td_status pack(td_transfer *transfer, uint32_t index, const td_batch *batch, td_point *packed)
{
    slot *s = &transfer->slots[index];
    td_device *device = td_memory_device(transfer->settings.data);
    const td_span room = td_channel_source(transfer->channel, index);
    const td_point waits[] = {batch->ready, td_channel_reusable(transfer->channel, index, s->used)};
    const uint64_t bytes = td_batch_bytes(batch);
    TD_REFUSE_IF(bytes > room.bytes, TD_ERR_LIMIT,
                 "batch %llu has %llu bytes, more than the %llu that the transfer was made for",
                 (unsigned long long)batch->number, (unsigned long long)bytes,
                 (unsigned long long)room.bytes);
    td_list_destroy(s->list);
    s->list = NULL;
    TD_CHECK(td_list_create(device, TD_QUEUE_COPY, &s->list));
    TD_CHECK(td_batch_pack(batch, room, s->list));
    TD_CHECK(td_list_finish(s->list));
    const td_submission work = {.list = s->list, .waits = waits, .n_waits = 2};
    return td_queue_submit(td_device_queue(device, TD_QUEUE_COPY), &work, packed);
}

static td_status send(td_transfer *transfer, uint32_t index, const td_batch *batch)
{
    slot *s = &transfer->slots[index];
    td_point packed = {0}, arrived = {0};
    const td_status packs = pack(transfer, index, batch, &packed);
    transfer->settings.release(transfer->settings.context, batch, packed);
    TD_CHECK(packs);
    TD_CHECK(td_channel_send(transfer->channel, index, td_batch_bytes(batch), packed, s->used, &arrived));
    if (transfer->settings.verify) TD_CHECK(td_channel_verify(transfer->channel, index));
    s->batch = td_batch_packed(batch, td_channel_destination(transfer->channel, index));
    s->batch.ready = arrived;
    td_monitor_note(transfer->settings.monitor, TD_STAGE_PREPARE, batch->number, batch->made, batch->n_made);
    td_monitor_note(transfer->settings.monitor, TD_STAGE_TRANSFER, batch->number,
                    (const td_point[]){packed, arrived}, 2);
    return TD_OK;
}

static td_status pass_on(td_transfer *transfer, uint32_t index)
{
    td_batch batch;
    if (!take_slot(transfer, &transfer->slots[index])) return TD_FAIL(TD_ERR_CANCELLED, "transfer was ended");
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(transfer->settings.next(transfer->settings.context, &batch));
    const uint64_t wait_ns = td_clock_ns() - start_ns, begun_ns = td_clock_thread_ns();
    if (send(transfer, index, &batch) != TD_OK)
        TD_CHECK(
            td_error_context("sending batch %llu to the model device", (unsigned long long)batch.number));
    pthread_mutex_lock(&transfer->lock);
    transfer->stats.wait_ns += wait_ns;
    transfer->stats.host_ns += td_clock_thread_ns() - begun_ns;
    if (transfer->n_published++ == 0) transfer->first = batch.number;
    pthread_cond_broadcast(&transfer->changed);
    pthread_mutex_unlock(&transfer->lock);
    return TD_OK;
}

static void *run(void *context)
{
    td_transfer *transfer = context;
    td_status status = TD_OK;
    for (uint64_t n = 0; status == TD_OK; ++n)
        status = pass_on(transfer, (uint32_t)(n % transfer->settings.n_ready));
    pthread_mutex_lock(&transfer->lock);
    transfer->error = *td_error_last();
    transfer->is_over = true;
    pthread_cond_broadcast(&transfer->changed);
    pthread_mutex_unlock(&transfer->lock);
    return NULL;
}

/* ---------------------------------------------------------------- the interface */

td_status td_transfer_create(const td_transfer_settings *settings, td_transfer **out)
{
    td_transfer *transfer = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&transfer));
    transfer->settings = *settings;
    pthread_mutex_init(&transfer->lock, NULL);
    pthread_cond_init(&transfer->changed, NULL);
    if (transfer->settings.n_ready == 0) transfer->settings.n_ready = 2;
    TD_TRY(TD_NEW_ARRAY(&transfer->slots, transfer->settings.n_ready));
    TD_TRY(td_channel_create(settings->data, settings->model, settings->batch_bytes,
                             &(td_channel_options){.slots = transfer->settings.n_ready}, &transfer->channel));
    TD_TRY(td_thread_start(&transfer->thread, "the transfer", run, transfer));
    transfer->has_thread = true;
    *out = transfer;
    return TD_OK;
fail:
    td_transfer_destroy(transfer);
    return status;
}

void td_transfer_destroy(td_transfer *transfer)
{
    if (!transfer) return;
    pthread_mutex_lock(&transfer->lock);
    transfer->stop = true;
    pthread_cond_broadcast(&transfer->changed);
    pthread_mutex_unlock(&transfer->lock);
    if (transfer->has_thread) pthread_join(transfer->thread, NULL);
    for (size_t i = 0; transfer->slots && i < transfer->settings.n_ready; ++i)
        td_list_destroy(transfer->slots[i].list);
    td_channel_destroy(transfer->channel);
    free(transfer->slots);
    pthread_cond_destroy(&transfer->changed);
    pthread_mutex_destroy(&transfer->lock);
    free(transfer);
}

uint32_t td_transfer_wait_full(td_transfer *transfer, uint64_t limit_ns, uint32_t *room)
{
    const struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000),
                                   .tv_nsec = (long)(limit_ns % 1000000000)};
    int error = 0;
    *room = transfer->settings.n_ready;
    pthread_mutex_lock(&transfer->lock);
    while (transfer->n_published - transfer->n_taken < *room && !transfer->is_over && error == 0)
        error = pthread_cond_clockwait(&transfer->changed, &transfer->lock, CLOCK_MONOTONIC, &limit);
    const uint64_t n = transfer->n_published - transfer->n_taken;
    pthread_mutex_unlock(&transfer->lock);
    return (uint32_t)n;
}

td_status td_transfer_next(td_transfer *transfer, td_batch *out)
{
    td_status status = TD_OK;
    pthread_mutex_lock(&transfer->lock);
    while (transfer->n_taken == transfer->n_published && !transfer->is_over)
        pthread_cond_wait(&transfer->changed, &transfer->lock);
    if (transfer->n_taken < transfer->n_published)
        *out = transfer->slots[transfer->n_taken++ % transfer->settings.n_ready].batch;
    else
        status = td_error_adopt(&transfer->error);
    pthread_mutex_unlock(&transfer->lock);
    return status;
}

void td_transfer_release(td_transfer *transfer, const td_batch *batch, td_point used)
{
    pthread_mutex_lock(&transfer->lock);
    slot *s = &transfer->slots[(batch->number - transfer->first) % transfer->settings.n_ready];
    s->used = used;
    s->is_taken = false;
    pthread_cond_broadcast(&transfer->changed);
    pthread_mutex_unlock(&transfer->lock);
}

td_transfer_stats td_transfer_count(td_transfer *transfer)
{
    td_channel_stats channel;
    pthread_mutex_lock(&transfer->lock);
    td_transfer_stats stats = transfer->stats;
    pthread_mutex_unlock(&transfer->lock);
    td_channel_get_stats(transfer->channel, &channel);
    stats.path = td_channel_get_path(transfer->channel);
    stats.n_batches = channel.sends;
    stats.payload_bytes = channel.payload_bytes;
    stats.copied_bytes = channel.copied_bytes;
    return stats;
}
