/* Terminal progress: label, done/total, rate, time left and a free tail. On a terminal one line is redrawn,
 * cut to the width it has at that moment; elsewhere plain lines appear now and then. It writes only to the
 * FILE it is given, and may be updated from any thread. Covered by tests/unit/test_progress.c.
 */
#ifndef TD_BASE_PROGRESS_H
#define TD_BASE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tandem/status.h"

typedef struct td_progress_state {
    const char *label;
    uint64_t done;
    uint64_t total;         /* 0 = not known: no share, no time left */
    double rate_per_second; /* 0 = not known yet */
    const char *tail;
    double left_s; /* a better estimate than the rate gives; 0 = none */
} td_progress_state;

/* The line for `state`, at most `width` terminal columns (an ellipsis marks a cut) and always whole UTF-8
 * characters within `capacity` bytes. Control characters become spaces. */
void td_progress_format(const td_progress_state *state, size_t width, char *out, size_t capacity);

typedef struct td_progress td_progress;

/* *out: owned, td_progress_destroy(). file and label: borrowed until destroy. `plain_interval_s`: least time
 * between two lines when `file` is not a terminal. */
td_status td_progress_create(FILE *file, const char *label, uint64_t total, double plain_interval_s,
                             td_progress **out);

/* Updates the state; draws if it is time. The rate is measured from the first update on. */
void td_progress_update(td_progress *progress, uint64_t done, const char *tail_format, ...)
    __attribute__((format(printf, 3, 4)));

/* The time left, shown from now on instead of what the rate gives; for work that may end before its total.
 * 0 or a value that is not finite: back to the rate. */
void td_progress_tell_left(td_progress *progress, double left_s);

/* Takes the line off the terminal, so that something else can be printed; the next update draws it again. */
void td_progress_clear(td_progress *progress);

/* Draws the last state, ends the line if one is open, and frees. */
void td_progress_destroy(td_progress *progress);

#endif
