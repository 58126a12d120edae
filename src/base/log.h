/* Leveled log. The library is silent until the program installs a sink; lines then reach it one at a
 * time, from any thread. Errors that a function returns are not logged: they belong to the caller.
 *
 * The sink is the one process-wide mutable state of the library: a warning found deep inside a cache
 * or a driver must reach the user without every function carrying a logger. It is guarded by a lock,
 * and by an atomic level so that a suppressed line costs one load. Covered by tests/unit/test_log.c.
 */
#ifndef TD_BASE_LOG_H
#define TD_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

typedef enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG } td_log_level;

/* Gets one line without a newline, borrowed until it returns. Called from any thread, never from two at
 * once; it must not log itself. */
typedef void (*td_log_sink)(void *ctx, td_log_level level, const char *message);

/* Installs the sink for levels up to `max_level`; NULL drops everything (the default). When it returns,
 * the former sink is no longer running, so its ctx may be freed. ctx: borrowed until the next call. */
void td_log_set_sink(td_log_sink sink, void *ctx, td_log_level max_level);

/* Beside the sink, and also where there is none: who keeps warnings and errors, such as a run that writes
 * them down. The same rules as for the sink; NULL ends it. */
void td_log_set_witness(td_log_sink witness, void *ctx);

/* "error", "warning", "info", "debug". */
const char *td_log_level_name(td_log_level level);

void td_log(td_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define td_log_error(...) td_log(TD_LOG_ERROR, __VA_ARGS__)
#define td_log_warn(...) td_log(TD_LOG_WARN, __VA_ARGS__)
#define td_log_info(...) td_log(TD_LOG_INFO, __VA_ARGS__)
#define td_log_debug(...) td_log(TD_LOG_DEBUG, __VA_ARGS__)

/* A message said once in the life of the flag; zero-initialised, usually a member of the object the message
 * is about. A line that no sink wanted does not count as said. */
typedef struct td_log_once_flag {
    atomic_bool said;
} td_log_once_flag;

void td_log_once(td_log_once_flag *flag, td_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
