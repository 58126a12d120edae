/* See listen.h. */
#include "support/listen.h"

#include <stdlib.h>

void listen_to(td_log_sink sink, void *ctx, td_log_level max_level)
{
    static td_log_context *log;
    td_log_close(log);
    log = NULL;
    if (sink == NULL) return;
    if (td_log_open(sink, ctx, max_level, NULL, &log) != TD_OK) abort();
    td_log_bind(log);
}
