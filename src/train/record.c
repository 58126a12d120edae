/* See record.h. */
#include "train/record.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_METRICS_BYTES = 1 << 30, MAX_TAG_BYTES = 128 };

struct td_record {
    FILE *metrics;
    td_events *events;
    char path[TD_FILE_PATH_BYTES];
};

/* ---------------------------------------------------------------- events as JSON */

const char *td_train_kind_name(td_train_kind kind)
{
    static const char *const NAMES[TD_TRAIN_KIND_COUNT] = {
        [TD_TRAIN_START] = "start",     [TD_TRAIN_STEP] = "step",       [TD_TRAIN_VALIDATION] = "validation",
        [TD_TRAIN_SAVED] = "saved",     [TD_TRAIN_SAMPLED] = "sampled", [TD_TRAIN_SKIPPED] = "skipped",
        [TD_TRAIN_WARNING] = "warning", [TD_TRAIN_END] = "end",
    };
    return kind < TD_TRAIN_KIND_COUNT ? NAMES[kind] : "unknown";
}

static void put_real(td_json *json, const char *key, double value)
{
    if (!isfinite(value)) return;
    td_json_put_double(json, key, value);
}

static void put_losses(td_json *json, const td_train_event *event)
{
    for (size_t i = 0; i < event->n_terms; ++i) {
        td_json_put_double(json, event->names[i], event->values[i]);
    }
}

static void put_step(td_json *json, const td_train_event *event)
{
    put_losses(json, event);
    put_real(json, "lr", event->lr);
    put_real(json, "grad_norm", event->norm);
    if (event->loss_scale > 0) put_real(json, "loss_scale", event->loss_scale);
    put_real(json, "ms_per_step", event->ms_per_step);
    put_real(json, "samples_per_s", event->samples_per_s);
    put_real(json, "audio_s_per_s", event->audio_s_per_s);
    put_real(json, "eta_s", event->eta_s);
    if (event->waits_for != NULL) {
        put_real(json, "model_utilisation", event->model_utilisation);
        put_real(json, "data_utilisation", event->data_utilisation);
        td_json_put_string(json, "waits_for", event->waits_for);
    }
    td_json_put_uint(json, "skipped", event->n_skipped);
}

/* Who the ranks are, or what they did. */
static void put_ranks(td_json *json, const td_train_event *event)
{
    if (event->per_rank == NULL) return;
    td_json_put_array(json, "per_rank");
    for (uint32_t r = 0; r < event->ranks; ++r) {
        const td_rank_figures *f = &event->per_rank[r];
        td_json_begin_object(json);
        td_json_put_uint(json, "rank", r);
        if (event->kind == TD_TRAIN_START) {
            td_json_put_string(json, "host", f->host);
            td_json_put_string(json, "device", f->device);
        } else {
            td_json_put_double(json, "step_ms", f->step_ms);
            td_json_put_double(json, "wait_ms", f->wait_ms);
            td_json_put_double(json, "reduce_ms", f->reduce_ms);
            td_json_put_double(json, "share", f->share);
        }
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static void put_device(td_json *json, const char *role, const td_device_info *device)
{
    if (device == NULL) return;
    td_json_begin_object(json);
    td_json_put_string(json, "role", role);
    td_json_put_string(json, "selector", device->selector);
    td_json_put_string(json, "name", device->name);
    td_json_put_string(json, "driver", device->driver);
    td_json_put_string(json, "api", td_api_word(device->api));
    td_json_put_uint(json, "memory_bytes", device->caps.memory_bytes);
    td_json_end_object(json);
}

static void put_start(td_json *json, const td_train_event *event)
{
    td_json_put_uint(json, "parameters", event->parameters);
    td_json_put_uint(json, "batch_size", event->batch_size);
    td_json_put_uint(json, "batches_per_epoch", event->batches_per_epoch);
    td_json_put_string(json, "layout", event->layout);
    td_json_put_uint(json, "start_step", event->start_step);
    if (event->max_step > 0) td_json_put_uint(json, "max_step", event->max_step);
    td_json_key(json, "devices");
    td_json_begin_array(json);
    put_device(json, "data", event->data_device);
    put_device(json, "model", event->model_device);
    td_json_end_array(json);
}

void td_train_event_json(td_json *json, const td_train_event *event)
{
    td_json_begin_object(json);
    td_json_put_string(json, "event", td_train_kind_name(event->kind));
    td_json_put_uint(json, "step", event->step);
    td_json_put_uint(json, "epoch", event->epoch);
    td_json_put_uint(json, "ranks", event->ranks > 0 ? event->ranks : 1);
    if (event->kind == TD_TRAIN_STEP) put_step(json, event);
    if (event->kind == TD_TRAIN_START) put_start(json, event);
    if (event->kind == TD_TRAIN_VALIDATION) {
        put_losses(json, event);
        put_real(json, "free_running_distance", event->distance);
        td_json_put_bool(json, "best", event->is_best);
    }
    if (event->kind == TD_TRAIN_END) td_json_put_uint(json, "skipped", event->n_skipped);
    if (event->took_s > 0) put_real(json, "took_s", event->took_s);
    put_ranks(json, event);
    if (event->text != NULL) {
        td_json_put_string(json, "text", event->text);
    }
    td_json_end_object(json);
}

/* ---------------------------------------------------------------- files */

/* The step that a line tells, or 0. */
static uint64_t step_of(const char *line, size_t bytes)
{
    static const char KEY[] = "\"step\":";
    const char *at = memmem(line, bytes, KEY, strlen(KEY));
    return at != NULL ? strtoull(at + strlen(KEY), NULL, 10) : 0;
}

static td_status drop_lines_past(const char *path, uint64_t step)
{
    td_status status = TD_OK;
    char *text = NULL;
    size_t bytes = 0, kept = 0;
    if (!td_file_exists(path)) return TD_OK;
    TD_TRY(td_file_read(path, MAX_METRICS_BYTES, &text, &bytes));
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        if (end == NULL) break; /* torn by a crash */
        const size_t line = (size_t)(end - text) + 1 - at;
        if (step_of(text + at, line) <= step) {
            memmove(text + kept, text + at, line);
            kept += line;
        }
        at += line;
    }
    if (kept < bytes) TD_TRY(td_file_write_atomic(path, text, kept));
fail:
    free(text);
    return status;
}

td_status td_record_open(const td_run_dir *run, const char *events_dir, uint64_t step, td_record **out)
{
    td_status status = TD_OK;
    td_record *record = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&record));
    TD_TRY(td_run_dir_path(run, "metrics.jsonl", record->path));
    TD_TRY(drop_lines_past(record->path, step));
    record->metrics = fopen(record->path, "ae");
    TD_FAIL_IF(record->metrics == NULL, TD_ERR_IO,
               "cannot write '%s': %s; choose another training.checkpoint_dir", record->path,
               strerror(errno));
    TD_TRY(td_file_make_dirs(events_dir));
    TD_TRY(td_events_open(events_dir, step, &record->events));
    *out = record;
    return TD_OK;
fail:
    td_record_close(record);
    return status;
}

void td_record_close(td_record *record)
{
    if (record == NULL) return;
    if (record->metrics != NULL) fclose(record->metrics);
    td_events_close(record->events);
    free(record);
}

td_events *td_record_events(td_record *record)
{
    return record->events;
}

static td_status write_line(td_record *record, const td_train_event *event)
{
    td_status status = TD_OK;
    td_json *json = NULL;
    TD_TRY(td_json_create(record->metrics, 0, &json));
    td_train_event_json(json, event);
    status = td_json_finish(json, NULL);
    if (status != TD_OK) status = td_error_context("'%s'", record->path);
fail:
    td_json_destroy(json);
    return status;
}

static td_status write_scalars(td_record *record, const td_train_event *event)
{
    char tag[MAX_TAG_BYTES];
    const bool is_step = event->kind == TD_TRAIN_STEP;
    const struct {
        const char *tag;
        double value;
    } extra[] = {{"train/learning_rate", event->lr},
                 {"train/gradient_norm", event->norm},
                 {"speed/ms_per_step", event->ms_per_step},
                 {"speed/audio_s_per_s", event->audio_s_per_s}};
    for (size_t i = 0; i < event->n_terms; ++i) {
        snprintf(tag, sizeof tag, "%s/%s", is_step ? "train" : "validation", event->names[i]);
        TD_CHECK(td_events_scalar(record->events, event->step, tag, event->values[i]));
    }
    if (is_step && event->loss_scale > 0)
        TD_CHECK(td_events_scalar(record->events, event->step, "train/loss_scale", event->loss_scale));
    for (size_t i = 0; is_step && i < sizeof extra / sizeof extra[0]; ++i)
        TD_CHECK(td_events_scalar(record->events, event->step, extra[i].tag, extra[i].value));
    if (!is_step && isfinite(event->distance))
        TD_CHECK(td_events_scalar(record->events, event->step, "validation/free_running_distance",
                                  event->distance));
    return td_events_flush(record->events);
}

td_status td_record_event(td_record *record, const td_train_event *event)
{
    if (event->is_tick) return TD_OK;
    TD_CHECK(write_line(record, event));
    if (event->kind == TD_TRAIN_STEP || event->kind == TD_TRAIN_VALIDATION)
        TD_CHECK(write_scalars(record, event));
    return TD_OK;
}
