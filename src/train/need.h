/* What a run needs, and the rules that decide it: shapes of batches, the length of references, batches ahead,
 * memory. One place for the trainer and for those who plan without training (check-config, advise, profile).
 * Covered by tests/cli/test_check_config.py, tests/cli/test_advise.py and tests/train/test_train_run.c.
 */
#ifndef TD_TRAIN_NEED_H
#define TD_TRAIN_NEED_H

#include "train/learner.h"
#include "train/reduce.h"
#include "train/train.h"

/* Share of a device's memory that a run may count on: the rest is the driver's and the desktop's. */
#define TD_MEMORY_SHARE 0.9

/* Seconds of a reference where a model takes one and the settings name no length. */
#define TD_REFERENCE_S 3.0

/* Lengths of batches are multiples of this. */
uint32_t td_run_round_length(uint32_t n);

/* Batches ahead on the model device, as the settings say or by the batch size. */
uint32_t td_run_prefetch(const td_train_settings *settings);

/* Frames of a reference; 0 for a model that takes none. */
uint32_t td_run_reference_frames(const td_train_settings *settings, const td_mel_config *mel);

/* The longest row of a dataset; 0: not known. */
typedef struct td_lengths {
    uint32_t frames, tokens;
} td_lengths;

/* The largest shape that these settings can meet; one item. */
td_batch_shape td_run_shape(const td_train_settings *settings, td_lengths longest);

/* Whether parameters are updated in the backward pass, so that gradients take next to no memory: where nothing has to
 * be known of all gradients before, and nobody asks for them after. */
bool td_run_updates_in_backward(const td_train_settings *settings, uint32_t n_ranks);

/* Bytes of the features of a batch of this shape. */
td_status td_run_batch_bytes(const td_train_settings *settings, const td_batch_shape *shape, double *out);

/* A step made ready: its store, learners and plans. Starts as {0}; td_ready_close(), also after a failure. */
typedef struct td_ready_step {
    td_store *store;
    td_learner *learners[TD_MAX_LEARNERS];
    td_plan *plans[TD_MAX_LEARNERS];         /* borrowed from the learners */
    const td_graph *graphs[TD_MAX_LEARNERS]; /* the same */
    size_t n_learners;
    td_buckets *buckets[TD_MAX_LEARNERS];  /* of a rank; else NULL, as those that follow */
    td_shards *shards[TD_MAX_LEARNERS];    /* if moments are cut among ranks */
    td_reducer *reducers[TD_MAX_LEARNERS]; /* if there are others */
} td_ready_step;

/* For a shape that need not come from data: the model is fitted to it. */
td_status td_ready_open(td_memory *memory, const td_train_settings *settings, const td_batch_shape *shape,
                        td_ready_step *out);

/* The same as a rank of a cluster, which is borrowed until close, has it. */
td_status td_ready_open_rank(td_memory *memory, const td_train_settings *settings,
                             const td_batch_shape *shape, td_cluster *cluster, td_ready_step *out);

/* A step: `grad_accum` runs of each plan, whose gradients are summed over the ranks while the last one goes on
 * (reduces: not if false, and nothing else travels either), then the updates; as the loop of training has it.
 * Submits; waits for what travels alone. *updated: the last update. */
td_status td_ready_run(td_ready_step *step, uint32_t grad_accum, uint32_t number, bool reduces,
                       td_point *updated);
void td_ready_close(td_ready_step *step);

/* Bytes of its arena and store. */
uint64_t td_ready_bytes(const td_ready_step *step);

/* What the model role needs: a line in the number of items, from plans of two sizes. */
typedef struct td_need {
    double fixed_bytes, item_bytes;
} td_need;

/* `memory` is of the device that is to train, or of a simulated one. */
td_status td_run_need(td_memory *memory, const td_train_settings *settings, td_batch_shape shape,
                      td_need *out);
uint64_t td_need_bytes(const td_need *need, uint32_t items);

/* The most items that fit, in eights where there are many; 0: not one. */
uint32_t td_need_largest(const td_need *need, uint64_t limit_bytes);

#endif
