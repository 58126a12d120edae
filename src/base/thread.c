/* See thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"

typedef struct beginning {
    void *(*run)(void *);
    void *argument;
    td_log_context *log; /* retained */
} beginning;

static void *begin(void *context)
{
    const beginning b = *(beginning *)context;
    free(context);
    td_log_bind(b.log);
    void *result = b.run(b.argument);
    td_log_bind(NULL);
    td_log_release(b.log);
    return result;
}

td_status td_thread_start(pthread_t *out, const char *what, void *(*run)(void *), void *argument)
{
    td_status status = TD_OK;
    beginning *b = NULL;
    TD_TRY(TD_NEW(&b));
    *b = (beginning){.run = run, .argument = argument, .log = td_log_retain(td_log_bound())};
    const int error = pthread_create(out, NULL, begin, b);
    if (error == 0) return TD_OK;
    td_log_release(b->log);
    status = TD_FAIL_NATIVE(TD_ERR_LIMIT, strerrorname_np(error),
                            "a thread for %s could not be started: %s; raise the limit of threads", what,
                            strerrordesc_np(error));
fail:
    free(b);
    return status;
}

void td_condition_open(pthread_cond_t *out)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(out, &attributes); /* cannot fail on Linux */
    pthread_condattr_destroy(&attributes);
}

bool td_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    const struct timespec when = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                  .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(condition, lock, &when) != ETIMEDOUT;
}
