/* See stats.h. */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which a share `q` of the sorted values lies. */
static double quantile(const double *sorted, size_t count, double q)
{
    const double position = q * (double)(count - 1);
    const size_t below = (size_t)position;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (position - (double)below) * (sorted[below + 1] - sorted[below]);
}

td_stats td_stats_of(double *values, size_t count)
{
    td_stats out = {0};
    double sum = 0;
    double squares = 0;
    if (count == 0) return out;
    qsort(values, count, sizeof *values, compare);
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    out.mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - out.mean) * (values[i] - out.mean);
    out.std = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    out.min = values[0];
    out.max = values[count - 1];
    out.median = quantile(values, count, 0.5);
    out.p95 = quantile(values, count, 0.95);
    out.cv = out.mean != 0 ? out.std / out.mean : 0;
    out.spread = out.median != 0
                     ? 0.5 * (quantile(values, count, 0.75) - quantile(values, count, 0.25)) / out.median
                     : 0;
    return out;
}
