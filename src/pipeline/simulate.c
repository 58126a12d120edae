/* Stages of given length on simulated devices. See simulate.h. */
#include "pipeline/simulate.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "device/dispatch.h"
#include "pipeline/transfer.h"

#define BATCH_BYTES UINT64_C(1048576) /* truly copied, so small; the link is made slow to match */
#define SIM_GFLOPS 1000.0

enum { DATA, MODEL, ROLES };

/* ---------------------------------------------------------------- what was asked for */

static const struct {
    const char *key;
    size_t offset;
    double most;
} KEYS[] = {
    {"data", offsetof(td_simulation, data_ms), 1e6},
    {"transfer", offsetof(td_simulation, transfer_ms), 1e6},
    {"train", offsetof(td_simulation, train_ms), 1e6},
    {"jitter", offsetof(td_simulation, jitter), 0.99},
};
enum { N_KEYS = sizeof KEYS / sizeof KEYS[0] };

static td_status parse_pair(const char *text, size_t length, td_simulation *simulation)
{
    for (size_t k = 0; k < N_KEYS; ++k) {
        const size_t n = strlen(KEYS[k].key);
        if (length <= n || strncmp(text, KEYS[k].key, n) != 0 || text[n] != '=') continue;
        char *end;
        const double value = strtod(text + n + 1, &end);
        if (end != text + length || end == text + n + 1 || !(value >= 0 && value <= KEYS[k].most))
            return TD_FAIL(TD_ERR_CONFIG, "'%.*s' of --simulate: %s is a number from 0 to %g", (int)length,
                           text, KEYS[k].key, KEYS[k].most);
        *(double *)((char *)simulation + KEYS[k].offset) = value;
        return TD_OK;
    }
    return TD_FAIL(TD_ERR_CONFIG,
                   "'%.*s' of --simulate is not known; write data=MS,transfer=MS,train=MS[,jitter=SHARE]",
                   (int)length, text);
}

td_status td_simulation_parse(const char *text, td_simulation *simulation)
{
    td_status status = TD_OK;
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        TD_TRY(parse_pair(at, length, simulation));
        at += length + (at[length] == ',');
    }
    TD_FAIL_IF(!(simulation->train_ms > 0), TD_ERR_CONFIG,
               "--simulate needs at least train=MS above 0, such as data=30,transfer=5,train=40");
fail:
    return status;
}

/* ---------------------------------------------------------------- devices */

typedef struct rig {
    const td_simulation *simulation;
    td_registry *registry;
    td_device *devices[ROLES]; /* the same twice in single-device mode */
    td_memory *memory[ROLES];
    size_t n_devices;
} rig;

static td_status open_rig(rig *r)
{
    const td_simulation *s = r->simulation;
    const td_device_info *infos[ROLES];
    td_registry_options options = {0};
    char model[128];
    td_status status = TD_OK;
    const double gbps = s->transfer_ms > 0 ? (double)BATCH_BYTES / (s->transfer_ms * 1e6) : 1e6;
    (void)snprintf(model, sizeof model, "gflops=%g,copy_gbps=%.17g,latency_us=1", SIM_GFLOPS, gbps);
    td_registry_options_from_env(&options);
    options.sim_model = model;
    options.visible = NULL;
    r->n_devices = s->is_single ? 1 : 2;
    TD_TRY(td_registry_open(&options, &r->registry));
    TD_TRY(td_registry_select(r->registry, "sim:0", &infos[0]));
    TD_TRY(td_registry_select(r->registry, "sim:1", &infos[1]));
    TD_TRY(td_devices_open(r->registry, infos, r->n_devices, r->devices));
    if (s->is_single) r->devices[MODEL] = r->devices[DATA];
    TD_TRY(td_memory_create(r->devices[DATA], "data", 0, &r->memory[DATA]));
    TD_TRY(td_memory_create(r->devices[MODEL], "model", 0, &r->memory[MODEL]));
fail:
    return status;
}

static void close_rig(rig *r)
{
    for (int i = 0; i < ROLES; ++i)
        td_memory_destroy(r->memory[i]);
    for (size_t i = 0; i < r->n_devices; ++i)
        td_device_close(r->devices[i]);
    td_registry_close(r->registry);
}

/* A list that takes `ms` on a device and would write `span`. */
static td_status make_work(td_device *device, td_span span, double ms, td_list **out)
{
    const td_fill_params params = {.n = (uint32_t)(span.bytes / 4)};
    const td_cost cost = {.flops = ms * 1e6 * SIM_GFLOPS};
    td_status status = TD_OK;
    TD_TRY(td_list_create(device, TD_QUEUE_COMPUTE, out));
    TD_TRY(td_list_dispatch(*out, TD_K_fill, &span, &params,
                            td_grid_elements(td_device_class(device), params.n), cost));
    TD_TRY(td_list_finish(*out));
fail:
    return status;
}

/* ---------------------------------------------------------------- the data stage */

typedef struct data_slot {
    td_span mel;
    td_list *list;
    td_point ready, used;
    bool is_taken;
} data_slot;

/* What a loader is, without a disk and without an end: batches are submitted ahead as far as there is room.
 */
typedef struct data_stage {
    rig *rig;
    data_slot *slots;
    uint32_t n_slots;
    uint64_t n_submitted, n_given;
    pthread_mutex_t lock; /* guards used and is_taken */
    pthread_cond_t changed;
} data_stage;

static td_status open_data_stage(data_stage *stage, rig *r)
{
    td_status status = TD_OK;
    stage->rig = r;
    pthread_mutex_init(&stage->lock, NULL);
    pthread_cond_init(&stage->changed, NULL);
    stage->n_slots = r->simulation->is_serial ? 1 : r->simulation->buffer_size;
    TD_TRY(TD_NEW_ARRAY(&stage->slots, stage->n_slots));
    for (uint32_t i = 0; i < stage->n_slots; ++i)
        TD_TRY(td_memory_alloc(r->memory[DATA], TD_MEMORY_DEVICE, BATCH_BYTES, &stage->slots[i].mel));
fail:
    return status;
}

static void close_data_stage(data_stage *stage)
{
    for (uint32_t i = 0; stage->slots && i < stage->n_slots; ++i) {
        td_list_destroy(stage->slots[i].list);
        td_memory_free(stage->rig->memory[DATA], stage->slots[i].mel);
    }
    free(stage->slots);
    pthread_cond_destroy(&stage->changed);
    pthread_mutex_destroy(&stage->lock);
}

/* How long batch `number` takes to prepare. */
static double draw_data_ms(const td_simulation *s, uint64_t number)
{
    const double share = td_rng_double(s->seed, 0, number);
    return s->data_ms * (1 + s->jitter * (2 * share - 1));
}

static td_status prepare(data_stage *stage, data_slot *slot, uint64_t number)
{
    td_device *device = stage->rig->devices[DATA];
    td_status status = TD_OK;
    td_list_destroy(slot->list);
    slot->list = NULL;
    TD_TRY(make_work(device, slot->mel, draw_data_ms(stage->rig->simulation, number), &slot->list));
    const td_submission work = {.list = slot->list, .waits = &slot->used, .n_waits = 1};
    TD_TRY(td_queue_submit(td_device_queue(device, TD_QUEUE_COMPUTE), &work, &slot->ready));
fail:
    return status;
}

static td_status next_batch(void *context, td_batch *out)
{
    data_stage *stage = context;
    td_status status = TD_OK;
    pthread_mutex_lock(&stage->lock);
    while (stage->n_submitted == stage->n_given && stage->slots[stage->n_given % stage->n_slots].is_taken)
        pthread_cond_wait(&stage->changed, &stage->lock);
    for (; stage->n_submitted < stage->n_given + stage->n_slots; ++stage->n_submitted) {
        data_slot *slot = &stage->slots[stage->n_submitted % stage->n_slots];
        if (slot->is_taken) break;
        slot->is_taken = true;
        TD_TRY(prepare(stage, slot, stage->n_submitted));
    }
    const data_slot *slot = &stage->slots[stage->n_given % stage->n_slots];
    *out = (td_batch){.number = stage->n_given++, .count = 1, .mel = slot->mel, .ready = slot->ready};
fail:
    pthread_mutex_unlock(&stage->lock);
    return status;
}

static void release_batch(void *context, const td_batch *batch, td_point used)
{
    data_stage *stage = context;
    pthread_mutex_lock(&stage->lock);
    data_slot *slot = &stage->slots[batch->number % stage->n_slots];
    slot->used = used;
    slot->is_taken = false;
    pthread_cond_broadcast(&stage->changed);
    pthread_mutex_unlock(&stage->lock);
}

/* ---------------------------------------------------------------- the train stage */

static td_status train_step(rig *r, td_batch_source source, td_list *step, td_monitor *monitor,
                            td_point *reached)
{
    td_queue *queue = td_device_queue(r->devices[MODEL], TD_QUEUE_COMPUTE);
    td_batch batch;
    td_status status = TD_OK;
    const uint64_t start_ns = td_clock_ns();
    TD_TRY(source.next(source.context, &batch));
    td_monitor_note_wait(monitor, batch.number, td_clock_ns() - start_ns);
    if (r->simulation->is_single) td_monitor_note(monitor, TD_STAGE_PREPARE, batch.number, &batch.ready, 1);
    const td_submission work = {.list = step, .waits = &batch.ready, .n_waits = 1};
    const td_status submitted = td_queue_submit(queue, &work, reached);
    if (submitted == TD_OK) td_monitor_note(monitor, TD_STAGE_TRAIN, batch.number, reached, 1);
    const td_status waited =
        submitted == TD_OK && r->simulation->is_serial ? td_point_wait(*reached, TD_WAIT_FOREVER) : submitted;
    source.release(source.context, &batch, *reached);
    status = waited;
fail:
    return status;
}

/* The trainer: submits steps ahead, and looks at each `depth` steps later, as training does with its losses.
 */
static td_status train(rig *r, td_batch_source source, td_monitor *monitor)
{
    const td_simulation *s = r->simulation;
    const uint32_t depth = s->is_serial ? 1 : s->depth;
    td_span weights = {0};
    td_list *step = NULL;
    td_point *reached = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&reached, depth));
    TD_TRY(td_memory_alloc(r->memory[MODEL], TD_MEMORY_DEVICE, 4096, &weights));
    TD_TRY(make_work(r->devices[MODEL], weights, s->train_ms, &step));
    for (uint64_t n = 0; n < s->steps; ++n) {
        TD_TRY(td_point_wait(reached[n % depth], TD_WAIT_FOREVER));
        td_monitor_collect(monitor);
        TD_TRY(train_step(r, source, step, monitor, &reached[n % depth]));
    }
    for (uint32_t i = 0; i < depth; ++i)
        TD_TRY(td_point_wait(reached[i], TD_WAIT_FOREVER));
    td_monitor_collect(monitor);
fail:
    td_list_destroy(step);
    td_memory_free(r->memory[MODEL], weights);
    free(reached);
    return status;
}

td_status td_simulate(const td_simulation *simulation, td_monitor *monitor)
{
    rig r = {.simulation = simulation};
    data_stage stage = {0};
    td_transfer *transfer = NULL;
    td_status status = TD_OK;
    TD_TRY(open_rig(&r));
    TD_TRY(open_data_stage(&stage, &r));
    td_batch_source source = {.next = next_batch, .release = release_batch, .context = &stage};
    if (!simulation->is_single) {
        const td_transfer_settings settings = {.source = source,
                                               .data = r.memory[DATA],
                                               .model = r.memory[MODEL],
                                               .batch_bytes = BATCH_BYTES,
                                               .n_ready =
                                                   simulation->is_serial ? 1 : simulation->prefetch_size,
                                               .monitor = monitor};
        TD_TRY(td_transfer_create(&settings, &transfer));
        source = td_transfer_source(transfer);
    }
    TD_TRY(train(&r, source, monitor));
fail:
    td_transfer_destroy(transfer);
    if (stage.rig) close_data_stage(&stage);
    close_rig(&r);
    return status;
}
