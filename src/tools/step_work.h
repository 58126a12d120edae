/* What `bench step` runs: a graph with its gradients, and a made-up batch. */
#ifndef TD_TOOLS_STEP_WORK_H
#define TD_TOOLS_STEP_WORK_H

#include "families/family.h"
#include "graph/plan.h"
#include "tools/sketch.h"

typedef struct td_step_input {
    td_tensor tensor;
    void *words; /* as they lie in memory; owned */
    size_t n;
    bool is_uint;
} td_step_input;

enum { TD_STEP_INPUTS = 12 };

typedef struct td_step_work {
    td_graph *graph; /* owned */
    td_step_input inputs[TD_STEP_INPUTS];
    size_t n_inputs;
    bool is_cut; /* gradients are, as the family's usual settings have it */
} td_step_work;

void td_step_work_clear(td_step_work *work);

/* A sketch and a batch of noise, the same every time. `ragged`: lengths from the whole down to half, instead
 * of the whole. is_scaled: gradients are larger by the store's loss scale. *out is owned:
 * td_step_work_clear(). */
td_status td_step_work_sketch(const td_sketch_size *size, bool ragged, bool is_scaled, td_step_work *out);

/* The same of a model that is trained: a preset with `keys`, "KEY=VALUE KEY=VALUE" or NULL. size->items, tokens and frames
 * count. */
td_status td_step_work_model(const td_family *family, const char *preset, const char *keys,
                             const td_sketch_size *size, bool ragged, bool is_scaled, td_step_work *out);

/* A made-up batch into the first slot of a plan of a graph that somebody else has built. */
td_status td_step_work_fill(const td_graph *graph, td_plan *plan, const td_batch_shape *shape);

#define TD_STEP_WORK_SEED 1 /* of first values */

#endif
