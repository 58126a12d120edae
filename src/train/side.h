/* A thread for work that must not hold up a step: writing checkpoints, pictures, sounds. Jobs run one at a
 * time in the order they were given. A failure is kept and handed out by the next call of any function here,
 * so that it is seen at the next step. Covered by tests/train/test_train_side.c.
 */
#ifndef TD_TRAIN_SIDE_H
#define TD_TRAIN_SIDE_H

#include <stdint.h>

#include "tandem/status.h"

typedef struct td_side td_side;

/* Does the job; `context` is freed afterwards with free(), whether it was done or not. */
typedef td_status (*td_side_job)(void *context);

/* *out: owned, td_side_destroy(). */
td_status td_side_create(td_side **out);

/* Waits for the jobs that were given. A failure nobody asked for is lost. */
void td_side_destroy(td_side *side);

/* Puts a job at the end; `context` is taken over, also on failure. Returns the failure of an earlier job, if
 * one is kept: this one is then not put in. */
td_status td_side_give(td_side *side, td_side_job job, void *context);

/* The failure of an earlier job, or TD_OK; does not wait. */
td_status td_side_check(td_side *side);

/* Waits until nothing is left to do. */
td_status td_side_wait(td_side *side);

#endif
