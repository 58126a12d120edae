/* A copy of all that training changes, taken between two steps without waiting: the device copies into
 * pinned memory behind the steps already queued, and the side thread (side.h) waits for that copy, hashes it
 * and writes the file. One snapshot is under way at a time. Covered by tests/train/test_train_run.c.
 */
#ifndef TD_TRAIN_SNAPSHOT_H
#define TD_TRAIN_SNAPSHOT_H

#include "data/sampler.h"
#include "families/checkpoint.h"
#include "graph/shard.h"
#include "train/run_dir.h"
#include "train/side.h"

/* What a run must know to go on, besides the store. The same bits go in and come out. */
typedef struct td_train_state {
    uint64_t step; /* updates done, skipped ones too */
    td_sampler_state sampler;
    uint64_t seed;
    uint64_t data; /* hash of what is trained with; 0: not known */
    uint32_t batch_size, grad_accum;
    double best_loss; /* of validation, or the distance; not finite: none yet */
    bool best_by_distance;
    uint64_t best_step;
    uint64_t val_step; /* last validated; 0: none yet */
    uint64_t n_stale;  /* validations since the best one */
    double loss;       /* last known, to look at */
    double val_loss;   /* the same */
    uint64_t n_skipped;
} td_train_state;

typedef struct td_snapshot td_snapshot;

/* Records the copies of a store, made for a family's learners, and takes the pinned memory. What nobody updates is not
 * copied where info->rest has it. `constants` are tensors that never change, written along. Where moments are cut among ranks, `shards` (by learner; NULL
 * ones where they are not) has them, and was gathered before each save. All is borrowed until destroy. *out: owned. */
td_status td_snapshot_create(td_memory *memory, td_store *store, const td_checkpoint_info *info,
                             td_shards *const *shards, const td_checkpoint_tensor_data *constants,
                             size_t n_constants, td_snapshot **out);

/* About what a checkpoint of it takes on the disk. */
uint64_t td_snapshot_bytes(const td_snapshot *snapshot);

/* The side thread must be done with it. */
void td_snapshot_destroy(td_snapshot *snapshot);

typedef struct td_snapshot_order {
    td_train_state state;
    const td_checkpoint_info *info; /* borrowed until the side thread is done */
    td_run_dir *run;                /* the same */
    size_t keep;
    bool is_best; /* best.safetensors too */
} td_snapshot_order;

/* Submits the copy and gives the writing to the side thread; waits only if the one before is still being
 * written. */
td_status td_snapshot_save(td_snapshot *snapshot, td_side *side, const td_snapshot_order *order);

/* Puts a checkpoint's content into the store and tells the state it was written with. TD_ERR_FORMAT if it
 * has nothing to go on from (a slim one). */
td_status td_snapshot_load(const td_checkpoint *checkpoint, td_store *store, td_shards *const *shards,
                           td_train_state *out);

#endif
