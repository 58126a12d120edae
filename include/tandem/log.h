/* SPDX-License-Identifier: MIT
 *
 * What the library has to say beside results and errors: lines with a level. It is silent unless a handle was
 * made with a receiver for them. Covered by tests/unit/test_log.c.
 */
#ifndef TANDEM_LOG_H
#define TANDEM_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_log_level { TD_LOG_ERROR, TD_LOG_WARN, TD_LOG_INFO, TD_LOG_DEBUG } td_log_level;

/* Gets one line without a newline, borrowed until it returns. Called from any thread, never from two at
 * once; it must not log itself, nor call into the handle it belongs to. */
typedef void (*td_log_sink)(void *ctx, td_log_level level, const char *message);

#ifdef __cplusplus
}
#endif
#endif
