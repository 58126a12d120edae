/* Group 5 of `tandem validate`: batches through all stages of the pipeline on the chosen devices. The data
 * device computes each, the transfer takes it over and compares checksums of both ends, the model device
 * computes a step for it; how much of that ran at the same time comes from the queues' timestamps. Covered
 * by tests/device/test_validate.c. */
#include <stdio.h>

#include "base/error.h"
#include "device/dispatch.h"
#include "pipeline/rehearse.h"
#include "tools/validate_internal.h"

enum { SIDE = 64, TRIAL_PRODUCTS = 8, MOST_PRODUCTS = 4000, BATCHES = 12, ATTEMPTS = 3 };

/* How long the stages are made, whatever the devices: long enough to tell one from the other. */
static const double PREPARE_MS = 8, TRAIN_MS = 16;

#define MATRIX_BYTES (UINT64_C(4) * SIDE * SIDE)
#define BATCH_BYTES (UINT64_C(1) << 20)

/* Products one after the other within the span's first three matrices. */
static td_status record_products(td_device *device, td_span span, uint32_t count, td_list **out)
{
    const td_matmul_params params = {.m = SIDE, .n = SIDE, .k = SIDE, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};
    const td_cost cost = {.flops = 2.0 * SIDE * SIDE * SIDE};
    const td_span spans[] = {td_span_part(span, 0, MATRIX_BYTES),
                             td_span_part(span, MATRIX_BYTES, MATRIX_BYTES),
                             td_span_part(span, 2 * MATRIX_BYTES, MATRIX_BYTES)};
    TD_CHECK(td_list_create(device, TD_QUEUE_COMPUTE, out));
    TD_CHECK(td_list_fill(*out, span, 0x3c000000)); /* small numbers, so that products stay finite */
    for (uint32_t i = 0; i < count; ++i)
        TD_CHECK(td_list_dispatch(*out, TD_K_matmul, spans, &params,
                                  td_grid_matmul(td_device_class(device), SIDE, SIDE), cost));
    return td_list_finish(*out);
}

/* Products in a batch and in a step. */
typedef struct work {
    uint32_t prepare, train;
} work;

static td_status make_prepare(void *context, td_device *device, td_span span, uint64_t number, td_list **out)
{
    const work *w = context;
    (void)number;
    return record_products(device, span, w->prepare, out);
}

static td_status make_train(void *context, td_device *device, td_span span, uint64_t number, td_list **out)
{
    const work *w = context;
    (void)number;
    return record_products(device, span, w->train, out);
}

/* Figures of one run on both devices. */
static td_status rehearse(td_validate_run_state *run, work *w, bool is_serial, td_pipeline_figures *figures,
                          td_path *path)
{
    td_monitor *monitor = NULL;
    td_batch_times times[BATCHES];
    td_status status = TD_OK;
    const bool is_single = run->n_roles == 1;
    const td_rehearsal rehearsal = {.data = run->devices[0],
                                    .model = run->devices[1],
                                    .prepare = make_prepare,
                                    .train = make_train,
                                    .context = w,
                                    .batch_bytes = BATCH_BYTES,
                                    .steps = BATCHES,
                                    .buffer_size = 3,
                                    .prefetch_size = 3,
                                    .depth = 2,
                                    .is_serial = is_serial,
                                    .verify = true};
    TD_TRY(td_monitor_create(BATCHES, is_single, &monitor));
    TD_TRY(td_rehearse(&rehearsal, monitor, path));
    const size_t n = td_monitor_read(monitor, times);
    TD_FAIL_IF(n != BATCHES || !td_pipeline_figures_of(times, n, 0, is_single, figures), TD_ERR_DRIVER,
               "only %zu of %d steps have times: the driver lost timestamps", n, (int)BATCHES);
fail:
    td_monitor_destroy(monitor);
    return status;
}

static uint32_t scale(double wanted_ms, double trial_ms)
{
    const double count = trial_ms > 0 ? TRIAL_PRODUCTS * wanted_ms / trial_ms : MOST_PRODUCTS;
    return count < 1 ? 1 : count > MOST_PRODUCTS ? MOST_PRODUCTS : (uint32_t)count;
}

/* A trial tells how fast each device is, then the run that counts. A busy computer may keep two CPU drivers
 * from running side by side once. */
static td_status measure(td_validate_run_state *run, td_pipeline_figures *figures, td_path *path)
{
    work w = {TRIAL_PRODUCTS, TRIAL_PRODUCTS};
    TD_CHECK(rehearse(run, &w, true, figures, path));
    w.prepare = scale(PREPARE_MS, figures->stage_ms[TD_STAGE_PREPARE].min);
    w.train = scale(TRAIN_MS, figures->stage_ms[TD_STAGE_TRAIN].min);
    for (int i = 0; i < ATTEMPTS; ++i) {
        TD_CHECK(rehearse(run, &w, false, figures, path));
        if (run->n_roles == 1 || figures->overlap > 0) break;
    }
    return TD_OK;
}

static td_status note_overlap(td_validate_run_state *run, const td_pipeline_figures *f)
{
    static const char NAME[] = "overlap";
    const bool is_simulated = run->infos[0]->type == TD_DEVICE_SIM || run->infos[1]->type == TD_DEVICE_SIM;
    if (run->n_roles == 1)
        return td_validate_note(run, TD_VALIDATE_PIPELINE, TD_CHECK_PASS, NAME,
                                "one device does one thing after the other, and is busy %.0f %% of the time",
                                100 * f->model_utilisation);
    return td_validate_note(
        run, TD_VALIDATE_PIPELINE, f->overlap > 0 ? TD_CHECK_PASS : TD_CHECK_FAIL, NAME,
        "%.0f %% of preparing and transferring ran while the model device trained; busy: data %.0f %%, model "
        "%.0f %%%s%s",
        100 * f->overlap, 100 * f->data_utilisation, 100 * f->model_utilisation,
        is_simulated ? " (simulated)" : "",
        f->overlap > 0 ? "" : "; the devices take turns: is one of them used by another program?");
}

td_status td_validate_pipeline(td_validate_run_state *run)
{
    td_pipeline_figures figures = {0};
    td_path path = TD_PATH_AUTO;
    char detail[192];
    const td_status outcome = measure(run, &figures, &path);
    if (run->n_roles == 1)
        (void)snprintf(detail, sizeof detail, "%d batches prepared and trained with, used in place", BATCHES);
    else
        (void)snprintf(
            detail, sizeof detail,
            "%d batches prepared, transferred by the path \"%s\" with equal checksums, and trained "
            "with",
            BATCHES, td_path_name(path));
    TD_CHECK(td_validate_note_call(run, TD_VALIDATE_PIPELINE, outcome, "batches through all stages", detail));
    if (outcome == TD_OK) TD_CHECK(note_overlap(run, &figures));
    return TD_OK;
}
