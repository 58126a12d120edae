/* SPDX-License-Identifier: MIT
 *
 * Status codes and the per-thread error record. Every fallible function of libtandem returns a
 * td_status and leaves the details (what was wrong, where, what to do next) in the record of the
 * calling thread. Nothing in the library prints or exits. Covered by tests/unit/test_status.c.
 */
#ifndef TANDEM_STATUS_H
#define TANDEM_STATUS_H

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* X(name, sentence): one line per code; the sentence is what td_status_text() returns. */
#define TD_STATUS_LIST(X)                                                                                    \
    X(TD_OK, "The call succeeded.")                                                                          \
    X(TD_ERR_ARGUMENT, "A function was called with an argument its contract forbids.")                       \
    X(TD_ERR_CONFIG, "An option, key or value of the configuration is wrong.")                               \
    X(TD_ERR_NOT_FOUND, "What was named does not exist.")                                                    \
    X(TD_ERR_IO, "Reading or writing a file failed.")                                                        \
    X(TD_ERR_FORMAT, "A file's content is not what its format demands.")                                     \
    X(TD_ERR_HOST_MEMORY, "The computer has no memory left for the host side.")                              \
    X(TD_ERR_DEVICE_MEMORY, "The device has no memory left.")                                                \
    X(TD_ERR_LIMIT, "A limit set by the user or by the device would be passed.")                             \
    X(TD_ERR_DEVICE_LOST, "The device stopped answering and cannot be used any more.")                       \
    X(TD_ERR_DRIVER, "A driver refused or failed a call.")                                                   \
    X(TD_ERR_BUILD, "A kernel could not be built for the device.")                                           \
    X(TD_ERR_UNSUPPORTED, "The device or this build cannot do what was asked.")                              \
    X(TD_ERR_TIMEOUT, "Something did not finish in the time it was given.")                                  \
    X(TD_ERR_INTEGRITY, "Data did not arrive as it was sent.")                                               \
    X(TD_ERR_CANCELLED, "The work was cancelled, or given up because something it waits for failed.")

typedef enum td_status {
#define TD_STATUS_ENUM(name, text) name,
    TD_STATUS_LIST(TD_STATUS_ENUM)
#undef TD_STATUS_ENUM
        TD_STATUS_COUNT
} td_status;

/* The last failure of the calling thread. A call that succeeds does not clear it, and may leave the record of a
 * way that it tried in vain: it tells about a call only after that call has failed. Strings are valid until the
 * thread's next failure. Handles that keep their own (td_voice_error(), td_training_error()) have TD_OK after a
 * success. */
typedef struct td_error {
    td_status status;
    char message[768]; /* one line: what was wrong, where, and the next step */
    char native[64];   /* the driver's or system's own name of the error, or "" */
    const char *file;  /* source position where it was found */
    int line;
} td_error;

/* "TD_ERR_LIMIT" and its sentence; both answer for any value. Cannot fail. */
const char *td_status_name(td_status status);
const char *td_status_text(td_status status);

/* Borrowed; never NULL; status TD_OK while the thread has not failed yet. */
const td_error *td_error_last(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
