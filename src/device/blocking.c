/* See blocking.h. */
#include "device/blocking.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/backend.h"

static td_status run_after(td_list *list, td_point ready)
{
    td_point done;
    const td_submission submission = {.list = list, .waits = &ready, .n_waits = 1};
    if (!list->finished) TD_CHECK(td_list_finish(list));
    TD_CHECK(td_queue_submit(td_device_queue(list->device, list->kind), &submission, &done));
    return td_point_wait(done, TD_WAIT_FOREVER);
}

td_status td_blocking_run(td_list *list, double *seconds)
{
    const uint64_t begin = td_clock_ns();
    const td_status status = run_after(list, (td_point){0});
    if (seconds) *seconds = 1e-9 * (double)(td_clock_ns() - begin);
    return status;
}

static td_status copy_after(td_device *device, td_span to, td_span from, td_point ready)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, to, from));
    TD_TRY(run_after(list, ready));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_blocking_copy(td_device *device, td_span to, td_span from)
{
    return copy_after(device, to, from, (td_point){0});
}

td_status td_blocking_write(td_memory *memory, td_span to, const void *from)
{
    td_span host = {0};
    td_status status = TD_OK;
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_HOST, to.bytes, &host));
    memcpy(td_span_host(host), from, to.bytes);
    TD_TRY(td_blocking_copy(td_memory_device(memory), to, td_span_part(host, 0, to.bytes)));
fail:
    td_memory_free(memory, host);
    return status;
}

td_status td_blocking_read(td_memory *memory, td_span from, td_point ready, void *to)
{
    td_span host = {0};
    td_status status = TD_OK;
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_HOST, from.bytes, &host));
    TD_TRY(copy_after(td_memory_device(memory), td_span_part(host, 0, from.bytes), from, ready));
    memcpy(to, td_span_host(host), from.bytes);
fail:
    td_memory_free(memory, host);
    return status;
}
