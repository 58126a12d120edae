/* Turns a finished list into command buffers, one per segment, that can be submitted again and again, also
 * while an earlier submission of them still runs. Barriers stand where the generic layer found conflicts, and
 * at the start of each segment, which orders replays and lists behind each other. Covered by
 * tests/device/test_list.c under synchronisation validation. */
#include <stdlib.h>
#include <string.h>

#include "device/vulkan/vk.h"
#include "device/vulkan/vk_error.h"

/* Descriptor sets of a list while it is compiled. Dispatches with equal buffers share one. */
typedef struct vk_sets {
    size_t *of_command; /* index into `used` for each command of the list */
    size_t *used;       /* for each set the first command that needs it */
    size_t n_used;
    VkDescriptorSet *handles; /* n_used */
} vk_sets;

static void free_sets(vk_sets *sets)
{
    free(sets->of_command);
    free(sets->used);
    free(sets->handles);
}

/* ---------------------------------------------------------------- descriptor sets */

static bool same_spans(const td_command *a, const td_command *b)
{
    return a->n_spans == b->n_spans && memcmp(a->spans, b->spans, a->n_spans * sizeof a->spans[0]) == 0;
}

/* Finds the distinct sets with a hash table of the commands' spans (open addressing, half full at most). */
static td_status find_sets(const td_list *list, vk_sets *sets)
{
    size_t *table = NULL; /* set + 1; 0 is free */
    size_t n_slots = 16;
    td_status status = TD_OK;
    while (n_slots < 2 * list->n_commands)
        n_slots *= 2;
    TD_TRY(TD_NEW_ARRAY(&table, n_slots));
    TD_TRY(TD_NEW_ARRAY(&sets->of_command, list->n_commands));
    TD_TRY(TD_NEW_ARRAY(&sets->used, list->n_commands));
    for (size_t i = 0; i < list->n_commands; i++) {
        const td_command *command = &list->commands[i];
        if (command->kind != TD_COMMAND_DISPATCH) continue;
        size_t slot = td_hash64(command->spans, command->n_spans * sizeof command->spans[0]) & (n_slots - 1);
        while (table[slot] && !same_spans(command, &list->commands[sets->used[table[slot] - 1]]))
            slot = (slot + 1) & (n_slots - 1);
        if (!table[slot]) {
            sets->used[sets->n_used] = i;
            table[slot] = ++sets->n_used;
        }
        sets->of_command[i] = table[slot] - 1;
    }
fail:
    free(table);
    return status;
}

static void write_set(const vk_device *device, VkDescriptorSet set, const td_command *command)
{
    VkDescriptorBufferInfo ranges[TD_KERNEL_MAX_BUFFERS];
    for (uint32_t i = 0; i < command->n_spans; i++) {
        const td_span *span = &command->spans[i];
        ranges[i] =
            (VkDescriptorBufferInfo){((const vk_buffer *)span->buffer)->handle, span->offset, span->bytes};
    }
    const VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = set,
        .descriptorCount = command->n_spans, /* runs on through the following bindings */
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        .pBufferInfo = ranges,
    };
    if (command->n_spans) device->api.vkUpdateDescriptorSets(device->handle, 1, &write, 0, NULL);
}

static td_status make_sets(vk_device *device, const td_list *list, vk_list *native, vk_sets *sets)
{
    td_status status = TD_OK;
    TD_TRY(find_sets(list, sets));
    if (sets->n_used == 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&sets->handles, sets->n_used));
    VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1};
    for (size_t i = 0; i < sets->n_used; i++)
        size.descriptorCount += list->commands[sets->used[i]].n_spans;
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = (uint32_t)sets->n_used,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    TD_VK_CREATE(device, vkCreateDescriptorPool, &pool, &native->descriptors);
    for (size_t i = 0; i < sets->n_used; i++) {
        const td_command *command = &list->commands[sets->used[i]];
        vk_layout layout;
        TD_TRY(td_vk_layout_get(device, command->n_spans, &layout));
        const VkDescriptorSetAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
            .descriptorPool = native->descriptors,
            .descriptorSetCount = 1,
            .pSetLayouts = &layout.set,
        };
        TD_VK_TRY(device, vkAllocateDescriptorSets, device->handle, &info, &sets->handles[i]);
        write_set(device, sets->handles[i], command);
    }
fail:
    return status;
}

/* ---------------------------------------------------------------- recording */

/* Everything before it on this queue happens before everything after it. */
static void record_barrier(const vk_queue *queue, VkCommandBuffer commands)
{
    const bool computes = queue->choice->computes;
    const VkAccessFlags writes = VK_ACCESS_TRANSFER_WRITE_BIT | (computes ? VK_ACCESS_SHADER_WRITE_BIT : 0);
    const VkAccessFlags reads = VK_ACCESS_TRANSFER_READ_BIT | (computes ? VK_ACCESS_SHADER_READ_BIT : 0);
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = writes,
        .dstAccessMask = reads | writes,
    };
    queue->device->api.vkCmdPipelineBarrier(commands, queue->stages, queue->stages, 0, 1, &barrier, 0, NULL,
                                            0, NULL);
}

/* Results become readable by the host, once it has waited for the point. */
static void record_host_barrier(const vk_queue *queue, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask =
            VK_ACCESS_TRANSFER_WRITE_BIT | (queue->choice->computes ? VK_ACCESS_SHADER_WRITE_BIT : 0),
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    queue->device->api.vkCmdPipelineBarrier(commands, queue->stages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                                            &barrier, 0, NULL, 0, NULL);
}

/* What is bound in the command buffer that is being recorded. */
typedef struct vk_bound {
    VkPipeline pipeline;
    VkDescriptorSet set;
} vk_bound;

static td_status record_dispatch(vk_device *device, VkCommandBuffer commands, const td_command *command,
                                 VkDescriptorSet set, vk_bound *bound)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    vk_layout layout;
    TD_CHECK(td_vk_pipeline_get(device, command->kernel, &pipeline));
    TD_CHECK(td_vk_layout_get(device, command->n_spans, &layout));
    if (bound->pipeline != pipeline)
        device->api.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    if (bound->set != set) {
        device->api.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout.pipeline, 0, 1,
                                            &set, 0, NULL);
    }
    *bound = (vk_bound){pipeline, set};
    if (command->params_bytes) {
        device->api.vkCmdPushConstants(commands, layout.pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                       command->params_bytes, command->params);
    }
    device->api.vkCmdDispatch(commands, command->grid.x, command->grid.y, command->grid.z);
    return TD_OK;
}

static td_status record_command(vk_device *device, VkCommandBuffer commands, const td_command *command,
                                VkDescriptorSet set, vk_bound *bound)
{
    const td_span *to = &command->spans[0];
    const td_span *from = &command->spans[1];
    switch (command->kind) {
    case TD_COMMAND_FILL:
        device->api.vkCmdFillBuffer(commands, ((vk_buffer *)to->buffer)->handle, to->offset, to->bytes,
                                    command->word);
        return TD_OK;
    case TD_COMMAND_COPY: {
        const VkBufferCopy region = {.srcOffset = from->offset, .dstOffset = to->offset, .size = to->bytes};
        device->api.vkCmdCopyBuffer(commands, ((vk_buffer *)from->buffer)->handle,
                                    ((vk_buffer *)to->buffer)->handle, 1, &region);
        return TD_OK;
    }
    case TD_COMMAND_DISPATCH:
    case TD_COMMAND_NATIVE: /* never recorded for Vulkan */
        break;
    }
    return record_dispatch(device, commands, command, set, bound);
}

/* Records commands [first, end) of the list as one segment. */
static td_status record_segment(const vk_queue *queue, const td_list *list, const vk_sets *sets, size_t first,
                                size_t end, VkCommandBuffer commands)
{
    vk_device *device = queue->device;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
    };
    vk_bound bound = {0};
    td_status status = TD_OK;
    TD_VK_TRY(device, vkBeginCommandBuffer, commands, &begin);
    for (size_t i = first; i < end; i++) {
        const td_command *command = &list->commands[i];
        const bool dispatches = command->kind == TD_COMMAND_DISPATCH;
        if (i == first || command->barrier_before) record_barrier(queue, commands);
        TD_TRY(record_command(device, commands, command,
                              dispatches ? sets->handles[sets->of_command[i]] : VK_NULL_HANDLE, &bound));
    }
    if (end == list->n_commands) record_host_barrier(queue, commands);
    TD_VK_TRY(device, vkEndCommandBuffer, commands);
fail:
    return status;
}

static size_t end_of_segment(const td_list *list, size_t first)
{
    size_t end = first + 1;
    while (end < list->n_commands && !list->commands[end].starts_segment)
        end++;
    return end;
}

static td_status record(const td_list *list, vk_list *native, const vk_sets *sets)
{
    vk_device *device = native->queue->device;
    td_status status = TD_OK;
    uint32_t n_segments = 0;
    for (size_t i = 0; i < list->n_commands; i = end_of_segment(list, i))
        n_segments++;
    TD_TRY(td_vk_work_create(native->queue, n_segments, &native->work));
    if (n_segments == 0) return TD_OK;
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = native->queue->choice->family,
    };
    TD_VK_CREATE(device, vkCreateCommandPool, &pool, &native->pool);
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = native->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = n_segments,
    };
    VkCommandBuffer *commands = native->work.commands + 1;
    TD_VK_TRY(device, vkAllocateCommandBuffers, device->handle, &info, commands);
    for (size_t first = 0, end; first < list->n_commands; first = end) {
        end = end_of_segment(list, first);
        TD_TRY(record_segment(native->queue, list, sets, first, end, *commands++));
    }
fail:
    return status;
}

/* ---------------------------------------------------------------- the backend's calls */

td_status td_vk_list_compile(td_list *list)
{
    vk_device *device = (vk_device *)list->device;
    vk_sets sets = {0};
    vk_list *native = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW(&native));
    list->native = native;
    native->queue = (vk_queue *)device->base.queues[list->kind];
    TD_TRY(make_sets(device, list, native, &sets));
    TD_TRY(record(list, native, &sets));
    free_sets(&sets);
    td_vk_pipelines_save(device);
    return TD_OK;
fail:
    free_sets(&sets);
    td_vk_list_discard(list);
    return status;
}

void td_vk_list_discard(td_list *list)
{
    vk_list *native = list->native;
    if (!native) return;
    const vk_device *device = native->queue->device;
    pthread_mutex_lock(&native->queue->mutex);
    const uint64_t last_value = native->last_value;
    pthread_mutex_unlock(&native->queue->mutex);
    td_vk_queue_settle(native->queue, last_value);
    device->api.vkDestroyCommandPool(device->handle, native->pool, NULL);
    device->api.vkDestroyDescriptorPool(device->handle, native->descriptors, NULL);
    td_vk_work_destroy(&native->work);
    free(native);
    list->native = NULL;
}
