/* One small run through everything that can fail: both loaders, two devices, memory, a channel, recorded
 * lists with copies and kernels, submissions that wait for each other, waiting, times, and closing it all.
 */
#ifndef TD_TESTS_SCENARIO_H
#define TD_TESTS_SCENARIO_H

#include "tandem/channel.h"

typedef struct scenario {
    td_registry_options options;
    const char *selectors[2]; /* source, destination */
    td_path path;
} scenario;

/* Keeps the drivers in memory until the process ends: the Vulkan loader would otherwise unload them after
 * each run, which takes time and leaves the leak checker without a name for leaks that are theirs. */
void scenario_hold_drivers(void);

/* *outcome is the first failure's record, or has status TD_OK: then all bytes arrived. Whatever happens,
 * everything is closed again. */
void scenario_run(const scenario *given, td_error *outcome);

#endif
