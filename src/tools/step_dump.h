/* Everything another framework needs to judge a step: the batch, the parameters before, loss and gradients of
 * the first step, and the parameters after ten updates, as safetensors (batch.*, param.*, grad.*, loss,
 * updated.*). tests/peers/step.py reads it. */
#ifndef TD_TOOLS_STEP_DUMP_H
#define TD_TOOLS_STEP_DUMP_H

#include "graph/optimizer.h"
#include "tools/step_work.h"

enum { TD_STEP_DUMP_UPDATES = 10 };

/* Slot 0 of the plan must be filled. Runs the updates, so the store is left changed. */
td_status td_step_dump(const char *path, const td_step_work *work, td_store *store, td_plan *plan,
                       td_optimizer *optimizer);

#endif
