/* What the code under test logs, to a function of the test. */
#ifndef TEST_SUPPORT_LISTEN_H
#define TEST_SUPPORT_LISTEN_H

#include "base/log.h"

/* From now on lines of this thread, and of threads that it starts, go to `sink`; NULL: to nobody. */
void listen_to(td_log_sink sink, void *ctx, td_log_level max_level);

#endif
