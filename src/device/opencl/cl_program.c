/* Kernels of a device: from the cache where possible, else from source, each once in the device's life.
 *
 * What a driver compiled is stored at once. PoCL is the exception: it compiles at the first launch, for the
 * work-group's size, and keeps that on disk by itself; asked for a binary it compiles every kernel a second
 * time, for any size, which nobody runs. So of its kernels at first a mark is stored: the source goes to the
 * driver again, which finds its own code and compiles nothing, but reads the source for each kernel (5 ms).
 * Binaries, which need not even that, are taken when a device is closed that was open for long: then the
 * time does not count. Not before, for PoCL must not be asked while other threads launch kernels. Covered by
 * tests/device/test_kernels.c and tests/device/test_selftest.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/opencl/cl_error.h"
#include "device/opencl/opencl.h"

#define BINARY_KIND "opencl"
#define MARK_KIND "opencl_known"
#define STORING_SHARE 0.05            /* of the time that a device was open may go into storing binaries */
#define STORING_LEAST_NS 1000000000.0 /* less is not worth beginning */
#define OPTIONS_BYTES 512
/* PoCL compiles faster so. cl/builtins.cl.h is used, and its own large headers are taken for included already; a
 * small one with the same names of types it still reads, so that it would warn of each. And a kernel's code stands
 * once in what it compiles, not three times (prelude.cl.h). */
#define FOR_POCL "-DTD_NO_HEADER -DTD_ONE_BODY -D_OPENCL_H_ -D__X86_IMAGE_H__ -w "
#define LOG_SHOWN 400 /* bytes of a build log that go into the error message */

static td_digest key_of(const td_cl_device *device, const td_kernel *kernel)
{
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, &device->identity, sizeof device->identity);
    td_hasher_string(&hasher, kernel->name);
    td_hasher_string(&hasher, kernel->options);
    td_hasher_string(&hasher, kernel->cl_source);
    return td_hasher_digest(&hasher);
}

static void release_program(const td_cl_device *device, cl_program *program)
{
    if (*program) (void)device->api->clReleaseProgram(*program);
    *program = NULL;
}

bool td_cl_is_pocl(const td_device_info *info)
{
    return strcmp(info->platform_name, "Portable Computing Language") == 0;
}

static bool is_pocl(const td_cl_device *device)
{
    return td_cl_is_pocl(&device->base.info);
}

/* The driver's compiler options: those of the device, then those of the kernel. */
static cl_int build(const td_cl_device *device, const td_cl_program *program)
{
    char options[OPTIONS_BYTES];
    snprintf(options, sizeof options, "%s %s%s", device->options,
             is_pocl(device) && !device->needs_header ? FOR_POCL : "", program->kernel->options);
    return device->api->clBuildProgram(program->program, 1, &device->id, options, NULL, NULL);
}

/* ---------------------------------------------------------------- from the cache */

/* False for any reason at all: then the source is built. */
static bool load_binary(td_cl_device *device, td_cl_program *program)
{
    const td_cl_api *api = device->api;
    void *data = NULL;
    size_t bytes = 0;
    if (!td_blob_cache_load(device->base.cache, BINARY_KIND, program->key, &data, &bytes)) return false;
    const unsigned char *binary = data;
    cl_int status = CL_SUCCESS;
    cl_int code = CL_SUCCESS;
    program->program = api->clCreateProgramWithBinary(device->share->context, 1, &device->id, &bytes, &binary,
                                                      &status, &code);
    if (code != CL_SUCCESS) program->program = NULL;
    if (code == CL_SUCCESS) code = status;
    if (code == CL_SUCCESS) code = build(device, program);
    free(data);
    if (code == CL_SUCCESS) return true;
    td_log_debug("the stored binary of kernel %s does not suit %s (%s); it is rebuilt", program->kernel->name,
                 device->base.info.name, td_cl_error_name(code));
    release_program(device, &program->program);
    return false;
}

/* ---------------------------------------------------------------- from source */

/* The driver's complaints in one line, as much as fits; "" if it does not tell. */
static void read_build_log(const td_cl_device *device, cl_program program, char *out, size_t room)
{
    const td_cl_api *api = device->api;
    size_t bytes = 0;
    out[0] = '\0';
    if (api->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS)
        return;
    char *text = calloc(bytes + 1, 1);
    if (!text) return;
    if (api->clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, text, NULL) ==
        CL_SUCCESS) {
        td_log_debug("build log of %s: %s", device->base.info.name, text);
        for (char *c = text; *c; c++)
            if ((unsigned char)*c < ' ') *c = ' ';
        strncat(out, text, room - 1);
    }
    free(text);
}

static td_status build_source(td_cl_device *device, td_cl_program *program)
{
    const td_kernel *kernel = program->kernel;
    const char *source = kernel->cl_source;
    td_status status = TD_OK;
    TD_CL_MAKE(&program->program, device, clCreateProgramWithSource, device->share->context, 1, &source,
               NULL);
    cl_int code = build(device, program);
    if (code == CL_BUILD_PROGRAM_FAILURE && is_pocl(device) && !device->needs_header) {
        td_log_debug("%s cannot build kernel %s without its header; it reads it from now on",
                     device->base.info.name, kernel->name);
        device->needs_header = true;
        code = build(device, program);
    }
    if (code != CL_SUCCESS && td_cl_error_status(code) == TD_ERR_BUILD) {
        char log[LOG_SHOWN];
        read_build_log(device, program->program, log, sizeof log);
        status = TD_FAIL_NATIVE(TD_ERR_BUILD, td_cl_error_name(code),
                                "kernel %s cannot be built for %s with \"%s %s\": %s", kernel->name,
                                device->base.info.name, device->options, kernel->options,
                                log[0] ? log : td_cl_error_name(code));
        goto fail;
    }
    if (code != CL_SUCCESS) {
        status = TD_CL_FAIL(device, code, "clBuildProgram");
        goto fail;
    }
    return TD_OK;
fail:
    release_program(device, &program->program);
    return status;
}

/* ---------------------------------------------------------------- into the cache */

/* The program was built for one device, so one binary is not empty. Some drivers list only that one, others
 * one per device of the context (and PoCL 3.1 follows null pointers, which the standard allows as "skip"): so
 * every entry gets its part of one block. */
static cl_int read_binary(const td_cl_api *api, cl_program program, unsigned char **block, size_t *bytes)
{
    size_t sizes[64] = {0};
    unsigned char *starts[64];
    size_t listed = 0;
    size_t total = 0;
    cl_int code = api->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, &listed);
    if (code != CL_SUCCESS) return code;
    const size_t count = listed / sizeof sizes[0];
    for (size_t i = 0; i < count; i++)
        total += sizes[i];
    *block = malloc(total ? total : 1);
    if (!*block) return CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0, at = 0; i < count; at += sizes[i++])
        starts[i] = *block + at;
    code = api->clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof starts[0], starts, NULL);
    *bytes = total;
    return code;
}

static void store_binary(td_cl_device *device, td_cl_program *program)
{
    unsigned char *binary = NULL;
    size_t bytes = 0;
    const cl_int code = read_binary(device->api, program->program, &binary, &bytes);
    if (code == CL_SUCCESS && bytes) {
        td_blob_cache_store(device->base.cache, BINARY_KIND, program->key, binary, bytes);
        program->is_stored = true;
    } else {
        td_log_debug("%s gives no binary of kernel %s (%s)", device->base.info.name, program->kernel->name,
                     code == CL_SUCCESS ? "empty" : td_cl_error_name(code));
    }
    free(binary);
}

static bool is_stored(td_cl_device *device, const char *kind, td_digest key)
{
    void *data = NULL;
    size_t bytes = 0;
    const bool stored = td_blob_cache_load(device->base.cache, kind, key, &data, &bytes);
    free(data);
    return stored;
}

static td_status load_or_build(td_cl_device *device, td_cl_program *program)
{
    const bool own = is_pocl(device);
    program->is_stored = load_binary(device, program);
    if (program->is_stored) return TD_OK;
    const bool known = own && is_stored(device, MARK_KIND, program->key);
    if (!known) atomic_fetch_add(&device->base.kernel_builds, 1);
    const td_status status = build_source(device, program);
    if (status != TD_OK || known) return status;
    if (own)
        td_blob_cache_store(device->base.cache, MARK_KIND, program->key, MARK_KIND, sizeof MARK_KIND);
    else
        store_binary(device, program);
    return TD_OK;
}

/* ---------------------------------------------------------------- the device's programs */

td_status td_cl_program_get(td_cl_device *device, const td_kernel *kernel, td_cl_program **out)
{
    td_cl_program *program = NULL;
    td_status status = TD_OK;
    pthread_mutex_lock(&device->mutex);
    for (*out = device->programs; *out && (*out)->kernel != kernel;)
        *out = (*out)->next;
    if (*out) goto fail;
    TD_TRY(TD_NEW(&program));
    program->kernel = kernel;
    program->key = key_of(device, kernel);
    TD_TRY(load_or_build(device, program));
    program->next = device->programs;
    device->programs = program;
    *out = program;
    program = NULL;
fail:
    pthread_mutex_unlock(&device->mutex);
    free(program);
    return status;
}

bool td_cl_program_is_known(td_cl_device *device, const td_kernel *kernel)
{
    pthread_mutex_lock(&device->mutex);
    const td_cl_program *program = device->programs;
    while (program && program->kernel != kernel)
        program = program->next;
    pthread_mutex_unlock(&device->mutex);
    const td_digest key = key_of(device, kernel);
    return program || is_stored(device, MARK_KIND, key) || is_stored(device, BINARY_KIND, key);
}

td_status td_cl_program_warm(td_cl_device *device, td_cl_program *program)
{
    const td_cl_api *api = device->api;
    const size_t one[] = {1, 1, 1};
    static const uint32_t zeros[TD_CL_WARM_BYTES / sizeof(uint32_t)]; /* never written */
    uint32_t ones[TD_KERNEL_MAX_PARAMS / sizeof(uint32_t)];
    cl_mem nothing = NULL;
    cl_kernel kernel = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        ones[i] = 1;
    TD_CL_MAKE(&nothing, device, clCreateBuffer, device->share->context,
               CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros, (void *)(uintptr_t)zeros);
    TD_CL_MAKE(&kernel, device, clCreateKernel, program->program, program->kernel->entry);
    for (cl_uint i = 0; i < program->kernel->n_buffers; i++)
        TD_CL_TRY(device, clSetKernelArg, kernel, i, sizeof nothing, &nothing);
    if (program->kernel->params_bytes)
        TD_CL_TRY(device, clSetKernelArg, kernel, program->kernel->n_buffers, program->kernel->params_bytes,
                  ones);
    TD_CL_TRY(device, clEnqueueNDRangeKernel, device->service, kernel, 3, NULL, one, one, 0, NULL, NULL);
    TD_CL_TRY(device, clFinish, device->service);
fail:
    if (kernel) (void)api->clReleaseKernel(kernel);
    if (nothing) (void)api->clReleaseMemObject(nothing);
    return status;
}

static void store_with_leisure(td_cl_device *device)
{
    const uint64_t now = td_clock_ns();
    const double share_ns = STORING_SHARE * (double)(now - device->opened_ns);
    const bool always = device->stores_always;
    if (atomic_load(&device->base.lost) || (!always && share_ns < STORING_LEAST_NS)) return;
    for (td_cl_program *program = device->programs; program; program = program->next) {
        if (!always && (double)(td_clock_ns() - now) > share_ns) return;
        if (!program->is_stored) store_binary(device, program);
    }
}

void td_cl_programs_release(td_cl_device *device)
{
    if (device->programs) store_with_leisure(device);
    while (device->programs) {
        td_cl_program *program = device->programs;
        device->programs = program->next;
        release_program(device, &program->program);
        free(program);
    }
}
