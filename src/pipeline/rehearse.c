/* Stages of given work. See rehearse.h. */
#include "pipeline/rehearse.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "pipeline/transfer.h"

enum { DATA, MODEL, ROLES };

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
    const td_rehearsal *rehearsal;
    td_memory *memory;
    data_slot *slots;
    uint32_t n_slots;
    uint64_t n_submitted, n_given;
    td_transfer *transfer; /* owned; NULL with one device */
    pthread_mutex_t lock;  /* guards used and is_taken */
    pthread_cond_t changed;
} data_stage;

static td_status open_data_stage(data_stage *stage, const td_rehearsal *rehearsal, td_memory *memory)
{
    stage->rehearsal = rehearsal;
    stage->memory = memory;
    pthread_mutex_init(&stage->lock, NULL);
    pthread_cond_init(&stage->changed, NULL);
    stage->n_slots = rehearsal->is_serial ? 1 : rehearsal->buffer_size;
    TD_CHECK(TD_NEW_ARRAY(&stage->slots, stage->n_slots));
    for (uint32_t i = 0; i < stage->n_slots; ++i)
        TD_CHECK(td_memory_alloc(memory, TD_MEMORY_DEVICE, rehearsal->batch_bytes, &stage->slots[i].mel));
    return TD_OK;
}

static void close_data_stage(data_stage *stage)
{
    td_transfer_destroy(stage->transfer);
    for (uint32_t i = 0; stage->slots && i < stage->n_slots; ++i) {
        td_list_destroy(stage->slots[i].list);
        td_memory_free(stage->memory, stage->slots[i].mel);
    }
    free(stage->slots);
    pthread_cond_destroy(&stage->changed);
    pthread_mutex_destroy(&stage->lock);
}

static td_status prepare(data_stage *stage, data_slot *slot, uint64_t number)
{
    const td_rehearsal *r = stage->rehearsal;
    td_list_destroy(slot->list);
    slot->list = NULL;
    TD_CHECK(r->prepare(r->context, r->data, slot->mel, number, &slot->list));
    const td_submission work = {.list = slot->list, .waits = &slot->used, .n_waits = 1};
    return td_queue_submit(td_device_queue(r->data, TD_QUEUE_COMPUTE), &work, &slot->ready);
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
    *out = (td_batch){.number = stage->n_given++,
                      .count = 1,
                      .ready = slot->ready,
                      .made = {slot->ready},
                      .n_made = 1,
                      .features = {{.name = "mel", .span = slot->mel}},
                      .n_features = 1};
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

static td_status train_step(data_stage *stage, td_list *step, td_monitor *monitor, td_point *reached)
{
    const td_rehearsal *r = stage->rehearsal;
    td_queue *queue = td_device_queue(r->model, TD_QUEUE_COMPUTE);
    td_batch batch;
    td_status status = TD_OK;
    const uint64_t start_ns = td_clock_ns();
    TD_TRY(stage->transfer ? td_transfer_next(stage->transfer, &batch) : next_batch(stage, &batch));
    td_monitor_note_wait(monitor, batch.number, td_clock_ns() - start_ns);
    if (r->data == r->model) td_monitor_note(monitor, TD_STAGE_PREPARE, batch.number, &batch.ready, 1);
    const td_submission work = {.list = step, .waits = &batch.ready, .n_waits = 1};
    const td_status submitted = td_queue_submit(queue, &work, reached);
    if (submitted == TD_OK) td_monitor_note(monitor, TD_STAGE_TRAIN, batch.number, reached, 1);
    const td_status waited =
        submitted == TD_OK && r->is_serial ? td_point_wait(*reached, TD_WAIT_FOREVER) : submitted;
    if (stage->transfer)
        td_transfer_release(stage->transfer, &batch, *reached);
    else
        release_batch(stage, &batch, *reached);
    status = waited;
fail:
    return status;
}

/* The trainer: submits steps ahead, and looks at each `depth` steps later, as training does with its losses.
 */
static td_status train(data_stage *stage, td_memory *memory, td_monitor *monitor)
{
    const td_rehearsal *r = stage->rehearsal;
    const uint32_t depth = r->is_serial ? 1 : r->depth;
    td_span weights = {0};
    td_list *step = NULL;
    td_point *reached = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&reached, depth));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, TD_REHEARSAL_WEIGHT_BYTES, &weights));
    TD_TRY(r->train(r->context, r->model, weights, 0, &step));
    for (uint64_t n = 0; n < r->steps; ++n) {
        TD_TRY(td_point_wait(reached[n % depth], TD_WAIT_FOREVER));
        td_monitor_collect(monitor);
        TD_TRY(train_step(stage, step, monitor, &reached[n % depth]));
    }
    for (uint32_t i = 0; i < depth; ++i)
        TD_TRY(td_point_wait(reached[i], TD_WAIT_FOREVER));
    td_monitor_collect(monitor);
fail:
    td_list_destroy(step);
    td_memory_free(memory, weights);
    free(reached);
    return status;
}

/* ---------------------------------------------------------------- the whole */

td_status td_rehearse(const td_rehearsal *r, td_monitor *monitor, td_path *path)
{
    td_memory *memory[ROLES] = {NULL, NULL};
    data_stage stage = {0};
    td_status status = TD_OK;
    if (path) *path = TD_PATH_ALIAS;
    TD_TRY(td_memory_create(r->data, "data", 0, &memory[DATA]));
    TD_TRY(td_memory_create(r->model, "model", 0, &memory[MODEL]));
    TD_TRY(open_data_stage(&stage, r, memory[DATA]));
    if (r->data != r->model) {
        const td_transfer_settings settings = {.next = next_batch,
                                               .release = release_batch,
                                               .context = &stage,
                                               .data = memory[DATA],
                                               .model = memory[MODEL],
                                               .batch_bytes = r->batch_bytes,
                                               .n_ready = r->is_serial ? 1 : r->prefetch_size,
                                               .verify = r->verify,
                                               .monitor = monitor};
        TD_TRY(td_transfer_create(&settings, &stage.transfer));
    }
    TD_TRY(train(&stage, memory[MODEL], monitor));
    if (path && stage.transfer) *path = td_transfer_count(stage.transfer).path;
fail:
    if (stage.rehearsal) close_data_stage(&stage);
    for (int i = 0; i < ROLES; ++i)
        td_memory_destroy(memory[i]);
    return status;
}
