/* What is wrong with the rows of a dataset: a list that keeps the first messages and counts all. Messages do
 * not repeat the file; whoever shows them writes FILE:LINE: before. One thread at a time. Covered by
 * tests/data/test_metadata.c.
 */
#ifndef TD_DATA_PROBLEMS_H
#define TD_DATA_PROBLEMS_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum { TD_PROBLEMS_KEPT = 1000 };

typedef struct td_problem {
    uint32_t line;
    char *message; /* owned by the list */
} td_problem;

/* Starts as {0}; td_problems_free(). */
typedef struct td_problems {
    td_problem *items; /* in the order they were found */
    size_t count;      /* at most TD_PROBLEMS_KEPT */
    size_t capacity;
    size_t total; /* rows that are bad, kept or not */
} td_problems;

td_status td_problems_add(td_problems *problems, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void td_problems_free(td_problems *problems);

#endif
