/* Walking over faults: the same scenario again and again, with the first, second, third ... point failing,
 * until one run ends without having met the fault. So every point is tried, and a new one is tried as soon
 * as it exists. A run that crashes, hangs, leaks or reports nonsense fails the test and names its point.
 */
#ifndef TD_TESTS_WALK_H
#define TD_TESTS_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "tandem/status.h"

/* Arms the fault at point n >= 1, runs, disarms. Returns whether it fired; *outcome is the record of the
 * failure, or has status TD_OK. */
typedef bool (*walk_run)(const void *context, uint64_t n, td_error *outcome);

/* Prints how many points were tried, and returns that. At least `least` must be: a fault that cannot be armed
 * would pass otherwise. A build that is told to take a share (support/share.h) tries one point in each so
 * many. */
uint64_t walk_all_points(const char *name, uint64_t least, walk_run run, const void *context);

/* The same at `count` of all points, spread evenly, for runs that are too long to be made thousands
 * of times. A run is told n as above; the first one, with an n past all points, counts them and has to
 * succeed. TANDEM_FAULT_MOMENTS overrides the count, or asks for walk_places() with the word `places`;
 * TANDEM_FAULT_AT names one point, as a failure does. */
uint64_t walk_some_points(const char *name, uint64_t count, walk_run run, const void *context);

/* The same from every place in the program (places.h) that calls come from: the first and the last call from
 * there. A run is told n as above, but the n-th call from the place is what fails: the order in which threads
 * come by does not matter. TANDEM_FAULT_FROM leaves out the points before that one, of a walk that was broken
 * off. */
uint64_t walk_places(const char *name, walk_run run, const void *context);

/* ---------------------------------------------------------------- the fault itself */

/* Call n since then fails, or call n from the place that is being walked; with `for_ever` all later ones too.
 */
void walk_arm(uint64_t n, bool for_ever);

/* Returns whether it fired. */
bool walk_disarm(void);

/* Armed for ever: the fault stands for a device that is lost, not for a passing shortage. */
bool walk_lasts(void);

/* Counts a call; true if it has to fail. Any thread; false while disarmed. */
bool walk_fails(const char *call);

#endif
