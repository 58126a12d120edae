/* Submissions and the timeline. Each queue has a timeline semaphore whose value is that of its last finished
 * submission; the driver keeps everything else, so nothing accumulates on the host. A list is handed over in
 * one vkQueueSubmit, which the driver takes wholly or not at all. Covered by tests/device/test_queue.c and
 * tests/faults. */
#include <stdlib.h>

#include "base/clock.h"
#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

/* Waiting is cut into slices, so that a device found lost by one thread lets go the others. */
#define SLICE_NS UINT64_C(1000000000)

/* ---------------------------------------------------------------- work */

td_status td_vk_work_create(const vk_queue *queue, uint32_t n_segments, vk_work *out)
{
    vk_work work = {.n_segments = n_segments, .n_batches = n_segments ? n_segments : 1};
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&work.batches, work.n_batches));
    TD_TRY(TD_NEW_ARRAY(&work.timelines, work.n_batches));
    TD_TRY(TD_NEW_ARRAY(&work.signals, work.n_batches));
    TD_TRY(TD_NEW_ARRAY(&work.commands, n_segments + 2));
    for (uint32_t i = 0; i < work.n_batches; i++) {
        work.timelines[i] = (VkTimelineSemaphoreSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
            .signalSemaphoreValueCount = 1,
            .pSignalSemaphoreValues = &work.signals[i],
        };
        /* The batches between would need no signal, but without one drivers may melt them into one again. */
        work.batches[i] = (VkSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
            .pNext = &work.timelines[i],
            .signalSemaphoreCount = 1,
            .pSignalSemaphores = i + 1 < work.n_batches ? &queue->segments : &queue->reached,
        };
    }
    *out = work;
    return TD_OK;
fail:
    td_vk_work_destroy(&work);
    return status;
}

void td_vk_work_destroy(vk_work *work)
{
    free(work->batches);
    free(work->timelines);
    free(work->signals);
    free(work->commands);
    *work = (vk_work){0};
}

/* ---------------------------------------------------------------- submitting */

/* What the first batch of a submission waits for; lives as long as the call. */
typedef struct vk_waits {
    VkSemaphore semaphores[TD_MAX_NATIVE_WAITS];
    uint64_t values[TD_MAX_NATIVE_WAITS];
    VkPipelineStageFlags stages[TD_MAX_NATIVE_WAITS];
} vk_waits;

static void patch_waits(vk_work *work, const td_native_submission *submission, vk_waits *waits)
{
    for (size_t i = 0; i < submission->n_waits; i++) {
        waits->semaphores[i] = ((const vk_queue *)submission->waits[i].queue)->reached;
        waits->values[i] = submission->waits[i].value;
        waits->stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    work->batches[0].waitSemaphoreCount = (uint32_t)submission->n_waits;
    work->batches[0].pWaitSemaphores = waits->semaphores;
    work->batches[0].pWaitDstStageMask = waits->stages;
    work->timelines[0].waitSemaphoreValueCount = (uint32_t)submission->n_waits;
    work->timelines[0].pWaitSemaphoreValues = waits->values;
}

/* Sets the signal values, and takes the timestamps' command buffers in or leaves them out. */
static void patch_batches(const vk_queue *queue, vk_work *work, uint64_t value, vk_lap lap)
{
    const bool timed = lap.start != VK_NULL_HANDLE;
    work->commands[0] = lap.start;
    work->commands[work->n_segments + 1] = lap.stop;
    for (uint32_t i = 0; i < work->n_batches; i++) {
        const bool starts = timed && i == 0;
        const bool stops = timed && i + 1 == work->n_batches;
        work->batches[i].pCommandBuffers = work->commands + 1 + i - starts;
        work->batches[i].commandBufferCount = (uint32_t)((work->n_segments > 0) + starts + stops);
        work->signals[i] = i + 1 < work->n_batches ? queue->n_segments + i + 1 : value;
    }
}

td_status td_vk_queue_submit(td_queue *base, const td_native_submission *submission)
{
    vk_queue *queue = (vk_queue *)base;
    vk_list *list = submission->list ? submission->list->native : NULL;
    vk_work *work = list ? &list->work : &queue->join;
    vk_waits waits;
    vk_lap lap;
    td_status status = TD_OK;
    pthread_mutex_lock(&queue->mutex);
    TD_TRY(td_vk_times_lap(queue, submission->value, &lap));
    patch_batches(queue, work, submission->value, lap);
    patch_waits(work, submission, &waits);
    TD_VK_TRY(queue->device, vkQueueSubmit, queue->handle, work->n_batches, work->batches, VK_NULL_HANDLE);
    queue->n_segments += work->n_batches - 1;
    queue->submitted = submission->value;
    if (list) list->last_value = submission->value;
fail:
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

/* ---------------------------------------------------------------- waiting */

static VkResult wait_slice(const vk_device *device, VkSemaphore semaphore, uint64_t value,
                           uint64_t timeout_ns)
{
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &semaphore,
        .pValues = &value,
    };
    return device->api.vkWaitSemaphores(device->handle, &info, timeout_ns < SLICE_NS ? timeout_ns : SLICE_NS);
}

td_status td_vk_semaphore_wait(vk_device *device, VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns)
{
    const uint64_t started_ns = td_clock_ns();
    for (;;) {
        const uint64_t spent_ns = td_clock_ns() - started_ns;
        const uint64_t left_ns = timeout_ns > spent_ns ? timeout_ns - spent_ns : 0;
        const VkResult result = wait_slice(device, semaphore, value, left_ns);
        if (result == VK_SUCCESS) return TD_OK;
        if (result != VK_TIMEOUT) return td_vk_fail(device, result, "vkWaitSemaphores", __FILE__, __LINE__);
        if (atomic_load(&device->base.lost)) return td_device_tell_lost(&device->base);
        if (left_ns <= SLICE_NS) return TD_ERR_TIMEOUT;
    }
}

td_status td_vk_queue_wait(td_queue *base, uint64_t value, uint64_t timeout_ns)
{
    vk_queue *queue = (vk_queue *)base;
    return td_vk_semaphore_wait(queue->device, queue->reached, value, timeout_ns);
}

bool td_vk_queue_can_wait(const td_queue *waiter, const td_queue *signaller)
{
    return waiter->device == signaller->device;
}

/* A driver's single word that waiting failed is not enough to free what it may still use: three are. */
void td_vk_queue_settle(vk_queue *queue, uint64_t value)
{
    enum { ATTEMPTS = 3 };
    int failures = 0;
    while (value > 0 && failures < ATTEMPTS) {
        const VkResult result = wait_slice(queue->device, queue->reached, value, SLICE_NS);
        if (result == VK_SUCCESS) return;
        if (result != VK_TIMEOUT || atomic_load(&queue->device->base.lost)) failures++;
    }
}

void td_vk_device_settle(vk_device *device)
{
    for (int kind = 0; kind < TD_QUEUE_KIND_COUNT; kind++) {
        vk_queue *queue = (vk_queue *)device->base.queues[kind];
        if (!queue) continue;
        pthread_mutex_lock(&queue->mutex);
        const uint64_t value = queue->submitted;
        pthread_mutex_unlock(&queue->mutex);
        td_vk_queue_settle(queue, value);
    }
}

/* ---------------------------------------------------------------- life */

static td_status create_timeline(vk_device *device, VkSemaphore *out)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    td_status status = TD_OK;
    TD_VK_CREATE(device, vkCreateSemaphore, &info, out);
fail:
    return status;
}

td_status td_vk_queue_create(vk_device *device, td_queue_kind kind, vk_queue **out)
{
    vk_queue *queue = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&queue));
    queue->base.device = &device->base;
    queue->base.kind = kind;
    queue->device = device;
    queue->choice = &device->physical->queues[kind];
    queue->stages = VK_PIPELINE_STAGE_TRANSFER_BIT;
    if (queue->choice->computes) queue->stages |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    TD_FAIL_IF(pthread_mutex_init(&queue->mutex, NULL), TD_ERR_HOST_MEMORY,
               "no lock could be made for a queue of %s", device->base.info.name);
    queue->mutex_ready = true;
    device->api.vkGetDeviceQueue(device->handle, queue->choice->family, queue->choice->index, &queue->handle);
    TD_TRY(create_timeline(device, &queue->reached));
    TD_TRY(create_timeline(device, &queue->segments));
    TD_TRY(create_timeline(device, &queue->marked));
    TD_TRY(td_vk_work_create(queue, 0, &queue->join));
    TD_TRY(td_vk_times_create(queue));
    *out = queue;
    return TD_OK;
fail:
    td_vk_queue_destroy(queue);
    return status;
}

void td_vk_queue_destroy(vk_queue *queue)
{
    if (!queue) return;
    vk_device *device = queue->device;
    td_vk_times_destroy(queue);
    td_vk_work_destroy(&queue->join);
    device->api.vkDestroySemaphore(device->handle, queue->marked, NULL);
    device->api.vkDestroySemaphore(device->handle, queue->segments, NULL);
    device->api.vkDestroySemaphore(device->handle, queue->reached, NULL);
    if (queue->mutex_ready) pthread_mutex_destroy(&queue->mutex);
    free(queue);
}
