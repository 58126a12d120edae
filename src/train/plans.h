/* The plans of a run: one for each shape of batch and each use, made when first needed and kept, the least
 * recently used making way; all on one store. Batches are bound where they lie, so that a step copies nothing
 * through the host. Covered by tests/train/test_train_run.c.
 */
#ifndef TD_TRAIN_PLANS_H
#define TD_TRAIN_PLANS_H

#include "data/batch.h"
#include "model/model.h"

typedef enum td_plan_use { TD_USE_TRAIN, TD_USE_VALIDATE } td_plan_use;

typedef struct td_plans_settings {
    td_memory *memory; /* of the model role; borrowed until destroy */
    td_model_config model;
    td_model_losses losses;
    uint64_t seed;
    uint32_t grad_accum;
    bool no_dropout;
    bool average;              /* keep a running average of the parameters */
    const char *const *freeze; /* borrowed until destroy; names of parameters begin so */
    size_t n_freeze;
    td_plan_options plan;
    uint32_t n_slots; /* batches of a loader on the device at a time */
} td_plans_settings;

typedef struct td_plans td_plans;

/* A graph with its plan; borrowed until the next td_plans_get() or destroy. */
typedef struct td_shaped_plan {
    td_model_graph graph;
    td_plan *plan;
    td_plan_use use;
    uint64_t used;  /* when, counted */
    td_span *bound; /* [n_slots]: first feature of the batch that a slot takes; owned */
    uint32_t n_slots, next_slot;
} td_shaped_plan;

/* The store is made for `shape`'s parameters, which are those of every shape, and not filled. *out: owned. */
td_status td_plans_create(const td_plans_settings *settings, const td_model_shape *shape, td_plans **out);
void td_plans_destroy(td_plans *plans);

td_store *td_plans_store(const td_plans *plans); /* borrowed */

td_status td_plans_get(td_plans *plans, td_plan_use use, const td_model_shape *shape, td_shaped_plan **out);

/* The slot that takes in this batch: each feature that the graph has an input for by the same name. */
td_status td_shaped_plan_bind(td_shaped_plan *shaped, const td_batch *batch, uint32_t *slot);

#endif
