/* What a test expects of calls that return a td_status, and of numbers. A failed expectation leaves the test
 * by a jump: never use these in a host task or another thread. */
#ifndef TD_TESTS_SUPPORT_EXPECT_H
#define TD_TESTS_SUPPORT_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

/* The call must succeed; its message is printed if it does not. */
#define check(call) check_at((call), #call, __FILE__, __LINE__)
void check_at(td_status status, const char *call, const char *file, int line);

/* The call must fail with this status, recorded for this thread, in one line that contains each of `words`
 * (separated by '|'; "" for any). */
#define refuse(expected, words, call) refuse_at((expected), (words), (call), #call, __FILE__, __LINE__)
void refuse_at(td_status expected, const char *words, td_status status, const char *call, const char *file,
               int line);

double relative_error(const float *a, const float *b, size_t n); /* L2 of the difference by L2 of b */

#endif
