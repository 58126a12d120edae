/* A plain enqueue loop over a list's kernels; see cl_bare_loop.h. Used by tools/bench_submit.c only. */
#include "device/opencl/cl_bare_loop.h"

#include <stdlib.h>

#include "base/clock.h"
#include "device/opencl/opencl.h"

struct td_cl_bare_loop {
    td_cl_device *device;
    cl_command_queue queue;
};

static td_status start(td_cl_device *device, td_cl_bare_loop **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    (*out)->device = device;
    TD_CL_MAKE(&(*out)->queue, device, clCreateCommandQueue, device->share->context, device->id, 0);
fail:
    return status;
}

td_status td_cl_bare_loop_run(td_cl_bare_loop **runner, td_list *list, uint64_t *host_ns)
{
    td_cl_device *device = td_cl_device_of(list->device);
    const td_cl_list *native = list->native;
    td_status status = TD_OK;
    if (!*runner) TD_TRY(start(device, runner));
    cl_command_queue queue = (*runner)->queue;
    const uint64_t begin_ns = td_clock_ns();
    for (size_t i = 0; i < native->n_steps; i++) {
        const td_cl_step *step = &native->steps[i];
        TD_CL_TRY(device, clEnqueueNDRangeKernel, queue, step->kernel, 3, NULL, step->global, step->local, 0,
                  NULL, NULL);
    }
    TD_CL_TRY(device, clFlush, queue);
    *host_ns = td_clock_ns() - begin_ns;
    TD_CL_TRY(device, clFinish, queue);
fail:
    return status;
}

void td_cl_bare_loop_end(td_cl_bare_loop *runner)
{
    if (!runner) return;
    if (runner->queue) runner->device->api->clReleaseCommandQueue(runner->queue);
    free(runner);
}
