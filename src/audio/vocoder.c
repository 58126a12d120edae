/* See vocoder.h. With Griffin-Lim an item has (frames - 1) * hop samples; the device works on all items of a
 * call at once, and draws the phases of the whole batch, so that an item's do not depend on the call. */
#include "audio/vocoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/blocking.h"

typedef struct griffin_lim {
    td_vocoder base; /* first */
    td_device *device;
    uint32_t iterations;
} griffin_lim;

/* What one call takes from the device. */
typedef struct room {
    td_span host_ranges, ranges, workspace, signals, host_signals;
    td_list *list;
} room;

static td_status take(const griffin_lim *g, td_memory_kind kind, uint64_t words, td_span *out)
{
    const td_status status = td_memory_alloc(g->base.memory, kind, 4 * words, out);
    if (status == TD_OK) *out = td_span_part(*out, 0, 4 * words);
    return status;
}

static void free_room(const griffin_lim *g, room *r)
{
    td_list_destroy(r->list);
    td_memory_free(g->base.memory, r->host_ranges);
    td_memory_free(g->base.memory, r->ranges);
    td_memory_free(g->base.memory, r->workspace);
    td_memory_free(g->base.memory, r->signals);
    td_memory_free(g->base.memory, r->host_signals);
}

static td_status run_griffin_lim(td_vocoder *vocoder, const td_vocoder_batch *batch, float **samples,
                                 size_t *firsts)
{
    griffin_lim *g = (griffin_lim *)vocoder;
    const uint32_t hop = td_mel_get_config(g->base.mel)->hop_samples;
    const uint64_t workspace =
        td_griffin_lim_workspace(g->base.mel, td_device_class(g->device), batch->items, batch->max_frames);
    room r = {0};
    td_status status = TD_OK;
    *samples = NULL;
    TD_TRY(take(g, TD_MEMORY_HOST, UINT64_C(2) * batch->items, &r.host_ranges));
    TD_TRY(take(g, TD_MEMORY_DEVICE, UINT64_C(2) * batch->items, &r.ranges));
    uint32_t *ranges = td_span_host(r.host_ranges);
    firsts[0] = 0;
    for (uint32_t i = 0; i < batch->items; i++) {
        const bool is_made = i >= batch->first && i - batch->first < batch->count;
        const uint32_t frames = is_made ? batch->frames[i] : 0;
        ranges[(size_t)2 * i] = (uint32_t)firsts[i];
        ranges[(size_t)2 * i + 1] = frames;
        firsts[i + 1] = firsts[i] + (frames > 1 ? (size_t)(frames - 1) * hop : 0);
    }
    const size_t total = firsts[batch->items];
    TD_TRY(TD_NEW_ARRAY(samples, total + 1));
    if (total == 0) goto fail;
    TD_TRY(take(g, TD_MEMORY_DEVICE, workspace, &r.workspace));
    TD_TRY(take(g, TD_MEMORY_DEVICE, total, &r.signals));
    TD_TRY(take(g, TD_MEMORY_HOST, total, &r.host_signals));
    TD_TRY(td_list_create(g->device, TD_QUEUE_COMPUTE, &r.list));
    TD_TRY(td_list_copy(r.list, r.ranges, r.host_ranges));
    TD_TRY(td_griffin_lim_record(g->base.mel, r.list,
                                 &(td_griffin_lim_args){.items = batch->items,
                                                        .max_frames = batch->max_frames,
                                                        .mel = batch->mel,
                                                        .ranges = r.ranges,
                                                        .samples = r.signals,
                                                        .workspace = r.workspace,
                                                        .iterations = g->iterations,
                                                        .seed = batch->seed}));
    TD_TRY(td_list_copy(r.list, r.host_signals, r.signals));
    TD_TRY(td_blocking_run(r.list, NULL));
    memcpy(*samples, td_span_host(r.host_signals), total * sizeof **samples);
fail:
    free_room(g, &r);
    if (status != TD_OK) {
        free(*samples);
        *samples = NULL;
    }
    return status;
}

static void destroy_griffin_lim(td_vocoder *vocoder)
{
    free(vocoder);
}

static td_status open_griffin_lim(const td_mel *mel, td_memory *memory, const td_vocoder_options *options,
                                  td_vocoder **out)
{
    griffin_lim *g;
    TD_CHECK(TD_NEW(&g));
    *g = (griffin_lim){
        .base = {.run = run_griffin_lim, .destroy = destroy_griffin_lim, .mel = mel, .memory = memory},
        .device = td_memory_device(memory),
        .iterations = options ? options->iterations : 0};
    *out = &g->base;
    return TD_OK;
}

static const td_vocoder_kind KINDS[] = {{"griffin-lim", open_griffin_lim}};
enum { N_KINDS = sizeof KINDS / sizeof KINDS[0] };

td_status td_vocoder_open(const char *name, const td_mel *mel, td_memory *memory,
                          const td_vocoder_options *options, td_vocoder **out)
{
    char names[256] = "";
    *out = NULL;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strcmp(KINDS[i].name, name) == 0) return KINDS[i].open(mel, memory, options, out);
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "", KINDS[i].name);
    }
    return TD_FAIL(TD_ERR_CONFIG, "'%s' is not a vocoder; there are: %s", name, names);
}

td_status td_vocoder_run_host(td_vocoder *vocoder, const td_vocoder_batch *batch, const float *mel,
                              float **samples, size_t *firsts)
{
    const uint32_t n_mels = td_mel_get_config(vocoder->mel)->n_mels;
    const uint64_t bytes = UINT64_C(4) * batch->items * batch->max_frames * n_mels;
    td_vocoder_batch there = *batch;
    td_span span = {0};
    td_status status = TD_OK;
    *samples = NULL;
    TD_TRY(td_memory_alloc(vocoder->memory, TD_MEMORY_DEVICE, bytes, &span));
    there.mel = td_span_part(span, 0, bytes);
    TD_TRY(td_blocking_write(vocoder->memory, there.mel, mel));
    TD_TRY(vocoder->run(vocoder, &there, samples, firsts));
fail:
    td_memory_free(vocoder->memory, span);
    return status;
}

void td_vocoder_destroy(td_vocoder *vocoder)
{
    if (vocoder) vocoder->destroy(vocoder);
}
