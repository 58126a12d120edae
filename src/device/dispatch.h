/* Recording a kernel into a list: the part of the list's interface that needs to know kernels.
 * Implemented in list.c; covered by tests/device/test_list.c. */
#ifndef TD_DEVICE_DISPATCH_H
#define TD_DEVICE_DISPATCH_H

#include "kernels/grid.h"
#include "kernels/kernel.h"
#include "tandem/queue.h"

/* Bytes; every usable device lets a binding start at multiples of it. Vulkan asks for 256 at most, NVIDIA's OpenCL for
 * 512. */
#define TD_OFFSET_ALIGN 512u

/* Rough work of one dispatch, for splitting long submissions. Zero is allowed. */
typedef struct td_cost {
    double flops;
    double bytes;
} td_cost;

/* Records kernel `id` over `grid` work-groups. `spans` has one entry per buffer of the kernel, `params`
 * is its struct of params.h. Both are copied; the buffers behind the spans are borrowed until the list is
 * destroyed. */
td_status td_list_dispatch(td_list *list, td_kernel_id id, const td_span *spans, const void *params,
                           td_grid grid, td_cost cost);

/* Records a call that a backend makes in its own way at each replay (a library that enqueues by itself):
 * `native` is that backend's description of it, constant. TD_ERR_UNSUPPORTED on a device of another API. The
 * rest as above. */
typedef struct td_native_command {
    td_api api;
    const void *native;
    const char *name; /* for messages */
    const td_span *spans;
    const td_access *access; /* of each span */
    uint32_t n_spans;        /* at most TD_KERNEL_MAX_BUFFERS */
    const void *params;
    uint32_t params_bytes; /* at most TD_KERNEL_MAX_PARAMS */
    td_cost cost;
} td_native_command;
td_status td_list_native(td_list *list, const td_native_command *native);

/* The class of kernels this device runs. */
td_kernel_class td_device_class(const td_device *device);

/* Floats in a vector (VW) of this device's kernels; 1 where they have none. */
uint32_t td_device_vector(const td_device *device);

/* Work-items in a group of the kernel on this device. */
uint32_t td_device_group_size(const td_device *device, td_kernel_id id);

/* The class of the list's device. */
td_kernel_class td_list_class(const td_list *list);

/* Measured over estimated time of earlier work; 1 if not set. To be set before anything is recorded, since
 * submissions are split by it. */
void td_list_set_time_scale(td_list *list, double time_scale);

/* What a finished list is estimated to take, and in how many submissions it goes to the driver. */
double td_list_estimated_ns(const td_list *list);
size_t td_list_submissions(const td_list *list);

/* The device that the list is for. Borrowed. */
td_device *td_list_device(const td_list *list);

/* What a higher level keeps with a device (tuning results): first member of a struct of its own. */
typedef struct td_attachment {
    void (*destroy)(struct td_attachment *attachment);
} td_attachment;

/* The device's attachment, or NULL. Borrowed until the device closes. Any thread. */
td_attachment *td_device_attachment(const td_device *device);

/* Replaces `expected` (NULL: none yet) by `next` and takes it over: destroyed when the device
 * closes, when whatever it replaced is its own to destroy. False, and nothing taken, if another thread was
 * faster. */
bool td_device_attach(td_device *device, td_attachment *expected, td_attachment *next);

#endif
