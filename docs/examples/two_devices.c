/* Opens two devices, of any API, moves data from the first to the second through a channel and checks it.
 *
 *   cc two_devices.c $(pkg-config --cflags --libs tandem) -o two_devices
 *   ./two_devices cl:0.0 vk:0
 *
 * Built and run by the tests on several pairs.
 */
#include <stdio.h>

#include "tandem/channel.h"

enum { WORDS = 1 << 20, BYTES = WORDS * 4 };

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if ((status = (call)) != TD_OK) goto fail;                                                           \
    } while (0)

/* One end of the channel: a device, its memory, and host memory that the device can copy from and to. */
typedef struct side {
    td_device *device;
    td_memory *memory;
    td_span host;
    td_list *list;
} side;

static td_status open_ends(td_registry *registry, char **selectors, side ends[2])
{
    const td_device_info *infos[2];
    td_device *devices[2];
    td_status status;
    for (int i = 0; i < 2; i++) {
        if ((status = td_registry_select(registry, selectors[i], &infos[i])) != TD_OK) return status;
    }
    if ((status = td_devices_open(registry, infos, 2, devices)) != TD_OK) return status;
    for (int i = 0; i < 2; i++)
        ends[i].device = devices[i];
    for (int i = 0; i < 2 && status == TD_OK; i++) {
        status = td_memory_create(ends[i].device, i == 0 ? "data" : "model", 0, &ends[i].memory);
        if (status == TD_OK) status = td_memory_alloc(ends[i].memory, TD_MEMORY_HOST, BYTES, &ends[i].host);
    }
    return status;
}

/* Records a copy, and submits it once `after` is reached. */
static td_status copy(side *end, td_span to, td_span from, td_point after, td_point *done)
{
    td_queue *queue = td_device_queue(end->device, TD_QUEUE_COPY);
    td_status status = td_list_create(end->device, TD_QUEUE_COPY, &end->list);
    if (status == TD_OK) status = td_list_copy(end->list, to, from);
    if (status == TD_OK) status = td_list_finish(end->list);
    const td_submission submission = {.list = end->list, .waits = &after, .n_waits = 1};
    return status == TD_OK ? td_queue_submit(queue, &submission, done) : status;
}

int main(int argc, char **argv)
{
    td_registry_options options;
    td_registry *registry = NULL;
    td_channel *channel = NULL;
    side ends[2] = {{0}, {0}};
    const td_point past = {NULL, 0};
    td_point ready, arrived, done;
    td_channel_stats stats;
    td_status status = TD_OK;
    int code = 1;
    if (argc != 3) {
        fprintf(stderr, "usage: two_devices SELECTOR SELECTOR\n");
        return 2;
    }
    td_registry_options_from_env(&options);
    TRY(td_registry_open(&options, &registry));
    TRY(open_ends(registry, argv + 1, ends));
    TRY(td_channel_create(ends[0].memory, ends[1].memory, BYTES, NULL, &channel));

    uint32_t *sent = td_span_host(ends[0].host);
    for (uint32_t i = 0; i < WORDS; i++)
        sent[i] = i * 2654435761u;

    /* Three submissions, joined by points; none of these calls waits. */
    TRY(copy(&ends[0], td_channel_source(channel, 0), ends[0].host, past, &ready));
    TRY(td_channel_send(channel, 0, BYTES, ready, past, &arrived));
    TRY(copy(&ends[1], ends[1].host, td_channel_destination(channel, 0), arrived, &done));
    TRY(td_point_wait(done, TD_WAIT_FOREVER));

    const uint32_t *got = td_span_host(ends[1].host);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        wrong += got[i] != i * 2654435761u;
    td_channel_get_stats(channel, &stats);
    printf("%s -> %s: %d bytes by the path \"%s\", %llu bytes copied, %u words wrong\n",
           td_device_get_info(ends[0].device)->name, td_device_get_info(ends[1].device)->name, BYTES,
           td_path_name(td_channel_get_path(channel)), (unsigned long long)stats.copied_bytes, wrong);
    TRY(td_channel_verify(channel, 0));
    code = wrong != 0;
fail:
    /* Asked for only after a failure: a call that succeeds leaves the record of an earlier one. */
    if (status != TD_OK) fprintf(stderr, "two_devices: %s\n", td_error_last()->message);
    for (int i = 0; i < 2; i++)
        td_list_destroy(ends[i].list);
    td_channel_destroy(channel);
    for (int i = 0; i < 2; i++)
        td_memory_destroy(ends[i].memory);
    for (int i = 0; i < 2; i++)
        td_device_close(ends[i].device);
    td_registry_close(registry);
    return code;
}
