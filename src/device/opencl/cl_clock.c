/* The device's clock on the host's: an empty command is timed from outside, the tightest of a few tries kept.
 * Better ways are used where they exist and agree: a driver that stamps with one of the host's own clocks
 * (CPU drivers do; PoCL with CLOCK_MONOTONIC_RAW) needs only that clock read, and some drivers give their
 * clock in one call. Covered by tests/device/test_queue.c. */
#include <time.h>

#include "base/clock.h"
#include "device/opencl/opencl.h"

#define TRIES 10
#define DRIFT_NS 100000 /* clocks read a millisecond apart differ by far less than this */

/* The device's clock stood at device_ns when the host's was at host_ns, give or take half the window. */
typedef struct sample {
    uint64_t device_ns, host_ns, window_ns;
} sample;

/* The host's clocks that drivers may stamp with. */
static const clockid_t STAMPS[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW};
enum { N_STAMPS = sizeof STAMPS / sizeof STAMPS[0] };

static uint64_t read_stamp(int stamp)
{
    struct timespec now;
    clock_gettime(STAMPS[stamp], &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void keep_tighter(sample *best, uint64_t device_ns, uint64_t before_ns, uint64_t after_ns)
{
    const uint64_t window_ns = after_ns - before_ns;
    if (window_ns >= best->window_ns) return;
    *best = (sample){.device_ns = device_ns, .host_ns = before_ns + window_ns / 2, .window_ns = window_ns};
}

/* *stamp: the host clock that was within the command's window when the device's was, or -1. */
static td_status sample_marker(td_cl_device *device, sample *best, int *stamp)
{
    td_status status = TD_OK;
    cl_event event = NULL;
    *stamp = -1;
    for (int i = 0; i < TRIES; i++) {
        cl_ulong end = 0;
        uint64_t begun[N_STAMPS];
        for (int j = 0; j < N_STAMPS; j++)
            begun[j] = read_stamp(j);
        const uint64_t before_ns = td_clock_ns();
        TD_CL_TRY(device, clEnqueueBarrierWithWaitList, device->service, 0, NULL, &event);
        TD_CL_TRY(device, clFinish, device->service);
        const uint64_t after_ns = td_clock_ns();
        TD_CL_TRY(device, clGetEventProfilingInfo, event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        keep_tighter(best, end, before_ns, after_ns);
        for (int j = 0; j < N_STAMPS; j++)
            if (begun[j] <= end && end <= read_stamp(j)) *stamp = j;
        (void)device->api->clReleaseEvent(event);
        event = NULL;
    }
fail:
    if (event) (void)device->api->clReleaseEvent(event);
    return status;
}

static void sample_stamp(int stamp, sample *best)
{
    for (int i = 0; i < TRIES; i++) {
        const uint64_t before_ns = td_clock_ns();
        const uint64_t device_ns = read_stamp(stamp);
        keep_tighter(best, device_ns, before_ns, td_clock_ns());
    }
    if (STAMPS[stamp] == CLOCK_MONOTONIC) best->host_ns = best->device_ns; /* td_clock_ns() itself */
}

/* Leaves *best as it is where the driver refuses: the marker will do. */
static void sample_timer(const td_cl_device *device, sample *best)
{
    for (int i = 0; i < TRIES; i++) {
        cl_ulong device_ns = 0;
        cl_ulong host_ns = 0;
        const uint64_t before_ns = td_clock_ns();
        if (device->api->clGetDeviceAndHostTimer(device->id, &device_ns, &host_ns) != CL_SUCCESS) return;
        keep_tighter(best, device_ns, before_ns, td_clock_ns());
    }
}

static bool agree(const sample *a, const sample *b)
{
    const int64_t between = (int64_t)(a->host_ns - a->device_ns) - (int64_t)(b->host_ns - b->device_ns);
    const int64_t allowed = (int64_t)(a->window_ns / 2 + b->window_ns / 2) + DRIFT_NS;
    return between <= allowed && -between <= allowed;
}

td_status td_cl_calibrate(td_device *base, td_clock_map *out)
{
    td_cl_device *device = td_cl_device_of(base);
    sample marker = {.window_ns = UINT64_MAX};
    sample best = {.window_ns = UINT64_MAX};
    int stamp = -1;
    TD_REFUSE_IF(!base->info.caps.timestamps, TD_ERR_UNSUPPORTED, "%s was opened without timestamps",
                 base->info.name);
    TD_CHECK(sample_marker(device, &marker, &stamp));
    if (stamp >= 0)
        sample_stamp(stamp, &best);
    else if (device->has_host_timer)
        sample_timer(device, &best);
    if (best.window_ns >= marker.window_ns || !agree(&best, &marker)) best = marker;
    *out = (td_clock_map){.device_ref_ns = best.device_ns, .host_ref_ns = best.host_ns, .scale = 1.0};
    return TD_OK;
}
