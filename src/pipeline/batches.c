/* See batches.h. */
#include "pipeline/batches.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

td_status td_batches_open(const td_data *data, const td_data_rows *rows, td_batches *batches)
{
    *batches = (td_batches){.data = data, .rows = *rows};
    return td_data_open_sampler(data, rows, &batches->sampler);
}

static td_status take_from_loader(void *loader, td_batch *out)
{
    return td_loader_next(loader, out);
}

static void give_to_loader(void *loader, const td_batch *batch, td_point used)
{
    td_loader_release(loader, batch, used);
}

td_status td_batches_start(td_batches *batches, const td_batches_way *way)
{
    td_memory *data = batches->data->memory;
    batches->monitor = way->monitor;
    TD_CHECK(td_data_open_loader(batches->data, &batches->rows, batches->sampler, &batches->loader));
    if (!way->model || td_memory_device(data) == td_memory_device(way->model)) return TD_OK;
    return td_transfer_create(&(td_transfer_settings){.next = take_from_loader,
                                                      .release = give_to_loader,
                                                      .context = batches->loader,
                                                      .data = data,
                                                      .model = way->model,
                                                      .batch_bytes = td_loader_batch_bytes(batches->loader),
                                                      .n_ready = way->n_ready,
                                                      .verify = way->verify,
                                                      .monitor = way->monitor},
                              &batches->transfer);
}

void td_batches_close(td_batches *batches)
{
    td_transfer_destroy(batches->transfer);
    td_loader_destroy(batches->loader);
    td_sampler_destroy(batches->sampler);
    *batches = (td_batches){0};
}

void td_batches_prefill(td_batches *batches, double seconds)
{
    uint32_t room;
    const uint64_t start_ns = td_clock_ns();
    if (!batches->transfer || !(seconds > 0)) return;
    const uint32_t n = td_transfer_wait_full(batches->transfer, start_ns + (uint64_t)(1e9 * seconds), &room);
    td_log_info("training starts with %u of %u batches on the model device, after %.1f s", n, room,
                1e-9 * (double)(td_clock_ns() - start_ns));
}

td_status td_batches_next(td_batches *batches, td_batch *out)
{
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(batches->transfer ? td_transfer_next(batches->transfer, out)
                               : td_loader_next(batches->loader, out));
    if (batches->transfer && td_point_wait(out->ready, TD_WAIT_FOREVER) != TD_OK)
        TD_CHECK(td_error_context("sending batch %llu to the model device", (unsigned long long)out->number));
    td_monitor_note_wait(batches->monitor, out->number, td_clock_ns() - start_ns);
    td_monitor_note_host(
        batches->monitor, TD_STAGE_LOAD, out->number,
        (td_interval){.start_ns = out->load_start_ns, .end_ns = out->load_end_ns, .busy_ns = out->load_ns});
    if (!batches->transfer)
        td_monitor_note(batches->monitor, TD_STAGE_PREPARE, out->number, out->made, out->n_made);
    return TD_OK;
}

void td_batches_release(td_batches *batches, const td_batch *batch, td_point used)
{
    if (batches->transfer)
        td_transfer_release(batches->transfer, batch, used);
    else
        td_loader_release(batches->loader, batch, used);
}
