/* `tandem train`: runs a td_training (include/tandem/train.h), shows its progress on stderr, and with --json
 * its events on stdout, one a line. SIGINT, SIGTERM and SIGHUP end it after the step with a checkpoint; a
 * second one ends it at once. Covered by tests/cli/test_train.py.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/cli.h"
#include "families/checkpoint.h"
#include "settings/training.h"

/* ---------------------------------------------------------------- signals */

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};

/* A handler can reach nothing but variables of the file. */
static volatile sig_atomic_t asked_by;
static td_training *running;

static void ask_to_end(int number)
{
    if (asked_by != 0) _exit(TD_EXIT_SIGNAL + number);
    asked_by = number;
    td_training_stop(running);
}

static void catch_signals(td_training *training)
{
    const struct sigaction action = {.sa_handler = ask_to_end, .sa_flags = SA_RESTART};
    struct sigaction former;
    running = training;
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++)
        if (sigaction(SIGNALS[i], NULL, &former) == 0 && former.sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &action, NULL);
}

/* Before what the handler reaches is gone. */
static void ignore_signals(void)
{
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++)
        sigaction(SIGNALS[i], &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* ---------------------------------------------------------------- telling */

typedef struct view {
    const td_cli *cli;
    td_progress *bar; /* NULL: none is shown */
    bool quiet;
} view;

/* "loss 1.234  mel 0.5 ..." */
static void format_losses(const td_training_event *event, char *out, size_t capacity)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < event->n_losses && used < capacity; ++i) {
        const char *name = event->values[i].name;
        used += (size_t)snprintf(out + used, capacity - used, "%s%s %.4g", i > 0 ? "  " : "",
                                 strncmp(name, "loss.", 5) == 0 ? name + 5 : name, event->values[i].value);
    }
}

static void show_step(view *v, const td_training_event *event)
{
    char losses[256], busy[96] = "", ranks[40] = "";
    const double ranks_wait = td_training_event_value(event, "ranks_wait");
    if (v->bar == NULL) return;
    if (isfinite(ranks_wait)) snprintf(ranks, sizeof ranks, "  ranks wait %.0f %%", 100 * ranks_wait);
    if (event->text != NULL)
        snprintf(busy, sizeof busy, "  busy model %.0f %% data %.0f %%%s%s",
                 100 * td_training_event_value(event, "model_utilisation"),
                 100 * td_training_event_value(event, "data_utilisation"),
                 strcmp(event->text, "train") == 0 ? "" : ", waiting for ",
                 strcmp(event->text, "train") == 0 ? "" : event->text);
    format_losses(event, losses, sizeof losses);
    td_progress_tell_left(v->bar, td_training_event_value(event, "eta_s"));
    td_progress_update(v->bar, event->step, "%s  lr %.2e  %.0f ms/step%s%s", losses,
                       td_training_event_value(event, "lr"), td_training_event_value(event, "ms_per_step"),
                       busy, ranks);
}

static void show_start(view *v, const td_training_event *event)
{
    const double end = td_training_event_value(event, "max_step");
    td_log_info("%.0f parameters, batches of %.0f, %.0f in an epoch; the run is in %s",
                td_training_event_value(event, "parameters"), td_training_event_value(event, "batch_size"),
                td_training_event_value(event, "batches_per_epoch"), event->path);
    if (!v->quiet &&
        td_progress_create(stderr, "step", isfinite(end) ? (uint64_t)end : 0, 10.0, &v->bar) != TD_OK)
        v->bar = NULL;
}

static void show_event(view *v, const td_training_event *event)
{
    char losses[256], distance[48] = "";
    const double apart = td_training_event_value(event, "free_running_distance");
    const double took_s = td_training_event_value(event, "took_s");
    if (v->bar != NULL) td_progress_clear(v->bar);
    switch (event->kind) {
    case TD_TRAINING_START:
        show_start(v, event);
        break;
    case TD_TRAINING_VALIDATION:
        format_losses(event, losses, sizeof losses);
        if (isfinite(apart)) snprintf(distance, sizeof distance, "  free running %.4g", apart);
        td_log_info("step %" PRIu64 ": validation %s%s%s (%.1f s)", event->step, losses, distance,
                    event->is_best ? ", the best so far" : "", took_s);
        break;
    case TD_TRAINING_SAVED:
        td_log_debug("step %" PRIu64 ": %s (%.1f ms)", event->step, event->path, 1e3 * took_s);
        break;
    case TD_TRAINING_SAMPLED:
        td_log_info("step %" PRIu64 ": pictures and sounds are in %s (%.1f s)", event->step, event->path,
                    took_s);
        break;
    case TD_TRAINING_SKIPPED:
        if (!event->is_progress) td_log_warn("step %" PRIu64 " is bad: %s", event->step, event->text);
        break;
    default:
        break;
    }
}

static void tell(void *context, const td_training_event *event)
{
    view *v = context;
    if (event->kind == TD_TRAINING_STEP)
        show_step(v, event);
    else
        show_event(v, event);
    if (!v->cli->json || event->json == NULL) return;
    puts(event->json);
    fflush(stdout);
}

/* ---------------------------------------------------------------- the command */

/* The run's best checkpoint, or its last one where none was validated. */
static void choose_voice(td_training *training, const td_training_result *result,
                         char out[TD_FILE_PATH_BYTES])
{
    const char *dir;
    if (td_training_get(training, "training.checkpoint_dir", &dir) == TD_OK && dir != NULL &&
        snprintf(out, TD_FILE_PATH_BYTES, "%s/best.safetensors", dir) < TD_FILE_PATH_BYTES &&
        td_file_exists(out))
        return;
    (void)snprintf(out, TD_FILE_PATH_BYTES, "%s", result->checkpoint);
}

enum { WORD_BYTES = 4 * TD_FILE_PATH_BYTES };

/* A path as a word for the shell. */
static void quote_word(const char *path, char out[WORD_BYTES])
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,=:@%";
    const char *const quote = path[strspn(path, PLAIN)] != '\0' ? "'" : "";
    int used = snprintf(out, WORD_BYTES, "%s", quote);
    for (; *path != '\0'; ++path)
        used += *path == '\'' ? snprintf(out + used, WORD_BYTES - (size_t)used, "'\\''")
                              : snprintf(out + used, WORD_BYTES - (size_t)used, "%c", *path);
    (void)snprintf(out + used, WORD_BYTES - (size_t)used, "%s", quote);
}

/* How to hear what was learnt, if it speaks. */
static void print_command(td_training *training, const td_training_result *result)
{
    char path[TD_FILE_PATH_BYTES], word[WORD_BYTES];
    td_checkpoint *voice = NULL;
    choose_voice(training, result, path);
    if (path[0] == '\0' || td_checkpoint_open(path, &voice) != TD_OK) return;
    const td_model_config *model = &td_checkpoint_get_info(voice)->model;
    if (model->family->speaker != NULL) {
        quote_word(path, word);
        td_printf("speak          tandem synth --checkpoint %s --text \"...\"%s -o out.wav\n", word,
                  td_model_describe(model).takes_reference ? " --reference FILE.wav" : "");
    }
    td_checkpoint_close(voice);
}

static void print_result(td_training *training, const td_training_result *result)
{
    const char *dump;
    td_printf("end            %s, after step %" PRIu64 "\n", result->reason_text, result->step);
    if (td_training_get(training, "logging.dump_step", &dump) == TD_OK && dump != NULL) {
        td_printf("dump           %s\n", dump);
        return;
    }
    if (isfinite(result->loss)) td_printf("loss           %.4g\n", result->loss);
    if (isfinite(result->best_loss)) td_printf("validation     %.4g at best\n", result->best_loss);
    if (result->ms_per_step > 0)
        td_printf("speed          %.1f ms a step; a checkpoint held it up for %.1f ms\n", result->ms_per_step,
                  result->save_ms);
    if (result->n_skipped > 0) td_printf("skipped        %" PRIu64 " steps\n", result->n_skipped);
    td_printf("checkpoint     %s\n", result->checkpoint);
}

static td_status run(td_cli *cli, td_training *training, int *code)
{
    td_status status = TD_OK;
    td_training_result result = {.size = sizeof result};
    const bool silent = td_training_rank(training) > 0;
    view v = {.cli = cli, .quiet = td_cli_is_on(cli, "quiet") || cli->json || silent};
    catch_signals(training);
    status = td_training_run(training, tell, &v);
    td_progress_destroy(v.bar);
    TD_TRY(status);
    TD_TRY(td_training_get_result(training, &result));
    if (!cli->json && !silent) print_result(training, &result);
    if (!v.quiet && result.reason != TD_TRAINING_DUMPED) print_command(training, &result);
    if (result.reason == TD_TRAINING_STOPPED) *code = TD_EXIT_SIGNAL + (asked_by != 0 ? asked_by : SIGTERM);
fail:
    return status;
}

/* The ranks of a cluster fail together; one of them says why. */
static int fail(td_cli *cli, td_training *training, const td_registry *registry)
{
    if (!td_training_is_silent(training)) return td_cli_fail(cli, registry);
    return td_training_error(training)->status == TD_ERR_CONFIG ? TD_EXIT_USAGE : TD_EXIT_FAILED;
}

int td_cmd_train(td_cli *cli)
{
    td_training *training;
    int code = TD_EXIT_DONE;
    if (td_training_create_for(cli->options, &training) != TD_OK) return td_cli_fail(cli, NULL);
    td_log_context *silence = td_cli_silence_rank(cli, td_training_rank(training));
    if (td_training_choose_devices(training) != TD_OK)
        code = fail(cli, training, td_training_registry(training));
    else if (run(cli, training, &code) != TD_OK)
        code = fail(cli, training, NULL);
    ignore_signals();
    td_training_free(training);
    td_log_close(silence);
    return code;
}
