/* The yardstick of `tandem bench submit`: the same kernels enqueued by a plain loop, past the device layer.
 * No OpenCL types here, so that the bench needs none. */
#ifndef TD_OPENCL_CL_BARE_LOOP_H
#define TD_OPENCL_CL_BARE_LOOP_H

#include "tandem/queue.h"

/* Enqueues the kernels of a finished list (kernels only) on a queue of its own and returns in *host_ns the
 * time the host spent in clEnqueueNDRangeKernel and clFlush; waits for the work afterwards, outside that
 * time. `runner` keeps that queue between calls: start with NULL, end with td_cl_bare_loop_end. */
typedef struct td_cl_bare_loop td_cl_bare_loop;
td_status td_cl_bare_loop_run(td_cl_bare_loop **runner, td_list *list, uint64_t *host_ns);
void td_cl_bare_loop_end(td_cl_bare_loop *runner);

#endif
