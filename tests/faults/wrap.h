/* Allocations of the project's own code, and the threads it starts, as points of a walk: the linker's --wrap
 * sends those calls through here; what drivers and system libraries do does not come by. For programs that
 * are linked so (tests/CMakeLists.txt). */
#ifndef TD_TESTS_WRAP_H
#define TD_TESTS_WRAP_H

#include <stdbool.h>

/* From now on they count, or no longer. */
void wrap_open(bool open);

#endif
