/* Which commands of a list may overlap: a barrier is needed before a command only if it writes a range that
 * a command since the last barrier read or wrote, or reads one that such a command wrote.
 * Covered by tests/device/test_hazard.c. */
#ifndef TD_DEVICE_HAZARD_H
#define TD_DEVICE_HAZARD_H

#include "device/backend.h"

/* The ranges touched since the last barrier. Zero-initialise; td_hazards_clear frees. */
typedef struct td_hazards {
    struct td_hazard_range *ranges; /* owned */
    size_t count, capacity;
} td_hazards;

/* Notes a command's ranges and sets command->barrier_before. */
td_status td_hazards_add(td_hazards *hazards, td_command *command);
void td_hazards_clear(td_hazards *hazards);

#endif
