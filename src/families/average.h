/* The mean of voices that learnt from one start: fine-tunings with different seeds end in different places of one
 * valley, and their middle lies in it too (docs/training.md). Covered by tests/cli/test_average.py.
 */
#ifndef TD_FAMILIES_AVERAGE_H
#define TD_FAMILIES_AVERAGE_H

#include "families/checkpoint.h"

/* Writes a slim voice, each number of which is the mean of those that `voices` speak with (their running averages where
 * they have them). What else is in the file is the first's; a vocoder inside is left out. TD_ERR_CONFIG names the first
 * thing in which the models differ. */
td_status td_average_write(td_checkpoint *const *voices, size_t n, const char *path);

#endif
