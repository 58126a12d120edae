/* What a voice predicts for the recordings of a run, along their own timing, so that a vocoder learns to make sound of
 * what it will be given. Covered by tests/families/test_predictions.c.
 */
#ifndef TD_TRAIN_PREDICT_H
#define TD_TRAIN_PREDICT_H

#include "data/data.h"
#include "data/predictions.h"
#include "families/checkpoint.h"

/* Lets a dataset have the tokens that the voice knows. `settings` borrows from `voice`. */
void td_predict_tokens(const td_checkpoint *voice, td_dataset_settings *settings);

/* All rows of data that train or validate, on its device. TD_ERR_CONFIG for a voice that cannot, or of another front
 * end or other speakers. *out: owned, td_predictions_free(). */
td_status td_predict_rows(const td_checkpoint *voice, const td_data *data, td_predictions **out);

#endif
