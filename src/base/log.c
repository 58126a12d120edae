/* Contexts of the log and the lines through them. See log.h. Covered by tests/unit/test_log.c. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

enum { LEVEL_NONE = -1, LINE_BYTES = 2048 };

struct td_log_context {
    atomic_size_t n_references;
    atomic_int max_level; /* LEVEL_NONE once closed; atomic, so that a dropped line takes no lock */
    pthread_mutex_t lock; /* one line at a time */
    td_log_sink sink;
    void *ctx;
    td_log_context *outer; /* retained; may be NULL */
};

static _Thread_local td_log_context *bound;

td_status td_log_open(td_log_sink sink, void *ctx, td_log_level max_level, td_log_context *outer,
                      td_log_context **out)
{
    TD_CHECK(TD_NEW(out));
    atomic_init(&(*out)->n_references, 1);
    atomic_init(&(*out)->max_level, (int)max_level);
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->sink = sink;
    (*out)->ctx = ctx;
    (*out)->outer = td_log_retain(outer);
    return TD_OK;
}

td_log_context *td_log_retain(td_log_context *context)
{
    if (context != NULL) atomic_fetch_add(&context->n_references, 1);
    return context;
}

void td_log_release(td_log_context *context)
{
    while (context != NULL && atomic_fetch_sub(&context->n_references, 1) == 1) {
        td_log_context *outer = context->outer;
        pthread_mutex_destroy(&context->lock);
        free(context);
        context = outer;
    }
}

void td_log_close(td_log_context *context)
{
    if (context == NULL) return;
    pthread_mutex_lock(&context->lock);
    atomic_store(&context->max_level, LEVEL_NONE);
    pthread_mutex_unlock(&context->lock);
    if (bound == context) bound = context->outer;
    td_log_release(context);
}

td_log_context *td_log_bind(td_log_context *context)
{
    td_log_context *former = bound;
    bound = context;
    return former;
}

td_log_context *td_log_bound(void)
{
    return bound;
}

const char *td_log_level_name(td_log_level level)
{
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    return (unsigned)level < sizeof NAMES / sizeof *NAMES ? NAMES[level] : "unknown";
}

static bool takes(const td_log_context *context, td_log_level level)
{
    return (int)level <= atomic_load(&context->max_level);
}

static bool is_wanted(td_log_level level)
{
    const td_log_context *context = bound;
    while (context != NULL && !takes(context, level))
        context = context->outer;
    return context != NULL;
}

static void send_line(td_log_level level, const char *format, va_list args)
{
    char line[LINE_BYTES];
    vsnprintf(line, sizeof line, format, args);
    for (td_log_context *context = bound; context != NULL; context = context->outer) {
        pthread_mutex_lock(&context->lock);
        if (takes(context, level)) context->sink(context->ctx, level, line);
        pthread_mutex_unlock(&context->lock);
    }
}

void td_log(td_log_level level, const char *format, ...)
{
    if (!is_wanted(level)) return;
    va_list args;
    va_start(args, format);
    send_line(level, format, args);
    va_end(args);
}

void td_log_once(td_log_once_flag *flag, td_log_level level, const char *format, ...)
{
    if (!is_wanted(level) || atomic_exchange(&flag->said, true)) return;
    va_list args;
    va_start(args, format);
    send_line(level, format, args);
    va_end(args);
}
