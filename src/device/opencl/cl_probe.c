/* Finds the OpenCL platforms and devices of the computer. What is missing is reported, never a failure.
 * Covered by tests/device/test_registry.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/cl_error.h"
#include "device/opencl/opencl.h"

#define DEFAULT_LIBRARY "libOpenCL.so.1"
#define PLATFORM_NOT_FOUND_KHR (-1001) /* what the loader says when no driver is installed */

#define WHAT_TO_INSTALL                                                                                      \
    "install pocl-opencl-icd (CPU), intel-opencl-icd (Intel), mesa-opencl-icd or ROCm (AMD), or "            \
    "nvidia-opencl-icd (NVIDIA)"

static void say_call(td_api_report *report, const char *call, cl_int code)
{
    snprintf(report->message, sizeof report->message, "%s failed: %s; %s", call, td_cl_error_name(code),
             WHAT_TO_INSTALL);
}

/* Lists the platforms into the state; leaves none and a message when there are none. */
static td_status find_platforms(td_cl_state *state, td_api_report *report)
{
    cl_platform_id *ids = NULL;
    cl_uint count = 0;
    td_status status = TD_OK;
    cl_int code = state->api.clGetPlatformIDs(0, NULL, &count);
    if (code == PLATFORM_NOT_FOUND_KHR || (code == CL_SUCCESS && count == 0)) {
        snprintf(report->message, sizeof report->message, "no OpenCL driver found; %s", WHAT_TO_INSTALL);
        return TD_OK;
    }
    if (code == CL_SUCCESS) {
        TD_TRY(TD_NEW_ARRAY(&ids, count));
        TD_TRY(TD_NEW_ARRAY(&state->platforms, count));
        code = state->api.clGetPlatformIDs(count, ids, NULL);
    }
    if (code == CL_SUCCESS) {
        for (cl_uint i = 0; i < count; i++)
            state->platforms[i].id = ids[i];
        state->n_platforms = count;
    } else {
        say_call(report, "clGetPlatformIDs", code);
    }
fail:
    free(ids);
    return status;
}

/* A driver without devices says nothing; PoCL is one where it cannot write its cache. */
static void say_no_device(const td_cl_state *state, const td_cl_platform *platform, td_api_report *report)
{
    static const char *const VARIABLES[] = {"POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    char name[64];
    size_t i = 0;
    if (td_cl_text_platform(&state->api, platform->id, CL_PLATFORM_NAME, name, sizeof name) != CL_SUCCESS ||
        strcmp(name, "Portable Computing Language") != 0)
        return;
    while (i < 2 && !getenv(VARIABLES[i]))
        i++;
    const char *folder = getenv(VARIABLES[i]);
    snprintf(report->message, sizeof report->message,
             "PoCL is installed but has no device: it may be unable to write its cache, whose place %s "
             "(%.100s) decides; set POCL_CACHE_DIR or XDG_CACHE_HOME to a folder that can be written",
             VARIABLES[i], folder ? folder : "not set");
}

static td_status find_devices(td_cl_state *state, td_cl_platform *platform, td_api_report *report)
{
    cl_uint count = 0;
    cl_int code = state->api.clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0)) {
        say_no_device(state, platform, report);
        return TD_OK;
    }
    if (code == CL_SUCCESS) {
        TD_CHECK(TD_NEW_ARRAY(&platform->devices, count));
        code = state->api.clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, count, platform->devices, NULL);
    }
    if (code == CL_SUCCESS)
        platform->n_devices = count;
    else
        say_call(report, "clGetDeviceIDs", code);
    return TD_OK;
}

static td_status list_devices(const td_cl_state *state, cl_uint index, td_info_list *infos)
{
    const td_cl_platform *platform = &state->platforms[index];
    for (cl_uint i = 0; i < platform->n_devices; i++) {
        td_device_info *info = NULL;
        td_status status = td_info_list_add(infos, &info);
        if (status != TD_OK) return status;
        info->api = TD_API_OPENCL;
        info->platform = index;
        info->ordinal = i;
        status = td_cl_info_read(state, platform->id, platform->devices[i], info);
        if (status != TD_OK) return status;
    }
    return TD_OK;
}

static bool load_api(td_cl_state *state, const td_registry_options *options, td_api_report *report)
{
    const char *library = options->opencl_library ? options->opencl_library : DEFAULT_LIBRARY;
    char why[192];
    snprintf(report->library, sizeof report->library, "%s", library);
    report->loaded = td_cl_api_load(&state->api, library, why, sizeof why);
    if (!report->loaded) {
        snprintf(report->message, sizeof report->message,
                 "OpenCL cannot be loaded (%s); install ocl-icd-libopencl1 and a driver", why);
        return false;
    }
    if (options->hooks && options->hooks->wrap_opencl) options->hooks->wrap_opencl(&state->api);
    return true;
}

static td_status probe(const td_registry_options *options, td_info_list *infos, td_api_report *report,
                       void **out)
{
    td_cl_state *state = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&state));
    state->timestamps = !options->no_timestamps;
    state->store_binaries = options->store_binaries;
    if (load_api(state, options, report)) {
        TD_TRY(find_platforms(state, report));
        for (cl_uint i = 0; i < state->n_platforms; i++) {
            TD_TRY(find_devices(state, &state->platforms[i], report));
            TD_TRY(list_devices(state, i, infos));
            report->devices += state->platforms[i].n_devices;
        }
        if (report->devices == 0 && !report->message[0]) {
            snprintf(report->message, sizeof report->message,
                     "of the OpenCL drivers installed (%u) none has a device; %s", state->n_platforms,
                     WHAT_TO_INSTALL);
        }
    }
    *out = state;
    return TD_OK;
fail:
    td_cl_unload(state);
    return status;
}

/* Drivers begin with the first call. That of PoCL 3.1 hands out devices that are half made to a thread that asks
 * at the same time, and then crashes; so threads ask in turn. */
td_status td_cl_probe(const td_registry_options *options, td_info_list *infos, td_api_report *report,
                      void **out)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    td_cl_helpers *helpers = td_cl_helpers_start(options); /* before a driver has threads */
    pthread_mutex_lock(&turn);
    const td_status status = probe(options, infos, report, out);
    pthread_mutex_unlock(&turn);
    if (status == TD_OK)
        ((td_cl_state *)*out)->helpers = helpers;
    else
        td_cl_helpers_stop(helpers);
    return status;
}

void td_cl_unload(void *opaque)
{
    td_cl_state *state = opaque;
    if (!state) return;
    td_cl_helpers_stop(state->helpers);
    for (cl_uint i = 0; i < state->n_platforms; i++)
        free(state->platforms[i].devices);
    free(state->platforms);
    free(state);
}
