/* Before a voice's vocoder is trained: what the voice's frozen parts make of all recordings (families/listener.h), once, on
 * the data device; kept in the cache folder by content. Covered by tests/xtts/test_xtts_scratch.c.
 */
#ifndef TD_TRAIN_HEAR_H
#define TD_TRAIN_HEAR_H

#include "data/data.h"
#include "families/listener.h"

/* Whether a run of this model hears its recordings before. */
bool td_hears(const td_model_config *model);

/* All rows of data that train or validate; those that cannot be heard are left out of both from then on. TD_ERR_CONFIG
 * where none is left. *out: owned, td_predictions_free(). */
td_status td_hear_rows(const td_checkpoint *voice, td_data *data, td_predictions **out);

#endif
