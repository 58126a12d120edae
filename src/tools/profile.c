/* Figures and verdicts of a profile. See profile.h. */
#include "tools/profile.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#define LONGEST_MS 40.0 /* of a stage that is run for a forecast */

void td_profile_free(td_profile *profile)
{
    free(profile->times);
    free(profile->rank_times);
    profile->times = profile->rank_times = NULL;
    profile->n_times = 0;
}

/* ---------------------------------------------------------------- verdicts */

static void add_verdict(td_profile *profile, const char *code, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void add_verdict(td_profile *profile, const char *code, const char *advice, const char *format, ...)
{
    td_verdict *verdict = &profile->verdicts[profile->n_verdicts++];
    va_list args;
    verdict->code = code;
    (void)snprintf(verdict->advice, sizeof verdict->advice, "%s", advice);
    va_start(args, format);
    (void)vsnprintf(verdict->message, sizeof verdict->message, format, args);
    va_end(args);
}

static double get_share(const td_pipeline_figures *f, td_stage stage)
{
    return f->step_ms.mean > 0 ? f->stage_ms[stage].mean / f->step_ms.mean : 0;
}

/* A stage that takes long but runs beside the training costs nothing yet. */
static const char *tell_hidden(const td_pipeline_figures *f)
{
    return f->model_utilisation >= 0.95 ? "; hidden behind training so far" : "";
}

static void judge_phases(td_profile *profile)
{
    const td_pipeline_figures *f = &profile->figures;
    const double load = get_share(f, TD_STAGE_LOAD), transfer = get_share(f, TD_STAGE_TRANSFER);
    const double train = get_share(f, TD_STAGE_TRAIN);
    if (load > 0.20)
        add_verdict(profile, "load_slow",
                    "raise --num-workers, keep mels with --mel-cache, or put the dataset on a faster disk; "
                    "`tandem analyze` tells which",
                    "loading takes %.0f %% of a step%s", 100 * load, tell_hidden(f));
    if (transfer > 0.15)
        add_verdict(profile, "transfer_slow",
                    "choose two devices on one PCIe root, raise --prefetch-buffer-size, or give both roles "
                    "to one device",
                    "transfer takes %.0f %% of a step%s", 100 * transfer, tell_hidden(f));
    if (train < 0.50)
        add_verdict(profile, "train_small",
                    "raise --batch-size: the model device has time for more, or see what holds it up above",
                    "training is only %.0f %% of a step", 100 * train);
}

static void judge_devices(td_profile *profile)
{
    const td_pipeline_figures *f = &profile->figures;
    if (td_pipeline_waits_unevenly(f))
        add_verdict(
            profile, "steps_vary",
            profile->is_single
                ? "raise --prefetch-buffer-size, and let nothing else run on the device"
                : "raise --buffer-size and --prefetch-buffer-size, and let nothing else run on the devices",
            "steps vary by %.2f of their mean, since the model device waits for some of the batches", f->cv);
    else if (td_pipeline_varies(f))
        add_verdict(
            profile, "lengths_vary",
            "nothing to mend: --enable-static-shapes would make all steps alike, as long as the longest",
            "steps vary by %.2f of their mean with the work that their batches are, not by waiting", f->cv);
    if (f->model_utilisation < 0.70)
        add_verdict(profile, "model_starved",
                    f->slowest == TD_STAGE_TRAIN
                        ? "raise --pipeline-depth and --prefetch-buffer-size"
                        : "make that stage faster, or give the stronger device its role",
                    "the model device works %.0f %% of the time; the %s stage sets the pace",
                    100 * f->model_utilisation, td_stage_name(f->slowest));
    if (!profile->is_single && f->data_utilisation > 0.80)
        add_verdict(profile, "data_busy",
                    "keep mels with --mel-cache, or give the data role to a faster device",
                    "the data device works %.0f %% of the time: the %s stage is %s the pace of training",
                    100 * f->data_utilisation, td_stage_name(TD_STAGE_PREPARE),
                    f->slowest == TD_STAGE_PREPARE ? "setting" : "near");
}

/* All times from the first on, longer. */
static void stretch_times(td_profile *profile)
{
    uint64_t zero_ns = UINT64_MAX;
    const double k = profile->stretch;
    for (size_t i = 0; i < profile->n_times * TD_STAGE_COUNT; ++i) {
        const td_interval *t = &profile->times[i / TD_STAGE_COUNT].stages[i % TD_STAGE_COUNT];
        if (t->end_ns > 0 && t->start_ns < zero_ns) zero_ns = t->start_ns;
    }
    for (size_t i = 0; i < profile->n_times * TD_STAGE_COUNT; ++i) {
        td_interval *t = &profile->times[i / TD_STAGE_COUNT].stages[i % TD_STAGE_COUNT];
        if (t->end_ns == 0) continue;
        t->start_ns = zero_ns + (uint64_t)(k * (double)(t->start_ns - zero_ns));
        t->end_ns = zero_ns + (uint64_t)(k * (double)(t->end_ns - zero_ns));
        t->busy_ns = (uint64_t)(k * (double)t->busy_ns);
    }
    for (size_t i = 0; i < profile->n_times; ++i)
        profile->times[i].waited_ns = (uint64_t)(k * (double)profile->times[i].waited_ns);
}

td_status td_profile_read(td_monitor *monitor, size_t capacity, size_t n_warm_up, td_profile *profile)
{
    TD_CHECK(TD_NEW_ARRAY(&profile->times, capacity));
    profile->n_times = td_monitor_read(monitor, profile->times);
    profile->n_warm_up = n_warm_up;
    if (profile->stretch > 0) stretch_times(profile);
    TD_REFUSE_IF(profile->n_times < n_warm_up + 2, TD_ERR_ARGUMENT,
                 "%zu steps are too few for figures after %zu to warm up; raise profile.num_steps",
                 profile->n_times, n_warm_up);
    (void)td_pipeline_figures_of(profile->times, profile->n_times, n_warm_up, profile->is_single,
                                 &profile->figures);
    judge_phases(profile);
    judge_devices(profile);
    return TD_OK;
}

static td_status simulate(const td_simulation *simulation, double stretch, td_profile *out)
{
    td_monitor *monitor = NULL;
    td_status status = TD_OK;
    *out = (td_profile){.is_simulated = true, .is_single = simulation->is_single, .stretch = stretch};
    (void)snprintf(out->data_device, sizeof out->data_device, "sim:0");
    (void)snprintf(out->model_device, sizeof out->model_device, simulation->is_single ? "sim:0" : "sim:1");
    TD_TRY(td_monitor_create(simulation->steps, simulation->is_single, &monitor));
    TD_TRY(td_simulate(simulation, monitor));
    /* What was prepared before the first step flatters the figures of a single device until it is used up. */
    const size_t ahead =
        simulation->is_serial ? 1 : (size_t)simulation->buffer_size + simulation->prefetch_size;
    TD_TRY(td_profile_read(monitor, simulation->steps,
                           ahead < simulation->steps / 2 ? ahead : simulation->steps / 2, out));
fail:
    td_monitor_destroy(monitor);
    return status;
}

td_status td_profile_simulate(const td_simulation *simulation, td_profile *out)
{
    return simulate(simulation, 0, out);
}

/* Long stages are run shorter, by one factor, and their times are stretched again: nobody is to wait for the
 * steps of a large model. What the host adds then counts for more than it would. */
td_status td_profile_forecast(const td_profile_forecast_request *request, const td_simulation *simulation,
                              td_profile *out)
{
    const td_mel_config mel = td_mel_config_default();
    td_simulation s = *simulation;
    td_forecast f;
    TD_CHECK(td_forecast_stages(request->data, request->model, request->settings, request->longest, &f));
    s.is_single = request->data == NULL;
    const double longest_ms = fmax(f.train_ms, fmax(f.data_ms, f.transfer_ms));
    const double stretch = fmax(1, longest_ms / LONGEST_MS);
    s.data_ms = f.data_ms / stretch;
    s.transfer_ms = f.transfer_ms / stretch;
    s.train_ms = f.train_ms / stretch;
    TD_CHECK(simulate(&s, stretch, out));
    out->forecast = f;
    out->samples_per_step = f.shape.items;
    out->audio_s_per_step = (double)f.shape.items * f.shape.frames * mel.hop_samples / mel.rate;
    out->data_peak_bytes = f.data_bytes;
    out->model_peak_bytes = f.model_bytes;
    (void)snprintf(out->data_device, sizeof out->data_device, "%s",
                   request->data ? request->data : request->model);
    (void)snprintf(out->model_device, sizeof out->model_device, "%s", request->model);
    return TD_OK;
}

/* ---------------------------------------------------------------- JSON */

static void put_phase(td_json *json, const char *name, const td_stats *s, double step_ms)
{
    td_json_put_object(json, name);
    td_json_put_double(json, "mean_ms", s->mean);
    td_json_put_double(json, "std_ms", s->std);
    td_json_put_double(json, "min_ms", s->min);
    td_json_put_double(json, "max_ms", s->max);
    td_json_put_double(json, "p95_ms", s->p95);
    td_json_put_double(json, "share", step_ms > 0 ? s->mean / step_ms : 0);
    td_json_end_object(json);
}

static void put_step(td_json *json, const td_pipeline_figures *f)
{
    td_stats_put_json(json, "step_ms", &f->step_ms, "mean median std min max p95 cv");
    td_json_put_object(json, "phases");
    for (int s = 0; s < TD_STAGE_COUNT; ++s)
        put_phase(json, td_stage_name((td_stage)s), &f->stage_ms[s], f->step_ms.mean);
    put_phase(json, "idle", &f->idle_ms, f->step_ms.mean);
    td_json_end_object(json);
}

static void put_rates(td_json *json, const td_profile *p)
{
    const double steps_per_s = p->figures.step_ms.mean > 0 ? 1000 / p->figures.step_ms.mean : 0;
    td_json_put_object(json, "utilisation");
    td_json_put_double(json, "data", p->figures.data_utilisation);
    td_json_put_double(json, "model", p->figures.model_utilisation);
    td_json_end_object(json);
    td_json_put_double(json, "overlap", p->figures.overlap);
    td_json_put_double(json, "host_ms", p->host_ms);
    td_json_put_object(json, "throughput");
    td_json_put_double(json, "steps_per_s", steps_per_s);
    td_json_put_double(json, "samples_per_s", steps_per_s * p->samples_per_step);
    td_json_put_double(json, "audio_s_per_s", steps_per_s * p->audio_s_per_step);
    td_json_end_object(json);
    td_json_put_object(json, "memory");
    td_json_put_uint(json, "data_peak_bytes", p->data_peak_bytes);
    td_json_put_uint(json, "model_peak_bytes", p->model_peak_bytes);
    td_json_end_object(json);
}

static void put_forecast(td_json *json, const td_forecast *f)
{
    if (f->shape.items == 0) return;
    td_json_put_object(json, "forecast");
    td_json_put_uint(json, "batch_size", f->shape.items);
    td_json_put_uint(json, "text_length", f->shape.tokens);
    td_json_put_uint(json, "mel_frames", f->shape.frames);
    td_json_put_double(json, "data_ms", f->data_ms);
    td_json_put_double(json, "transfer_ms", f->transfer_ms);
    td_json_put_double(json, "train_ms", f->train_ms);
    td_json_put_double(json, "flops_per_step", f->flops);
    td_json_put_uint(json, "launches", f->launches);
    td_json_put_uint(json, "batch_bytes", f->batch_bytes);
    td_json_end_object(json);
}

static void put_verdicts(td_json *json, const td_profile *p)
{
    td_json_put_array(json, "verdicts");
    for (size_t i = 0; i < p->n_verdicts; ++i) {
        td_json_begin_object(json);
        td_json_put_string(json, "code", p->verdicts[i].code);
        td_json_put_string(json, "message", p->verdicts[i].message);
        td_json_put_string(json, "advice", p->verdicts[i].advice);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

void td_profile_put_json(td_json *json, const td_profile *profile)
{
    td_json_put_bool(json, "simulated", profile->is_simulated);
    td_json_put_string(json, "mode", profile->is_single ? "single-device" : "two-device");
    td_json_put_string(json, "data_device", profile->data_device);
    td_json_put_string(json, "model_device", profile->model_device);
    td_json_put_uint(json, "steps", profile->n_times);
    put_step(json, &profile->figures);
    put_rates(json, profile);
    put_forecast(json, &profile->forecast);
    put_verdicts(json, profile);
}
