/* A profile as a trace and as a page. See profile.h. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/trace.h"
#include "tools/page.h"
#include "tools/profile.h"

/* pages/timeline.html, as bytes. */
static const unsigned char PAGE[] = {
#include "page_timeline.inc"
};

static const char *const TRACK_NAMES[TD_STAGE_COUNT] = {
    [TD_STAGE_LOAD] = "host: load",
    [TD_STAGE_PREPARE] = "data device: preprocess",
    [TD_STAGE_TRANSFER] = "copy queues: transfer",
    [TD_STAGE_TRAIN] = "model device: train",
};

static uint64_t find_start(const td_batch_times *times, size_t n)
{
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < n; ++i) {
        for (int s = 0; s < TD_STAGE_COUNT; ++s) {
            const td_interval *stage = &times[i].stages[s];
            if (stage->end_ns > 0 && stage->start_ns < start) start = stage->start_ns;
        }
    }
    return start;
}

/* ---------------------------------------------------------------- trace */

enum { REDUCE_TRACK = TD_STAGE_COUNT, GATHER_TRACK };

/* A rank is a process of the trace. */
typedef struct trace {
    td_json *json;
    uint32_t rank;
    uint64_t start_ns;
} trace;

/* An arrow from each stage of a batch to the next: "s" begins, "t" goes on, "f" ends it. */
static void put_flow(const trace *t, int stage, uint64_t number, double at_us)
{
    const char *phase = stage == TD_STAGE_PREPARE ? "s" : stage == TD_STAGE_TRAIN ? "f" : "t";
    td_trace_begin_event(t->json, phase, t->rank, (uint32_t)stage);
    td_json_put_string(t->json, "name", "batch");
    td_json_put_string(t->json, "cat", "flow");
    td_json_put_string(t->json, "bp", "e");
    td_json_put_double(t->json, "id", (double)(number + (uint64_t)t->rank * UINT32_MAX));
    td_json_put_double(t->json, "ts", at_us);
    td_json_end_object(t->json);
}

static double put_interval(const trace *t, int track, const char *name, const td_interval *interval,
                           uint64_t number)
{
    const double at_us = 1e-3 * ((double)interval->start_ns - (double)t->start_ns);
    td_trace_begin_event(t->json, "X", t->rank, (uint32_t)track);
    td_json_put_string(t->json, "name", name);
    td_json_put_double(t->json, "ts", at_us);
    td_json_put_double(t->json, "dur", 1e-3 * (double)(interval->end_ns - interval->start_ns));
    td_json_put_object(t->json, "args");
    td_json_put_double(t->json, "batch", (double)number);
    td_json_end_object(t->json);
    td_json_end_object(t->json);
    return at_us;
}

static void put_batch(const trace *t, const td_batch_times *batch)
{
    for (int s = 0; s < TD_STAGE_COUNT; ++s) {
        if (batch->stages[s].end_ns == 0) continue;
        const double at_us = put_interval(t, s, td_stage_name((td_stage)s), &batch->stages[s], batch->number);
        if (s != TD_STAGE_LOAD) put_flow(t, s, batch->number, at_us);
    }
    if (batch->reduce.end_ns > 0)
        (void)put_interval(t, REDUCE_TRACK, "reduce", &batch->reduce, batch->number);
    if (batch->gather.end_ns > 0)
        (void)put_interval(t, GATHER_TRACK, "gather", &batch->gather, batch->number);
}

static void put_tracks(const trace *t, bool has_ranks)
{
    char name[32];
    for (int s = 0; s < TD_STAGE_COUNT; ++s)
        td_trace_put_name(t->json, "thread_name", t->rank, (uint32_t)s, TRACK_NAMES[s]);
    if (!has_ranks) return;
    (void)snprintf(name, sizeof name, "rank %u", t->rank);
    td_trace_put_name(t->json, "process_name", t->rank, 0, name);
    td_trace_put_name(t->json, "thread_name", t->rank, REDUCE_TRACK, "network: reduce");
    td_trace_put_name(t->json, "thread_name", t->rank, GATHER_TRACK, "network: gather");
}

td_status td_profile_write_trace(const td_profile *profile, const char *path)
{
    const bool has_ranks = profile->n_ranks > 1;
    const uint32_t n_ranks = has_ranks ? profile->n_ranks : 1;
    const td_batch_times *times = has_ranks ? profile->rank_times : profile->times;
    trace t = {.start_ns = find_start(times, n_ranks * profile->n_times)};
    td_status status = TD_OK;
    TD_TRY(td_json_create(NULL, 0, &t.json));
    td_json_begin_object(t.json);
    td_json_put_string(t.json, "displayTimeUnit", "ms");
    td_json_put_bool(t.json, "simulated", profile->is_simulated);
    td_json_put_array(t.json, "traceEvents");
    for (; t.rank < n_ranks; ++t.rank) {
        put_tracks(&t, has_ranks);
        for (size_t i = 0; i < profile->n_times; ++i)
            put_batch(&t, &times[t.rank * profile->n_times + i]);
    }
    TD_TRY(td_trace_end(t.json, path));
fail:
    td_json_destroy(t.json);
    return status;
}

/* ---------------------------------------------------------------- page */

static void put_bars(td_json *json, const td_profile *profile)
{
    const uint64_t start_ns = find_start(profile->times, profile->n_times);
    td_json_put_array(json, "tracks");
    for (int s = 0; s < TD_STAGE_COUNT; ++s)
        td_json_string(json, TRACK_NAMES[s]);
    td_json_end_array(json);
    td_json_put_array(json, "bars"); /* [track, batch, start ms, length ms] */
    for (size_t i = 0; i < profile->n_times; ++i) {
        for (int s = 0; s < TD_STAGE_COUNT; ++s) {
            const td_interval *t = &profile->times[i].stages[s];
            if (t->end_ns == 0) continue;
            td_json_begin_array(json);
            td_json_int(json, s);
            td_json_uint(json, profile->times[i].number);
            td_json_double(json, 1e-6 * (double)(t->start_ns - start_ns));
            td_json_double(json, 1e-6 * (double)(t->end_ns - t->start_ns));
            td_json_end_array(json);
        }
    }
    td_json_end_array(json);
}

td_status td_profile_write_html(const td_profile *profile, const char *path)
{
    td_json *json = NULL;
    td_status status = TD_OK;
    TD_TRY(td_json_create(NULL, 0, &json));
    td_json_begin_object(json);
    td_json_put_object(json, "profile");
    td_profile_put_json(json, profile);
    td_json_end_object(json);
    put_bars(json, profile);
    td_json_end_object(json);
    TD_TRY(td_page_write(path, PAGE, sizeof PAGE, json));
fail:
    td_json_destroy(json);
    return status;
}
