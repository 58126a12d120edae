/* What a voice predicts for the recordings of a dataset, frame by frame along their own timing: a spectrogram for each
 * row, in host memory. Crops of them are features of a batch (loader.h). Covered by tests/families/test_predictions.c.
 */
#ifndef TD_DATA_PREDICTIONS_H
#define TD_DATA_PREDICTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef struct td_predictions td_predictions;

/* For a dataset of so many rows, none of which has one yet. *out: owned, td_predictions_free(). */
td_status td_predictions_create(size_t n_rows, uint32_t n_mels, td_predictions **out);
void td_predictions_free(td_predictions *predictions);

/* mel [n_frames, n_mels] is copied. A row that has one keeps it. */
td_status td_predictions_put(td_predictions *predictions, uint32_t row, uint32_t n_frames, const float *mel);

/* How many rows have one. */
size_t td_predictions_count(const td_predictions *predictions);

/* Frames first .. first + count of a row, `pad` beyond its end. False, and all of it `pad`, for a row without. */
bool td_predictions_cut(const td_predictions *predictions, uint32_t row, uint32_t first, uint32_t count,
                        float pad, float *to);

#endif
