/* What can be wrong with a row of a dataset, one row of a table for each: what is measured, what is too much beside
 * what is usual in the dataset, and what to do. Measuring rows is dataset_check.h's. Covered by
 * tests/data/test_row_checks.c and tests/cli/test_dataset_check.py.
 */
#ifndef TD_TOOLS_ROW_CHECKS_H
#define TD_TOOLS_ROW_CHECKS_H

#include <stdbool.h>

#include "text/lang.h"
#include "tools/row_sound.h"

/* All that is known of a row. */
typedef struct td_checked_row {
    uint32_t row;      /* of the dataset */
    const char *text;  /* as the table has it; borrowed */
    double characters; /* of the text as it is spoken */
    double better;     /* td_fit_row; NAN: not judged */
    td_lang told, found;
    int lead;      /* of the language that was found before the told one: points of td_detector_compare() */
    bool is_heard; /* the rest is of its sound */
    td_row_sound sound;
    double clipped_share;           /* of the samples: at full scale, in any channel */
    uint32_t same_sound, same_text; /* the earlier checked row that has the same; UINT32_MAX: none */
} td_checked_row;

typedef enum td_check_side { TD_CHECK_HIGH, TD_CHECK_LOW, TD_CHECK_BOTH } td_check_side;

/* What a finding tells beside what is wrong. */
typedef enum td_check_tells {
    TD_TELLS_VALUE,
    TD_TELLS_LANGUAGE,
    TD_TELLS_SAME_SOUND,
    TD_TELLS_SAME_TEXT
} td_check_tells;

/* A limit lies beyond the median by the greatest of `sigmas` robust deviations (1.48 MAD), `least`, `least_share` of the
 * median, and `tail` times the distance of the value at 80 %; then it is moved between `never` (what is nearer is never
 * accused) and `always` (what is further is always accused). Both equal: an absolute limit. */
typedef struct td_row_check {
    const char *name; /* of the finding */
    td_check_tells tells;
    const char *unit; /* of the value; NULL: it is not told */
    const char *what; /* is wrong, for people */
    const char *advice;
    const char *remark;                           /* on the dataset if its median is poor; NULL: none */
    bool leaves_out;                              /* --fix leaves such rows out */
    double (*measure)(const td_checked_row *row); /* NAN: cannot be said */
    td_check_side side;
    double sigmas, least, least_share, tail, never, always, poor;
} td_row_check;

size_t td_row_check_count(void);
const td_row_check *td_row_check_at(size_t i);

typedef struct td_check_limits {
    double usual; /* the median; NAN: no row can be judged */
    double low, high;
} td_check_limits;

/* Sorts `values` in place. */
td_check_limits td_row_check_limits(const td_row_check *check, double *values, size_t count);

/* How far a value is past the limits: above 1, compared with how far they are from what is usual; 0 within them. */
double td_row_check_excess(const td_check_limits *limits, double value);

#endif
