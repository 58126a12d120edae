/* Limits of a device against those of the kernels; see limits.h. */
#include "device/limits.h"

#include <stdarg.h>
#include <stdio.h>

#include "device/dispatch.h"

static void refuse(td_device_info *info, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void refuse(td_device_info *info, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(info->reason, sizeof info->reason, format, arguments);
    va_end(arguments);
    info->usable = false;
}

/* The kernel with the largest groups. */
static const td_kernel *find_largest(td_dialect dialect, td_kernel_class kernel_class)
{
    const td_kernel *largest = td_kernel_get((td_kernel_id)0);
    for (int id = 1; id < TD_KERNEL_COUNT; id++) {
        const td_kernel *kernel = td_kernel_get((td_kernel_id)id);
        if (kernel->group_size[dialect][kernel_class] > largest->group_size[dialect][kernel_class])
            largest = kernel;
    }
    return largest;
}

void td_limits_judge(td_device_info *info)
{
    const td_device_caps *caps = &info->caps;
    const td_dialect dialect = info->api == TD_API_VULKAN ? TD_DIALECT_GLSL : TD_DIALECT_CL;
    const td_kernel_class kernel_class = info->gpu_kernels ? TD_CLASS_GPU : TD_CLASS_CPU;
    const td_kernel *largest = find_largest(dialect, kernel_class);
    const uint32_t group = largest->group_size[dialect][kernel_class];
    if (!info->usable) return;
    if (caps->max_group_size < group)
        refuse(info, "its work-groups have at most %u items, but kernel %s needs %u", caps->max_group_size,
               largest->name, group);
    else if (info->gpu_kernels && caps->local_memory_bytes < TD_KERNEL_MAX_LOCAL)
        refuse(info, "a work-group has %u bytes of local memory on it, but kernels need up to %u",
               caps->local_memory_bytes, TD_KERNEL_MAX_LOCAL);
    else if (caps->max_group_count < TD_GRID_MAX_X)
        refuse(info, "it takes at most %u work-groups in each direction, but kernels need up to %u",
               caps->max_group_count, TD_GRID_MAX_X);
    else if (caps->max_params_bytes < TD_KERNEL_MAX_PARAMS)
        refuse(info,
               "a kernel takes at most %u bytes of parameters on it, but %u are needed; update the driver",
               caps->max_params_bytes, TD_KERNEL_MAX_PARAMS);
    else if (caps->max_buffers < TD_KERNEL_MAX_BUFFERS)
        refuse(info, "a kernel takes at most %u buffers on it, but %u are needed", caps->max_buffers,
               TD_KERNEL_MAX_BUFFERS);
    else if (caps->offset_align > TD_OFFSET_ALIGN)
        refuse(info,
               "ranges inside a buffer must start at multiples of %u bytes on it, but work is laid out in "
               "multiples of %u",
               caps->offset_align, TD_OFFSET_ALIGN);
}
