/* What a voice predicts for the recordings of a dataset, frame by frame along their own timing: a spectrogram for each
 * row, or what else a vocoder makes sound of, in host memory. Crops of them are features of a batch (loader.h). Covered
 * by tests/families/test_predictions.c and tests/xtts/test_xtts_scratch.c.
 */
#ifndef TD_DATA_PREDICTIONS_H
#define TD_DATA_PREDICTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audio/stretch.h"
#include "tandem/status.h"

typedef struct td_predictions td_predictions;

/* For a dataset of so many rows, none of which has one yet. *out: owned, td_predictions_free(). */
td_status td_predictions_create(size_t n_rows, uint32_t width, td_predictions **out);
void td_predictions_free(td_predictions *predictions);

/* They are put in at another pace than that of frames, and stretched to it where they are cut. */
void td_predictions_stretch(td_predictions *predictions, const double factors[TD_STRETCH_STAGES]);

/* values [n, width] are copied. A row that has some keeps them. */
td_status td_predictions_put(td_predictions *predictions, uint32_t row, uint32_t n, const float *values);

/* Further numbers of a whole row, as many for each. */
td_status td_predictions_put_vector(td_predictions *predictions, uint32_t row, const float *vector,
                                    uint32_t width);
void td_predictions_get_vector(const td_predictions *predictions, uint32_t row,
                               float *to); /* zeros for a row without */

/* Of a frame, and of a vector. */
uint32_t td_predictions_width(const td_predictions *predictions);
uint32_t td_predictions_vector_width(const td_predictions *predictions);

/* How many rows have one. */
size_t td_predictions_count(const td_predictions *predictions);

/* Frames first .. first + count of a row, `pad` beyond its end. False, and all of it `pad`, for a row without. */
bool td_predictions_cut(const td_predictions *predictions, uint32_t row, uint32_t first, uint32_t count,
                        float pad, float *to);

#endif
