/* The inside of a training run, shared by its parts: train.c opens and closes it, start.c finds what to go on
 * from, balance.c shares work out, loop.c makes steps, judge.c validates, sample.c lets the model run free, dump.c writes one step out,
 * batch_size.c finds what fits. */
#ifndef TD_TRAIN_TRAIN_INTERNAL_H
#define TD_TRAIN_TRAIN_INTERNAL_H

#include "families/speak.h"
#include "pipeline/batches.h"
#include "pipeline/watch.h"
#include "train/frozen.h"
#include "train/learner.h"
#include "train/overfit.h"
#include "train/predict.h"
#include "train/record.h"
#include "train/reduce.h"
#include "train/run_dir.h"
#include "train/same_data.h"
#include "train/side.h"
#include "train/snapshot.h"
#include "train/train.h"
#include "train/warnings.h"

/* A micro-batch whose scalars were not read yet: of each learner the run of its plan, and the update. */
typedef struct td_pending {
    struct {
        td_shaped_plan *shaped;
        uint64_t run, update;
    } of[TD_MAX_LEARNERS];
    uint64_t step, epoch; /* the step is counted from 1 */
    uint32_t micro;       /* number of the micro-batch in its step */
    bool is_last;         /* of its step: there was an update */
    double lr;
} td_pending;

/* Sums over the micro-batches of a step. */
typedef struct td_step_sums {
    td_train_event event;
    uint32_t count;
} td_step_sums;

typedef struct td_trainer {
    td_train_settings s;
    td_device *device; /* of the model role */
    td_device *data_device;
    td_memory *data_memory, *model_memory;
    td_run_dir *run;
    td_checkpoint *from;          /* what to go on from, or NULL */
    bool resumes;                 /* from `from`, exactly; else only its tensors are taken */
    td_data data, val_data;       /* the second only with has_val */
    bool has_val;                 /* validation has a table of its own */
    td_dataset_settings val_plan; /* of it */
    td_frozen *frozen;            /* parts that nobody trains, on the data device; or NULL */
    td_marks marks;               /* of all rows of `data` */
    td_checkpoint *acoustic;      /* the voice that predicts, or NULL; and what it predicts of both */
    td_predictions *predictions, *val_predictions;
    td_mel_cache *cache, *val_cache;
    td_batches train, val;
    uint32_t n_rooms; /* that batches lie in on the model device */
    char *symbols;    /* owned; of the dataset with those of a model that it goes on from */
    char *unseen;   /* owned; symbols that no training text has, here or in the model that it goes on from */
    char *speakers; /* owned */
    char *bpe_json; /* owned: what is in the file of byte pairs that was named */
    td_checkpoint_info info;
    td_store *store;
    td_speaker *speaker; /* of the store; NULL until the model is first left to itself */
    td_learner *learners[TD_MAX_LEARNERS];
    size_t n_learners;
    uint32_t rank, n_ranks;
    uint32_t n_micro;                      /* micro-batches of a step, of all ranks together */
    td_sampler_part part;                  /* those of this rank */
    td_buckets *buckets[TD_MAX_LEARNERS];  /* by learner; NULL where there is one rank */
    td_shards *shards[TD_MAX_LEARNERS];    /* NULL where moments are not cut among ranks */
    td_reducer *reducers[TD_MAX_LEARNERS]; /* the same */
    char names[TD_TRAIN_TERMS][64];        /* of terms, with their learner's name where there are several */
    td_snapshot *snapshot;
    td_side *side;    /* writes checkpoints */
    td_side *painter; /* draws: a long queue here must not hold up a checkpoint */
    td_record *record;
    td_warnings *warnings;
    td_train_state state;
    uint64_t max_step; /* 0: no end */
    td_train_result *result;

    td_pending pending[TD_SCALAR_RING]; /* oldest first */
    size_t n_pending;
    td_monitor *own_monitor; /* where the caller has none */
    td_watch watch;
    uint64_t next_number; /* of the batch that comes */
    td_step_sums sums;
    uint64_t start_ns, window_ns, paused_ns; /* paused: what in the window was no stepping */
    uint64_t window_step, window_items;
    double window_audio_s;
    uint64_t last_saved_step;
    uint64_t session_steps;
    uint64_t session_ns; /* of stepping */
    uint64_t host_ns;    /* CPU time of this thread for stepping, without the first steps */
    uint64_t save_ns;
    uint32_t n_bad; /* steps in a row */
    bool is_whole;  /* what the model's memory holds is `state`, no part of a step ahead of it */
    double first_loss;
    td_overfit overfit;
    bool judged_budget; /* whether the run is long enough for its family was looked at */
    uint64_t own_items; /* of this rank, not told to the others yet */
    double own_audio_s;
    uint64_t looked_ns;              /* when wishes were last looked for */
    bool wished_stop, wished_sample; /* by files in the folder */
    td_rank_figures *rank_figures;   /* [n_ranks]; owned; NULL where there is one */
    td_travel told;                  /* of gradients and parameters, when they were last told */
    uint64_t rank_items;             /* of this rank, since then */
    double ranks_wait;               /* td_train_event */
    uint64_t agreed;                 /* to end, by all ranks: 1 + td_train_reason; 0: not yet */
} td_trainer;

/* start.c: the checkpoint to go on from (t->from, t->resumes), then its content into the store. */
td_status td_trainer_find_start(td_trainer *t);
td_status td_trainer_join_symbols(td_trainer *t, bool *changed);
td_status td_trainer_list_unseen(td_trainer *t); /* fills in `unseen` */
td_status td_trainer_load_start(td_trainer *t);

/* open_data.c: opens the dataset as t->data; then what it and the model are, as t->info. */
td_status td_trainer_open_data(td_trainer *t);
td_status td_trainer_describe(td_trainer *t);

/* train.c */
td_batch_shape td_trainer_largest_shape(const td_trainer *t, uint32_t items);
/* Adds the scalars of a learner's run times a weight. */
void td_trainer_add(td_trainer *t, size_t learner, const td_scalars *scalars, double weight,
                    td_train_event *event);
td_status td_trainer_tell(td_trainer *t, td_train_event *event);
td_status td_trainer_tell_warnings(td_trainer *t); /* those that came since the last call */

/* train.c: loading begins, and the batches' way to the model device. */
td_status td_trainer_start_batches(td_trainer *t, td_batches *batches, td_monitor *monitor);

/* balance.c: which micro-batches of a step are this rank's (t->part). */
td_status td_trainer_balance(td_trainer *t);

/* loop.c */
td_status td_trainer_loop(td_trainer *t);
td_status td_trainer_save(td_trainer *t, bool is_best);

/* ranks.c: what is trained with, as a number. */
uint64_t td_trainer_hash_data(const td_dataset *dataset);

/* ranks.c: nothing where there is one rank. Before the first step: whether all ranks do the same, and rank 0's
 * parameters to all; after each: sums of scalars, and whether to end (t->agreed); after rank 0 has validated:
 * what it found. */
td_status td_trainer_meet(td_trainer *t); /* first of all; may change settings, on all ranks alike */
td_status td_trainer_compare_ranks(td_trainer *t);
td_status td_trainer_make_buckets(td_trainer *t, uint32_t learner);
td_status td_trainer_open_reducers(td_trainer *t);
td_status td_trainer_least(td_trainer *t, uint32_t *size); /* that any rank has */
td_status td_trainer_share_start(td_trainer *t);
td_status td_trainer_agree(td_trainer *t);
td_status td_trainer_gather_moments(td_trainer *t);  /* for a checkpoint, on rank 0 */
void td_trainer_tell_reduction(const td_trainer *t); /* at the end: how long gradients were on their way */
td_status td_trainer_share_verdict(td_trainer *t, bool *better);

/* rank_figures.c: nothing where there is one rank. Who is there; and at each log line what each did since the last. */
td_status td_trainer_introduce(td_trainer *t, td_train_event *event);
td_status td_trainer_account(td_trainer *t, td_train_event *event);
void td_trainer_note_sums(td_trainer *t, uint64_t batch); /* of a step, for the monitor */

/* judge.c: validates, and with `sample` makes pictures and sounds. *better: the loss was the best so far. */
td_status td_trainer_judge(td_trainer *t, bool sample, bool *better);

/* sample.c: what the model makes of the texts of a batch by itself. */
typedef struct td_free_run {
    float *mel;       /* [B, T, n_mels]; owned */
    uint32_t *counts; /* [B]; owned */
    uint32_t items, frames;
} td_free_run;
void td_free_run_clear(td_free_run *run);
/* A feature of a batch in new host memory. `out` points to a pointer: owned, NULL where the batch has none of
 * this name. */
td_status td_trainer_fetch(const td_trainer *t, const td_batch *batch, const char *name, void *out);
td_status td_trainer_run_free(td_trainer *t, const td_batch *batch, td_free_run *out);

/* What a validation run left of its first batch, read before another plan uses the memory. *out: owned. */
typedef struct td_view td_view;
td_status td_trainer_view(td_trainer *t, td_shaped_plan *shaped, const td_batch *batch, td_view **out);
void td_view_free(td_view *view);

/* Pictures and sounds of the batch's first items. */
td_status td_trainer_show(td_trainer *t, const td_batch *batch, const td_view *view, const float *target,
                          const td_free_run *run);

/* Of a family that makes samples itself: the last checkpoint says texts that are kept back, in the voice of a recording
 * that stays the same. What goes wrong is a warning: the run does not need it. */
td_status td_trainer_speak(td_trainer *t);

/* Mean distance of two spectrograms of n_mels bands along their best alignment, per band and step of the
 * path. */
td_status td_mel_distance(const float *a, uint32_t n_a, const float *b, uint32_t n_b, uint32_t n_mels,
                          double *out);

/* dump.c: one step, all its numbers in a file. */
td_status td_trainer_dump(td_trainer *t);

/* batch_size.c */
td_status td_trainer_find_batch_size(td_trainer *t, uint32_t *out);

#endif
