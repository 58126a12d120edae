/* A stack that several threads decode with, each for texts of its own. Codes that wait for a step at the same moment take
 * it together: its weights are read once for all of them, and what becomes of a text does not depend on the others
 * (stack.h). Nobody waits long for company: for those who took part in the last step, an eighth of its time. Covered by
 * tests/xtts/test_xtts_speak.c.
 */
#ifndef TD_NN_SHARED_STACK_H
#define TD_NN_SHARED_STACK_H

#include "nn/stack.h"

typedef struct td_shared_stack td_shared_stack;

/* The stack belongs to *out from here on, even after a failure. */
td_status td_shared_stack_make(td_stack *stack, td_shared_stack **out);

/* Another user of the same; each leaves, and the last destroys it. */
td_shared_stack *td_shared_stack_join(td_shared_stack *shared);
void td_shared_stack_leave(td_shared_stack *shared); /* NULL is fine */

/* The stack for the caller alone, until the matching call: steps of others wait. */
td_stack *td_shared_stack_take(td_shared_stack *shared);
void td_shared_stack_return(td_shared_stack *shared);

/* For calls that read its weights alone, which never change; or between take and return. */
const td_stack *td_shared_stack_weights(const td_shared_stack *shared);

/* A slot that nobody else has; for good. */
td_status td_shared_stack_new_slot(td_shared_stack *shared, uint32_t *slot);

/* What a user of it keeps for its steps; zeros at first. */
typedef struct td_shared_user {
    uint64_t last_step; /* that it took part in */
} td_shared_user;

/* A step for n texts: logits [n, codes] and latents [n, width]. Waits. */
td_status td_shared_stack_next(td_shared_stack *shared, td_shared_user *user, const td_stack_code *codes,
                               uint32_t n, float *logits, float *latents);

typedef struct td_shared_stats {
    uint64_t n_steps, n_codes; /* steps that were taken, and codes in all of them */
    uint32_t n_waiting;        /* who wait for a step */
} td_shared_stats;
td_shared_stats td_shared_stack_stats(td_shared_stack *shared);

#endif
