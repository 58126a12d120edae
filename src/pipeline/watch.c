/* See watch.h. */
#include "pipeline/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum { EVERY = 10, LEAST_STEPS = 50, RISES = 5 };

/* A stage that holds the others up takes about as long as a step does. */
static const double LEAST_UTILISATION = 0.70, BUSY = 0.90, PACE = 0.80;
static const uint64_t LEAST_GROWTH_BYTES = UINT64_C(64) << 20;

static bool is_first(td_watch *watch, td_watch_warning warning)
{
    const bool was_warned = watch->warned[warning];
    watch->warned[warning] = true;
    return !was_warned;
}

/* ---------------------------------------------------------------- figures */

static void measure(td_watch *watch)
{
    size_t first = 0;
    td_batch_times *times = calloc(watch->capacity, sizeof *times);
    if (!times) return; /* the figures of before stay */
    const size_t n = td_monitor_read(watch->monitor, times);
    if (n > TD_MONITOR_WINDOW) first = n - TD_MONITOR_WINDOW;
    while (first < n && times[first].number < watch->from)
        ++first;
    watch->is_known = td_pipeline_figures_of(times, n, first, watch->is_single, &watch->figures);
    free(times);
}

const char *td_watch_waits_for(const td_watch *watch)
{
    const td_pipeline_figures *f = &watch->figures;
    td_stage slowest = TD_STAGE_LOAD;
    for (int s = TD_STAGE_PREPARE; s < TD_STAGE_TRAIN; ++s)
        if (f->stage_ms[s].mean > f->stage_ms[slowest].mean) slowest = (td_stage)s;
    const bool waits =
        watch->is_known && f->model_utilisation < BUSY && f->stage_ms[slowest].mean > PACE * f->step_ms.mean;
    return td_stage_name(waits ? slowest : TD_STAGE_TRAIN);
}

/* ---------------------------------------------------------------- warnings */

static void judge_steps(td_watch *watch)
{
    const td_pipeline_figures *f = &watch->figures;
    if (!watch->is_known || f->steps < LEAST_STEPS) return;
    if (td_pipeline_waits_unevenly(f) && is_first(watch, TD_WATCH_VARIES))
        td_log_warn(
            "steps vary by %.2f of their mean of %.1f ms over the last %zu, since the model device waits "
            "for some of the batches; raise %spipeline.prefetch_buffer_size; `tandem profile` shows where",
            f->cv, f->step_ms.mean, f->steps, watch->is_single ? "" : "pipeline.buffer_size and ");
    if (f->model_utilisation < LEAST_UTILISATION && is_first(watch, TD_WATCH_STARVES)) {
        const char *stage = td_watch_waits_for(watch);
        const bool is_host = strcmp(stage, td_stage_name(TD_STAGE_TRAIN)) == 0;
        td_log_warn(
            "the model device works only %.0f %% of the time and waits for %s%s; %s; `tandem profile` "
            "tells more",
            100 * f->model_utilisation, is_host ? "the host" : "the stage ", is_host ? "" : stage,
            is_host
                ? "raise training.batch_size or pipeline.pipeline_depth"
                : "raise pipeline.num_workers, keep mels with data.mel_cache, or raise training.batch_size");
    }
}

/* Plans for new shapes take memory at first; what still rises after several windows in a row does not end. */
static void judge_memory(td_watch *watch, int role, uint64_t bytes)
{
    static const char *const NAMES[] = {"data", "model"};
    char was[TD_TEXT_FORMAT_BYTES], is[TD_TEXT_FORMAT_BYTES];
    const bool rises = watch->last_bytes[role] > 0 && bytes > watch->last_bytes[role];
    if (!rises) {
        watch->rises[role] = 0;
        watch->first_bytes[role] = bytes;
    }
    watch->rises[role] += rises;
    watch->last_bytes[role] = bytes;
    if (watch->rises[role] < RISES || bytes - watch->first_bytes[role] < LEAST_GROWTH_BYTES) return;
    if (!is_first(watch, role == 0 ? TD_WATCH_GROWS_DATA : TD_WATCH_GROWS_MODEL)) return;
    td_text_format_bytes(watch->first_bytes[role], was);
    td_text_format_bytes(bytes, is);
    td_log_warn(
        "memory of the %s role keeps growing: from %s to %s in %d steps; set a limit with "
        "pipeline.enable_memory_isolation, lower pipeline.buffer_size, or use pipeline.enable_static_shapes",
        NAMES[role], was, is, RISES * TD_MONITOR_WINDOW);
}

void td_watch_step(td_watch *watch, uint64_t data_bytes, uint64_t model_bytes)
{
    ++watch->n_steps;
    if (watch->n_steps % EVERY == 0) {
        measure(watch);
        judge_steps(watch);
    }
    if (watch->n_steps % TD_MONITOR_WINDOW != 0) return;
    if (!watch->is_single) judge_memory(watch, 0, data_bytes);
    judge_memory(watch, 1, model_bytes);
}

void td_watch_pause(td_watch *watch, uint64_t next)
{
    watch->from = next;
    watch->is_known = false;
}
