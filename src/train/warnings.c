/* See warnings.h. */
#include "train/warnings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

enum { MOST = 16 };

struct td_warnings {
    pthread_mutex_t lock;
    td_log_context *log;                /* in front of what the thread had; that one gets the lines too */
    char lines[MOST][TD_WARNING_BYTES]; /* oldest first */
    size_t count;
};

static void keep(void *context, td_log_level level, const char *message)
{
    td_warnings *w = context;
    if (level != TD_LOG_WARN) return;
    pthread_mutex_lock(&w->lock);
    if (w->count < MOST) snprintf(w->lines[w->count++], TD_WARNING_BYTES, "%s", message);
    pthread_mutex_unlock(&w->lock);
}

td_status td_warnings_open(td_warnings **out)
{
    TD_CHECK(TD_NEW(out));
    pthread_mutex_init(&(*out)->lock, NULL);
    TD_CHECK(td_log_open(keep, *out, TD_LOG_WARN, td_log_bound(), &(*out)->log));
    td_log_bind((*out)->log);
    return TD_OK;
}

void td_warnings_close(td_warnings *w)
{
    if (w == NULL) return;
    td_log_close(w->log);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

bool td_warnings_take(td_warnings *w, char out[TD_WARNING_BYTES])
{
    pthread_mutex_lock(&w->lock);
    const bool found = w->count > 0;
    if (found) {
        memcpy(out, w->lines[0], TD_WARNING_BYTES);
        memmove(w->lines[0], w->lines[1], --w->count * TD_WARNING_BYTES);
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}
