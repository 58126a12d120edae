/* When submissions ran. Each submission is framed by two small command buffers, recorded once for each of
 * TD_TIMES_KEPT slots, that stamp the device's clock into a query pool: recorded lists stay as they are, and
 * a result is overwritten only by the submission that makes it forgotten. Also relates the device's clock to
 * the host's. Covered by tests/device/test_queue.c. */
#include "base/clock.h"
#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

enum { MARKER_QUERY = 2 * TD_TIMES_KEPT, N_QUERIES };

static uint32_t slot_of(uint64_t value)
{
    return (uint32_t)(value % TD_TIMES_KEPT);
}

/* ---------------------------------------------------------------- recording */

/* Makes, if *stamp is none yet, a command buffer that resets `n_resets` queries from `query` on and stamps
 * the first. The stamp is taken when all earlier commands of the queue are done. */
static td_status ensure_stamp(vk_queue *queue, VkCommandBuffer *stamp, uint32_t query, uint32_t n_resets)
{
    vk_device *device = queue->device;
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = queue->times.pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
    };
    VkCommandBuffer commands = VK_NULL_HANDLE; /* freed with its pool */
    td_status status = TD_OK;
    if (*stamp) return TD_OK;
    TD_VK_TRY(device, vkAllocateCommandBuffers, device->handle, &info, &commands);
    TD_VK_TRY(device, vkBeginCommandBuffer, commands, &begin);
    if (n_resets) device->api.vkCmdResetQueryPool(commands, queue->times.queries, query, n_resets);
    device->api.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queue->times.queries,
                                    query);
    TD_VK_TRY(device, vkEndCommandBuffer, commands);
    *stamp = commands;
fail:
    return status;
}

td_status td_vk_times_create(vk_queue *queue)
{
    vk_device *device = queue->device;
    vk_times *times = &queue->times;
    td_status status = TD_OK;
    times->resets_itself = queue->choice->computes; /* transfer queues may not reset queries */
    if (!device->base.info.caps.timestamps || !queue->choice->timestamp_bits) return TD_OK;
    if (!times->resets_itself && !device->physical->host_query_reset) return TD_OK;
    const VkQueryPoolCreateInfo queries = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = N_QUERIES,
    };
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = queue->choice->family,
    };
    TD_VK_CREATE(device, vkCreateQueryPool, &queries, &times->queries);
    TD_VK_CREATE(device, vkCreateCommandPool, &pool, &times->pool);
    if (!times->resets_itself) device->api.vkResetQueryPool(device->handle, times->queries, 0, N_QUERIES);
fail:
    return status;
}

void td_vk_times_destroy(vk_queue *queue)
{
    const vk_device *device = queue->device;
    device->api.vkDestroyCommandPool(device->handle, queue->times.pool, NULL);
    device->api.vkDestroyQueryPool(device->handle, queue->times.queries, NULL);
}

/* ---------------------------------------------------------------- stamping and reading */

/* The host may reset a slot only when its last user is done. */
static bool reset_slot(const vk_queue *queue, uint64_t value)
{
    const vk_device *device = queue->device;
    uint64_t reached = 0;
    if (value > TD_TIMES_KEPT) {
        if (device->api.vkGetSemaphoreCounterValue(device->handle, queue->reached, &reached) < VK_SUCCESS)
            return false;
        if (reached < value - TD_TIMES_KEPT) return false;
    }
    device->api.vkResetQueryPool(device->handle, queue->times.queries, 2 * slot_of(value), 2);
    return true;
}

td_status td_vk_times_lap(vk_queue *queue, uint64_t value, vk_lap *out)
{
    vk_times *times = &queue->times;
    const uint32_t slot = slot_of(value);
    *out = (vk_lap){0};
    if (!times->queries) return TD_OK;
    TD_CHECK(ensure_stamp(queue, &times->laps[slot].start, 2 * slot, times->resets_itself ? 2 : 0));
    TD_CHECK(ensure_stamp(queue, &times->laps[slot].stop, 2 * slot + 1, 0));
    times->untimed[slot] = !times->resets_itself && !reset_slot(queue, value);
    if (!times->untimed[slot]) *out = times->laps[slot];
    return TD_OK;
}

static td_status read_queries(const vk_queue *queue, uint32_t first, uint32_t count, uint64_t *ticks)
{
    vk_device *device = queue->device;
    const VkResult result = device->api.vkGetQueryPoolResults(device->handle, queue->times.queries, first,
                                                              count, count * sizeof *ticks, ticks,
                                                              sizeof *ticks, VK_QUERY_RESULT_64_BIT);
    if (result == VK_SUCCESS) return TD_OK;
    if (result < VK_SUCCESS) return td_vk_fail(device, result, "vkGetQueryPoolResults", __FILE__, __LINE__);
    return TD_FAIL(TD_ERR_NOT_FOUND, "%s has no timestamp for this submission", device->base.info.name);
}

/* Clocks of fewer than 64 bits wrap round, some within the hour: reads on from the newest value seen. The
 * first one counts as one round ahead, so that a slightly older one is not negative. */
static uint64_t unwrap(vk_device *device, uint64_t ticks, uint32_t bits)
{
    if (bits >= 64) return ticks;
    const uint64_t range = UINT64_C(1) << bits;
    uint_fast64_t last = atomic_load(&device->last_ticks);
    for (;;) {
        const uint64_t ahead = (ticks - last) & (range - 1);
        if (last && ahead > range / 2) return last - (range - ahead);
        const uint64_t newest = last ? last + ahead : range + (ticks & (range - 1));
        if (atomic_compare_exchange_weak(&device->last_ticks, &last, newest)) return newest;
    }
}

static uint64_t to_ns(const vk_queue *queue, uint64_t ticks)
{
    const uint64_t whole = unwrap(queue->device, ticks, queue->choice->timestamp_bits);
    return (uint64_t)((long double)whole * (long double)queue->device->physical->timestamp_period_ns);
}

td_status td_vk_queue_times(td_queue *base, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    vk_queue *queue = (vk_queue *)base;
    uint64_t ticks[2] = {0, 0};
    td_status status = TD_OK;
    if (!queue->times.queries) {
        return TD_FAIL(TD_ERR_UNSUPPORTED, "this queue of %s has no timestamps",
                       queue->device->base.info.name);
    }
    pthread_mutex_lock(&queue->mutex);
    TD_FAIL_IF(value == 0 || value > queue->submitted || queue->submitted - value >= TD_TIMES_KEPT ||
                   queue->times.untimed[slot_of(value)],
               TD_ERR_NOT_FOUND, "the times of submission %llu on %s are not kept any more",
               (unsigned long long)value, queue->device->base.info.name);
    TD_TRY(read_queries(queue, 2 * slot_of(value), 2, ticks));
    *start_ns = to_ns(queue, ticks[0]);
    *end_ns = to_ns(queue, ticks[1]);
fail:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

/* ---------------------------------------------------------------- calibration */

/* One pair of readings and how far apart they may be. */
typedef struct vk_sample {
    uint64_t device_ns;
    uint64_t host_ns;
    uint64_t error_ns;
} vk_sample;

/* True if the driver can read both clocks at once. */
static bool reads_both_clocks(const vk_device *device)
{
    enum { MAX_DOMAINS = 16 };
    const td_vk_api *api = &device->state->api;
    VkTimeDomainEXT domains[MAX_DOMAINS];
    uint32_t count = MAX_DOMAINS;
    bool has_device = false;
    bool has_host = false;
    if (!device->api.vkGetCalibratedTimestampsEXT || !api->vkGetPhysicalDeviceCalibrateableTimeDomainsEXT)
        return false;
    if (api->vkGetPhysicalDeviceCalibrateableTimeDomainsEXT(device->physical->handle, &count, domains) <
        VK_SUCCESS)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        has_device |= domains[i] == VK_TIME_DOMAIN_DEVICE_EXT;
        has_host |= domains[i] == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT; /* what td_clock_ns reads */
    }
    return has_device && has_host;
}

static td_status sample_both(vk_queue *queue, vk_sample *out)
{
    static const VkCalibratedTimestampInfoEXT CLOCKS[2] = {
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT},
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT,
         .timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT},
    };
    uint64_t stamps[2] = {0, 0};
    td_status status = TD_OK;
    TD_VK_TRY(queue->device, vkGetCalibratedTimestampsEXT, queue->device->handle, 2, CLOCKS, stamps,
              &out->error_ns);
    out->device_ns = to_ns(queue, stamps[0]);
    out->host_ns = stamps[1];
fail:
    return status;
}

/* Hands a marker to the driver; *before_ns is the host's time just before. */
static td_status submit_marker(vk_queue *queue, uint64_t value, uint64_t *before_ns)
{
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo batch = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .commandBufferCount = 1,
        .pCommandBuffers = &queue->times.marker,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &queue->marked,
    };
    td_status status = TD_OK;
    pthread_mutex_lock(&queue->mutex);
    TD_TRY(ensure_stamp(queue, &queue->times.marker, MARKER_QUERY, 1));
    *before_ns = td_clock_ns();
    TD_VK_TRY(queue->device, vkQueueSubmit, queue->handle, 1, &batch, VK_NULL_HANDLE);
    queue->n_marks = value;
fail:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

/* The marker's stamp lies between the host's times before and after. */
static td_status sample_marker(vk_queue *queue, vk_sample *out)
{
    const uint64_t value = queue->n_marks + 1;
    uint64_t before_ns = 0;
    uint64_t ticks = 0;
    TD_CHECK(submit_marker(queue, value, &before_ns));
    TD_CHECK(td_vk_semaphore_wait(queue->device, queue->marked, value, UINT64_MAX));
    out->error_ns = (td_clock_ns() - before_ns) / 2;
    out->host_ns = before_ns + out->error_ns;
    TD_CHECK(read_queries(queue, MARKER_QUERY, 1, &ticks));
    out->device_ns = to_ns(queue, ticks);
    return TD_OK;
}

/* The generic layer calls this from one thread at a time. */
td_status td_vk_calibrate(td_device *base, td_clock_map *out)
{
    enum { SAMPLES = 8 };
    vk_queue *queue = (vk_queue *)base->queues[TD_QUEUE_COMPUTE];
    vk_sample best = {.error_ns = UINT64_MAX};
    TD_REFUSE_IF(!queue->times.queries, TD_ERR_UNSUPPORTED, "%s has no timestamps", base->info.name);
    const bool both = reads_both_clocks(queue->device);
    for (int i = 0; i < SAMPLES; i++) {
        vk_sample sample = {0};
        TD_CHECK(both ? sample_both(queue, &sample) : sample_marker(queue, &sample));
        if (sample.error_ns < best.error_ns) best = sample;
    }
    *out = (td_clock_map){.device_ref_ns = best.device_ns, .host_ref_ns = best.host_ns, .scale = 1.0};
    return TD_OK;
}
