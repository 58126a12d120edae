/* The loader's memory, and the way of a host batch to the device (loader.h): upload, mel, energy and pitch,
 * and back to the host what the cache is to keep. Items whose mel came from the cache have no samples, so the
 * kernels give them no frames, and their mel is copied over. Covered by tests/data/test_loader.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/loader_internal.h"
#include "data/source.h"

enum { BIND_WORDS = 64 }; /* the largest alignment a device asks for */

/* ---------------------------------------------------------------- memory */

static size_t place_part(td_load_layout *layout, size_t words)
{
    const size_t at = layout->words;
    layout->words += (words + BIND_WORDS - 1) / BIND_WORDS * BIND_WORDS;
    return at;
}

static void lay_out(td_loader *loader)
{
    td_load_layout *at = &loader->layout;
    const size_t n = loader->settings.batch_size;
    at->token_counts = place_part(at, n);
    at->frame_counts = place_part(at, n);
    at->speakers = place_part(at, n);
    at->languages = place_part(at, n);
    at->ranges = place_part(at, 2 * n);
    at->reference_ranges = place_part(at, 2 * n);
    at->reference_counts = place_part(at, n);
    at->token_ids = place_part(at, n * loader->most_tokens);
}

/* Words of mel, energy and pitch at the longest shape. */
static uint64_t count_mel_words(const td_loader *loader)
{
    const uint64_t frames = (uint64_t)loader->settings.batch_size * loader->most_frames;
    return frames * (loader->config.n_mels + 1 + loader->settings.with_pitch);
}

static uint64_t count_pcm_words(const td_loader *loader)
{
    const size_t longest = td_loader_stride((size_t)(loader->most_frames + 1) * loader->config.hop_samples);
    return (uint64_t)loader->settings.batch_size * (longest + loader->reference_stride);
}

/* Kernels of a CPU driver read the host's memory as fast as any. */
static bool reads_host(const td_loader *loader)
{
    return td_device_get_info(td_memory_device(loader->settings.memory))->type == TD_DEVICE_CPU;
}

static bool uses_cache(const td_loader *loader)
{
    td_mel_cache *cache = loader->settings.cache;
    return cache != NULL && td_mel_cache_count(cache).kind != TD_MEL_CACHE_NONE;
}

static td_status take(td_loader *loader, td_memory_kind kind, uint64_t words, td_span *out)
{
    return td_memory_alloc(loader->settings.memory, kind, 4 * words, out);
}

static td_status make_host_slot(td_loader *loader, td_host_slot *slot)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&slot->rows, loader->settings.batch_size));
    TD_TRY(TD_NEW_ARRAY(&slot->items, loader->settings.batch_size));
    TD_TRY(take(loader, TD_MEMORY_HOST, loader->layout.words, &slot->head_span));
    TD_TRY(take(loader, TD_MEMORY_HOST, count_pcm_words(loader), &slot->pcm_span));
    slot->head = td_span_host(slot->head_span);
    slot->pcm = td_span_host(slot->pcm_span);
    memset(slot->head, 0, 4 * loader->layout.words);
    if (!uses_cache(loader)) return TD_OK;
    TD_TRY(take(loader, TD_MEMORY_HOST, count_mel_words(loader), &slot->mel_span));
    slot->mel = td_span_host(slot->mel_span);
fail:
    return status;
}

static td_status make_device_slot(td_loader *loader, td_device_slot *slot)
{
    td_status status = TD_OK;
    const uint64_t frames = (uint64_t)loader->settings.batch_size * loader->most_frames;
    const uint64_t references = (uint64_t)loader->settings.batch_size * loader->reference_frames;
    TD_TRY(TD_NEW_ARRAY(&slot->rows, loader->settings.batch_size));
    TD_TRY(take(loader, TD_MEMORY_DEVICE, loader->layout.words, &slot->head));
    TD_TRY(take(loader, TD_MEMORY_DEVICE, frames * loader->config.n_mels, &slot->mel));
    TD_TRY(take(loader, TD_MEMORY_DEVICE, frames, &slot->energy));
    if (loader->settings.with_pitch) TD_TRY(take(loader, TD_MEMORY_DEVICE, frames, &slot->pitch));
    if (references > 0)
        TD_TRY(take(loader, TD_MEMORY_DEVICE, references * loader->config.n_mels, &slot->reference_mel));
fail:
    return status;
}

td_status td_loader_make_slots(td_loader *loader)
{
    td_status status = TD_OK;
    lay_out(loader);
    TD_TRY(TD_NEW_ARRAY(&loader->device, loader->settings.n_ready));
    if (!reads_host(loader)) TD_TRY(take(loader, TD_MEMORY_DEVICE, count_pcm_words(loader), &loader->pcm));
    for (size_t i = 0; i < TD_LOADER_HOST_SLOTS; ++i)
        TD_TRY(make_host_slot(loader, &loader->host[i]));
    for (size_t i = 0; i < loader->settings.n_ready; ++i)
        TD_TRY(make_device_slot(loader, &loader->device[i]));
fail:
    return status;
}

static void free_failures(td_load_item *item)
{
    while (item->failures != NULL) {
        td_load_failure *next = item->failures->next;
        free(item->failures);
        item->failures = next;
    }
}

void td_loader_free_slots(td_loader *loader)
{
    td_memory *memory = loader->settings.memory;
    for (size_t i = 0; i < TD_LOADER_HOST_SLOTS; ++i) {
        td_host_slot *slot = &loader->host[i];
        td_list_destroy(slot->list);
        td_memory_free(memory, slot->head_span);
        td_memory_free(memory, slot->pcm_span);
        td_memory_free(memory, slot->mel_span);
        for (uint32_t k = 0; slot->items != NULL && k < loader->settings.batch_size; ++k)
            free_failures(&slot->items[k]);
        free(slot->items);
        free(slot->rows);
    }
    for (size_t i = 0; loader->device != NULL && i < loader->settings.n_ready; ++i) {
        td_device_slot *slot = &loader->device[i];
        td_memory_free(memory, slot->head);
        td_memory_free(memory, slot->mel);
        td_memory_free(memory, slot->energy);
        td_memory_free(memory, slot->pitch);
        td_memory_free(memory, slot->reference_mel);
        free(slot->rows);
    }
    td_memory_free(memory, loader->pcm);
    free(loader->device);
}

uint64_t td_loader_batch_bytes(const td_loader *loader)
{
    const uint64_t n = loader->settings.batch_size, frames = n * loader->most_frames;
    const td_span count = {.bytes = 4 * n}, track = {.bytes = 4 * frames};
    td_batch largest = {.token_ids = {.bytes = 4 * n * loader->most_tokens},
                        .token_counts = count,
                        .frame_counts = count,
                        .speakers = count,
                        .languages = count,
                        .mel = {.bytes = 4 * frames * loader->config.n_mels},
                        .energy = track,
                        .pitch = loader->settings.with_pitch ? track : (td_span){0}};
    if (loader->reference_frames > 0) {
        largest.reference_mel.bytes = 4 * n * loader->reference_frames * loader->config.n_mels;
        largest.reference_counts = count;
    }
    return td_batch_bytes(&largest);
}

/* ---------------------------------------------------------------- a batch on its way */

static td_span cut(td_span span, uint64_t first_word, uint64_t words)
{
    return td_span_part(span, 4 * first_word, 4 * words);
}

static void describe(const td_loader *loader, const td_host_slot *slot, td_device_slot *device)
{
    const td_batch_plan *plan = &slot->plan;
    const td_load_layout *at = &loader->layout;
    const uint64_t n = plan->count, frames = n * plan->frames;
    td_batch *batch = &device->batch;
    *batch = (td_batch){
        .number = slot->number,
        .epoch = plan->epoch,
        .after = {.epoch = plan->epoch, .position = plan->position + 1},
        .count = plan->count,
        .n_fresh = plan->n_fresh,
        .frames = plan->frames,
        .tokens = plan->tokens,
        .bucket = plan->bucket,
        .reference_frames = loader->reference_frames,
        .rows = device->rows,
        .token_ids = cut(device->head, at->token_ids, n * plan->tokens),
        .token_counts = cut(device->head, at->token_counts, n),
        .frame_counts = cut(device->head, at->frame_counts, n),
        .speakers = cut(device->head, at->speakers, n),
        .languages = cut(device->head, at->languages, n),
        .mel = cut(device->mel, 0, frames * loader->config.n_mels),
        .energy = cut(device->energy, 0, frames),
    };
    if (loader->settings.with_pitch) batch->pitch = cut(device->pitch, 0, frames);
    if (loader->reference_frames > 0) {
        batch->reference_mel =
            cut(device->reference_mel, 0, n * loader->reference_frames * loader->config.n_mels);
        batch->reference_counts = cut(device->head, at->reference_counts, n);
    }
    for (uint32_t i = 0; i < plan->count; ++i) {
        const td_load_item *item = &slot->items[i];
        device->rows[i] = item->row;
        batch->audio_s += item->audio_s;
        batch->load_ns += item->end_ns - item->start_ns;
        if (i == 0 || item->start_ns < batch->load_start_ns) batch->load_start_ns = item->start_ns;
        if (item->end_ns > batch->load_end_ns) batch->load_end_ns = item->end_ns;
    }
}

static td_status record_mels(const td_loader *loader, td_list *list, const td_host_slot *slot,
                             const td_device_slot *device, bool all_hit)
{
    td_status status = TD_OK;
    const td_batch *batch = &device->batch;
    const uint64_t own = (uint64_t)batch->count * slot->stride;
    const uint64_t all = own + (uint64_t)batch->count * loader->reference_stride;
    const uint64_t first = all_hit ? own : 0;
    if (first == all) return TD_OK;
    const td_span pcm = cut(reads_host(loader) ? slot->pcm_span : loader->pcm, 0, all);
    if (!reads_host(loader))
        TD_TRY(td_list_copy(list, cut(pcm, first, all - first), cut(slot->pcm_span, first, all - first)));
    td_mel_args args = {.items = batch->count,
                        .max_frames = batch->frames,
                        .pcm = pcm,
                        .ranges = cut(device->head, loader->layout.ranges, 2 * (uint64_t)batch->count),
                        .mel = batch->mel,
                        .energy = batch->energy,
                        .pitch = batch->pitch};
    if (!all_hit) TD_TRY(td_mel_record(loader->settings.mel, list, &args));
    if (loader->reference_frames == 0) return TD_OK;
    args = (td_mel_args){.items = batch->count,
                         .max_frames = loader->reference_frames,
                         .pcm = pcm,
                         .ranges =
                             cut(device->head, loader->layout.reference_ranges, 2 * (uint64_t)batch->count),
                         .mel = batch->reference_mel};
    TD_TRY(td_mel_record(loader->settings.mel, list, &args));
fail:
    return status;
}

/* One array of a run of items between the host's copy, which lies at `host_word`, and the device's. */
static td_status record_run(td_list *list, td_span device, const td_host_slot *slot, uint64_t host_word,
                            uint64_t first, uint64_t end, uint64_t item_words)
{
    const td_span host = cut(slot->mel_span, host_word + first * item_words, (end - first) * item_words);
    const td_span there = cut(device, first * item_words, (end - first) * item_words);
    return slot->items[first].is_hit ? td_list_copy(list, there, host) : td_list_copy(list, host, there);
}

/* Neighbours that are all from the cache go up together, and neighbours that are to be kept come down. */
static td_status record_cached(const td_loader *loader, td_list *list, const td_host_slot *slot,
                               const td_batch *batch)
{
    td_status status = TD_OK;
    const uint64_t frames = batch->frames, bands = loader->config.n_mels, n = batch->count;
    for (uint32_t first = 0, end; slot->mel != NULL && first < n; first = end) {
        for (end = first + 1; end < n && slot->items[end].is_hit == slot->items[first].is_hit; ++end) {
        }
        TD_TRY(record_run(list, batch->mel, slot, 0, first, end, frames * bands));
        TD_TRY(record_run(list, batch->energy, slot, n * frames * bands, first, end, frames));
        if (loader->settings.with_pitch)
            TD_TRY(record_run(list, batch->pitch, slot, n * frames * (bands + 1), first, end, frames));
    }
fail:
    return status;
}

td_status td_loader_send(td_loader *loader, td_host_slot *slot, td_device_slot *device)
{
    td_status status = TD_OK;
    td_device *target = td_memory_device(loader->settings.memory);
    bool all_hit = true;
    describe(loader, slot, device);
    for (uint32_t i = 0; i < slot->plan.count; ++i)
        all_hit = all_hit && slot->items[i].is_hit;
    const uint64_t head_words = loader->layout.token_ids + (uint64_t)slot->plan.count * slot->plan.tokens;
    TD_TRY(td_list_create(target, TD_QUEUE_COMPUTE, &slot->list));
    TD_TRY(td_list_copy(slot->list, cut(device->head, 0, head_words), cut(slot->head_span, 0, head_words)));
    TD_TRY(record_mels(loader, slot->list, slot, device, all_hit));
    TD_TRY(record_cached(loader, slot->list, slot, &device->batch));
    TD_TRY(td_list_finish(slot->list));
    const td_submission work = {.list = slot->list, .waits = &device->used, .n_waits = 1};
    TD_TRY(td_queue_submit(td_device_queue(target, TD_QUEUE_COMPUTE), &work, &slot->done));
    device->batch.ready = slot->done;
    return TD_OK;
fail:
    td_list_destroy(slot->list);
    slot->list = NULL;
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
    const size_t frames = slot->plan.frames, bands = w->loader->config.n_mels, n = slot->plan.count;
    const float *energy = slot->mel + n * frames * bands + index * frames;
    if (!item->is_hit)
        td_mel_cache_write(w->loader->settings.cache, item->row, item->n_frames,
                           slot->mel + index * frames * bands, energy, energy + n * frames);
    return TD_OK;
}

td_status td_loader_retire(td_loader *loader, td_host_slot *slot)
{
    td_status status = TD_OK;
    if (slot->list == NULL) return TD_OK;
    TD_TRY(td_point_wait(slot->done, TD_WAIT_FOREVER));
    if (slot->mel != NULL) {
        keep_work work = {.loader = loader, .slot = slot};
        TD_TRY(td_pool_map(loader->settings.pool, slot->plan.count, keep_item, &work));
    }
fail:
    td_list_destroy(slot->list);
    slot->list = NULL;
    return status;
}
