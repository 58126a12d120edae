/* See check_config.h. */
#include "tools/check_config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "tools/planner.h"

enum { ROUND = 32, USUAL_WORKERS = 8, USUAL_PREFETCH = 8, USUAL_BATCH = 16 };

/* ---------------------------------------------------------------- the report */

td_status td_config_report_add(td_config_report *report, bool is_error, const char *key, const char *suggest,
                               const char *format, ...)
{
    va_list args;
    TD_CHECK(
        td_alloc_grow(&report->findings, &report->capacity, report->count + 1, sizeof *report->findings));
    td_config_finding *finding = &report->findings[report->count++];
    *finding = (td_config_finding){.is_error = is_error};
    (void)snprintf(finding->key, sizeof finding->key, "%s", key);
    (void)snprintf(finding->suggest, sizeof finding->suggest, "%s", suggest);
    va_start(args, format);
    (void)vsnprintf(finding->message, sizeof finding->message, format, args);
    va_end(args);
    return TD_OK;
}

size_t td_config_report_errors(const td_config_report *report)
{
    size_t n = 0;
    for (size_t i = 0; i < report->count; ++i)
        n += report->findings[i].is_error;
    return n;
}

void td_config_report_clear(td_config_report *report)
{
    free(report->findings);
    *report = (td_config_report){0};
}

/* ---------------------------------------------------------------- data */

static td_status check_length(td_config_report *report, const char *key, const char *what, uint32_t most,
                              uint32_t longest)
{
    char suggest[16];
    if (longest <= most) return TD_OK;
    (void)snprintf(suggest, sizeof suggest, "%u", (longest + ROUND - 1) / ROUND * ROUND);
    return td_config_report_add(report, true, key, suggest,
                                "static shapes of %u %s are smaller than the data, whose longest row has %u",
                                most, what, longest);
}

static td_status check_data(const td_config_request *request, td_config_report *report, td_lengths *longest)
{
    static const char KEY[] = "data.train_data";
    const td_data_settings *data = &request->settings->data;
    if (!td_file_exists(data->dataset.dir))
        return td_config_report_add(report, true, KEY, "", "there is no folder '%s'", data->dataset.dir);
    if (td_planner_measure(data, longest) != TD_OK)
        return td_config_report_add(report, true, KEY, "", "%s", td_error_last()->message);
    if (data->n_buckets != 1) return TD_OK;
    TD_CHECK(check_length(report, "data.max_mel_frames", "frames", data->max_mel_frames, longest->frames));
    return check_length(report, "data.max_text_length", "tokens", data->max_text_length, longest->tokens);
}

/* ---------------------------------------------------------------- memory */

static td_status estimate(const td_train_settings *s, td_lengths longest, uint64_t limit,
                          td_config_report *report)
{
    td_planner planner;
    td_need need;
    td_status status = TD_OK;
    TD_TRY(td_planner_open(NULL, &planner));
    TD_TRY(td_run_need(planner.memory, s, td_run_shape(s, longest), &need));
    report->limit_bytes = limit;
    report->need_bytes = td_need_bytes(&need, s->auto_batch ? 1 : s->data.batch_size);
    report->largest_batch = td_need_largest(&need, limit);
fail:
    td_planner_close(&planner);
    return status;
}

static td_status check_memory(const td_config_request *request, td_lengths longest, td_config_report *report)
{
    const td_train_settings *s = request->settings;
    const uint64_t memory = request->model ? request->model->caps.memory_bytes : 0;
    const uint64_t limit =
        s->model_limit_bytes > 0 ? s->model_limit_bytes : (uint64_t)(TD_MEMORY_SHARE * (double)memory);
    char need[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES], suggest[16];
    if (limit == 0) return TD_OK;
    TD_CHECK(estimate(s, longest, limit, report));
    td_text_format_bytes(report->need_bytes, need);
    td_text_format_bytes(limit, room);
    if (report->need_bytes > limit && report->largest_batch == 0)
        TD_CHECK(td_config_report_add(report, true, "model.model_size", "",
                                      "not even one row fits: the model needs %s of %s; choose a smaller "
                                      "model.model_size, or set model.gradient_checkpointing",
                                      need, room));
    else if (report->need_bytes > limit) {
        (void)snprintf(suggest, sizeof suggest, "%u", report->largest_batch);
        TD_CHECK(td_config_report_add(
            report, true, "training.batch_size", suggest,
            "batches of %u rows of %u frames need %s on the model device, which may use %s; "
            "model.gradient_checkpointing and training.mixed_precision save memory too",
            s->data.batch_size, td_run_shape(s, longest).frames, need, room));
    }
    return TD_OK;
}

static td_status check_limit(td_config_report *report, const char *key, uint64_t limit,
                             const td_device_info *device)
{
    char asked[TD_TEXT_FORMAT_BYTES], there[TD_TEXT_FORMAT_BYTES], suggest[24];
    if (!device || limit <= device->caps.memory_bytes) return TD_OK;
    td_text_format_bytes(limit, asked);
    td_text_format_bytes(device->caps.memory_bytes, there);
    (void)snprintf(suggest, sizeof suggest, "%" PRIu64,
                   (uint64_t)(TD_MEMORY_SHARE * (double)device->caps.memory_bytes) >> 20);
    return td_config_report_add(report, true, key, suggest, "the limit of %s is more than the %s of %s",
                                asked, there, device->name);
}

/* ---------------------------------------------------------------- rates */

static td_status check_schedule(const td_train_settings *s, td_config_report *report)
{
    td_schedule schedule = s->schedule;
    const bool is_noam = schedule.kind == TD_SCHEDULE_NOAM;
    if (schedule.decay_steps == 0) schedule.decay_steps = 100000;
    if (td_schedule_check(&schedule) == TD_OK) return TD_OK;
    const char *message = td_error_last()->message;
    if (strstr(message, "min_lr is"))
        return td_config_report_add(report, true, "training.min_lr_share", "0.02", "%s", message);
    if (is_noam && schedule.warmup_steps == 0)
        return td_config_report_add(report, true, "training.warmup_steps", "4000", "%s", message);
    if (strstr(message, "decay_steps is"))
        return td_config_report_add(report, true, "training.decay_steps", "0", "%s", message);
    return td_config_report_add(report, true, "training.lr", "0.001", "%s", message);
}

/* ---------------------------------------------------------------- warnings */

static td_status warn_pipeline(const td_config_request *request, td_config_report *report)
{
    const td_train_settings *s = request->settings;
    const uint32_t most = request->cores < USUAL_WORKERS ? request->cores : USUAL_WORKERS;
    char suggest[16];
    if (s->data.workers > 0 && s->data.workers < most) {
        (void)snprintf(suggest, sizeof suggest, "%u", most);
        TD_CHECK(td_config_report_add(report, false, "pipeline.num_workers", suggest,
                                      "%zu threads load data, but the computer has %u cores; 0 takes all",
                                      s->data.workers, request->cores));
    }
    if (s->prefetch_size > 0 && s->prefetch_size < USUAL_PREFETCH)
        TD_CHECK(td_config_report_add(report, false, "pipeline.prefetch_buffer_size", "8",
                                      "%u batches ahead leave little room for steps of different length",
                                      s->prefetch_size));
    const bool is_pair = request->data && request->model && request->data != request->model;
    if (is_pair && s->data.n_buckets != 1 && s->prefetch_size > 0 && s->prefetch_size < USUAL_PREFETCH)
        TD_CHECK(td_config_report_add(report, false, "pipeline.enable_static_shapes", "true",
                                      "shapes go by length, so steps vary, and %u batches ahead cannot even "
                                      "that out",
                                      s->prefetch_size));
    if (is_pair && s->model_limit_bytes == 0)
        TD_CHECK(
            td_config_report_add(report, false, "pipeline.enable_memory_isolation", "true",
                                 "two devices without limits: a role may take all memory of its device"));
    return TD_OK;
}

/* Only where voices were measured to need more; a voice that goes on from another does not start from nothing. */
static td_status warn_budget(const td_train_settings *s, td_config_report *report)
{
    const uint64_t least = s->model.family->least_steps;
    char suggest[24];
    if (s->init_from || s->max_steps == 0 || s->max_steps >= least) return TD_OK;
    (void)snprintf(suggest, sizeof suggest, "%" PRIu64, least);
    return td_config_report_add(
        report, false, "training.max_steps", suggest,
        "%" PRIu64 " updates are few for a voice of the family %s, which from nothing took about "
        "%" PRIu64 " to be understood",
        s->max_steps, s->model.family->name, least);
}

/* A family's own advice is not doubted. */
static bool has_usual(const td_model_config *model, const char *key)
{
    if (model->family->usual == NULL) return false;
    for (const td_usual *row = model->family->usual(&model->values); row->key != NULL; ++row)
        if (strcmp(row->key, key) == 0) return true;
    return false;
}

static td_status warn_model(const td_config_request *request, td_config_report *report)
{
    const td_train_settings *s = request->settings;
    const bool is_gpu = request->model && request->model->type != TD_DEVICE_CPU;
    char suggest[16];
    if (is_gpu && !s->auto_batch && s->data.batch_size < USUAL_BATCH &&
        !has_usual(&s->model, "training.batch_size")) {
        const uint32_t most = report->largest_batch;
        (void)snprintf(suggest, sizeof suggest, "%u", most > 0 && most < USUAL_BATCH ? most : USUAL_BATCH);
        if (most == 0 || most > s->data.batch_size)
            TD_CHECK(td_config_report_add(report, false, "training.batch_size", suggest,
                                          "batches of %u rows leave a graphics card idle between launches",
                                          s->data.batch_size));
    }
    if (is_gpu && !s->plan.half && !has_usual(&s->model, "training.mixed_precision"))
        TD_CHECK(
            td_config_report_add(report, false, "training.mixed_precision", "true",
                                 "the model device could keep activations as bfloat16, in half the memory"));
    return TD_OK;
}

td_status td_check_config(const td_config_request *request, td_config_report *report)
{
    const td_train_settings *s = request->settings;
    td_lengths longest = {0};
    if (request->has_data) TD_CHECK(check_data(request, report, &longest));
    TD_CHECK(check_limit(report, "pipeline.model_gpu_memory", s->model_limit_bytes, request->model));
    if (request->data != request->model)
        TD_CHECK(check_limit(report, "pipeline.data_gpu_memory", s->data_limit_bytes, request->data));
    TD_CHECK(check_memory(request, longest, report));
    TD_CHECK(check_schedule(s, report));
    TD_CHECK(warn_pipeline(request, report));
    TD_CHECK(warn_model(request, report));
    return warn_budget(s, report);
}
