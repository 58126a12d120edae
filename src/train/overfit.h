/* Whether a run learns its rows by heart: what judges rows kept back, their loss or the distance of what the model makes
 * alone, is above its least for some validations in a row while the loss of training goes on falling. Told once. Covered by tests/train/test_train_overfit.c.
 */
#ifndef TD_TRAIN_OVERFIT_H
#define TD_TRAIN_OVERFIT_H

#include <stdbool.h>
#include <stdint.h>

/* Starts as {0}. A run that goes on starts anew: what was before is not known. */
typedef struct td_overfit {
    double sum; /* losses of training since the last validation */
    uint64_t count;
    double mean;                     /* of those before the last validation */
    double least, mean_at_least;     /* the least loss of a validation, and the mean before it */
    uint64_t n_validations, n_above; /* all; in a row above the least */
    bool is_told;
} td_overfit;

/* A step's loss. */
void td_overfit_learn(td_overfit *o, double loss);

/* What a validation found: true where the run is to be told, once. */
bool td_overfit_judge(td_overfit *o, double figure);

#endif
