/* The loader's memory, and the way of a host batch to the device (loader.h): upload, what the front end
 * makes, and back to the host what the cache is to keep. Items whose mel came from the cache have no samples,
 * so the kernels give them no frames, and their mel is copied over. Covered by tests/data/test_loader.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/loader_internal.h"

/* ---------------------------------------------------------------- memory */

/* Words of what the front end makes of items, at the longest shape. */
static uint64_t count_mel_words(const td_loader *loader)
{
    uint64_t words = 0;
    for (size_t i = 0; i < loader->n_features; ++i)
        if (loader->features[i].row->maker == TD_MAKER_FRONT_END)
            words += td_loader_count_words(loader, loader->features[i].row, &loader->largest);
    return words;
}

static uint64_t count_pcm_words(const td_loader *loader)
{
    const size_t longest =
        td_loader_stride((size_t)(loader->largest.frames + 1) * loader->config.hop_samples);
    return (uint64_t)loader->largest.items * (longest + loader->reference_stride);
}

/* Kernels of a CPU driver read the host's memory as fast as any. */
static bool reads_host(const td_loader *loader)
{
    return td_device_get_info(td_memory_device(loader->settings.memory))->type == TD_DEVICE_CPU;
}

static bool has_further(const td_loader *loader)
{
    for (size_t i = 0; i < loader->n_features; ++i)
        if (loader->features[i].row->config != NULL) return true;
    return false;
}

/* Rows from the cache have no samples, which further front ends need. */
static bool uses_cache(const td_loader *loader)
{
    td_mel_cache *cache = loader->settings.cache;
    return cache != NULL && td_mel_cache_count(cache).kind != TD_MEL_CACHE_NONE &&
           td_loader_wants(loader, "mel") && !has_further(loader);
}

static td_status take(td_loader *loader, td_memory_kind kind, uint64_t words, td_span *out)
{
    return td_memory_alloc(loader->settings.memory, kind, 4 * words, out);
}

static td_status make_host_slot(td_loader *loader, td_host_slot *slot)
{
    TD_CHECK(TD_NEW_ARRAY(&slot->rows, loader->settings.batch_size));
    TD_CHECK(TD_NEW_ARRAY(&slot->items, loader->settings.batch_size));
    TD_CHECK(take(loader, TD_MEMORY_HOST, loader->head_words, &slot->head_span));
    TD_CHECK(take(loader, TD_MEMORY_HOST, count_pcm_words(loader), &slot->pcm_span));
    slot->head = td_span_host(slot->head_span);
    slot->pcm = td_span_host(slot->pcm_span);
    memset(slot->head, 0, 4 * loader->head_words);
    TD_CHECK(td_loader_make_kept(loader, slot));
    if (!uses_cache(loader)) return TD_OK;
    TD_CHECK(take(loader, TD_MEMORY_HOST, count_mel_words(loader), &slot->mel_span));
    slot->mel = td_span_host(slot->mel_span);
    return TD_OK;
}

static td_status make_device_slot(td_loader *loader, td_device_slot *slot)
{
    TD_CHECK(TD_NEW_ARRAY(&slot->rows, loader->settings.batch_size));
    TD_CHECK(take(loader, TD_MEMORY_DEVICE, loader->head_words, &slot->head));
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_feature_row *row = loader->features[i].row;
        if (row->maker != TD_MAKER_HOST)
            TD_CHECK(take(loader, TD_MEMORY_DEVICE, td_loader_count_words(loader, row, &loader->largest),
                          &slot->made[i]));
    }
    return TD_OK;
}

td_status td_loader_make_slots(td_loader *loader)
{
    td_batch largest = {.shape = loader->largest};
    TD_CHECK(td_loader_plan_parts(loader, &loader->largest));
    td_loader_describe(loader, NULL, &largest);
    loader->batch_bytes = td_batch_bytes(&largest);
    td_loader_lay_out(loader);
    TD_CHECK(TD_NEW_ARRAY(&loader->device, loader->settings.n_ready));
    if (!reads_host(loader)) TD_CHECK(take(loader, TD_MEMORY_DEVICE, count_pcm_words(loader), &loader->pcm));
    for (size_t i = 0; i < TD_LOADER_HOST_SLOTS; ++i)
        TD_CHECK(make_host_slot(loader, &loader->host[i]));
    for (size_t i = 0; i < loader->settings.n_ready; ++i)
        TD_CHECK(make_device_slot(loader, &loader->device[i]));
    return TD_OK;
}

static void free_failures(td_load_item *item)
{
    while (item->failures != NULL) {
        td_load_failure *next = item->failures->next;
        free(item->failures);
        item->failures = next;
    }
}

static void destroy_lists(td_host_slot *slot)
{
    td_list_destroy(slot->list);
    slot->list = NULL;
    for (size_t i = 0; i < TD_BATCH_FEATURES; ++i) {
        td_list_destroy(slot->copies[i]);
        slot->copies[i] = NULL;
    }
}

void td_loader_free_slots(td_loader *loader)
{
    td_memory *memory = loader->settings.memory;
    for (size_t i = 0; i < TD_LOADER_HOST_SLOTS; ++i) {
        td_host_slot *slot = &loader->host[i];
        destroy_lists(slot);
        td_memory_free(memory, slot->head_span);
        td_memory_free(memory, slot->pcm_span);
        td_memory_free(memory, slot->mel_span);
        for (size_t k = 0; k < TD_LOADER_KEPT; ++k)
            td_memory_free(memory, slot->kept_spans[k]);
        for (uint32_t k = 0; slot->items != NULL && k < loader->settings.batch_size; ++k) {
            free_failures(&slot->items[k]);
            td_loader_free_kept(&slot->items[k]);
        }
        free(slot->items);
        free(slot->rows);
    }
    for (size_t i = 0; loader->device != NULL && i < loader->settings.n_ready; ++i) {
        td_device_slot *slot = &loader->device[i];
        td_memory_free(memory, slot->head);
        for (size_t k = 0; k < loader->n_features; ++k)
            td_memory_free(memory, slot->made[k]);
        free(slot->rows);
    }
    td_memory_free(memory, loader->pcm);
    free(loader->device);
}

uint64_t td_loader_batch_bytes(const td_loader *loader)
{
    return loader->batch_bytes;
}

/* ---------------------------------------------------------------- a batch on its way */

static td_span cut(td_span span, uint64_t first_word, uint64_t words)
{
    return td_span_part(span, 4 * first_word, 4 * words);
}

static void describe(const td_loader *loader, const td_host_slot *slot, td_device_slot *device)
{
    const td_batch_rows *drawn = &slot->drawn;
    td_batch *batch = &device->batch;
    *batch = (td_batch){.number = slot->number,
                        .epoch = drawn->epoch,
                        .after = drawn->after,
                        .count = drawn->count,
                        .n_fresh = drawn->n_fresh,
                        .bucket = drawn->bucket,
                        .rows = device->rows,
                        .shape = slot->shape};
    memcpy(batch->shares, drawn->shares, sizeof batch->shares);
    td_loader_describe(loader, device, batch);
    for (uint32_t i = 0; i < drawn->count; ++i) {
        const td_load_item *item = &slot->items[i];
        device->rows[i] = item->row;
        batch->audio_s += item->audio_s;
        batch->load_ns += item->end_ns - item->start_ns;
        if (i == 0 || item->start_ns < batch->load_start_ns) batch->load_start_ns = item->start_ns;
        if (item->end_ns > batch->load_end_ns) batch->load_end_ns = item->end_ns;
    }
}

static td_span find_span(const td_batch *batch, const char *name)
{
    const td_feature *feature = td_batch_find(batch, name);
    return feature != NULL ? feature->span : (td_span){0};
}

/* The host-made features, to the end of the last one. */
static td_status record_head(const td_loader *loader, td_list *list, const td_host_slot *slot,
                             const td_device_slot *device)
{
    uint64_t words = loader->reference_ranges + 2 * (uint64_t)slot->shape.items;
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (f->row->maker != TD_MAKER_HOST) continue;
        const uint64_t end = f->at + td_loader_count_words(loader, f->row, &slot->shape);
        if (end > words) words = end;
    }
    return td_list_copy(list, cut(device->head, 0, words), cut(slot->head_span, 0, words));
}

static td_status record_further(const td_loader *loader, td_list *list, const td_host_slot *slot,
                                const td_batch *batch, td_mel_args args)
{
    const td_loader_settings *s = &loader->settings;
    args.energy = args.pitch = (td_span){0};
    for (size_t i = 0; i < s->n_front_ends; ++i) {
        const td_feature *feature = td_batch_find(batch, s->front_ends[i].name);
        if (feature == NULL || td_loader_skips_front_end(loader, slot, feature->name)) continue;
        args.max_frames = feature->shape.dims[1];
        args.mel = feature->span;
        TD_CHECK(td_mel_record(s->front_ends[i].mel, list, &args));
    }
    return TD_OK;
}

static td_status record_mels(const td_loader *loader, td_list *list, const td_host_slot *slot,
                             const td_device_slot *device, bool all_hit)
{
    const td_batch *batch = &device->batch;
    const uint64_t n = batch->count, own = n * slot->stride, all = own + n * loader->reference_stride;
    const uint64_t first = all_hit ? own : 0;
    td_mel_args args = {.items = batch->count,
                        .max_frames = batch->shape.frames,
                        .ranges = cut(device->head, loader->ranges, 2 * n),
                        .mel = find_span(batch, "mel"),
                        .energy = find_span(batch, "energy"),
                        .pitch = find_span(batch, "pitch")};
    td_mel_args reference = {.items = batch->count,
                             .max_frames = batch->shape.reference_frames,
                             .ranges = cut(device->head, loader->reference_ranges, 2 * n),
                             .mel = find_span(batch, "reference_mel")};
    if (first == all) return TD_OK;
    args.pcm = reference.pcm = cut(reads_host(loader) ? slot->pcm_span : loader->pcm, 0, all);
    if (!reads_host(loader))
        TD_CHECK(
            td_list_copy(list, cut(args.pcm, first, all - first), cut(slot->pcm_span, first, all - first)));
    if (!all_hit && args.mel.bytes > 0) TD_CHECK(td_mel_record(loader->settings.mel, list, &args));
    TD_CHECK(record_further(loader, list, slot, batch, args));
    if (reference.mel.bytes > 0) TD_CHECK(td_mel_record(loader->settings.mel, list, &reference));
    return TD_OK;
}

/* Neighbours that are all from the cache go up together, and neighbours that are to be kept come down. */
static td_status record_cached(const td_loader *loader, td_list *list, const td_host_slot *slot,
                               const td_batch *batch)
{
    uint64_t at = 0; /* words, of a feature in the host's copy */
    for (size_t i = 0; slot->mel != NULL && i < loader->n_features; ++i) {
        const uint64_t words = batch->features[i].span.bytes / 4, n = words / batch->count;
        if (loader->features[i].row->maker != TD_MAKER_FRONT_END) continue;
        for (uint32_t first = 0, end; first < batch->count; first = end) {
            for (end = first + 1; end < batch->count && slot->items[end].is_hit == slot->items[first].is_hit;
                 ++end) {
            }
            const td_span host = cut(slot->mel_span, at + first * n, (end - first) * n);
            const td_span there = cut(batch->features[i].span, first * n, (end - first) * n);
            TD_CHECK(slot->items[first].is_hit ? td_list_copy(list, there, host)
                                               : td_list_copy(list, host, there));
        }
        at += words;
    }
    return TD_OK;
}

td_status td_loader_send(td_loader *loader, td_host_slot *slot, td_device_slot *device)
{
    td_status status = TD_OK;
    td_device *target = td_memory_device(loader->settings.memory);
    bool all_hit = true;
    TD_TRY(td_loader_plan_parts(loader, &slot->shape));
    describe(loader, slot, device);
    for (uint32_t i = 0; i < slot->shape.items; ++i)
        all_hit = all_hit && slot->items[i].is_hit;
    TD_TRY(td_list_create(target, TD_QUEUE_COMPUTE, &slot->list));
    TD_TRY(record_head(loader, slot->list, slot, device));
    TD_TRY(td_loader_record_kept(loader, slot, &device->batch));
    TD_TRY(record_mels(loader, slot->list, slot, device, all_hit));
    TD_TRY(record_cached(loader, slot->list, slot, &device->batch));
    TD_TRY(td_list_finish(slot->list));
    const td_submission work = {.list = slot->list, .waits = &device->used, .n_waits = 1};
    TD_TRY(td_queue_submit(td_device_queue(target, TD_QUEUE_COMPUTE), &work, &slot->done));
    td_loader_note(device, slot->done);
    const td_status parts = td_loader_run_parts(loader, slot, device);
    device->batch.ready = slot->done;
    return parts; /* the device has the list: not to be destroyed yet */
fail:
    destroy_lists(slot);
    return status;
}

/* ---------------------------------------------------------------- and back */

typedef struct keep_work {
    td_loader *loader;
    const td_host_slot *slot;
} keep_work;

static td_status keep_item(void *context, size_t index)
{
    const keep_work *w = context;
    const td_host_slot *slot = w->slot;
    const td_load_item *item = &slot->items[index];
    const uint32_t i = (uint32_t)index;
    if (!item->is_hit)
        td_mel_cache_write(
            w->loader->settings.cache, item->row, item->n_frames, td_loader_cached(w->loader, slot, "mel", i),
            td_loader_cached(w->loader, slot, "energy", i), td_loader_cached(w->loader, slot, "pitch", i));
    return TD_OK;
}

td_status td_loader_retire(td_loader *loader, td_host_slot *slot)
{
    td_status status = TD_OK;
    if (slot->list == NULL) return TD_OK;
    TD_TRY(td_point_wait(slot->done, TD_WAIT_FOREVER));
    td_loader_store_kept(loader, slot);
    if (slot->mel != NULL) {
        keep_work work = {.loader = loader, .slot = slot};
        TD_TRY(td_pool_map(loader->settings.pool, slot->shape.items, keep_item, &work));
    }
fail:
    destroy_lists(slot);
    return status;
}
