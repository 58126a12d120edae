/* Summaries of repeated measurements. Covered by tests/unit/test_stats.c. */
#ifndef TD_BASE_STATS_H
#define TD_BASE_STATS_H

#include <stddef.h>

#include "base/json.h"

typedef struct td_stats {
    double mean, std, min, max;
    double median, p95; /* by linear interpolation between neighbours */
    double cv;          /* std / mean; 0 where the mean is 0 */
    double spread;      /* half the distance of the quartiles, as a share of the median */
} td_stats;

/* Sorts `values` in place. All zero for no values. Cannot fail. */
td_stats td_stats_of(double *values, size_t count);

/* An object of the named members: "mean p95 max". */
void td_stats_put_json(td_json *json, const char *key, const td_stats *stats, const char *members);

#endif
