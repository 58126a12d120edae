/* Training: the data role prepares batches (data/data.h), the model role learns from them, on two devices or
 * on one (pipeline/batches.h). Steps are
 * submitted ahead and their scalars read one run late, checkpoints, pictures and sounds are made from copies
 * on a side thread. Goes on by itself from what its folder holds, to the same bits as if it had never been
 * stopped. Prints nothing: what happens is told as events. Covered by tests/train and
 * tests/cli/test_train.py.
 */
#ifndef TD_TRAIN_TRAIN_H
#define TD_TRAIN_TRAIN_H

#include "base/json.h"
#include "cluster/cluster.h"
#include "data/data.h"
#include "families/family.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"
#include "pipeline/monitor.h"

/* ---------------------------------------------------------------- what happens */

typedef enum td_train_kind {
    TD_TRAIN_START,      /* all is open, the first step follows */
    TD_TRAIN_STEP,       /* an update was made (told every log_every steps; `is_tick`: only for progress) */
    TD_TRAIN_VALIDATION, /* teacher-forced losses, and a free-running distance */
    TD_TRAIN_SAVED,      /* a checkpoint was taken */
    TD_TRAIN_SAMPLED,    /* pictures and sounds were made */
    TD_TRAIN_SKIPPED,    /* an update was left out: something was not finite */
    TD_TRAIN_WARNING,    /* somebody warned, here or below */
    TD_TRAIN_END,
    TD_TRAIN_KIND_COUNT
} td_train_kind;

/* Of all learners: the loss that judges first, called "loss", then its terms and those of the others. */
#define TD_TRAIN_TERMS 32

/* A rank of those that train together: who it is, and its means of a step since the last log line. */
typedef struct td_rank_figures {
    char host[64], device[96]; /* of its model role */
    double step_ms;
    double wait_ms;   /* that it waited for sums when its own backward pass was over */
    double reduce_ms; /* that sums took, from its bucket's leaving on, and with waiting for other ranks' */
    double share;     /* of all rows that were learnt from */
} td_rank_figures;

typedef struct td_train_event {
    td_train_kind kind;
    uint64_t step, epoch;
    size_t n_terms; /* names and values of the loss and its terms */
    const char *names[TD_TRAIN_TERMS];
    double values[TD_TRAIN_TERMS];
    double lr, norm;
    double loss_scale;                                /* 0: none, since numbers are not fp16 */
    double ms_per_step, samples_per_s, audio_s_per_s; /* since the last log line */
    double data_utilisation, model_utilisation;       /* over the last 100 steps; 0: not known yet */
    const char *waits_for;                            /* stage that is waited for; NULL: not known yet */
    double eta_s;                                     /* not finite: no end is known */
    double distance; /* of free-running spectrograms; not finite: not measured */
    double took_s;   /* that this cost the loop */
    bool is_tick, is_best;
    uint32_t ranks;    /* that train together */
    double ranks_wait; /* share of their steps that they waited for sums, at the last log line */
    const td_rank_figures *per_rank; /* START: who they are; STEP: figures; NULL: not told, or there is one */
    uint64_t n_skipped;
    uint64_t parameters, batches_per_epoch, start_step, max_step; /* START */
    uint32_t batch_size;                                          /* START */
    const td_device_info *data_device, *model_device;             /* START */
    const char *layout;                                           /* START: of the dataset */
    const char *text; /* path, reason; may be NULL; borrowed during the call */
} td_train_event;

const char *td_train_kind_name(td_train_kind kind); /* "step" */

/* The event as one JSON object: a line of metrics.jsonl, and of `train --json`. */
void td_train_event_json(td_json *json, const td_train_event *event);

/* ---------------------------------------------------------------- settings */

#define TD_BUCKET_BYTES UINT64_C(25000000)

/* Texts are borrowed during the run. Zero means: none, or the value in brackets. */
typedef struct td_train_settings {
    td_model_config model;  /* what depends on the data is set here: symbols, speakers ... */
    td_data_settings data;  /* the features are those that the model takes */
    uint32_t buffer_size;   /* two devices: batches ahead on the data device [50] */
    uint32_t prefetch_size; /* batches ahead on the model device [by the batch size: 2 to 8] */
    uint32_t depth;         /* steps submitted before the first is waited for [2]; to TD_SCALAR_RING */
    bool auto_tune;         /* two devices: buffer_size from the workers and measured loading */
    bool is_serial;         /* one stage after the other, for comparison: nothing overlaps but loading */
    bool verify_transfers;  /* compare checksums of every batch on both devices */
    bool auto_batch;        /* data.batch_size is found from the real plans and the device's memory */
    double start_delay_s;   /* two devices: wait for the prefill, at most this long; 0: not at all */
    td_monitor *monitor;    /* is told what happens when; may be NULL */
    const char *val_dir;    /* NULL: the dataset's own share */
    td_schedule schedule;
    td_optimizer_options optimizer;
    bool average;
    td_state_format state; /* of the optimizer's moments */
    bool host_moments;     /* which the host keeps */
    td_plan_options plan;
    uint64_t model_limit_bytes;
    uint64_t data_limit_bytes;

    uint64_t epochs, max_steps; /* 0: no end */
    double max_minutes;
    uint32_t grad_accum;                                     /* [1] */
    uint64_t save_every, val_every, sample_every, log_every; /* steps; 0: never (log: [10]) */
    const char *
        sample_reference; /* recording in whose voice a family that makes samples itself says samples; NULL: that
                                   * of the first row that validates */
    bool best_by_distance; /* the best is nearest to the recordings when left to itself; else of least loss */
    uint64_t patience;     /* validations without a better one */
    uint32_t max_bad_steps; /* in a row [10] */
    uint64_t seed;

    td_cluster *cluster;          /* ranks that train together; NULL: alone */
    uint64_t bucket_bytes;        /* of gradients that travel at once [25 MB] */
    td_wire_format reduce_format; /* of gradients on their way */
    bool shard_optimizer;         /* each rank keeps its part of the moments */
    bool balances;                /* ranks get micro-batches by measured speed; else all as many */

    const char *run_dir;     /* --checkpoint-dir */
    const char *events_dir;  /* NULL: run_dir */
    const char *config_text; /* of config.ini; NULL: not written */
    bool is_trial;           /* no checkpoint is written: for measuring */
    size_t keep;             /* [5] */
    const char *resume;      /* file; NULL: the newest of run_dir, if any */
    bool reset;              /* begin at step 0 even so */
    const char *init_from;   /* file to take matching tensors from */
    const char *acoustic;    /* voice whose predictions are features of batches; NULL: none */
    const char *freeze;      /* pattern of parameters that stay, with * and ?; several separated by commas */
    const char *dump_step;   /* file for all numbers of the first step, which is then the only one */

    void (*tell)(void *context, const td_train_event *event); /* may be NULL */
    bool (*wants_end)(void *context);                         /* asked at each step; may be NULL */
    void *context;
} td_train_settings;

typedef enum td_train_reason {
    TD_END_DONE,     /* steps or epochs */
    TD_END_TIME,     /* max_minutes */
    TD_END_PATIENCE, /* validation got no better */
    TD_END_ASKED,    /* wants_end */
    TD_END_DUMPED,   /* dump_step */
    TD_END_WISHED,   /* by a file in the folder */
} td_train_reason;

const char *td_train_reason_text(td_train_reason reason); /* "time is up" */

typedef struct td_train_result {
    td_train_reason reason;
    uint64_t step;
    double loss, best_loss, ms_per_step, save_ms; /* save_ms: mean that a checkpoint held up the loop */
    double host_ms_per_step; /* CPU time of the threads that lead batches through the stages, without decoding
                              * and drawing, and without the first steps */
    uint64_t n_skipped, n_saved;
    uint64_t n_items; /* of this session */
    double audio_s;
    uint64_t data_peak_bytes, model_peak_bytes;
    bool is_common;                      /* after a failure: all ranks have failed alike */
    char checkpoint[TD_FILE_PATH_BYTES]; /* the last one; "" if none */
} td_train_result;

/* Runs to its end, with both roles on one device where `data` is `model`. TD_ERR_CONFIG for what is wrong
 * before it starts; a run that diverges is TD_ERR_FORMAT with the step and the tensor, and its last good
 * checkpoint stays. */
td_status td_train_run(td_device *data, td_device *model, const td_train_settings *settings,
                       td_train_result *result);

#endif
