/* See stats.h. */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void td_stats_put_json(td_json *json, const char *key, const td_stats *stats, const char *members)
{
    const struct {
        const char *name;
        double value;
    } fields[] = {{"mean", stats->mean}, {"std", stats->std},       {"min", stats->min},
                  {"max", stats->max},   {"median", stats->median}, {"p95", stats->p95},
                  {"cv", stats->cv},     {"spread", stats->spread}};
    td_json_put_object(json, key);
    for (size_t length; *members; members += length + strspn(members + length, " ")) {
        length = strcspn(members, " ");
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i)
            if (strlen(fields[i].name) == length && strncmp(fields[i].name, members, length) == 0)
                td_json_put_double(json, fields[i].name, fields[i].value);
    }
    td_json_end_object(json);
}
