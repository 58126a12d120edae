/* How functions fail: record the details once, where the fault is found, and hand the code up.
 *
 * A function with nothing to clean up uses TD_CHECK and TD_REFUSE_IF, which return at once, or says
 * `return TD_FAIL(code, "...")`. One that must clean up declares `td_status status = TD_OK;`, uses TD_TRY and
 * TD_FAIL_IF, and has one `fail:` label that cleans up in reverse order and returns `status`. The compiler refuses
 * a mixture: TD_TRY without a label, a label that nothing goes to.
 */
#ifndef TD_BASE_ERROR_H
#define TD_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "tandem/status.h"

/* Records the failure for this thread and returns `status`. `native` may be NULL. */
td_status td_error_set(td_status status, const char *native, const char *file, int line, const char *format,
                       ...) __attribute__((format(printf, 5, 6)));

/* Puts a copy of a record (made on another thread, say) into this thread's record; returns its status. */
td_status td_error_adopt(const td_error *error);

/* Prepends "context: " to this thread's message. Returns the status, so it can be chained. */
td_status td_error_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __clang_analyzer__ /* cannot see that a recorded failure is never TD_OK */
#define TD_FAIL(code, ...) ((void)td_error_set((code), NULL, __FILE__, __LINE__, __VA_ARGS__), (code))
#define TD_FAIL_NATIVE(code, native, ...)                                                                    \
    ((void)td_error_set((code), (native), __FILE__, __LINE__, __VA_ARGS__), (code))
#else
#define TD_FAIL(code, ...) td_error_set((code), NULL, __FILE__, __LINE__, __VA_ARGS__)
#define TD_FAIL_NATIVE(code, native, ...) td_error_set((code), (native), __FILE__, __LINE__, __VA_ARGS__)
#endif

#define TD_CHECK(expr)                                                                                       \
    do {                                                                                                     \
        td_status checked_ = (expr);                                                                         \
        if (checked_ != TD_OK) return checked_;                                                              \
    } while (0)

#define TD_REFUSE_IF(cond, code, ...)                                                                        \
    do {                                                                                                     \
        if (cond) return TD_FAIL(code, __VA_ARGS__);                                                         \
    } while (0)

#define TD_TRY(expr)                                                                                         \
    do {                                                                                                     \
        status = (expr);                                                                                     \
        if (status != TD_OK) goto fail;                                                                      \
    } while (0)

#define TD_FAIL_IF(cond, code, ...)                                                                          \
    do {                                                                                                     \
        if (cond) {                                                                                          \
            status = TD_FAIL(code, __VA_ARGS__);                                                             \
            goto fail;                                                                                       \
        }                                                                                                    \
    } while (0)

/* Zeroed memory or a recorded TD_ERR_HOST_MEMORY. *out is NULL on failure. count*size is checked. */
td_status td_alloc_zeroed(size_t count, size_t size, void *out);
#define TD_NEW(out) td_alloc_zeroed(1, sizeof **(out), (out))
#define TD_NEW_ARRAY(out, count) td_alloc_zeroed((count), sizeof **(out), (out))

/* Grows *array (capacity *capacity, elements of `size` bytes) to hold at least `need`; doubles.
 * New elements are zeroed. On failure the old array stays valid. */
td_status td_alloc_grow(void *array, size_t *capacity, size_t need, size_t size);

#endif
