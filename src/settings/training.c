/* See include/tandem/train.h and training.h. Covered by tests/settings/test_training.c and
 * tests/cli/test_train.py. */
#include "settings/training.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "settings/read.h"
#include "settings/table.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_VALUES = TD_PLAN_SCALARS + 16 };

struct td_training {
    td_option_rows rows; /* own table; empty where the options are borrowed */
    td_option_table table;
    td_options *options;
    bool owns_options;
    td_log_context *log; /* NULL: what the calling thread has */
    td_registry *registry;
    td_cluster *cluster; /* opened with the devices, for good: a process joins others once */
    bool failed;         /* the last run, and only on this rank */
    td_roles roles;
    atomic_bool stops, runs;
    td_error error;
    td_train_result result;
    bool has_result;
    td_training_receiver receiver; /* of the run that goes on */
    void *context;
};

/* ---------------------------------------------------------------- calls */

/* Every call on a handle is between these two: it logs where the handle does and keeps its failure. */
static td_log_context *enter(const td_training *t)
{
    return t->log != NULL ? td_log_bind(t->log) : td_log_bound();
}

static td_status leave(td_training *t, td_log_context *former, td_status status)
{
    td_log_bind(former);
    t->error = status == TD_OK ? (td_error){0} : *td_error_last();
    return status;
}

const td_error *td_training_error(const td_training *training)
{
    return &training->error;
}

static td_status refuse_while_running(void)
{
    return TD_FAIL(TD_ERR_ARGUMENT, "the training is running; stop it first");
}

static td_status check_idle(const td_training *t)
{
    return atomic_load(&t->runs) ? refuse_while_running() : TD_OK;
}

/* ---------------------------------------------------------------- life */

static td_status make_table(td_training *t)
{
    TD_CHECK(td_settings_add_keys(&t->rows));
    TD_CHECK(td_settings_add_general_keys(&t->rows));
    t->table = (td_option_table){.program = "tandem", .options = t->rows.rows, .n_options = t->rows.count};
    TD_CHECK(td_options_create(&t->table, &t->options));
    t->owns_options = true;
    return TD_OK;
}

td_status td_training_create(const td_training_options *given, td_training **out)
{
    td_status status = TD_OK;
    td_training *t = NULL;
    td_training_options o = {0};
    *out = NULL;
    TD_FAIL_IF(given != NULL && given->size < sizeof given->size, TD_ERR_ARGUMENT,
               "the size of the options is not set; put sizeof(td_training_options)");
    if (given != NULL) memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    TD_TRY(TD_NEW(&t));
    TD_TRY(make_table(t));
    if (o.log != NULL) TD_TRY(td_log_open(o.log, o.log_context, o.log_level, NULL, &t->log));
    *out = t;
    return TD_OK;
fail:
    td_training_free(t);
    return status;
}

td_status td_training_create_for(td_options *options, td_training **out)
{
    TD_CHECK(TD_NEW(out));
    (*out)->options = options;
    return TD_OK;
}

void td_training_free(td_training *t)
{
    if (t == NULL) return;
    td_cluster_close(t->cluster, t->failed);
    td_registry_close(t->registry);
    if (t->owns_options) td_options_destroy(t->options);
    td_option_rows_free(&t->rows);
    td_log_close(t->log);
    free(t);
}

/* ---------------------------------------------------------------- configuration */

/* Fails with what was found wrong since there were `before` mistakes, as many as a message holds. */
static td_status tell_mistakes(const td_training *t, size_t before)
{
    size_t count, used = 0;
    char text[sizeof t->error.message] = "";
    const td_option_mistake *mistakes = td_options_mistakes(t->options, &count);
    if (count == before) return TD_OK;
    for (size_t i = before; i < count && used < sizeof text; ++i)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", i > before ? "; " : "",
                                 mistakes[i].place, *mistakes[i].place ? ": " : "", mistakes[i].message);
    return TD_FAIL(TD_ERR_CONFIG, "%s", text);
}

static td_status load(td_training *t, const char *path)
{
    td_status status = TD_OK;
    size_t before, bytes;
    char *text = NULL;
    TD_TRY(check_idle(t));
    (void)td_options_mistakes(t->options, &before);
    TD_TRY(td_file_read(path, MAX_FILE_BYTES, &text, &bytes));
    TD_TRY(td_options_read_text(t->options, path, text, bytes));
    TD_TRY(tell_mistakes(t, before));
fail:
    free(text);
    return status;
}

td_status td_training_load(td_training *training, const char *path)
{
    td_log_context *former = enter(training);
    return leave(training, former, load(training, path));
}

static td_status set(td_training *t, const char *key, const char *value)
{
    size_t before;
    TD_CHECK(check_idle(t));
    (void)td_options_mistakes(t->options, &before);
    TD_CHECK(td_options_assign(t->options, key, value, TD_ORIGIN_SET, ""));
    return tell_mistakes(t, before);
}

td_status td_training_set(td_training *training, const char *key, const char *value)
{
    td_log_context *former = enter(training);
    return leave(training, former, set(training, key, value));
}

td_status td_training_get(td_training *training, const char *key, const char **out)
{
    const td_option_value *value = strchr(key, '.') ? td_options_get(training->options, key) : NULL;
    *out = value != NULL ? value->text : NULL;
    return leave(training, td_log_bound(),
                 value != NULL ? TD_OK : TD_FAIL(TD_ERR_NOT_FOUND, "there is no key '%s'", key));
}

/* ---------------------------------------------------------------- events */

typedef struct value_list {
    td_training_value values[MAX_VALUES];
    size_t count;
} value_list;

static void add_value(value_list *list, const char *name, double value)
{
    if (isfinite(value) && list->count < MAX_VALUES)
        list->values[list->count++] = (td_training_value){name, value};
}

static void list_values(const td_train_event *e, value_list *list)
{
    const double unknown = NAN;
    for (size_t i = 0; i < e->n_terms; ++i)
        list->values[list->count++] = (td_training_value){e->names[i], e->values[i]};
    if (e->kind == TD_TRAIN_STEP) {
        const bool is_watched = e->waits_for != NULL;
        add_value(list, "lr", e->lr);
        add_value(list, "norm", e->norm);
        add_value(list, "loss_scale", e->loss_scale > 0 ? e->loss_scale : unknown);
        add_value(list, "ms_per_step", e->ms_per_step);
        add_value(list, "samples_per_s", e->samples_per_s);
        add_value(list, "audio_s_per_s", e->audio_s_per_s);
        add_value(list, "data_utilisation", is_watched ? e->data_utilisation : unknown);
        add_value(list, "model_utilisation", is_watched ? e->model_utilisation : unknown);
        add_value(list, "eta_s", e->eta_s);
        add_value(list, "ranks_wait", e->ranks > 1 ? e->ranks_wait : unknown);
        add_value(list, "skipped", (double)e->n_skipped);
    }
    if (e->kind == TD_TRAIN_START) {
        add_value(list, "parameters", (double)e->parameters);
        add_value(list, "batch_size", e->batch_size);
        add_value(list, "batches_per_epoch", (double)e->batches_per_epoch);
        add_value(list, "start_step", (double)e->start_step);
        add_value(list, "max_step", e->max_step > 0 ? (double)e->max_step : unknown);
    }
    if (e->kind == TD_TRAIN_VALIDATION) add_value(list, "free_running_distance", e->distance);
    if (e->took_s > 0) add_value(list, "took_s", e->took_s);
}

/* The event of the trainer in the words of the public interface. */
static void pass_on(void *context, const td_train_event *e)
{
    static const struct {
        td_training_event_kind kind;
        bool has_path;
    } KINDS[TD_TRAIN_KIND_COUNT] = {
        [TD_TRAIN_START] = {TD_TRAINING_START, true},
        [TD_TRAIN_STEP] = {TD_TRAINING_STEP, false},
        [TD_TRAIN_VALIDATION] = {TD_TRAINING_VALIDATION, false},
        [TD_TRAIN_SAVED] = {TD_TRAINING_SAVED, true},
        [TD_TRAIN_SAMPLED] = {TD_TRAINING_SAMPLED, true},
        [TD_TRAIN_SKIPPED] = {TD_TRAINING_SKIPPED, false},
        [TD_TRAIN_WARNING] = {TD_TRAINING_WARNING, false},
        [TD_TRAIN_END] = {TD_TRAINING_END, false},
    };
    const td_training *t = context;
    const bool has_path = KINDS[e->kind].has_path;
    value_list list = {.count = 0};
    td_json *json = NULL;
    td_training_event event = {.size = sizeof event,
                               .kind = KINDS[e->kind].kind,
                               .step = e->step,
                               .epoch = e->epoch,
                               .is_progress = e->is_tick,
                               .is_best = e->is_best,
                               .n_losses = e->n_terms,
                               .values = list.values,
                               .path = has_path ? e->text : NULL,
                               .text = has_path                   ? NULL
                                       : e->kind == TD_TRAIN_STEP ? e->waits_for
                                                                  : e->text};
    list_values(e, &list);
    event.n_values = list.count;
    if (!e->is_tick && td_json_create(NULL, 0, &json) == TD_OK) {
        td_train_event_json(json, e);
        if (td_json_finish(json, &event.json) != TD_OK) event.json = NULL;
    }
    t->receiver(t->context, &event);
    td_json_destroy(json);
}

double td_training_event_value(const td_training_event *event, const char *name)
{
    for (size_t i = 0; i < event->n_values; ++i)
        if (strcmp(event->values[i].name, name) == 0) return event->values[i].value;
    return NAN;
}

/* ---------------------------------------------------------------- running */

static bool wants_end(void *context)
{
    const td_training *t = context;
    return atomic_load(&t->stops);
}

void td_training_stop(td_training *training)
{
    atomic_store(&training->stops, true);
}

uint32_t td_training_rank(const td_training *training)
{
    if (training->cluster != NULL) return td_cluster_rank(training->cluster);
    const bool alone = strcmp(td_options_get(training->options, "cluster.kind")->text, "none") == 0;
    return alone ? 0 : td_cluster_launch().rank;
}

uint32_t td_training_ranks(const td_training *training)
{
    return training->cluster != NULL ? td_cluster_size(training->cluster) : 1;
}

bool td_training_is_silent(const td_training *training)
{
    return td_training_rank(training) > 0 && !training->failed;
}

static td_status choose_devices(td_training *t)
{
    td_status status = TD_OK;
    t->roles = (td_roles){0};
    td_registry_close(t->registry);
    t->registry = NULL;
    if (t->cluster == NULL) TD_TRY(td_settings_open_cluster(t->options, &t->cluster));
    TD_TRY(td_settings_open_registry(t->options, &t->registry));
    TD_TRY(td_settings_resolve_rank(t->options, t->registry, td_cluster_local_rank(t->cluster), &t->roles));
    if (t->roles.model->type == TD_DEVICE_SIM) {
        t->roles = (td_roles){0};
        status = TD_FAIL(TD_ERR_CONFIG,
                         "the simulated device computes nothing, so it learns nothing; choose another");
    }
fail:
    return status;
}

td_status td_training_choose_devices(td_training *training)
{
    td_log_context *former = enter(training);
    const td_status status = choose_devices(training);
    const td_launch launch = td_cluster_launch();
    /* what keeps a computer's ranks from joining, such as a missing module, the first of them tells */
    const bool is_told = training->cluster == NULL && status == TD_ERR_CONFIG && launch.local_rank > 0;
    training->failed = status != TD_OK && !is_told && launch.launcher != NULL;
    return leave(training, former, status);
}

const td_registry *td_training_registry(const td_training *training)
{
    return training->registry;
}

static td_status check_settings(const td_train_settings *s)
{
    TD_REFUSE_IF(s->run_dir == NULL, TD_ERR_CONFIG,
                 "no folder for the run was named; set training.checkpoint_dir");
    TD_REFUSE_IF(s->max_steps == 0 && s->epochs == 0 && !(s->max_minutes > 0) && s->dump_step == NULL,
                 TD_ERR_CONFIG,
                 "nothing says when training ends; set training.max_steps, training.epochs or "
                 "training.max_minutes");
    return TD_OK;
}

static td_status run(td_training *t)
{
    td_status status = TD_OK;
    td_device *devices[2] = {NULL, NULL}; /* data, model */
    const size_t n_devices = t->roles.data == t->roles.model ? 1 : 2;
    td_train_settings settings;
    char cache_dir[TD_FILE_PATH_BYTES], *config = NULL;
    TD_TRY(td_settings_train(t->options, t->roles.model, cache_dir, &settings));
    TD_TRY(check_settings(&settings));
    TD_TRY(td_options_config(t->options, &config));
    settings.config_text = config;
    settings.tell = t->receiver != NULL ? pass_on : NULL;
    settings.wants_end = wants_end;
    settings.context = t;
    settings.cluster = t->cluster;
    TD_TRY(td_devices_open(t->registry, (const td_device_info *[]){t->roles.data, t->roles.model}, n_devices,
                           devices));
    TD_TRY(td_train_run(devices[0], devices[n_devices - 1], &settings, &t->result));
    t->has_result = true;
fail:
    for (size_t i = 0; i < n_devices; ++i)
        td_device_close(devices[i]);
    free(config);
    return status;
}

td_status td_training_run(td_training *t, td_training_receiver receiver, void *context)
{
    if (atomic_exchange(&t->runs, true)) return refuse_while_running(); /* its record is the run's */
    td_status status = TD_OK;
    td_log_context *former = enter(t);
    t->receiver = receiver;
    t->context = context;
    t->has_result = false;
    t->result.is_common = false;
    if (t->roles.model == NULL) status = choose_devices(t);
    if (status == TD_OK) status = run(t);
    t->failed = status != TD_OK && !t->result.is_common;
    if (t->failed && td_training_ranks(t) > 1)
        (void)td_error_context("rank %u of %u", td_training_rank(t), td_training_ranks(t));
    t->roles = (td_roles){0};
    atomic_store(&t->stops, false);
    atomic_store(&t->runs, false);
    return leave(t, former, status);
}

_Static_assert((int)TD_TRAINING_DONE == (int)TD_END_DONE && (int)TD_TRAINING_TIME == (int)TD_END_TIME &&
                   (int)TD_TRAINING_PATIENCE == (int)TD_END_PATIENCE &&
                   (int)TD_TRAINING_STOPPED == (int)TD_END_ASKED &&
                   (int)TD_TRAINING_DUMPED == (int)TD_END_DUMPED &&
                   (int)TD_TRAINING_WISHED == (int)TD_END_WISHED,
               "reasons are the same in both headers");

td_status td_training_get_result(td_training *t, td_training_result *out)
{
    const uint32_t size = out->size;
    if (!t->has_result)
        return leave(t, td_log_bound(), TD_FAIL(TD_ERR_NOT_FOUND, "no run of this training has succeeded"));
    const td_training_result result = {.size = size,
                                       .reason = (td_training_reason)t->result.reason,
                                       .step = t->result.step,
                                       .n_skipped = t->result.n_skipped,
                                       .n_saved = t->result.n_saved,
                                       .loss = t->result.loss,
                                       .best_loss = t->result.best_loss,
                                       .ms_per_step = t->result.ms_per_step,
                                       .save_ms = t->result.save_ms,
                                       .data_peak_bytes = t->result.data_peak_bytes,
                                       .model_peak_bytes = t->result.model_peak_bytes,
                                       .reason_text = td_train_reason_text(t->result.reason),
                                       .checkpoint = t->result.checkpoint};
    memcpy(out, &result, size < sizeof result ? size : sizeof result);
    return TD_OK;
}
