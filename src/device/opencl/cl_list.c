/* Makes a recorded list native: one cl_kernel per dispatch with its arguments set once, a sub-buffer per
 * distinct range, and one driver call per step. Replaying is cl_submit.c. Barriers need nothing here, since
 * the queues run in order. Covered by tests/device/test_list.c. */
#include <stdlib.h>

#include "device/opencl/opencl.h"

/* ---------------------------------------------------------------- views */

static size_t hash_span(td_span span)
{
    const uint64_t words[3] = {(uint64_t)(uintptr_t)span.buffer, span.offset, span.bytes};
    return (size_t)td_hash64(words, sizeof words);
}

static bool equals(td_span a, td_span b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
}

/* A table at most half full, since no list has more distinct ranges than arguments. */
static td_status create_views(td_cl_list *native, const td_list *list)
{
    size_t arguments = 0;
    for (size_t i = 0; i < list->n_commands; i++) {
        const td_command_kind kind = list->commands[i].kind;
        if (kind == TD_COMMAND_DISPATCH || kind == TD_COMMAND_NATIVE) arguments += list->commands[i].n_spans;
    }
    size_t slots = 2;
    while (slots < 2 * arguments)
        slots *= 2;
    const td_status status = TD_NEW_ARRAY(&native->views, slots);
    if (status == TD_OK) native->n_views = slots;
    return status;
}

/* *out: borrowed from the list. */
static td_status view_span(td_cl_device *device, td_cl_list *native, td_span span, cl_mem *out)
{
    cl_mem whole = td_cl_buffer_mem(device, span.buffer);
    td_status status = TD_OK;
    TD_FAIL_IF(!whole, TD_ERR_UNSUPPORTED,
               "kernels on %s cannot work in host memory; copy it to device memory first",
               device->base.info.name);
    size_t at = hash_span(span) & (native->n_views - 1);
    while (native->views[at].span.buffer && !equals(native->views[at].span, span))
        at = (at + 1) & (native->n_views - 1);
    td_cl_view *view = &native->views[at];
    if (!view->span.buffer) {
        view->owned = span.offset != 0 || span.bytes != span.buffer->bytes;
        view->mem = whole;
        if (view->owned) {
            const cl_buffer_region region = {.origin = span.offset, .size = span.bytes};
            TD_CL_MAKE(&view->mem, device, clCreateSubBuffer, whole, CL_MEM_READ_WRITE,
                       CL_BUFFER_CREATE_TYPE_REGION, &region);
        }
        view->span = span;
    }
    *out = view->mem;
fail:
    return status;
}

/* ---------------------------------------------------------------- steps */

/* How large a group a driver runs a kernel in depends on the registers that it found for it, and is known only now;
 * before anything runs, though, for lists are compiled before work starts. */
static td_status check_group(td_cl_device *device, cl_kernel handle, size_t group)
{
    size_t most = 0;
    td_status status = TD_OK;
    if (group == 1) return TD_OK;
    TD_CL_TRY(device, clGetKernelWorkGroupInfo, handle, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
              &most, NULL);
    TD_FAIL_IF(most < group, TD_ERR_LIMIT,
               "work-groups of %zu items are needed, but %s runs it in groups of at most %zu; update the "
               "driver or use "
               "another device",
               group, device->base.info.name, most);
fail:
    return status;
}

static td_status compile_dispatch(td_cl_device *device, td_cl_list *native, const td_command *command)
{
    const td_kernel *kernel = command->kernel;
    const size_t group = kernel->group_size[TD_DIALECT_CL][device->base.kernel_class];
    td_cl_step *step = &native->steps[native->n_steps];
    td_cl_program *program = NULL;
    td_status status = TD_OK;
    TD_TRY(td_cl_program_get(device, kernel, &program));
    step->kind = TD_CL_KERNEL;
    native->n_steps++; /* from here on its kernel is released with the list */
    TD_CL_MAKE(&step->kernel, device, clCreateKernel, program->program, kernel->entry);
    TD_TRY(check_group(device, step->kernel, group));
    for (cl_uint i = 0; i < command->n_spans; i++) {
        cl_mem mem = NULL;
        TD_TRY(view_span(device, native, command->spans[i], &mem));
        TD_CL_TRY(device, clSetKernelArg, step->kernel, i, sizeof mem, &mem);
    }
    if (command->params_bytes)
        TD_CL_TRY(device, clSetKernelArg, step->kernel, command->n_spans, command->params_bytes,
                  command->params);
    step->global[0] = command->grid.x * group;
    step->global[1] = command->grid.y;
    step->global[2] = command->grid.z;
    step->local[0] = group;
    step->local[1] = 1;
    step->local[2] = 1;
    return TD_OK;
fail:
    if (status != TD_ERR_BUILD) (void)td_error_context("kernel %s", kernel->name); /* that one names it */
    return status;
}

static td_status compile_native(td_cl_device *device, td_cl_list *native, const td_command *command)
{
    td_cl_step *step = &native->steps[native->n_steps];
    TD_CHECK(TD_NEW(&step->call));
    step->kind = TD_CL_NATIVE;
    native->n_steps++; /* from here on its call is freed with the list */
    step->call->native = command->native;
    step->call->params = command->params;
    for (uint32_t i = 0; i < command->n_spans; i++)
        TD_CHECK(view_span(device, native, command->spans[i], &step->call->mems[i]));
    return TD_OK;
}

static td_cl_step *add_step(td_cl_list *native, td_cl_step_kind kind, uint64_t bytes)
{
    td_cl_step *step = &native->steps[native->n_steps++];
    step->kind = kind;
    step->bytes = bytes;
    return step;
}

static void add_read(td_cl_list *native, cl_mem source, uint64_t offset, td_span destination)
{
    td_cl_step *step = add_step(native, TD_CL_READ, destination.bytes);
    step->source = source;
    step->source_offset = offset;
    step->host = td_span_host(destination);
}

static void add_write(td_cl_list *native, cl_mem destination, uint64_t offset, td_span source)
{
    td_cl_step *step = add_step(native, TD_CL_WRITE, source.bytes);
    step->destination = destination;
    step->destination_offset = offset;
    step->host = td_span_host(source);
}

static void compile_copy(const td_cl_device *device, td_cl_list *native, const td_command *command)
{
    const td_span to = command->spans[0];
    const td_span from = command->spans[1];
    cl_mem to_mem = td_cl_buffer_mem(device, to.buffer);
    cl_mem from_mem = td_cl_buffer_mem(device, from.buffer);
    if (to_mem && from_mem) {
        td_cl_step *step = add_step(native, TD_CL_COPY, to.bytes);
        step->source = from_mem;
        step->source_offset = from.offset;
        step->destination = to_mem;
        step->destination_offset = to.offset;
    } else if (from_mem) {
        add_read(native, from_mem, from.offset, to);
    } else if (to_mem) {
        add_write(native, to_mem, to.offset, from);
    } else {
        add_write(native, native->bounce, 0, from);
        add_read(native, native->bounce, 0, to);
    }
}

static void compile_fill(const td_cl_device *device, td_cl_list *native, const td_command *command)
{
    const td_span to = command->spans[0];
    cl_mem to_mem = td_cl_buffer_mem(device, to.buffer);
    td_cl_step *step = add_step(native, TD_CL_FILL, to.bytes);
    step->word = command->word;
    step->destination = to_mem ? to_mem : native->bounce;
    step->destination_offset = to_mem ? to.offset : 0;
    if (!to_mem) add_read(native, native->bounce, 0, to);
}

/* ---------------------------------------------------------------- lists */

/* The largest copy or fill whose ends are all mapped host memory; these go through the bounce buffer. */
static td_status create_bounce(td_cl_device *device, td_cl_list *native, const td_list *list)
{
    uint64_t most = 0;
    td_status status = TD_OK;
    for (size_t i = 0; i < list->n_commands; i++) {
        const td_command *command = &list->commands[i];
        if (command->kind == TD_COMMAND_DISPATCH || command->kind == TD_COMMAND_NATIVE) continue;
        bool direct = false;
        for (uint32_t j = 0; j < command->n_spans; j++)
            direct = direct || td_cl_buffer_mem(device, command->spans[j].buffer);
        if (!direct && command->spans[0].bytes > most) most = command->spans[0].bytes;
    }
    if (most)
        TD_CL_MAKE(&native->bounce, device, clCreateBuffer, device->share->context, CL_MEM_READ_WRITE, most,
                   NULL);
fail:
    return status;
}

td_status td_cl_list_compile(td_list *list)
{
    td_cl_device *device = td_cl_device_of(list->device);
    td_cl_list *native = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW(&native));
    list->native = native;
    TD_TRY(TD_NEW_ARRAY(&native->steps, 2 * list->n_commands)); /* a bounced command takes two */
    TD_TRY(create_views(native, list));
    TD_TRY(create_bounce(device, native, list));
    if (device->helpers) td_cl_helpers_prepare(device->helpers, device, list);
    for (size_t i = 0; i < list->n_commands; i++) {
        const td_command *command = &list->commands[i];
        td_cl_step *first = &native->steps[native->n_steps];
        first->starts_segment = command->starts_segment;
        switch (command->kind) {
        case TD_COMMAND_DISPATCH:
            TD_TRY(compile_dispatch(device, native, command));
            break;
        case TD_COMMAND_COPY:
            compile_copy(device, native, command);
            break;
        case TD_COMMAND_FILL:
            compile_fill(device, native, command);
            break;
        case TD_COMMAND_NATIVE:
            TD_TRY(compile_native(device, native, command));
            break;
        }
    }
    return TD_OK;
fail:
    td_cl_list_discard(list);
    return status;
}

void td_cl_list_discard(td_list *list)
{
    td_cl_device *device = td_cl_device_of(list->device);
    td_cl_list *native = list->native;
    list->native = NULL;
    if (!native) return;
    for (size_t i = 0; i < native->n_steps; i++) {
        free(native->steps[i].call);
        if (native->steps[i].kind != TD_CL_KERNEL) continue;
        if (native->steps[i].kernel) (void)device->api->clReleaseKernel(native->steps[i].kernel);
    }
    for (size_t i = 0; i < native->n_views; i++)
        if (native->views[i].owned && native->views[i].mem)
            (void)device->api->clReleaseMemObject(native->views[i].mem);
    if (native->bounce) (void)device->api->clReleaseMemObject(native->bounce);
    free(native->views);
    free(native->steps);
    free(native);
}
