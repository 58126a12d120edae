/* `tandem bench submit`: what a recorded kernel costs the host, beside a plain enqueue loop over the same
 * kernels (OpenCL) measured in turns with it, so that both meet the same machine. Only the time inside the
 * submitting calls counts; the work is waited for outside it. Covered by tests/cli. */
#include "tools/bench_submit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/stats.h"
#include "device/dispatch.h"
#include "device/opencl/cl_bare_loop.h"

#define SMALL_ELEMENTS 256u
#define WARM_UP_REPLAYS 10u

typedef struct submit_bench {
    td_device *device;
    td_memory *memory;
    td_list *list;
    td_cl_bare_loop *bare;
    double *list_us, *bare_us; /* per kernel, one entry per replay */
} submit_bench;

static td_status record(submit_bench *bench, uint32_t kernels)
{
    const td_add_params params = {.n = SMALL_ELEMENTS};
    const td_grid grid = td_grid_elements(td_device_class(bench->device), SMALL_ELEMENTS);
    td_span spans[3];
    for (int i = 0; i < 3; i++)
        TD_CHECK(td_memory_alloc(bench->memory, TD_MEMORY_DEVICE, sizeof(float) * SMALL_ELEMENTS, &spans[i]));
    TD_CHECK(td_list_create(bench->device, TD_QUEUE_COMPUTE, &bench->list));
    for (uint32_t i = 0; i < kernels; i++)
        TD_CHECK(td_list_dispatch(bench->list, TD_K_add, spans, &params, grid, (td_cost){0}));
    return td_list_finish(bench->list);
}

static td_status replay_list(const submit_bench *bench, uint64_t *host_ns)
{
    td_queue *queue = td_device_queue(bench->device, TD_QUEUE_COMPUTE);
    const td_submission submission = {.list = bench->list};
    td_point done;
    const uint64_t begin_ns = td_clock_ns();
    TD_CHECK(td_queue_submit(queue, &submission, &done));
    *host_ns = td_clock_ns() - begin_ns;
    return td_point_wait(done, TD_WAIT_FOREVER);
}

static td_status measure(submit_bench *bench, uint32_t kernels, uint32_t replays, bool has_bare)
{
    for (uint32_t i = 0; i < WARM_UP_REPLAYS + replays; i++) {
        uint64_t list_ns = 0;
        uint64_t bare_ns = 0;
        TD_CHECK(replay_list(bench, &list_ns));
        if (has_bare) TD_CHECK(td_cl_bare_loop_run(&bench->bare, bench->list, &bare_ns));
        if (i < WARM_UP_REPLAYS) continue;
        bench->list_us[i - WARM_UP_REPLAYS] = 1e-3 * (double)list_ns / kernels;
        bench->bare_us[i - WARM_UP_REPLAYS] = 1e-3 * (double)bare_ns / kernels;
    }
    return TD_OK;
}

td_status td_bench_submit_run(td_registry *registry, const td_device_info *device, uint32_t kernels,
                              uint32_t replays, td_bench_submit_result *out)
{
    submit_bench bench = {0};
    td_status status = TD_OK;
    *out = (td_bench_submit_result){
        .kernels = kernels, .replays = replays, .has_bare = device->api == TD_API_OPENCL};
    snprintf(out->device, sizeof out->device, "%s (%s)", device->name, device->selector);
    TD_TRY(TD_NEW_ARRAY(&bench.list_us, replays));
    TD_TRY(TD_NEW_ARRAY(&bench.bare_us, replays));
    TD_TRY(td_device_open(registry, device, &bench.device));
    TD_TRY(td_memory_create(bench.device, "bench", 0, &bench.memory));
    TD_TRY(record(&bench, kernels));
    TD_TRY(measure(&bench, kernels, replays, out->has_bare));
    const td_stats list = td_stats_of(bench.list_us, replays);
    const td_stats bare = td_stats_of(bench.bare_us, replays);
    out->list_us_per_kernel = list.median;
    out->list_spread = list.spread;
    out->bare_us_per_kernel = bare.median;
    out->bare_spread = bare.spread;
    out->ratio = out->bare_us_per_kernel > 0 ? out->list_us_per_kernel / out->bare_us_per_kernel : 0;
fail:
    td_cl_bare_loop_end(bench.bare);
    td_list_destroy(bench.list);
    td_memory_destroy(bench.memory);
    td_device_close(bench.device);
    free(bench.list_us);
    free(bench.bare_us);
    return status;
}
