/* What the program needs of td_training beyond include/tandem/train.h: options it has read itself, and the
 * devices to show where one was named wrongly. */
#ifndef TD_SETTINGS_TRAINING_H
#define TD_SETTINGS_TRAINING_H

#include "base/options.h"
#include "tandem/device.h"
#include "tandem/train.h"

/* A training of options of a table with the keys of settings/table.h, borrowed until it is freed. It logs
 * where the thread that runs it does. *out is owned. */
td_status td_training_create_for(td_options *options, td_training **out);

/* Chooses the devices of both roles; running does so first where it was not done. */
td_status td_training_choose_devices(td_training *training);

/* NULL before the devices were chosen, or looked for. */
const td_registry *td_training_registry(const td_training *training);

/* Of the processes that train together: their number is known once the devices were chosen. */
uint32_t td_training_rank(const td_training *training);
uint32_t td_training_ranks(const td_training *training);

/* Whether this process leaves it to rank 0 to tell what happens: but for what failed here alone. */
bool td_training_is_silent(const td_training *training);

#endif
