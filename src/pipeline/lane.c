/* See lane.h. */
#include "pipeline/lane.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

td_status td_lane_open(const td_lane_settings *settings, td_lane *lane)
{
    td_status status = TD_OK;
    *lane = (td_lane){.source = td_loader_source(settings->loader), .monitor = settings->monitor};
    if (td_memory_device(settings->data) == td_memory_device(settings->model)) return TD_OK;
    TD_TRY(td_transfer_create(&(td_transfer_settings){.source = lane->source,
                                                      .data = settings->data,
                                                      .model = settings->model,
                                                      .batch_bytes = td_loader_batch_bytes(settings->loader),
                                                      .n_ready = settings->n_ready,
                                                      .verify = settings->verify,
                                                      .monitor = settings->monitor},
                              &lane->transfer));
    lane->source = td_transfer_source(lane->transfer);
fail:
    return status;
}

void td_lane_close(td_lane *lane)
{
    td_transfer_destroy(lane->transfer);
    *lane = (td_lane){0};
}

void td_lane_prefill(td_lane *lane, double seconds)
{
    uint32_t room;
    const uint64_t start_ns = td_clock_ns();
    if (!lane->transfer || !(seconds > 0)) return;
    const uint32_t n = td_transfer_wait_full(lane->transfer, start_ns + (uint64_t)(1e9 * seconds), &room);
    td_log_info("training starts with %u of %u batches on the model device, after %.1f s", n, room,
                1e-9 * (double)(td_clock_ns() - start_ns));
}

td_status td_lane_next(td_lane *lane, td_batch *out)
{
    td_status status = TD_OK;
    const uint64_t start_ns = td_clock_ns();
    TD_TRY(lane->source.next(lane->source.context, out));
    if (lane->transfer && td_point_wait(out->ready, TD_WAIT_FOREVER) != TD_OK)
        TD_TRY(td_error_context("sending batch %llu to the model device", (unsigned long long)out->number));
    td_monitor_note_wait(lane->monitor, out->number, td_clock_ns() - start_ns);
    td_monitor_note_host(
        lane->monitor, TD_STAGE_LOAD, out->number,
        (td_interval){.start_ns = out->load_start_ns, .end_ns = out->load_end_ns, .busy_ns = out->load_ns});
    if (!lane->transfer) td_monitor_note(lane->monitor, TD_STAGE_PREPARE, out->number, &out->ready, 1);
fail:
    return status;
}

void td_lane_release(td_lane *lane, const td_batch *batch, td_point used)
{
    lane->source.release(lane->source.context, batch, used);
}
