/* Leveled log without process-wide state. A context is a receiver of lines; a thread logs to the context that
 * is bound to it, and to nobody while there is none. Threads started with base/thread.h inherit their
 * creator's context, so a warning found deep inside a cache or a driver reaches the run it belongs to without
 * every function carrying a logger. Errors that a function returns are not logged: they belong to the caller.
 * Covered by tests/unit/test_log.c.
 */
#ifndef TD_BASE_LOG_H
#define TD_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "tandem/log.h"
#include "tandem/status.h"

typedef struct td_log_context td_log_context;

/* Receives levels up to `max_level` of the threads it is bound to. `outer` (may be NULL, retained) gets their
 * lines too, by its own level. ctx: borrowed until td_log_close(). *out: owned, td_log_close(). */
td_status td_log_open(td_log_sink sink, void *ctx, td_log_level max_level, td_log_context *outer,
                      td_log_context **out);

/* When it returns, the sink is not running and will not be called again; threads that still have the context
 * log to its outer one. If the calling thread has it, that one is bound instead. NULL is fine. */
void td_log_close(td_log_context *context);

/* Binds a context (or NULL) to the calling thread; returns the former one. Does not own it: bind the former
 * one again before the context is closed. */
td_log_context *td_log_bind(td_log_context *context);

/* What is bound to the calling thread; NULL: nothing. */
td_log_context *td_log_bound(void);

/* A context lives until it is closed and nobody retains it: for who keeps it longer than a call. NULL is
 * fine. */
td_log_context *td_log_retain(td_log_context *context);
void td_log_release(td_log_context *context);

/* "error", "warning", "info", "debug". */
const char *td_log_level_name(td_log_level level);

void td_log(td_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define td_log_error(...) td_log(TD_LOG_ERROR, __VA_ARGS__)
#define td_log_warn(...) td_log(TD_LOG_WARN, __VA_ARGS__)
#define td_log_info(...) td_log(TD_LOG_INFO, __VA_ARGS__)
#define td_log_debug(...) td_log(TD_LOG_DEBUG, __VA_ARGS__)

/* A message said once in the life of the flag; zero-initialised, usually a member of the object the message
 * is about. A line that no receiver wanted does not count as said. */
typedef struct td_log_once_flag {
    atomic_bool said;
} td_log_once_flag;

void td_log_once(td_log_once_flag *flag, td_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
