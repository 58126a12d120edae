/* See bench_pipeline.h. */
#include "tools/bench_pipeline.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/stats.h"

enum { BLOCK = 10, SETTLES = 3 }; /* steps; the first of a block, submitted in the one before, do not count */

const char *td_pipeline_way_name(td_pipeline_way way)
{
    static const char *const NAMES[] = {"single_device", "unoverlapped", "two_device"};
    return NAMES[way];
}

void td_bench_pipeline_free(td_bench_pipeline_result *result)
{
    for (int way = 0; way < TD_WAY_COUNT; ++way)
        td_profile_free(&result->profiles[way]);
}

/* ---------------------------------------------------------------- what watching costs */

typedef struct contrast {
    td_monitor *monitor;
    double *ms[2]; /* steps watched and not */
    size_t counts[2];
    uint64_t last_ns;
} contrast;

static void time_step(void *context, const td_train_event *event)
{
    contrast *c = context;
    const uint64_t now_ns = td_clock_ns();
    if (event->kind != TD_TRAIN_STEP) return;
    const uint64_t block = event->step / BLOCK;
    if (event->step > BLOCK && event->step % BLOCK >= SETTLES)
        c->ms[block % 2][c->counts[block % 2]++] = 1e-6 * (double)(now_ns - c->last_ns);
    if (event->step % BLOCK == 0) td_monitor_pause(c->monitor, block % 2 == 1);
    c->last_ns = now_ns;
}

static td_status measure_watching(td_registry *registry, const td_roles *roles,
                                  const td_train_settings *settings, uint64_t steps,
                                  td_bench_pipeline_result *out)
{
    td_status status = TD_OK;
    const size_t n = (size_t)steps + TD_PROFILE_WARM_UP;
    contrast c = {0};
    td_profile profile = {0};
    td_train_settings s = *settings;
    if (steps < UINT64_C(3) * BLOCK) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&c.ms[0], n));
    TD_TRY(TD_NEW_ARRAY(&c.ms[1], n));
    TD_TRY(td_monitor_create(n, true, &c.monitor));
    s.monitor = c.monitor;
    s.tell = time_step;
    s.context = &c;
    TD_TRY(td_profile_train(registry, roles, &s, steps, &profile));
    out->watched_ms = td_stats_of(c.ms[0], c.counts[0]).median;
    out->unwatched_ms = td_stats_of(c.ms[1], c.counts[1]).median;
fail:
    td_profile_free(&profile);
    td_monitor_destroy(c.monitor);
    free(c.ms[0]);
    free(c.ms[1]);
    return status;
}

/* ---------------------------------------------------------------- the whole */

td_status td_bench_pipeline_run(td_registry *registry, const td_roles *roles,
                                const td_train_settings *settings, uint64_t steps,
                                td_bench_pipeline_result *out)
{
    *out = (td_bench_pipeline_result){0};
    TD_REFUSE_IF(roles->data == roles->model, TD_ERR_CONFIG,
                 "bench pipeline compares one device with two; set devices.data beside devices.model");
    for (int way = 0; way < TD_WAY_COUNT; ++way) {
        td_roles chosen = *roles;
        td_train_settings s = *settings;
        if (way == TD_WAY_SINGLE) chosen = (td_roles){TD_ROLES_SINGLE, roles->model, roles->model};
        s.is_serial = way == TD_WAY_SERIAL;
        TD_CHECK(td_profile_train(registry, &chosen, &s, steps, &out->profiles[way]));
        out->median_ms[way] = out->profiles[way].figures.step_ms.median;
    }
    const td_roles single = {TD_ROLES_SINGLE, roles->model, roles->model};
    return measure_watching(registry, &single, settings, steps, out);
}
