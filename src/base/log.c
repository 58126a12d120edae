/* The log sink behind a lock. See log.h for why it is process-wide. Covered by tests/unit/test_log.c. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

enum { LEVEL_NONE = -1, LINE_BYTES = 2048 };

/* The level is atomic so that a suppressed line never takes the lock; the lock keeps sink and ctx a pair, and
 * makes lines of several threads reach the sink one after the other. */
static atomic_int max_level_now = LEVEL_NONE;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static td_log_sink sink_now;
static void *sink_ctx;
static atomic_bool has_witness;
static td_log_sink witness_now;
static void *witness_ctx;

void td_log_set_sink(td_log_sink sink, void *ctx, td_log_level max_level)
{
    pthread_mutex_lock(&sink_lock);
    sink_now = sink;
    sink_ctx = ctx;
    atomic_store(&max_level_now, sink ? (int)max_level : LEVEL_NONE);
    pthread_mutex_unlock(&sink_lock);
}

void td_log_set_witness(td_log_sink witness, void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    witness_now = witness;
    witness_ctx = ctx;
    atomic_store(&has_witness, witness != NULL);
    pthread_mutex_unlock(&sink_lock);
}

const char *td_log_level_name(td_log_level level)
{
    static const char *const NAMES[] = {"error", "warning", "info", "debug"};
    return (unsigned)level < sizeof NAMES / sizeof *NAMES ? NAMES[level] : "unknown";
}

static bool is_shown(td_log_level level)
{
    return (int)level <= atomic_load(&max_level_now);
}

static bool is_kept(td_log_level level)
{
    return level <= TD_LOG_WARN && atomic_load(&has_witness);
}

static bool is_wanted(td_log_level level)
{
    return is_shown(level) || is_kept(level);
}

static void send_line(td_log_level level, const char *format, va_list args)
{
    char line[LINE_BYTES];
    vsnprintf(line, sizeof line, format, args);
    pthread_mutex_lock(&sink_lock);
    /* Asked again under the lock: the sink may have been taken away meanwhile. */
    if (is_shown(level)) sink_now(sink_ctx, level, line);
    if (is_kept(level)) witness_now(witness_ctx, level, line);
    pthread_mutex_unlock(&sink_lock);
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
