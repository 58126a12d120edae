/* A learner: the graph that it builds for each shape of batch and each use, with the plans of those, made
 * when first needed and kept, the least recently used making way; and the optimizer of the parameters it
 * updates. All learners of a run share one store. Batches are bound to plans by the names of their features.
 * Covered by tests/train/test_train_run.c and tests/families.
 */
#ifndef TD_TRAIN_LEARNER_H
#define TD_TRAIN_LEARNER_H

#include "families/family.h"
#include "graph/bucket.h"
#include "graph/optimizer.h"

typedef enum td_plan_use { TD_USE_TRAIN, TD_USE_VALIDATE } td_plan_use;

typedef struct td_learner_settings {
    td_store *store; /* for the family's learners; borrowed until close */
    td_model_config model;
    uint32_t number; /* in the family's list */
    uint64_t seed;
    uint32_t grad_accum; /* 0: 1 */
    bool no_dropout;
    const char *freeze; /* borrowed until close */
    td_plan_options plan;
    bool in_backward;          /* plans update, each parameter as soon as they can: optimizer.h */
    td_shards *shards;         /* of its moments; NULL: all are the store's */
    const td_buckets *buckets; /* of its gradients, each of which is to have a point; NULL: none */
    uint32_t n_slots;          /* batches of a loader on the device at a time */
    td_pace pace;              /* of the run; the learner may have its own */
} td_learner_settings;

typedef struct td_learner td_learner;

/* A graph with its plan; borrowed until the next td_learner_plan() or close. */
typedef struct td_shaped_plan {
    td_graph *graph;
    td_batch_shape shape;
    td_plan *plan;
    td_plan_use use;
    uint64_t used;  /* when, counted */
    td_span *bound; /* [n_slots]: first feature of the batch that a slot takes; owned */
    uint32_t n_slots, next_slot;
} td_shaped_plan;

/* *out: owned, td_learner_close() before the store. */
td_status td_learner_open(const td_learner_settings *settings, td_learner **out);
void td_learner_close(td_learner *learner);

const char *td_learner_name(const td_learner *learner);
td_optimizer *td_learner_optimizer(const td_learner *learner); /* borrowed */
const td_pace *td_learner_pace(const td_learner *learner);     /* its own; borrowed */
double td_learner_rate(const td_learner *learner,
                       uint64_t step); /* of learning, in the update after `step` others */

td_status td_learner_plan(td_learner *learner, td_plan_use use, const td_batch_shape *shape,
                          td_shaped_plan **out);

/* The slot that takes in this batch: each feature that the graph has an input for by the same name. Inputs
 * that batches do not have get what the family says of `step`. */
td_status td_learner_bind(const td_learner *learner, td_shaped_plan *shaped, const td_batch *batch,
                          uint64_t step, uint32_t *slot);

#endif
