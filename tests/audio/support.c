/* See support.h. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- devices */

static void run_on(const char *selector, bool gpu_kernels, rig_test test)
{
    rig r;
    print_message("%s, class %s\n", selector, gpu_kernels ? "gpu" : "cpu");
    rig_open_on(&r, selector, gpu_kernels, 0);
    test(&r);
    rig_close(&r);
}

void each_rig(rig_test test, bool slow_too)
{
    td_registry_options options;
    td_registry *registry;
    size_t runs = 0;
    td_registry_options_from_env(&options);
    check(td_registry_open(&options, &registry));
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        const bool is_slow = info->api == TD_API_VULKAN && info->type == TD_DEVICE_CPU;
        if (!info->usable || (is_slow && !slow_too)) continue;
        for (int gpu = info->type == TD_DEVICE_CPU ? 0 : 1; gpu < 2; gpu++, runs++)
            run_on(info->selector, gpu, test);
    }
    td_registry_close(registry);
    assert_true(runs > 0);
}

/* ---------------------------------------------------------------- moving */

static td_span take(rig *b, td_memory_kind kind, size_t words)
{
    td_span span;
    check(td_memory_alloc(b->memory, kind, 4 * (words ? words : 1), &span));
    return td_span_part(span, 0, 4 * (words ? words : 1));
}

static void run_list(rig *b, td_list *list)
{
    td_point done;
    check(td_list_finish(list));
    check(
        td_queue_submit(td_device_queue(b->device, TD_QUEUE_COMPUTE), &(td_submission){.list = list}, &done));
    check(td_point_wait(done, TD_WAIT_FOREVER));
    td_list_destroy(list);
}

static td_list *new_list(rig *b)
{
    td_list *list;
    check(td_list_create(b->device, TD_QUEUE_COMPUTE, &list));
    return list;
}

static td_span put(rig *b, const void *words, size_t count)
{
    const td_span host = take(b, TD_MEMORY_HOST, count);
    const td_span device = take(b, TD_MEMORY_DEVICE, count);
    td_list *list = new_list(b);
    if (count) memcpy(td_span_host(host), words, 4 * count);
    check(td_list_copy(list, device, host));
    run_list(b, list);
    td_memory_free(b->memory, host);
    return device;
}

/* Owned. */
static float *get(rig *b, td_span device, size_t count)
{
    const td_span host = take(b, TD_MEMORY_HOST, count);
    td_list *list = new_list(b);
    float *words = malloc(4 * (count ? count : 1));
    assert_non_null(words);
    check(td_list_copy(list, host, device));
    run_list(b, list);
    memcpy(words, td_span_host(host), 4 * count);
    td_memory_free(b->memory, host);
    return words;
}

/* ---------------------------------------------------------------- the front end */

void run_mel(rig *b, const td_mel_config *config, batch *n)
{
    td_mel *mel;
    uint32_t *ranges = calloc(2 * n->items, sizeof *ranges);
    uint32_t total = 0;
    assert_non_null(ranges);
    if (n->max_frames == 0) n->max_frames = 1;
    for (uint32_t i = 0; i < n->items; i++) {
        const uint32_t frames = td_mel_frames(config, n->samples[i]);
        ranges[2 * i] = total;
        ranges[2 * i + 1] = n->samples[i];
        total += n->samples[i];
        if (frames > n->max_frames) n->max_frames = frames;
    }
    const size_t rows = (size_t)n->items * n->max_frames;
    check(td_mel_create(b->memory, config, &mel));
    const td_mel_args args = {.items = n->items,
                              .max_frames = n->max_frames,
                              .pcm = put(b, n->pcm, total),
                              .ranges = put(b, ranges, 2 * n->items),
                              .mel = take(b, TD_MEMORY_DEVICE, rows * config->n_mels),
                              .energy = take(b, TD_MEMORY_DEVICE, rows),
                              .pitch = take(b, TD_MEMORY_DEVICE, rows)};
    td_list *list = new_list(b);
    check(td_mel_record(mel, list, &args));
    run_list(b, list);
    n->mel = get(b, args.mel, rows * config->n_mels);
    n->energy = get(b, args.energy, rows);
    n->pitch = get(b, args.pitch, rows);
    td_memory_free(b->memory, args.pcm);
    td_memory_free(b->memory, args.ranges);
    td_memory_free(b->memory, args.mel);
    td_memory_free(b->memory, args.energy);
    td_memory_free(b->memory, args.pitch);
    td_mel_destroy(mel);
    free(ranges);
}

float *run_griffin_lim(rig *b, const td_mel_config *config, const batch *n, const uint32_t *frames,
                       uint32_t iterations, uint64_t seed, size_t *total)
{
    td_mel *mel;
    uint32_t *ranges = calloc(2 * n->items, sizeof *ranges);
    assert_non_null(ranges);
    *total = 0;
    for (uint32_t i = 0; i < n->items; i++) {
        ranges[2 * i] = (uint32_t)*total;
        ranges[2 * i + 1] = frames[i];
        *total += frames[i] > 1 ? (frames[i] - 1) * config->hop_samples : 0;
    }
    check(td_mel_create(b->memory, config, &mel));
    const uint64_t workspace =
        td_griffin_lim_workspace(mel, td_device_class(b->device), n->items, n->max_frames);
    const td_griffin_lim_args args = {.items = n->items,
                                      .max_frames = n->max_frames,
                                      .mel =
                                          put(b, n->mel, (size_t)n->items * n->max_frames * config->n_mels),
                                      .ranges = put(b, ranges, 2 * n->items),
                                      .samples = take(b, TD_MEMORY_DEVICE, *total),
                                      .workspace = take(b, TD_MEMORY_DEVICE, workspace),
                                      .iterations = iterations,
                                      .seed = seed};
    td_list *list = new_list(b);
    check(td_griffin_lim_record(mel, list, &args));
    run_list(b, list);
    float *samples = get(b, args.samples, *total);
    td_memory_free(b->memory, args.mel);
    td_memory_free(b->memory, args.ranges);
    td_memory_free(b->memory, args.samples);
    td_memory_free(b->memory, args.workspace);
    td_mel_destroy(mel);
    free(ranges);
    return samples;
}
