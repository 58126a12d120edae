/* See scenario.h. Written as a user of the library would: every status checked, one clean-up at the end. */
#include "scenario.h"

#include <string.h>

#include "base/error.h"
#include "device/dispatch.h"

enum { CHUNK_BYTES = 65536, SLOT_BYTES = 3 * CHUNK_BYTES, STEPS = 3 };

typedef struct side {
    td_device *device;
    td_memory *memory;
    td_span host;  /* what is sent, or what arrived */
    td_span local; /* device memory */
    td_span work;  /* for a kernel whose result nobody needs */
    td_list *list[2];
} side;

typedef struct stage {
    td_registry *registry;
    side sides[2];
    td_channel *channel;
} stage;

static td_status open_stage(stage *s, const scenario *given)
{
    const td_device_info *infos[2];
    td_device *devices[2] = {NULL, NULL};
    const td_channel_options options = {
        .path = given->path, .slots = 2, .ring_chunks = 2, .chunk_bytes = CHUNK_BYTES};
    td_status status = TD_OK;
    TD_TRY(td_registry_open(&given->options, &s->registry));
    for (int i = 0; i < 2; ++i)
        TD_TRY(td_registry_select(s->registry, given->selectors[i], &infos[i]));
    TD_TRY(td_devices_open(s->registry, infos, 2, devices));
    for (int i = 0; i < 2; ++i)
        s->sides[i].device = devices[i];
    for (int i = 0; i < 2; ++i) {
        side *at = &s->sides[i];
        TD_TRY(td_memory_create(at->device, i ? "model" : "data", UINT64_C(4) << 20, &at->memory));
        TD_TRY(td_memory_alloc(at->memory, TD_MEMORY_HOST, SLOT_BYTES, &at->host));
        TD_TRY(td_memory_alloc(at->memory, TD_MEMORY_DEVICE, SLOT_BYTES, &at->local));
        TD_TRY(td_memory_alloc(at->memory, TD_MEMORY_DEVICE, SLOT_BYTES, &at->work));
    }
    TD_TRY(td_channel_create(s->sides[0].memory, s->sides[1].memory, SLOT_BYTES, &options, &s->channel));
fail:
    return status;
}

/* The list of one side for a slot: its bytes from the host into the channel, or from the channel to the host.
 */
static td_status record(stage *s, int i, uint32_t slot)
{
    side *at = &s->sides[i];
    td_list **list = &at->list[slot];
    const td_add_params params = {.n = SLOT_BYTES / 4};
    const td_span spans[] = {at->local, at->local, at->work};
    td_status status = TD_OK;
    TD_TRY(td_list_create(at->device, TD_QUEUE_COMPUTE, list));
    TD_TRY(td_list_copy(*list, at->local, i ? td_channel_destination(s->channel, slot) : at->host));
    TD_TRY(td_list_fill(*list, at->work, 0));
    TD_TRY(td_list_dispatch(*list, TD_K_add, spans, &params,
                            td_grid_elements(td_device_class(at->device), params.n), (td_cost){0}));
    TD_TRY(td_list_copy(*list, i ? at->host : td_channel_source(s->channel, slot), at->local));
    TD_TRY(td_list_finish(*list));
fail:
    return status;
}

static td_status submit(side *at, uint32_t slot, const td_point *waits, size_t n_waits, td_point *reached)
{
    const td_submission submission = {.list = at->list[slot], .waits = waits, .n_waits = n_waits};
    return td_queue_submit(td_device_queue(at->device, TD_QUEUE_COMPUTE), &submission, reached);
}

static td_status send_all(stage *s)
{
    td_point consumed[2] = {{NULL, 0}, {NULL, 0}};
    td_times times;
    td_status status = TD_OK;
    for (uint32_t step = 0; step < STEPS; ++step) {
        const uint32_t slot = step % 2;
        const td_point reusable = td_channel_reusable(s->channel, slot, consumed[slot]);
        td_point ready, arrived;
        TD_TRY(submit(&s->sides[0], slot, &reusable, 1, &ready));
        TD_TRY(td_channel_send(s->channel, slot, SLOT_BYTES, ready, consumed[slot], &arrived));
        TD_TRY(submit(&s->sides[1], slot, &arrived, 1, &consumed[slot]));
    }
    TD_TRY(td_queue_finish(td_device_queue(s->sides[1].device, TD_QUEUE_COMPUTE)));
    TD_TRY(td_channel_verify(s->channel, 0));
    if (td_device_get_info(s->sides[1].device)->caps.timestamps) TD_TRY(td_point_times(consumed[0], &times));
fail:
    return status;
}

static td_status play(stage *s, const scenario *given)
{
    td_status status = TD_OK;
    TD_TRY(open_stage(s, given));
    memset(td_span_host(s->sides[0].host), 0x5A, SLOT_BYTES);
    memset(td_span_host(s->sides[1].host), 0, SLOT_BYTES);
    for (int i = 0; i < 2; ++i)
        for (uint32_t slot = 0; slot < 2; ++slot)
            TD_TRY(record(s, i, slot));
    TD_TRY(send_all(s));
    TD_FAIL_IF(memcmp(td_span_host(s->sides[0].host), td_span_host(s->sides[1].host), SLOT_BYTES) != 0,
               TD_ERR_INTEGRITY, "a run without a failure did not move its bytes");
fail:
    return status;
}

static void close_stage(stage *s)
{
    for (int i = 0; i < 2; ++i)
        for (uint32_t slot = 0; slot < 2; ++slot)
            td_list_destroy(s->sides[i].list[slot]);
    td_channel_destroy(s->channel);
    for (int i = 0; i < 2; ++i)
        td_memory_destroy(s->sides[i].memory);
    for (int i = 0; i < 2; ++i)
        td_device_close(s->sides[i].device);
    td_registry_close(s->registry);
}

void scenario_hold_drivers(void)
{
    static td_registry *held; /* never closed, always reachable */
    if (!held) (void)td_registry_open(NULL, &held);
}

void scenario_run(const scenario *given, td_error *outcome)
{
    stage s = {0};
    *outcome = (td_error){.status = TD_OK};
    const td_status status = play(&s, given);
    if (status != TD_OK) *outcome = *td_error_last();
    outcome->status = status;
    close_stage(&s);
}
