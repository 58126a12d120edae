/* The list of bad rows (problems.h). Covered by tests/data/test_metadata.c. */
#include "data/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

td_status td_problems_add(td_problems *problems, uint32_t line, const char *format, ...)
{
    ++problems->total;
    if (problems->count == TD_PROBLEMS_KEPT) return TD_OK;
    char *message = NULL;
    va_list values;
    va_start(values, format);
    const int length = vasprintf(&message, format, values);
    va_end(values);
    if (length < 0) return TD_FAIL(TD_ERR_HOST_MEMORY, "no memory left for a list of bad rows");
    td_status status =
        td_alloc_grow(&problems->items, &problems->capacity, problems->count + 1, sizeof *problems->items);
    if (status != TD_OK) {
        free(message);
        return status;
    }
    problems->items[problems->count++] = (td_problem){.line = line, .message = message};
    return TD_OK;
}

void td_problems_free(td_problems *problems)
{
    for (size_t i = 0; i < problems->count; ++i)
        free(problems->items[i].message);
    free(problems->items);
    *problems = (td_problems){0};
}
