/* `tandem train`: runs train/train.h, shows its progress on stderr, and with --json its events on stdout, one
 * a line. SIGINT and SIGTERM end it after the step with a checkpoint; a second one ends it at once. Covered
 * by tests/cli/test_train.py.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/cli.h"
#include "settings/read.h"

/* ---------------------------------------------------------------- signals */

/* A handler can reach nothing but a variable of the file. */
static volatile sig_atomic_t asked_by;

static void ask_to_end(int number)
{
    if (asked_by != 0) _exit(TD_EXIT_SIGNAL + number);
    asked_by = number;
}

static void catch_signals(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM};
    const struct sigaction action = {.sa_handler = ask_to_end, .sa_flags = SA_RESTART};
    struct sigaction former;
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        if (sigaction(SIGNALS[i], NULL, &former) == 0 && former.sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &action, NULL);
    }
}

static bool wants_end(void *context)
{
    (void)context;
    return asked_by != 0;
}

/* ---------------------------------------------------------------- telling */

typedef struct view {
    const td_cli *cli;
    td_progress *bar; /* NULL: none is shown */
    bool quiet;
    uint64_t max_step;
} view;

static void print_line(const td_train_event *event)
{
    td_json *json;
    const char *text;
    if (event->is_tick || td_json_create(NULL, 0, &json) != TD_OK) return;
    td_train_event_json(json, event);
    if (td_json_finish(json, &text) == TD_OK) puts(text);
    fflush(stdout);
    td_json_destroy(json);
}

/* "loss 1.234  mel 0.5 ..." */
static void format_losses(const td_train_event *event, char *out, size_t capacity)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < event->n_terms && used < capacity; ++i) {
        const bool is_term = strncmp(event->names[i], "loss.", 5) == 0;
        used += (size_t)snprintf(out + used, capacity - used, "%s%s %.4g", i > 0 ? "  " : "",
                                 is_term ? event->names[i] + 5 : event->names[i], event->values[i]);
    }
}

static void show_step(view *v, const td_train_event *event)
{
    char losses[256], busy[96] = "";
    if (v->bar == NULL) return;
    if (event->waits_for != NULL)
        snprintf(busy, sizeof busy, "  busy model %.0f %% data %.0f %%%s%s", 100 * event->model_utilisation,
                 100 * event->data_utilisation,
                 strcmp(event->waits_for, "train") == 0 ? "" : ", waiting for ",
                 strcmp(event->waits_for, "train") == 0 ? "" : event->waits_for);
    format_losses(event, losses, sizeof losses);
    td_progress_tell_left(v->bar, event->eta_s);
    td_progress_update(v->bar, event->step, "%s  lr %.2e  %.0f ms/step%s", losses, event->lr,
                       event->ms_per_step, busy);
}

static void show_event(view *v, const td_train_event *event)
{
    char losses[256], distance[48] = "";
    if (v->bar != NULL) td_progress_clear(v->bar);
    switch (event->kind) {
    case TD_TRAIN_START:
        td_log_info("%" PRIu64 " parameters, batches of %u, %" PRIu64 " in an epoch; the run is in %s",
                    event->parameters, event->batch_size, event->batches_per_epoch, event->text);
        v->max_step = event->max_step;
        if (!v->quiet && td_progress_create(stderr, "step", event->max_step, 10.0, &v->bar) != TD_OK)
            v->bar = NULL;
        break;
    case TD_TRAIN_VALIDATION:
        format_losses(event, losses, sizeof losses);
        if (isfinite(event->distance))
            snprintf(distance, sizeof distance, "  free running %.4g", event->distance);
        td_log_info("step %" PRIu64 ": validation %s%s%s (%.1f s)", event->step, losses, distance,
                    event->is_best ? ", the best so far" : "", event->took_s);
        break;
    case TD_TRAIN_SAVED:
        td_log_debug("step %" PRIu64 ": %s (%.1f ms)", event->step, event->text, 1e3 * event->took_s);
        break;
    case TD_TRAIN_SAMPLED:
        td_log_info("step %" PRIu64 ": pictures and sounds are in %s (%.1f s)", event->step, event->text,
                    event->took_s);
        break;
    case TD_TRAIN_SKIPPED:
        if (!event->is_tick) td_log_warn("step %" PRIu64 " is bad: %s", event->step, event->text);
        break;
    default:
        break;
    }
}

static void tell(void *context, const td_train_event *event)
{
    view *v = context;
    if (event->kind == TD_TRAIN_STEP)
        show_step(v, event);
    else
        show_event(v, event);
    if (v->cli->json) print_line(event);
}

/* ---------------------------------------------------------------- the command */

static void print_result(const td_train_settings *settings, const td_train_result *result)
{
    static const char *const REASONS[] = {"done", "time is up", "validation got no better",
                                          "ended on request", "the first step was written out"};
    printf("end            %s, after step %" PRIu64 "\n", REASONS[result->reason], result->step);
    if (settings->dump_step != NULL) {
        printf("dump           %s\n", settings->dump_step);
        return;
    }
    if (isfinite(result->loss)) printf("loss           %.4g\n", result->loss);
    if (isfinite(result->best_loss)) printf("validation     %.4g at best\n", result->best_loss);
    if (result->ms_per_step > 0)
        printf("speed          %.1f ms a step; a checkpoint held it up for %.1f ms\n", result->ms_per_step,
               result->save_ms);
    if (result->n_skipped > 0) printf("skipped        %" PRIu64 " steps\n", result->n_skipped);
    printf("checkpoint     %s\n", result->checkpoint);
}

static td_status run(td_cli *cli, td_registry *registry, const td_roles *roles, int *code)
{
    td_status status = TD_OK;
    td_device *devices[2] = {NULL, NULL}; /* data, model */
    const size_t n_devices = roles->data == roles->model ? 1 : 2;
    td_train_settings settings;
    td_train_result result = {0};
    char cache_dir[TD_FILE_PATH_BYTES], *config = NULL;
    view v = {.cli = cli, .quiet = td_options_get(cli->options, "quiet")->truth || cli->json};
    TD_TRY(td_settings_train(cli->options, roles->model, cache_dir, &settings));
    TD_FAIL_IF(settings.run_dir == NULL, TD_ERR_CONFIG,
               "no folder for the run was named; add --checkpoint-dir DIR");
    TD_FAIL_IF(settings.max_steps == 0 && settings.epochs == 0 && !(settings.max_minutes > 0) &&
                   settings.dump_step == NULL,
               TD_ERR_CONFIG, "nothing says when training ends; add --max-steps, --epochs or --max-minutes");
    TD_TRY(td_options_config(cli->options, &config));
    settings.config_text = config;
    settings.tell = tell;
    settings.wants_end = wants_end;
    settings.context = &v;
    TD_TRY(
        td_devices_open(registry, (const td_device_info *[]){roles->data, roles->model}, n_devices, devices));
    catch_signals();
    status = td_train_run(devices[0], devices[n_devices - 1], &settings, &result);
    td_progress_destroy(v.bar);
    TD_TRY(status);
    if (!cli->json) print_result(&settings, &result);
    *code = result.reason == TD_END_ASKED ? TD_EXIT_SIGNAL + asked_by : TD_EXIT_DONE;
fail:
    for (size_t i = 0; i < n_devices; ++i)
        td_device_close(devices[i]);
    free(config);
    return status;
}

int td_cmd_train(td_cli *cli)
{
    td_registry *registry;
    td_roles roles;
    int code = TD_EXIT_DONE;
    if (td_settings_open_registry(cli->options, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    if (td_settings_resolve_roles(cli->options, registry, &roles) != TD_OK) {
        code = td_cli_fail(cli, registry);
    } else if (roles.model->type == TD_DEVICE_SIM) {
        TD_FAIL(TD_ERR_CONFIG, "the simulated device computes nothing, so it learns nothing; choose another");
        code = td_cli_fail(cli, registry);
    } else if (run(cli, registry, &roles, &code) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    }
    td_registry_close(registry);
    return code;
}
