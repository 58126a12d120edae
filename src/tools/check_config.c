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
#include "train/plans.h"

enum { ROUND = 32, SMALL = 2, LARGE = 4, USUAL_WORKERS = 8, USUAL_PREFETCH = 8, USUAL_BATCH = 16 };

/* Share of a device's memory that a run may count on: the rest is the driver's and the desktop's. */
static const double SHARE = 0.9;

/* ---------------------------------------------------------------- the report */

td_status td_config_report_add(td_config_report *report, bool is_error, const char *key, const char *suggest,
                               const char *format, ...)
{
    td_status status = TD_OK;
    va_list args;
    TD_TRY(td_alloc_grow(&report->findings, &report->capacity, report->count + 1, sizeof *report->findings));
    td_config_finding *finding = &report->findings[report->count++];
    *finding = (td_config_finding){.is_error = is_error};
    (void)snprintf(finding->key, sizeof finding->key, "%s", key);
    (void)snprintf(finding->suggest, sizeof finding->suggest, "%s", suggest);
    va_start(args, format);
    (void)vsnprintf(finding->message, sizeof finding->message, format, args);
    va_end(args);
fail:
    return status;
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

/* The longest row, 0 where there is no data to look at. */
typedef struct lengths {
    uint32_t frames, tokens;
} lengths;

static uint32_t round_up(uint32_t n)
{
    return (n + ROUND - 1) / ROUND * ROUND;
}

static td_status measure_rows(const td_dataset *dataset, lengths *out)
{
    const td_mel_config mel = td_mel_config_default();
    td_sampler_row *rows = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&rows, dataset->n_train + 1));
    td_loader_lengths(dataset, dataset->train, dataset->n_train, &mel, rows);
    for (size_t i = 0; i < dataset->n_train; ++i) {
        if (rows[i].frames > out->frames) out->frames = rows[i].frames;
        if (rows[i].tokens > out->tokens) out->tokens = rows[i].tokens;
    }
fail:
    free(rows);
    return status;
}

static td_status check_length(td_config_report *report, const char *key, const char *what, uint32_t most,
                              uint32_t longest)
{
    char suggest[16];
    if (longest <= most) return TD_OK;
    (void)snprintf(suggest, sizeof suggest, "%u", round_up(longest));
    return td_config_report_add(report, true, key, suggest,
                                "static shapes of %u %s are smaller than the data, whose longest row has %u",
                                most, what, longest);
}

static td_status check_data(const td_config_request *request, td_config_report *report, lengths *longest)
{
    static const char KEY[] = "data.train_data";
    const td_feed_options *feed = &request->settings->feed;
    td_pool *pool = NULL;
    td_dataset *dataset = NULL;
    td_status status = TD_OK;
    if (!td_file_exists(feed->dataset.dir))
        return td_config_report_add(report, true, KEY, "", "there is no folder '%s'", feed->dataset.dir);
    TD_TRY(td_pool_create(0, &pool));
    if (td_dataset_open(&feed->dataset, pool, &dataset) != TD_OK) {
        TD_TRY(td_config_report_add(report, true, KEY, "", "%s", td_error_last()->message));
    } else {
        TD_TRY(measure_rows(dataset, longest));
        if (feed->n_buckets == 1) {
            TD_TRY(
                check_length(report, "data.max_mel_frames", "frames", feed->max_mel_frames, longest->frames));
            TD_TRY(check_length(report, "data.max_text_length", "tokens", feed->max_text_length,
                                longest->tokens));
        }
    }
fail:
    td_dataset_close(dataset);
    td_pool_destroy(pool);
    return status;
}

/* ---------------------------------------------------------------- memory */

/* A simulated device without an end of memory, to plan on. */
typedef struct planner {
    td_registry *registry;
    td_device *device;
    td_memory *memory;
} planner;

static td_status open_planner(planner *p)
{
    const td_device_info *info;
    td_registry_options options;
    td_status status = TD_OK;
    td_registry_options_from_env(&options);
    options.sim_model = "memory_mb=16777216,max_alloc_mb=2048";
    options.visible = NULL;
    TD_TRY(td_registry_open(&options, &p->registry));
    TD_TRY(td_registry_select(p->registry, "sim:0", &info));
    TD_TRY(td_device_open(p->registry, info, &p->device));
    TD_TRY(td_memory_create(p->device, "model", 0, &p->memory));
fail:
    return status;
}

static void close_planner(planner *p)
{
    td_memory_destroy(p->memory);
    td_device_close(p->device);
    td_registry_close(p->registry);
}

/* The largest shape that these settings can meet. */
static td_model_shape find_shape(const td_train_settings *s, const lengths *longest)
{
    const td_mel_config mel = td_mel_config_default();
    const bool is_static = s->feed.n_buckets == 1;
    uint32_t frames = s->feed.max_mel_frames, tokens = s->feed.max_text_length;
    if (!is_static && longest->frames > 0 && longest->frames < frames) frames = longest->frames;
    if (!is_static && longest->tokens > 0 && longest->tokens < tokens) tokens = longest->tokens;
    td_model_shape shape = {.frames = round_up(frames), .tokens = round_up(tokens)};
    if (s->model.speaker_encoder) {
        const double seconds = s->feed.reference_s > 0 ? s->feed.reference_s : 3;
        shape.reference_frames = td_mel_frames(&mel, (uint64_t)(seconds * mel.rate));
    }
    return shape;
}

static td_status plan_bytes(const planner *p, const td_train_settings *s, td_model_shape shape,
                            uint32_t items, double *out)
{
    td_plans *plans = NULL;
    td_shaped_plan *shaped;
    td_plan_stats stats;
    td_status status = TD_OK;
    td_plans_settings settings = {.memory = p->memory,
                                  .model = s->model,
                                  .losses = s->losses,
                                  .grad_accum = s->grad_accum,
                                  .average = s->average,
                                  .plan = s->plan,
                                  .n_slots = 1};
    shape.items = items;
    if (settings.model.max_frames < shape.frames) settings.model.max_frames = shape.frames;
    if (settings.model.max_tokens < shape.tokens) settings.model.max_tokens = shape.tokens;
    TD_TRY(td_plans_create(&settings, &shape, &plans));
    TD_TRY(td_plans_get(plans, TD_USE_TRAIN, &shape, &shaped));
    td_plan_get_stats(shaped->plan, &stats);
    const uint32_t ahead = s->prefetch_size > 0 ? s->prefetch_size : USUAL_PREFETCH;
    const double batch_bytes = 4.0 * items * (shape.frames + shape.reference_frames) * s->model.n_mels;
    *out = (double)(stats.arena_bytes + stats.store_bytes) + (ahead + 1) * batch_bytes;
fail:
    td_plans_destroy(plans);
    return status;
}

/* What is needed grows in a line with the items, as in train/batch_size.c. */
static td_status estimate(const td_train_settings *s, const lengths *longest, uint64_t limit,
                          td_config_report *report)
{
    planner p = {0};
    double small = 0, large = 0;
    const td_model_shape shape = find_shape(s, longest);
    td_status status = TD_OK;
    TD_TRY(open_planner(&p));
    TD_TRY(plan_bytes(&p, s, shape, SMALL, &small));
    TD_TRY(plan_bytes(&p, s, shape, LARGE, &large));
    const double per_item = large > small ? (large - small) / (LARGE - SMALL) : 1;
    const double fixed = small - SMALL * per_item;
    const double fits = ((double)limit - fixed) / per_item;
    report->limit_bytes = limit;
    report->need_bytes = (uint64_t)(fixed + per_item * (s->auto_batch ? 1 : s->feed.batch_size));
    report->largest_batch = fits < 1 ? 0 : fits > 4096 ? 4096 : (uint32_t)fits;
    if (report->largest_batch > 8) report->largest_batch = report->largest_batch / 8 * 8;
fail:
    close_planner(&p);
    return status;
}

static td_status check_memory(const td_config_request *request, const lengths *longest,
                              td_config_report *report)
{
    const td_train_settings *s = request->settings;
    const uint64_t memory = request->model ? request->model->caps.memory_bytes : 0;
    const uint64_t limit =
        s->model_limit_bytes > 0 ? s->model_limit_bytes : (uint64_t)(SHARE * (double)memory);
    char need[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES], suggest[16];
    td_status status = TD_OK;
    if (limit == 0) return TD_OK;
    TD_TRY(estimate(s, longest, limit, report));
    td_text_format_bytes(report->need_bytes, need);
    td_text_format_bytes(limit, room);
    if (report->need_bytes > limit && report->largest_batch == 0)
        TD_TRY(td_config_report_add(report, true, "model.model_size", "",
                                    "not even one row fits: the model needs %s of %s; choose a smaller "
                                    "model.model_size, or set model.gradient_checkpointing",
                                    need, room));
    else if (report->need_bytes > limit) {
        (void)snprintf(suggest, sizeof suggest, "%u", report->largest_batch);
        TD_TRY(td_config_report_add(
            report, true, "training.batch_size", suggest,
            "batches of %u rows of %u frames need %s on the model device, which may use %s; "
            "model.gradient_checkpointing and training.mixed_precision save memory too",
            s->feed.batch_size, find_shape(s, longest).frames, need, room));
    }
fail:
    return status;
}

static td_status check_limit(td_config_report *report, const char *key, uint64_t limit,
                             const td_device_info *device)
{
    char asked[TD_TEXT_FORMAT_BYTES], there[TD_TEXT_FORMAT_BYTES], suggest[24];
    if (!device || limit <= device->caps.memory_bytes) return TD_OK;
    td_text_format_bytes(limit, asked);
    td_text_format_bytes(device->caps.memory_bytes, there);
    (void)snprintf(suggest, sizeof suggest, "%" PRIu64,
                   (uint64_t)(SHARE * (double)device->caps.memory_bytes) >> 20);
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
    td_status status = TD_OK;
    if (s->feed.workers > 0 && s->feed.workers < most) {
        (void)snprintf(suggest, sizeof suggest, "%u", most);
        TD_TRY(td_config_report_add(report, false, "pipeline.num_workers", suggest,
                                    "%zu threads load data, but the computer has %u cores; 0 takes all",
                                    s->feed.workers, request->cores));
    }
    if (s->prefetch_size > 0 && s->prefetch_size < USUAL_PREFETCH)
        TD_TRY(td_config_report_add(report, false, "pipeline.prefetch_buffer_size", "8",
                                    "%u batches ahead leave little room for steps of different length",
                                    s->prefetch_size));
    if (s->feed.n_buckets != 1)
        TD_TRY(td_config_report_add(
            report, false, "pipeline.enable_static_shapes", "true",
            "shapes go by length: less padding, but a plan for each and steps that vary more"));
    if (request->data && request->model && request->data != request->model && s->model_limit_bytes == 0)
        TD_TRY(td_config_report_add(report, false, "pipeline.enable_memory_isolation", "true",
                                    "two devices without limits: a role may take all memory of its device"));
fail:
    return status;
}

static td_status warn_model(const td_config_request *request, td_config_report *report)
{
    const td_train_settings *s = request->settings;
    const bool is_gpu = request->model && request->model->type != TD_DEVICE_CPU;
    char suggest[16];
    td_status status = TD_OK;
    if (!s->auto_batch && s->feed.batch_size < USUAL_BATCH) {
        const uint32_t most = report->largest_batch;
        (void)snprintf(suggest, sizeof suggest, "%u", most > 0 && most < USUAL_BATCH ? most : USUAL_BATCH);
        if (most == 0 || most > s->feed.batch_size)
            TD_TRY(td_config_report_add(report, false, "training.batch_size", suggest,
                                        "batches of %u rows leave a device idle between launches",
                                        s->feed.batch_size));
    }
    if (is_gpu && !s->plan.bf16)
        TD_TRY(
            td_config_report_add(report, false, "training.mixed_precision", "true",
                                 "the model device could keep activations as bfloat16, in half the memory"));
fail:
    return status;
}

td_status td_check_config(const td_config_request *request, td_config_report *report)
{
    const td_train_settings *s = request->settings;
    lengths longest = {0};
    td_status status = TD_OK;
    if (request->has_data) TD_TRY(check_data(request, report, &longest));
    TD_TRY(check_limit(report, "pipeline.model_gpu_memory", s->model_limit_bytes, request->model));
    if (request->data != request->model)
        TD_TRY(check_limit(report, "pipeline.data_gpu_memory", s->data_limit_bytes, request->data));
    TD_TRY(check_memory(request, &longest, report));
    TD_TRY(check_schedule(s, report));
    TD_TRY(warn_pipeline(request, report));
    TD_TRY(warn_model(request, report));
fail:
    return status;
}
