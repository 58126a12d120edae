/* Learning rates by the number of the update: noam, cosine (with or without restarts), exponential, constant.
 * All rise linearly during the warm-up to `lr` and join their curve there. A pure function of the step:
 * resuming needs no state. Does not look at losses. Covered by tests/unit/test_schedule.c.
 */
#ifndef TD_GRAPH_SCHEDULE_H
#define TD_GRAPH_SCHEDULE_H

#include <stdint.h>

#include "tandem/status.h"

/* X(NAME, name of the option's value) */
#define TD_SCHEDULE_LIST(X)                                                                                  \
    X(NOAM, noam)                                                                                            \
    X(COSINE, cosine)                                                                                        \
    X(EXPONENTIAL, exponential)                                                                              \
    X(CONSTANT, constant)

typedef enum td_schedule_kind {
#define TD_SCHEDULE_ENUM(upper, name) TD_SCHEDULE_##upper,
    TD_SCHEDULE_LIST(TD_SCHEDULE_ENUM)
#undef TD_SCHEDULE_ENUM
        TD_SCHEDULE_COUNT
} td_schedule_kind;

/* With W = max(warmup_steps, 1), n = step + 1 and t = n - W:
 *   n <= W       lr * n / W
 *   noam         lr * sqrt(W / n)
 *   cosine       min_lr + (lr - min_lr) * (1 + cos(pi * p)) / 2; p runs from 0 to 1 in decay_steps and stays,
 *                or, with restarts, starts at 0 again: period k has decay_steps * restart_multiplier^k steps
 *   exponential  max(min_lr, lr * decay_rate^(t / decay_steps))
 *   constant     lr
 * Each kind reads only the members its line names. */
typedef struct td_schedule {
    td_schedule_kind kind;
    double lr; /* the peak */
    double min_lr;
    uint64_t warmup_steps;
    uint64_t decay_steps;
    double decay_rate;         /* in (0, 1] */
    double restart_multiplier; /* 0: no restarts; otherwise >= 1 */
} td_schedule;

/* Whether every step gives a rate that is finite and above 0, also as a float. TD_ERR_CONFIG names the value
 * that does not fit and what to put. */
td_status td_schedule_check(const td_schedule *schedule);

/* The rate of the update after `step` others. The schedule must have passed the check. Cannot fail. */
double td_schedule_lr(const td_schedule *schedule, uint64_t step);

#endif
