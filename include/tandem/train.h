/* SPDX-License-Identifier: MIT
 *
 * Training a voice from a program: configure by key and value, run with a callback, stop.
 *
 *   td_training *training;
 *   td_training_create(NULL, &training);
 *   td_training_load(training, "my.ini");
 *   td_training_set(training, "training.max_steps", "1000");
 *   if (td_training_run(training, tell, NULL) != TD_OK) puts(td_training_error(training)->message);
 *   td_training_free(training);
 *
 * Keys, values and INI files are those of docs/options.md. Handles share nothing: several may run at once in
 * several threads, each with a folder of its own. A handle is used by one thread at a time;
 * td_training_stop() alone may be called from any. Structs begin with their size, so that fields can be added
 * at their ends. Covered by tests/settings/test_training.c; docs/examples/train.c is a whole program.
 */
#ifndef TANDEM_TRAIN_H
#define TANDEM_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/log.h"
#include "tandem/status.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_training td_training;

typedef struct td_training_options {
    uint32_t size;          /* sizeof(td_training_options), set by the caller */
    td_log_level log_level; /* the most detailed that `log` gets */
    td_log_sink log;        /* gets what the handle's calls log, from any thread; NULL: nothing is logged */
    void *log_context;      /* borrowed until td_training_free() */
} td_training_options;

/* `options` may be NULL. *out is owned: td_training_free(). Without a handle to keep it, a failure is in
 * td_error_last(). */
td_status td_training_create(const td_training_options *options, td_training **out);
void td_training_free(td_training *training); /* NULL is fine; not while it runs */

/* Of the last call on this handle: status TD_OK after a success. Never NULL; borrowed until the next call. */
const td_error *td_training_error(const td_training *training);

/* ---------------------------------------------------------------- configuration */

/* Reads an INI file. TD_ERR_CONFIG tells every wrong line with its place and the nearest right name; the
 * other lines hold. A file read later wins over an earlier one. */
td_status td_training_load(td_training *training, const char *path);

/* Gives "section.key" a value, as it would stand in a file; wins over files. TD_ERR_CONFIG tells the nearest
 * key, or what the value may be. */
td_status td_training_set(td_training *training, const char *key, const char *value);

/* The value as text; NULL: it has none. Borrowed until the handle is freed. */
td_status td_training_get(td_training *training, const char *key, const char **out);

/* ---------------------------------------------------------------- running */

typedef enum td_training_event_kind {
    TD_TRAINING_START,      /* all is open, the first step follows; path: the run's folder */
    TD_TRAINING_STEP,       /* an update was made; text: the stage that is waited for, or NULL */
    TD_TRAINING_VALIDATION, /* losses of rows that are not trained with */
    TD_TRAINING_SAVED,      /* a checkpoint was taken; path: its file */
    TD_TRAINING_SAMPLED,    /* pictures and sounds were made; path: their folder */
    TD_TRAINING_SKIPPED,    /* an update was left out; text: why */
    TD_TRAINING_WARNING,    /* text: what somebody warned of */
    TD_TRAINING_END,        /* text: why it ended */
} td_training_event_kind;

typedef struct td_training_value {
    const char *name;
    double value;
} td_training_value;

/* Everything is borrowed during the callback. */
typedef struct td_training_event {
    uint32_t size; /* of the library's struct: a field past it is not there */
    td_training_event_kind kind;
    uint64_t step, epoch;
    bool is_progress; /* one of many between two that are also logged; has no json */
    bool is_best;     /* VALIDATION: better than all before */
    size_t n_losses;  /* the first of values: "loss", then its terms "loss.mel" ... */
    size_t n_values;
    /* STEP: lr, norm, loss_scale, ms_per_step, samples_per_s, audio_s_per_s, data_utilisation,
     * model_utilisation, eta_s, skipped; VALIDATION: free_running_distance; START: parameters, batch_size,
     * batches_per_epoch, start_step, max_step; took_s. What is not known is not there. */
    const td_training_value *values;
    const char *path, *text; /* by the kind; else NULL */
    const char *json;        /* the event as a line of metrics.jsonl */
} td_training_event;

/* The value of that name; NaN if the event has none. */
double td_training_event_value(const td_training_event *event, const char *name);

/* Called on the thread that runs. */
typedef void (*td_training_receiver)(void *context, const td_training_event *event);

/* Trains to the end that the configuration tells, or goes on where the folder's last checkpoint stands.
 * `receiver` may be NULL. TD_ERR_CONFIG for what is wrong before it starts. */
td_status td_training_run(td_training *training, td_training_receiver receiver, void *context);

/* Ends the run after its current step, with a checkpoint; without one, the next run as soon as it begins.
 * From any thread, from the callback and from a signal handler. */
void td_training_stop(td_training *training);

typedef enum td_training_reason {
    TD_TRAINING_DONE,     /* steps or epochs */
    TD_TRAINING_TIME,     /* training.max_minutes */
    TD_TRAINING_PATIENCE, /* validation got no better */
    TD_TRAINING_STOPPED,  /* td_training_stop() */
    TD_TRAINING_DUMPED,   /* logging.dump_step */
    TD_TRAINING_WISHED,   /* by a file "stop" in the run's folder */
} td_training_reason;

typedef struct td_training_result {
    uint32_t size; /* sizeof(td_training_result), set by the caller */
    td_training_reason reason;
    uint64_t step, n_skipped, n_saved;
    double loss, best_loss;      /* NaN: there is none; the best one is of what training.best_by names */
    double ms_per_step, save_ms; /* save_ms: mean that a checkpoint held up the loop */
    uint64_t data_peak_bytes, model_peak_bytes;
    const char *reason_text;
    const char *checkpoint; /* the last one; "": none. Valid until the next run */
} td_training_result;

/* Of the last run that succeeded. TD_ERR_NOT_FOUND if there was none. */
td_status td_training_get_result(td_training *training, td_training_result *out);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
