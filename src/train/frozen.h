/* The parts of a family that nobody trains (families/family.h), ready for loaders: their parameters on the data
 * device, from a checkpoint or from the seed, and copies of them for the checkpoints to come. Covered by
 * tests/families/test_content.c.
 */
#ifndef TD_TRAIN_FROZEN_H
#define TD_TRAIN_FROZEN_H

#include "data/data.h"
#include "families/checkpoint.h"

typedef struct td_frozen td_frozen;

/* `memory` is that of the data role; it and `model` are borrowed until close. `from`: what a run goes on from
 * (`resumes`: every tensor must be there) or is initialised from; NULL: nothing. *out: owned, NULL for a
 * family without such parts. */
td_status td_frozen_open(td_memory *memory, const td_model_config *model, uint64_t seed,
                         const td_checkpoint *from, bool resumes, td_frozen **out);

/* Loaders of the parts are closed before. NULL is fine. */
void td_frozen_close(td_frozen *frozen);

/* Lets data make what the parts make; what they make of recordings is kept in the cache folder of the first data. */
td_status td_frozen_join(td_frozen *frozen, td_data *data);

/* Tensors that came from what the run is initialised from. */
size_t td_frozen_taken(const td_frozen *frozen);

/* What checkpoints hold of them; borrowed. */
const td_checkpoint_tensor_data *td_frozen_tensors(const td_frozen *frozen, size_t *count);

#endif
