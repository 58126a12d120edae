/* Opening and closing devices: groups them by platform for the backends, readies queues and clocks, and has
 * each self-tested before anyone else uses it. Covered by tests/device/test_registry.c. */
#include <stdio.h>
#include <stdlib.h>

#include "device/cache.h"
#include "device/dispatch.h"
#include "device/queue_internal.h"
#include "device/registry_internal.h"
#include "device/selftest.h"

static bool same_platform(const td_device_info *a, const td_device_info *b)
{
    /* Simulated devices count as one platform; each Vulkan device stands alone. */
    return a->api == b->api && a->api != TD_API_VULKAN && a->platform == b->platform;
}

static void ready_device(td_device *device, td_blob_cache *cache)
{
    device->cache = cache;
    pthread_mutex_init(&device->clock_mutex, NULL);
    for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++)
        if (!device->queues[kind]->ready) td_queue_start(device->queues[kind]);
}

/* Opens infos[first] and every later one of its platform that is not open yet. */
static td_status open_platform(td_registry *registry, const td_device_info *const *infos, size_t count,
                               size_t first, td_device **out)
{
    const td_device_info **group = NULL;
    size_t *positions = NULL;
    td_device **opened = NULL;
    size_t n_group = 0;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&group, count));
    TD_TRY(TD_NEW_ARRAY(&positions, count));
    TD_TRY(TD_NEW_ARRAY(&opened, count));
    for (size_t i = first; i < count; i++) {
        if (out[i] || (i > first && !same_platform(infos[first], infos[i]))) continue;
        positions[n_group] = i;
        group[n_group++] = infos[i];
    }
    const td_api api = infos[first]->api;
    TD_TRY(td_registry_backend(api)->open(registry->states[api], group, n_group, registry->cache, opened));
    for (size_t i = 0; i < n_group; i++) {
        ready_device(opened[i], registry->cache);
        out[positions[i]] = opened[i];
    }
fail:
    free(opened);
    free(positions);
    free(group);
    return status;
}

td_status td_devices_open(td_registry *registry, const td_device_info *const *infos, size_t count,
                          td_device **out)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    for (size_t i = 0; i < count; i++) {
        TD_FAIL_IF(!infos[i]->usable, TD_ERR_UNSUPPORTED, "device %s cannot be used: %s", infos[i]->name,
                   infos[i]->reason);
    }
    for (size_t i = 0; i < count; i++)
        if (!out[i]) TD_TRY(open_platform(registry, infos, count, i, out));
    for (size_t i = 0; i < count; i++)
        TD_TRY(td_selftest_ensure(out[i]));
    return TD_OK;
fail:
    for (size_t i = 0; i < count; i++) {
        td_device_close(out[i]);
        out[i] = NULL;
    }
    return status;
}

td_status td_device_open(td_registry *registry, const td_device_info *info, td_device **out)
{
    return td_devices_open(registry, &info, 1, out);
}

void td_device_close(td_device *device)
{
    if (!device) return;
    const td_error cause = *td_error_last(); /* of what is being ended, which a failed queue would replace */
    for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++)
        td_queue_stop(device->queues[kind]);
    pthread_mutex_destroy(&device->clock_mutex);
    td_attachment *attachment = td_device_attachment(device);
    if (attachment) attachment->destroy(attachment);
    device->ops->close(device);
    (void)td_error_adopt(&cause);
}

const char *td_api_word(td_api api)
{
    static const char *const WORDS[TD_API_COUNT] = {"opencl", "vulkan", "sim"};
    return WORDS[api];
}

td_blob_cache *td_device_cache(const td_device *device)
{
    return device->cache;
}

const td_device_info *td_device_get_info(const td_device *device)
{
    return &device->info;
}

bool td_device_is_lost(const td_device *device)
{
    return atomic_load(&device->lost);
}

uint64_t td_device_kernel_builds(const td_device *device)
{
    return atomic_load(&device->kernel_builds);
}

td_attachment *td_device_attachment(const td_device *device)
{
    return atomic_load(&device->attachment);
}

bool td_device_attach(td_device *device, td_attachment *expected, td_attachment *next)
{
    return atomic_compare_exchange_strong(&device->attachment, &expected, next);
}

td_queue *td_device_queue(td_device *device, td_queue_kind kind)
{
    return device->queues[kind];
}

static td_status tell_lost(const td_device *device, const char *native, const char *call)
{
    return TD_FAIL_NATIVE(TD_ERR_DEVICE_LOST, native,
                          "device %s was lost in %s (%s); restart from the last checkpoint, and see "
                          "docs/devices.md if it happens again",
                          device->info.name, call, native);
}

td_status td_device_tell_lost(const td_device *device)
{
    return tell_lost(device, device->lost_native, device->lost_in);
}

const td_native_code *td_native_code_find(const td_native_code *table, int code)
{
    while (table->code != code && table->code != TD_CODE_END)
        table++;
    return table;
}

td_status td_device_mark_lost(td_device *device, const char *native, const char *call)
{
    if (!atomic_flag_test_and_set(&device->losing)) {
        snprintf(device->lost_in, sizeof device->lost_in, "%s", call);
        snprintf(device->lost_native, sizeof device->lost_native, "%s", native);
        atomic_store(&device->lost, true);
    }
    /* A thread that comes while the first one still writes tells what it met itself. */
    return atomic_load(&device->lost) ? td_device_tell_lost(device) : tell_lost(device, native, call);
}
