/* The failing layer over OpenCL. See layer.h. */
#include "layer.h"

#include "device/backend.h"
#include "device/opencl/cl_api.h"
#include "walk.h"

const struct td_registry_hooks FAULT_LAYERS = {layer_wrap_opencl, layer_wrap_vulkan};

static td_cl_api real;

static cl_int choose_code(void)
{
    return walk_lasts() ? CL_DEVICE_NOT_AVAILABLE : CL_OUT_OF_HOST_MEMORY;
}

#define FAIL_STATUS(name, arguments) return walk_fails(#name) ? choose_code() : real.name arguments
#define FAIL_HANDLE(name, arguments)                                                                         \
    if (!walk_fails(#name)) return real.name arguments;                                                      \
    if (error) *error = choose_code();                                                                       \
    return NULL
#define FAIL_RELEASE(name, arguments)                                                                        \
    const cl_int result = real.name arguments;                                                               \
    return walk_fails(#name) ? choose_code() : result

#define TD_CL(kind, need, type, name, parameters, arguments)                                                 \
    static type CL_API_CALL layer_##name parameters                                                          \
    {                                                                                                        \
        FAIL_##kind(name, arguments);                                                                        \
    }
#include "device/opencl/cl_api.def"
#undef TD_CL

void layer_wrap_opencl(void *cl_api)
{
    td_cl_api *table = cl_api;
    real = *table;
#define TD_CL(kind, need, type, name, parameters, arguments)                                                 \
    if (table->name) table->name = layer_##name;
#include "device/opencl/cl_api.def"
#undef TD_CL
}
