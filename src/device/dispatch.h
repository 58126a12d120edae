/* Recording a kernel into a list: the part of the list's interface that needs to know kernels.
 * Implemented in list.c; covered by tests/device/test_list.c. */
#ifndef TD_DEVICE_DISPATCH_H
#define TD_DEVICE_DISPATCH_H

#include "kernels/grid.h"
#include "kernels/kernel.h"
#include "tandem/queue.h"

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

/* The class of kernels this device runs. */
td_kernel_class td_device_class(const td_device *device);

/* The class of the list's device. */
td_kernel_class td_list_class(const td_list *list);

#endif
