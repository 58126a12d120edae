/* See expect.h. */
#include "support/expect.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void check_at(td_status status, const char *call, const char *file, int line)
{
    if (status == TD_OK) return;
    print_error("%s\n    gave %s: %s\n", call, td_status_name(status), td_error_last()->message);
    _fail(file, line);
}

static bool contains_all(const char *text, const char *words)
{
    char copy[256];
    char *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strsep(&rest, "|"); word; word = strsep(&rest, "|")) {
        if (!strstr(text, word)) return false;
    }
    return true;
}

void refuse_at(td_status expected, const char *words, td_status status, const char *call, const char *file,
               int line)
{
    const td_error *error = td_error_last();
    const bool recorded = error->status == status && error->message[0] && !strchr(error->message, '\n');
    if (status == expected && recorded && contains_all(error->message, words)) return;
    print_error("%s\n    gave %s: %s\n    instead of %s with \"%s\" in its line\n", call,
                td_status_name(status), status == TD_OK ? "" : error->message, td_status_name(expected),
                words);
    _fail(file, line);
}

double relative_error(const float *a, const float *b, size_t n)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference) / (sqrt(size) + 1e-12);
}
