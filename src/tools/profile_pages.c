/* A profile as a trace and as a page. See profile.h. */
#include <string.h>

#include "base/error.h"
#include "base/file.h"
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

static uint64_t find_start(const td_profile *profile)
{
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < profile->n_times; ++i) {
        for (int s = 0; s < TD_STAGE_COUNT; ++s) {
            const td_interval *stage = &profile->times[i].stages[s];
            if (stage->end_ns > 0 && stage->start_ns < start) start = stage->start_ns;
        }
    }
    return start;
}

/* ---------------------------------------------------------------- trace */

/* What every event of a track begins with. */
static void begin_event(td_json *json, const char *phase, int stage)
{
    td_json_begin_object(json);
    td_json_put_string(json, "ph", phase);
    td_json_put_double(json, "pid", 1);
    td_json_put_double(json, "tid", stage + 1);
}

static void put_track(td_json *json, int stage)
{
    begin_event(json, "M", stage);
    td_json_put_string(json, "name", "thread_name");
    td_json_put_object(json, "args");
    td_json_put_string(json, "name", TRACK_NAMES[stage]);
    td_json_end_object(json);
    td_json_end_object(json);
}

/* An arrow from each stage of a batch to the next: "s" begins, "t" goes on, "f" ends it. */
static void put_flow(td_json *json, int stage, uint64_t number, double at_us)
{
    begin_event(json, stage == TD_STAGE_PREPARE ? "s" : stage == TD_STAGE_TRAIN ? "f" : "t", stage);
    td_json_put_string(json, "name", "batch");
    td_json_put_string(json, "cat", "flow");
    td_json_put_string(json, "bp", "e");
    td_json_put_double(json, "id", (double)number);
    td_json_put_double(json, "ts", at_us);
    td_json_end_object(json);
}

static void put_stage(td_json *json, const td_batch_times *batch, int stage, uint64_t start_ns)
{
    const td_interval *t = &batch->stages[stage];
    const double at_us = 1e-3 * (double)(t->start_ns - start_ns);
    begin_event(json, "X", stage);
    td_json_put_string(json, "name", td_stage_name((td_stage)stage));
    td_json_put_double(json, "ts", at_us);
    td_json_put_double(json, "dur", 1e-3 * (double)(t->end_ns - t->start_ns));
    td_json_put_object(json, "args");
    td_json_put_double(json, "batch", (double)batch->number);
    td_json_end_object(json);
    td_json_end_object(json);
    if (stage != TD_STAGE_LOAD) put_flow(json, stage, batch->number, at_us);
}

td_status td_profile_write_trace(const td_profile *profile, const char *path)
{
    td_json *json = NULL;
    const char *text;
    td_status status = TD_OK;
    const uint64_t start_ns = find_start(profile);
    TD_TRY(td_json_create(NULL, 0, &json));
    td_json_begin_object(json);
    td_json_put_string(json, "displayTimeUnit", "ms");
    td_json_put_bool(json, "simulated", profile->is_simulated);
    td_json_put_array(json, "traceEvents");
    for (int s = 0; s < TD_STAGE_COUNT; ++s)
        put_track(json, s);
    for (size_t i = 0; i < profile->n_times; ++i) {
        for (int s = 0; s < TD_STAGE_COUNT; ++s)
            if (profile->times[i].stages[s].end_ns > 0) put_stage(json, &profile->times[i], s, start_ns);
    }
    td_json_end_array(json);
    td_json_end_object(json);
    TD_TRY(td_json_finish(json, &text));
    TD_TRY(td_file_write_atomic(path, text, strlen(text)));
fail:
    td_json_destroy(json);
    return status;
}

/* ---------------------------------------------------------------- page */

static void put_bars(td_json *json, const td_profile *profile)
{
    const uint64_t start_ns = find_start(profile);
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
