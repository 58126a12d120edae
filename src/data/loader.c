/* The loader's thread and its queue (loader.h). The thread goes in order over the items of all
 * batches: any thread of the pool loads an item, the loader's own thread takes them in order, and with the
 * last of a batch sends it to the device. All waiting is on conditions and points. */
#include "data/loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "data/loader_internal.h"

/* ---------------------------------------------------------------- the thread */

static td_host_slot *find_host_slot(td_loader *loader, uint64_t batch)
{
    return &loader->host[batch % TD_LOADER_HOST_SLOTS];
}

/* Lock held. Threads come in any order, so whoever is first draws all that is before. */
static void draw_until(td_loader *loader, uint64_t batch)
{
    for (; loader->n_drawn <= batch; ++loader->n_drawn) {
        td_host_slot *slot = find_host_slot(loader, loader->n_drawn);
        td_sampler_next(loader->settings.sampler, &slot->drawn);
        memcpy(slot->rows, slot->drawn.rows, slot->drawn.count * sizeof *slot->rows);
        slot->drawn.rows = slot->rows;
        slot->shape = (td_batch_shape){.items = slot->drawn.count,
                                       .tokens = slot->drawn.tokens,
                                       .frames = slot->drawn.frames,
                                       .reference_frames = loader->largest.reference_frames};
        slot->number = loader->n_drawn;
        memset(slot->items, 0, loader->settings.batch_size * sizeof *slot->items);
        slot->stride = td_loader_stride((size_t)(slot->shape.frames + 1) * loader->config.hop_samples);
    }
}

static td_status load(void *context, size_t index)
{
    td_loader *loader = context;
    const uint64_t batch = index / loader->settings.batch_size;
    const uint32_t item = (uint32_t)(index % loader->settings.batch_size);
    td_host_slot *slot = find_host_slot(loader, batch);
    pthread_mutex_lock(&loader->lock);
    const bool stop = loader->stop;
    if (!stop) draw_until(loader, batch);
    pthread_mutex_unlock(&loader->lock);
    if (stop) return TD_FAIL(TD_ERR_CANCELLED, "loading was ended");
    return item < slot->shape.items ? td_loader_load_item(loader, slot, item) : TD_OK;
}

/* In the order of the batches, so that the same rows are reported and counted whatever the threads do. */
static td_status judge_failures(td_loader *loader, td_load_item *item)
{
    const td_loader_settings *s = &loader->settings;
    while (item->failures != NULL) {
        td_load_failure *failure = item->failures;
        const uint32_t row = failure->row;
        char place[TD_FILE_PATH_BYTES + 16];
        td_status status = TD_OK;
        if (!loader->is_bad[row]) {
            loader->is_bad[row] = true;
            pthread_mutex_lock(&loader->lock);
            const uint64_t n_bad = ++loader->stats.n_bad;
            pthread_mutex_unlock(&loader->lock);
            td_dataset_place(s->dataset, s->dataset->view.rows[row].line, place);
            td_log_warn("%s: %s; another row takes its place", place, failure->message);
            if ((double)n_bad > s->max_bad_fraction * (double)s->n_rows)
                status = TD_FAIL(
                    TD_ERR_FORMAT,
                    "%llu of %zu recordings failed, more than data.max_bad_fraction = %g allows; "
                    "the last is %s: %s",
                    (unsigned long long)n_bad, s->n_rows, s->max_bad_fraction, place, failure->message);
        }
        item->failures = failure->next;
        free(failure);
        if (status != TD_OK) return status;
    }
    return TD_OK;
}

/* Sleeps until the slot is released. */
static td_status take_device_slot(td_loader *loader, td_device_slot *device)
{
    const uint64_t start_ns = td_clock_ns();
    pthread_mutex_lock(&loader->lock);
    while (device->is_taken && !loader->stop)
        pthread_cond_wait(&loader->changed, &loader->lock);
    const bool stop = loader->stop;
    device->is_taken = true;
    loader->stats.full_ns += td_clock_ns() - start_ns;
    pthread_mutex_unlock(&loader->lock);
    return stop ? TD_FAIL(TD_ERR_CANCELLED, "loading was ended") : TD_OK;
}

/* A batch whose items are all there: to the device. */
static td_status prepare(td_loader *loader, uint64_t batch)
{
    const uint64_t start_ns = td_clock_thread_ns();
    if (batch >= TD_LOADER_IN_FLIGHT)
        TD_CHECK(td_loader_retire(loader, find_host_slot(loader, batch - TD_LOADER_IN_FLIGHT)));
    td_device_slot *device = &loader->device[batch % loader->settings.n_ready];
    TD_CHECK(take_device_slot(loader, device));
    TD_CHECK(td_loader_send(loader, find_host_slot(loader, batch), device));
    pthread_mutex_lock(&loader->lock);
    if (batch >= TD_LOADER_HOST_SLOTS) {
        loader->stats.host_ns += td_clock_thread_ns() - start_ns;
        ++loader->stats.n_host;
    }
    ++loader->n_published;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return TD_OK;
}

static td_status hand_over(void *context, size_t index)
{
    td_loader *loader = context;
    const uint64_t batch = index / loader->settings.batch_size;
    const uint32_t item = (uint32_t)(index % loader->settings.batch_size);
    TD_CHECK(judge_failures(loader, &find_host_slot(loader, batch)->items[item]));
    if (item + 1 < loader->settings.batch_size) return TD_OK;
    if (prepare(loader, batch) != TD_OK)
        TD_CHECK(td_error_context("preparing batch %llu on the data device", (unsigned long long)batch));
    return TD_OK;
}

static void *run(void *context)
{
    td_loader *loader = context;
    const td_loader_settings *s = &loader->settings;
    const uint64_t most = SIZE_MAX / s->batch_size - 1;
    const uint64_t n_batches = s->n_batches > 0 && s->n_batches < most ? s->n_batches : most;
    td_status status = td_pool_stream(s->pool, (size_t)n_batches * s->batch_size,
                                      (size_t)TD_LOADER_AHEAD * s->batch_size, load, hand_over, loader);
    td_error error = {.status = status};
    if (status != TD_OK) error = *td_error_last();
    for (size_t i = 0; i < TD_LOADER_HOST_SLOTS; ++i) {
        const td_status retired = td_loader_retire(loader, &loader->host[i]);
        if (retired != TD_OK && error.status == TD_OK) error = *td_error_last();
    }
    pthread_mutex_lock(&loader->lock);
    loader->error = error;
    loader->is_over = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---------------------------------------------------------------- the interface */

static td_status measure_shapes(td_loader *loader)
{
    const td_loader_settings *s = &loader->settings;
    td_batch_shape *largest = &loader->largest;
    const bool is_sliced = s->slice.most > 0;
    const double samples = s->reference_s * loader->config.rate;
    *largest = (td_batch_shape){.items = s->batch_size};
    for (size_t i = 0; i < td_sampler_shape_count(s->sampler); ++i) {
        uint32_t frames, tokens;
        td_sampler_shape(s->sampler, i, &frames, &tokens);
        largest->frames = frames > largest->frames ? frames : largest->frames;
        largest->tokens = tokens > largest->tokens ? tokens : largest->tokens;
    }
    if (!td_loader_wants(loader, "reference_mel") && !td_loader_wants(loader, "reference_counts") &&
        !td_loader_wants(loader, "cond_range"))
        return TD_OK;
    if (!is_sliced && !(samples >= 1 && samples < 1e8))
        return TD_FAIL(TD_ERR_CONFIG, "references of %g s are too %s", s->reference_s,
                       samples < 1 ? "short" : "long");
    loader->reference_samples = is_sliced ? s->slice.most : (size_t)samples;
    loader->reference_stride = td_loader_stride(loader->reference_samples);
    largest->reference_frames = td_mel_frames(&loader->config, loader->reference_samples);
    return TD_OK;
}

td_status td_loader_create(const td_loader_settings *settings, td_loader **out)
{
    td_status status = TD_OK;
    td_loader *loader = NULL;
    *out = NULL;
    TD_FAIL_IF(settings->batch_size == 0 || settings->n_ready < 2, TD_ERR_ARGUMENT,
               "a loader needs a batch size and room for two batches, not %u and %u", settings->batch_size,
               settings->n_ready);
    TD_TRY(TD_NEW(&loader));
    loader->settings = *settings;
    loader->config = *td_mel_get_config(settings->mel);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    TD_TRY(td_loader_choose_features(loader));
    TD_TRY(measure_shapes(loader));
    TD_TRY(td_loader_sort_rows(loader));
    if (loader->reference_samples > 0 && settings->slice.most == 0)
        TD_TRY(
            td_references_create(settings->dataset, settings->rows, settings->n_rows, &loader->references));
    TD_TRY(td_loader_make_slots(loader));
    TD_TRY(td_thread_start(&loader->thread, "the loader", run, loader));
    loader->has_thread = true;
    *out = loader;
    return TD_OK;
fail:
    td_loader_destroy(loader);
    return status;
}

void td_loader_destroy(td_loader *loader)
{
    if (loader == NULL) return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    if (loader->has_thread) pthread_join(loader->thread, NULL);
    td_loader_free_slots(loader);
    td_loader_free_parts(loader);
    td_references_destroy(loader->references);
    free(loader->lengths);
    free(loader->length_at);
    free(loader->is_bad);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

td_status td_loader_next(td_loader *loader, td_batch *out)
{
    td_status status = TD_OK;
    const uint64_t start_ns = td_clock_ns();
    pthread_mutex_lock(&loader->lock);
    while (loader->n_taken == loader->n_published && !loader->is_over)
        pthread_cond_wait(&loader->changed, &loader->lock);
    loader->stats.wait_ns += td_clock_ns() - start_ns;
    if (loader->n_taken < loader->n_published) {
        *out = loader->device[loader->n_taken++ % loader->settings.n_ready].batch;
        ++loader->stats.n_batches;
        loader->stats.n_items += out->count;
    } else if (loader->error.status != TD_OK) {
        status = td_error_adopt(&loader->error);
    } else {
        status =
            TD_FAIL(TD_ERR_NOT_FOUND, "all %llu batches were taken", (unsigned long long)loader->n_published);
    }
    pthread_mutex_unlock(&loader->lock);
    return status;
}

void td_loader_release(td_loader *loader, const td_batch *batch, td_point used)
{
    pthread_mutex_lock(&loader->lock);
    td_device_slot *device = &loader->device[batch->number % loader->settings.n_ready];
    device->used = used;
    device->is_taken = false;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
}

td_loader_stats td_loader_count(td_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    const td_loader_stats stats = loader->stats;
    pthread_mutex_unlock(&loader->lock);
    return stats;
}
