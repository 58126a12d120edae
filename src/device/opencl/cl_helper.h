/* Processes that compile kernels beside this one. PoCL compiles one kernel at a time in a process; a copy of this
 * process, made by fork() before PoCL has begun, compiles others into PoCL's cache on disk, where this one finds them.
 * No program is started. Helpers sleep until kernels are missing, and end with this process; one that fails costs
 * nothing but its time, since a kernel that it did not finish is compiled here. Covered by tests/device/test_helper.c.
 */
#ifndef TD_OPENCL_CL_HELPER_H
#define TD_OPENCL_CL_HELPER_H

#include "device/backend.h"

#define TD_CL_HELPERS_MOST 3u

typedef struct td_cl_helpers td_cl_helpers;
struct td_cl_device;

/* As many as options->compile_helpers asks for; NULL where there are none: unless this process has one thread only,
 * since fork() copies no others, and what they hold would be held for ever. */
td_cl_helpers *td_cl_helpers_start(const td_registry_options *options);
void td_cl_helpers_stop(td_cl_helpers *helpers); /* NULL is fine; does not wait for what they compile */

/* Tells them what is always needed, so that they load PoCL's library while this process does. */
void td_cl_helpers_wake(td_cl_helpers *helpers);

/* Compiles those kernels of the list that this device has not met, together with the helpers. What cannot be compiled
 * is left to who asks for the kernel, and told there. */
void td_cl_helpers_prepare(td_cl_helpers *helpers, struct td_cl_device *device, const td_list *list);

#endif
