/* Command lists: recording with every argument checked, hazards and submission boundaries found once at
 * td_list_finish; the backend then makes its native objects. Covered by tests/device/test_list.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/backend.h"
#include "device/dispatch.h"
#include "device/hazard.h"
#include "device/queue_internal.h"

/* GPU watchdogs kill submissions of seconds (2 s on current amdgpu and Windows); stay far below. */
#define SEGMENT_NS 250e6
#define COMMAND_OVERHEAD_NS 2e3

td_status td_list_create(td_device *device, td_queue_kind kind, td_list **out)
{
    td_list *list = NULL;
    *out = NULL;
    const td_status status = TD_NEW(&list);
    if (status != TD_OK) return status;
    list->device = device;
    list->kind = kind;
    list->time_scale = 1;
    *out = list;
    return TD_OK;
}

void td_list_destroy(td_list *list)
{
    if (!list) return;
    if (td_point_wait(list->last_use, TD_WAIT_FOREVER) != TD_OK) td_queue_drain(list->last_use.queue);
    list->device->ops->list_discard(list);
    free(list->commands);
    free(list);
}

void td_list_set_time_scale(td_list *list, double time_scale)
{
    list->time_scale = time_scale;
}

double td_list_estimated_ns(const td_list *list)
{
    double ns = 0;
    for (size_t i = 0; i < list->n_commands; i++)
        ns += list->commands[i].cost_ns;
    return ns;
}

size_t td_list_submissions(const td_list *list)
{
    return list->n_segments;
}

/* ---------------------------------------------------------------- recording */

static bool is_reachable(const td_list *list, const td_buffer *buffer)
{
    return buffer->device == list->device ||
           (list->device->share_group && buffer->device->share_group == list->device->share_group);
}

static td_status check_span(const td_list *list, td_span span, const char *what)
{
    TD_REFUSE_IF(!span.buffer || span.bytes == 0, TD_ERR_ARGUMENT, "%s is an empty range", what);
    TD_REFUSE_IF(span.offset > span.buffer->bytes || span.bytes > span.buffer->bytes - span.offset,
                 TD_ERR_ARGUMENT, "%s covers bytes %llu to %llu of a buffer of %llu", what,
                 (unsigned long long)span.offset, (unsigned long long)(span.offset + span.bytes),
                 (unsigned long long)span.buffer->bytes);
    TD_REFUSE_IF(!is_reachable(list, span.buffer), TD_ERR_ARGUMENT,
                 "%s is memory of %s, but the list is for %s; send it through a channel", what,
                 span.buffer->device->info.name, list->device->info.name);
    return TD_OK;
}

static td_status check_binding(const td_list *list, td_span span, const char *what)
{
    const td_device_caps *caps = &list->device->info.caps;
    TD_CHECK(check_span(list, span, what));
    TD_REFUSE_IF(span.bytes > caps->max_binding_bytes, TD_ERR_LIMIT,
                 "%s is %llu bytes, but a kernel on %s can be given at most %llu; split it", what,
                 (unsigned long long)span.bytes, list->device->info.name,
                 (unsigned long long)caps->max_binding_bytes);
    TD_REFUSE_IF(caps->offset_align && span.offset % caps->offset_align, TD_ERR_ARGUMENT,
                 "%s starts at byte %llu, but %s needs multiples of %u", what,
                 (unsigned long long)span.offset, list->device->info.name, caps->offset_align);
    return TD_OK;
}

static td_status check_words(td_span span, const char *what)
{
    if (span.offset % 4 == 0 && span.bytes % 4 == 0) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "%s (offset %llu, %llu bytes) is not made of whole 4-byte words", what,
                   (unsigned long long)span.offset, (unsigned long long)span.bytes);
}

static double estimate_ns(const td_list *list, td_cost cost)
{
    const td_device_caps *caps = &list->device->info.caps;
    const double compute_ns = caps->estimated_gflops > 0 ? cost.flops / caps->estimated_gflops : 0;
    const double memory_ns = caps->estimated_gbps > 0 ? cost.bytes / caps->estimated_gbps : 0;
    return COMMAND_OVERHEAD_NS + list->time_scale * (compute_ns > memory_ns ? compute_ns : memory_ns);
}

static td_status append(td_list *list, td_command_kind kind, td_cost cost, td_command **out)
{
    TD_REFUSE_IF(list->finished, TD_ERR_ARGUMENT,
                 "a command was recorded into a finished list; make a new list");
    TD_CHECK(td_alloc_grow(&list->commands, &list->capacity, list->n_commands + 1, sizeof *list->commands));
    *out = &list->commands[list->n_commands++];
    (*out)->kind = kind;
    (*out)->cost_ns = estimate_ns(list, cost);
    return TD_OK;
}

td_status td_list_copy(td_list *list, td_span destination, td_span source)
{
    td_command *command = NULL;
    TD_CHECK(check_span(list, destination, "the destination of a copy"));
    TD_CHECK(check_span(list, source, "the source of a copy"));
    TD_CHECK(check_words(destination, "the destination of a copy"));
    TD_CHECK(check_words(source, "the source of a copy"));
    TD_REFUSE_IF(destination.bytes != source.bytes, TD_ERR_ARGUMENT,
                 "a copy of %llu bytes into a range of %llu", (unsigned long long)source.bytes,
                 (unsigned long long)destination.bytes);
    TD_REFUSE_IF(destination.buffer == source.buffer && destination.offset < source.offset + source.bytes &&
                     source.offset < destination.offset + destination.bytes,
                 TD_ERR_ARGUMENT, "source and destination of a copy overlap");
    TD_CHECK(append(list, TD_COMMAND_COPY, (td_cost){.bytes = 2.0 * (double)source.bytes}, &command));
    command->n_spans = 2;
    command->spans[0] = destination;
    command->spans[1] = source;
    command->access[0] = TD_ACCESS_WRITE;
    command->access[1] = TD_ACCESS_READ;
    return TD_OK;
}

td_status td_list_fill(td_list *list, td_span destination, uint32_t word)
{
    td_command *command = NULL;
    TD_CHECK(check_span(list, destination, "the destination of a fill"));
    TD_CHECK(check_words(destination, "the destination of a fill"));
    TD_CHECK(append(list, TD_COMMAND_FILL, (td_cost){.bytes = (double)destination.bytes}, &command));
    command->n_spans = 1;
    command->spans[0] = destination;
    command->access[0] = TD_ACCESS_WRITE;
    command->word = word;
    return TD_OK;
}

td_status td_list_dispatch(td_list *list, td_kernel_id id, const td_span *spans, const void *params,
                           td_grid grid, td_cost cost)
{
    const td_kernel *kernel = td_kernel_get(id);
    const uint32_t most = list->device->info.caps.max_group_count;
    const uint32_t group = td_device_group_size(list->device, id);
    td_command *command = NULL;
    TD_REFUSE_IF(list->kind != TD_QUEUE_COMPUTE && list->device->info.caps.copy_queue, TD_ERR_ARGUMENT,
                 "kernel %s was recorded for a copy queue", kernel->name);
    TD_REFUSE_IF(group > list->device->info.caps.max_group_size, TD_ERR_LIMIT,
                 "kernel %s has work-groups of %u items; %s takes at most %u", kernel->name, group,
                 list->device->info.name, list->device->info.caps.max_group_size);
    TD_REFUSE_IF(!grid.x || !grid.y || !grid.z || grid.x > most || grid.y > most || grid.z > most,
                 TD_ERR_LIMIT,
                 "kernel %s was given %u x %u x %u work-groups; %s takes 1 to %u in each direction",
                 kernel->name, grid.x, grid.y, grid.z, list->device->info.name, most);
    for (uint32_t i = 0; i < kernel->n_buffers; i++) {
        char what[64];
        snprintf(what, sizeof what, "buffer %u of kernel %s", i, kernel->name);
        TD_CHECK(check_binding(list, spans[i], what));
    }
    TD_CHECK(append(list, TD_COMMAND_DISPATCH, cost, &command));
    command->kernel = kernel;
    command->grid = grid;
    command->n_spans = kernel->n_buffers;
    memcpy(command->spans, spans, kernel->n_buffers * sizeof *spans);
    memcpy(command->access, kernel->access, sizeof command->access);
    command->params_bytes = kernel->params_bytes;
    memcpy(command->params, params, kernel->params_bytes);
    return TD_OK;
}

td_status td_list_native(td_list *list, const td_native_command *native)
{
    td_command *command = NULL;
    TD_REFUSE_IF(list->device->info.api != native->api, TD_ERR_UNSUPPORTED,
                 "%s cannot run on %s, which has another API", native->name, list->device->info.name);
    TD_REFUSE_IF(native->n_spans > TD_KERNEL_MAX_BUFFERS || native->params_bytes > TD_KERNEL_MAX_PARAMS,
                 TD_ERR_ARGUMENT, "%s takes %u buffers and %u bytes of parameters; %d and %d are the most",
                 native->name, native->n_spans, native->params_bytes, TD_KERNEL_MAX_BUFFERS,
                 TD_KERNEL_MAX_PARAMS);
    for (uint32_t i = 0; i < native->n_spans; i++) {
        char what[64];
        snprintf(what, sizeof what, "buffer %u of %s", i, native->name);
        TD_CHECK(check_binding(list, native->spans[i], what));
    }
    TD_CHECK(append(list, TD_COMMAND_NATIVE, native->cost, &command));
    command->native = native->native;
    command->n_spans = native->n_spans;
    memcpy(command->spans, native->spans, native->n_spans * sizeof *native->spans);
    for (uint32_t i = 0; i < native->n_spans; i++)
        command->access[i] = (uint8_t)native->access[i];
    command->params_bytes = native->params_bytes;
    memcpy(command->params, native->params, native->params_bytes);
    return TD_OK;
}

/* ---------------------------------------------------------------- finishing */

/* Ends a driver submission before the command that would make it too long. */
static void split_by_time(td_list *list)
{
    double segment_ns = 0;
    list->n_segments = list->n_commands ? 1 : 0;
    for (size_t i = 0; i < list->n_commands; i++) {
        td_command *command = &list->commands[i];
        if (i > 0 && segment_ns + command->cost_ns > SEGMENT_NS) {
            command->starts_segment = true;
            list->n_segments++;
            segment_ns = 0;
        }
        segment_ns += command->cost_ns;
    }
}

td_status td_list_finish(td_list *list)
{
    td_hazards hazards = {0};
    td_status status = TD_OK;
    TD_FAIL_IF(list->finished, TD_ERR_ARGUMENT, "a list was finished twice");
    if (atomic_load(&list->device->lost)) TD_TRY(td_device_tell_lost(list->device));
    list->n_barriers = 0;
    for (size_t i = 0; i < list->n_commands; i++) {
        TD_TRY(td_hazards_add(&hazards, &list->commands[i]));
        list->n_barriers += list->commands[i].barrier_before;
    }
    split_by_time(list);
    TD_TRY(list->device->ops->list_compile(list));
    list->finished = true;
fail:
    td_hazards_clear(&hazards);
    return status;
}

td_kernel_class td_device_class(const td_device *device)
{
    return device->kernel_class;
}

uint32_t td_device_vector(const td_device *device)
{
    if (device->kernel_class != TD_CLASS_CPU || device->info.api != TD_API_OPENCL) return 1;
    return device->info.caps.vector_width >= 16 ? 16 : 8;
}

uint32_t td_device_group_size(const td_device *device, td_kernel_id id)
{
    const td_dialect dialect = device->info.api == TD_API_VULKAN ? TD_DIALECT_GLSL : TD_DIALECT_CL;
    return td_kernel_get(id)->group_size[dialect][device->kernel_class];
}

td_kernel_class td_list_class(const td_list *list)
{
    return list->device->kernel_class;
}

td_device *td_list_device(const td_list *list)
{
    return list->device;
}
